// SPDX-License-Identifier: MIT
// Reads and checks hyper-parameters. Every number is bounded here, so that no later arithmetic can
// overflow or divide by zero.
#include "engine/model/model_config.h"

#include <cmath>

#include <fmt/format.h>

#include "engine/base/units.h"

namespace ballast::model {

namespace {

// Far above any published model, far below what could overflow a product of two of them.
constexpr std::uint32_t kLayersMax = 1024;
constexpr std::uint32_t kDimensionMax = 1U << 20;
constexpr std::uint32_t kHeadsMax = 4096;
// The attention kernel keeps a head's accumulators on its stack.
constexpr std::uint32_t kHeadDimMax = 256;
constexpr std::uint32_t kVocabularyMax = 1U << 22;
constexpr std::uint32_t kExpertsMax = 1024;

/// Reads the keys of one architecture.
class ConfigReader {
  public:
    ConfigReader(const gguf::Metadata& metadata, std::string architecture)
        : metadata_(metadata), architecture_(std::move(architecture)) {}

    std::string key(std::string_view name) const {
        return fmt::format("{}.{}", architecture_, name);
    }

    /// A number in [1, max].
    Result<int> count(std::string_view name, std::uint32_t max) const {
        BALLAST_TRY(const std::uint32_t value, metadata_.u32(key(name)));
        return in_range(name, value, max);
    }
    Result<int> count_or(std::string_view name, std::uint32_t fallback, std::uint32_t max) const {
        BALLAST_TRY(const std::uint32_t value, metadata_.u32_or(key(name), fallback));
        return in_range(name, value, max);
    }
    /// A finite number above zero.
    Result<float> positive(std::string_view name, float value) const {
        if (!std::isfinite(value) || value <= 0.0F) {
            return fail(
                ErrorCode::kCorruptFile,
                fmt::format("key {} is {}, but must be a number above 0", key(name), value));
        }
        return value;
    }
    Result<float> positive(std::string_view name) const {
        BALLAST_TRY(const float value, metadata_.f32(key(name)));
        return positive(name, value);
    }
    Result<float> positive_or(std::string_view name, float fallback) const {
        BALLAST_TRY(const float value, metadata_.f32_or(key(name), fallback));
        return positive(name, value);
    }
    const gguf::Metadata& metadata() const { return metadata_; }

  private:
    Result<int> in_range(std::string_view name, std::uint32_t value, std::uint32_t max) const {
        if (value == 0 || value > max) {
            return fail(
                ErrorCode::kCorruptFile,
                fmt::format("key {} is {}, but must be between 1 and {}", key(name), value, max));
        }
        return static_cast<int>(value);
    }

    const gguf::Metadata& metadata_;
    std::string architecture_;
};

Status read_heads(const ConfigReader& reader, ModelConfig& config) {
    BALLAST_TRY(config.n_heads, reader.count("attention.head_count", kHeadsMax));
    BALLAST_TRY(
        config.n_kv_heads,
        reader.count_or(
            "attention.head_count_kv", static_cast<std::uint32_t>(config.n_heads), kHeadsMax));
    if (config.n_heads % config.n_kv_heads != 0) {
        return fail(ErrorCode::kCorruptFile,
                    fmt::format("key {} is {}, which does not divide the {} heads",
                                reader.key("attention.head_count_kv"),
                                config.n_kv_heads,
                                config.n_heads));
    }
    if (reader.metadata().find(reader.key("attention.key_length")) == nullptr &&
        config.width % config.n_heads != 0) {
        return fail(ErrorCode::kCorruptFile,
                    fmt::format("key {} is {}, which {} heads do not divide",
                                reader.key("embedding_length"),
                                config.width,
                                config.n_heads));
    }
    const auto default_dim = static_cast<std::uint32_t>(config.width / config.n_heads);
    BALLAST_TRY(config.head_dim, reader.count_or("attention.key_length", default_dim, kHeadDimMax));
    BALLAST_TRY(
        const int value_dim,
        reader.count_or(
            "attention.value_length", static_cast<std::uint32_t>(config.head_dim), kHeadDimMax));
    if (value_dim != config.head_dim) {
        return fail(ErrorCode::kUnsupported,
                    fmt::format("key {} differs from the key length; this is not supported",
                                reader.key("attention.value_length")));
    }
    if (config.head_dim % 8 != 0) {
        return fail(ErrorCode::kUnsupported,
                    fmt::format("a head width of {} is not supported: it must be a multiple of 8",
                                config.head_dim));
    }
    BALLAST_TRY(
        config.n_rotated,
        reader.count_or(
            "rope.dimension_count", static_cast<std::uint32_t>(config.head_dim), kHeadDimMax));
    if (config.n_rotated > config.head_dim || config.n_rotated % 2 != 0) {
        return fail(ErrorCode::kCorruptFile,
                    fmt::format("key {} is {}, but must be even and at most the head width {}",
                                reader.key("rope.dimension_count"),
                                config.n_rotated,
                                config.head_dim));
    }
    return {};
}

Status read_rope(const ConfigReader& reader, ModelConfig& config) {
    BALLAST_TRY(config.rope_base, reader.positive_or("rope.freq_base", 10000.0F));
    BALLAST_TRY(const std::string_view scaling,
                reader.metadata().string_or(reader.key("rope.scaling.type"), "none"));
    if (scaling == "linear") {
        BALLAST_TRY(config.rope_scale, reader.positive("rope.scaling.factor"));
    } else if (scaling != "none") {
        return fail(ErrorCode::kUnsupported,
                    fmt::format("key {} is \"{}\"; supported are none and linear",
                                reader.key("rope.scaling.type"),
                                scaling));
    }
    return {};
}

Status read_experts(const ConfigReader& reader, ModelConfig& config) {
    BALLAST_TRY(const std::uint32_t n_experts,
                reader.metadata().u32_or(reader.key("expert_count"), 0));
    if (n_experts == 0) {
        return {};
    }
    BALLAST_TRY(config.n_experts, reader.count("expert_count", kExpertsMax));
    BALLAST_TRY(config.n_experts_used, reader.count("expert_used_count", kExpertsMax));
    if (config.n_experts_used > config.n_experts) {
        return fail(ErrorCode::kCorruptFile,
                    fmt::format("key {} is {}, more than the {} experts there are",
                                reader.key("expert_used_count"),
                                config.n_experts_used,
                                config.n_experts));
    }
    return {};
}

Status read_window(const ConfigReader& reader, ModelConfig& config) {
    // Every sixth layer of Gemma 3 sees everything; the others turn by a base of their own
    // (Gemma 3 technical report, arXiv:2503.19786, section 2).
    BALLAST_TRY(config.window, reader.count("attention.sliding_window", kVocabularyMax));
    config.window_period = 6;
    config.window_rope_base = 10000.0F;
    return {};
}

}  // namespace

Result<ModelConfig> read_model_config(const gguf::Metadata& metadata) {
    ModelConfig config;
    BALLAST_TRY(const std::string_view architecture, metadata.string("general.architecture"));
    config.architecture = architecture;
    if (architecture != "llama" && architecture != "gemma3") {
        return fail(
            ErrorCode::kUnsupported,
            fmt::format("key general.architecture is \"{}\"; supported are llama and gemma3",
                        architecture));
    }
    BALLAST_TRY(const std::string_view name, metadata.string_or("general.name", architecture));
    config.name = name;
    const ConfigReader reader(metadata, config.architecture);
    BALLAST_TRY(config.n_layers, reader.count("block_count", kLayersMax));
    BALLAST_TRY(config.width, reader.count("embedding_length", kDimensionMax));
    BALLAST_TRY(config.ffn_width, reader.count("feed_forward_length", kDimensionMax));
    BALLAST_TRY(config.context_length, reader.count("context_length", 1U << 30));
    BALLAST_TRY(config.rms_epsilon, reader.positive("attention.layer_norm_rms_epsilon"));
    BALLAST_TRY_STATUS(read_heads(reader, config));
    BALLAST_TRY_STATUS(read_rope(reader, config));
    BALLAST_TRY_STATUS(read_experts(reader, config));
    if (architecture == "gemma3") {
        BALLAST_TRY_STATUS(read_window(reader, config));
    }
    BALLAST_TRY(const auto tokens, metadata.strings("tokenizer.ggml.tokens"));
    if (tokens.empty() || tokens.size() > kVocabularyMax) {
        return fail(
            ErrorCode::kCorruptFile,
            fmt::format("key tokenizer.ggml.tokens has {} entries, but must have between 1 and {}",
                        tokens.size(),
                        kVocabularyMax));
    }
    config.vocabulary = static_cast<int>(tokens.size());
    return config;
}

}  // namespace ballast::model
