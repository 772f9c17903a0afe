// SPDX-License-Identifier: MIT
// What the families' forward functions share: shorthand to emit ops and to look weights up.
#pragma once

#include <string>

#include <fmt/format.h>

#include "engine/model/model_config.h"
#include "engine/model/ops_list.h"
#include "engine/model/weights.h"

namespace ballast::model {

/// Where a forward function emits to.
struct Forward {
    const ModelConfig& config;
    Weights& weights;
    OpsList& ops;
};

/// "blk.3.attn_q.weight".
inline std::string layer_tensor(int layer, std::string_view name) {
    return fmt::format("blk.{}.{}.weight", layer, name);
}

/// Rates of rotary embedding: base^(−2i/n) / scale, and divided by the model's own divisors where
/// it has them (rope_freqs.weight of Llama 3.1).
Result<RopeTable> make_rope_table(Weights& weights, int n_rotated, float base, float scale);

/// Activation slots of one pass.
struct BlockSlots {
    backend::SlotId x;     // [width] the residual stream
    backend::SlotId h;     // [width] its norm, later a block's result
    backend::SlotId q;     // [n_heads · head_dim]
    backend::SlotId k;     // [n_kv_heads · head_dim]
    backend::SlotId v;     // [n_kv_heads · head_dim]
    backend::SlotId a;     // [n_heads · head_dim] attention
    backend::SlotId gate;  // [ffn_width]
    backend::SlotId up;    // [ffn_width]
};
BlockSlots make_slots(Forward& forward);

/// to = norm(from) · weight over n_groups vectors of the given width.
Status emit_norm(Forward& forward,
                 const std::string& tensor,
                 backend::SlotId from,
                 backend::SlotId to,
                 int width,
                 int n_groups);

/// q = W_q h, k = W_k h, v = W_v h.
Status emit_queries_keys_values(Forward& forward, const BlockSlots& slots, int layer);

/// h = W_o a.
Status emit_attention_output(Forward& forward, const BlockSlots& slots, int layer);

/// h = W_down (activation(W_gate h) · W_up h).
Status emit_dense(Forward& forward,
                  const BlockSlots& slots,
                  int layer,
                  backend::Activation activation);

/// llama: Touvron et al. 2023 (arXiv:2302.13971), with grouped-query attention and, where the file
/// has experts, the sparse feed-forward of Mixtral (arXiv:2401.04088). Returns the logits' slot.
Result<backend::SlotId> emit_llama(Forward forward);

/// gemma3: Gemma 3 technical report (arXiv:2503.19786). Returns the logits' slot.
Result<backend::SlotId> emit_gemma3(Forward forward);

/// Output norm and head over the rows whose logits are wanted; the head is the embedding table
/// where the file has no output.weight. Returns the logits' slot.
Result<backend::SlotId> emit_head(Forward forward, backend::SlotId x, backend::UnitId embedding);

}  // namespace ballast::model
