// SPDX-License-Identifier: MIT
// Notes are taken while a step runs and settled when the device has ended it, in memory that was
// taken in advance.
#include "engine/runtime/lane_log.h"

#include <algorithm>

namespace ballast::runtime {

void LaneLog::reserve(std::size_t n_notes) {
    notes_.reserve(n_notes);
    // Copies that are not done yet may have overlapped what was settled before.
    computed_.reserve(2 * n_notes);
}

void LaneLog::ran(const LaneSpan& span) {
    if (notes_.size() < notes_.capacity()) {
        notes_.push_back({.span = span});
    }
}

void LaneLog::put(const LaneSpan& span, backend::Event event, const PutBehind& behind) {
    if (notes_.size() < notes_.capacity()) {
        notes_.push_back({.span = span, .event = event, .behind = behind});
    }
}

void LaneLog::settle(const TimeOf& time_of) {
    for (Note& note : notes_) {
        if (!note.event || !time_of) {
            continue;
        }
        const backend::WorkTime time = time_of(*note.event);
        if (time.is_known()) {
            note.span.begin = time.begin;
            note.span.end = time.end;
            note.event.reset();
            note_stall(note, time_of);
        }
    }
    merge_computed();
    bool copies_left = false;
    for (const Note& note : notes_) {
        const bool is_copy = note.span.lane == Lane::kCopy;
        copies_left = copies_left || (is_copy && note.event);
        if (note.event) {
            continue;
        }
        if (is_copy) {
            stats_.copied += note.span.end - note.span.begin;
            stats_.overlapped += overlap_of(note.span);
        }
        if (keeps_) {
            spans_.push_back(note.span);
        }
    }
    std::erase_if(notes_,
                  [](const Note& note) { return !note.event || note.span.lane != Lane::kCopy; });
    if (notes_.size() > notes_.capacity() / 2) {
        notes_.clear();  // of a device that knows no times
    }
    if (!copies_left) {
        computed_.clear();
    }
}

void LaneLog::forget() {
    notes_.clear();
    computed_.clear();
}

void LaneLog::note_stall(const Note& note, const TimeOf& time_of) {
    if (!note.behind.tile) {
        return;
    }
    const backend::WorkTime tile = time_of(*note.behind.tile);
    const backend::WorkTime before =
        note.behind.last ? time_of(*note.behind.last) : backend::WorkTime();
    const Nanoseconds ready = std::max(before.end, note.behind.put_at);
    stats_.stalled += std::max(Nanoseconds(0), std::min(tile.end, note.span.begin) - ready);
}

void LaneLog::merge_computed() {
    if (computed_.capacity() - computed_.size() < notes_.size()) {
        computed_.erase(computed_.begin(),
                        computed_.begin() + static_cast<std::ptrdiff_t>(computed_.size() / 2));
    }
    const std::size_t n_before = computed_.size();
    for (const Note& note : notes_) {
        if (!note.event && !note.span.is_copy()) {
            computed_.push_back({note.span.begin, note.span.end});
        }
    }
    // What was settled before had ended before this began.
    const auto first = computed_.begin() + static_cast<std::ptrdiff_t>(n_before);
    std::sort(
        first, computed_.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    auto last = first;
    for (auto next = first; next != computed_.end(); ++next) {
        if (last != next && next->begin <= last->end) {
            last->end = std::max(last->end, next->end);
        } else if (last != next) {
            *++last = *next;
        }
    }
    if (first != computed_.end()) {
        computed_.erase(last + 1, computed_.end());
    }
}

Nanoseconds LaneLog::overlap_of(const LaneSpan& copy) const {
    Nanoseconds sum{0};
    const auto first =
        std::partition_point(computed_.begin(), computed_.end(), [&](const auto& time) {
            return time.end <= copy.begin;
        });
    for (auto time = first; time != computed_.end() && time->begin < copy.end; ++time) {
        sum += std::min(time->end, copy.end) - std::max(time->begin, copy.begin);
    }
    return sum;
}

}  // namespace ballast::runtime
