// SPDX-License-Identifier: MIT
// The user's question, "how will this model run on that machine?", and its whole answer.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "scheduler/placement/planner.h"
#include "scheduler/profile/bound.h"

namespace ballast::scheduler {

struct PlanQuestion {
    const TensorCatalog* catalog = nullptr;
    HardwareProfile hardware = {};
    std::optional<double> device_budget_bytes = {};  // a cap on what we take of the device
    int context = 4096;                              // tokens to reserve KV for
    double prefill_weight = 4.0;                     // prompt tokens for each …
    double decode_weight = 1.0;                      // … of these generated ones
    Locality locality = Locality::kUniform;
    HopModel hops = HopModel::kOverlapped;
};

/// What kind of plan it is.
enum class Verdict {
    kCannotRun,     // not enough memory for the weights
    kNoDevice,      // the CPU alone, because there is nothing else
    kCpuAlone,      // the CPU alone, because a device does not help
    kAllOnDevice,   // everything but the embedding
    kSplit,         // both work on each layer, the device owns the residual
    kCpuOwns,       // the CPU owns residual, attention and KV; the device takes shares
    kExpertsSplit,  // the device has what is always read and a part of the experts
    kSomeLayers,    // some groups here, some there, none divided
};

/// Bytes of one class of tensors by who computes them, in decode.
struct ClassBytes {
    double device = 0.0;
    double streamed = 0.0;
    double cpu = 0.0;
};
/// Attention, feed-forward, experts (with what is always read beside them), head: by GroupKind.
constexpr std::size_t kPlacedClasses = 4;

struct PlanAnswer {
    Verdict verdict = Verdict::kCannotRun;
    std::string sentence = {};  // the verdict in words, with its reason
    PlanResult result = {};     // empty if it cannot run
    int depth = 0;
    int prefill_tokens = 0;
    double memory_bytes = 0.0;           // of the device that may be used
    double host_bytes = 0.0;             // RAM it takes
    double decode_limit_seconds = 0.0;   // T_LB
    double prefill_limit_seconds = 0.0;  // T_LB
    std::array<ClassBytes, kPlacedClasses> bytes = {};
    ClassBytes kv = {};
};

/// "all_on_device", …, for programs.
const char* verdict_name(Verdict verdict);

/// What the planner is asked for the question; of the answer it takes memory, depth and the prompt.
PlanRequest plan_request(const PlanQuestion& question, const PlanAnswer& answer);

/// Pure. Preconditions as make_plan's; context at least 4.
PlanAnswer answer(const PlanQuestion& question);

}  // namespace ballast::scheduler
