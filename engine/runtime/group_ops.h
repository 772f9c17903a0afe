// SPDX-License-Identifier: MIT
// The ops of each group of tensors, and the same ops for a share of the group's parts: KV heads of
// attention, neurons of a feed-forward, rows of the head. A share of attention or feed-forward
// gives a sum over its own columns; the shares' sums together are the group's result.
#pragma once

#include <map>
#include <vector>

#include "engine/backend/op.h"
#include "engine/base/result.h"
#include "engine/model/model.h"
#include "engine/runtime/weight_slice.h"
#include "scheduler/profile/tensor_catalog.h"

namespace ballast::runtime {

/// One group, or the embedding.
struct GroupOps {
    int group = -1;  // in the catalog's order; −1: the embedding
    scheduler::GroupKind kind = scheduler::GroupKind::kFeedForward;
    int n_parts = 1;
    std::size_t begin = 0;  // ops [begin, end) of the model's list
    std::size_t end = 0;
    /// From here on ops see the result of all shares together: norm it, add it to the residual.
    std::size_t tail = 0;
    backend::SlotId result = 0;                // what [begin, tail) ends with
    backend::SlotId choice = 0;                // of experts
    std::vector<backend::SlotId> inputs = {};  // read before the group writes them
    backend::RowDomain rows = backend::RowDomain::kAll;

    bool has_experts() const { return group >= 0 && kind == scheduler::GroupKind::kExperts; }
    /// Shares' results are columns of the whole instead of sums.
    bool is_head() const { return group >= 0 && kind == scheduler::GroupKind::kHead; }
};

/// In order. kInternal if the catalog has no group for an op.
Result<std::vector<GroupOps>> group_ops(const model::OpsList& ops,
                                        const scheduler::TensorCatalog& catalog);

/// Some of a group's parts, in order.
struct PartRange {
    int first = 0;
    int n = 0;

    int end() const { return first + n; }
    friend bool operator==(const PartRange&, const PartRange&) = default;
};

/// What a side reads, numbered in the order of first use. A slice that crosses in each step is
/// another weight than the same slice at its place, and so is each of a tile.
struct SideUnit {
    WeightSlice slice = {};
    int tile = -1;  // of the step's tiles; −1: it is there all the time

    friend bool operator<(const SideUnit& a, const SideUnit& b) {
        return a.tile != b.tile ? a.tile < b.tile : a.slice < b.slice;
    }
};

/// Parts of a group of experts that a share has. Which experts they are is said in each step
/// (expert_places.h). The device has them in that order in its stacked units; the CPU has all
/// experts in its units, in the order of their numbers, and computes those of its parts.
struct ExpertShare {
    PartRange parts = {};
    int n_experts = 0;
    int group = -1;  // in the catalog's order
};

/// One side's ops of a step, with weights of its own numbering.
class SideOps {
  public:
    std::vector<backend::OpRecord> records = {};
    /// By what Experts ops have as their layer: each share has its own.
    std::vector<ExpertShare> expert_shares = {};

    backend::UnitId number(const SideUnit& unit);
    /// By UnitId.
    const std::vector<SideUnit>& units() const { return units_; }

  private:
    std::vector<SideUnit> units_ = {};
    std::map<SideUnit, backend::UnitId> numbers_ = {};
};

/// How a share is written.
struct ShareForm {
    PartRange parts = {};
    backend::SlotId result = 0;  // in place of the group's
    int tile = -1;               // that its weights are in; −1: they stay
    /// Of a group of experts all that comes before them, and in it the choice of experts, which is
    /// made on one side only.
    bool prologue = true;
    bool router = true;
    bool body = true;  // the experts, or the whole of any other group
    /// Experts are read where the model's file has them: the units are the whole stacks.
    bool in_place = false;
};

/// Appends the group's ops up to its tail, for these parts.
void append_share(const model::Model& model,
                  const GroupOps& group,
                  const ShareForm& form,
                  SideOps& to);
/// Appends the ops of the tail.
void append_tail(const model::Model& model, const GroupOps& group, SideOps& to);

/// Slices that a share reads, but for the small ones that every share reads whole.
std::vector<WeightSlice> share_slices(const model::Model& model,
                                      const GroupOps& group,
                                      PartRange parts);
/// Those small ones: norms. Of an undivided group it is all that share_slices() leaves.
std::vector<WeightSlice> common_slices(const model::Model& model, const GroupOps& group);

}  // namespace ballast::runtime
