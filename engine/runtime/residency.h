// SPDX-License-Identifier: MIT
// Facts: what is where by now. The plan says what should be; what did not fit or is not supported
// stays on the CPU, and the reason is told.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/runtime/group_division.h"
#include "scheduler/plan.h"

namespace ballast::runtime {

/// Where one group of the catalog is computed: the first `resident` of its parts in device memory,
/// the next ones through the ring in each step, the rest on the CPU.
struct GroupResidency {
    int resident = 0;
    int streamed = 0;          // in a step of generated tokens
    int prefill_streamed = 0;  // in a step with prompt tokens
    std::uint64_t device_weight_bytes = 0;
    std::uint64_t device_kv_bytes = 0;

    bool on_device() const { return resident + streamed + prefill_streamed > 0; }
    GroupDivision division(StepKind kind) const {
        return {.resident = resident,
                .streamed = kind == StepKind::kDecode ? streamed : prefill_streamed};
    }
};

/// A snapshot; the runtime owns the original and the executor follows it.
struct Residency {
    std::shared_ptr<const scheduler::Plan> plan = nullptr;  // followed; null: there is no device
    std::vector<GroupResidency> groups = {};                // in the catalog's order
    std::uint64_t device_step_bytes = 0;                    // activations and angles of a step
    std::uint64_t ring_bytes = 0;                           // that weights stream through
    std::int64_t kv_tokens = 0;  // whose keys and values are reserved, on any device
    /// Not empty if groups stay on the CPU that the plan puts on the device: a sentence that says
    /// how many and why.
    std::string degraded = {};

    int n_on_device() const;  // wholly or in part
    /// Weights, keys and values, the ring, and the step's memory.
    std::uint64_t device_bytes() const;
    std::vector<GroupDivision> divisions(StepKind kind) const;
};

/// Bytes of one class of tensors on one device.
struct PlacedBytes {
    std::string device = {};        // "cpu", "device"
    std::string tensor_class = {};  // "attention", "feed_forward", "experts", "head", "embedding",
                                    // "kv"
    std::uint64_t bytes = 0;
};
/// Every class that the model has, on the CPU and, if there is one, on the device. The CPU's
/// weights are those of its groups: what the device has a copy of counts there alone.
std::vector<PlacedBytes> placed_bytes(const scheduler::TensorCatalog& catalog,
                                      const Residency& residency);
/// "attention", …, as above.
constexpr const char* class_name(scheduler::GroupKind kind) {
    switch (kind) {
        case scheduler::GroupKind::kAttention:
            return "attention";
        case scheduler::GroupKind::kFeedForward:
            return "feed_forward";
        case scheduler::GroupKind::kExperts:
            return "experts";
        case scheduler::GroupKind::kHead:
            return "head";
    }
    return "";
}

/// For people: "the attention of layer 3", "the head".
std::string group_name(const scheduler::TensorGroup& group);

/// What a placement wants of each group. KV heads stay where they are, so that of attention the
/// same parts stream in either kind of step. kUnsupported naming the first group that cannot be
/// placed so: experts stream in prefill only, and are on the device only beside their router.
Result<std::vector<GroupResidency>> wanted_residency(const scheduler::TensorCatalog& catalog,
                                                     const scheduler::Placement& placement);

}  // namespace ballast::runtime
