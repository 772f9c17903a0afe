// SPDX-License-Identifier: MIT
// A model by its published dimensions: enough to know every tensor's size, without a file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "scheduler/profile/tensor_catalog.h"

namespace ballast::scheduler {

/// Plain data; README.md has the meaning of each figure. Per-layer rules are resolved to one flag a
/// layer.
struct ModelShape {
    struct Attention {
        int heads = 0;
        int kv_heads = 0;
        int head_length = 0;
        int window = 0;                   // 0: none
        std::vector<bool> windowed = {};  // by layer
        bool output_gate = false;
    };
    struct Experts {
        int count = 0;
        int used = 0;
        int length = 0;
        int shared_length = 0;
        bool bias = false;
        std::vector<bool> in_layer = {};
    };
    struct LinearAttention {
        int key_heads = 0;
        int value_heads = 0;
        int key_length = 0;
        int value_length = 0;
        int conv_kernel = 0;
        std::int64_t state_elements = 0;
        std::int64_t conv_state_elements = 0;
        std::vector<bool> in_layer = {};
    };

    std::string name = {};
    std::string description = {};
    std::string architecture = {};
    int layers = 0;
    int embedding_length = 0;
    int vocabulary = 0;
    bool tied_embeddings = false;
    int context_length = 0;
    int norms_per_layer = 0;
    std::string default_quant = {};
    Attention attention = {};
    int ffn_length = 0;  // 0: every layer has experts
    std::optional<Experts> experts = {};
    std::optional<LinearAttention> linear_attention = {};
};

/// The quantisations a shape can be asked for: "Q4_K_M", "MXFP4", "F16", …
std::vector<std::string> shape_quants();

/// The catalog of the file that llama.cpp's quantiser makes of this model (README.md has its
/// rules); quant "" is the shape's default. kNotFound naming the possible ones.
Result<TensorCatalog> catalog_of(const ModelShape& shape, const std::string& quant);

}  // namespace ballast::scheduler
