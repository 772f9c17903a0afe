// SPDX-License-Identifier: MIT
// One forward pass as two lanes see it: the CPU's ops, the device's, and what crosses between them,
// in the order in which one thread orders it. Made once for a residency, followed in every step.
//
// A divided group runs on both sides at once. The device's share is queued before the CPU waits for
// anything, so that a hop is latency and not a wait; then each side that needs the residual next
// gets the other's sum, adds it to its own, and finishes the group by itself.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "engine/base/ids.h"
#include "engine/model/model.h"
#include "engine/runtime/group_division.h"
#include "engine/runtime/group_ops.h"

namespace ballast::runtime {

/// An activation slot of a step: one of the model's, one of those that a program adds, or some
/// columns of another, from `first_column` on.
struct StepSlot {
    backend::SlotId memory = 0;  // whose it is
    int first_column = 0;
    int width = 0;  // of the memory's rows
    backend::RowDomain rows = backend::RowDomain::kAll;
};

/// What crosses into the ring at once.
struct StepTile {
    int group = -1;
    PartRange parts = {};
    int n_parts = 1;  // of the group
    std::size_t size_bytes = 0;
    std::vector<backend::UnitId> units = {};  // as the device's ops number them
    std::vector<std::size_t> offsets = {};    // of each in the tile
};

struct StepAction {
    enum class Kind {
        kSend,    // a slot's rows from the CPU to the device
        kFetch,   // a slot's rows from the device to the CPU
        kAwait,   // the CPU goes on when a fetch has arrived
        kDevice,  // ops on the device
        kCpu,     // ops on the CPU
    };
    Kind kind = Kind::kCpu;
    backend::RowDomain rows = backend::RowDomain::kAll;
    // A copy.
    backend::SlotId from = 0;
    backend::SlotId to = 0;
    int n_columns = 0;
    int fetch = -1;  // its number, or that which is awaited
    // Ops [begin, end) of the side.
    std::size_t begin = 0;
    std::size_t end = 0;
    int tile = -1;  // that they read; its place in the ring is free after them
    /// In the catalog's order; −1: the embedding. Of what is awaited the group whose choice of
    /// experts it is; −1: none.
    int group = -1;
    double share = 1.0;     // of the group's parts
    bool finishes = false;  // the sum of both sides and what follows it
};

struct StepProgram {
    std::vector<StepAction> actions = {};
    std::vector<std::size_t> segment_begin = {};  // first action of each segment, and the end
    std::array<SideOps, kDevices> sides = {};
    std::vector<StepSlot> slots = {};  // by SlotId, on either side
    std::vector<StepTile> tiles = {};  // in the order of use
    int n_fetches = 0;
    std::vector<bool> device_slots = {};   // by memory: an op or a copy on the device touches it
    std::vector<bool> device_tables = {};  // by rope table

    std::span<const StepAction> segments(int first, int last) const;
};

/// Slots of the residual's width that a program adds to the model's: two for the other side's sums,
/// in turn, and one for the sum of the device's own shares.
constexpr int kAddedSlots = 3;

/// divisions: one for each group of the catalog. No tile has more than `tile_bytes`, unless one
/// part has. The embedding is on the CPU, and so are the logits in the end. `pieces`: by group, the
/// ranges in which its residents lie in device memory, with nothing between them; none: each
/// group's residents lie together.
StepProgram make_step_program(const model::Model& model,
                              std::span<const GroupOps> groups,
                              std::span<const GroupDivision> divisions,
                              std::size_t tile_bytes,
                              std::span<const std::vector<PartRange>> pieces = {});

}  // namespace ballast::runtime
