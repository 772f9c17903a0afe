// SPDX-License-Identifier: MIT
// The parts of each share, and for the CPU what is no part of the device's.
#include "engine/runtime/expert_views.h"

#include <algorithm>
#include <numeric>

#include "engine/base/check.h"

namespace ballast::runtime {

ExpertViews::ExpertViews(std::span<const ExpertShare> cpu, std::span<const ExpertShare> device)
    : cpu_(make_side(cpu)), device_(make_side(device)) {
    std::vector<int> by_number;
    for (const auto shares : {cpu, device}) {
        for (const ExpertShare& share : shares) {
            by_number.resize(static_cast<std::size_t>(share.n_experts));
            std::iota(by_number.begin(), by_number.end(), 0);
            set(share.group, by_number);
        }
    }
}

ExpertViews::Side ExpertViews::make_side(std::span<const ExpertShare> shares) {
    Side side;
    for (const ExpertShare& share : shares) {
        side.shares.push_back(
            {share, std::vector<std::int32_t>(static_cast<std::size_t>(share.n_experts), -1)});
    }
    for (const Share& share : side.shares) {
        side.slices.push_back({.slice_of = share.slice_of});
    }
    return side;
}

void ExpertViews::set(int group, std::span<const int> order) {
    for (Share& of : device_.shares) {
        if (of.share.group != group) {
            continue;
        }
        BALLAST_CHECK(order.size() == of.slice_of.size());
        std::fill(of.slice_of.begin(), of.slice_of.end(), -1);
        for (int i = 0; i < of.share.parts.n; ++i) {
            const int expert = order[static_cast<std::size_t>(of.share.parts.first + i)];
            if (expert >= 0) {
                of.slice_of[static_cast<std::size_t>(expert)] = i;
            }
        }
    }
    for (Share& of : cpu_.shares) {
        if (of.share.group != group) {
            continue;
        }
        BALLAST_CHECK(order.size() == of.slice_of.size());
        // Its parts are the last ones, and its units hold every expert, in order.
        std::iota(of.slice_of.begin(), of.slice_of.end(), 0);
        for (int part = 0; part < of.share.parts.first; ++part) {
            const int expert = order[static_cast<std::size_t>(part)];
            if (expert >= 0) {
                of.slice_of[static_cast<std::size_t>(expert)] = -1;
            }
        }
    }
}

std::span<const backend::ExpertSlices> ExpertViews::of(DeviceId device) const {
    return device == DeviceId::kCpu ? cpu_.slices : device_.slices;
}

}  // namespace ballast::runtime
