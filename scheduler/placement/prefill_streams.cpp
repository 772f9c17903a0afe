// SPDX-License-Identifier: MIT
// Coordinate descent over four shares.
#include "scheduler/placement/prefill_streams.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace ballast::scheduler {

namespace {

constexpr std::size_t kKinds = 4;
constexpr int kRounds = 3;

class PrefillSearch {
  public:
    PrefillSearch(const StepModel& model,
                  Placement placement,
                  const KvReserve& reserve,
                  const Ladder& ladder,
                  double memory_limit)
        : model_(model), placement_(std::move(placement)), reserve_(reserve), ladder_(ladder) {
        for (std::size_t i = 0; i < placement_.groups.size(); ++i) {
            placement_.groups[i].prefill_streamed = 0;
        }
        const DeviceBytes bytes = device_bytes(model.catalog(), placement_, reserve);
        const double rest = memory_limit - static_cast<double>(bytes.weights + bytes.kv);
        // Unified memory maps what the device computes; elsewhere a ring of this size is left.
        room_ = std::max(rest, 0.0);
        find_types();
    }

    PrefillChoice run() {
        Shares best = {1.0, 1.0, 1.0, 1.0};
        double best_estimate = estimate(best, std::numeric_limits<double>::infinity());
        for (int round = 0; round < kRounds; ++round) {
            const double before = best_estimate;
            for (std::size_t kind = 0; kind < kKinds; ++kind) {
                if (!present_[kind]) {
                    continue;
                }
                for (const double share : kPrefillShares) {
                    Shares tried = best;
                    tried[kind] = share;
                    const double seconds = estimate(tried, best_estimate);
                    if (seconds < best_estimate) {
                        best_estimate = seconds;
                        best = tried;
                    }
                }
            }
            if (best_estimate >= before) {
                break;
            }
        }
        PrefillChoice choice = {.seconds = std::numeric_limits<double>::infinity()};
        std::vector<Placement> replayed;
        for (const Shares& shares : {best, Shares{1.0, 1.0, 1.0, 1.0}, Shares{}}) {
            Placement placement = with(shares);
            if (std::find(replayed.begin(), replayed.end(), placement) != replayed.end() ||
                !fits(placement)) {
                continue;
            }
            const double seconds = model_.seconds(placement);
            if (seconds < choice.seconds) {
                choice = {.placement = placement, .seconds = seconds};
            }
            replayed.push_back(std::move(placement));
        }
        return choice;
    }

  private:
    using Shares = std::array<double, kKinds>;

    /// Groups of equal size and division, which have equal costs.
    void find_types() {
        const std::vector<TensorGroup>& groups = model_.catalog().groups;
        for (std::size_t i = 0; i < groups.size(); ++i) {
            const TensorGroup& group = groups[i];
            present_[static_cast<std::size_t>(group.kind)] = true;
            const GroupPlacement& placed = placement_.groups[i];
            std::size_t type = 0;
            while (type < examples_.size() && !same(examples_[type], i)) {
                ++type;
            }
            if (type == examples_.size()) {
                examples_.push_back(i);
                n_of_type_.push_back(0);
                most_.push_back(most_streamed(group, placed));
            }
            type_of_.push_back(type);
            ++n_of_type_[type];
        }
        costs_.resize(examples_.size());
    }

    bool same(std::size_t a, std::size_t b) const {
        const std::vector<TensorGroup>& groups = model_.catalog().groups;
        return placement_.groups[a] == placement_.groups[b] && groups[a].type() == groups[b].type();
    }

    /// Parts beyond the resident ones that may cross: all, or what fits into a small ring.
    int most_streamed(const TensorGroup& group, const GroupPlacement& placed) const {
        const int rest = group.parts - placed.resident;
        if (reserve_.unified_memory || room_ >= kRingBytesMax) {
            return rest;
        }
        GroupPlacement one = placed;
        one.prefill_streamed = 1;
        one.streamed = 0;
        const double bytes = static_cast<double>(group_bytes(group, one, reserve_).piece);
        if (group.kind == GroupKind::kExperts && !placed.shared_on_device) {
            return 0;
        }
        return std::min(rest, static_cast<int>(room_ / kRingTiles / std::max(bytes, 1.0)));
    }

    int streamed(std::size_t group, const Shares& shares) const {
        const TensorGroup& of = model_.catalog().groups[group];
        const int rest = of.parts - placement_.groups[group].resident;
        if (of.kind == GroupKind::kAttention && !ladder_.attention_prefill) {
            return placement_.groups[group].streamed;
        }
        if (of.kind == GroupKind::kExperts && !placement_.groups[group].shared_on_device &&
            !ladder_.router_streams) {
            return 0;
        }
        const double wanted = shares[static_cast<std::size_t>(of.kind)];
        // The next smaller share if a small ring does not allow this one.
        for (const double share : kPrefillShares) {
            const int parts = static_cast<int>(std::lround(share * rest));
            if (share <= wanted && allows_prefill_share(ladder_, share) &&
                parts <= most_[type_of_[group]]) {
                return parts;
            }
        }
        return 0;
    }

    bool fits(const Placement& placement) const {
        const DeviceBytes bytes = device_bytes(model_.catalog(), placement, reserve_);
        const DeviceBytes fixed = device_bytes(model_.catalog(), placement_, reserve_);
        return static_cast<double>(bytes.total()) <=
               static_cast<double>(fixed.weights + fixed.kv) + room_;
    }

    const ShareCost& cost(std::size_t type, int parts) {
        std::map<int, ShareCost>& known = costs_[type];
        const auto found = known.find(parts);
        if (found != known.end()) {
            return found->second;
        }
        GroupPlacement placed = placement_.groups[examples_[type]];
        placed.prefill_streamed = parts;
        return known.emplace(parts, model_.cost(model_.catalog().groups[examples_[type]], placed))
            .first->second;
    }

    /// The chain and the link's balance, whichever is longer; infinite where memory does not allow
    /// it. What differs only in shares of nothing is worked out once, and what the link alone
    /// keeps from being below `limit` not at all.
    double estimate(const Shares& shares, double limit) {
        std::vector<int> parts;
        std::vector<const ShareCost*> of_type;
        double link = 0.0;
        for (std::size_t type = 0; type < examples_.size(); ++type) {
            parts.push_back(streamed(examples_[type], shares));
            of_type.push_back(&cost(type, parts.back()));
            link += n_of_type_[type] * model_.link_seconds(*of_type.back());
        }
        if (link >= limit) {
            return link;
        }
        const auto [known, is_new] = estimates_.try_emplace(std::move(parts), link);
        if (!is_new) {
            return known->second;
        }
        if (reserve_.unified_memory && !fits(with(shares))) {
            return known->second = std::numeric_limits<double>::infinity();
        }
        ChainState state = {.device = model_.hop_seconds(), .cpu = 0.0};
        for (const std::size_t type : type_of_) {
            state = model_.advance(*of_type[type], state);
        }
        return known->second = std::max(state.cpu, link);
    }

    Placement with(const Shares& shares) const {
        Placement placement = placement_;
        for (std::size_t i = 0; i < placement.groups.size(); ++i) {
            placement.groups[i].prefill_streamed = streamed(i, shares);
        }
        return placement;
    }

    const StepModel& model_;
    Placement placement_;
    KvReserve reserve_;
    Ladder ladder_;
    double room_ = 0.0;
    std::array<bool, kKinds> present_ = {};
    std::vector<std::size_t> type_of_;   // by group
    std::vector<std::size_t> examples_;  // group of each type
    std::vector<int> n_of_type_;         // groups
    std::vector<int> most_;              // by type
    std::vector<std::map<int, ShareCost>> costs_;
    std::map<std::vector<int>, double> estimates_;  // by the parts of each type
};

}  // namespace

PrefillChoice choose_prefill_streams(const StepModel& prefill,
                                     Placement placement,
                                     const KvReserve& reserve,
                                     const Ladder& ladder,
                                     double memory_limit) {
    return PrefillSearch(prefill, std::move(placement), reserve, ladder, memory_limit).run();
}

}  // namespace ballast::scheduler
