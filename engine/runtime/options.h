// SPDX-License-Identifier: MIT
// What a user may set about the engine; composed into the configuration by config/.
#pragma once

#include <string>

namespace ballast::runtime {

struct EngineOptions {
    int threads = 0;              // compute threads; 0: one per core
    int context = 0;              // tokens one request may use; 0: the model's own, 8192 at most
    int parallel = 4;             // sequences that run at the same time
    int prefill_chunk = 512;      // prompt tokens of one micro-batch; a multiple of 64
    std::string kv_type = "f16";  // "f16" or "f32"
    std::string force_isa = {};   // "" or a name of engine/base/cpu_features.h
};

}  // namespace ballast::runtime
