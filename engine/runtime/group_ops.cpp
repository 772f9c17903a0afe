// SPDX-License-Identifier: MIT
// Which rows and columns of each matrix belong to a share follows from the ops around it: what
// makes queries, keys and values is cut by rows, what reads attention's result by columns.
#include "engine/runtime/group_ops.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/backend/op_access.h"
#include "engine/base/check.h"

namespace ballast::runtime {

namespace {

using backend::OpGroup;
using backend::OpRecord;
using backend::SlotId;
using backend::UnitId;
using scheduler::GroupKind;
using scheduler::TensorGroup;

std::size_t size_of(int number) {
    return static_cast<std::size_t>(number);
}

bool belongs(const TensorGroup& group, const OpRecord& record) {
    switch (record.group) {
        case OpGroup::kEmbedding:
            return false;
        case OpGroup::kAttention:
            return group.kind == GroupKind::kAttention && group.layer == record.layer;
        case OpGroup::kFeedForward:
            return (group.kind == GroupKind::kFeedForward || group.kind == GroupKind::kExperts) &&
                   group.layer == record.layer;
        case OpGroup::kHead:
            return group.kind == GroupKind::kHead;
    }
    return false;
}

/// The group of each op, −1 for the embedding's.
Result<std::vector<int>> groups_of_ops(const model::OpsList& ops,
                                       const scheduler::TensorCatalog& catalog) {
    std::vector<int> groups;
    groups.reserve(ops.records().size());
    std::size_t at = 0;  // ops and groups are in the same order
    for (const OpRecord& record : ops.records()) {
        if (record.group == OpGroup::kEmbedding) {
            groups.push_back(-1);
            continue;
        }
        while (at < catalog.groups.size() && !belongs(catalog.groups[at], record)) {
            ++at;
        }
        if (at == catalog.groups.size()) {
            return fail(
                ErrorCode::kInternal,
                fmt::format("an op of layer {} is of no group that can be placed", record.layer));
        }
        groups.push_back(static_cast<int>(at));
    }
    return groups;
}

/// Fills in tail, result and inputs from the ops.
void note_flow(GroupOps& group, std::span<const OpRecord> records) {
    std::vector<SlotId> written;
    group.tail = group.end;
    for (std::size_t i = group.begin; i < group.end; ++i) {
        const backend::OpAccess access(records[i].op);
        for (const SlotId slot : access.reads()) {
            const bool made_here = std::find(written.begin(), written.end(), slot) != written.end();
            const bool noted =
                std::find(group.inputs.begin(), group.inputs.end(), slot) != group.inputs.end();
            if (!made_here && !noted) {
                group.inputs.push_back(slot);
            }
        }
        written.insert(written.end(), access.writes().begin(), access.writes().end());
        if (std::holds_alternative<backend::Linear>(records[i].op) ||
            std::holds_alternative<backend::Experts>(records[i].op)) {
            group.tail = i + 1;
            group.result = access.writes().front();
        }
        if (const auto* router = std::get_if<backend::Router>(&records[i].op)) {
            group.choice = router->choice;
        }
    }
}

/// Rewrites a group's ops for some of its parts.
class ShareWriter {
  public:
    ShareWriter(const model::Model& model,
                const GroupOps& group,
                const ShareForm& form,
                SideOps& to)
        : model_(model), group_(group), form_(form), to_(to) {
        const auto records = model.ops().records();
        for (std::size_t i = group.begin; i < group.tail; ++i) {
            if (const auto* op = std::get_if<backend::Attention>(&records[i].op)) {
                attention_ = op;
            } else if (const auto* gated = std::get_if<backend::GatedActivation>(&records[i].op)) {
                gated_ = gated;
            }
        }
    }

    void write() {
        const auto records = model_.ops().records();
        for (std::size_t i = group_.begin; i < group_.tail; ++i) {
            OpRecord record = records[i];
            const bool experts = std::holds_alternative<backend::Experts>(record.op);
            const bool router = std::holds_alternative<backend::Router>(record.op);
            if (group_.has_experts() && !(experts  ? form_.body
                                          : router ? form_.prologue && form_.router
                                                   : form_.prologue)) {
                continue;
            }
            record.op =
                std::visit([this](auto op) -> backend::Op { return of_share(op); }, record.op);
            to_.records.push_back(record);
        }
    }

  private:
    bool is_whole() const { return form_.parts.n == group_.n_parts; }
    /// Of `total` equal things in all parts, those of the share.
    PartRange share_of(int total) const {
        const int each = total / group_.n_parts;
        return {form_.parts.first * each, form_.parts.n * each};
    }
    const backend::WeightView& tensor(UnitId unit) const {
        return model_.weights().views()[static_cast<std::size_t>(unit)];
    }
    /// What every share reads whole, a norm, stays on each side.
    UnitId whole(UnitId unit) const { return to_.number({whole_slice(unit, tensor(unit)), -1}); }
    UnitId matrix(const WeightSlice& slice) const { return to_.number({slice, form_.tile}); }
    UnitId rows(UnitId unit, PartRange range) const {
        WeightSlice slice = whole_slice(unit, tensor(unit));
        slice.first_row = size_of(range.first);
        slice.n_rows = size_of(range.n);
        return matrix(slice);
    }
    UnitId columns(UnitId unit, PartRange range) const {
        WeightSlice slice = whole_slice(unit, tensor(unit));
        slice.first_column = size_of(range.first);
        slice.n_columns = size_of(range.n);
        return matrix(slice);
    }
    SlotId result_or(SlotId slot) const { return slot == group_.result ? form_.result : slot; }

    backend::Op of_share(backend::Embed op) const {
        op.table = whole(op.table);
        return op;
    }
    backend::Op of_share(backend::RmsNorm op) const {
        op.weight = whole(op.weight);
        if (attention_ != nullptr && op.in == attention_->q) {
            op.n_groups = share_of(attention_->n_heads).n;
        } else if (attention_ != nullptr && op.in == attention_->k) {
            op.n_groups = share_of(attention_->n_kv_heads).n;
        }
        return op;
    }
    backend::Op of_share(backend::Linear op) const {
        for (std::size_t i = 0; i < size_of(op.n_matrices); ++i) {
            op.weights[i] = share_of_matrix(op.weights[i], op.in, op.outs[i]);
            op.outs[i] = result_or(op.outs[i]);
        }
        return op;
    }
    UnitId share_of_matrix(UnitId unit, SlotId in, SlotId out) const {
        if (group_.group < 0 || is_whole()) {
            return matrix(whole_slice(unit, tensor(unit)));
        }
        const bool reads_share = (attention_ != nullptr && in == attention_->out) ||
                                 (gated_ != nullptr && in == gated_->out);
        if (reads_share) {
            return columns(unit, share_of(static_cast<int>(tensor(unit).k)));
        }
        const bool makes_share =
            group_.is_head() ||
            (attention_ != nullptr &&
             (out == attention_->q || out == attention_->k || out == attention_->v)) ||
            (gated_ != nullptr && (out == gated_->gate || out == gated_->up));
        BALLAST_CHECK(makes_share);
        return rows(unit, share_of(static_cast<int>(tensor(unit).n_rows)));
    }
    backend::Op of_share(backend::Rope op) const {
        op.n_heads = share_of(op.n_heads).n;
        op.n_kv_heads = share_of(op.n_kv_heads).n;
        return op;
    }
    backend::Op of_share(backend::Attention op) const {
        op.first_kv_head = share_of(op.n_kv_heads).first;
        op.n_heads = share_of(op.n_heads).n;
        op.n_kv_heads = share_of(op.n_kv_heads).n;
        return op;
    }
    backend::Op of_share(backend::GatedActivation op) const {
        op.width = share_of(op.width).n;
        return op;
    }
    backend::Op of_share(backend::Add op) const { return op; }
    backend::Op of_share(backend::Router op) const {
        op.weight = whole(op.weight);
        return op;
    }
    backend::Op of_share(backend::Experts op) const {
        for (UnitId* const unit : {&op.gate, &op.up, &op.down}) {
            WeightSlice slice = whole_slice(*unit, tensor(*unit));
            if (!form_.in_place) {
                slice.first_matrix = size_of(form_.parts.first);
                slice.n_matrices = size_of(form_.parts.n);
            }
            *unit = matrix(slice);
        }
        op.out = result_or(op.out);
        op.layer = static_cast<int>(to_.expert_shares.size());
        to_.expert_shares.push_back({form_.parts, op.n_experts, group_.group});
        return op;
    }
    backend::Op of_share(backend::GatherOutputs op) const { return op; }

    const model::Model& model_;
    const GroupOps& group_;
    const ShareForm& form_;
    SideOps& to_;
    const backend::Attention* attention_ = nullptr;
    const backend::GatedActivation* gated_ = nullptr;
};

}  // namespace

UnitId SideOps::number(const SideUnit& unit) {
    const auto [found, is_new] = numbers_.emplace(unit, static_cast<UnitId>(units_.size()));
    if (is_new) {
        units_.push_back(unit);
    }
    return found->second;
}

Result<std::vector<GroupOps>> group_ops(const model::OpsList& ops,
                                        const scheduler::TensorCatalog& catalog) {
    BALLAST_TRY(const std::vector<int> groups, groups_of_ops(ops, catalog));
    std::vector<GroupOps> found;
    const std::span<const OpRecord> records = ops.records();
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (i == 0 || groups[i] != groups[i - 1]) {
            GroupOps& next = found.emplace_back();
            next.group = groups[i];
            next.begin = i;
            next.rows = records[i].rows;
            if (groups[i] >= 0) {
                const TensorGroup& of = catalog.groups[size_of(groups[i])];
                next.kind = of.kind;
                next.n_parts = of.parts;
            }
        }
        found.back().end = i + 1;
    }
    for (GroupOps& group : found) {
        note_flow(group, records);
    }
    return found;
}

void append_share(const model::Model& model,
                  const GroupOps& group,
                  const ShareForm& form,
                  SideOps& to) {
    ShareWriter(model, group, form, to).write();
}

void append_tail(const model::Model& model, const GroupOps& group, SideOps& to) {
    for (std::size_t i = group.tail; i < group.end; ++i) {
        OpRecord record = model.ops().records()[i];
        if (auto* norm = std::get_if<backend::RmsNorm>(&record.op)) {
            const auto& tensor = model.weights().views()[static_cast<std::size_t>(norm->weight)];
            norm->weight = to.number({whole_slice(norm->weight, tensor), -1});
        }
        to.records.push_back(record);
    }
}

std::vector<WeightSlice> share_slices(const model::Model& model,
                                      const GroupOps& group,
                                      PartRange parts) {
    SideOps scratch;
    append_share(model, group, {.parts = parts, .result = group.result, .tile = 0}, scratch);
    std::vector<WeightSlice> slices;
    for (const SideUnit& unit : scratch.units()) {
        if (unit.tile == 0) {
            slices.push_back(unit.slice);
        }
    }
    return slices;
}

std::vector<WeightSlice> common_slices(const model::Model& model, const GroupOps& group) {
    SideOps scratch;
    append_share(
        model, group, {.parts = {0, group.n_parts}, .result = group.result, .tile = 0}, scratch);
    append_tail(model, group, scratch);
    std::vector<WeightSlice> slices;
    for (const SideUnit& unit : scratch.units()) {
        if (unit.tile < 0) {
            slices.push_back(unit.slice);
        }
    }
    return slices;
}

}  // namespace ballast::runtime
