// SPDX-License-Identifier: MIT
// Prints how far the planner's plans for many seeded configurations are from their bounds, as
// tables: all of them, and the worst ones.
//
// Usage: plan_quality [COUNT] [FIRST SEED] [decode]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "tests/scheduler/placement/plan_quality.h"

namespace ballast::test {
namespace {

constexpr double kMilli = 1e3;
constexpr std::size_t kWorst = 20;

template <class IsIn>
void print_row(const char* name, const std::vector<PlanQuality>& all, const IsIn& is_in) {
    std::vector<double> gaps;
    std::vector<double> gains;
    std::vector<double> seconds;
    for (const PlanQuality& plan : all) {
        if (is_in(plan)) {
            gaps.push_back(plan.gap());
            gains.push_back(plan.best_policy / plan.value);
            seconds.push_back(plan.seconds);
        }
    }
    if (gaps.empty()) {
        return;
    }
    fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.1f} | {:.1f} |\n",
               name,
               gaps.size(),
               100 * quantile(gaps, 0.5),
               100 * quantile(gaps, 0.95),
               100 * quantile(gaps, 1.0),
               quantile(gains, 0.5),
               quantile(gains, 1.0),
               kMilli * quantile(seconds, 0.5),
               kMilli * quantile(seconds, 1.0));
}

int run(int count, std::uint64_t first, bool decode_only) {
    std::vector<PlanQuality> all;
    std::size_t faults = 0;
    for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
        const Instance instance = draw_instance(seed);
        all.push_back(plan_quality(
            instance, decode_only ? decode_request_of(instance) : request_of(instance)));
        for (const std::string& fault : all.back().faults) {
            fmt::print("{}: {}\n", instance.name, fault);
            ++faults;
        }
    }
    fmt::print(
        "| configurations | number | gap %, median | p95 | most | best policy / plan, median "
        "| most | planning ms, median | most |\n|---|---|---|---|---|---|---|---|---|\n");
    print_row("all", all, [](const PlanQuality&) { return true; });
    print_row("dense", all, [](const PlanQuality& p) { return !p.experts; });
    print_row("experts", all, [](const PlanQuality& p) { return p.experts; });
    print_row("own memory", all, [](const PlanQuality& p) { return !p.unified; });
    print_row("unified memory", all, [](const PlanQuality& p) { return p.unified; });

    std::sort(all.begin(), all.end(), [](const PlanQuality& a, const PlanQuality& b) {
        return a.gap() > b.gap();
    });
    fmt::print(
        "\n| gap % | decode ms | bound | prefill ms | bound | configuration |\n"
        "|---|---|---|---|---|---|\n");
    for (std::size_t i = 0; i < std::min(kWorst, all.size()); ++i) {
        const PlanQuality& plan = all[i];
        fmt::print("| {:.1f} | {:.2f} | {:.2f} | {:.1f} | {:.1f} | {} |\n",
                   100 * plan.gap(),
                   kMilli * plan.decode,
                   kMilli * plan.decode_bound,
                   kMilli * plan.prefill,
                   kMilli * plan.prefill_bound,
                   plan.name);
    }
    fmt::print("\n{} broken promises.\n", faults);
    return faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ballast::test

int main(int argc, char** argv) {
    const bool decode_only = argc > 1 && std::strcmp(argv[argc - 1], "decode") == 0;
    const int n_numbers = argc - 1 - (decode_only ? 1 : 0);
    const int count = n_numbers > 0 ? std::atoi(argv[1]) : 500;
    const std::uint64_t first = n_numbers > 1 ? std::strtoull(argv[2], nullptr, 10) : 0;
    if (count < 1) {
        fmt::print(stderr, "usage: plan_quality [COUNT] [FIRST SEED] [decode]\n");
        return 2;
    }
    return ballast::test::run(count, first, decode_only);
}
