// SPDX-License-Identifier: MIT
// Header (magic, version, two counts), key-value section, tensor list, padding, data. A message
// names what is wrong and where; the version is looked at before anything else is believed.
#include "engine/gguf/parse.h"

#include <utility>

#include "engine/gguf/cursor.h"
#include "engine/gguf/metadata_parser.h"
#include "engine/gguf/tensor_index.h"

namespace ballast::gguf {

namespace {

constexpr std::uint64_t kHeaderBytes = 4 + 4 + 8 + 8;
constexpr std::string_view kMagic = "GGUF";

Status check_magic(Cursor& cursor) {
    const std::uint64_t file_bytes = cursor.left();
    const auto magic = cursor.take_bytes(kMagic.size());
    if (!magic || *magic != kMagic) {
        return cursor.corrupt("it is not a GGUF file (it does not start with \"GGUF\")");
    }
    if (file_bytes < kHeaderBytes) {
        return cursor.corrupt(fmt::format(
            "the file ends inside the header, at byte {} of {}", file_bytes, kHeaderBytes));
    }
    return {};
}

Status check_version(const Cursor& cursor, std::uint32_t version) {
    if (version == 2 || version == 3) {
        return {};
    }
    if (version == 1) {
        return cursor.unsupported(
            "it is GGUF version 1, which is no longer in use; convert the model again");
    }
    // A small number in the other byte order.
    if (version != 0 && (version & 0x00FFFFFFU) == 0) {
        return cursor.unsupported(
            "it is a big-endian GGUF file; convert the model for a little-endian machine");
    }
    return cursor.unsupported(
        fmt::format("it is GGUF version {}; versions 2 and 3 can be read", version));
}

// A key or tensor starts with the 8 bytes of its name's length, so a file has room for no more of
// them than that. The loops allocate as they read; this only makes the message say what is wrong.
Status check_counts(const Cursor& cursor, std::uint64_t n_tensors, std::uint64_t n_pairs) {
    const std::uint64_t possible = cursor.left() / sizeof(std::uint64_t);
    if (n_pairs > possible || n_tensors > possible) {
        return cursor.corrupt(
            fmt::format("the header claims {} keys and {} tensors but only {} bytes follow",
                        n_pairs,
                        n_tensors,
                        cursor.left()));
    }
    return {};
}

}  // namespace

std::string quoted(std::string_view name) {
    constexpr std::size_t kShownMax = 80;
    std::string text = "\"";
    for (const char c : name.substr(0, kShownMax)) {
        if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
            text += c;
        } else {
            text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
    return text + (name.size() > kShownMax ? "...\"" : "\"");
}

Result<Contents> parse(std::span<const std::byte> bytes, const std::string& path) {
    Cursor cursor(bytes, path);
    BALLAST_TRY_STATUS(check_magic(cursor));
    const std::uint32_t version = *cursor.take<std::uint32_t>();
    BALLAST_TRY_STATUS(check_version(cursor, version));
    const std::uint64_t n_tensors = *cursor.take<std::uint64_t>();
    const std::uint64_t n_pairs = *cursor.take<std::uint64_t>();
    BALLAST_TRY_STATUS(check_counts(cursor, n_tensors, n_pairs));
    BALLAST_TRY(MetadataSection section, parse_metadata(cursor, n_pairs));
    BALLAST_TRY(TensorIndex index, parse_tensors(cursor, n_tensors, section.alignment));
    return Contents{.version = version,
                    .metadata = std::move(section.metadata),
                    .tensors = std::move(index.tensors),
                    .by_name = std::move(index.by_name)};
}

}  // namespace ballast::gguf
