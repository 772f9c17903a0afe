// SPDX-License-Identifier: MIT
#include "tests/scheduler/reference/step_time.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/check.h"

namespace ballast::test {

namespace {

using scheduler::GroupKind;
using scheduler::GroupPlacement;
using scheduler::HardwareProfile;
using scheduler::TensorGroup;

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kMicro = 1e-6;
constexpr double kBytesPerResidual = 2.0;
constexpr int kDecodeSteps = 5;  // in a row; the mean of all but the first counts

/// Reading and arithmetic of one share, which go on at the same time.
struct Work {
    double bytes = 0.0;
    double flops = 0.0;

    Work operator+(const Work& other) const { return {bytes + other.bytes, flops + other.flops}; }
    Work operator*(double share) const { return {bytes * share, flops * share}; }
    double on_device(const HardwareProfile& h) const {
        return std::max(bytes / (h.device_read_gbps * kGiga), flops / (h.device_tflops * kTera));
    }
    double on_cpu(const HardwareProfile& h) const {
        return std::max(bytes / (h.cpu_read_gbps * kGiga), flops / (h.cpu_tflops * kTera));
    }
};

Work weights_work(const TensorGroup& group, const ReferenceStep& step) {
    // Of the head only the last row is wanted.
    const double rows = group.kind == GroupKind::kHead ? 1.0 : step.tokens;
    return {static_cast<double>(group.weight_bytes),
            2.0 * static_cast<double>(group.weights) * rows};
}

/// Attention over the cache, or over a state.
Work cache_work(const TensorGroup& group, const ReferenceStep& step) {
    int seen = step.depth + step.tokens / 2;
    if (group.window > 0) {
        seen = std::min(seen, group.window);
    }
    return {static_cast<double>(group.kv_bytes_per_token) * seen +
                static_cast<double>(group.state_bytes),
            4.0 * group.attention_width * static_cast<double>(step.tokens) * seen};
}

int streamed_parts(const GroupPlacement& placed, const ReferenceStep& step) {
    return step.tokens > 1 ? placed.prefill_streamed : placed.streamed;
}

Outcome divide(const HardwareProfile& h,
               const ReferenceStep& step,
               const TensorGroup& group,
               const GroupPlacement& placed) {
    const Work weights = weights_work(group, step);
    const Work all = weights + cache_work(group, step);
    const int streamed = streamed_parts(placed, step);
    const int device = placed.resident + streamed;
    const int cpu = group.parts - device;
    const double part = 1.0 / group.parts;
    Outcome out;
    out.on_device = device > 0;
    out.on_cpu = cpu > 0;
    if (out.on_device) {
        out.device_seconds = all.on_device(h) * (device * part);
        out.streamed_seconds = weights.on_device(h) * (streamed * part);
    }
    out.streamed_bytes = weights.bytes * streamed / group.parts;
    out.cpu_seconds = all.on_cpu(h) * (cpu * part);
    out.cpu_bytes = all.bytes * (cpu * part);
    return out;
}

double hit_rate(double resident_share, Locality locality) {
    if (resident_share <= 0.0 || resident_share >= 1.0) {
        return resident_share;
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

/// Entry m: the probability that m of the experts used are not resident, each of them with
/// probability `miss` by itself.
std::vector<double> misses(int used, double miss) {
    std::vector<double> chance = {1.0};
    for (int expert = 0; expert < used; ++expert) {
        chance.push_back(0.0);
        for (std::size_t m = chance.size(); m-- > 0;) {
            chance[m] = chance[m] * (1.0 - miss) + (m > 0 ? chance[m - 1] * miss : 0.0);
        }
    }
    return chance;
}

std::vector<Outcome> decode_experts(const HardwareProfile& h,
                                    const ReferenceStep& step,
                                    const TensorGroup& group,
                                    const GroupPlacement& placed) {
    const Work always = weights_work(group, step);
    const Work expert = {static_cast<double>(group.expert_bytes),
                         2.0 * static_cast<double>(group.expert_weights)};
    if (!placed.shared_on_device) {
        const Work all = always + expert * group.experts_used;
        return {{.on_cpu = true, .cpu_seconds = all.on_cpu(h), .cpu_bytes = all.bytes}};
    }
    const double share = static_cast<double>(placed.resident) / group.parts;
    const std::vector<double> chance =
        misses(group.experts_used, 1.0 - hit_rate(share, step.locality));
    std::vector<Outcome> all;
    for (int m = 0; m <= group.experts_used; ++m) {
        const double probability = chance[static_cast<std::size_t>(m)];
        if (probability > 0.0) {
            const Work device = always + expert * (group.experts_used - m);
            const Work cpu = expert * m;
            all.push_back({.probability = probability,
                           .on_device = true,
                           .on_cpu = m > 0,
                           .device_seconds = device.on_device(h),
                           .cpu_seconds = cpu.on_cpu(h),
                           .cpu_bytes = cpu.bytes});
        }
    }
    return all;
}

Outcome prefill_experts(const HardwareProfile& h,
                        const ReferenceStep& step,
                        const TensorGroup& group,
                        const GroupPlacement& placed) {
    const double n = step.tokens;
    const double k = group.experts_used;
    const double met = group.parts * (1.0 - std::pow(1.0 - k / group.parts, n));
    const Work always = weights_work(group, step);
    const Work on_cpu = {met * static_cast<double>(group.expert_bytes),
                         n * k * 2.0 * static_cast<double>(group.expert_weights)};
    // The device reaches a part of its pace on experts, as if they took more arithmetic.
    const Work on_device = {on_cpu.bytes, on_cpu.flops / h.expert_prefill_factor};
    const int streamed = placed.prefill_streamed;
    const int device = placed.resident + streamed;
    const int cpu = group.parts - device;
    const double part = 1.0 / group.parts;
    const bool always_on_device = placed.shared_on_device || streamed > 0;
    const bool always_crosses = always_on_device && !placed.shared_on_device;

    Outcome out;
    out.on_device = always_on_device;
    out.on_cpu = cpu > 0 || !always_on_device;
    const Work device_work = (always_on_device ? always : Work{}) + on_device * (device * part);
    const Work cpu_work = (always_on_device ? Work{} : always) + on_cpu * (cpu * part);
    if (out.on_device) {
        out.device_seconds = device_work.on_device(h);
        out.streamed_seconds = on_device.on_device(h) * (streamed * part);
    }
    out.streamed_bytes =
        on_device.bytes * streamed / group.parts + (always_crosses ? always.bytes : 0.0);
    out.cpu_seconds = cpu_work.on_cpu(h);
    out.cpu_bytes = cpu_work.bytes;
    return out;
}

/// The copy lane and its ring. Tiles cross in order; while the CPU computes, they get what it
/// leaves of the memory's bandwidth.
class CopyLane {
  public:
    explicit CopyLane(const HardwareProfile& h)
        : link_(h.link_gbps * kGiga), dram_(h.dram_gbps * kGiga) {}

    /// Told in order of time, and before the tiles that cross at that time.
    void cpu_computes(double from, double seconds, double bytes) {
        if (seconds > 0.0) {
            busy_.push_back({from, from + seconds, bytes / seconds});
        }
    }

    /// Sends the next tile as soon as there is room for it; returns when it has crossed.
    double send(double bytes) {
        double now = free_;
        if (read_.size() >= scheduler::kRingTiles) {
            now = std::max(now, read_[read_.size() - scheduler::kRingTiles]);
        }
        double left = bytes;
        while (past_ < busy_.size() && busy_[past_].to <= now) {
            ++past_;
        }
        for (std::size_t i = past_; i < busy_.size(); ++i) {
            const Busy& busy = busy_[i];
            if (now < busy.from) {
                const double before = (busy.from - now) * link_;
                if (left <= before) {
                    break;
                }
                left -= before;
                now = busy.from;
            }
            const double rate = std::max(0.0, std::min(link_, dram_ - busy.bytes_per_second));
            const double during = (busy.to - now) * rate;
            if (left <= during) {
                free_ = now + left / rate;
                return free_;
            }
            left -= during;
            now = busy.to;
        }
        free_ = now + left / link_;
        return free_;
    }

    /// The reader of the tile sent last has finished.
    void read(double at) { read_.push_back(at); }

  private:
    struct Busy {
        double from = 0.0;
        double to = 0.0;
        double bytes_per_second = 0.0;
    };

    double link_ = 0.0;
    double dram_ = 0.0;
    double free_ = 0.0;         // when the last tile has crossed
    std::vector<Busy> busy_;    // when the CPU computes
    std::size_t past_ = 0;      // of these, how many ended before the tile being sent
    std::vector<double> read_;  // when each tile's reader finished
};

/// When two jobs end that run together at `pace` and alone at 1.
struct Ends {
    double device = 0.0;
    double cpu = 0.0;
};
Ends run_beside(
    double device_at, double device_seconds, double cpu_at, double cpu_seconds, double pace) {
    const bool device_first = device_at <= cpu_at;
    const double first_at = device_first ? device_at : cpu_at;
    const double second_at = device_first ? cpu_at : device_at;
    const double first = device_first ? device_seconds : cpu_seconds;
    const double second = device_first ? cpu_seconds : device_seconds;

    double first_ends = first_at + first;
    double second_ends = second_at + second;
    if (first_ends > second_at) {
        const double left = first_ends - second_at;
        const double shorter = std::min(left, second);
        const double together_ends = second_at + shorter / pace;
        first_ends = together_ends + (left - shorter);
        second_ends = together_ends + (second - shorter);
    }
    return device_first ? Ends{first_ends, second_ends} : Ends{second_ends, first_ends};
}

/// The device's share: what is resident, then each tile as it arrives.
double compute_with_tiles(const Outcome& outcome, double from, CopyLane& lane) {
    double now = from + outcome.device_seconds - outcome.streamed_seconds;
    const int tiles = tiles_of(outcome.streamed_bytes);
    for (int tile = 0; tile < tiles; ++tile) {
        now = std::max(now, lane.send(outcome.streamed_bytes / tiles));
        now += outcome.streamed_seconds / tiles;
        lane.read(now);
    }
    return now;
}

/// When the two sides begin a group of which both compute a share.
Usable both_begin(const ReferenceStep& step, double hop, Usable before) {
    if (!step.blocking_hops) {
        return before;
    }
    const double from = std::min(before.device, before.cpu) + hop;
    return {from, from};
}

Usable after_outcome(const HardwareProfile& h,
                     const ReferenceStep& step,
                     double hop,
                     const Outcome& outcome,
                     Usable before,
                     CopyLane* lane) {
    const bool both = outcome.on_device && outcome.on_cpu;
    const Usable begin = both ? both_begin(step, hop, before) : before;
    if (!outcome.on_device) {
        const double cpu = begin.cpu + outcome.cpu_seconds;
        return {cpu + hop, cpu};
    }
    double device = begin.device + outcome.device_seconds;
    if (outcome.streamed_bytes > 0.0) {
        BALLAST_CHECK(lane != nullptr && !h.unified_memory);
        device = compute_with_tiles(outcome, begin.device, *lane);
    }
    if (!outcome.on_cpu) {
        return {device, device + hop};
    }
    double cpu = begin.cpu + outcome.cpu_seconds;
    if (h.unified_memory) {
        const double pace = std::min(1.0, h.dram_gbps / (h.device_read_gbps + h.cpu_read_gbps));
        const Ends ends =
            run_beside(begin.device, outcome.device_seconds, begin.cpu, outcome.cpu_seconds, pace);
        device = ends.device;
        cpu = ends.cpu;
    }
    if (!step.blocking_hops) {
        return {std::max(device, cpu + hop), std::max(cpu, device + hop)};
    }
    const double joined = std::max(device, cpu) + hop;
    if (before.device <= before.cpu) {
        return {joined, joined + hop};
    }
    return {joined + hop, joined};
}

Usable after_outcomes(const HardwareProfile& h,
                      const ReferenceStep& step,
                      double hop,
                      const std::vector<Outcome>& group,
                      Usable before,
                      CopyLane* lane) {
    if (lane != nullptr) {
        // The lane has to know the CPU's work before the tiles of the same group cross.
        double from = before.cpu;
        double seconds = 0.0;
        double bytes = 0.0;
        for (const Outcome& outcome : group) {
            if (outcome.on_cpu && outcome.on_device) {
                from = both_begin(step, hop, before).cpu;
            }
            seconds += outcome.probability * outcome.cpu_seconds;
            bytes += outcome.probability * outcome.cpu_bytes;
        }
        lane->cpu_computes(from, seconds, bytes);
    }
    Usable after;
    for (const Outcome& outcome : group) {
        const Usable one = after_outcome(h, step, hop, outcome, before, lane);
        after.device += outcome.probability * one.device;
        after.cpu += outcome.probability * one.cpu;
    }
    return after;
}

void check(const HardwareProfile& h,
           const ReferenceStep& step,
           const TensorGroup& group,
           const GroupPlacement& placed) {
    const int streamed = streamed_parts(placed, step);
    BALLAST_CHECK(placed.resident >= 0 && streamed >= 0);
    BALLAST_CHECK(placed.resident + streamed <= group.parts);
    BALLAST_CHECK(!h.unified_memory || placed.streamed == 0);
    BALLAST_CHECK(h.has_device || (placed.resident == 0 && streamed == 0));
    if (group.kind == GroupKind::kExperts) {
        BALLAST_CHECK(placed.streamed == 0);
        BALLAST_CHECK(placed.shared_on_device || placed.resident == 0);
    }
}

}  // namespace

int tiles_of(double streamed_bytes) {
    // To whole bytes, which products of shares miss by rounding.
    return static_cast<int>(
        std::ceil(std::round(streamed_bytes) / static_cast<double>(scheduler::kTileBytesMax)));
}

double reference_hop_seconds(const scheduler::TensorCatalog& catalog,
                             const HardwareProfile& h,
                             const ReferenceStep& step) {
    double seconds = h.hop_us * kMicro;
    if (step.tokens > 1 && h.has_device && !h.unified_memory) {
        seconds += step.tokens * catalog.width * kBytesPerResidual / (h.link_gbps * kGiga);
    }
    return seconds;
}

std::vector<Outcome> outcomes(const HardwareProfile& h,
                              const ReferenceStep& step,
                              const TensorGroup& group,
                              const GroupPlacement& placed) {
    check(h, step, group, placed);
    const bool experts = group.kind == GroupKind::kExperts;
    if (experts && step.tokens == 1) {
        return decode_experts(h, step, group, placed);
    }
    Outcome one =
        experts ? prefill_experts(h, step, group, placed) : divide(h, step, group, placed);
    if (h.unified_memory) {
        // What is the device's in prefill only is read where it is.
        one.streamed_seconds = 0.0;
        one.streamed_bytes = 0.0;
    }
    return {one};
}

Usable after_group(const HardwareProfile& h,
                   const ReferenceStep& step,
                   double hop_seconds,
                   const std::vector<Outcome>& group,
                   Usable before) {
    return after_outcomes(h, step, hop_seconds, group, before, nullptr);
}

std::vector<double> reference_steps_in_a_row(const scheduler::TensorCatalog& catalog,
                                             const HardwareProfile& h,
                                             const scheduler::Placement& placement,
                                             const ReferenceStep& step,
                                             int steps) {
    BALLAST_CHECK(placement.groups.size() == catalog.groups.size());
    const double hop = reference_hop_seconds(catalog, h, step);
    std::vector<std::vector<Outcome>> groups;
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        groups.push_back(outcomes(h, step, catalog.groups[i], placement.groups[i]));
    }
    CopyLane lane(h);
    std::vector<double> seconds;
    double begin = 0.0;
    for (int i = 0; i < steps; ++i) {
        Usable usable = {begin + hop, begin};
        for (const std::vector<Outcome>& group : groups) {
            usable = after_outcomes(h, step, hop, group, usable, &lane);
        }
        seconds.push_back(usable.cpu - begin);
        begin = usable.cpu;
    }
    return seconds;
}

double reference_step_seconds(const scheduler::TensorCatalog& catalog,
                              const HardwareProfile& h,
                              const scheduler::Placement& placement,
                              const ReferenceStep& step) {
    // Decode repeats, and the lane runs ahead into the next step; prefill does not.
    if (step.tokens > 1) {
        return reference_steps_in_a_row(catalog, h, placement, step, 1).back();
    }
    const std::vector<double> steps =
        reference_steps_in_a_row(catalog, h, placement, step, kDecodeSteps);
    return std::accumulate(steps.begin() + 1, steps.end(), 0.0) / (kDecodeSteps - 1);
}

double reference_group_bytes(const TensorGroup& group,
                             const GroupPlacement& placed,
                             const scheduler::KvReserve& reserve) {
    // On one memory what the device computes in prefill only is mapped like all that it computes.
    const int mapped = reserve.unified_memory ? placed.prefill_streamed : 0;
    const double resident = placed.resident + mapped;
    if (group.kind == GroupKind::kExperts) {
        const bool always = placed.shared_on_device || mapped > 0;
        return static_cast<double>(group.expert_bytes) * resident +
               (always ? static_cast<double>(group.weight_bytes) : 0.0);
    }
    // Heads that the device computes in prefill only leave no keys and values there.
    const int computed = placed.resident + std::max(placed.streamed, mapped);
    const double cache =
        static_cast<double>(group.kv_bytes_per_token) * static_cast<double>(reserve.tokens) +
        static_cast<double>(group.state_bytes);
    return (static_cast<double>(group.weight_bytes) * resident + cache * computed) / group.parts;
}

double reference_ring_piece(const TensorGroup& group,
                            const GroupPlacement& placed,
                            const scheduler::KvReserve& reserve) {
    const int streamed = std::max(placed.streamed, placed.prefill_streamed);
    if (reserve.unified_memory || streamed == 0) {
        return 0.0;
    }
    if (group.kind == GroupKind::kExperts) {
        return static_cast<double>(group.expert_bytes) * streamed +
               (placed.shared_on_device ? 0.0 : static_cast<double>(group.weight_bytes));
    }
    return static_cast<double>(group.weight_bytes) * streamed / group.parts;
}

double reference_device_bytes(const scheduler::TensorCatalog& catalog,
                              const scheduler::Placement& placement,
                              const scheduler::KvReserve& reserve) {
    double bytes = 0.0;
    double piece = 0.0;
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const TensorGroup& group = catalog.groups[i];
        bytes += reference_group_bytes(group, placement.groups[i], reserve);
        piece = std::max(piece, reference_ring_piece(group, placement.groups[i], reserve));
    }
    return bytes +
           scheduler::kRingTiles * std::min(piece, static_cast<double>(scheduler::kTileBytesMax));
}

}  // namespace ballast::test
