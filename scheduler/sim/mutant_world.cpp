// SPDX-License-Identifier: MIT
// Without a mutation it is the world as it is.
#include "scheduler/sim/mutant_world.h"

namespace ballast::scheduler {

MutantWorld::MutantWorld(const Parts& parts, Mutation mutation)
    : SessionWorld(parts.times, parts.residency, parts.reserve, parts.truths, parts.duration),
      mutation_(mutation),
      catalog_(*parts.times.setup().catalog),
      reserve_(parts.reserve),
      safety_end_(parts.safety_end) {}

void MutantWorld::keep(const Placement& kept) {
    if (mutation_ != Mutation::kIgnoreBudget) {
        SessionWorld::keep(kept);
    }
}

std::vector<ResidencyGrowth> MutantWorld::all_missing() const {
    std::vector<ResidencyGrowth> growth;
    for (std::size_t i = 0; i < catalog_.groups.size(); ++i) {
        const TensorGroup& group = catalog_.groups[i];
        const GroupBytes now = group_bytes(group, kept().groups[i], reserve_);
        const GroupBytes then = group_bytes(group, all_resident(group), reserve_);
        const std::uint64_t bytes = then.weights + then.kv - now.weights - now.kv;
        if (bytes > 0) {
            growth.push_back({.group = i, .then = all_resident(group), .bytes = bytes});
        }
    }
    return growth;
}

void MutantWorld::upload(const std::vector<ResidencyGrowth>& asked) {
    std::vector<ResidencyGrowth> growth = asked;
    if (mutation_ == Mutation::kNeverGrowAgain && now() >= safety_end_) {
        return;
    }
    if (mutation_ == Mutation::kUploadTooMuch) {
        growth = all_missing();
    }
    SessionWorld::upload(growth);
    if (mutation_ == Mutation::kExecuteEarly) {
        Placement early = executed();
        for (const ResidencyGrowth& next : growth) {
            early.groups[next.group] = next.then;
        }
        execute(early);
    }
}

Nanoseconds MutantWorld::read_after_drop() const {
    return mutation_ == Mutation::kFreeAtOnce ? Nanoseconds{0} : SessionWorld::read_after_drop();
}

}  // namespace ballast::scheduler
