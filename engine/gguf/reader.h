// SPDX-License-Identifier: MIT
// Reads a GGUF file: maps it, checks every offset, size and count once, and lists metadata and
// tensors. After open() returned a Reader, access cannot fail. The file is untrusted input.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/mapped_file.h"
#include "engine/base/result.h"
#include "engine/gguf/metadata.h"
#include "engine/quant/type_traits.h"

namespace ballast::gguf {

/// One tensor as the file lists it. `shape` has GGUF's order: shape[0] is the row length, the
/// fastest-varying dimension; missing dimensions are 1.
struct TensorInfo {
    std::string name;
    quant::QuantType type = quant::QuantType::kF32;
    std::uint64_t shape[4] = {1, 1, 1, 1};
    std::uint32_t n_dims = 1;
    std::uint64_t size_bytes = 0;
    const std::byte* data = nullptr;  // inside the mapping

    std::uint64_t n_elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

/// An open, validated file. Immutable; shared by all threads; owns the mapping.
class Reader {
  public:
    /// Errors: kNotFound, kIo, kCorruptFile, kUnsupported; one sentence naming the path and the
    /// key, tensor or byte offset at fault.
    static Result<std::unique_ptr<Reader>> open(const std::string& path);

    std::uint32_t version() const { return version_; }
    const Metadata& metadata() const { return metadata_; }
    std::span<const TensorInfo> tensors() const { return tensors_; }
    /// Null if there is no tensor of that name.
    const TensorInfo* find_tensor(std::string_view name) const;
    const MappedFile& file() const { return *file_; }

  private:
    Reader() = default;
    std::unique_ptr<MappedFile> file_;
    std::uint32_t version_ = 3;
    Metadata metadata_;
    std::vector<TensorInfo> tensors_;     // in file order
    std::vector<std::uint32_t> by_name_;  // indices into tensors_, sorted by name
};

}  // namespace ballast::gguf
