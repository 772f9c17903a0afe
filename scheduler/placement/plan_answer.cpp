// SPDX-License-Identifier: MIT
// A plan, what it is called, and why.
#include "scheduler/placement/plan_answer.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/check.h"

namespace ballast::scheduler {

namespace {

constexpr double kGiga = 1e9;
// What an operating system with a desktop keeps of the RAM.
constexpr double kSystemBytes = 4e9;
// Keeping the CPU busy for less than this is not what the owner of the machine wants.
constexpr double kSimpleWithin = 0.05;

double gb(double bytes) {
    return bytes / kGiga;
}

/// A machine without a device, for what only the CPU can answer.
PlanResult plan_without_device(const PlanRequest& request) {
    PlanResult result;
    const auto seconds = [&](int tokens, int depth) {
        const StepModel model(
            *request.catalog, request.costs, {.shape = {.tokens = tokens, .depth = depth}});
        return model.seconds(cpu_only(*request.catalog));
    };
    result.plan = {.placement = cpu_only(*request.catalog),
                   .decode_seconds = seconds(1, request.depth),
                   .prefill_seconds = seconds(request.prefill_tokens, 0)};
    result.policies.push_back({.policy = Policy::kCpuOnly, .best = result.plan});
    result.decode_bound_seconds = result.plan.decode_seconds;
    result.prefill_bound_seconds = result.plan.prefill_seconds;
    return result;
}

class Answerer {
  public:
    explicit Answerer(const PlanQuestion& question)
        : question_(question), catalog_(*question.catalog), hardware_(question.hardware) {}

    PlanAnswer run() {
        answer_.depth = question_.context / 2;
        answer_.prefill_tokens = std::clamp(question_.context / 2, 2, kPlannedPromptMax);
        answer_.memory_bytes = hardware_.has_device ? hardware_.device_memory_gb * kGiga : 0.0;
        if (question_.device_budget_bytes) {
            answer_.memory_bytes = std::min(answer_.memory_bytes, *question_.device_budget_bytes);
        }
        limit();
        plan();
        count_bytes();
        judge();
        return std::move(answer_);
    }

  private:
    void limit() {
        const auto bound = [&](const StepShape& step) {
            return step_bound_seconds(
                hardware_, catalog_, step, question_.locality, answer_.memory_bytes);
        };
        answer_.decode_limit_seconds = bound({.tokens = 1, .depth = answer_.depth});
        answer_.prefill_limit_seconds = bound({.tokens = answer_.prefill_tokens, .depth = 0});
    }

    void plan() {
        const PlanRequest request = plan_request(question_, answer_);
        const bool usable = hardware_.has_device && answer_.memory_bytes > 0.0;
        answer_.result = usable ? make_plan(request) : plan_without_device(request);
    }

    void count_bytes() {
        const Placement& placement = answer_.result.plan.placement;
        for (std::size_t i = 0; i < catalog_.groups.size(); ++i) {
            const TensorGroup& group = catalog_.groups[i];
            const GroupPlacement& placed = placement.groups[i];
            const double part = 1.0 / group.parts;
            const double resident = placed.resident * part;
            const double streamed = placed.streamed * part;
            ClassBytes& of_class = answer_.bytes[static_cast<std::size_t>(group.kind)];
            if (group.kind == GroupKind::kExperts) {
                const auto experts = static_cast<double>(group.expert_bytes) * group.parts;
                const auto always = static_cast<double>(group.weight_bytes);
                of_class.device += experts * resident + (placed.shared_on_device ? always : 0.0);
                of_class.cpu +=
                    experts * (1.0 - resident) + (placed.shared_on_device ? 0.0 : always);
                continue;
            }
            const auto weights = static_cast<double>(group.weight_bytes);
            of_class.device += weights * resident;
            of_class.streamed += weights * streamed;
            of_class.cpu += weights * (1.0 - resident - streamed);
            const double kv = static_cast<double>(group.kv_bytes_per_token) * question_.context +
                              static_cast<double>(group.state_bytes);
            answer_.kv.device += kv * (resident + streamed);
            answer_.kv.cpu += kv * (1.0 - resident - streamed);
        }
        double resident_weights = 0.0;
        for (const ClassBytes& of_class : answer_.bytes) {
            resident_weights += of_class.device;
        }
        // A weight that is in device memory need not be in RAM; on unified memory it is the same.
        const auto total = static_cast<double>(catalog_.total_bytes());
        answer_.host_bytes = hardware_.unified_memory ? total + answer_.kv.device + answer_.kv.cpu
                                                      : total - resident_weights + answer_.kv.cpu;
    }

    bool is_all_on(bool device) const {
        const std::vector<GroupPlacement>& placed = answer_.result.plan.placement.groups;
        for (std::size_t i = 0; i < placed.size(); ++i) {
            const int parts = device ? catalog_.groups[i].parts : 0;
            if (placed[i].resident != parts || placed[i].streamed != 0 ||
                (!device && placed[i].shared_on_device)) {
                return false;
            }
        }
        return true;
    }

    bool divides_a_group() const {
        const std::vector<GroupPlacement>& placed = answer_.result.plan.placement.groups;
        for (std::size_t i = 0; i < placed.size(); ++i) {
            const int on_device = placed[i].resident + placed[i].streamed;
            if (on_device > 0 && on_device < catalog_.groups[i].parts) {
                return true;
            }
        }
        return false;
    }

    static const ClassBytes& of(const PlanAnswer& answer, GroupKind kind) {
        return answer.bytes[static_cast<std::size_t>(kind)];
    }

    void judge() {
        const double ram = hardware_.ram_gb * kGiga - kSystemBytes;
        if (answer_.host_bytes > ram) {
            answer_.verdict = Verdict::kCannotRun;
            answer_.sentence = fmt::format(
                "This cannot run here: it needs {:.1f} GB of RAM beside the device's memory, and "
                "{:.0f} GB less 4 GB for the system are there. A smaller quantisation, a shorter "
                "context or more RAM (--ram) would help.",
                gb(answer_.host_bytes),
                hardware_.ram_gb);
            return;
        }
        if (!hardware_.has_device) {
            answer_.verdict = Verdict::kNoDevice;
            answer_.sentence = "Use the CPU alone: this machine has no GPU that Ballast can use.";
            return;
        }
        if (is_all_on(false)) {
            judge_cpu_alone();
        } else if (is_all_on(true)) {
            judge_all_on_device();
        } else if (catalog_.has_experts() && of(answer_, GroupKind::kExperts).device > 0.0) {
            judge_experts();
        } else {
            judge_division();
        }
    }

    void judge_cpu_alone() {
        answer_.verdict = Verdict::kCpuAlone;
        std::string because;
        if (answer_.memory_bytes <= 0.0) {
            because = "it may use none of the device's memory";
        } else if (hardware_.unified_memory) {
            because = fmt::format(
                "both would read from the same memory, and the CPU alone reads {:.0f} of its "
                "{:.0f} "
                "GB/s",
                hardware_.cpu_read_gbps,
                hardware_.dram_gbps);
        } else {
            because = fmt::format(
                "{:.2g} GB of its memory hold too little of {:.1f} GB to pay for the hops between "
                "the two",
                gb(answer_.memory_bytes),
                gb(static_cast<double>(catalog_.total_bytes())));
        }
        answer_.sentence = fmt::format("Use the CPU alone: no GPU helps here because {}.", because);
    }

    void judge_all_on_device() {
        answer_.verdict = Verdict::kAllOnDevice;
        answer_.sentence = hardware_.unified_memory
                               ? "All on the GPU; nothing is copied, both share one memory."
                               : "It fits: all on the GPU, the CPU only looks up tokens.";
    }

    void judge_experts() {
        const ClassBytes& experts = of(answer_, GroupKind::kExperts);
        answer_.verdict = Verdict::kExpertsSplit;
        answer_.sentence = fmt::format(
            "Both work: the GPU has what every token reads and {:.0f}% of the experts, the CPU "
            "computes the others at the same time.{}",
            100.0 * experts.device / (experts.device + experts.cpu),
            unified_note());
    }

    void judge_division() {
        const ClassBytes& attention = of(answer_, GroupKind::kAttention);
        const double all = attention.device + attention.streamed + attention.cpu;
        const double on_cpu = all > 0.0 ? attention.cpu / all : 0.0;
        if (!divides_a_group()) {
            answer_.verdict = Verdict::kSomeLayers;
            answer_.sentence =
                "The GPU computes whole groups, the CPU the others: dividing them would not pay "
                "for its hops.";
        } else if (on_cpu > 0.5) {
            answer_.verdict = Verdict::kCpuOwns;
            answer_.sentence = fmt::format(
                "The model is much larger than the GPU's memory: the CPU owns the residual, "
                "{:.0f}% "
                "of attention and the KV cache, and the GPU computes shares of the feed-forward "
                "layers at the same time.",
                100.0 * on_cpu);
        } else {
            answer_.verdict = Verdict::kSplit;
            answer_.sentence = fmt::format(
                "{}: both work on the layers at the same time, the CPU on {:.0f}% of the bytes.{}",
                fits_whole() ? "It fits, and is faster still with the CPU's help"
                             : "It nearly fits",
                100.0 * cpu_share(),
                unified_note());
        }
    }

    /// Whether the device could hold everything.
    bool fits_whole() const {
        const double all = static_cast<double>(catalog_.total_bytes()) -
                           static_cast<double>(catalog_.embedding_bytes) + answer_.kv.device +
                           answer_.kv.cpu;
        return all <= answer_.memory_bytes;
    }

    double cpu_share() const {
        double cpu = 0.0;
        double all = 0.0;
        for (const ClassBytes& of_class : answer_.bytes) {
            cpu += of_class.cpu;
            all += of_class.device + of_class.streamed + of_class.cpu;
        }
        return all > 0.0 ? cpu / all : 0.0;
    }

    /// On one memory a division gains what the GPU cannot read by itself.
    std::string unified_note() const {
        return hardware_.unified_memory
                   ? fmt::format(
                         " Nothing is copied; the GPU alone reads {:.0f} of the memory's "
                         "{:.0f} GB/s.",
                         hardware_.device_read_gbps,
                         hardware_.dram_gbps)
                   : "";
    }

    const PlanQuestion& question_;
    const TensorCatalog& catalog_;
    const HardwareProfile& hardware_;
    PlanAnswer answer_;
};

}  // namespace

const char* verdict_name(Verdict verdict) {
    switch (verdict) {
        case Verdict::kCannotRun:
            return "cannot_run";
        case Verdict::kNoDevice:
            return "no_device";
        case Verdict::kCpuAlone:
            return "cpu_alone";
        case Verdict::kAllOnDevice:
            return "all_on_device";
        case Verdict::kSplit:
            return "split";
        case Verdict::kCpuOwns:
            return "cpu_owns";
        case Verdict::kExpertsSplit:
            return "experts_split";
        case Verdict::kSomeLayers:
            return "some_layers";
    }
    return "";
}

PlanRequest plan_request(const PlanQuestion& question, const PlanAnswer& answer) {
    return {
        .catalog = question.catalog,
        .costs = CostModel(question.hardware),
        .memory_bytes = answer.memory_bytes,
        .reserve = {.tokens = question.context, .unified_memory = question.hardware.unified_memory},
        .depth = answer.depth,
        .prefill_tokens = answer.prefill_tokens,
        .prefill_weight = question.prefill_weight,
        .decode_weight = question.decode_weight,
        .hops = question.hops,
        .locality = question.locality,
        .simple_within = kSimpleWithin};
}

PlanAnswer answer(const PlanQuestion& question) {
    BALLAST_CHECK(question.catalog != nullptr && question.context >= 4);
    return Answerer(question).run();
}

}  // namespace ballast::scheduler
