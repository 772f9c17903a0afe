// SPDX-License-Identifier: MIT
// Local search over placements: single moves by estimate, pairs of them by sum, replays of the few
// best.
#include "scheduler/placement/plan_refine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <utility>

namespace ballast::scheduler {

namespace {

constexpr std::size_t kKinds = 4;
constexpr int kRoundsMax = 40;
// Single moves of which pairs are made, and pairs that are estimated themselves.
constexpr std::size_t kPaired = 40;
constexpr std::size_t kPairsEstimated = 24;
constexpr std::size_t kReplaysPerRound = 4;
// The same of a short chain.
constexpr std::size_t kPairedThorough = 160;
constexpr std::size_t kPairsEstimatedThorough = 400;
constexpr std::size_t kReplaysPerRoundThorough = 60;
// A smaller gain is not worth another round, of the value.
constexpr double kLeastGain = 2e-4;
// How far along the list of divisions a move goes.
constexpr std::array<int, 5> kStrides = {1, 2, 4, 8, 16};

/// One division of one type with what it costs in both phases.
struct Division {
    GroupPlacement placed = {};
    ShareCost decode = {};
    ShareCost prefill = {};
    double decode_link = 0.0;
    double prefill_link = 0.0;
    double memory = 0.0;
    double piece = 0.0;
};

/// Groups that get another division, in order of the groups.
struct Move {
    std::vector<std::pair<std::size_t, const Division*>> changes = {};
    double gain = 0.0;    // of the estimate; less than 0 if it is slower
    double memory = 0.0;  // more than before, with the ring
};

class Refiner {
  public:
    Refiner(const RefineTask& task, Refined start)
        : task_(task),
          table_(*task.decode),
          catalog_(task.decode->model().catalog()),
          best_(std::move(start)),
          known_(task.decode->n_types()) {
        for (std::size_t i = 0; i < best_.placement.groups.size(); ++i) {
            now_.push_back(division(table_.type_of(i), best_.placement.groups[i]));
        }
    }

    Refined run() {
        value_ = value(best_.decode_seconds, best_.prefill_seconds);
        for (int round = 0; round < kRoundsMax && value_ > task_.good_enough; ++round) {
            const double before = value_;
            improve();
            if (value_ > before * (1.0 - kLeastGain) || exhausted()) {
                break;
            }
        }
        return std::move(best_);
    }

  private:
    bool has_prefill() const { return task_.prefill_weight > 0.0; }
    bool exhausted() const { return steps_ >= task_.max_steps || replays_ >= task_.max_replays; }
    double value(double decode, double prefill) const {
        return task_.decode_weight * decode + task_.prefill_weight * prefill;
    }

    const Division* division(int type, const GroupPlacement& placed) {
        std::deque<Division>& known = known_[static_cast<std::size_t>(type)];
        for (const Division& of : known) {
            if (of.placed == placed) {
                return &of;
            }
        }
        const TensorGroup& group = table_.example(type);
        const GroupBytes bytes = group_bytes(group, placed, task_.reserve);
        Division made = {.placed = placed,
                         .decode = table_.model().cost(group, placed),
                         .memory = static_cast<double>(bytes.weights + bytes.kv),
                         .piece = static_cast<double>(bytes.piece)};
        made.decode_link = table_.model().link_seconds(made.decode);
        if (has_prefill()) {
            made.prefill = task_.prefill->cost(group, placed);
            made.prefill_link = task_.prefill->link_seconds(made.prefill);
        }
        known.push_back(std::move(made));
        return &known.back();
    }

    static double memory_of(const std::vector<const Division*>& plan) {
        double memory = 0.0;
        double piece = 0.0;
        for (const Division* const of : plan) {
            memory += of->memory;
            piece = std::max(piece, of->piece);
        }
        return memory + ring_bytes(piece);
    }

    /// A phase without the ring: the chain, or the link's balance if that is longer.
    double seconds_of(const std::vector<const Division*>& plan,
                      const StepModel& model,
                      const ShareCost Division::*cost,
                      double Division::*link) {
        ChainState state = {.device = model.hop_seconds(), .cpu = 0.0};
        double link_seconds = 0.0;
        for (const Division* const of : plan) {
            state = model.advance(of->*cost, state);
            link_seconds += of->*link;
        }
        steps_ += static_cast<int>(plan.size());
        return std::max(state.cpu, link_seconds);
    }

    double estimate(const std::vector<const Division*>& plan) {
        const double decode =
            seconds_of(plan, table_.model(), &Division::decode, &Division::decode_link);
        const double prefill =
            has_prefill()
                ? seconds_of(plan, *task_.prefill, &Division::prefill, &Division::prefill_link)
                : 0.0;
        return value(decode, prefill);
    }

    /// The share of what is not resident that a division sends over the link in prefill.
    static double prefill_share(const TensorGroup& group, const GroupPlacement& placed) {
        const int rest = group.parts - placed.resident;
        return rest > 0 ? static_cast<double>(placed.prefill_streamed) / rest : -1.0;
    }

    /// A division with the share of the ladder that is nearest to this one.
    GroupPlacement with_share(const TensorGroup& group, GroupPlacement placed, double share) const {
        if (group.kind == GroupKind::kAttention && !task_.ladder.attention_prefill) {
            placed.prefill_streamed = placed.streamed;
            return placed;
        }
        if (group.kind == GroupKind::kExperts && !placed.shared_on_device &&
            !task_.ladder.router_streams) {
            placed.prefill_streamed = 0;
            return placed;
        }
        const int rest = group.parts - placed.resident;
        double nearest = 0.0;
        for (const double of : kPrefillShares) {
            if (allows_prefill_share(task_.ladder, of) &&
                std::abs(of - share) < std::abs(nearest - share)) {
                nearest = of;
            }
        }
        placed.prefill_streamed = static_cast<int>(std::lround(nearest * rest));
        return placed;
    }

    /// Of a kind, for groups that are resident now.
    double common_share(GroupKind kind) const {
        double share = 0.0;
        for (std::size_t i = 0; i < now_.size(); ++i) {
            if (catalog_.groups[i].kind == kind) {
                share = std::max(share, prefill_share(catalog_.groups[i], now_[i]->placed));
            }
        }
        return share;
    }

    void improve() {
        estimate_ = estimate(now_);
        memory_ = memory_of(now_);
        std::vector<Move> singles = single_moves();
        std::vector<Move> good;
        for (const Move& move : singles) {
            if (move.gain > 0.0 && fits(move)) {
                good.push_back(move);
            }
        }
        add_pairs(singles, good);
        std::sort(good.begin(), good.end(), by_gain);
        const std::size_t most_replays =
            task_.thorough ? kReplaysPerRoundThorough : kReplaysPerRound;
        for (std::size_t i = 0; i < std::min(good.size(), most_replays); ++i) {
            if (replay(good[i]) || replays_ >= task_.max_replays) {
                return;
            }
        }
    }

    static bool by_gain(const Move& a, const Move& b) { return a.gain > b.gain; }
    bool fits(const Move& move) const { return memory_ + move.memory <= task_.memory_bytes; }

    /// Fills in what the move does.
    void judge(Move& move) {
        tried_ = now_;
        for (const auto& [group, to] : move.changes) {
            tried_[group] = to;
        }
        move.memory = memory_of(tried_) - memory_;
        move.gain = estimate_ - estimate(tried_);
    }

    std::vector<Move> single_moves() {
        std::vector<Move> moves;
        add_share_moves(moves);
        // Groups that are divided alike, by type.
        std::vector<std::vector<std::size_t>> alike;
        for (std::size_t i = 0; i < now_.size(); ++i) {
            const auto same = std::find_if(alike.begin(), alike.end(), [&](const auto& set) {
                return now_[set.front()] == now_[i] &&
                       table_.type_of(set.front()) == table_.type_of(i);
            });
            if (same == alike.end()) {
                alike.push_back({i});
            } else {
                same->push_back(i);
            }
        }
        for (const std::vector<std::size_t>& set : alike) {
            for (const Division* const to : neighbours(set.front())) {
                std::size_t before = 0;
                for (const std::size_t n :
                     {set.size(), set.size() / 2, set.size() / 4, std::size_t{1}}) {
                    if (n == 0 || n == std::exchange(before, n)) {
                        continue;
                    }
                    if (steps_ >= task_.max_steps) {
                        return moves;
                    }
                    Move move;
                    for (std::size_t i = 0; i < set.size(); ++i) {
                        if (is_evenly_spaced(static_cast<int>(i),
                                             static_cast<int>(n),
                                             static_cast<int>(set.size()))) {
                            move.changes.emplace_back(set[i], to);
                        }
                    }
                    judge(move);
                    moves.push_back(std::move(move));
                }
            }
        }
        return moves;
    }

    void add_share_moves(std::vector<Move>& moves) {
        if (!has_prefill()) {
            return;
        }
        for (std::size_t kind = 0; kind < kKinds; ++kind) {
            for (const double share : kPrefillShares) {
                if (!allows_prefill_share(task_.ladder, share)) {
                    continue;
                }
                Move move;
                for (std::size_t i = 0; i < now_.size(); ++i) {
                    const TensorGroup& group = catalog_.groups[i];
                    if (static_cast<std::size_t>(group.kind) != kind) {
                        continue;
                    }
                    const GroupPlacement placed = with_share(group, now_[i]->placed, share);
                    if (!(placed == now_[i]->placed)) {
                        move.changes.emplace_back(i, division(table_.type_of(i), placed));
                    }
                }
                if (!move.changes.empty()) {
                    judge(move);
                    moves.push_back(std::move(move));
                }
            }
        }
    }

    /// Divisions to try for a group: along the ladder with the same streamed parts, with the same
    /// parts of the CPU, and with the same resident ones, and the ends of each.
    std::vector<const Division*> neighbours(std::size_t group) {
        const int type = table_.type_of(group);
        const TensorGroup& tensors = catalog_.groups[group];
        const GroupPlacement& here = now_[group]->placed;
        double share = prefill_share(tensors, here);
        if (share < 0.0) {
            share = common_share(tensors.kind);
        }
        std::vector<const Division*> found;
        const auto add = [&](const GroupPlacement& placed) {
            const Division* const to = division(type, with_share(tensors, placed, share));
            if (to != now_[group] && std::find(found.begin(), found.end(), to) == found.end()) {
                found.push_back(to);
            }
        };
        if (task_.thorough) {
            for (const Option& option : table_.options(type)) {
                add(option.placed);
            }
            return found;
        }
        const auto on_device = [](const GroupPlacement& of) { return of.resident + of.streamed; };
        for (int line = 0; line < 3; ++line) {
            std::vector<GroupPlacement> fewer;
            std::vector<GroupPlacement> more;
            for (const Option& option : table_.options(type)) {
                const GroupPlacement& of = option.placed;
                const bool on_line = line == 0   ? of.streamed == here.streamed
                                     : line == 1 ? on_device(of) == on_device(here)
                                                 : of.resident == here.resident;
                if (on_line && (of.resident != here.resident || of.streamed != here.streamed ||
                                of.shared_on_device != here.shared_on_device)) {
                    const bool is_more =
                        line == 2 ? of.streamed > here.streamed
                                  : of.resident > here.resident ||
                                        (of.resident == here.resident && of.shared_on_device);
                    (is_more ? more : fewer).push_back(of);
                }
            }
            const auto key = [&](const GroupPlacement& of) {
                return 2 * (line == 2 ? of.streamed : of.resident) + (of.shared_on_device ? 1 : 0);
            };
            std::sort(more.begin(), more.end(), [&](const auto& a, const auto& b) {
                return key(a) < key(b);
            });
            std::sort(fewer.begin(), fewer.end(), [&](const auto& a, const auto& b) {
                return key(a) > key(b);
            });
            for (const std::vector<GroupPlacement>* const side : {&fewer, &more}) {
                for (const int stride : kStrides) {
                    if (static_cast<std::size_t>(stride) <= side->size()) {
                        add((*side)[static_cast<std::size_t>(stride) - 1]);
                    }
                }
                if (!side->empty()) {
                    add(side->back());
                }
            }
        }
        return found;
    }

    /// One that is faster for memory, one that gives it back: ranked by the sum of both.
    void add_pairs(std::vector<Move>& singles, std::vector<Move>& good) {
        std::vector<const Move*> takes = best_by(singles, [&](const Move& move) {
            return move.gain > 0.0 ? -move.gain : std::numeric_limits<double>::infinity();
        });
        std::vector<const Move*> gives = best_by(singles, [&](const Move& move) {
            // What a byte that it frees costs; what frees none cannot pay for anything.
            return move.memory < 0.0 ? std::max(-move.gain, 0.0) / -move.memory
                                     : std::numeric_limits<double>::infinity();
        });
        std::vector<std::pair<double, std::pair<const Move*, const Move*>>> pairs;
        for (const Move* const take : takes) {
            for (const Move* const give : gives) {
                const double gain = take->gain + give->gain;
                if (gain > 0.0 && memory_ + take->memory + give->memory <= task_.memory_bytes &&
                    give != take && !overlap(*take, *give)) {
                    pairs.push_back({-gain, {take, give}});
                }
            }
        }
        const std::size_t most_pairs = task_.thorough ? kPairsEstimatedThorough : kPairsEstimated;
        std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
            return a.first < b.first;
        });
        for (std::size_t i = 0; i < std::min(pairs.size(), most_pairs); ++i) {
            const auto& [take, give] = pairs[i].second;
            Move move = *take;
            move.changes.insert(move.changes.end(), give->changes.begin(), give->changes.end());
            judge(move);
            if (move.gain > 0.0 && fits(move)) {
                good.push_back(std::move(move));
            }
        }
    }

    template <class Cost>
    std::vector<const Move*> best_by(const std::vector<Move>& moves, const Cost& cost) const {
        std::vector<std::pair<double, const Move*>> ranked;
        for (const Move& move : moves) {
            const double of = cost(move);
            if (of < std::numeric_limits<double>::infinity()) {
                ranked.emplace_back(of, &move);
            }
        }
        std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
            return a.first < b.first;
        });
        const std::size_t most = task_.thorough ? kPairedThorough : kPaired;
        std::vector<const Move*> best;
        for (std::size_t i = 0; i < std::min(ranked.size(), most); ++i) {
            best.push_back(ranked[i].second);
        }
        return best;
    }

    static bool overlap(const Move& a, const Move& b) {
        return std::any_of(a.changes.begin(), a.changes.end(), [&](const auto& of_a) {
            return std::any_of(b.changes.begin(), b.changes.end(), [&](const auto& of_b) {
                return of_a.first == of_b.first;
            });
        });
    }

    /// Takes the move if both phases' replays are better together.
    bool replay(const Move& move) {
        ++replays_;
        tried_ = now_;
        for (const auto& [group, to] : move.changes) {
            tried_[group] = to;
        }
        const auto seconds = [&](const StepModel& model, const ShareCost Division::*cost) {
            shares_.clear();
            for (const Division* const of : tried_) {
                shares_.push_back(&(of->*cost));
            }
            return model.seconds(shares_);
        };
        const double decode = seconds(table_.model(), &Division::decode);
        if (task_.decode_weight * decode >= value_) {
            return false;
        }
        const double prefill =
            has_prefill() ? seconds(*task_.prefill, &Division::prefill) : best_.prefill_seconds;
        const double tried = value(decode, prefill);
        if (tried >= value_) {
            return false;
        }
        now_ = tried_;
        value_ = tried;
        best_.decode_seconds = decode;
        best_.prefill_seconds = prefill;
        for (std::size_t i = 0; i < now_.size(); ++i) {
            best_.placement.groups[i] = now_[i]->placed;
        }
        return true;
    }

    const RefineTask& task_;
    const OptionTable& table_;
    const TensorCatalog& catalog_;
    Refined best_;
    std::vector<std::deque<Division>> known_;  // by type
    std::vector<const Division*> now_;         // by group
    std::vector<const Division*> tried_;
    std::vector<const ShareCost*> shares_;
    double value_ = 0.0;
    double estimate_ = 0.0;
    double memory_ = 0.0;
    int steps_ = 0;
    int replays_ = 0;
};

}  // namespace

Refined refine_plan(const RefineTask& task, Refined start) {
    return Refiner(task, std::move(start)).run();
}

}  // namespace ballast::scheduler
