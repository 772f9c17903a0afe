// SPDX-License-Identifier: MIT
// Labels are route patterns and status codes, so their number is bounded.
#include "server/metrics/http_metrics.h"

#include <string>

#include "server/metrics/families.h"

namespace ballast::metrics {

struct HttpMetrics::Families {
    prometheus::Family<Counter>* replies = nullptr;
    prometheus::Family<Histogram>* durations = nullptr;
    Gauge* connections = nullptr;
};

HttpMetrics::HttpMetrics(Registry& registry) : families_(std::make_unique<Families>()) {
    families_->replies = &prometheus::BuildCounter()
                              .Name("ballast_http_requests_total")
                              .Help("HTTP replies by route and status code.")
                              .Register(registry.families());
    families_->durations = &prometheus::BuildHistogram()
                                .Name("ballast_http_request_duration_seconds")
                                .Help("Time from a request's first byte to its reply's last.")
                                .Register(registry.families());
    families_->connections =
        &add_gauge(registry.families(), "ballast_http_connections", "Open client connections.");
    for (const char* endpoint : {"/v1/chat/completions", "/v1/completions", "/v1/models"}) {
        families_->durations->Add({{"endpoint", endpoint}}, request_edges());
        for (const char* code : {"200", "400", "429", "500", "503"}) {
            families_->replies->Add({{"endpoint", endpoint}, {"code", code}});
        }
    }
}

HttpMetrics::~HttpMetrics() = default;

void HttpMetrics::on_reply(std::string_view endpoint, int status, Nanoseconds duration) {
    const std::string name(endpoint);
    families_->replies->Add({{"endpoint", name}, {"code", std::to_string(status)}}).Increment();
    families_->durations->Add({{"endpoint", name}}, request_edges()).Observe(to_seconds(duration));
}

void HttpMetrics::on_connections(int n_open) {
    families_->connections->Set(n_open);
}

}  // namespace ballast::metrics
