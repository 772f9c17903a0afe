// SPDX-License-Identifier: MIT
// Who has asked for the device to be given back: a person until further notice, or programs for as
// long as they say so again and again.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "engine/base/clock.h"
#include "engine/base/result.h"

namespace ballast::scheduler {

/// Any thread. A holder that does not come back, because it was killed, lets go when its time ends.
class Pauses {
  public:
    static constexpr std::size_t kHoldersMax = 64;

    /// Until resume().
    void pause();
    /// Until that time, unless said again. False: resume() was called since this holder came, and
    /// its word counts no more. kOverloaded: there are too many holders.
    Result<bool> hold(const std::string& holder, Nanoseconds now, Nanoseconds until);
    /// The holder needs it no longer; others may.
    void let_go(const std::string& holder);
    /// Ends all of them.
    void resume();
    bool paused(Nanoseconds now) const;

    /// Called after each change, on the thread that made it; set before there are others.
    void set_listener(std::function<void()> changed) { changed_ = std::move(changed); }

  private:
    void tell() const;

    mutable std::mutex mutex_;  // of what follows, but not of the listener
    bool by_person_ = false;
    std::map<std::string, Nanoseconds> until_;  // by holder
    std::set<std::string> ended_;               // by resume(), as many as there can be holders
    std::function<void()> changed_;
};

}  // namespace ballast::scheduler
