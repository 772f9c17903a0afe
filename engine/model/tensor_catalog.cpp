// SPDX-License-Identifier: MIT
// Sorts the tensors by name, then fills in what only the metadata say. Names and keys:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#include "engine/model/tensor_catalog.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace ballast::model {

namespace {

using scheduler::GroupKind;
using scheduler::TensorGroup;

// Above every real dimension, and small enough that the products here fit 64 bits.
constexpr std::uint32_t kNumberMax = 1U << 20U;
constexpr std::uint32_t kContextMax = 1U << 30U;

/// The numbers of one architecture, by key or by key and layer.
class Numbers {
  public:
    explicit Numbers(const gguf::Metadata& metadata)
        : metadata_(metadata),
          architecture_(metadata.string_or("general.architecture", "").value_or("")) {}

    const std::string& architecture() const { return architecture_; }
    std::string name() const {
        return std::string(
            metadata_.string_or("general.name", architecture_).value_or(architecture_));
    }
    const gguf::Value* find(std::string_view key) const {
        return metadata_.find(fmt::format("{}.{}", architecture_, key));
    }
    int number(std::string_view key, int fallback = 0, std::uint32_t max = kNumberMax) const {
        const auto number = metadata_.u32(fmt::format("{}.{}", architecture_, key));
        return number && *number <= max ? static_cast<int>(*number) : fallback;
    }
    /// The same where the file may have an array with one number a layer.
    int number_of_layer(std::string_view key, int layer, int fallback) const {
        const auto all = metadata_.integers_or_empty(fmt::format("{}.{}", architecture_, key));
        if (!all || all->empty()) {
            return number(key, fallback);
        }
        const auto index = static_cast<std::size_t>(layer);
        const bool known =
            index < all->size() && (*all)[index] >= 0 && (*all)[index] <= std::int64_t{kNumberMax};
        return known ? static_cast<int>((*all)[index]) : fallback;
    }

  private:
    const gguf::Metadata& metadata_;
    std::string architecture_;
};

/// What the tensors of one layer add up to.
struct Layer {
    TensorGroup attention{.kind = GroupKind::kAttention};
    TensorGroup feed_forward{.kind = GroupKind::kFeedForward};
    bool has_attention = false;
    bool has_feed_forward = false;
    bool has_keys = false;   // some tensor makes keys
    bool has_fused = false;  // one tensor makes queries, keys and values, or what a state takes
    bool recurrent = false;  // it has a state
    const gguf::TensorInfo* output = nullptr;
    const gguf::TensorInfo* down = nullptr;
};

void add(TensorGroup& group, const gguf::TensorInfo& tensor) {
    group.weight_bytes += tensor.size_bytes;
    group.weights += tensor.n_elements();
}

/// "blk.3.attn_q.weight" is layer 3 and "attn_q.weight".
std::optional<std::pair<int, std::string_view>> split_name(std::string_view name) {
    if (!name.starts_with("blk.")) {
        return std::nullopt;
    }
    name.remove_prefix(4);
    int layer = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    if (error != std::errc() || layer < 0 || !name.starts_with('.')) {
        return std::nullopt;
    }
    return std::pair(layer, name.substr(1));
}

bool belongs_to_feed_forward(std::string_view name) {
    constexpr std::array<std::string_view, 4> kPrefixes = {
        "ffn_", "post_ffw_norm", "pre_ffw_norm", "exp_probs_b"};
    return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](std::string_view prefix) {
        return name.starts_with(prefix);
    });
}

void sort_in(Layer& layer, std::string_view name, const gguf::TensorInfo& tensor) {
    if (!belongs_to_feed_forward(name)) {
        layer.has_attention = true;
        add(layer.attention, tensor);
        layer.recurrent = layer.recurrent || name.starts_with("ssm_");
        layer.has_keys =
            layer.has_keys || name.starts_with("attn_k.") || name.starts_with("attn_kv");
        layer.has_fused = layer.has_fused || name.starts_with("attn_qkv.");
        if (name == "attn_output.weight") {
            layer.output = &tensor;
        }
        return;
    }
    layer.has_feed_forward = true;
    TensorGroup& group = layer.feed_forward;
    if (name.find("_exps.") == std::string_view::npos) {
        add(group, tensor);
        if (name == "ffn_down.weight") {
            layer.down = &tensor;
        }
        return;
    }
    group.kind = GroupKind::kExperts;
    group.expert_bytes += tensor.size_bytes;
    group.expert_weights += tensor.n_elements();
    if (name.ends_with(".weight")) {
        group.parts = static_cast<int>(std::min<std::uint64_t>(tensor.shape[2], kNumberMax));
    }
}

/// Whether a layer sees only the last `attention.sliding_window` positions: the file's own pattern,
/// else the architecture's, of which every n-th layer sees all.
bool windowed(const Numbers& numbers, int layer) {
    constexpr std::string_view kPattern = "attention.sliding_window_pattern";
    if (const gguf::Value* value = numbers.find(kPattern)) {
        if (const auto* flags = std::get_if<std::vector<bool>>(value)) {
            const auto index = static_cast<std::size_t>(layer);
            return index < flags->size() && (*flags)[index];
        }
    }
    constexpr std::array<std::pair<std::string_view, int>, 5> kPeriods = {
        {{"cohere2", 4}, {"gemma2", 2}, {"gemma3", 6}, {"gemma3n", 5}, {"gpt-oss", 2}}};
    const auto* known = std::find_if(kPeriods.begin(), kPeriods.end(), [&](const auto& entry) {
        return entry.first == numbers.architecture();
    });
    const int period = numbers.number(kPattern, known != kPeriods.end() ? known->second : 0);
    return period > 0 && (layer + 1) % period != 0;
}

/// Bytes of a state-space layer's state: the state itself and the convolution's past inputs.
std::uint64_t state_bytes(const Numbers& numbers) {
    const auto number = [&](std::string_view key) {
        return static_cast<std::uint64_t>(numbers.number(key));
    };
    const std::uint64_t inner = number("ssm.inner_size");
    const std::uint64_t state = number("ssm.state_size");
    const std::uint64_t past = std::max<std::uint64_t>(number("ssm.conv_kernel"), 1) - 1;
    return sizeof(float) * (inner * state + past * (inner + 2 * number("ssm.group_count") * state));
}

/// What a layer's attention costs beside its weights, and how it can be cut.
void finish_attention(Layer& layer,
                      int number,
                      const Numbers& numbers,
                      std::uint64_t kv_element_bytes) {
    TensorGroup& group = layer.attention;
    if (layer.recurrent) {
        group.state_bytes = state_bytes(numbers);
    }
    // A fused tensor beside a state feeds the state.
    const bool has_cache = layer.has_keys || (layer.has_fused && !layer.recurrent);
    const int heads = numbers.number_of_layer("attention.head_count", number, 0);
    const int kv_heads = numbers.number_of_layer("attention.head_count_kv", number, heads);
    if (!has_cache || heads == 0 || kv_heads == 0) {
        return;
    }
    const int by_width = numbers.number("embedding_length") / heads;
    const int key_length = numbers.number("attention.key_length", by_width);
    const int value_length = numbers.number("attention.value_length", by_width);
    group.attention_width = static_cast<int>(
        std::min<std::int64_t>(std::int64_t{heads} * key_length, std::int64_t{1} << 30U));
    group.kv_bytes_per_token = static_cast<std::uint64_t>(kv_heads) *
                               static_cast<std::uint64_t>(key_length + value_length) *
                               kv_element_bytes;
    if (windowed(numbers, number)) {
        group.window = numbers.number("attention.sliding_window");
    }
    if (layer.output == nullptr || layer.recurrent || heads % kv_heads != 0) {
        return;
    }
    // The output matrix is cut by columns, which go to whole blocks only.
    const auto columns =
        static_cast<std::uint64_t>(heads / kv_heads) * static_cast<std::uint64_t>(value_length);
    if (layer.output->shape[0] != columns * static_cast<std::uint64_t>(kv_heads)) {
        return;
    }
    // The fewest KV heads together whose columns are whole blocks.
    const std::uint64_t block = quant::traits(layer.output->type).block_elements;
    for (int heads_together = 1; heads_together < kv_heads; ++heads_together) {
        if (kv_heads % heads_together == 0 &&
            static_cast<std::uint64_t>(heads_together) * columns % block == 0) {
            group.parts = kv_heads / heads_together;
            return;
        }
    }
}

void finish_feed_forward(Layer& layer, const Numbers& numbers) {
    TensorGroup& group = layer.feed_forward;
    if (group.kind == GroupKind::kExperts) {
        const auto n = static_cast<std::uint64_t>(std::max(group.parts, 1));
        group.expert_bytes /= n;
        group.expert_weights /= n;
        group.experts_used = std::clamp(numbers.number("expert_used_count", 1), 1, group.parts);
    } else if (layer.down != nullptr) {
        const std::uint64_t blocks =
            layer.down->shape[0] / quant::traits(layer.down->type).block_elements;
        group.parts = static_cast<int>(std::clamp<std::uint64_t>(blocks, 1, kNumberMax));
    }
}

/// The norm before the logits and the matrix that makes them; where the file has none, it is the
/// embedding table, which is then needed twice.
TensorGroup head_of(const gguf::Reader& reader) {
    TensorGroup head{.kind = GroupKind::kHead};
    const gguf::TensorInfo* matrix = reader.find_tensor("output.weight");
    for (const gguf::TensorInfo& tensor : reader.tensors()) {
        if (tensor.name.starts_with("output.") || tensor.name.starts_with("output_norm.")) {
            add(head, tensor);
        }
    }
    if (matrix == nullptr) {
        matrix = reader.find_tensor("token_embd.weight");
        if (matrix != nullptr) {
            add(head, *matrix);
        }
    }
    if (matrix != nullptr) {
        head.parts = static_cast<int>(std::clamp<std::uint64_t>(matrix->shape[1], 1, 1U << 30U));
    }
    return head;
}

}  // namespace

Result<scheduler::TensorCatalog> catalog_of(const gguf::Reader& reader,
                                            std::uint64_t kv_element_bytes) {
    const Numbers numbers(reader.metadata());
    scheduler::TensorCatalog catalog{
        .name = numbers.name(),
        .width = numbers.number("embedding_length"),
        .n_layers = numbers.number("block_count"),
        .context_length = numbers.number("context_length", 0, kContextMax)};
    std::map<int, Layer> layers;
    const bool tied = reader.find_tensor("output.weight") == nullptr;
    for (const gguf::TensorInfo& tensor : reader.tensors()) {
        if (const auto split = split_name(tensor.name)) {
            sort_in(layers[split->first], split->second, tensor);
        } else if (tied && tensor.name == "token_embd.weight") {
            continue;  // it is the head, where it counts; rows are looked up in the same bytes
        } else if (!tensor.name.starts_with("output.") &&
                   !tensor.name.starts_with("output_norm.")) {
            catalog.embedding_bytes += tensor.size_bytes;
        }
    }
    if (layers.empty()) {
        return fail(ErrorCode::kUnsupported,
                    "the file has no tensors of layers (blk.N.…), so there is nothing to place");
    }
    for (auto& [number, layer] : layers) {
        layer.attention.layer = number;
        layer.feed_forward.layer = number;
        if (layer.has_attention) {
            finish_attention(layer, number, numbers, kv_element_bytes);
            catalog.groups.push_back(layer.attention);
        }
        if (layer.has_feed_forward) {
            finish_feed_forward(layer, numbers);
            catalog.groups.push_back(layer.feed_forward);
        }
    }
    if (const TensorGroup head = head_of(reader); head.weight_bytes > 0) {
        catalog.groups.push_back(head);
    }
    if (catalog.n_layers == 0) {
        catalog.n_layers = static_cast<int>(layers.size());
    }
    catalog.description = fmt::format("{}, {} layers", numbers.architecture(), catalog.n_layers);
    return catalog;
}

}  // namespace ballast::model
