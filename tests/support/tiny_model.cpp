// SPDX-License-Identifier: MIT
// Names, shapes and random values of a small model.
#include "tests/support/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/base/rng.h"

namespace ballast::test {

namespace {

// Random elements of the table are at most 0.25 at the usual width, and what the layers add to the
// residual is about 1 an element in all; they add nothing to the topic.
constexpr float kTopicInEmbedding = 4.0F;
// Attention does not hear it, or all tokens of a text would look the same to the layers; experts
// hear it no louder than the other dimensions, and the router makes up for that.
constexpr float kTopicInFeedForward = 0.25F;
// Logits of random rows differ by about 1, and the normalised topic is 2 or more, so that the
// topic's experts are ahead by 4 at least.
constexpr float kTopicInRouter = 8.0F;

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
        write_embedding();
        norm("output_norm.weight", o_.width);
        for (std::uint32_t layer = 0; layer < o_.n_layers; ++layer) {
            write_layer(layer);
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

    std::vector<float> random_floats(std::uint64_t row, std::uint64_t n_rows) {
        const std::string bytes =
            random_weights(quant::QuantType::kF32, row * n_rows, row, ++seed_);
        std::vector<float> values(row * n_rows);
        std::memcpy(values.data(), bytes.data(), bytes.size());
        return values;
    }

    void write_embedding() {
        if (o_.n_topics == 0) {
            matrix("token_embd.weight", o_.width, kTinyVocabulary);
            return;
        }
        BALLAST_CHECK(o_.n_experts % o_.n_topics == 0 && o_.n_topics <= o_.width);
        std::vector<float> table = random_floats(o_.width, kTinyVocabulary);
        for (std::uint32_t token = 0; token < kTinyVocabulary; ++token) {
            const std::uint32_t topic = topic_of_token(o_, static_cast<std::int32_t>(token));
            for (std::uint32_t i = 0; i < o_.n_topics; ++i) {
                table[std::size_t{token} * o_.width + i] = i == topic ? kTopicInEmbedding : 0.0F;
            }
        }
        writer_.tensor_f32("token_embd.weight", {o_.width, kTinyVocabulary}, table);
    }

    void write_router(std::uint32_t layer) {
        std::vector<float> router = random_floats(o_.width, o_.n_experts);
        for (std::uint32_t expert = 0; expert < o_.n_experts && o_.n_topics > 0; ++expert) {
            const std::uint32_t topic =
                topic_of_expert(o_, static_cast<int>(layer), static_cast<int>(expert));
            for (std::uint32_t i = 0; i < o_.n_topics; ++i) {
                router[std::size_t{expert} * o_.width + i] = i == topic ? kTopicInRouter : 0.0F;
            }
        }
        writer_.tensor_f32(
            fmt::format("blk.{}.ffn_gate_inp.weight", layer), {o_.width, o_.n_experts}, router);
    }

    void write_layer(std::uint32_t number) {
        const std::string layer = fmt::format("blk.{}.", number);
        const std::uint64_t heads = std::uint64_t{o_.n_heads} * o_.head_dim;
        const std::uint64_t kv_heads = std::uint64_t{o_.n_kv_heads} * o_.head_dim;
        norm(layer + "attn_norm.weight", o_.width, 0.0F);
        matrix(layer + "attn_q.weight", o_.width, heads);
        matrix(layer + "attn_k.weight", o_.width, kv_heads);
        matrix(layer + "attn_v.weight", o_.width, kv_heads);
        writes_no_topics(layer + "attn_output.weight", heads, 1);
        norm(layer + "ffn_norm.weight", o_.width, kTopicInFeedForward);
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
        write_router(number);
        stack(layer + "ffn_gate_exps.weight", o_.width, o_.ffn_width);
        stack(layer + "ffn_up_exps.weight", o_.width, o_.ffn_width);
        writes_no_topics(layer + "ffn_down_exps.weight", o_.ffn_width, o_.n_experts);
    }

    void matrix(const std::string& name, std::uint64_t row, std::uint64_t n_rows) {
        writer_.tensor(
            name, o_.type, {row, n_rows}, random_weights(o_.type, row * n_rows, row, ++seed_));
    }
    /// Matrices that write to the residual; the topics' rows of each are 0.
    void writes_no_topics(const std::string& name, std::uint64_t row, std::uint64_t n_matrices) {
        std::string bytes = random_weights(o_.type, row * o_.width * n_matrices, row, ++seed_);
        const std::size_t row_bytes = bytes.size() / (o_.width * n_matrices);
        for (std::uint64_t i = 0; i < n_matrices; ++i) {
            // In blocks of every type, zeros are a scale of 0.
            std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(i * o_.width * row_bytes),
                        o_.n_topics * row_bytes,
                        '\0');
        }
        std::vector<std::uint64_t> shape = {row, o_.width};
        if (n_matrices > 1) {
            shape.push_back(n_matrices);
        }
        writer_.tensor(name, o_.type, shape, bytes);
    }
    void stack(const std::string& name, std::uint64_t row, std::uint64_t n_rows) {
        const std::uint64_t n = o_.n_experts;
        writer_.tensor(name,
                       o_.type,
                       {row, n_rows, n},
                       random_weights(o_.type, row * n_rows * n, row, ++seed_));
    }
    /// Topics have their own weight where it is given.
    void norm(const std::string& name, std::uint64_t n, std::optional<float> topic = {}) {
        Rng rng(++seed_);
        std::vector<float> values;
        for (std::uint64_t i = 0; i < n; ++i) {
            values.push_back(static_cast<float>(0.75 + 0.5 * rng.uniform()));
        }
        if (topic) {
            std::fill_n(values.begin(), o_.n_topics, *topic);
        }
        writer_.tensor_f32(name, {n}, values);
    }

    const TinyModelOptions& o_;
    std::uint64_t seed_;
    GgufWriter writer_;
};

}  // namespace

std::uint32_t topic_of_token(const TinyModelOptions& options, std::int32_t token) {
    return static_cast<std::uint32_t>(token) * options.n_topics / kTinyVocabulary;
}

std::uint32_t topic_of_expert(const TinyModelOptions& options, int layer, int expert) {
    const std::uint32_t n = options.n_experts;
    const std::uint32_t moved = n / (2 * options.n_topics) * static_cast<std::uint32_t>(layer);
    return (static_cast<std::uint32_t>(expert) + moved) % n * options.n_topics / n;
}

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
