// SPDX-License-Identifier: MIT
// From what is in device memory now to what a plan wants there: what to keep, what to compute where
// meanwhile, and what to upload first. Pure functions of the step model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/placement/step_model.h"

namespace ballast::scheduler {

/// What is kept in device memory, and what runs with it. Of `kept` only residents count.
struct ResidencyUse {
    Placement kept = {};
    Placement executed = {};  // resident at most what is kept; may stream
    double seconds = 0.0;     // a step of it, by the model
};

/// One group's upload.
struct ResidencyGrowth {
    std::size_t group = 0;
    GroupPlacement then = {};  // resident when it has arrived
    std::uint64_t bytes = 0;   // of device memory
};

/// Of each group the residents that both have; nothing streams.
Placement common_residents(const Placement& a, const Placement& b);

/// Borrows the catalog. Every byte has a copy in RAM, so that dropping copies nothing.
class Residency {
  public:
    Residency(const TensorCatalog& catalog, const KvReserve& reserve)
        : catalog_(&catalog), reserve_(reserve) {}

    /// Device memory of what is kept, with the ring and the KV heads of what the executed placement
    /// streams.
    std::uint64_t bytes(const Placement& kept, const Placement& executed) const;

    /// The fastest use of what is held, without any upload, within the budget: with each plan's
    /// streams (unless `may_stream` is false), as far as the plan says or all of what is held, or
    /// on the CPU alone. What must go is what the plan does not want or what is worth least.
    ResidencyUse best_use(const StepModel& model,
                          const Placement& held,
                          std::span<const Placement> plans,
                          std::uint64_t budget_bytes,
                          bool may_stream = true) const;

    /// All groups, those first that are worth least for the bytes that are held of them.
    std::vector<std::size_t> eviction_order(const StepModel& model, const Placement& held) const;

    /// What is held and what the plan wants beside it, as far as both fit; of what the plan does
    /// not want as little as possible goes.
    Placement with_plan(const Placement& held,
                        const Placement& plan,
                        std::uint64_t budget_bytes) const;

    /// What `wanted` has more than is held, the most seconds a byte first, at most so many bytes;
    /// of a group that does not fit any more, the parts that do.
    std::vector<ResidencyGrowth> growth(const StepModel& model,
                                        const Placement& held,
                                        const Placement& wanted,
                                        std::uint64_t bytes_most) const;

  private:
    std::uint64_t group_total(std::size_t group, const GroupPlacement& placed) const;
    /// Drops what is worth least until `kept` with these streams fits.
    Placement trimmed(const StepModel& model,
                      Placement kept,
                      const Placement& streams,
                      std::uint64_t budget_bytes) const;
    /// Parts of one group, as many as have to go, down to `least`.
    void drop(Placement& kept,
              std::size_t group,
              const GroupPlacement& least,
              const Placement& streams,
              std::uint64_t& total,
              std::uint64_t budget_bytes) const;

    const TensorCatalog* catalog_;
    KvReserve reserve_;
};

}  // namespace ballast::scheduler
