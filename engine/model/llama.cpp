// SPDX-License-Identifier: MIT
// The forward pass of the llama family, in the order of the paper.
#include "engine/model/forward.h"

#include <cmath>

namespace ballast::model {

using backend::SlotId;
using backend::UnitId;

namespace {

/// Activation slots of one pass.
struct LlamaSlots {
    SlotId x;     // [width] the residual stream
    SlotId h;     // [width] its norm, later a block's result
    SlotId q;     // [n_heads · head_dim]
    SlotId k;     // [n_kv_heads · head_dim]
    SlotId v;     // [n_kv_heads · head_dim]
    SlotId a;     // [n_heads · head_dim] attention
    SlotId gate;  // [ffn_width]
    SlotId up;    // [ffn_width]
};

LlamaSlots make_slots(OpsList& ops, const ModelConfig& c) {
    return {.x = ops.slot(c.width),
            .h = ops.slot(c.width),
            .q = ops.slot(c.n_heads * c.head_dim),
            .k = ops.slot(c.n_kv_heads * c.head_dim),
            .v = ops.slot(c.n_kv_heads * c.head_dim),
            .a = ops.slot(c.n_heads * c.head_dim),
            .gate = ops.slot(c.ffn_width),
            .up = ops.slot(c.ffn_width)};
}

/// x += W_o · attention(rope(W_q h), rope(W_k h), W_v h), h = norm(x).
Status emit_attention(Forward& f, const LlamaSlots& s, int layer, int rope_table) {
    const ModelConfig& c = f.config;
    BALLAST_TRY(const UnitId norm, f.weights.vector(layer_tensor(layer, "attn_norm"), c.width));
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
    f.ops.begin_group(backend::OpGroup::kAttention);
    f.ops.add(backend::RmsNorm{
        .in = s.x, .out = s.h, .weight = norm, .width = c.width, .epsilon = c.rms_epsilon});
    f.ops.add(backend::Linear{
        .in = s.h, .n_matrices = 3, .weights = {wq, wk, wv}, .outs = {s.q, s.k, s.v}});
    f.ops.add(backend::Rope{.q = s.q,
                            .k = s.k,
                            .n_heads = c.n_heads,
                            .n_kv_heads = c.n_kv_heads,
                            .head_dim = c.head_dim,
                            .n_rotated = c.n_rotated,
                            .table = rope_table,
                            .interleaved = true});
    f.ops.add(backend::Attention{.q = s.q,
                                 .k = s.k,
                                 .v = s.v,
                                 .out = s.a,
                                 .layer = layer,
                                 .n_heads = c.n_heads,
                                 .n_kv_heads = c.n_kv_heads,
                                 .head_dim = c.head_dim,
                                 .scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim))});
    f.ops.add(backend::Linear{.in = s.a, .weights = {wo}, .outs = {s.h}});
    f.ops.add(backend::Add{.x = s.x, .y = s.h, .width = c.width});
    return {};
}

/// h = W_down (silu(W_gate h) · W_up h).
Status emit_dense(Forward& f, const LlamaSlots& s, int layer) {
    const ModelConfig& c = f.config;
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
                                       .activation = backend::Activation::kSilu});
    f.ops.add(backend::Linear{.in = s.gate, .weights = {down}, .outs = {s.h}});
    return {};
}

/// h = Σ over the chosen experts of weight · dense_expert(h).
Status emit_experts(Forward& f, const LlamaSlots& s, SlotId result, int layer) {
    const ModelConfig& c = f.config;
    BALLAST_TRY(const UnitId router,
                f.weights.matrix(layer_tensor(layer, "ffn_gate_inp"), c.n_experts, c.width));
    BALLAST_TRY(
        const UnitId gate,
        f.weights.stacked(layer_tensor(layer, "ffn_gate_exps"), c.n_experts, c.ffn_width, c.width));
    BALLAST_TRY(
        const UnitId up,
        f.weights.stacked(layer_tensor(layer, "ffn_up_exps"), c.n_experts, c.ffn_width, c.width));
    BALLAST_TRY(
        const UnitId down,
        f.weights.stacked(layer_tensor(layer, "ffn_down_exps"), c.n_experts, c.width, c.ffn_width));
    f.ops.add(backend::Router{
        .in = s.h, .weight = router, .n_experts = c.n_experts, .n_used = c.n_experts_used});
    f.ops.add(backend::Experts{.in = s.h,
                               .out = result,
                               .gate = gate,
                               .up = up,
                               .down = down,
                               .n_experts = c.n_experts,
                               .n_used = c.n_experts_used,
                               .width = c.width,
                               .ffn_width = c.ffn_width,
                               .activation = backend::Activation::kSilu});
    return {};
}

}  // namespace

Result<SlotId> emit_llama(Forward f) {
    const ModelConfig& c = f.config;
    const LlamaSlots s = make_slots(f.ops, c);
    const SlotId result = c.n_experts > 0 ? f.ops.slot(c.width) : s.h;
    BALLAST_TRY(RopeTable rates,
                make_rope_table(f.weights, c.n_rotated, c.rope_base, c.rope_scale));
    const int rope_table = f.ops.rope_table(std::move(rates));

    f.ops.begin_layer(-1);
    BALLAST_TRY(const UnitId embedding,
                f.weights.matrix("token_embd.weight", c.vocabulary, c.width));
    f.ops.add(backend::Embed{.table = embedding, .out = s.x});

    for (int layer = 0; layer < c.n_layers; ++layer) {
        f.ops.begin_layer(layer);
        BALLAST_TRY_STATUS(emit_attention(f, s, layer, rope_table));
        BALLAST_TRY(const UnitId norm, f.weights.vector(layer_tensor(layer, "ffn_norm"), c.width));
        f.ops.begin_group(backend::OpGroup::kFeedForward);
        f.ops.add(backend::RmsNorm{
            .in = s.x, .out = s.h, .weight = norm, .width = c.width, .epsilon = c.rms_epsilon});
        BALLAST_TRY_STATUS(c.n_experts > 0 ? emit_experts(f, s, result, layer)
                                           : emit_dense(f, s, layer));
        f.ops.add(backend::Add{.x = s.x, .y = result, .width = c.width});
    }
    return emit_head(f, s.x, embedding);
}

}  // namespace ballast::model
