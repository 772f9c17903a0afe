// SPDX-License-Identifier: MIT
// Which experts a device holds. A group of experts is divided by the number of its parts, and which
// expert is which part changes between steps: the resident parts are slots of device memory, into
// which the experts that are asked for most are copied while the steps go on.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/model/model.h"
#include "engine/runtime/device_weights.h"
#include "engine/runtime/expert_use.h"
#include "engine/runtime/group_ops.h"
#include "engine/runtime/lane_log.h"
#include "engine/runtime/residency.h"
#include "scheduler/load/expert_moves.h"

namespace ballast::runtime {

/// "frequency", "lru", "fixed": experts stay where they were first. kInvalidRequest.
Result<std::optional<scheduler::SlotRule>> parse_slot_rule(const std::string& name);

/// Engine thread. Who owns the slots' memory says what there is of it; what it is made of outlives
/// it.
class ExpertPlaces {
  public:
    struct Setup {
        const model::Model* model = nullptr;
        backend::Backend* backend = nullptr;
        const DeviceWeights* weights = nullptr;
        std::span<const GroupOps> groups = {};
        std::optional<scheduler::SlotRule> rule = {};  // nothing: no moves
        ExpertUse* use = nullptr;                      // is told of moves
        LaneLog* log = nullptr;                        // and of their copies
    };
    /// What had to cross meanwhile, and how long it could.
    struct LastStep {
        Nanoseconds duration{0};
        std::uint64_t streamed_bytes = 0;
    };

    static constexpr std::size_t kStacks = 3;    // gate, up, down
    static constexpr std::size_t kMovesMax = 4;  // on their way at once
    static constexpr std::size_t kCopiesMax = kMovesMax * kStacks;

    /// There are no slots at first.
    explicit ExpertPlaces(const Setup& setup);
    /// Waits for the copies that are on their way.
    ~ExpertPlaces();
    ExpertPlaces(const ExpertPlaces&) = delete;
    ExpertPlaces& operator=(const ExpertPlaces&) = delete;

    // Between two steps, of a group with experts:

    /// Its parts are in memory in these pieces, and the first `n_slots` are to be used. A part that
    /// was not there before holds the expert of its number.
    void settle(int group, int n_slots, std::span<const PartRange> pieces);
    /// The memory of parts from this one on goes: nothing is on its way to it any more.
    void give_up(int group, int first_part);

    int n_groups() const { return static_cast<int>(index_.size()); }
    /// [n_parts]: the expert that is this part of the group. Slots come first; one that an expert
    /// is on its way to has −1. Then come the experts without a slot, in ascending order, as many
    /// as there are parts. Empty: the group has no slots, and each expert is the part of its
    /// number.
    std::span<const int> order(int group) const;
    /// slots[expert] of the group: −1: it has none. Empty where order() is.
    std::span<const int> slots(int group) const;
    /// Changes with any order.
    std::uint64_t version() const { return version_; }

    /// A group's router asked for these: uses[expert] of so many tokens.
    void count(int group, std::span<const std::uint32_t> uses, int n_tokens);
    /// Between two steps: what has arrived is in its slot. In `filled` groups the CPU computes no
    /// expert of the next step, so that no slot may be empty: the device's next ops wait for what
    /// is on its way there. If all else may move, what comes next leaves its slot empty. Takes no
    /// memory. Errors of the device.
    Status follow(const LastStep& last, std::span<const int> filled);
    /// Orders the copies that follow() chose; behind what else the copy queue has by then. Does not
    /// wait: what the queue has no room for is not moved.
    Status order_copies();

  private:
    struct Stack {
        backend::UnitId unit = backend::kNoUnit;
        backend::WeightView host = {};       // [experts]
        std::vector<std::byte*> slots = {};  // by part; null: it is not in memory
    };
    struct Group {
        const GroupOps* ops = nullptr;
        std::array<Stack, kStacks> stacks = {};
        std::uint64_t expert_bytes = 0;
        /// By part: the expert in its memory, used or not; −1: none, or nobody knows.
        std::vector<int> contents = {};
        std::vector<int> order = {};
    };
    struct Copy {
        scheduler::ExpertMoves::Move move = {};
        bool ordered = false;
        std::array<backend::Event, kStacks> events = {};
    };

    static std::vector<scheduler::ExpertLayer> layers_of(const Setup& setup);
    void add_group(const GroupOps& group);
    int find(int group) const { return group < 0 ? -1 : index_[static_cast<std::size_t>(group)]; }
    const scheduler::ExpertSlots& slots_at(int index) const { return moves_.layer(index); }
    void update_order(int index);
    bool is_coming(int index, int expert) const;
    std::uint64_t allowance(const LastStep& last) const;
    Status take_arrived();
    Status fill(int index);
    bool may_begin(std::span<const int> filled) const;
    /// False: the queue is full. With `waits` it is waited for.
    Result<bool> copy_expert(int index, int expert, int slot, bool waits, Copy& copy);
    /// Nothing is on its way to parts from this one on, when it returns.
    void end_copies(int index, int first_part);
    void place(const Copy& copy);
    void drop(std::size_t copy);

    const model::Model& model_;
    backend::Backend& backend_;
    const DeviceWeights& weights_;
    ExpertUse* const use_;
    LaneLog* const log_;
    const bool may_move_;
    std::vector<int> index_;  // by the catalog's group: of groups_; −1: it has no experts
    std::vector<Group> groups_;
    scheduler::ExpertMoves moves_;  // its layers are groups_
    std::uint64_t largest_bytes_ = 0;
    std::vector<Copy> copies_;  // on their way, oldest first
    std::optional<backend::Event> last_copy_;
    std::uint64_t version_ = 1;
    double link_bytes_per_second_ = 0.0;  // of the last copies; 0: none was timed
};

}  // namespace ballast::runtime
