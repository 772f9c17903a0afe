// SPDX-License-Identifier: MIT
// Who computes which experts, as backends take it: each share of the device those that are its
// parts, the CPU the others.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/step_context.h"
#include "engine/base/ids.h"
#include "engine/runtime/group_ops.h"

namespace ballast::runtime {

/// Changed between steps only: what is queued views it until it has run. Engine thread.
class ExpertViews {
  public:
    /// Of no shares.
    ExpertViews() = default;
    /// The shares of either side's ops (SideOps::expert_shares). At first each expert is the part
    /// of its number.
    ExpertViews(std::span<const ExpertShare> cpu, std::span<const ExpertShare> device);
    ExpertViews(const ExpertViews&) = delete;
    ExpertViews& operator=(const ExpertViews&) = delete;
    ExpertViews(ExpertViews&&) = default;
    ExpertViews& operator=(ExpertViews&&) = default;

    /// order[part] is the expert that is this part of the group; −1: none is, and the CPU has what
    /// is no part. Takes no memory.
    void set(int group, std::span<const int> order);
    /// StepContext::experts of either side: by share.
    std::span<const backend::ExpertSlices> of(DeviceId device) const;

  private:
    struct Share {
        ExpertShare share = {};
        std::vector<std::int32_t> slice_of = {};
    };
    struct Side {
        std::vector<Share> shares = {};
        std::vector<backend::ExpertSlices> slices = {};
    };
    static Side make_side(std::span<const ExpertShare> shares);

    Side cpu_;
    Side device_;
};

}  // namespace ballast::runtime
