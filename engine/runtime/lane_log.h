// SPDX-License-Identifier: MIT
// What the CPU, the device's compute queue and its copy queue did when. From it come the times in
// TransferStats, and a trace where one is wanted.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/clock.h"
#include "engine/runtime/transfer_stats.h"

namespace ballast::runtime {

enum class Lane { kDevice, kCpu, kCopy };

/// One piece of work of a lane. Groups are those of the catalog; −1: none.
struct LaneSpan {
    Lane lane = Lane::kCpu;
    int first_group = -1;
    int n_groups = 1;
    double share = 0.0;       // of the groups' parts
    std::uint64_t bytes = 0;  // of a copy, on either queue; 0: it is computation
    bool to_device = true;    // a copy
    int tile = -1;            // of the step, which crosses or is read
    Nanoseconds begin{0};
    Nanoseconds end{0};

    bool is_copy() const { return bytes > 0; }
};

/// What work on the compute queue stands behind.
struct PutBehind {
    std::optional<backend::Event> last = {};  // put on the same queue before
    std::optional<backend::Event> tile = {};  // the weights that it waits for
    Nanoseconds put_at{0};
};

/// Engine thread. What is noted of a queue is known only later: settle() asks for it.
class LaneLog {
  public:
    /// Backend::work_time() of the device.
    using TimeOf = std::function<backend::WorkTime(backend::Event)>;

    /// For so many pieces of work between two settle(); what is more is forgotten.
    void reserve(std::size_t n_notes);
    /// The span's time is known.
    void ran(const LaneSpan& span);
    /// The span's time is that of the event.
    void put(const LaneSpan& span, backend::Event event, const PutBehind& behind = {});
    /// Asks for times, and brings the totals up to date. Copies that are not done are asked for
    /// again; the compute queue has nothing left. Null: there is no device.
    void settle(const TimeOf& time_of);
    /// The device is gone or its work was left: what is not known will not be.
    void forget();

    /// Keeps all that is settled from now on.
    void keep_spans() { keeps_ = true; }
    /// In the order in which the engine ordered the work.
    std::span<const LaneSpan> spans() const { return spans_; }

    TransferStats& stats() { return stats_; }
    const TransferStats& stats() const { return stats_; }

  private:
    struct Note {
        LaneSpan span = {};
        std::optional<backend::Event> event = {};  // whose time it is not known yet
        PutBehind behind = {};
    };
    void note_stall(const Note& note, const TimeOf& time_of);
    /// Adds the computing spans among the notes to computed_.
    void merge_computed();
    Nanoseconds overlap_of(const LaneSpan& copy) const;

    TransferStats stats_;
    std::vector<Note> notes_;
    std::vector<backend::WorkTime> computed_;  // by the CPU or the device; in order, apart
    bool keeps_ = false;
    std::vector<LaneSpan> spans_;
};

}  // namespace ballast::runtime
