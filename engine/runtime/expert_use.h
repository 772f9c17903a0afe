// SPDX-License-Identifier: MIT
// What the routers of a running model ask for: counted where a choice is on the CPU, and told as a
// summary that does not grow with the number of experts.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "engine/backend/step_context.h"
#include "engine/base/clock.h"
#include "engine/runtime/expert_counts.h"
#include "engine/runtime/group_ops.h"

namespace ballast::runtime {

class ExpertPlaces;

/// A snapshot. Layers whose experts are all on the device are not in it: nobody else is told what
/// their routers choose.
struct ExpertReport {
    bool has_experts = false;  // the model; without them all else is 0
    ExpertSummary summary = {};
    std::uint64_t hits = 0;  // uses of experts that were in a slot of the device, since the start
    std::uint64_t misses = 0;
    std::uint64_t n_moves = 0;  // experts copied into a slot, since the start
    std::uint64_t moved_bytes = 0;
};

/// Lives as long as the model runs, whatever becomes of the device. Engine thread, but for
/// report().
class ExpertUse {
  public:
    /// The summary is made this often, for it sorts each layer's experts.
    static constexpr Nanoseconds kReportEvery = std::chrono::seconds(1);

    ExpertUse(const model::Model& model, std::span<const GroupOps> groups);
    ExpertUse(const ExpertUse&) = delete;
    ExpertUse& operator=(const ExpertUse&) = delete;

    /// Whether the group has experts to be counted.
    bool counts(int group) const { return index_of(group) >= 0; }
    /// The group's choice for so many rows is in the CPU's slots. places: who is told; null: there
    /// is no device. Takes no memory.
    void count(int group,
               std::span<const backend::SlotView> slots,
               int n_rows,
               ExpertPlaces* places);
    void moved(std::uint64_t bytes);

    /// Brings the report up to date, if it is time to, or at once.
    void publish(Nanoseconds now, bool at_once = false);
    /// Any thread.
    ExpertReport report() const;

  private:
    /// Of a group of experts.
    struct Choice {
        backend::SlotId slot = 0;
        int n_used = 0;
    };
    int index_of(int group) const {
        return group < 0 ? -1 : index_[static_cast<std::size_t>(group)];
    }

    std::vector<int> index_;  // by the catalog's group: of choices_; −1: none
    std::vector<Choice> choices_;
    std::vector<std::uint32_t> uses_;  // by expert, of one group
    ExpertCounts counts_;
    ExpertReport next_;
    bool changed_ = false;
    Nanoseconds published_at_{0};

    mutable std::mutex mutex_;
    ExpertReport published_;
};

}  // namespace ballast::runtime
