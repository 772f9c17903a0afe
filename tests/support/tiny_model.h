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
    /// 0: every token asks for other experts. Else see topic_of_token(): a run of tokens of one
    /// topic makes a run of the experts hot. Divides n_experts.
    std::uint32_t n_topics = 0;
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

// With topics, every token has one and in every layer every expert has one, which it likes: the
// embedding says the topic in a dimension of its own, far louder than all else, and the router
// listens to it. So the text decides which experts are hot, and a text that changes its topic moves
// them. The head is the embedding table, so that what is generated keeps to the topic of the
// prompt.

/// Consecutive tokens, equally many of each topic. Of four topics, capital letters and digits (byte
/// tokens) are of topic 0, small letters of topic 3.
std::uint32_t topic_of_token(const TinyModelOptions& options, std::int32_t token);
/// Consecutive experts, equally many of each topic; from layer to layer the borders move by half a
/// topic, so that layers have different hot experts.
std::uint32_t topic_of_expert(const TinyModelOptions& options, int layer, int expert);

/// A model whose hot experts move: 64 experts of which 4 are used, four topics.
inline TinyModelOptions hot_expert_options() {
    return {.n_layers = 4, .n_experts = 64, .n_experts_used = 4, .n_topics = 4};
}

/// The writer before it writes, so that a test can break something.
GgufWriter tiny_model(const TinyModelOptions& options);

/// A matrix of random weights about 1/sqrt(row length) in the type's blocks.
std::string random_weights(quant::QuantType type,
                           std::uint64_t n_elements,
                           std::uint64_t row,
                           std::uint64_t seed);

}  // namespace ballast::test
