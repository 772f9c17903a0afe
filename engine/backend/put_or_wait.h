// SPDX-License-Identifier: MIT
// How work is put on a queue that may be full.
#pragma once

#include <optional>
#include <utility>

#include "engine/backend/backend.h"
#include "engine/base/result.h"

namespace ballast::backend {

/// Puts work; where the queue is full, waits for `last`, the last work put on it before, and puts
/// it again. `last` is the new one then. Errors of put() and wait(event).
template <class Put, class Wait>
Status put_or_wait(std::optional<Event>& last, const Put& put, const Wait& wait) {
    auto event = put();
    if (!event && event.error().code == ErrorCode::kOverloaded && last) {
        BALLAST_TRY_STATUS(wait(*last));
        event = put();
    }
    BALLAST_TRY(last, std::move(event));
    return {};
}

template <class Put>
Status put_or_wait(Backend& backend, std::optional<Event>& last, const Put& put) {
    return put_or_wait(last, put, [&](Event event) { return backend.wait(event); });
}

}  // namespace ballast::backend
