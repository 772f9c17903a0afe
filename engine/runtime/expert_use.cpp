// SPDX-License-Identifier: MIT
// Reads choices from their slot, which layers share.
#include "engine/runtime/expert_use.h"

#include <algorithm>
#include <variant>

#include "engine/backend/expert_choice.h"
#include "engine/runtime/expert_places.h"

namespace ballast::runtime {

namespace {

int n_groups_with_experts(std::span<const GroupOps> groups) {
    return static_cast<int>(std::count_if(
        groups.begin(), groups.end(), [](const GroupOps& group) { return group.has_experts(); }));
}

}  // namespace

ExpertUse::ExpertUse(const model::Model& model, std::span<const GroupOps> groups)
    : uses_(static_cast<std::size_t>(model.config().n_experts)),
      counts_(n_groups_with_experts(groups), model.config().n_experts) {
    for (const GroupOps& group : groups) {
        if (group.group >= 0) {
            index_.resize(static_cast<std::size_t>(group.group) + 1, -1);
        }
        if (!group.has_experts()) {
            continue;
        }
        for (std::size_t i = group.begin; i < group.end; ++i) {
            const backend::OpRecord& record = model.ops().records()[i];
            if (const auto* router = std::get_if<backend::Router>(&record.op)) {
                index_.back() = static_cast<int>(choices_.size());
                choices_.push_back({.slot = router->choice, .n_used = router->n_used});
            }
        }
    }
    next_.has_experts = !choices_.empty();
    published_ = next_;
}

void ExpertUse::count(int group,
                      std::span<const backend::SlotView> slots,
                      int n_rows,
                      ExpertPlaces* places) {
    const int index = index_of(group);
    const Choice& choice = choices_[static_cast<std::size_t>(index)];
    std::fill(uses_.begin(), uses_.end(), 0U);
    backend::count_choices(
        slots[static_cast<std::size_t>(choice.slot)], n_rows, choice.n_used, uses_);
    counts_.count(
        index, uses_, n_rows, places != nullptr ? places->slots(group) : std::span<const int>());
    if (places != nullptr) {
        places->count(group, uses_, n_rows);
    }
    changed_ = true;
}

void ExpertUse::moved(std::uint64_t bytes) {
    ++next_.n_moves;
    next_.moved_bytes += bytes;
    changed_ = true;
}

void ExpertUse::publish(Nanoseconds now, bool at_once) {
    if (!changed_ || (!at_once && now - published_at_ < kReportEvery)) {
        return;
    }
    changed_ = false;
    published_at_ = now;
    next_.summary = counts_.summary();
    next_.hits = counts_.hits();
    next_.misses = counts_.misses();
    const std::lock_guard lock(mutex_);
    published_ = next_;
}

ExpertReport ExpertUse::report() const {
    const std::lock_guard lock(mutex_);
    return published_;
}

}  // namespace ballast::runtime
