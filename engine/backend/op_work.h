// SPDX-License-Identifier: MIT
// How much an op reads and computes: what a paced device's modelled time follows from.
#pragma once

#include <cstdint>
#include <span>

#include "engine/backend/op.h"
#include "engine/backend/step_context.h"
#include "engine/base/clock.h"

namespace ballast::backend {

/// Bytes of weights and of cached keys and values, and arithmetic operations (a multiply-add is
/// two). Activations are not counted.
struct OpWork {
    std::uint64_t bytes = 0;
    std::uint64_t flops = 0;
};

/// The work of an op in this step. Routed experts count as if the rows chose different ones, as far
/// as there are so many; where only some are here, those that the choice in its slot asks for now.
OpWork op_work(const OpRecord& record, const StepContext& context);

/// What ops take that read and compute at such rates.
struct ModelledWork {
    Nanoseconds time{0};  // the sum over the ops of whichever takes longer
    std::uint64_t bytes = 0;
};

/// Rates are 1e9 bytes and 1e9 operations a second; what has a rate of 0 takes no time.
ModelledWork modelled_work(std::span<const OpRecord> ops,
                           const StepContext& context,
                           double read_gbps,
                           double gflops);

}  // namespace ballast::backend
