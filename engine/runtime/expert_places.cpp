// SPDX-License-Identifier: MIT
// Slots by number, moves by their copies' events.
#include "engine/runtime/expert_places.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/base/check.h"

namespace ballast::runtime {

namespace {

// Of what the link could have carried beside the last step's weights, and at least of all that it
// could: a plan that streams as fast as the link can would never learn what to keep.
constexpr double kShareOfRest = 0.5;
constexpr double kShareOfAll = 0.05;
// The rate of the link: half of it is of the last copies.
constexpr double kNewest = 0.5;

}  // namespace

Result<std::optional<scheduler::SlotRule>> parse_slot_rule(const std::string& name) {
    if (name == "frequency") {
        return scheduler::SlotRule::kFrequent;
    }
    if (name == "lru") {
        return scheduler::SlotRule::kRecent;
    }
    if (name == "fixed") {
        return std::nullopt;
    }
    return fail(ErrorCode::kInvalidRequest,
                fmt::format("expert_slots is \"{}\"; possible are frequency, lru and fixed", name));
}

std::vector<scheduler::ExpertLayer> ExpertPlaces::layers_of(const Setup& setup) {
    std::vector<scheduler::ExpertLayer> layers;
    for (const GroupOps& group : setup.groups) {
        if (!group.has_experts()) {
            continue;
        }
        std::uint64_t bytes = 0;
        for (const WeightSlice& slice : share_slices(*setup.model, group, {0, 1})) {
            const auto& views = setup.model->weights().views();
            bytes += packed_bytes(views[static_cast<std::size_t>(slice.unit)], slice);
        }
        layers.push_back({.n_experts = group.n_parts, .expert_bytes = bytes});
    }
    return layers;
}

ExpertPlaces::ExpertPlaces(const Setup& setup)
    : model_(*setup.model),
      backend_(*setup.backend),
      weights_(*setup.weights),
      use_(setup.use),
      log_(setup.log),
      may_move_(setup.rule.has_value()),
      moves_(layers_of(setup),
             {.slots = {.rule = setup.rule.value_or(scheduler::SlotRule::kFrequent)},
              .in_flight_max = static_cast<int>(kMovesMax)}) {
    for (const GroupOps& group : setup.groups) {
        if (group.group >= 0) {
            index_.resize(static_cast<std::size_t>(group.group) + 1, -1);
        }
        if (group.has_experts()) {
            index_.back() = static_cast<int>(groups_.size());
            add_group(group);
        }
    }
    copies_.reserve(kMovesMax);
}

void ExpertPlaces::add_group(const GroupOps& group) {
    Group& added = groups_.emplace_back();
    added.ops = &group;
    added.contents.resize(static_cast<std::size_t>(group.n_parts), -1);
    added.order.resize(static_cast<std::size_t>(group.n_parts));
    const std::vector<WeightSlice> slices = share_slices(model_, group, {0, 1});
    BALLAST_CHECK(slices.size() == kStacks);
    for (std::size_t i = 0; i < kStacks; ++i) {
        Stack& stack = added.stacks[i];
        stack.unit = slices[i].unit;
        stack.host = model_.weights().views()[static_cast<std::size_t>(stack.unit)];
        stack.slots.resize(static_cast<std::size_t>(group.n_parts));
        added.expert_bytes += stack.host.slice_bytes();
    }
    largest_bytes_ = std::max(largest_bytes_, added.expert_bytes);
}

ExpertPlaces::~ExpertPlaces() {
    if (last_copy_) {
        // Nothing may still be on its way when the slots' memory is given back.
        static_cast<void>(backend_.wait(*last_copy_));
    }
}

void ExpertPlaces::settle(int group, int n_slots, std::span<const PartRange> pieces) {
    const int index = find(group);
    Group& of = groups_[static_cast<std::size_t>(index)];
    for (const PartRange piece : pieces) {
        if (piece.n == 0) {
            continue;
        }
        const std::vector<WeightSlice> slices = share_slices(model_, *of.ops, piece);
        for (int i = 0; i < piece.n; ++i) {
            const auto part = static_cast<std::size_t>(piece.first + i);
            if (of.stacks[0].slots[part] == nullptr) {
                of.contents[part] = static_cast<int>(part);
            }
            for (std::size_t n = 0; n < kStacks; ++n) {
                Stack& stack = of.stacks[n];
                BALLAST_CHECK(slices[n].unit == stack.unit);
                stack.slots[part] = weights_.data(slices[n]) +
                                    static_cast<std::size_t>(i) * stack.host.slice_bytes();
            }
        }
    }
    end_copies(index, n_slots);
    const int before = slots_at(index).n_slots();
    moves_.resize(index, n_slots);
    for (int slot = before; slot < n_slots; ++slot) {
        // Meanwhile the expert may have come elsewhere.
        int& expert = of.contents[static_cast<std::size_t>(slot)];
        if (expert >= 0 && !slots_at(index).slot_of(expert) && !is_coming(index, expert)) {
            moves_.put(index, expert, slot);
        } else {
            expert = -1;
        }
    }
    update_order(index);
}

void ExpertPlaces::give_up(int group, int first_part) {
    const int index = find(group);
    Group& of = groups_[static_cast<std::size_t>(index)];
    end_copies(index, first_part);
    moves_.resize(index, std::min(first_part, slots_at(index).n_slots()));
    for (auto part = static_cast<std::size_t>(first_part); part < of.contents.size(); ++part) {
        of.contents[part] = -1;
        for (Stack& stack : of.stacks) {
            stack.slots[part] = nullptr;
        }
    }
    update_order(index);
}

void ExpertPlaces::end_copies(int index, int first_part) {
    for (std::size_t i = copies_.size(); i-- > 0;) {
        const Copy& copy = copies_[i];
        if (copy.move.layer == index && copy.move.of.slot >= first_part) {
            if (copy.ordered) {
                // What it says does not matter: nobody will look there.
                static_cast<void>(backend_.wait(copy.events.back()));
            }
            drop(i);
        }
    }
}

bool ExpertPlaces::is_coming(int index, int expert) const {
    return std::any_of(copies_.begin(), copies_.end(), [&](const Copy& copy) {
        return copy.move.layer == index && copy.move.of.expert == expert;
    });
}

std::span<const int> ExpertPlaces::order(int group) const {
    const int index = find(group);
    return index < 0 || slots_at(index).n_slots() == 0
               ? std::span<const int>()
               : groups_[static_cast<std::size_t>(index)].order;
}

std::span<const int> ExpertPlaces::slots(int group) const {
    const int index = find(group);
    return index < 0 || slots_at(index).n_slots() == 0 ? std::span<const int>()
                                                       : slots_at(index).slots();
}

void ExpertPlaces::update_order(int index) {
    Group& group = groups_[static_cast<std::size_t>(index)];
    const scheduler::ExpertSlots& slots = slots_at(index);
    std::size_t part = 0;
    for (int slot = 0; slot < slots.n_slots(); ++slot) {
        group.order[part++] = slots.expert_in(slot);
    }
    const std::span<const int> slot_of = slots.slots();
    for (std::size_t expert = 0; expert < slot_of.size() && part < group.order.size(); ++expert) {
        if (slot_of[expert] < 0) {
            group.order[part++] = static_cast<int>(expert);
        }
    }
    // As many experts have no slot as there are other parts, and more where a slot is empty.
    BALLAST_CHECK(part == group.order.size());
    ++version_;
}

void ExpertPlaces::count(int group, std::span<const std::uint32_t> uses, int n_tokens) {
    moves_.count(find(group), uses, n_tokens);
}

std::uint64_t ExpertPlaces::allowance(const LastStep& last) const {
    if (link_bytes_per_second_ <= 0.0) {
        return largest_bytes_;  // one, to see how long it takes
    }
    const double all = link_bytes_per_second_ * to_seconds(last.duration);
    const double rest = all - static_cast<double>(last.streamed_bytes);
    const double most = std::clamp(kShareOfRest * rest, kShareOfAll * all, 1e15);
    return static_cast<std::uint64_t>(most);
}

Status ExpertPlaces::follow(const LastStep& last, std::span<const int> filled) {
    for (std::size_t i = copies_.size(); i-- > 0;) {
        if (!copies_[i].ordered) {
            drop(i);  // of a step that did not begin
        }
    }
    BALLAST_TRY_STATUS(take_arrived());
    for (const int group : filled) {
        BALLAST_TRY_STATUS(fill(find(group)));
    }
    if (!may_move_ || !may_begin(filled)) {
        return {};
    }
    moves_.allow(allowance(last));
    while (const auto move = moves_.next()) {
        Group& group = groups_[static_cast<std::size_t>(move->layer)];
        group.contents[static_cast<std::size_t>(move->of.slot)] = -1;
        copies_.push_back({.move = *move});
        update_order(move->layer);
    }
    return {};
}

bool ExpertPlaces::may_begin(std::span<const int> filled) const {
    // Where all experts have slots nothing moves anyway.
    return std::none_of(filled.begin(), filled.end(), [&](int group) {
        const scheduler::ExpertSlots& slots = slots_at(find(group));
        return slots.n_slots() > 0 && slots.n_slots() < static_cast<int>(slots.slots().size());
    });
}

Status ExpertPlaces::take_arrived() {
    // Copies arrive in the order in which they were put on their queue.
    while (!copies_.empty() && copies_.front().ordered &&
           backend_.done(copies_.front().events.back())) {
        const Copy copy = copies_.front();
        if (Status status = backend_.wait(copy.events.back()); !status) {
            drop(0);
            return status;
        }
        Nanoseconds busy{0};
        for (const backend::Event event : copy.events) {
            busy += backend_.work_time(event).duration();
        }
        if (busy.count() > 0) {
            const double rate = static_cast<double>(copy.move.bytes) / to_seconds(busy);
            link_bytes_per_second_ = link_bytes_per_second_ <= 0.0
                                         ? rate
                                         : std::lerp(link_bytes_per_second_, rate, kNewest);
        }
        copies_.erase(copies_.begin());
        place(copy);
    }
    return {};
}

void ExpertPlaces::place(const Copy& copy) {
    moves_.placed(copy.move);
    groups_[static_cast<std::size_t>(copy.move.layer)]
        .contents[static_cast<std::size_t>(copy.move.of.slot)] = copy.move.of.expert;
    if (use_ != nullptr) {
        use_->moved(copy.move.bytes);
    }
    update_order(copy.move.layer);
}

Status ExpertPlaces::fill(int index) {
    for (std::size_t i = 0; i < copies_.size();) {
        const Copy copy = copies_[i];
        if (copy.move.layer != index) {
            ++i;
            continue;
        }
        backend_.order_after(backend::Queue::kCompute, copy.events.back());
        copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
        place(copy);
    }
    const scheduler::ExpertSlots& slots = slots_at(index);
    int expert = 0;
    for (int slot = 0; slot < slots.n_slots(); ++slot) {
        if (slots.expert_in(slot) >= 0) {
            continue;
        }
        while (slots.slot_of(expert)) {
            ++expert;
        }
        Copy copy;
        BALLAST_TRY(const bool ordered, copy_expert(index, expert, slot, true, copy));
        BALLAST_CHECK(ordered);
        backend_.order_after(backend::Queue::kCompute, copy.events.back());
        moves_.put(index, expert, slot);
        groups_[static_cast<std::size_t>(index)].contents[static_cast<std::size_t>(slot)] = expert;
        update_order(index);
    }
    return {};
}

void ExpertPlaces::drop(std::size_t copy) {
    const scheduler::ExpertMoves::Move move = copies_[copy].move;
    copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(copy));
    moves_.dropped(move);
}

Result<bool> ExpertPlaces::copy_expert(int index, int expert, int slot, bool waits, Copy& copy) {
    const Group& group = groups_[static_cast<std::size_t>(index)];
    for (std::size_t i = 0; i < kStacks; ++i) {
        const Stack& stack = group.stacks[i];
        const std::size_t bytes = stack.host.slice_bytes();
        const auto put = [&] {
            return backend_.copy_strips_in(
                backend::Queue::kCopy,
                stack.slots[static_cast<std::size_t>(slot)],
                stack.host.data + static_cast<std::size_t>(expert) * bytes,
                {.row_bytes = bytes});
        };
        auto event = put();
        if (!event && event.error().code == ErrorCode::kOverloaded) {
            if (!waits || !last_copy_) {
                return false;
            }
            BALLAST_TRY_STATUS(backend_.wait(*last_copy_));
            event = put();
        }
        BALLAST_TRY(copy.events[i], event);
        last_copy_ = copy.events[i];
        log_->stats().count(TransferDirection::kIn, TransferReason::kExperts, bytes);
        log_->put({.lane = Lane::kCopy,
                   .first_group = group.ops->group,
                   .share = 1.0 / static_cast<double>(group.order.size()),
                   .bytes = bytes},
                  copy.events[i]);
    }
    copy.ordered = true;
    return true;
}

Status ExpertPlaces::order_copies() {
    // No step reads a slot that is being filled: what read it has ended before the views changed,
    // and the next one sees the expert there only once the copy was seen to have arrived.
    for (std::size_t i = 0; i < copies_.size();) {
        Copy& copy = copies_[i];
        if (copy.ordered) {
            ++i;
            continue;
        }
        const Result<bool> ordered =
            copy_expert(copy.move.layer, copy.move.of.expert, copy.move.of.slot, false, copy);
        if (ordered && *ordered) {
            ++i;
            continue;
        }
        drop(i);
        if (!ordered) {
            return tl::unexpected(ordered.error());
        }
    }
    return {};
}

}  // namespace ballast::runtime
