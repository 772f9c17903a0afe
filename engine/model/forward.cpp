// SPDX-License-Identifier: MIT
// The pieces of a layer that the families share.
#include "engine/model/forward.h"

#include <cmath>

#include <fmt/format.h>

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

Result<RopeTable> make_rope_table(Weights& weights, int n_rotated, float base, float scale) {
    RopeTable table;
    const float* divisors = nullptr;
    if (weights.has("rope_freqs.weight")) {
        BALLAST_TRY(const backend::UnitId unit, weights.vector("rope_freqs.weight", n_rotated / 2));
        divisors = weights.views()[static_cast<std::size_t>(unit)].floats();
    }
    for (int i = 0; i < n_rotated / 2; ++i) {
        const double divisor = divisors == nullptr ? 1.0 : static_cast<double>(divisors[i]);
        if (!std::isfinite(divisor) || divisor <= 0.0) {
            return fail(
                ErrorCode::kCorruptFile,
                fmt::format("tensor rope_freqs.weight has the value {}, but must be above 0",
                            divisor));
        }
        table.rates.push_back(std::pow(static_cast<double>(base), -2.0 * i / n_rotated) /
                              (static_cast<double>(scale) * divisor));
    }
    return table;
}

Result<backend::SlotId> emit_head(Forward f, backend::SlotId x, backend::UnitId embedding) {
    const ModelConfig& c = f.config;
    const backend::SlotId last = f.ops.slot(c.width, backend::RowDomain::kOutputs);
    const backend::SlotId logits = f.ops.slot(c.vocabulary, backend::RowDomain::kOutputs);
    f.ops.begin_layer(c.n_layers);
    f.ops.begin_group(backend::OpGroup::kHead);
    f.ops.begin_outputs();
    BALLAST_TRY(const backend::UnitId norm, f.weights.vector("output_norm.weight", c.width));
    backend::UnitId head = embedding;
    if (f.weights.has("output.weight")) {
        BALLAST_TRY(head, f.weights.matrix("output.weight", c.vocabulary, c.width));
    }
    f.ops.add(backend::GatherOutputs{.in = x, .out = last, .width = c.width});
    f.ops.add(backend::RmsNorm{
        .in = last, .out = last, .weight = norm, .width = c.width, .epsilon = c.rms_epsilon});
    f.ops.add(backend::Linear{.in = last, .weights = {head}, .outs = {logits}});
    return logits;
}

}  // namespace ballast::model
