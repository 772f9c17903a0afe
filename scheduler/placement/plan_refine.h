// SPDX-License-Identifier: MIT
// Improves a finished plan by few moves at a time: what is resident for the sake of decode may be
// in the way of prefill, and mixes of two kinds of layer leave some memory over.
#pragma once

#include "scheduler/placement/option_table.h"
#include "scheduler/placement/step_model.h"

namespace ballast::scheduler {

/// What a plan is judged by. Borrows everything.
struct RefineTask {
    const OptionTable* decode = nullptr;
    const StepModel* prefill = nullptr;
    KvReserve reserve = {};
    Ladder ladder = {};
    double memory_bytes = 0.0;
    double decode_weight = 1.0;   // of a second of a decode step …
    double prefill_weight = 0.0;  // … and of a prefill step, 0 if there is none
    double good_enough = 0.0;     // no need to get below this weighted sum
    /// Most groups that estimates may walk over, and most replays: what bounds the time.
    int max_steps = 0;
    int max_replays = 0;
    /// Tries every division of a group rather than those along the ladder, and replays more moves:
    /// for chains of a few groups.
    bool thorough = false;
};

struct Refined {
    Placement placement = {};
    double decode_seconds = 0.0;
    double prefill_seconds = 0.0;
};

/// A plan that is no worse. A move gives some groups of one type another division, or one kind of
/// group another share that crosses the link in prefill; moves are tried alone and in pairs, of
/// which one pays with memory for the other. An estimate without the ring ranks them, and a replay
/// of both phases decides. The same plan gives the same answer.
///
/// Precondition: the seconds of `start` are the models' own.
Refined refine_plan(const RefineTask& task, Refined start);

}  // namespace ballast::scheduler
