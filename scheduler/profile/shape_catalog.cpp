// SPDX-License-Identifier: MIT
// How llama.cpp's quantiser mixes types, and what a model's tensors then weigh.
#include <array>

#include <fmt/format.h>

#include "scheduler/profile/model_shape.h"

namespace ballast::scheduler {

namespace {

/// A storage type: bits a weight in sixteenths, and weights a block.
struct Type {
    const char* name;
    std::uint64_t bits16;
    int block;
};
constexpr Type kF32 = {"F32", 512, 1};
constexpr Type kF16 = {"F16", 256, 1};
constexpr Type kQ8_0 = {"Q8_0", 136, 32};
constexpr Type kQ6K = {"Q6_K", 105, 256};
constexpr Type kQ5K = {"Q5_K", 88, 256};
constexpr Type kQ5_0 = {"Q5_0", 88, 32};
constexpr Type kQ4K = {"Q4_K", 72, 256};
constexpr Type kQ4_0 = {"Q4_0", 72, 32};
constexpr Type kMxfp4 = {"MXFP4", 68, 32};

/// The types of one quantisation; the mixed one takes better types in some layers.
struct Quant {
    const char* name;
    Type matrices;
    Type experts;
    Type head;
    bool mixed;
};
constexpr std::array<Quant, 7> kQuants = {{
    {"Q4_K_M", kQ4K, kQ4K, kQ6K, true},
    {"MXFP4", kQ8_0, kMxfp4, kQ8_0, false},
    {"Q4_0", kQ4_0, kQ4_0, kQ6K, false},
    {"Q6_K", kQ6K, kQ6K, kQ6K, false},
    {"Q8_0", kQ8_0, kQ8_0, kQ8_0, false},
    {"F16", kF16, kF16, kF16, false},
    {"BF16", kF16, kF16, kF16, false},
}};

/// What rows of this length are stored as: types of 256 weights a block need whole blocks.
Type fitting(Type type, std::int64_t row) {
    if (type.block <= 32 || row % type.block == 0) {
        return type;
    }
    return type.bits16 <= kQ4K.bits16 ? kQ5_0 : kQ8_0;
}

/// Adds up tensors.
struct Sum {
    std::uint64_t bytes = 0;
    std::uint64_t weights = 0;

    void add(Type type, std::int64_t row, std::int64_t rows) {
        const auto n = static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(rows);
        bytes += n * fitting(type, row).bits16 / 128;
        weights += n;
    }
};

class ShapeCatalog {
  public:
    ShapeCatalog(const ModelShape& shape, const Quant& quant) : shape_(shape), quant_(quant) {}

    TensorCatalog build() const {
        TensorCatalog catalog;
        catalog.name = shape_.name + ":" + quant_.name;
        catalog.description = shape_.description;
        catalog.width = shape_.embedding_length;
        catalog.n_layers = shape_.layers;
        catalog.context_length = shape_.context_length;
        Sum embedding;
        // A tied table is the head as well and has the head's type; then it is counted there, and
        // the CPU looks rows up in the same bytes.
        if (!shape_.tied_embeddings) {
            embedding.add(quant_.matrices, shape_.embedding_length, shape_.vocabulary);
        }
        catalog.embedding_bytes = embedding.bytes;
        for (int layer = 0; layer < shape_.layers; ++layer) {
            catalog.groups.push_back(is(shape_.linear_attention, layer) ? linear_attention(layer)
                                                                        : attention(layer));
            catalog.groups.push_back(is(shape_.experts, layer) ? experts(layer)
                                                               : feed_forward(layer));
        }
        catalog.groups.push_back(head());
        return catalog;
    }

  private:
    template <class Part>
    static bool is(const Part& part, int layer) {
        return part && part->in_layer[static_cast<std::size_t>(layer)];
    }
    /// Whether the mixed quantisation gives this layer's tensors more bits.
    bool more_bits(int layer) const {
        const int n = shape_.layers;
        return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
    }
    Type value_type(int layer) const {
        if (!quant_.mixed) {
            return quant_.matrices;
        }
        if (more_bits(layer)) {
            return kQ6K;
        }
        const bool is_llama_70b = shape_.architecture == "llama" && shape_.layers == 80 &&
                                  shape_.attention.heads != shape_.attention.kv_heads;
        return is_llama_70b ? kQ5K : kQ4K;
    }
    Type down_type(Type type, int layer) const {
        return quant_.mixed && more_bits(layer) ? kQ6K : type;
    }
    /// Pieces of n neurons or columns whose borders are block borders.
    static int pieces(int n, Type type) {
        const int block = fitting(type, n).block;
        return n % block == 0 ? n / block : 1;
    }
    /// The most pieces of whole KV heads whose columns of the output matrix, `columns` a head, are
    /// whole blocks.
    int head_pieces(int kv_heads, int columns) const {
        const int block = fitting(quant_.matrices, std::int64_t{kv_heads} * columns).block;
        for (int heads = 1; heads < kv_heads; ++heads) {
            if (kv_heads % heads == 0 && heads * columns % block == 0) {
                return kv_heads / heads;
            }
        }
        return 1;
    }
    int norms_per_group() const { return shape_.norms_per_layer / 2; }

    TensorGroup attention(int layer) const {
        const ModelShape::Attention& attention = shape_.attention;
        const int d = shape_.embedding_length;
        const int q = attention.heads * attention.head_length;
        const int kv = attention.kv_heads * attention.head_length;
        Sum sum;
        sum.add(kF32, d, norms_per_group());
        sum.add(quant_.matrices, d, std::int64_t{q} * (attention.output_gate ? 2 : 1));
        sum.add(quant_.matrices, d, kv);
        sum.add(value_type(layer), d, kv);
        sum.add(quant_.matrices, q, d);
        return {
            .kind = GroupKind::kAttention,
            .layer = layer,
            .parts = head_pieces(attention.kv_heads, q / attention.kv_heads),
            .weight_bytes = sum.bytes,
            .weights = sum.weights,
            .kv_bytes_per_token = std::uint64_t{2} * 2 * static_cast<std::uint64_t>(kv),
            .window = attention.windowed[static_cast<std::size_t>(layer)] ? attention.window : 0,
            .attention_width = q};
    }
    TensorGroup linear_attention(int layer) const {
        const ModelShape::LinearAttention& linear = *shape_.linear_attention;
        const int d = shape_.embedding_length;
        const int keys = linear.key_heads * linear.key_length;
        const int values = linear.value_heads * linear.value_length;
        Sum sum;
        sum.add(kF32, d, norms_per_group());
        sum.add(quant_.mixed && more_bits(layer) ? kQ6K : quant_.matrices, d, 2 * keys + values);
        sum.add(quant_.matrices, d, values);
        sum.add(quant_.matrices, d, std::int64_t{2} * linear.value_heads);
        sum.add(quant_.matrices, values, d);
        sum.add(kF32, linear.conv_kernel, 2 * keys + values);
        const std::int64_t elements = linear.state_elements + linear.conv_state_elements;
        return {.kind = GroupKind::kAttention,
                .layer = layer,
                .weight_bytes = sum.bytes,
                .weights = sum.weights,
                .state_bytes = 4 * static_cast<std::uint64_t>(elements)};
    }
    TensorGroup feed_forward(int layer) const {
        const int d = shape_.embedding_length;
        const int n = shape_.ffn_length;
        const Type down = down_type(quant_.matrices, layer);
        Sum sum;
        sum.add(kF32, d, norms_per_group());
        sum.add(quant_.matrices, d, std::int64_t{2} * n);
        sum.add(down, n, d);
        return {.kind = GroupKind::kFeedForward,
                .layer = layer,
                .parts = pieces(n, down),
                .weight_bytes = sum.bytes,
                .weights = sum.weights};
    }
    TensorGroup experts(int layer) const {
        const ModelShape::Experts& experts = *shape_.experts;
        const int d = shape_.embedding_length;
        Sum always;
        always.add(kF32, d, norms_per_group());
        always.add(kF32, d, experts.count);
        if (experts.shared_length > 0) {
            always.add(quant_.matrices, d, std::int64_t{2} * experts.shared_length);
            always.add(down_type(quant_.matrices, layer), experts.shared_length, d);
        }
        Sum one;
        one.add(quant_.experts, d, std::int64_t{2} * experts.length);
        one.add(down_type(quant_.experts, layer), experts.length, d);
        if (experts.bias) {
            one.add(kF32, 1, std::int64_t{2} * experts.length + d);
        }
        return {.kind = GroupKind::kExperts,
                .layer = layer,
                .parts = experts.count,
                .weight_bytes = always.bytes,
                .weights = always.weights,
                .experts_used = experts.used,
                .expert_bytes = one.bytes,
                .expert_weights = one.weights};
    }
    TensorGroup head() const {
        Sum sum;
        sum.add(kF32, shape_.embedding_length, 1);
        sum.add(quant_.head, shape_.embedding_length, shape_.vocabulary);
        return {.kind = GroupKind::kHead,
                .parts = shape_.vocabulary,
                .weight_bytes = sum.bytes,
                .weights = sum.weights};
    }

    const ModelShape& shape_;
    const Quant& quant_;
};

}  // namespace

std::vector<std::string> shape_quants() {
    std::vector<std::string> names;
    names.reserve(kQuants.size());
    for (const Quant& quant : kQuants) {
        names.emplace_back(quant.name);
    }
    return names;
}

Result<TensorCatalog> catalog_of(const ModelShape& shape, const std::string& quant) {
    const std::string& wanted = quant.empty() ? shape.default_quant : quant;
    for (const Quant& known : kQuants) {
        if (wanted == known.name) {
            return ShapeCatalog(shape, known).build();
        }
    }
    return fail(ErrorCode::kNotFound,
                fmt::format("{} is not a quantisation a shape can have; possible are {}.",
                            wanted.substr(0, 64),
                            fmt::join(shape_quants(), ", ")));
}

}  // namespace ballast::scheduler
