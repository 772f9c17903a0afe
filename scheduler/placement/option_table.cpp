// SPDX-License-Identifier: MIT
// Ladders of shares, snapped to parts.
#include "scheduler/placement/option_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace ballast::scheduler {

namespace {

// Shares of a group in 64ths: fine where a small CPU share balances a fast device, coarser beyond.
constexpr int kShareParts = 64;
constexpr std::array<int, 24> kShares = {0,  1,  2,  3,  4,  5,  6,  8,  10, 12, 16, 20,
                                         24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 62, 64};
// Routed experts on the device: each number if there are few, else this many values.
constexpr int kSlotSteps = 64;
// Groups after which the types of a chain may recur: some layers, of which every n-th differs.
constexpr std::size_t kPeriodMax = 32;

int snap(int share, int parts) {
    return static_cast<int>(std::lround(static_cast<double>(share) * parts / kShareParts));
}

/// Experts of different counts have different ladders; of the others it matters whether they can
/// be cut.
std::pair<int, int> class_key(const TensorGroup& group) {
    const bool experts = group.kind == GroupKind::kExperts;
    return {static_cast<int>(group.kind), experts ? group.parts : (group.parts > 1 ? 2 : 1)};
}

/// What may cross the link in prefill beside this, and nothing.
void add_prefill(const TensorGroup& group,
                 GroupPlacement placed,
                 const Ladder& ladder,
                 std::vector<GroupPlacement>& options) {
    const int rest = group.parts - placed.resident;
    int last = -1;
    for (const double share : kPrefillShares) {
        if (!allows_prefill_share(ladder, share)) {
            continue;
        }
        placed.prefill_streamed = static_cast<int>(std::lround(share * rest));
        if (placed.prefill_streamed != last) {
            last = placed.prefill_streamed;
            options.push_back(placed);
        }
    }
}

/// (CPU share, streamed share) pairs in 64ths that the class of this group may take.
std::vector<std::pair<int, int>> share_pairs(const TensorGroup& group,
                                             const Ladder& ladder,
                                             bool streams) {
    const auto allowed = [&](int share) {
        const bool whole = share == 0 || share == kShareParts;
        return whole || (ladder.splits && group.parts > 1);
    };
    std::vector<std::pair<int, int>> pairs;
    // Both shares rise, so that those which are the same parts as others follow them.
    int last_cpu = -1;
    for (const int cpu : kShares) {
        const int cpu_parts = snap(cpu, group.parts);
        if (!allowed(cpu) || cpu_parts == last_cpu) {
            continue;
        }
        last_cpu = cpu_parts;
        int last_streamed = -1;
        for (const int streamed : kShares) {
            const int streamed_parts = snap(streamed, group.parts);
            if (!allowed(streamed) || streamed_parts == last_streamed ||
                cpu + streamed > kShareParts || (streamed > 0 && !streams) ||
                cpu_parts + streamed_parts > group.parts) {
                continue;
            }
            last_streamed = streamed_parts;
            pairs.emplace_back(cpu, streamed);
        }
    }
    return pairs;
}

std::vector<GroupPlacement> dense_options(const TensorGroup& group,
                                          std::span<const std::pair<int, int>> pairs,
                                          const Ladder& ladder,
                                          bool prefill) {
    std::vector<GroupPlacement> options;
    options.reserve(pairs.size());
    std::set<int> known;  // numbers of resident parts, in prefill
    for (const auto& [cpu, streamed] : pairs) {
        const int on_cpu = snap(cpu, group.parts);
        const int over_link = std::min(snap(streamed, group.parts), group.parts - on_cpu);
        const GroupPlacement placed = {.resident = group.parts - on_cpu - over_link,
                                       .streamed = prefill ? 0 : over_link};
        if (!prefill) {
            options.push_back(placed);
        } else if (known.insert(placed.resident).second) {
            add_prefill(group, placed, ladder, options);
        }
    }
    return options;
}

std::vector<int> slot_steps(int experts, int steps, bool splits) {
    std::vector<int> slots;
    for (int i = 0; i <= steps; ++i) {
        const int value = static_cast<int>(std::lround(static_cast<double>(experts) * i / steps));
        const bool whole = value == 0 || value == experts;
        if ((whole || splits) && (slots.empty() || slots.back() != value)) {
            slots.push_back(value);
        }
    }
    return slots;
}

std::vector<GroupPlacement> expert_options(const TensorGroup& group,
                                           const Ladder& ladder,
                                           bool prefill) {
    std::vector<GroupPlacement> options = {{}};  // all on the CPU
    for (const int resident :
         slot_steps(group.parts, std::min(group.parts, kSlotSteps), ladder.splits)) {
        if (resident < group.parts && !ladder.splits) {
            continue;  // the always-read part here and the experts there divide the group
        }
        options.push_back({.resident = resident, .shared_on_device = true});
    }
    if (!prefill) {
        return options;
    }
    std::vector<GroupPlacement> with_streams;
    for (const GroupPlacement& placed : options) {
        if (!placed.shared_on_device && !ladder.router_streams) {
            with_streams.push_back(placed);
            continue;
        }
        add_prefill(group, placed, ladder, with_streams);
    }
    return with_streams;
}

/// Sets of options whose costs depend on the lead alike, to a millionth of a hop.
std::vector<std::vector<int>> find_shapes(std::span<const Option> options, double hop) {
    std::map<std::array<std::int64_t, std::size_t{2} * kLeads>, std::size_t> known;
    std::vector<std::vector<int>> shapes;
    for (std::size_t i = 0; i < options.size(); ++i) {
        const Option& option = options[i];
        std::array<std::int64_t, std::size_t{2}* kLeads> shape = {};
        for (std::size_t lead = 0; lead < kLeads; ++lead) {
            const double rise = option.delta[lead] - option.delta[0];
            shape[2 * lead] = hop > 0.0 ? std::llround(rise / hop * 1e6) : 0;
            shape[2 * lead + 1] = option.next[lead];
        }
        const auto [at, is_new] = known.try_emplace(shape, shapes.size());
        if (is_new) {
            shapes.emplace_back();
        }
        shapes[at->second].push_back(static_cast<int>(i));
    }
    return shapes;
}

/// How far types recur from here on at this period, in groups; 0 if less than three times.
std::size_t recurring(std::span<const int> types, std::size_t begin, std::size_t period) {
    std::size_t end = begin + period;
    while (end < types.size() && types[end] == types[end - period]) {
        ++end;
    }
    return end <= types.size() && end - begin >= 3 * period ? end - begin : 0;
}

std::vector<OptionTable::Recurrence> find_recurrences(std::span<const int> types) {
    std::vector<OptionTable::Recurrence> found;
    std::size_t begin = 0;
    while (begin < types.size()) {
        OptionTable::Recurrence best;
        for (std::size_t period = 1; period <= kPeriodMax; ++period) {
            const std::size_t length = recurring(types, begin, period);
            if (length > best.end - best.begin + period) {
                best = {.begin = begin, .end = begin + length, .period = period};
            }
        }
        if (best.period > 0) {
            found.push_back(best);
        }
        begin = std::max(best.end, begin + 1);
    }
    return found;
}

}  // namespace

OptionTable::OptionTable(const StepModel& model, const KvReserve& reserve, const Ladder& ladder)
    : model_(&model), ladder_(ladder) {
    const bool prefill = model.options().shape.is_prefill();
    const bool streams = !model.unified() && ladder.streams;
    std::map<std::pair<int, int>, int> classes;
    std::vector<std::vector<std::pair<int, int>>> pairs_of_class;
    const std::vector<TensorGroup>& groups = model.catalog().groups;
    // Shares that are one for a group of few parts are several for another of its class.
    std::map<std::pair<int, int>, const TensorGroup*> finest;
    for (const TensorGroup& group : groups) {
        const TensorGroup*& known = finest.try_emplace(class_key(group), &group).first->second;
        known = group.parts > known->parts ? &group : known;
    }
    type_of_ = model.types();
    for (std::size_t i = 0; i < groups.size(); ++i) {
        const TensorGroup& group = groups[i];
        if (static_cast<std::size_t>(type_of_[i]) < example_.size()) {
            continue;
        }
        const auto [in_class, first_of_class] =
            classes.try_emplace(class_key(group), static_cast<int>(classes.size()));
        class_of_type_.push_back(in_class->second);
        example_.push_back(i);
        if (first_of_class) {
            pairs_of_class.push_back(share_pairs(*finest.at(class_key(group)), ladder, streams));
        }
        const auto& pairs = pairs_of_class[static_cast<std::size_t>(in_class->second)];
        const std::vector<GroupPlacement> placements =
            group.kind == GroupKind::kExperts ? expert_options(group, ladder, prefill)
                                              : dense_options(group, pairs, ladder, prefill);
        std::vector<Option>& options = options_.emplace_back();
        options.reserve(placements.size());
        for (const GroupPlacement& placed : placements) {
            options.push_back(make(group, placed, reserve));
        }
    }
    n_classes_ = classes.size();
    recurrences_ = find_recurrences(type_of_);
    for (const std::vector<Option>& options : options_) {
        shapes_.push_back(find_shapes(options, hop()));
    }
}

Option OptionTable::make(const TensorGroup& group,
                         const GroupPlacement& placed,
                         const KvReserve& reserve) const {
    Option option = {.placed = placed, .cost = model_->cost(group, placed)};
    const GroupBytes bytes = group_bytes(group, placed, reserve);
    option.memory = static_cast<double>(bytes.weights + bytes.kv);
    option.piece = static_cast<double>(bytes.piece);
    option.link_seconds = model_->link_seconds(option.cost);
    // The ring can hold no more than itself when the group starts.
    ShareCost waiting = option.cost;
    const double beyond_ring = waiting.streamed_bytes - kRingBytesMax;
    if (beyond_ring > 0.0) {
        Outcome& outcome = waiting.first;
        outcome.device = std::max(outcome.device, beyond_ring / model_->link_bps());
    }
    for (int i = 0; i < kLeads; ++i) {
        const auto at = static_cast<std::size_t>(i);
        ChainState after = model_->advance(waiting, {.device = 0.0, .cpu = lead(i)});
        if (model_->unified() && i + 1 < kLeads) {
            // On one memory the device may be later if the CPU begins earlier.
            const ChainState later = model_->advance(waiting, {.device = 0.0, .cpu = lead(i + 1)});
            after.device = std::min(after.device, later.device);
            after.cpu = std::min(after.cpu, later.cpu);
        }
        option.delta[at] = after.device;
        // Rounded down: the CPU is never later than it will be, so that values stay bounds.
        const double steps =
            hop() > 0.0 ? ((after.cpu - after.device) / hop() + 1.0) * (kLeads - 1) / 2.0 : 0.0;
        option.next[at] = static_cast<std::uint8_t>(
            std::clamp(std::floor(steps + 1e-9), 0.0, static_cast<double>(kLeads - 1)));
    }
    option.delta_min = *std::min_element(option.delta.begin(), option.delta.end());
    return option;
}

void OptionTable::estimate_prefill(const StepModel& prefill, bool maps_all) {
    const bool may_stream = ladder_.prefill_streams && (!prefill.unified() || maps_all);
    for (std::size_t type = 0; type < options_.size(); ++type) {
        const TensorGroup& group = example(static_cast<int>(type));
        int last_resident = -1;
        bool last_shared = false;
        double last_seconds = 0.0;
        for (Option& option : options_[type]) {
            GroupPlacement placed = option.placed;
            if (placed.resident == last_resident && placed.shared_on_device == last_shared) {
                option.prefill_seconds = last_seconds;
                continue;
            }
            const int rest = group.parts - placed.resident;
            double least = std::numeric_limits<double>::infinity();
            for (const int streamed : {0, rest / 2, rest * 7 / 8, rest}) {
                placed.prefill_streamed = may_stream ? streamed : 0;
                const ShareCost cost = prefill.cost(group, placed);
                const Outcome& outcome = cost.first;
                const double copies =
                    prefill.unified() ? 0.0 : cost.streamed_bytes / prefill.link_bps();
                least = std::min(least, std::max({outcome.device, outcome.cpu, copies}));
            }
            last_resident = placed.resident;
            last_shared = placed.shared_on_device;
            last_seconds = option.prefill_seconds = least;
        }
    }
}

const TensorGroup& OptionTable::example(int type) const {
    return model_->catalog().groups[example_[static_cast<std::size_t>(type)]];
}

int OptionTable::find(int type, const GroupPlacement& placed) const {
    const std::span<const Option> all = options(type);
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].placed == placed) {
            return static_cast<int>(i);
        }
    }
    return -1;
}

}  // namespace ballast::scheduler
