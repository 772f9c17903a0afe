// SPDX-License-Identifier: MIT
// The larger of reading and computing, times what measurement taught.
#include "scheduler/profile/cost_model.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"

namespace ballast::scheduler {

namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kLearningRate = 0.25;

}  // namespace

Work scaled(const Work& work, double share) {
    return {.bytes = work.bytes * share, .flops = work.flops * share};
}

Work group_work(const TensorGroup& group, const StepShape& step) {
    const int seen = step.depth + step.tokens / 2;
    const double positions = group.window > 0 ? std::min(seen, group.window) : seen;
    const double rows = group.kind == GroupKind::kHead ? 1.0 : step.tokens;
    return {.bytes = static_cast<double>(group.weight_bytes) +
                     static_cast<double>(group.kv_bytes_per_token) * positions +
                     static_cast<double>(group.state_bytes),
            .flops = 2.0 * static_cast<double>(group.weights) * rows +
                     4.0 * group.attention_width * step.tokens * positions};
}

double CostModel::seconds(Side side, GroupKind kind, const Work& work) const {
    const bool device = side == Side::kDevice;
    const double gbps = device ? hardware_.device_read_gbps : hardware_.cpu_read_gbps;
    const double tflops = device ? hardware_.device_tflops : hardware_.cpu_tflops;
    return std::max(work.bytes / (gbps * kGiga), work.flops / (tflops * kTera)) *
           factor(side, kind);
}

void CostModel::observe(Side side, GroupKind kind, double predicted, double measured) {
    BALLAST_CHECK(predicted > 0.0 && measured > 0.0);
    double& known = factors_[index(side)][static_cast<std::size_t>(kind)];
    known *= 1.0 + kLearningRate * (measured / predicted - 1.0);
}

double hit_rate(Locality locality, double resident_share) {
    if (resident_share <= 0.0 || resident_share >= 1.0) {
        return std::clamp(resident_share, 0.0, 1.0);
    }
    switch (locality) {
        case Locality::kUniform:
            return resident_share;
        case Locality::kWeak:
            return 1.0 - std::pow(1.0 - resident_share, 1.8);
        case Locality::kStrong:
            return std::pow(resident_share, 0.17);
    }
    return resident_share;
}

}  // namespace ballast::scheduler
