// SPDX-License-Identifier: MIT
// The pieces of a layer that the families share.
#include "engine/model/forward.h"

namespace ballast::model {

using backend::SlotId;
using backend::UnitId;

BlockSlots make_slots(Forward& f) {
    const ModelConfig& c = f.config;
    return {.x = f.ops.slot(c.width),
            .h = f.ops.slot(c.width),
            .q = f.ops.slot(c.n_heads * c.head_dim),
            .k = f.ops.slot(c.n_kv_heads * c.head_dim),
            .v = f.ops.slot(c.n_kv_heads * c.head_dim),
            .a = f.ops.slot(c.n_heads * c.head_dim),
            .gate = f.ops.slot(c.ffn_width),
            .up = f.ops.slot(c.ffn_width)};
}

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

Status emit_queries_keys_values(Forward& f, const BlockSlots& s, int layer) {
    const ModelConfig& c = f.config;
    const int n_kv = c.n_kv_heads * c.head_dim;
    BALLAST_TRY(const UnitId wq,
                f.weights.matrix(layer_tensor(layer, "attn_q"), c.n_heads * c.head_dim, c.width));
    BALLAST_TRY(const UnitId wk, f.weights.matrix(layer_tensor(layer, "attn_k"), n_kv, c.width));
    BALLAST_TRY(const UnitId wv, f.weights.matrix(layer_tensor(layer, "attn_v"), n_kv, c.width));
    f.ops.add(backend::Linear{
        .in = s.h, .n_matrices = 3, .weights = {wq, wk, wv}, .outs = {s.q, s.k, s.v}});
    return {};
}

Status emit_attention_output(Forward& f, const BlockSlots& s, int layer) {
    const ModelConfig& c = f.config;
    BALLAST_TRY(
        const UnitId wo,
        f.weights.matrix(layer_tensor(layer, "attn_output"), c.width, c.n_heads * c.head_dim));
    f.ops.add(backend::Linear{.in = s.a, .weights = {wo}, .outs = {s.h}});
    return {};
}

Status emit_dense(Forward& f, const BlockSlots& s, int layer, backend::Activation activation) {
    const ModelConfig& c = f.config;
    BALLAST_TRY(const UnitId gate,
                f.weights.matrix(layer_tensor(layer, "ffn_gate"), c.ffn_width, c.width));
    BALLAST_TRY(const UnitId up,
                f.weights.matrix(layer_tensor(layer, "ffn_up"), c.ffn_width, c.width));
    BALLAST_TRY(const UnitId down,
                f.weights.matrix(layer_tensor(layer, "ffn_down"), c.width, c.ffn_width));
    f.ops.add(
        backend::Linear{.in = s.h, .n_matrices = 2, .weights = {gate, up}, .outs = {s.gate, s.up}});
    f.ops.add(backend::GatedActivation{
        .gate = s.gate, .up = s.up, .out = s.gate, .width = c.ffn_width, .activation = activation});
    f.ops.add(backend::Linear{.in = s.gate, .weights = {down}, .outs = {s.h}});
    return {};
}

}  // namespace ballast::model
