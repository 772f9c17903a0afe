// SPDX-License-Identifier: MIT
// Follows the last step.
#include "engine/runtime/prefill_pace.h"

#include <algorithm>

#include "engine/runtime/options.h"

namespace ballast::runtime {

namespace {

// How long a prefill micro-batch may take: cancellation is noticed between two, and with others
// decoding each one is a pause in their text.
constexpr double kSecondsAlone = 1.0;
constexpr double kSecondsShared = 0.25;

double seconds_of(bool shared) {
    return shared ? kSecondsShared : kSecondsAlone;
}

}  // namespace

void PrefillPace::note(int n_tokens, Nanoseconds duration) {
    // Only steps that are mostly prefill say something about its pace.
    if (n_tokens >= kPrefillGrain && duration.count() > 0) {
        pace_ = n_tokens / to_seconds(duration);
    }
}

int PrefillPace::tokens_in(double seconds) const {
    const int grains = static_cast<int>(std::min(pace_ * seconds / kPrefillGrain, 1e6));
    return std::clamp(grains * kPrefillGrain, kPrefillGrain, chunk_);
}

int PrefillPace::step_tokens(bool shared) const {
    return pace_ > 0.0 ? tokens_in(seconds_of(shared)) : kPrefillGrain;
}

double PrefillPace::step_seconds(bool shared) const {
    return pace_ > 0.0 ? step_tokens(shared) / pace_ : 0.0;
}

int PrefillPace::micro_batch(bool shared, int n_stages) const {
    if (pace_ <= 0.0) {
        return std::clamp(kPrefillGrain * n_stages, kPrefillGrain, chunk_);
    }
    return tokens_in(seconds_of(shared) * n_stages);
}

Nanoseconds PrefillPace::hold_up() {
    return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(kSecondsShared));
}

}  // namespace ballast::runtime
