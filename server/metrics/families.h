// SPDX-License-Identifier: MIT
// Short forms for adding families, and the bucket edges. Private to this folder.
#pragma once

#include <chrono>
#include <string>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "engine/base/clock.h"

namespace ballast::metrics {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

inline Counter& add_counter(prometheus::Registry& registry,
                            const std::string& name,
                            const std::string& help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

inline Gauge& add_gauge(prometheus::Registry& registry,
                        const std::string& name,
                        const std::string& help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

inline Histogram& add_histogram(prometheus::Registry& registry,
                                const std::string& name,
                                const std::string& help,
                                const Histogram::BucketBoundaries& edges) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, edges);
}

/// Brings a counter up to a total that somebody else keeps.
inline void raise(Counter& counter, double to) {
    counter.Increment(to - counter.Value());
}

// A local machine is slower than a data centre at the top and faster at the bottom.
inline Histogram::BucketBoundaries first_token_edges() {
    return {.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320};
}
inline Histogram::BucketBoundaries inter_token_edges() {
    return {.002, .005, .01, .02, .03, .05, .075, .1, .15, .25, .5, 1, 2.5};
}
inline Histogram::BucketBoundaries queue_edges() {
    return {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160};
}
inline Histogram::BucketBoundaries request_edges() {
    return {.1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640};
}
inline Histogram::BucketBoundaries step_edges() {
    return {.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2.5, 5, 10};
}
inline Histogram::BucketBoundaries token_count_edges() {
    Histogram::BucketBoundaries edges;
    for (int power = 0; power <= 17; ++power) {
        edges.push_back(1 << power);
    }
    return edges;
}

}  // namespace ballast::metrics
