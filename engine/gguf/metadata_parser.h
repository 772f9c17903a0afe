// SPDX-License-Identifier: MIT
// Reads the key-value section.
#pragma once

#include <cstdint>

#include "engine/base/result.h"
#include "engine/gguf/cursor.h"
#include "engine/gguf/metadata.h"

namespace ballast::gguf {

constexpr std::uint64_t kKeyBytesMax = 65535;
constexpr std::uint64_t kAlignmentDefault = 32;

struct MetadataSection {
    Metadata metadata;
    std::uint64_t alignment = kAlignmentDefault;  // of tensor data: general.alignment
};

/// Reads n_pairs pairs from the cursor.
Result<MetadataSection> parse_metadata(Cursor& cursor, std::uint64_t n_pairs);

}  // namespace ballast::gguf
