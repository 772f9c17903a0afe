// SPDX-License-Identifier: MIT
// How the CPU backend's ops share their work among the threads; included by its sources only.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/backend/cpu_backend.h"

namespace ballast::backend {

/// A count or number that is known not to be negative, as an index.
constexpr std::size_t index_of(std::int64_t value) {
    return static_cast<std::size_t>(value);
}

template <class Body>
void CpuBackend::for_each(int n, std::size_t cost, const Body& body) {
    // Waking the others costs about as much as touching this many elements.
    constexpr std::size_t kWorthSharing = 16384;
    const int n_threads = pool_.size();
    if (n_threads == 1 || n == 1 || index_of(n) * cost < kWorthSharing) {
        for (int i = 0; i < n; ++i) {
            body(i);
        }
        return;
    }
    pool_.run([&](int thread) {
        const int begin = static_cast<int>(static_cast<std::int64_t>(n) * thread / n_threads);
        const int end = static_cast<int>(static_cast<std::int64_t>(n) * (thread + 1) / n_threads);
        for (int i = begin; i < end; ++i) {
            body(i);
        }
    });
}

template <class Body>
void CpuBackend::share_items(int n, const Body& body) {
    if (pool_.size() == 1 || n == 1) {
        for (int item = 0; item < n; ++item) {
            body(item, 0);
        }
        return;
    }
    next_item_.store(0, std::memory_order_relaxed);
    pool_.run([&](int thread) {
        while (true) {
            const int item = next_item_.fetch_add(1, std::memory_order_relaxed);
            if (item >= n) {
                return;
            }
            body(item, thread);
        }
    });
}

}  // namespace ballast::backend
