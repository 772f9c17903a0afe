// SPDX-License-Identifier: MIT
// Medians, and the key of the profile that each belongs to.
#include "engine/runtime/profile_stage.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace ballast::runtime {

namespace {

// Samples that count.
constexpr std::size_t kSamplesMachine = 9;
constexpr std::size_t kSamplesOp = 7;

double microseconds(const Sample& sample) {
    return sample.seconds * 1e6;
}

template <class Value>
Figure figure_of(const Stage& stage, const char* unit, Value value) {
    std::vector<double> values;
    for (std::size_t i = 1; i < stage.samples.size(); ++i) {
        values.push_back(std::invoke(value, stage.samples[i]));
    }
    if (values.empty()) {
        return {.name = stage.name, .unit = unit};
    }
    std::sort(values.begin(), values.end());
    const std::size_t upper = values.size() / 2;
    const double middle =
        values.size() % 2 == 1 ? values[upper] : (values[upper - 1] + values[upper]) / 2.0;
    return {.name = stage.name,
            .unit = unit,
            .median = middle,
            .low = values.front(),
            .high = values.back()};
}

bool is_arithmetic(const Stage& stage) {
    return stage.purpose == Purpose::kArithmetic || stage.purpose == Purpose::kDeviceArithmetic ||
           (stage.purpose == Purpose::kOp && stage.tokens > 1);
}

double gbps(const Stage& stage) {
    return rounded(figure_of(stage, "", &Sample::gbps).median);
}

double gflops(const Stage& stage) {
    return rounded(figure_of(stage, "", &Sample::gflops).median);
}

/// Puts the rate in the place of an older one of the same op, type and batch, or at the end.
void replace(std::vector<scheduler::OpRate>& ops, scheduler::OpRate rate) {
    const auto old = std::find_if(ops.begin(), ops.end(), [&](const scheduler::OpRate& other) {
        return other.op == rate.op && other.type == rate.type && other.tokens == rate.tokens;
    });
    if (old == ops.end()) {
        ops.push_back(std::move(rate));
    } else {
        *old = std::move(rate);
    }
}

void fill_machine(const Stage& stage, scheduler::HardwareProfile& profile) {
    if (stage.purpose == Purpose::kRead) {
        profile.cpu_read_gbps = gbps(stage);
        profile.dram_gbps = std::max(profile.dram_gbps, profile.cpu_read_gbps);
    } else if (stage.purpose == Purpose::kReadOneThread) {
        profile.cpu_read_one_thread_gbps = gbps(stage);
    } else if (stage.purpose == Purpose::kCopy) {
        profile.copy_gbps = gbps(stage);
    } else if (stage.purpose == Purpose::kArithmetic) {
        profile.cpu_tflops = std::max(profile.cpu_tflops, rounded(gflops(stage) * 1e-3));
    } else if (stage.purpose == Purpose::kOp) {
        replace(profile.ops,
                {.op = stage.op,
                 .type = std::string(quant::traits(stage.type).name),
                 .tokens = stage.tokens,
                 .cpu_gbps = gbps(stage),
                 .cpu_gflops = gflops(stage)});
    }
}

void fill_device(const Stage& stage, scheduler::HardwareProfile& profile) {
    if (stage.purpose == Purpose::kLink) {
        profile.link_gbps = gbps(stage);
    } else if (stage.purpose == Purpose::kLinkStaged) {
        profile.link_staged_gbps = gbps(stage);
    } else if (stage.purpose == Purpose::kTogether) {
        // Both ask for all that memory gives: what they get is what it has.
        profile.dram_gbps = std::max(profile.dram_gbps, gbps(stage));
    } else if (stage.purpose == Purpose::kHop) {
        profile.hop_us = rounded(figure_of(stage, "", microseconds).median);
    } else if (stage.purpose == Purpose::kDeviceRead) {
        profile.device_read_gbps = std::max(profile.device_read_gbps, gbps(stage));
    } else if (stage.purpose == Purpose::kDeviceArithmetic) {
        profile.device_tflops = std::max(profile.device_tflops, rounded(gflops(stage) * 1e-3));
    }
}

}  // namespace

std::size_t Stage::n_wanted() const {
    return 1 + (purpose == Purpose::kOp ? kSamplesOp : kSamplesMachine);
}

std::vector<Figure> figures_of(std::span<const Stage> stages) {
    std::vector<Figure> figures;
    for (const Stage& stage : stages) {
        if (stage.samples.empty()) {
            continue;
        }
        if (stage.purpose == Purpose::kHop) {
            figures.push_back(figure_of(stage, "us", microseconds));
        } else if (is_arithmetic(stage)) {
            figures.push_back(figure_of(stage, "GFLOPS", &Sample::gflops));
        } else {
            figures.push_back(figure_of(stage, "GB/s", &Sample::gbps));
        }
    }
    return figures;
}

void fill_profile(std::span<const Stage> stages, scheduler::HardwareProfile& profile) {
    const auto measured = [&](Purpose purpose) {
        return std::any_of(stages.begin(), stages.end(), [&](const Stage& stage) {
            return stage.purpose == purpose && !stage.samples.empty();
        });
    };
    // The better of several types counts, and not one of an older measurement.
    if (measured(Purpose::kArithmetic)) {
        profile.cpu_tflops = 0.0;
    }
    if (measured(Purpose::kDeviceRead)) {
        profile.device_read_gbps = 0.0;
    }
    if (measured(Purpose::kDeviceArithmetic)) {
        profile.device_tflops = 0.0;
    }
    for (const Stage& stage : stages) {
        if (!stage.samples.empty()) {
            fill_machine(stage, profile);
            fill_device(stage, profile);
        }
    }
}

double rounded(double value) {
    if (value <= 0.0) {
        return value;
    }
    const double scale = std::pow(10.0, 3.0 - std::floor(std::log10(value)));
    return std::round(value * scale) / scale;
}

}  // namespace ballast::runtime
