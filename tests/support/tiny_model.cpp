// SPDX-License-Identifier: MIT
// Names, shapes and random values of a small model.
#include "tests/support/tiny_model.h"

#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/base/rng.h"

namespace ballast::test {

namespace {

/// Half-precision bits of a normal number.
std::uint16_t half_bits(float value) {
    int exponent = 0;
    const float fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
    const auto mantissa =
        static_cast<std::uint16_t>(std::lround((fraction * 2.0F - 1.0F) * 1023.0F));
    return static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | ((exponent + 14) << 10) |
                                      mantissa);
}

void append_half(std::string& out, float value) {
    const std::uint16_t bits = half_bits(value);
    out += static_cast<char>(bits & 0xFF);
    out += static_cast<char>(bits >> 8);
}

class ModelWriter {
  public:
    explicit ModelWriter(const TinyModelOptions& options)
        : o_(options), seed_(options.seed * 1000) {}

    GgufWriter write() {
        write_hyper_parameters();
        write_vocabulary();
        matrix("token_embd.weight", o_.width, kTinyVocabulary);
        norm("output_norm.weight", o_.width);
        for (std::uint32_t layer = 0; layer < o_.n_layers; ++layer) {
            write_layer(fmt::format("blk.{}.", layer));
        }
        return std::move(writer_);
    }

  private:
    void write_hyper_parameters() {
        const std::string a = o_.architecture + ".";
        writer_.add("general.architecture", o_.architecture)
            .add("general.name", "tiny")
            .add(a + "block_count", o_.n_layers)
            .add(a + "context_length", o_.context_length)
            .add(a + "embedding_length", o_.width)
            .add(a + "feed_forward_length", o_.ffn_width)
            .add(a + "attention.head_count", o_.n_heads)
            .add(a + "attention.head_count_kv", o_.n_kv_heads)
            .add(a + "attention.key_length", o_.head_dim)
            .add(a + "attention.value_length", o_.head_dim)
            .add(a + "attention.layer_norm_rms_epsilon", 1e-5F);
        if (o_.architecture == "gemma3") {
            writer_.add(a + "attention.sliding_window", 8U);
        }
        if (o_.n_experts > 0) {
            writer_.add(a + "expert_count", o_.n_experts)
                .add(a + "expert_used_count", o_.n_experts_used);
        }
    }

    void write_vocabulary() {
        std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
        std::vector<std::int32_t> types = {2, 3, 3};
        for (int byte = 0; byte < 256; ++byte) {
            tokens.push_back(fmt::format("<0x{:02X}>", byte));
            types.push_back(6);
        }
        tokens.emplace_back("\xE2\x96\x81");
        types.push_back(1);
        for (char letter = 'a'; letter <= 'z'; ++letter) {
            tokens.emplace_back(1, letter);
            types.push_back(1);
        }
        while (tokens.size() < kTinyVocabulary) {
            tokens.push_back(fmt::format("<unused{}>", tokens.size()));
            types.push_back(5);
        }
        std::vector<float> scores;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            scores.push_back(-static_cast<float>(i));
        }
        writer_.add("tokenizer.ggml.model", "llama")
            .add("tokenizer.ggml.tokens", tokens)
            .add("tokenizer.ggml.scores", scores)
            .add("tokenizer.ggml.token_type", types)
            .add("tokenizer.ggml.bos_token_id", 1U)
            .add("tokenizer.ggml.eos_token_id", 2U);
        if (!o_.chat_template.empty()) {
            writer_.add("tokenizer.chat_template", o_.chat_template);
        }
    }

    void write_layer(const std::string& layer) {
        const std::uint64_t heads = std::uint64_t{o_.n_heads} * o_.head_dim;
        const std::uint64_t kv_heads = std::uint64_t{o_.n_kv_heads} * o_.head_dim;
        norm(layer + "attn_norm.weight", o_.width);
        matrix(layer + "attn_q.weight", o_.width, heads);
        matrix(layer + "attn_k.weight", o_.width, kv_heads);
        matrix(layer + "attn_v.weight", o_.width, kv_heads);
        matrix(layer + "attn_output.weight", heads, o_.width);
        norm(layer + "ffn_norm.weight", o_.width);
        if (o_.architecture == "gemma3") {
            norm(layer + "attn_q_norm.weight", o_.head_dim);
            norm(layer + "attn_k_norm.weight", o_.head_dim);
            norm(layer + "post_attention_norm.weight", o_.width);
            norm(layer + "post_ffw_norm.weight", o_.width);
        }
        if (o_.n_experts == 0) {
            matrix(layer + "ffn_gate.weight", o_.width, o_.ffn_width);
            matrix(layer + "ffn_up.weight", o_.width, o_.ffn_width);
            matrix(layer + "ffn_down.weight", o_.ffn_width, o_.width);
            return;
        }
        const std::uint64_t n = o_.n_experts;
        writer_.tensor(layer + "ffn_gate_inp.weight",
                       quant::QuantType::kF32,
                       {o_.width, n},
                       random_weights(quant::QuantType::kF32, o_.width * n, o_.width, ++seed_));
        stack(layer + "ffn_gate_exps.weight", o_.width, o_.ffn_width);
        stack(layer + "ffn_up_exps.weight", o_.width, o_.ffn_width);
        stack(layer + "ffn_down_exps.weight", o_.ffn_width, o_.width);
    }

    void matrix(const std::string& name, std::uint64_t row, std::uint64_t n_rows) {
        writer_.tensor(
            name, o_.type, {row, n_rows}, random_weights(o_.type, row * n_rows, row, ++seed_));
    }
    void stack(const std::string& name, std::uint64_t row, std::uint64_t n_rows) {
        const std::uint64_t n = o_.n_experts;
        writer_.tensor(name,
                       o_.type,
                       {row, n_rows, n},
                       random_weights(o_.type, row * n_rows * n, row, ++seed_));
    }
    void norm(const std::string& name, std::uint64_t n) {
        Rng rng(++seed_);
        std::vector<float> values;
        for (std::uint64_t i = 0; i < n; ++i) {
            values.push_back(static_cast<float>(0.75 + 0.5 * rng.uniform()));
        }
        writer_.tensor_f32(name, {n}, values);
    }

    const TinyModelOptions& o_;
    std::uint64_t seed_;
    GgufWriter writer_;
};

}  // namespace

std::string random_weights(quant::QuantType type,
                           std::uint64_t n_elements,
                           std::uint64_t row,
                           std::uint64_t seed) {
    Rng rng(seed);
    const float spread = 2.0F / std::sqrt(static_cast<float>(row));
    std::string out;
    if (type == quant::QuantType::kF32) {
        for (std::uint64_t i = 0; i < n_elements; ++i) {
            out += le_bytes(spread * static_cast<float>(rng.uniform() * 2.0 - 1.0));
        }
        return out;
    }
    BALLAST_CHECK(n_elements % 32 == 0);
    const bool is_q4 = type == quant::QuantType::kQ4_1;
    BALLAST_CHECK(is_q4 || type == quant::QuantType::kQ8_0);
    for (std::uint64_t block = 0; block < n_elements / 32; ++block) {
        const float scale = spread * static_cast<float>(0.5 + rng.uniform());
        // Q4_1 is scale · [0, 15] + minimum, Q8_0 is scale · [−128, 127].
        append_half(out, is_q4 ? scale / 7.5F : scale / 127.0F);
        if (is_q4) {
            append_half(out, -scale);
        }
        for (int i = 0; i < (is_q4 ? 16 : 32); ++i) {
            out += static_cast<char>(rng.next() & 0xFF);
        }
    }
    return out;
}

GgufWriter tiny_model(const TinyModelOptions& options) {
    return ModelWriter(options).write();
}

}  // namespace ballast::test
