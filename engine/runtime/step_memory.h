// SPDX-License-Identifier: MIT
// How much memory a step takes: its limits, and from them the sizes of activations and scratch.
#pragma once

#include <cstdint>

#include "engine/backend/backend.h"
#include "engine/model/model.h"

namespace ballast::runtime {

/// Sizes that an executor takes memory for.
struct ExecutorLimits {
    int rows = 0;     // token rows of one step
    int outputs = 0;  // rows of one step whose logits are wanted
    int context = 0;  // positions of one sequence
    /// Rows of a super-chunk; 0: there are none.
    int super_rows = 0;
};

/// What a backend takes scratch for.
backend::StepLimits step_limits(const model::Model& model, const ExecutorLimits& limits);

/// Floats of a slot that holds as many rows as a step can have.
template <class Slot>
std::size_t slot_floats(const Slot& slot, const ExecutorLimits& limits) {
    const int rows = slot.rows == backend::RowDomain::kAll ? limits.rows : limits.outputs;
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(slot.width);
}

/// The floats of a chunk, which is aligned to a page, and the bytes of floats.
inline float* floats_at(const backend::Chunk& chunk) {
    return static_cast<float*>(static_cast<void*>(chunk.data));
}
inline std::byte* bytes_at(float* memory) {
    return static_cast<std::byte*>(static_cast<void*>(memory));
}
inline const std::byte* bytes_at(const float* memory) {
    return static_cast<const std::byte*>(static_cast<const void*>(memory));
}

/// Bytes that a step's activations and angles take on a device that runs all groups but the head,
/// what sums of both sides add, and what the head adds.
struct StepBytes {
    std::uint64_t layers = 0;
    std::uint64_t sums = 0;
    std::uint64_t head = 0;
};
StepBytes device_step_bytes(const model::Model& model, const ExecutorLimits& limits);

}  // namespace ballast::runtime
