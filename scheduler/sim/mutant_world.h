// SPDX-License-Identifier: MIT
// Orders of a rule carried out wrongly, one way each: what shows that an invariant can be broken.
#pragma once

#include "scheduler/sim/session_world.h"

namespace ballast::scheduler {

enum class Mutation {
    kNone,
    kIgnoreBudget,      // nothing is dropped
    kExecuteEarly,      // what an upload brings is used at once
    kUploadTooMuch,     // all that is missing, whatever the budget
    kLoseRequests,      // a step that the device fails ends its request
    kGrowWithoutPause,  // no back-off, and no bucket
    kFreeAtOnce,        // dropped memory counts as free while it is read
    kNeverGrowAgain,    // nothing is uploaded once the faults are over
};

/// Requests and back-off are the run's affair (seeded_run.h).
class MutantWorld final : public SessionWorld {
  public:
    struct Parts {
        StepTimes& times;
        const Residency& residency;
        KvReserve reserve = {};
        std::vector<LoadTruth> truths = {};
        Nanoseconds duration{0};
        Nanoseconds safety_end{0};
    };
    MutantWorld(const Parts& parts, Mutation mutation);

    void keep(const Placement& kept) override;
    void upload(const std::vector<ResidencyGrowth>& growth) override;

  protected:
    Nanoseconds read_after_drop() const override;

  private:
    std::vector<ResidencyGrowth> all_missing() const;

    Mutation mutation_;
    const TensorCatalog& catalog_;
    KvReserve reserve_;
    Nanoseconds safety_end_;
};

}  // namespace ballast::scheduler
