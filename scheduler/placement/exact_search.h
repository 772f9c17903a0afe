// SPDX-License-Identifier: MIT
// The best plan of a short chain when nothing streams in decode: certificates of prices are loose
// there, and a few layers leave little to mix.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "scheduler/placement/layer_mix.h"
#include "scheduler/placement/option_table.h"

namespace ballast::scheduler {

/// Longer chains are not searched.
constexpr std::size_t kExactGroupsMax = 12;
constexpr std::size_t kExactOptionsMax = 6;

struct ExactChoice {
    Choice choice = {};
    double seconds = 0.0;
};

/// The few options of a group that are worth searching, none of which streams: both sides whole,
/// and those that are cheapest at this price of memory; in a very short chain also some between.
std::vector<int> options_to_search(const OptionTable& table,
                                   std::size_t group,
                                   double memory_price);

/// The choice of least decode time within the memory, where group i may take the options whose
/// indices are in allowed[i]; options that stream are passed over. Nothing if none fits, or if
/// there are too many chains to look at (on unified memory). Exact in the model: a partial chain is
/// dropped only if another takes no more memory and is nowhere later.
///
/// Preconditions: at most kExactGroupsMax groups, one list each.
std::optional<ExactChoice> exact_choice(const OptionTable& table,
                                        double memory_limit,
                                        std::span<const std::vector<int>> allowed);

}  // namespace ballast::scheduler
