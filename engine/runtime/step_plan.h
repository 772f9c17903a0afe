// SPDX-License-Identifier: MIT
// The ops of one forward pass cut into pieces, each whole on one device, with the activations that
// must have crossed before a piece starts. Made once for a residency, followed in every step.
#pragma once

#include <span>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/model/ops_list.h"
#include "scheduler/profile/tensor_catalog.h"

namespace ballast::runtime {

/// The ops of one group, or the embedding.
struct StepPiece {
    int group = -1;         // in the catalog's order; −1: the embedding
    std::size_t begin = 0;  // ops [begin, end) of the list
    std::size_t end = 0;
    DeviceId device = DeviceId::kCpu;
    backend::RowDomain rows = backend::RowDomain::kAll;
    /// Slots that it reads and whose latest rows are on the other device.
    std::vector<backend::SlotId> arrivals = {};
};

struct StepPlan {
    std::vector<StepPiece> pieces = {};
    std::vector<std::size_t> segment_begin = {};  // first piece of each segment, and the end
    std::vector<bool> device_slots = {};          // by SlotId: an op on the device touches it
    std::vector<bool> device_tables = {};         // by rope table
    bool logits_on_device = false;                // after the last op

    std::span<const StepPiece> segments(int first, int last) const;
};

/// The group of each op, −1 for the embedding's. kInternal if the catalog has no group for an op.
Result<std::vector<int>> groups_of_ops(const model::OpsList& ops,
                                       const scheduler::TensorCatalog& catalog);

/// devices: one for each group of the catalog. The embedding is on the CPU.
Result<StepPlan> make_step_plan(const model::OpsList& ops,
                                const scheduler::TensorCatalog& catalog,
                                std::span<const DeviceId> devices,
                                backend::SlotId logits);

}  // namespace ballast::runtime
