// SPDX-License-Identifier: MIT
// The forward pass of Gemma 3: norms before and after each block, normalised query and key heads,
// and five sliding-window layers to each one that sees everything.
#include "engine/model/forward.h"

#include <cmath>

namespace ballast::model {

using backend::SlotId;
using backend::UnitId;

namespace {

/// The 27B model, the one with 62 layers, scales scores by the width a head would have if heads
/// filled the embedding; the others by the head's own (Gemma 3 report, table 1 and its code).
float attention_scale(const ModelConfig& c) {
    constexpr int kLayersOf27B = 62;
    const int dim = c.n_layers == kLayersOf27B ? c.width / c.n_heads : c.head_dim;
    return 1.0F / std::sqrt(static_cast<float>(dim));
}

/// x += norm(W_o · attention(rope(norm(W_q h)), rope(norm(W_k h)), W_v h)), h = norm(x).
Status emit_attention(Forward& f, const BlockSlots& s, int layer, int rope_table) {
    const ModelConfig& c = f.config;
    f.ops.begin_group(backend::OpGroup::kAttention);
    BALLAST_TRY_STATUS(emit_norm(f, layer_tensor(layer, "attn_norm"), s.x, s.h, c.width, 1));
    BALLAST_TRY_STATUS(emit_queries_keys_values(f, s, layer));
    BALLAST_TRY_STATUS(
        emit_norm(f, layer_tensor(layer, "attn_q_norm"), s.q, s.q, c.head_dim, c.n_heads));
    BALLAST_TRY_STATUS(
        emit_norm(f, layer_tensor(layer, "attn_k_norm"), s.k, s.k, c.head_dim, c.n_kv_heads));
    f.ops.add(backend::Rope{.q = s.q,
                            .k = s.k,
                            .n_heads = c.n_heads,
                            .n_kv_heads = c.n_kv_heads,
                            .head_dim = c.head_dim,
                            .n_rotated = c.n_rotated,
                            .table = rope_table,
                            .interleaved = false});
    f.ops.add(backend::Attention{.q = s.q,
                                 .k = s.k,
                                 .v = s.v,
                                 .out = s.a,
                                 .layer = layer,
                                 .n_heads = c.n_heads,
                                 .n_kv_heads = c.n_kv_heads,
                                 .head_dim = c.head_dim,
                                 .window = c.windowed(layer) ? c.window : 0,
                                 .scale = attention_scale(c)});
    BALLAST_TRY_STATUS(emit_attention_output(f, s, layer));
    BALLAST_TRY_STATUS(
        emit_norm(f, layer_tensor(layer, "post_attention_norm"), s.h, s.h, c.width, 1));
    f.ops.add(backend::Add{.x = s.x, .y = s.h, .width = c.width});
    return {};
}

/// x += norm(W_down (gelu(W_gate h) · W_up h)), h = norm(x).
Status emit_feed_forward(Forward& f, const BlockSlots& s, int layer) {
    const ModelConfig& c = f.config;
    f.ops.begin_group(backend::OpGroup::kFeedForward);
    BALLAST_TRY_STATUS(emit_norm(f, layer_tensor(layer, "ffn_norm"), s.x, s.h, c.width, 1));
    BALLAST_TRY_STATUS(emit_dense(f, s, layer, backend::Activation::kGeluTanh));
    BALLAST_TRY_STATUS(emit_norm(f, layer_tensor(layer, "post_ffw_norm"), s.h, s.h, c.width, 1));
    f.ops.add(backend::Add{.x = s.x, .y = s.h, .width = c.width});
    return {};
}

}  // namespace

Result<SlotId> emit_gemma3(Forward f) {
    const ModelConfig& c = f.config;
    if (c.n_experts > 0) {
        return fail(ErrorCode::kUnsupported,
                    "key gemma3.expert_count: gemma3 with experts is not supported");
    }
    const BlockSlots s = make_slots(f);
    BALLAST_TRY(RopeTable global_rates,
                make_rope_table(f.weights, c.n_rotated, c.rope_base, c.rope_scale));
    BALLAST_TRY(RopeTable window_rates,
                make_rope_table(f.weights, c.n_rotated, c.window_rope_base, 1.0F));
    const int global_table = f.ops.rope_table(std::move(global_rates));
    const int window_table = f.ops.rope_table(std::move(window_rates));

    f.ops.begin_layer(-1);
    BALLAST_TRY(const UnitId embedding,
                f.weights.matrix("token_embd.weight", c.vocabulary, c.width));
    f.ops.add(backend::Embed{
        .table = embedding, .out = s.x, .scale = std::sqrt(static_cast<float>(c.width))});
    for (int layer = 0; layer < c.n_layers; ++layer) {
        f.ops.begin_layer(layer);
        BALLAST_TRY_STATUS(
            emit_attention(f, s, layer, c.windowed(layer) ? window_table : global_table));
        BALLAST_TRY_STATUS(emit_feed_forward(f, s, layer));
    }
    return emit_head(f, s.x, embedding);
}

}  // namespace ballast::model
