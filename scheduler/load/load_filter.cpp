// SPDX-License-Identifier: MIT
// An exponential average of each share, with a threshold behind it.
#include "scheduler/load/load_filter.h"

#include <algorithm>
#include <cmath>

namespace ballast::scheduler {

namespace {

bool is_share(double value) {
    return value >= 0.0 && value <= 1.0;  // also false for what is not a number
}

}  // namespace

bool LoadFilter::add(const LoadSample& sample) {
    if (view_.known && sample.time < last_) {
        ++n_late_;
        return false;
    }
    last_ = sample.time;
    const LoadView before = view_;
    view_.known = true;
    if (sample.device_total_bytes > 0 && sample.others_bytes > sample.device_total_bytes) {
        ++n_wrong_;
    } else {
        view_.others_bytes = sample.others_bytes;
        view_.total_bytes = sample.device_total_bytes;
    }
    view_.on_battery = sample.on_battery;
    bool changed = smooth(device_, sample.device_busy, view_.device_share, view_.device_latest);
    changed = smooth(link_, sample.link_busy, view_.link_share, view_.link_latest) || changed;
    changed = smooth(cpu_, sample.cpu_psi, view_.cpu_share, view_.cpu_latest) || changed;
    return changed || !before.known || before.others_bytes != view_.others_bytes ||
           before.total_bytes != view_.total_bytes || before.on_battery != view_.on_battery;
}

void LoadFilter::note_turn(Share& share, double off) const {
    const bool soon = ++share.since_turn <= options_.turn_samples;
    if (!soon) {
        share.n_turns = 0;
    }
    if (std::abs(off) <= options_.threshold) {
        return;
    }
    if (share.side * off < 0.0) {
        share.n_turns += soon ? 1 : 0;
        share.since_turn = 0;
    }
    share.side = off;
}

bool LoadFilter::smooth(Share& share, double busy, double& left, double& latest) {
    if (!is_share(busy)) {
        ++n_wrong_;
        return false;
    }
    latest = 1.0 - busy;
    note_turn(share, share.known ? busy - share.average : 0.0);
    const double half_life =
        share.n_turns > 1 ? options_.half_life_waves : options_.half_life_samples;
    const double of_new = 1.0 - std::exp2(-1.0 / half_life);
    share.average = share.known ? share.average + of_new * (busy - share.average) : busy;
    share.known = true;
    const double now = std::clamp(1.0 - share.average, options_.share_least, 1.0);
    const double rounded = now > 1.0 - options_.threshold / 2 ? 1.0 : now;
    // What is nearly idle again is: nobody should wait for ever for the last percent. But noise
    // about some percents must not count as that again and again.
    const bool is_idle = share.average < options_.threshold / 8;
    if (std::abs(now - left) < options_.threshold && !(is_idle && left < 1.0)) {
        return false;
    }
    left = rounded;
    return true;
}

}  // namespace ballast::scheduler
