// SPDX-License-Identifier: MIT
// The part of DeviceSide that changes while the engine runs: pieces of groups come and go.
#include <algorithm>

#include "engine/base/check.h"
#include "engine/runtime/device_side.h"

namespace ballast::runtime {

using scheduler::Placement;

std::vector<WeightSlice> DeviceSide::needed_slices() const {
    std::vector<WeightSlice> needed;
    const auto add = [&](const Piece& piece) {
        const std::vector<WeightSlice> slices = slices_of(piece);
        needed.insert(needed.end(), slices.begin(), slices.end());
    };
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        for (const PartRange parts : pieces_[i]) {
            add({i, parts});
        }
        // What streams reads its group's small tensors all the same.
        if (pieces_[i].empty() && residency_.groups[i].on_device()) {
            add({i, {}});
        }
    }
    for (const Piece& piece : coming_) {
        add(piece);
    }
    return needed;
}

const std::array<StepProgram, kStepKinds.size()>& DeviceSide::compiled() {
    if (!programs_) {
        programs_.emplace();
        for (const StepKind kind : kStepKinds) {
            // While it is being made, residents are not in pieces yet.
            bool in_pieces = true;
            for (std::size_t i = 0; i < pieces_.size(); ++i) {
                in_pieces =
                    in_pieces && (residency_.groups[i].resident == 0 || !pieces_[i].empty());
            }
            (*programs_)[static_cast<std::size_t>(kind)] =
                make_step_program(*setup_.model,
                                  groups_,
                                  residency_.divisions(kind),
                                  setup_.tile_bytes,
                                  in_pieces ? std::span<const std::vector<PartRange>>(pieces_)
                                            : std::span<const std::vector<PartRange>>());
        }
    }
    return *programs_;
}

std::array<StepProgram, kStepKinds.size()> DeviceSide::programs() {
    compiled();
    std::array<StepProgram, kStepKinds.size()> made = std::move(*programs_);
    programs_.reset();
    return made;
}

Placement DeviceSide::kept() const {
    Placement kept = scheduler::cpu_only(*setup_.catalog);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        if (!pieces_[i].empty()) {
            kept.groups[i].resident = pieces_[i].back().end();
            kept.groups[i].shared_on_device =
                setup_.catalog->groups[i].kind == scheduler::GroupKind::kExperts;
        }
    }
    return kept;
}

int DeviceSide::whole_pieces(std::size_t group, int resident) const {
    int whole = 0;
    for (const PartRange piece : pieces_[group]) {
        whole = piece.end() <= resident ? piece.end() : whole;
    }
    return whole;
}

void DeviceSide::keep(const Placement& kept) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        auto& pieces = pieces_[i];
        const bool experts = has_experts(i);
        const int resident = kept.groups[i].resident;
        const bool none = experts ? !kept.groups[i].shared_on_device : resident == 0;
        while (!pieces.empty() && (none || pieces.back().end() > resident)) {
            pieces.pop_back();
        }
        const int left = pieces.empty() ? 0 : pieces.back().end();
        if (experts) {
            experts_->give_up(static_cast<int>(i), left);
        }
        GroupResidency& facts = residency_.groups[i];
        if (facts.resident > left) {
            facts.resident = left;
            programs_.reset();
        }
    }
    weights_.keep_only(needed_slices());
}

Status DeviceSide::execute(const Placement& executed) {
    BALLAST_TRY(std::vector<GroupResidency> wanted, wanted_residency(*setup_.catalog, executed));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        GroupResidency& facts = residency_.groups[i];
        GroupResidency next = supported_[i] ? wanted[i] : GroupResidency{};
        next.resident = whole_pieces(i, next.resident);
        next.device_weight_bytes = facts.device_weight_bytes;
        next.device_kv_bytes = facts.device_kv_bytes;
        facts = next;
    }
    first_reason_.clear();
    n_wanted_ = residency_.n_on_device();
    programs_.reset();
    return {};
}

void DeviceSide::begin_upload(std::span<const Piece> pieces, std::uint64_t chunk_bytes_max) {
    BALLAST_CHECK(coming_.empty());
    coming_.assign(pieces.begin(), pieces.end());
    n_come_ = 0;
    std::vector<std::vector<WeightSlice>> slices;
    for (const Piece& piece : coming_) {
        slices.push_back(slices_of(piece));
    }
    weights_.begin(slices, chunk_bytes_max);
}

Status DeviceSide::advance_upload(std::uint64_t bytes_most, std::uint64_t room_bytes) {
    Status status = weights_.advance(bytes_most, room_bytes);
    for (; n_come_ < weights_.n_arrived(); ++n_come_) {
        const Piece& piece = coming_[n_come_];
        auto& pieces = pieces_[piece.group];
        // What it was to follow may have gone meanwhile.
        if (piece.parts.first == (pieces.empty() ? 0 : pieces.back().end())) {
            pieces.push_back(piece.parts);
        }
    }
    if (n_come_ == coming_.size()) {
        coming_.clear();
        n_come_ = 0;
    }
    return status;
}

void DeviceSide::cancel_upload() {
    weights_.cancel();
    coming_.clear();
    n_come_ = 0;
    weights_.keep_only(needed_slices());
}

bool DeviceSide::take_for_steps(std::uint64_t budget_bytes) {
    if (residency_.n_on_device() == 0) {
        return true;
    }
    bool all = take_common();
    if (Status status = take_step_memory(); !status) {
        give_up_all("the memory of a step: " + status.error().message);
        return false;
    }
    // What prompts stream goes first.
    for (int GroupResidency::*const streams :
         {&GroupResidency::prefill_streamed, &GroupResidency::streamed}) {
        const auto& programs = compiled();
        const std::array<const StepProgram*, 2> both = {&programs[0], &programs[1]};
        if (ring_.fits(both, shares_ring())) {
            return all;
        }
        ring_.release();
        const std::uint64_t used = setup_.backend->memory_use().bytes;
        if (used + WeightRing::bytes_for(both, shares_ring()) <= budget_bytes) {
            if (const Status status = ring_.reserve(both, shares_ring())) {
                return all;
            }
            ring_.release();
            all = false;
        }
        drop_streams(streams);
    }
    return all;
}

void DeviceSide::drop_streams(int GroupResidency::*streams) {
    for (std::size_t i = 0; i < residency_.groups.size(); ++i) {
        GroupResidency& facts = residency_.groups[i];
        facts.*streams = 0;
        if (setup_.catalog->groups[i].kind == scheduler::GroupKind::kAttention) {
            // Of attention the same parts stream in either kind of step.
            facts.prefill_streamed = facts.streamed;
        }
    }
    programs_.reset();
}

bool DeviceSide::take_common() {
    std::vector<std::size_t> groups;
    std::vector<std::vector<WeightSlice>> slices;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        if (pieces_[i].empty() && residency_.groups[i].on_device()) {
            groups.push_back(i);
            slices.push_back(slices_of({i, {}}));
        }
    }
    const std::vector<Status> results =
        groups.empty() ? std::vector<Status>() : weights_.upload(slices, chunk_bytes(0));
    bool all = true;
    for (std::size_t i = 0; i < results.size(); ++i) {
        if (!results[i]) {
            keep_on_cpu(groups[i], results[i].error().message);
            all = false;
        }
    }
    return all;
}

void DeviceSide::settle_experts() {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        if (has_experts(i)) {
            const auto group = static_cast<int>(i);
            experts_->give_up(group, pieces_[i].empty() ? 0 : pieces_[i].back().end());
            experts_->settle(group, residency_.groups[i].resident, pieces_[i]);
        }
    }
}

void DeviceSide::settle_parts(std::int64_t kv_tokens) {
    settle_experts();
    weights_.keep_only(needed_slices());
    if (residency_.n_on_device() == 0) {
        give_step_back();
    }
    count_bytes(kv_tokens);
    note_degraded();
}

void DeviceSide::give_step_back() {
    for (const backend::Chunk& chunk : chunks_) {
        setup_.backend->free_chunk(chunk);
    }
    chunks_.clear();
    std::fill(slots_.begin(), slots_.end(), backend::SlotView{});
    std::fill(angles_.begin(), angles_.end(), Angles{});
    std::fill(rope_.begin(), rope_.end(), backend::RopeView{});
    residency_.device_step_bytes = 0;
    ring_.release();
}

void DeviceSide::count_bytes(std::int64_t kv_tokens) {
    residency_.kv_tokens = kv_tokens;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        GroupResidency& facts = residency_.groups[i];
        facts.device_weight_bytes = 0;
        for (const PartRange parts : pieces_[i]) {
            for (const WeightSlice& slice : slices_of({i, parts})) {
                facts.device_weight_bytes += packed_bytes(
                    setup_.model->weights().views()[static_cast<std::size_t>(slice.unit)], slice);
            }
        }
        const scheduler::TensorGroup& of = setup_.catalog->groups[i];
        const auto n = static_cast<std::uint64_t>(facts.division(StepKind::kDecode).on_device());
        facts.device_kv_bytes = of.kv_bytes_per_token / static_cast<std::uint64_t>(of.parts) * n *
                                static_cast<std::uint64_t>(kv_tokens);
    }
    residency_.ring_bytes = ring_.total_bytes();
}

}  // namespace ballast::runtime
