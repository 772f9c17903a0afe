// SPDX-License-Identifier: MIT
// Reads the tensor list and checks each tensor against the file: name, shape, type, place.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/result.h"
#include "engine/gguf/cursor.h"
#include "engine/gguf/reader.h"

namespace ballast::gguf {

constexpr std::uint64_t kTensorNameBytesMax = 64;

struct TensorIndex {
    std::vector<TensorInfo> tensors;     // in file order
    std::vector<std::uint32_t> by_name;  // indices into tensors, sorted by name
};

/// Reads n_tensors entries from the cursor, which then stands at the end of the list. The data
/// starts at the next multiple of the alignment.
Result<TensorIndex> parse_tensors(Cursor& cursor, std::uint64_t n_tensors, std::uint64_t alignment);

}  // namespace ballast::gguf
