// SPDX-License-Identifier: MIT
// A step program in the pieces that a super-chunk takes one after the other, each for all of its
// micro-batches: a layer, or less where more tiles stream in it than the ring can keep. What of the
// activations lives from one piece to the next is found from what the actions read and write.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/model/model.h"
#include "engine/runtime/step_program.h"

namespace ballast::runtime {

struct SuperStage {
    // Actions [begin, end) of the program, and the tiles that they read.
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t first_tile = 0;
    std::size_t end_tile = 0;
    /// The head, which only rows with logits need.
    bool outputs = false;
    /// Ops on the device read angles.
    bool device_angles = false;
    /// By memory: what the device reads of earlier stages, and what later ones need of it.
    std::vector<backend::SlotId> sent = {};
    std::vector<backend::SlotId> fetched = {};
};

struct SuperStages {
    std::vector<SuperStage> stages = {};
    /// By side and memory: rows that live from one stage to a later one.
    std::array<std::vector<bool>, kDevices> carried = {};
    /// Bytes that cross for each row, because the device keeps no activations between two stages.
    std::uint64_t crossing_bytes = 0;
    std::uint64_t tile_bytes = 0;  // that stream, once
};

/// No stage but the head reads more than tiles_max tiles.
SuperStages super_stages(const model::Model& model,
                         const StepProgram& program,
                         std::size_t tiles_max);

}  // namespace ballast::runtime
