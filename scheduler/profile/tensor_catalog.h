// SPDX-License-Identifier: MIT
// What the scheduler knows of a model: its groups of tensors in order of use, with bytes and
// arithmetic, and no pointers. It comes from a shape (model_store.h) or from a GGUF header
// (engine/model/tensor_catalog.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ballast::scheduler {

/// What belongs together and is placed and split as one item: breaking it up costs device hops.
enum class GroupKind {
    kAttention,    // norm, q·k·v, attention over the KV cache (or a recurrent state), output
    kFeedForward,  // norm, gate, up, down
    kExperts,      // norm, router, the experts that are always used, the routed ones
    kHead,         // norm and logits
};

/// One group. All bytes are of the file's quantised weights.
struct TensorGroup {
    GroupKind kind = GroupKind::kFeedForward;
    int layer = -1;  // −1: the head
    /// Equal pieces it can be cut into: KV heads, rows of neurons at block multiples, rows of the
    /// head, routed experts. 1: it cannot be cut.
    int parts = 1;
    std::uint64_t weight_bytes = 0;  // read every step, whatever is routed
    std::uint64_t weights = 0;       // their number: one multiply-add each a token

    // Attention.
    std::uint64_t kv_bytes_per_token = 0;  // keys and values of all KV heads
    int window = 0;                        // positions a token sees; 0: all
    int attention_width = 0;               // query heads · head length
    std::uint64_t state_bytes = 0;         // a recurrent state, read and kept whole

    // Experts; parts is their number.
    int experts_used = 0;
    std::uint64_t expert_bytes = 0;  // of one
    std::uint64_t expert_weights = 0;

    friend bool operator==(const TensorGroup&, const TensorGroup&) = default;
    /// All but the layer: groups of one type cost the same.
    TensorGroup type() const {
        TensorGroup of_any_layer = *this;
        of_any_layer.layer = -1;
        return of_any_layer;
    }
};

/// Immutable once made.
struct TensorCatalog {
    std::string name = {};
    std::string description = {};
    int width = 0;  // of the residual
    int n_layers = 0;
    int context_length = 0;             // trained
    std::uint64_t embedding_bytes = 0;  // gathered by row on the CPU, never on a device
    std::vector<TensorGroup> groups = {};

    /// Bytes of all weights, the embedding among them.
    std::uint64_t total_bytes() const;
    /// Bytes of one token's keys and values.
    std::uint64_t kv_bytes_per_token() const;
    std::uint64_t state_bytes() const;
    bool has_experts() const;
};

}  // namespace ballast::scheduler
