// SPDX-License-Identifier: MIT
// How long each side takes for a share of work: a hardware profile, corrected by what ops were
// measured to take.
#pragma once

#include <array>

#include "scheduler/profile/hardware_profile.h"
#include "scheduler/profile/tensor_catalog.h"

namespace ballast::scheduler {

enum class Side { kCpu, kDevice };

/// What a share of a group has to read and to compute.
struct Work {
    double bytes = 0.0;
    double flops = 0.0;
};

/// A step: `tokens` new ones of a sequence that has `depth` in the KV cache. One token: decode.
struct StepShape {
    int tokens = 1;
    int depth = 0;

    bool is_prefill() const { return tokens > 1; }
};

Work scaled(const Work& work, double share);

/// The whole group's work in a step; of experts only what is read whatever is routed. Attention
/// sees depth + tokens/2 positions, at most its window; only one row goes through the head.
Work group_work(const TensorGroup& group, const StepShape& step);

/// Value type. Seconds are those of bytes or of arithmetic, whichever is more, times a factor that
/// follows measured times.
class CostModel {
  public:
    explicit CostModel(HardwareProfile hardware) : hardware_(std::move(hardware)) {}

    const HardwareProfile& hardware() const { return hardware_; }
    /// What was learnt, on a machine of other rates.
    CostModel on(HardwareProfile hardware) const {
        CostModel costs = *this;
        costs.hardware_ = std::move(hardware);
        return costs;
    }
    double seconds(Side side, GroupKind kind, const Work& work) const;

    /// Tells it that work it put at `predicted` seconds took `measured`. The factor moves by a
    /// quarter of the error, so that one disturbed step does not unsettle a plan. Both above 0.
    void observe(Side side, GroupKind kind, double predicted, double measured);
    /// Measured over profile: 1 until something was observed.
    double factor(Side side, GroupKind kind) const {
        return factors_[index(side)][static_cast<std::size_t>(kind)];
    }

  private:
    static constexpr std::size_t kKinds = 4;
    static std::size_t index(Side side) { return static_cast<std::size_t>(side); }

    HardwareProfile hardware_;
    std::array<std::array<double, kKinds>, 2> factors_ = {{{1, 1, 1, 1}, {1, 1, 1, 1}}};
};

/// Which of the routed experts are asked for again and again; h(f) is the share of requests that a
/// resident share f of the experts meets. Uniform: f. Weak and strong: curves through published
/// hit rates (docs/scheduling.md).
enum class Locality { kUniform, kWeak, kStrong };
double hit_rate(Locality locality, double resident_share);

}  // namespace ballast::scheduler
