// SPDX-License-Identifier: MIT
// Parses and checks the bytes of a GGUF file wherever they are: the reader gives it a mapping, the
// fuzzer an array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/gguf/metadata.h"
#include "engine/gguf/reader.h"

namespace ballast::gguf {

/// What a file says. Views and pointers point into the bytes that were parsed.
struct Contents {
    std::uint32_t version = 3;
    Metadata metadata;
    std::vector<TensorInfo> tensors;     // in file order
    std::vector<std::uint32_t> by_name;  // indices into tensors, sorted by name
};

/// `path` is for messages. Errors: kCorruptFile, kUnsupported.
Result<Contents> parse(std::span<const std::byte> bytes, const std::string& path);

}  // namespace ballast::gguf
