// SPDX-License-Identifier: MIT
// Gives parts of the device back when the rules say so, and takes them again when they allow it,
// between two steps of the engine. Whatever fails on the device ends here and the CPU goes on.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/runtime/compute.h"
#include "engine/runtime/held_share.h"
#include "engine/runtime/load_report.h"
#include "engine/runtime/load_watch.h"

namespace ballast::runtime {

/// Engine thread, but for report(). What it is made of outlives it. Its first look comes before the
/// Compute is made, so that the start takes no more than there is.
class LiveDevice {
  public:
    /// What has become of the running sequences' keys and values.
    enum class Kv { kKept, kLost };

    LiveDevice(const LoadWatch::Setup& setup, const Clock& clock) : watch_(setup), clock_(clock) {}

    /// How much of the device may be used at the start.
    std::uint64_t first_budget();
    /// From now on it is this one's device; publishes the first report.
    void take_over(Compute& compute);

    /// Before a step (`working`), and while nothing runs. An error is one of the host: no step can
    /// be run any more.
    Result<Kv> follow(bool working);
    /// Whether a step that is under way must end early, because something has to go.
    bool is_overdue();
    /// A step ended with this error of the device; it is to be done again. Other errors are given
    /// back.
    Result<Kv> step_failed(const Error& error);
    /// A step took so long.
    void step_took(Nanoseconds duration);

    /// Any thread.
    LoadReport report() const;

  private:
    std::string sentence(LoadCause cause, const std::string& detail) const;
    /// `sentence` says why.
    Result<Kv> release(LoadCause cause, const std::string& sentence, bool is_trusted = true);
    /// Whether the computer has slept since the last look.
    bool has_slept();
    /// It has: what the device held may be gone, and the device made anew.
    Result<Kv> wake();
    Result<Kv> degrade(LoadCause cause, const std::string& detail);
    /// More is held than may be.
    Result<Kv> give(LoadCause cause);
    /// Only as much as must go.
    Result<Kv> shrink(LoadCause cause);
    void drop_more(std::uint64_t budget_bytes);
    /// Brings the share nearer to what the rule wants of it.
    Result<Kv> live(Nanoseconds now, bool may_grow);
    Result<bool> follow_rule(Nanoseconds now, bool may_grow, bool& changed);
    void begin_rule();
    void say_what_moved(const char* cause, const std::string& why, const ShareMoves& moves);
    bool must_give(const scheduler::LoadDirective& directive) const;
    void note_moves(bool changed, Nanoseconds took);
    void note_refusals(Nanoseconds now, bool all);
    void publish();

    LoadWatch watch_;
    const Clock& clock_;
    Compute* compute_ = nullptr;
    scheduler::LoadDirective directive_;
    std::unique_ptr<HeldShare> share_;            // of the Compute
    std::unique_ptr<scheduler::ShareRule> rule_;  // null: no device, or nothing is known of it yet
    ShareMoves moved_;                            // of an upload that goes on
    Nanoseconds slept_{0};                        // by the clock, at the last look
    std::uint64_t n_refused_ = 0;
    Nanoseconds refused_at_{0};
    Nanoseconds refused_wait_{0};
    bool retrying_ = false;
    LoadReport next_;

    mutable std::mutex mutex_;
    LoadReport published_;
};

}  // namespace ballast::runtime
