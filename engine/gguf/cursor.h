// SPDX-License-Identifier: MIT
// A position in the bytes of a file that cannot leave them, and the memory that what is read may
// take. Both the length of every read and the size of every allocation are checked here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "engine/base/result.h"
#include "engine/base/units.h"

namespace ballast::gguf {

/// Real files need some 20 MiB for their vocabulary. Without a limit a large file of small values
/// could ask for several times its own size.
constexpr std::uint64_t kParseMemoryBytesMax = 256 * kMiB;

/// A name from the file as an error message may show it: quoted, cut, and without control
/// characters, since the message goes to terminals and logs.
std::string quoted(std::string_view name);

/// Reads little-endian values one after the other. Lives as long as one parse.
class Cursor {
  public:
    Cursor(std::span<const std::byte> bytes, const std::string& path)
        : bytes_(bytes), path_(&path) {}

    std::uint64_t offset() const { return offset_; }
    std::uint64_t left() const { return bytes_.size() - offset_; }
    std::span<const std::byte> bytes() const { return bytes_; }

    /// The next value, or nothing if the file ends before it. Each byte is read once, so a file
    /// that is changed meanwhile cannot pass a check with one value and be used with another.
    template <class T>
    std::optional<T> take() {
        if (left() < sizeof(T)) {
            return std::nullopt;
        }
        T value;
        std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
        offset_ += sizeof(T);
        return value;
    }

    /// The next n bytes, or nothing if the file ends before that.
    std::optional<std::string_view> take_bytes(std::uint64_t n) {
        if (left() < n) {
            return std::nullopt;
        }
        const std::string_view view(reinterpret_cast<const char*>(bytes_.data() + offset_),
                                    static_cast<std::size_t>(n));
        offset_ += n;
        return view;
    }

    /// A string: a 64-bit length and that many bytes. `what` names it in the error.
    Result<std::string_view> take_string(std::string_view what) {
        const std::uint64_t start = offset_;
        const auto length = take<std::uint64_t>();
        if (!length) {
            return ends_inside(what, start);
        }
        const auto text = take_bytes(*length);
        if (!text) {
            return corrupt(fmt::format("{} at byte {} claims {} bytes but the file has {} left",
                                       what,
                                       start,
                                       *length,
                                       left()));
        }
        return *text;
    }

    /// Counts memory that is about to be taken for something of the file.
    Status charge(std::uint64_t bytes, std::string_view what) {
        if (bytes > memory_left_) {
            return fail(ErrorCode::kUnsupported,
                        fmt::format("cannot load {}: {} would take the memory for metadata and the "
                                    "tensor list over {} MiB",
                                    *path_,
                                    what,
                                    kParseMemoryBytesMax / kMiB));
        }
        memory_left_ -= bytes;
        return {};
    }

    // Errors that name the path.
    tl::unexpected<Error> corrupt(std::string_view what) const {
        return fail(ErrorCode::kCorruptFile, fmt::format("cannot load {}: {}", *path_, what));
    }
    tl::unexpected<Error> unsupported(std::string_view what) const {
        return fail(ErrorCode::kUnsupported, fmt::format("cannot load {}: {}", *path_, what));
    }
    tl::unexpected<Error> ends_inside(std::string_view what, std::uint64_t start) const {
        return corrupt(fmt::format("the file ends inside {} at byte {}", what, start));
    }

  private:
    std::span<const std::byte> bytes_;
    const std::string* path_;
    std::uint64_t offset_ = 0;
    std::uint64_t memory_left_ = kParseMemoryBytesMax;
};

}  // namespace ballast::gguf
