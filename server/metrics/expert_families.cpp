// SPDX-License-Identifier: MIT
// Three shares and five sums.
#include "server/metrics/expert_families.h"

namespace ballast::metrics {

ExpertFamilies::ExpertFamilies(prometheus::Registry& registry)
    : share_(prometheus::BuildGauge()
                 .Name("ballast_expert_share")
                 .Help("Share of recent uses of experts that the hottest percent of each layer's "
                       "take; of layers whose experts are not all on the device.")
                 .Register(registry)),
      hit_ratio_(prometheus::BuildGauge()
                     .Name("ballast_expert_hit_ratio")
                     .Help("Share of those recent uses whose expert was in a slot of the device.")
                     .Register(registry)),
      hits_(prometheus::BuildCounter()
                .Name("ballast_expert_hits_total")
                .Help("Uses of experts that were in a slot of the device.")
                .Register(registry)),
      misses_(prometheus::BuildCounter()
                  .Name("ballast_expert_misses_total")
                  .Help("Uses of experts that were in none.")
                  .Register(registry)),
      moves_(prometheus::BuildCounter()
                 .Name("ballast_expert_moves_total")
                 .Help("Experts copied into a slot in place of another.")
                 .Register(registry)),
      moved_(prometheus::BuildCounter()
                 .Name("ballast_expert_moved_bytes_total")
                 .Help("Bytes of those copies.")
                 .Register(registry)) {}

void ExpertFamilies::update(const runtime::ExpertReport& report) {
    if (!report.has_experts) {
        return;
    }
    share_.Add({{"hottest", "10"}}).Set(report.summary.hottest_10);
    share_.Add({{"hottest", "25"}}).Set(report.summary.hottest_25);
    share_.Add({{"hottest", "50"}}).Set(report.summary.hottest_50);
    hit_ratio_.Add({}).Set(report.summary.hit_rate);
    raise(hits_.Add({}), static_cast<double>(report.hits));
    raise(misses_.Add({}), static_cast<double>(report.misses));
    raise(moves_.Add({}), static_cast<double>(report.n_moves));
    raise(moved_.Add({}), static_cast<double>(report.moved_bytes));
}

}  // namespace ballast::metrics
