// SPDX-License-Identifier: MIT
// The forward pass of Gemma 3: norms before and after each block, normalised query and key heads,
// and five sliding-window layers to each one that sees everything.
#include "engine/model/forward.h"

#include <cmath>

namespace ballast::model {

using backend::SlotId;
using backend::UnitId;

namespace {

/// Activation slots of one pass.
struct GemmaSlots {
    SlotId x;     // [width] the residual stream
    SlotId h;     // [width] its norm, later a block's result
    SlotId q;     // [n_heads · head_dim]
    SlotId k;     // [n_kv_heads · head_dim]
    SlotId v;     // [n_kv_heads · head_dim]
    SlotId a;     // [n_heads · head_dim] attention
    SlotId gate;  // [ffn_width]
    SlotId up;    // [ffn_width]
};

/// Emits to = norm(from) · weight over n_groups vectors of the given width.
Status emit_norm(
    Forward& f, const std::string& tensor, SlotId from, SlotId to, int width, int n_groups) {
    BALLAST_TRY(const UnitId weight, f.weights.vector(tensor, width));
    f.ops.add(backend::RmsNorm{.in = from,
                               .out = to,
                               .weight = weight,
                               .width = width,
                               .n_groups = n_groups,
                               .epsilon = f.config.rms_epsilon});
    return {};
}

/// The 27B model, the one with 62 layers, scales scores by the width a head would have if heads
/// filled the embedding; the others by the head's own (Gemma 3 report, table 1 and its code).
float attention_scale(const ModelConfig& c) {
    constexpr int kLayersOf27B = 62;
    const int dim = c.n_layers == kLayersOf27B ? c.width / c.n_heads : c.head_dim;
    return 1.0F / std::sqrt(static_cast<float>(dim));
}

/// x += norm(W_o · attention(rope(norm(W_q h)), rope(norm(W_k h)), W_v h)), h = norm(x).
Status emit_attention(Forward& f, const GemmaSlots& s, int layer, int rope_table) {
    const ModelConfig& c = f.config;
    f.ops.begin_group(backend::OpGroup::kAttention);
    BALLAST_TRY_STATUS(emit_norm(f, layer_tensor(layer, "attn_norm"), s.x, s.h, c.width, 1));
    BALLAST_TRY(const UnitId wq,
                f.weights.matrix(layer_tensor(layer, "attn_q"), c.n_heads * c.head_dim, c.width));
    BALLAST_TRY(
        const UnitId wk,
        f.weights.matrix(layer_tensor(layer, "attn_k"), c.n_kv_heads * c.head_dim, c.width));
    BALLAST_TRY(
        const UnitId wv,
        f.weights.matrix(layer_tensor(layer, "attn_v"), c.n_kv_heads * c.head_dim, c.width));
    BALLAST_TRY(
        const UnitId wo,
        f.weights.matrix(layer_tensor(layer, "attn_output"), c.width, c.n_heads * c.head_dim));
    f.ops.add(backend::Linear{
        .in = s.h, .n_matrices = 3, .weights = {wq, wk, wv}, .outs = {s.q, s.k, s.v}});
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
    f.ops.add(backend::Linear{.in = s.a, .weights = {wo}, .outs = {s.h}});
    BALLAST_TRY_STATUS(
        emit_norm(f, layer_tensor(layer, "post_attention_norm"), s.h, s.h, c.width, 1));
    f.ops.add(backend::Add{.x = s.x, .y = s.h, .width = c.width});
    return {};
}

/// x += norm(W_down (gelu(W_gate h) · W_up h)), h = norm(x).
Status emit_feed_forward(Forward& f, const GemmaSlots& s, int layer) {
    const ModelConfig& c = f.config;
    f.ops.begin_group(backend::OpGroup::kFeedForward);
    BALLAST_TRY_STATUS(emit_norm(f, layer_tensor(layer, "ffn_norm"), s.x, s.h, c.width, 1));
    BALLAST_TRY(const UnitId gate,
                f.weights.matrix(layer_tensor(layer, "ffn_gate"), c.ffn_width, c.width));
    BALLAST_TRY(const UnitId up,
                f.weights.matrix(layer_tensor(layer, "ffn_up"), c.ffn_width, c.width));
    BALLAST_TRY(const UnitId down,
                f.weights.matrix(layer_tensor(layer, "ffn_down"), c.width, c.ffn_width));
    f.ops.add(
        backend::Linear{.in = s.h, .n_matrices = 2, .weights = {gate, up}, .outs = {s.gate, s.up}});
    f.ops.add(backend::GatedActivation{.gate = s.gate,
                                       .up = s.up,
                                       .out = s.gate,
                                       .width = c.ffn_width,
                                       .activation = backend::Activation::kGeluTanh});
    f.ops.add(backend::Linear{.in = s.gate, .weights = {down}, .outs = {s.h}});
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
    const GemmaSlots s{.x = f.ops.slot(c.width),
                       .h = f.ops.slot(c.width),
                       .q = f.ops.slot(c.n_heads * c.head_dim),
                       .k = f.ops.slot(c.n_kv_heads * c.head_dim),
                       .v = f.ops.slot(c.n_kv_heads * c.head_dim),
                       .a = f.ops.slot(c.n_heads * c.head_dim),
                       .gate = f.ops.slot(c.ffn_width),
                       .up = f.ops.slot(c.ffn_width)};
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
