// SPDX-License-Identifier: MIT
// How much an op reads and computes: what a paced device's modelled time follows from.
#pragma once

#include <cstdint>

#include "engine/backend/op.h"
#include "engine/backend/step_context.h"

namespace ballast::backend {

/// Bytes of weights and of cached keys and values, and arithmetic operations (a multiply-add is
/// two). Activations are not counted.
struct OpWork {
    std::uint64_t bytes = 0;
    std::uint64_t flops = 0;
};

/// The work of an op in this step. Routed experts count as if the rows chose different ones, as far
/// as there are so many.
OpWork op_work(const OpRecord& record, const StepContext& context);

}  // namespace ballast::backend
