// SPDX-License-Identifier: MIT
// Every division a planner may choose for each type of group, with its costs worked out once.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "scheduler/placement/step_model.h"

namespace ballast::scheduler {

/// The lead of the device over the CPU, d = tC − tG, lies in [−tau, tau]; a chain that only has to
/// be bounded below knows it at this many evenly spaced values, rounded down.
constexpr int kLeads = 17;

/// One division of one type of group.
struct Option {
    GroupPlacement placed = {};
    ShareCost cost = {};
    std::array<double, kLeads> delta = {};       // tG after − tG before, by lead before
    std::array<std::uint8_t, kLeads> next = {};  // lead after, rounded down
    double delta_min = 0.0;                      // the least of them
    double memory = 0.0;                         // bytes on the device, weights and KV
    double link_seconds = 0.0;                   // copying, and what the CPU takes from the link
    double piece = 0.0;  // bytes the group sends in one step, which size the ring
    /// Seconds of the group's prefill with what is resident here, if hops are free and copies take
    /// their own time: an estimate, 0 unless asked for.
    double prefill_seconds = 0.0;
};

/// Shares of what is not resident that may cross the link in prefill; each group's number of parts
/// is rounded. What a plan does in prefill is one of these, so that a bound over them holds for it.
constexpr std::array<double, 8> kPrefillShares = {1.0, 0.97, 0.9, 0.8, 0.65, 0.5, 0.25, 0.0};

/// Which divisions there are: what an executor can do.
struct Ladder {
    bool splits = true;   // shares between none and all
    bool streams = true;  // in decode
    bool prefill_streams = true;
    /// Else KV heads stay where they are: of attention the same parts stream in prefill as in
    /// decode. Bounds count it as if they need not.
    bool attention_prefill = true;
    /// Else experts stream only where their router is on the device all the time.
    bool router_streams = true;
};

constexpr bool allows_prefill_share(const Ladder& ladder, double share) {
    return share == 0.0 || (ladder.prefill_streams && (share == 1.0 || ladder.splits));
}

/// Groups of one type differ in their layer only. Types of one class (attention that can be cut,
/// attention that cannot, …) have the same list of divisions in decode, each snapped to the type's
/// parts.
/// Borrows the model.
class OptionTable {
  public:
    OptionTable(const StepModel& model, const KvReserve& reserve, const Ladder& ladder);

    /// Fills in Option::prefill_seconds. On unified memory the device may compute in prefill what
    /// is the CPU's in decode if `maps_all`, because all of the model fits.
    void estimate_prefill(const StepModel& prefill, bool maps_all);

    const StepModel& model() const { return *model_; }
    std::size_t n_groups() const { return type_of_.size(); }
    std::size_t n_types() const { return options_.size(); }
    std::size_t n_classes() const { return n_classes_; }
    int type_of(std::size_t group) const { return type_of_[group]; }
    /// Stretches of the chain in which types recur, at least three times, in order.
    struct Recurrence {
        std::size_t begin = 0;
        std::size_t end = 0;
        std::size_t period = 0;  // groups
    };
    std::span<const Recurrence> recurrences() const { return recurrences_; }
    int class_of(std::size_t group) const {
        return class_of_type_[static_cast<std::size_t>(type_of_[group])];
    }
    /// A group of the type.
    const TensorGroup& example(int type) const;
    std::span<const Option> options(int type) const {
        return options_[static_cast<std::size_t>(type)];
    }
    /// The type's options by how their costs depend on the lead: within a set they do so alike, so
    /// that the cheapest for one lead is the cheapest for every lead.
    std::span<const std::vector<int>> shapes(int type) const {
        return shapes_[static_cast<std::size_t>(type)];
    }
    const Option& option(std::size_t group, int index) const {
        return options(type_of_[group])[static_cast<std::size_t>(index)];
    }
    /// Index of this division of the type, or −1.
    int find(int type, const GroupPlacement& placed) const;

    double hop() const { return model_->hop_seconds(); }
    /// The i-th lead.
    double lead(int i) const { return hop() * (2.0 * i / (kLeads - 1) - 1.0); }

  private:
    Option make(const TensorGroup& group,
                const GroupPlacement& placed,
                const KvReserve& reserve) const;

    const StepModel* model_;
    Ladder ladder_;
    std::span<const int> type_of_;  // by group; the model's
    std::vector<Recurrence> recurrences_;
    std::vector<int> class_of_type_;
    std::vector<std::size_t> example_;                   // group of each type
    std::vector<std::vector<Option>> options_;           // by type
    std::vector<std::vector<std::vector<int>>> shapes_;  // by type
    std::size_t n_classes_ = 0;
};

}  // namespace ballast::scheduler
