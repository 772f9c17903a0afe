// SPDX-License-Identifier: MIT
// The bound's linear program, turned so that it can start from nothing: how many steps fit into one
// second?
#include "scheduler/profile/bound.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"
#include "scheduler/profile/linear_program.h"

namespace ballast::scheduler {

namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

/// Variables: three a part (resident, streamed, CPU), in steps a second, and the steps themselves.
class BoundProgram {
  public:
    BoundProgram(const HardwareProfile& hardware, const std::vector<DemandPart>& parts)
        : n_(3 * parts.size() + 1) {
        program_.gain.assign(n_, 0.0);
        program_.gain.back() = 1.0;
        for (std::size_t k = 0; k < parts.size(); ++k) {
            // A step needs the whole of each part.
            std::vector<double>& whole = row(0.0);
            whole[3 * k] = whole[3 * k + 1] = whole[3 * k + 2] = -1.0;
            whole.back() = 1.0;
        }
        const bool unified = hardware.unified_memory;
        // Each side reads and computes at the same time.
        sum(parts, hardware.device_read_gbps, [](const DemandPart& part) {
            return Uses{.resident = part.read_gb, .streamed = part.read_gb};
        });
        sum(parts, hardware.device_tflops, [](const DemandPart& part) {
            const double tflop = part.tflop / part.device_efficiency;
            return Uses{.resident = tflop, .streamed = tflop};
        });
        sum(parts, hardware.cpu_read_gbps, [](const DemandPart& part) {
            return Uses{.cpu = part.read_gb};
        });
        sum(parts, hardware.cpu_tflops, [](const DemandPart& part) {
            return Uses{.cpu = part.tflop};
        });
        sum(parts, hardware.dram_gbps, [&](const DemandPart& part) {
            return Uses{.resident = unified ? part.read_gb : 0.0,
                        .streamed = part.read_gb,
                        .cpu = part.read_gb};
        });
        sum(parts, unified ? 0.0 : hardware.link_gbps, [&](const DemandPart& part) {
            return Uses{.streamed = part.read_gb};
        });
    }

    void limit_resident(const std::vector<DemandPart>& parts, double gb) {
        // As a share of what a step reads, because the variables are in steps a second.
        std::vector<double>& limit =
            sum(parts, 0.0, [&](const DemandPart& part) { return Uses{.resident = part.read_gb}; });
        limit.back() = -gb;
    }
    void forbid_device(const std::vector<DemandPart>& parts) {
        sum(parts, 0.0, [](const DemandPart&) { return Uses{.resident = 1.0, .streamed = 1.0}; });
    }

    double seconds() const { return 1.0 / maximum(program_); }

  private:
    struct Uses {
        double resident = 0.0;
        double streamed = 0.0;
        double cpu = 0.0;
    };
    std::vector<double>& row(double limit) {
        program_.limits.push_back(limit);
        return program_.rows.emplace_back(n_, 0.0);
    }
    template <class UsesOf>
    std::vector<double>& sum(const std::vector<DemandPart>& parts,
                             double limit,
                             const UsesOf& uses_of) {
        std::vector<double>& cells = row(limit);
        for (std::size_t k = 0; k < parts.size(); ++k) {
            const Uses uses = uses_of(parts[k]);
            cells[3 * k] = uses.resident;
            cells[3 * k + 1] = uses.streamed;
            cells[3 * k + 2] = uses.cpu;
        }
        return cells;
    }

    std::size_t n_;
    LinearProgram program_;
};

DemandPart part_of(const Work& work, double device_efficiency = 1.0) {
    return {.read_gb = work.bytes / kGiga,
            .tflop = work.flops / kTera,
            .device_efficiency = device_efficiency};
}

/// Where a concave function of [0, most] is highest.
template <class Function>
double summit(const Function& value, double most) {
    constexpr int kThirds = 90;  // leave less than 1e-15 of the interval
    double low = 0.0;
    double high = most;
    for (int i = 0; i < kThirds; ++i) {
        const double third = (high - low) / 3.0;
        if (value(low + third) < value(high - third)) {
            low += third;
        } else {
            high -= third;
        }
    }
    return (low + high) / 2.0;
}

void add(Work& sum, const Work& work) {
    sum.bytes += work.bytes;
    sum.flops += work.flops;
}

}  // namespace

double lower_bound_seconds(const HardwareProfile& hardware, const StepDemand& demand) {
    // Less work is a bound as well: what is next to nothing beside another part would only cost the
    // program its precision.
    constexpr double kNegligible = 1e-7;
    double most_gb = 0.0;
    double most_tflop = 0.0;
    for (const DemandPart& part : demand.parts) {
        BALLAST_CHECK(part.read_gb >= 0.0 && part.tflop >= 0.0 && part.device_efficiency > 0.0);
        most_gb = std::max(most_gb, part.read_gb);
        most_tflop = std::max(most_tflop, part.tflop);
    }
    std::vector<DemandPart> parts;
    for (DemandPart part : demand.parts) {
        part.read_gb = part.read_gb > kNegligible * most_gb ? part.read_gb : 0.0;
        part.tflop = part.tflop > kNegligible * most_tflop ? part.tflop : 0.0;
        if (part.read_gb > 0.0 || part.tflop > 0.0) {
            parts.push_back(part);
        }
    }
    if (parts.empty()) {
        return 0.0;
    }
    BALLAST_CHECK(hardware.cpu_read_gbps > 0.0 && hardware.dram_gbps > 0.0);
    BALLAST_CHECK(!hardware.has_device || hardware.device_read_gbps > 0.0);
    BoundProgram program(hardware, parts);
    if (!hardware.has_device) {
        program.forbid_device(parts);
    } else if (!hardware.unified_memory) {
        program.limit_resident(parts, demand.resident_gb);
    }
    // The CPU alone is one of the program's answers, whatever rounding makes of the others.
    double cpu = 0.0;
    double read_gb = 0.0;
    for (const DemandPart& part : parts) {
        cpu += std::max(part.read_gb / hardware.cpu_read_gbps,
                        part.tflop > 0.0 ? part.tflop / hardware.cpu_tflops : 0.0);
        read_gb += part.read_gb;
    }
    return std::min(program.seconds(), std::max(cpu, read_gb / hardware.dram_gbps));
}

StepDemand step_demand(const TensorCatalog& catalog,
                       const StepShape& step,
                       Locality locality,
                       double expert_prefill_factor,
                       double device_memory_bytes) {
    constexpr std::size_t kKinds = 4;
    Work always[kKinds];
    Work routed;
    double always_bytes = 0.0;
    double expert_bytes = 0.0;  // of all experts
    for (const TensorGroup& group : catalog.groups) {
        const Work work = group_work(group, step);
        add(always[static_cast<std::size_t>(group.kind)], work);
        always_bytes += work.bytes;
        if (group.kind == GroupKind::kExperts) {
            const double used = static_cast<double>(group.experts_used) / group.parts;
            const double met = step.is_prefill() ? 1.0 - std::pow(1.0 - used, step.tokens) : used;
            const auto all = static_cast<double>(group.expert_bytes) * group.parts;
            expert_bytes += all;
            add(routed,
                {.bytes = met * all,
                 .flops = 2.0 * static_cast<double>(group.expert_weights) * step.tokens *
                          group.experts_used});
        }
    }
    StepDemand demand;
    for (const Work& work : always) {
        demand.parts.push_back(part_of(work));
    }
    demand.parts.push_back(part_of(routed, step.is_prefill() ? expert_prefill_factor : 1.0));
    const auto met_bytes = [&](double share) {
        const double hits = step.is_prefill() ? share : std::max(share, hit_rate(locality, share));
        return std::min(device_memory_bytes - share * expert_bytes, always_bytes) +
               hits * routed.bytes;
    };
    const double share_max =
        expert_bytes > 0.0 ? std::min(device_memory_bytes / expert_bytes, 1.0) : 0.0;
    demand.resident_gb = met_bytes(summit(met_bytes, share_max)) / kGiga;
    return demand;
}

double step_bound_seconds(const HardwareProfile& hardware,
                          const TensorCatalog& catalog,
                          const StepShape& step,
                          Locality locality,
                          double device_memory_bytes) {
    return lower_bound_seconds(
        hardware,
        step_demand(catalog, step, locality, hardware.expert_prefill_factor, device_memory_bytes));
}

}  // namespace ballast::scheduler
