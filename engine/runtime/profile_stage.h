// SPDX-License-Identifier: MIT
// One thing that is profiled: its probe, its samples, and what figure they make.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/quant/type_traits.h"
#include "engine/runtime/probes.h"
#include "scheduler/profile/hardware_profile.h"

namespace ballast::runtime {

/// What a stage's samples stand for.
enum class Purpose {
    kRead,
    kReadOneThread,
    kCopy,
    kArithmetic,
    kOp,
    kLink,  // out of pinned memory
    kLinkBack,
    kLinkStaged,
    kTogether,
    kHop,
    kDeviceRead,
    kDeviceArithmetic,
    kNothing,
};

struct Stage {
    Purpose purpose = Purpose::kNothing;
    std::string name = {};
    const char* op = "";
    quant::QuantType type = quant::QuantType::kF32;
    int tokens = 0;
    std::unique_ptr<Probe> probe = {};
    std::vector<Sample> samples = {};  // the first learns the pace and does not count
    std::size_t n_disturbed = 0;       // samples that were taken again
    bool skipped = false;              // too slow here

    std::size_t n_wanted() const;
};

/// A figure's median over its samples, and how far they spread.
struct Figure {
    std::string name;
    std::string unit;
    double median = 0.0;
    double low = 0.0;
    double high = 0.0;
};

/// Of the stages that have samples, in their order.
std::vector<Figure> figures_of(std::span<const Stage> stages);

/// Writes the figures of these stages into the profile, and nothing else: an op's rate in the
/// place of an older one of the same op, type and batch. dram_gbps is not lowered.
void fill_profile(std::span<const Stage> stages, scheduler::HardwareProfile& profile);

/// To four digits: more would pretend that the figures repeat.
double rounded(double value);

}  // namespace ballast::runtime
