// SPDX-License-Identifier: MIT
// Writes a whole small model with seeded random weights: enough of a model to run everything on,
// in milliseconds. Its text is noise.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "engine/quant/type_traits.h"
#include "tests/support/gguf_writer.h"

namespace ballast::test {

struct TinyModelOptions {
    std::string architecture = "llama";  // or "gemma3"
    std::uint64_t seed = 1;
    std::uint32_t n_layers = 2;
    std::uint32_t width = 64;
    std::uint32_t n_heads = 4;
    std::uint32_t n_kv_heads = 2;
    std::uint32_t head_dim = 16;
    std::uint32_t ffn_width = 96;
    std::uint32_t context_length = 256;
    std::uint32_t n_experts = 0;  // llama only
    std::uint32_t n_experts_used = 2;
    /// Type of the matrices: kF32, kQ4_1 or kQ8_0 (widths must be multiples of 32 then).
    quant::QuantType type = quant::QuantType::kF32;
    std::string chat_template = {};
};

/// For test names: "llama_Q8_0_experts".
inline void PrintTo(const TinyModelOptions& options, std::ostream* out) {
    *out << options.architecture << '_' << quant::traits(options.type).name
         << (options.n_experts > 0 ? "_experts" : "");
}

/// A SentencePiece vocabulary of the byte tokens and the letters.
constexpr std::uint32_t kTinyVocabulary = 288;

/// The writer before it writes, so that a test can break something.
GgufWriter tiny_model(const TinyModelOptions& options);

/// A matrix of random weights about 1/sqrt(row length) in the type's blocks.
std::string random_weights(quant::QuantType type,
                           std::uint64_t n_elements,
                           std::uint64_t row,
                           std::uint64_t seed);

}  // namespace ballast::test
