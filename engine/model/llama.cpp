// SPDX-License-Identifier: MIT
// The forward pass of the llama family, in the order of the paper.
#include "engine/model/forward.h"

#include <cmath>

#include "engine/backend/expert_choice.h"

namespace ballast::model {

using backend::SlotId;
using backend::UnitId;

namespace {

/// x += W_o · attention(rope(W_q h), rope(W_k h), W_v h), h = norm(x).
Status emit_attention(Forward& f, const BlockSlots& s, int layer, int rope_table) {
    const ModelConfig& c = f.config;
    f.ops.begin_group(backend::OpGroup::kAttention);
    BALLAST_TRY_STATUS(emit_norm(f, layer_tensor(layer, "attn_norm"), s.x, s.h, c.width, 1));
    BALLAST_TRY_STATUS(emit_queries_keys_values(f, s, layer));
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
    BALLAST_TRY_STATUS(emit_attention_output(f, s, layer));
    f.ops.add(backend::Add{.x = s.x, .y = s.h, .width = c.width});
    return {};
}

/// h = Σ over the chosen experts of weight · dense_expert(h).
Status emit_experts(Forward& f, const BlockSlots& s, SlotId choice, SlotId result, int layer) {
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
    f.ops.add(backend::Router{.in = s.h,
                              .choice = choice,
                              .weight = router,
                              .n_experts = c.n_experts,
                              .n_used = c.n_experts_used});
    f.ops.add(backend::Experts{.in = s.h,
                               .choice = choice,
                               .out = result,
                               .gate = gate,
                               .up = up,
                               .down = down,
                               .layer = layer,
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
    const BlockSlots s = make_slots(f);
    const SlotId result = c.n_experts > 0 ? f.ops.slot(c.width) : s.h;
    const SlotId choice =
        c.n_experts > 0 ? f.ops.slot(backend::choice_width(c.n_experts_used)) : SlotId{0};
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
        f.ops.begin_group(backend::OpGroup::kFeedForward);
        BALLAST_TRY_STATUS(emit_norm(f, layer_tensor(layer, "ffn_norm"), s.x, s.h, c.width, 1));
        BALLAST_TRY_STATUS(c.n_experts > 0 ? emit_experts(f, s, choice, result, layer)
                                           : emit_dense(f, s, layer, backend::Activation::kSilu));
        f.ops.add(backend::Add{.x = s.x, .y = result, .width = c.width});
    }
    return emit_head(f, s.x, embedding);
}

}  // namespace ballast::model
