// SPDX-License-Identifier: MIT
// How many prompt tokens are taken at once, so that cancellation is noticed in time and running
// streams are not held up for long.
#pragma once

#include "engine/base/clock.h"

namespace ballast::runtime {

/// Engine thread.
class PrefillPace {
  public:
    /// `chunk`: most tokens of a step.
    explicit PrefillPace(int chunk) : chunk_(chunk) {}

    /// A step with so many prompt tokens took so long.
    void note(int n_tokens, Nanoseconds duration);
    /// Tokens of the next step; `shared`: others decode.
    int step_tokens(bool shared) const;
    /// How long that takes; 0: not known yet.
    double step_seconds(bool shared) const;
    /// Tokens of a super-chunk's micro-batch, of which one stage of n_stages is run at a time.
    int micro_batch(bool shared, int n_stages) const;
    /// How long a prompt may hold up the next token of running streams, where those take less.
    static Nanoseconds hold_up();

  private:
    int tokens_in(double seconds) const;

    int chunk_;
    double pace_ = 0.0;  // tokens a second; 0: not known yet
};

}  // namespace ballast::runtime
