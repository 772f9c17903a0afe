// SPDX-License-Identifier: MIT
// Follows each stop string with its own automaton, byte by byte. Whole characters in, whole
// characters out: a stop string begins and ends at the borders of characters, so a held ending does
// too.
#include "engine/sampling/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace ballast::sampling {

StopMatcher::StopMatcher(std::vector<std::string> stops) {
    for (std::string& text : stops) {
        if (text.empty()) {
            continue;
        }
        Stop stop;
        stop.text = std::move(text);
        stop.borders.assign(stop.text.size() + 1, 0);
        for (std::size_t i = 1; i < stop.text.size(); ++i) {
            stop.borders[i + 1] = advance(stop, stop.borders[i], stop.text[i]);
        }
        stops_.push_back(std::move(stop));
    }
}

std::size_t StopMatcher::advance(const Stop& stop, std::size_t state, char next) {
    while (state > 0 && stop.text[state] != next) {
        state = stop.borders[state];
    }
    return stop.text[state] == next ? state + 1 : 0;
}

std::string StopMatcher::feed(std::string_view text) {
    if (stopped()) {
        return "";
    }
    for (const char c : text) {
        held_.push_back(c);
        std::size_t longest = 0;
        for (std::size_t i = 0; i < stops_.size(); ++i) {
            Stop& stop = stops_[i];
            stop.state = advance(stop, stop.state, c);
            if (stop.state == stop.text.size() && stop.state > longest) {
                longest = stop.state;
                matched_ = static_cast<int>(i);
            }
        }
        if (stopped()) {
            held_.resize(held_.size() - longest);
            return std::exchange(held_, {});
        }
    }
    std::size_t n_held = 0;
    for (const Stop& stop : stops_) {
        n_held = std::max(n_held, stop.state);
    }
    std::string ready = held_.substr(0, held_.size() - n_held);
    held_.erase(0, ready.size());
    return ready;
}

std::string StopMatcher::flush() {
    return std::exchange(held_, {});
}

std::string_view StopMatcher::matched() const {
    return stopped() ? stops_[static_cast<std::size_t>(matched_)].text : std::string_view();
}

}  // namespace ballast::sampling
