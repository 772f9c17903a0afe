// SPDX-License-Identifier: MIT
// The operations a model's forward pass is made of. They are coarse and few, so that each backend
// is small. An op names activation slots and weight units by number; the number of token rows is
// that of the step it runs in. Executors bind the numbers to memory (step_context.h).
#pragma once

#include <array>
#include <cstdint>
#include <variant>

namespace ballast::backend {

/// An activation buffer of one step: [rows, width of the slot], float32.
using SlotId = std::int32_t;
/// A weight tensor of the model, as Weights numbers them.
using UnitId = std::int32_t;
constexpr UnitId kNoUnit = -1;

enum class Activation { kSilu, kGeluTanh };

/// out[row] = table[token of row] · scale.
struct Embed {
    UnitId table = kNoUnit;
    SlotId out = 0;
    float scale = 1.0F;
};

/// Each of n_groups consecutive vectors of a row is divided by its root mean square and multiplied
/// by the weight (Zhang and Sennrich 2019). weight: [width]. out may be in.
struct RmsNorm {
    SlotId in = 0;
    SlotId out = 0;
    UnitId weight = kNoUnit;
    int width = 0;
    int n_groups = 1;
    float epsilon = 0.0F;
};

/// outs[i][row] = weights[i] · in[row] for up to three matrices that read the same rows, which are
/// packed once: q, k and v, or gate and up.
struct Linear {
    SlotId in = 0;
    int n_matrices = 1;
    std::array<UnitId, 3> weights = {kNoUnit, kNoUnit, kNoUnit};
    std::array<SlotId, 3> outs = {0, 0, 0};
};

/// Rotary position embedding of query and key heads in place (Su et al. 2021). table: which of the
/// model's rope tables.
struct Rope {
    SlotId q = 0;
    SlotId k = 0;
    int n_heads = 0;
    int n_kv_heads = 0;
    int head_dim = 0;
    int n_rotated = 0;
    int table = 0;
    bool interleaved = false;
};

/// Writes the rows' keys and values into their KV blocks, then out[row] = softmax attention of each
/// query head over its sequence up to the row's own position (window > 0: its last `window`
/// positions only). The slots have n_kv_heads key-value heads and their query heads, which in the
/// cache are those from first_kv_head on.
struct Attention {
    SlotId q = 0;
    SlotId k = 0;
    SlotId v = 0;
    SlotId out = 0;
    int layer = 0;
    int n_heads = 0;
    int first_kv_head = 0;
    int n_kv_heads = 0;
    int head_dim = 0;
    int window = 0;
    float scale = 1.0F;
};

/// out = activation(gate) · up. out may be gate.
struct GatedActivation {
    SlotId gate = 0;
    SlotId up = 0;
    SlotId out = 0;
    int width = 0;
    Activation activation = Activation::kSilu;
};

/// x += y.
struct Add {
    SlotId x = 0;
    SlotId y = 0;
    int width = 0;
};

/// Chooses experts for each row: softmax over all router logits, the n_used largest, their weights
/// divided by their sum (Jiang et al. 2024, Mixtral). choice: [2 · n_used], see expert_choice.h.
struct Router {
    SlotId in = 0;
    SlotId choice = 0;
    UnitId weight = kNoUnit;
    int n_experts = 0;
    int n_used = 0;
};

/// out[row] = Σ over the row's experts of weight · down(activation(gate(in)) · up(in)), summed in
/// the order of the router's ranks; over those of them that are here where StepContext::experts
/// says which are, so that two sides can share an op and add their results. Units are stacked: one
/// slice an expert that is here.
struct Experts {
    SlotId in = 0;
    SlotId choice = 0;
    SlotId out = 0;
    UnitId gate = kNoUnit;
    UnitId up = kNoUnit;
    UnitId down = kNoUnit;
    int layer = 0;
    int n_experts = 0;
    int n_used = 0;
    int width = 0;
    int ffn_width = 0;
    Activation activation = Activation::kSilu;
};

/// Copies the rows whose logits are wanted to the front of out; the ops after it see only those.
struct GatherOutputs {
    SlotId in = 0;
    SlotId out = 0;
    int width = 0;
};

using Op = std::variant<Embed,
                        RmsNorm,
                        Linear,
                        Rope,
                        Attention,
                        GatedActivation,
                        Add,
                        Router,
                        Experts,
                        GatherOutputs>;

/// Which rows of the step an op works on.
enum class RowDomain { kAll, kOutputs };

/// Ops that belong together and are placed as one item; breaking one up costs device hops.
enum class OpGroup { kEmbedding, kAttention, kFeedForward, kHead };

/// One op in a model's list.
struct OpRecord {
    Op op;
    RowDomain rows = RowDomain::kAll;
    OpGroup group = OpGroup::kEmbedding;
    int layer = -1;  // −1 before the first, n_layers after the last
};

}  // namespace ballast::backend
