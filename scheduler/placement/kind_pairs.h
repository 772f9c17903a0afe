// SPDX-License-Identifier: MIT
// Pairs of kinds of layer, ranked by an estimate: how many layers of which two kinds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/placement/option_table.h"
#include "scheduler/placement/price_dual.h"

namespace ballast::scheduler {

/// One option a class, and what all layers of that kind come to.
struct Kind {
    std::size_t first = 0;  // of its options, one a class
    double seconds = 0.0;   // all layers
    double memory = 0.0;
    double link_seconds = 0.0;
    double piece = 0.0;
    double prefill = 0.0;  // weighted
    double priced = 0.0;
    std::uint8_t lead = 0;  // after the last layer
};

/// One choice for the head, and what it adds to every mix; −1 and nothing if there is no head.
struct HeadOption {
    int index = -1;
    double memory = 0.0;
    double link_seconds = 0.0;
    double piece = 0.0;
    double prefill = 0.0;                         // weighted
    std::array<double, kLeads> end_seconds = {};  // from the end of the layers, by their lead
};

/// n of the layers are of kind a, the others of kind b.
struct Mix {
    double estimate = 0.0;
    std::size_t head_rank = 0;
    int a = 0;
    int b = 0;
    int n = 0;
    int head = 0;
};

struct PairSearch {
    std::span<const Kind> kinds = {};  // by memory
    std::span<const HeadOption> heads = {};
    int n_layers = 0;
    Prices prices = {};  // any are right; good ones rule out most pairs at once
    double memory_limit = 0.0;
    std::size_t most = 0;
};

/// At most `most` mixes that fit, best first.
std::vector<Mix> pair_kinds(const PairSearch& search);

}  // namespace ballast::scheduler
