// SPDX-License-Identifier: MIT
// Kinds of layer, pairs of kinds, and their order.
#include "scheduler/placement/layer_mix.h"

#include <algorithm>
#include <cmath>

#include "scheduler/placement/kind_pairs.h"

namespace ballast::scheduler {

namespace {

constexpr int kMemoryBuckets = 24;
constexpr std::size_t kHeadsMax = 6;
// At the best prices many options cost the same; those that stream less keep out of the ring's way.
constexpr double kStreamPenalty = 0.02;
constexpr double kRounding = 1e-12;  // of a sum in another order
constexpr std::uint8_t kCpuOwns = 0;
constexpr std::uint8_t kDeviceOwns = kLeads - 1;

/// The groups by layer, and the head apart.
class Layout {
  public:
    explicit Layout(const OptionTable& table) : members_(table.n_classes()) {
        const std::vector<TensorGroup>& groups = table.model().catalog().groups;
        for (std::size_t i = 0; i < groups.size(); ++i) {
            if (groups[i].kind == GroupKind::kHead) {
                heads_.push_back(i);
                continue;
            }
            if (layers_.empty() || layer_number_ != groups[i].layer) {
                layers_.emplace_back();
                layer_number_ = groups[i].layer;
            }
            layers_.back().push_back(i);
            members_[static_cast<std::size_t>(table.class_of(i))].push_back(i);
        }
        for (const std::vector<std::size_t>& layer : layers_) {
            std::vector<Member> members;
            members.reserve(layer.size());
            for (const std::size_t group : layer) {
                members.push_back(
                    {.type = table.type_of(group), .in_class = table.class_of(group)});
            }
            const auto same = std::find_if(distinct_.begin(), distinct_.end(), [&](const auto& d) {
                return d.members == members;
            });
            if (same == distinct_.end()) {
                distinct_.push_back({.members = std::move(members), .count = 1});
            } else {
                ++same->count;
            }
        }
    }
    /// Layers of the same types of groups, which cost the same.
    struct Member {
        int type = 0;
        int in_class = 0;
        friend bool operator==(const Member&, const Member&) = default;
    };
    struct Distinct {
        std::vector<Member> members;
        int count = 0;
    };
    const std::vector<Distinct>& distinct() const { return distinct_; }
    int n_layers() const { return static_cast<int>(layers_.size()); }
    const std::vector<std::vector<std::size_t>>& layers() const { return layers_; }
    const std::vector<std::size_t>& heads() const { return heads_; }
    /// The groups of a class; none for that of the head.
    const std::vector<std::size_t>& members(std::size_t in_class) const {
        return members_[in_class];
    }

  private:
    std::vector<Distinct> distinct_;
    std::vector<std::vector<std::size_t>> layers_;
    std::vector<std::size_t> heads_;
    std::vector<std::vector<std::size_t>> members_;
    int layer_number_ = -1;
};

}  // namespace

class LayerMixer::Kinds {
  public:
    Kinds(const OptionTable& table, const Prices& prices, const MixEffort& effort)
        : table_(table), prices_(prices), effort_(effort), layout_(table) {
        choose_options();
        make_kinds();
        choose_heads();
    }

    std::vector<Choice> plans(double memory_limit, int n_mixes, const Prices& prices) const {
        const std::vector<HeadOption> of_head = heads();
        const auto most = static_cast<std::size_t>(std::min(n_mixes, effort_.plans));
        return realise(pair_kinds({.kinds = kinds_,
                                   .heads = of_head,
                                   .n_layers = layout_.n_layers(),
                                   .prices = prices,
                                   .memory_limit = memory_limit,
                                   .most = most}),
                       memory_limit);
    }

  private:
    double reduced_cost(const Option& option, std::uint8_t owner) const {
        // A change of owner is worth the lead it brings.
        const double lead = table_.lead(option.next[owner]) - table_.lead(owner);
        return (1.0 - prices_.link) * (option.delta[owner] + lead / 2) +
               prices_.memory * option.memory + prices_.link * option.link_seconds +
               effort_.prefill_weight * option.prefill_seconds;
    }

    /// Which options of each class kinds are made of: all, unless their product is too much; then
    /// those that are cheap for either owner, spread over the amounts of memory.
    void choose_options() {
        chosen_.assign(table_.n_classes(), {});
        std::vector<std::size_t> in_use;
        double product = 1.0;
        for (std::size_t c = 0; c < table_.n_classes(); ++c) {
            if (!layout_.members(c).empty()) {
                in_use.push_back(c);
                product *= static_cast<double>(options_of(c).size());
            }
        }
        for (const std::size_t c : in_use) {
            const std::span<const Option> options = options_of(c);
            if (product <= effort_.kinds_tried) {
                for (std::size_t i = 0; i < options.size(); ++i) {
                    chosen_[c].push_back(static_cast<int>(i));
                }
            } else {
                const double fair = std::pow(static_cast<double>(effort_.kinds_tried),
                                             1.0 / static_cast<double>(in_use.size()));
                choose_of_class(options, static_cast<std::size_t>(fair), chosen_[c]);
            }
        }
    }

    std::span<const Option> options_of(std::size_t in_class) const {
        return table_.options(table_.type_of(layout_.members(in_class).front()));
    }

    void choose_of_class(std::span<const Option> options,
                         std::size_t keep,
                         std::vector<int>& chosen) const {
        std::vector<std::pair<double, int>> ranked;
        const auto take = [&](int option) {
            if (std::find(chosen.begin(), chosen.end(), option) == chosen.end()) {
                chosen.push_back(option);
            }
        };
        double most = 0.0;
        for (const Option& option : options) {
            most = std::max(most, option.memory);
        }
        const std::size_t buckets = std::max<std::size_t>(keep / 4, 1);
        for (const std::uint8_t owner : {kDeviceOwns, kCpuOwns}) {
            ranked.clear();
            for (std::size_t i = 0; i < options.size(); ++i) {
                const double streams = kStreamPenalty * options[i].link_seconds;
                ranked.emplace_back(reduced_cost(options[i], owner) + streams, static_cast<int>(i));
            }
            std::sort(ranked.begin(), ranked.end());
            for (std::size_t i = 0; i < std::min(ranked.size(), keep / 4); ++i) {
                take(ranked[i].second);
            }
            std::vector<bool> filled(buckets + 1, false);
            for (const auto& [cost, index] : ranked) {
                const double memory = options[static_cast<std::size_t>(index)].memory;
                const auto bucket =
                    most > 0.0
                        ? static_cast<std::size_t>(memory / most * static_cast<double>(buckets))
                        : 0;
                if (!filled[bucket]) {
                    filled[bucket] = true;
                    take(index);
                }
            }
        }
    }

    /// Of all combinations the best few for every amount of memory.
    void make_kinds() {
        most_memory_ = 0.0;
        for (const Layout::Distinct& layer : layout_.distinct()) {
            for (const Layout::Member& member : layer.members) {
                double most = 0.0;
                for (const Option& option : table_.options(member.type)) {
                    most = std::max(most, option.memory);
                }
                most_memory_ += layer.count * most;
            }
        }
        buckets_.assign(kMemoryBuckets + 1, {});
        std::vector<int> options(table_.n_classes(), 0);
        extend_kind(0, options);
        for (std::vector<Kind>& bucket : buckets_) {
            kinds_.insert(kinds_.end(), bucket.begin(), bucket.end());
        }
        std::sort(kinds_.begin(), kinds_.end(), [](const Kind& a, const Kind& b) {
            return a.memory < b.memory;
        });
    }

    void extend_kind(std::size_t in_class, std::vector<int>& options) {
        if (in_class == table_.n_classes()) {
            const Kind least = sums(options);
            if (may_keep(least)) {
                keep(evaluated(least, options), options);
            }
            return;
        }
        if (chosen_[in_class].empty()) {
            extend_kind(in_class + 1, options);
            return;
        }
        for (const int option : chosen_[in_class]) {
            options[in_class] = option;
            extend_kind(in_class + 1, options);
        }
    }

    std::vector<Kind>& bucket_of(const Kind& kind) {
        const auto index = most_memory_ > 0.0
                               ? static_cast<std::size_t>(kind.memory / most_memory_ *
                                                          kMemoryBuckets * (1.0 - 1e-12))
                               : 0;
        return buckets_[index];
    }
    std::size_t kept() const {
        return static_cast<std::size_t>(std::max(effort_.kinds / kMemoryBuckets, 1));
    }
    bool may_keep(const Kind& kind) {
        const std::vector<Kind>& bucket = bucket_of(kind);
        return bucket.size() < kept() || kind.priced < bucket.back().priced;
    }

    /// Keeps it if it is among the best of its bucket so far, which are in order.
    void keep(Kind kind, const std::vector<int>& options) {
        std::vector<Kind>& bucket = bucket_of(kind);
        const std::size_t most = kept();
        if (!may_keep(kind)) {
            return;
        }
        if (bucket.size() == most) {
            kind.first = bucket.back().first;
            bucket.pop_back();
        } else {
            kind.first = options_.size();
            options_.resize(options_.size() + options.size());
        }
        std::copy(options.begin(),
                  options.end(),
                  options_.begin() + static_cast<std::ptrdiff_t>(kind.first));
        const auto place =
            std::upper_bound(bucket.begin(), bucket.end(), kind, [](const Kind& a, const Kind& b) {
                return a.priced < b.priced;
            });
        bucket.insert(place, kind);
    }

    int option_of(const Kind& kind, std::size_t group) const {
        return options_[kind.first + static_cast<std::size_t>(table_.class_of(group))];
    }

    /// All layers of one kind, with the least seconds for any lead.
    Kind sums(const std::vector<int>& options) const {
        Kind kind;
        for (const Layout::Distinct& layer : layout_.distinct()) {
            for (const Layout::Member& member : layer.members) {
                const auto index =
                    static_cast<std::size_t>(options[static_cast<std::size_t>(member.in_class)]);
                const Option& option = table_.options(member.type)[index];
                kind.seconds += layer.count * option.delta_min;
                kind.memory += layer.count * option.memory;
                kind.link_seconds += layer.count * option.link_seconds;
                kind.piece = std::max(kind.piece, option.piece);
                kind.prefill += effort_.prefill_weight * layer.count * option.prefill_seconds;
            }
        }
        kind.seconds *= 1.0 - kRounding;
        kind.priced = priced(kind);
        return kind;
    }

    /// Alone it has to keep the link's balance by itself.
    double priced(const Kind& kind) const {
        return std::max(kind.seconds, kind.link_seconds) + prices_.memory * kind.memory +
               kind.prefill;
    }

    /// Each distinct layer is run twice: once to find the lead that such layers settle on, once to
    /// measure.
    Kind evaluated(Kind kind, const std::vector<int>& options) const {
        kind.seconds = 0.0;
        std::uint8_t lead = kCpuOwns;
        for (const Layout::Distinct& layer : layout_.distinct()) {
            double seconds = 0.0;
            for (int pass = 0; pass < 2; ++pass) {
                seconds = 0.0;
                for (const Layout::Member& member : layer.members) {
                    const auto index = static_cast<std::size_t>(
                        options[static_cast<std::size_t>(member.in_class)]);
                    const Option& option = table_.options(member.type)[index];
                    seconds += option.delta[lead];
                    lead = option.next[lead];
                }
            }
            kind.seconds += layer.count * seconds;
        }
        kind.lead = lead;
        kind.priced = priced(kind);
        return kind;
    }

    /// Whole on either side, evenly spread shares, and the cheapest.
    void choose_heads() {
        if (layout_.heads().empty()) {
            heads_ = {-1};
            return;
        }
        const std::span<const Option> options =
            table_.options(table_.type_of(layout_.heads().front()));
        std::vector<std::pair<double, int>> ranked;
        std::vector<std::pair<double, int>> by_memory;
        for (std::size_t i = 0; i < options.size(); ++i) {
            if (options[i].piece > 0.0) {
                continue;  // the ring cannot run ahead over one large matrix
            }
            const double cost =
                std::min(reduced_cost(options[i], kDeviceOwns), reduced_cost(options[i], kCpuOwns));
            ranked.emplace_back(cost, static_cast<int>(i));
            by_memory.emplace_back(options[i].memory, static_cast<int>(i));
        }
        std::sort(ranked.begin(), ranked.end());
        std::sort(by_memory.begin(), by_memory.end());
        const auto take = [&](int option) {
            if (heads_.size() < kHeadsMax &&
                std::find(heads_.begin(), heads_.end(), option) == heads_.end()) {
                heads_.push_back(option);
            }
        };
        take(by_memory.front().second);
        take(by_memory.back().second);
        take(ranked[0].second);
        take(ranked[std::min<std::size_t>(1, ranked.size() - 1)].second);
        take(by_memory[by_memory.size() / 2].second);
        take(by_memory[by_memory.size() * 3 / 4].second);
    }

    const Option& head(int option) const { return table_.option(layout_.heads().front(), option); }

    std::vector<HeadOption> heads() const {
        std::vector<HeadOption> heads;
        heads.reserve(heads_.size());
        for (const int option : heads_) {
            HeadOption& added = heads.emplace_back(HeadOption{.index = option});
            for (std::uint8_t lead = 0; lead < kLeads; ++lead) {
                added.end_seconds[lead] = end_seconds(lead, option);
            }
            if (option >= 0) {
                added.memory = head(option).memory;
                added.link_seconds = head(option).link_seconds;
                added.piece = head(option).piece;
                added.prefill = effort_.prefill_weight * head(option).prefill_seconds;
            }
        }
        return heads;
    }

    /// Seconds from the end of the layers to that of the step.
    double end_seconds(std::uint8_t lead, int head_option) const {
        if (head_option < 0) {
            return table_.lead(lead);
        }
        const Option& option = head(head_option);
        return option.delta[lead] + table_.lead(option.next[lead]);
    }

    std::vector<Choice> realise(const std::vector<Mix>& mixes, double limit) const {
        std::vector<Choice> choices;
        for (const Mix& mix : mixes) {
            choices.push_back(fitted(mix, limit, Order::kInTurn));
            if (mix.a != mix.b) {
                choices.push_back(fitted(mix, limit, Order::kFirst));
                choices.push_back(fitted(mix, limit, Order::kLast));
            }
        }
        std::erase_if(choices, [](const Choice& choice) { return choice.empty(); });
        return choices;
    }

    Choice fitted(const Mix& mix, double limit, Order order) const {
        // Layers differ a little in weight, so that the number is adjusted until it fits.
        const int most = mix.a == mix.b ? mix.n : std::min(mix.n + 1, layout_.n_layers());
        for (int n = most; n >= 0; --n) {
            Choice choice(table_.n_groups(), 0);
            for (std::size_t layer = 0; layer < layout_.layers().size(); ++layer) {
                const bool first = is_first(order, static_cast<int>(layer), n, layout_.n_layers());
                const Kind& kind = kinds_[static_cast<std::size_t>(first ? mix.a : mix.b)];
                for (const std::size_t group : layout_.layers()[layer]) {
                    choice[group] = option_of(kind, group);
                }
            }
            for (const std::size_t group : layout_.heads()) {
                choice[group] = mix.head;
            }
            if (memory_of(table_, choice) <= limit) {
                return choice;
            }
            if (mix.a == mix.b) {
                break;
            }
        }
        return {};
    }

    const OptionTable& table_;
    Prices prices_;
    MixEffort effort_;
    Layout layout_;
    std::vector<std::vector<int>> chosen_;    // by class
    double most_memory_ = 0.0;                // of any kind
    std::vector<std::vector<Kind>> buckets_;  // by memory
    std::vector<Kind> kinds_;
    std::vector<int> options_;  // of the kinds, n_classes each
    std::vector<int> heads_;
};

LayerMixer::LayerMixer(const OptionTable& table, const Prices& prices, const MixEffort& effort)
    : kinds_(std::make_unique<Kinds>(table, prices, effort)) {}

LayerMixer::~LayerMixer() = default;

std::vector<Choice> LayerMixer::plans(double memory_limit,
                                      int n_mixes,
                                      const Prices& prices) const {
    return kinds_->plans(memory_limit, n_mixes, prices);
}

bool is_first(Order order, int layer, int n, int n_layers) {
    switch (order) {
        case Order::kFirst:
            return layer < n;
        case Order::kLast:
            return layer >= n_layers - n;
        case Order::kInTurn:
            return is_evenly_spaced(layer, n, n_layers);
    }
    return false;
}

double memory_of(const OptionTable& table, const Choice& choice) {
    double memory = 0.0;
    double piece = 0.0;
    for (std::size_t i = 0; i < choice.size(); ++i) {
        const Option& option = table.option(i, choice[i]);
        memory += option.memory;
        piece = std::max(piece, option.piece);
    }
    return memory + ring_bytes(piece);
}

}  // namespace ballast::scheduler
