// SPDX-License-Identifier: MIT
// The GGUF parser on any bytes. Whatever it accepts must be usable without a further check: each
// string is read to its end, each tensor at its first and last byte.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/check.h"
#include "engine/gguf/parse.h"

namespace {

using ballast::gguf::Contents;
using ballast::gguf::Metadata;
using ballast::gguf::TensorInfo;

// Keeps the compiler from dropping the reads.
volatile unsigned sink = 0;

void touch(std::string_view text) {
    unsigned sum = 0;
    for (const char c : text) {
        sum += static_cast<unsigned char>(c);
    }
    sink = sink + sum;
}

void use_metadata(const Metadata& metadata) {
    for (const auto& [key, value] : metadata.pairs()) {
        touch(key);
        if (const auto* text = std::get_if<std::string_view>(&value); text != nullptr) {
            touch(*text);
        }
        if (const auto strings = metadata.strings(key)) {
            for (const std::string_view text : *strings) {
                touch(text);
            }
        }
        // Each access gives a value or names the key; none may do anything else.
        const auto u32 = metadata.u32(key);
        BALLAST_CHECK(u32 || u32.error().message.find(key) != std::string::npos);
        const auto f32 = metadata.f32(key);
        BALLAST_CHECK(f32 || f32.error().message.find(key) != std::string::npos);
        const auto integers = metadata.integers_or_empty(key);
        BALLAST_CHECK(integers || integers.error().message.find(key) != std::string::npos);
        const auto floats = metadata.floats(key);
        BALLAST_CHECK(floats || floats.error().message.find(key) != std::string::npos);
    }
}

void use_tensors(const Contents& contents, std::span<const std::byte> file) {
    BALLAST_CHECK(contents.by_name.size() == contents.tensors.size());
    for (const TensorInfo& tensor : contents.tensors) {
        const auto& type = ballast::quant::traits(tensor.type);
        BALLAST_CHECK(tensor.n_dims >= 1 && tensor.n_dims <= 4);
        BALLAST_CHECK(tensor.shape[0] % type.block_elements == 0);
        BALLAST_CHECK(tensor.size_bytes ==
                      tensor.n_elements() / type.block_elements * type.block_bytes);
        BALLAST_CHECK(tensor.size_bytes > 0 && tensor.size_bytes <= file.size());
        BALLAST_CHECK(tensor.data >= file.data() &&
                      tensor.data <= file.data() + (file.size() - tensor.size_bytes));
        sink = sink + static_cast<unsigned>(tensor.data[0]) +
               static_cast<unsigned>(tensor.data[tensor.size_bytes - 1]);
    }
    for (std::size_t i = 1; i < contents.by_name.size(); ++i) {
        BALLAST_CHECK(contents.tensors[contents.by_name[i - 1]].name <
                      contents.tensors[contents.by_name[i]].name);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto file = std::as_bytes(std::span(data, size));
    const auto contents = ballast::gguf::parse(file, "fuzz.gguf");
    if (!contents) {
        const std::string& message = contents.error().message;
        BALLAST_CHECK(message.starts_with("cannot load fuzz.gguf: "));
        BALLAST_CHECK(message.find('\n') == std::string::npos);
        return 0;
    }
    use_metadata(contents->metadata);
    use_tensors(*contents, file);
    return 0;
}
