// SPDX-License-Identifier: MIT
// A flag, and a time for each holder.
#include "scheduler/load/pauses.h"

#include <algorithm>

#include <fmt/format.h>

namespace ballast::scheduler {

void Pauses::tell() const {
    if (changed_) {
        changed_();
    }
}

void Pauses::pause() {
    {
        const std::lock_guard lock(mutex_);
        by_person_ = true;
    }
    tell();
}

Result<bool> Pauses::hold(const std::string& holder, Nanoseconds now, Nanoseconds until) {
    {
        const std::lock_guard lock(mutex_);
        if (ended_.contains(holder)) {
            return false;
        }
        std::erase_if(until_, [&](const auto& entry) { return entry.second <= now; });
        if (!until_.contains(holder) && until_.size() >= kHoldersMax) {
            return fail(ErrorCode::kOverloaded,
                        fmt::format("{} programs hold the pause already", kHoldersMax));
        }
        until_[holder] = until;
    }
    tell();
    return true;
}

void Pauses::let_go(const std::string& holder) {
    {
        const std::lock_guard lock(mutex_);
        until_.erase(holder);
        ended_.erase(holder);
    }
    tell();
}

void Pauses::resume() {
    {
        const std::lock_guard lock(mutex_);
        by_person_ = false;
        // Those of a resume() before have had their answer, or are gone.
        ended_.clear();
        for (const auto& [holder, until] : until_) {
            ended_.insert(holder);
        }
        until_.clear();
    }
    tell();
}

bool Pauses::paused(Nanoseconds now) const {
    const std::lock_guard lock(mutex_);
    return by_person_ || std::any_of(until_.begin(), until_.end(), [&](const auto& entry) {
               return entry.second > now;
           });
}

}  // namespace ballast::scheduler
