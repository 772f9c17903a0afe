// SPDX-License-Identifier: MIT
// Bytes and arithmetic of each share, and the seconds of whichever takes longer.
#include "scheduler/sim/share_work.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ballast::scheduler {

namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

/// Reading and computing, which go on at the same time.
struct Amount {
    double bytes = 0.0;
    double flops = 0.0;

    Amount times(double n) const { return {bytes * n, flops * n}; }
    Amount plus(const Amount& other) const { return {bytes + other.bytes, flops + other.flops}; }
};

double seconds_at(const Amount& amount, double gbps, double tflops) {
    const double reading = amount.bytes / (gbps * kGiga);
    const double computing = amount.flops / (tflops * kTera);
    return std::max(reading, computing);
}

double device_seconds(const HardwareProfile& h, const Amount& amount) {
    return seconds_at(amount, h.device_read_gbps, h.device_tflops);
}

double cpu_seconds(const HardwareProfile& h, const Amount& amount) {
    return seconds_at(amount, h.cpu_read_gbps, h.cpu_tflops);
}

/// Weights that every step reads. The head sees one row.
Amount fixed_weights(const TensorGroup& group, const StepShape& step) {
    const int rows = group.kind == GroupKind::kHead ? 1 : step.tokens;
    return {static_cast<double>(group.weight_bytes),
            2.0 * static_cast<double>(group.weights) * rows};
}

/// Keys, values and states, of the positions that an average token of the step sees.
Amount cache(const TensorGroup& group, const StepShape& step) {
    int positions = step.depth + step.tokens / 2;
    if (group.window != 0) {
        positions = std::min(positions, group.window);
    }
    const double seen = positions;
    return {static_cast<double>(group.kv_bytes_per_token) * seen +
                static_cast<double>(group.state_bytes),
            4.0 * group.attention_width * step.tokens * seen};
}

ShareWork dense(const HardwareProfile& h,
                const TensorGroup& group,
                const GroupPlacement& placed,
                const StepShape& step) {
    const Amount weights = fixed_weights(group, step);
    const Amount whole = weights.plus(cache(group, step));
    const int n_streamed = step.is_prefill() ? placed.prefill_streamed : placed.streamed;
    const int n_device = placed.resident + n_streamed;
    const double parts = group.parts;
    const double of_cpu = (group.parts - n_device) / parts;
    const double streamed = n_streamed / parts;
    ShareWork work{.on_device = n_device > 0, .on_cpu = n_device < group.parts};
    work.streamed_seconds = device_seconds(h, weights) * streamed;
    work.device_seconds = device_seconds(h, whole) * (n_device / parts) - work.streamed_seconds;
    work.streamed_bytes = weights.bytes * streamed;
    work.cpu_seconds = cpu_seconds(h, whole) * of_cpu;
    work.cpu_bytes = whole.bytes * of_cpu;
    return work;
}

ShareWork experts_decode(const HardwareProfile& h,
                         const TensorGroup& group,
                         const GroupPlacement& placed,
                         const StepShape& step,
                         Locality locality,
                         Rng& routing) {
    const Amount always = fixed_weights(group, step);
    const Amount expert = {static_cast<double>(group.expert_bytes),
                           2.0 * static_cast<double>(group.expert_weights)};
    if (!placed.shared_on_device) {
        const Amount all = always.plus(expert.times(group.experts_used));
        return {.on_cpu = true, .cpu_seconds = cpu_seconds(h, all), .cpu_bytes = all.bytes};
    }
    int n_missed = 0;
    for (int i = 0; i < group.experts_used; ++i) {
        const double place = draw_expert(locality, routing);
        n_missed += place * group.parts < placed.resident ? 0 : 1;
    }
    const Amount missed = expert.times(n_missed);
    return {.on_device = true,
            .on_cpu = n_missed > 0,
            .device_seconds =
                device_seconds(h, always.plus(expert.times(group.experts_used - n_missed))),
            .cpu_seconds = cpu_seconds(h, missed),
            .cpu_bytes = missed.bytes};
}

ShareWork experts_prefill(const HardwareProfile& h,
                          const TensorGroup& group,
                          const GroupPlacement& placed,
                          const StepShape& step) {
    const double parts = group.parts;
    const double used = group.experts_used;
    const double n_met = parts * (1.0 - std::pow(1.0 - used / parts, step.tokens));
    const Amount always = fixed_weights(group, step);
    const Amount routed = {n_met * static_cast<double>(group.expert_bytes),
                           2.0 * static_cast<double>(group.expert_weights) * used * step.tokens};
    const Amount on_device = {routed.bytes, routed.flops / h.expert_prefill_factor};
    const double streamed = placed.prefill_streamed / parts;
    const double of_device = (placed.resident + placed.prefill_streamed) / parts;
    const bool device = placed.shared_on_device || placed.prefill_streamed > 0;
    Amount device_part;
    Amount cpu_part = routed.times(1.0 - of_device);
    if (device) {
        device_part = always.plus(on_device.times(of_device));
    } else {
        cpu_part = always.plus(cpu_part);
    }
    ShareWork work{.on_device = device,
                   .on_cpu = !device || placed.resident + placed.prefill_streamed < group.parts};
    work.streamed_seconds = device_seconds(h, on_device) * streamed;
    if (device) {
        work.device_seconds = std::max(0.0, device_seconds(h, device_part) - work.streamed_seconds);
    }
    work.streamed_bytes = routed.bytes * streamed;
    if (device && !placed.shared_on_device) {
        work.streamed_bytes += always.bytes;
    }
    work.cpu_seconds = cpu_seconds(h, cpu_part);
    work.cpu_bytes = cpu_part.bytes;
    return work;
}

}  // namespace

double draw_expert(Locality locality, Rng& routing) {
    const double u = routing.uniform();
    switch (locality) {
        case Locality::kUniform:
            return u;
        case Locality::kWeak:  // the inverse of 1 − (1 − f)^1.8
            return 1.0 - std::pow(1.0 - u, 1.0 / 1.8);
        case Locality::kStrong:  // of f^0.17
            return std::pow(u, 1.0 / 0.17);
    }
    return u;
}

ShareWork share_work(const HardwareProfile& hardware,
                     const TensorGroup& group,
                     const GroupPlacement& placed,
                     const StepShape& step,
                     Locality locality,
                     Rng& routing) {
    ShareWork work;
    if (group.kind != GroupKind::kExperts) {
        work = dense(hardware, group, placed, step);
    } else if (step.is_prefill()) {
        work = experts_prefill(hardware, group, placed, step);
    } else {
        work = experts_decode(hardware, group, placed, step, locality, routing);
    }
    if (hardware.unified_memory) {
        // It is read where it is.
        work.device_seconds += std::exchange(work.streamed_seconds, 0.0);
        work.streamed_bytes = 0.0;
    }
    return work;
}

}  // namespace ballast::scheduler
