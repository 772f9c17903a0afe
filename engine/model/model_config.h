// SPDX-License-Identifier: MIT
// The hyper-parameters of a model, read from GGUF metadata and checked before anything uses them.
// Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/result.h"
#include "engine/gguf/metadata.h"

namespace ballast::model {

/// Numbers of one architecture; all are in range and fit together after read_model_config().
struct ModelConfig {
    std::string architecture;  // "llama", "gemma3"
    std::string name;          // general.name, or the architecture
    int n_layers = 0;
    int width = 0;  // embedding length
    int n_heads = 0;
    int n_kv_heads = 0;  // divides n_heads
    int head_dim = 0;
    int n_rotated = 0;  // leading elements of a head that rope turns
    int ffn_width = 0;
    int vocabulary = 0;
    int context_length = 0;  // trained
    float rms_epsilon = 0.0F;
    float rope_base = 10000.0F;
    float rope_scale = 1.0F;  // positions are divided by it (linear scaling)
    // Sliding window: layers l with (l + 1) % window_period != 0 see the last `window` positions
    // and use window_rope_base. 0: no layer does.
    int window = 0;
    int window_period = 0;
    float window_rope_base = 10000.0F;
    int n_experts = 0;  // 0: dense
    int n_experts_used = 0;

    bool windowed(int layer) const { return window > 0 && (layer + 1) % window_period != 0; }
};

/// Errors: kCorruptFile or kUnsupported, naming the key.
Result<ModelConfig> read_model_config(const gguf::Metadata& metadata);

}  // namespace ballast::model
