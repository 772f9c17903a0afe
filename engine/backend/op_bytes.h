// SPDX-License-Identifier: MIT
// The very bytes that ops read and write in one step: rows of slots, weights, cosines and sines,
// and the keys and values of the positions they look at. For those that watch what may touch what.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/backend/op.h"
#include "engine/backend/step_context.h"

namespace ballast::backend {

/// n_rows pieces of row_bytes each, one every `stride` bytes.
struct ByteRows {
    const std::byte* data = nullptr;
    std::size_t row_bytes = 0;
    std::size_t n_rows = 1;
    std::size_t stride = 0;

    bool empty() const { return row_bytes == 0 || n_rows == 0; }
    bool contiguous() const { return n_rows <= 1 || stride == row_bytes; }
    /// From the first byte to the last.
    std::size_t extent() const { return empty() ? 0 : (n_rows - 1) * stride + row_bytes; }
};

/// One use of such bytes.
struct Touch {
    ByteRows bytes = {};
    bool writes = false;
};

/// Appends what the op touches. Of stacked experts all that are here count, for which of them the
/// rows use is known to the device alone; a slice that holds none is not touched. What a device
/// keeps to itself, like the router's choice, is not seen.
void append_touches(const OpRecord& record, const StepContext& context, std::vector<Touch>& to);

/// For people: "Linear".
const char* name_of(const Op& op);

}  // namespace ballast::backend
