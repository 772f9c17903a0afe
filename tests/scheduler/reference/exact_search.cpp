// SPDX-License-Identifier: MIT
#include "tests/scheduler/reference/exact_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "engine/base/check.h"

namespace ballast::test {

namespace {

/// One way of placing one group, with all that the search needs of it.
struct Option {
    std::vector<Outcome> outcomes;
    double bytes = 0.0;
};

struct Chain {
    double hop_seconds = 0.0;
    std::vector<std::vector<Option>> groups;
    std::vector<double> bytes_after;  // least bytes of the groups from i on
};

Chain make_chain(const ExactProblem& p) {
    BALLAST_CHECK(p.step.tokens == 1 && p.options.size() == p.catalog.groups.size());
    Chain chain;
    chain.hop_seconds = reference_hop_seconds(p.catalog, p.hardware, p.step);
    for (std::size_t i = 0; i < p.options.size(); ++i) {
        const scheduler::TensorGroup& group = p.catalog.groups[i];
        BALLAST_CHECK(!p.options[i].empty());
        std::vector<Option> options;
        for (const scheduler::GroupPlacement& placed : p.options[i]) {
            BALLAST_CHECK(placed.streamed == 0 && placed.prefill_streamed == 0);
            options.push_back({outcomes(p.hardware, p.step, group, placed),
                               reference_group_bytes(group, placed, p.reserve)});
        }
        chain.groups.push_back(std::move(options));
    }
    chain.bytes_after.assign(p.options.size() + 1, 0.0);
    for (std::size_t i = p.options.size(); i-- > 0;) {
        double least = std::numeric_limits<double>::infinity();
        for (const Option& option : chain.groups[i]) {
            least = std::min(least, option.bytes);
        }
        chain.bytes_after[i] = chain.bytes_after[i + 1] + least;
    }
    return chain;
}

/// Walks the tree of all choices.
class Enumeration {
  public:
    Enumeration(const ExactProblem& problem, const Chain& chain)
        : p_(problem), chain_(chain), choice_(chain.groups.size()) {}

    ExactResult run() {
        visit(0, {chain_.hop_seconds, 0.0}, 0.0);
        return std::move(best_);
    }

  private:
    void visit(std::size_t group, Usable usable, double bytes) {
        ++best_.states;
        if (bytes + chain_.bytes_after[group] > static_cast<double>(p_.budget_bytes)) {
            return;
        }
        if (group == chain_.groups.size()) {
            if (!best_.found || usable.cpu < best_.seconds) {
                best_.found = true;
                best_.seconds = usable.cpu;
                best_.bytes = bytes;
                best_.placement.groups = choice_;
            }
            return;
        }
        for (std::size_t o = 0; o < chain_.groups[group].size(); ++o) {
            const Option& option = chain_.groups[group][o];
            choice_[group] = p_.options[group][o];
            visit(group + 1,
                  after_group(p_.hardware, p_.step, chain_.hop_seconds, option.outcomes, usable),
                  bytes + option.bytes);
        }
    }

    const ExactProblem& p_;
    const Chain& chain_;
    std::vector<scheduler::GroupPlacement> choice_;
    ExactResult best_;
};

/// A state after some groups and how it came about.
struct Label {
    Usable usable = {};
    double bytes = 0.0;
    std::size_t parent = 0;
    std::size_t option = 0;
};

/// With overlapped hops and two memories a later residual never makes anything earlier, so that a
/// label is superfluous if another is as good in time on both sides and in bytes. Blocking hops
/// depend on who has it first, and on one memory who begins later disturbs the other less; there
/// only labels of the same distance between the sides can be compared.
bool later_is_never_better(const ExactProblem& p) {
    return !p.step.blocking_hops && !p.hardware.unified_memory;
}

/// The best so far, by bytes ascending: pairs of (device, cpu) of which none is superior.
class Staircase {
  public:
    /// Whether the state is new, that is, none of those before is as good; then it is kept.
    bool add(Usable usable) {
        auto after = best_.upper_bound(usable.device);
        if (after != best_.begin() && std::prev(after)->second <= usable.cpu) {
            return false;
        }
        while (after != best_.end() && after->second >= usable.cpu) {
            after = best_.erase(after);
        }
        best_[usable.device] = usable.cpu;
        return true;
    }

  private:
    std::map<double, double> best_;  // cpu falls as device grows
};

std::vector<Label> without_superfluous(std::vector<Label> labels, bool compare_all) {
    std::sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) {
        return a.bytes != b.bytes ? a.bytes < b.bytes : a.usable.cpu < b.usable.cpu;
    });
    constexpr double kSameSeconds = 1e-13;
    std::map<long long, Staircase> kept_by_distance;
    std::vector<Label> kept;
    for (const Label& label : labels) {
        const double distance = label.usable.cpu - label.usable.device;
        const long long key = compare_all ? 0 : std::llround(distance / kSameSeconds);
        // Of one distance the earlier on the CPU is the earlier on both sides.
        const Usable state =
            compare_all ? label.usable : Usable{label.usable.cpu, label.usable.cpu};
        if (kept_by_distance[key].add(state)) {
            kept.push_back(label);
        }
    }
    return kept;
}

}  // namespace

ExactResult search_all(const ExactProblem& problem) {
    const Chain chain = make_chain(problem);
    return Enumeration(problem, chain).run();
}

ExactResult search_labels(const ExactProblem& p) {
    const Chain chain = make_chain(p);
    const bool compare_all = later_is_never_better(p);
    ExactResult result;
    std::vector<std::vector<Label>> layers = {{{.usable = {chain.hop_seconds, 0.0}}}};
    for (std::size_t i = 0; i < chain.groups.size(); ++i) {
        std::vector<Label> next;
        for (std::size_t parent = 0; parent < layers[i].size(); ++parent) {
            const Label& from = layers[i][parent];
            for (std::size_t o = 0; o < chain.groups[i].size(); ++o) {
                const Option& option = chain.groups[i][o];
                const double bytes = from.bytes + option.bytes;
                if (bytes + chain.bytes_after[i + 1] <= static_cast<double>(p.budget_bytes)) {
                    const Usable usable = after_group(
                        p.hardware, p.step, chain.hop_seconds, option.outcomes, from.usable);
                    next.push_back({usable, bytes, parent, o});
                }
            }
        }
        result.states += next.size();
        layers.push_back(without_superfluous(std::move(next), compare_all));
    }
    const std::vector<Label>& last = layers.back();
    if (last.empty()) {
        return result;
    }
    const auto best = std::min_element(last.begin(), last.end(), [](const auto& a, const auto& b) {
        return a.usable.cpu < b.usable.cpu;
    });
    result.found = true;
    result.seconds = best->usable.cpu;
    result.bytes = best->bytes;
    result.placement.groups.resize(chain.groups.size());
    const Label* label = &*best;
    for (std::size_t i = chain.groups.size(); i-- > 0;) {
        result.placement.groups[i] = p.options[i][label->option];
        label = &layers[i][label->parent];
    }
    return result;
}

}  // namespace ballast::test
