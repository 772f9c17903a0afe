// SPDX-License-Identifier: MIT
// One counter for every endpoint and outcome, there from the start.
#include "server/metrics/request_metrics.h"

#include "server/metrics/families.h"

namespace ballast::metrics {

namespace {

constexpr const char* kEndpoints[] = {"chat_completions", "completions"};
constexpr const char* kOutcomes[] = {"stop", "length", "cancelled", "error", "invalid", "rejected"};

}  // namespace

RequestMetrics::RequestMetrics(Registry& registry) {
    auto& family = prometheus::BuildCounter()
                       .Name("ballast_requests_total")
                       .Help("Requests to generating endpoints by how they ended.")
                       .Register(registry.families());
    for (std::size_t e = 0; e < requests_.size(); ++e) {
        for (std::size_t o = 0; o < requests_[e].size(); ++o) {
            requests_[e][o] = &family.Add({{"endpoint", kEndpoints[e]}, {"outcome", kOutcomes[o]}});
        }
    }
}

void RequestMetrics::count(Endpoint endpoint, Outcome outcome) {
    requests_[static_cast<std::size_t>(endpoint)][static_cast<std::size_t>(outcome)]->Increment();
}

}  // namespace ballast::metrics
