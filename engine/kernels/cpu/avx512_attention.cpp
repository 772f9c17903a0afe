// SPDX-License-Identifier: MIT
// Attention (simd_attention.h) with 16 lanes.
#include "engine/kernels/cpu/avx512.h"
#include "engine/kernels/cpu/avx512_simd.h"
#include "engine/kernels/cpu/simd_attention.h"

namespace ballast::kernels::avx512 {

const std::size_t kAttentionScratchBytes = sizeof(simd::Attention<Simd>::Scratch);

void attention(const AttentionArgs& args) {
    simd::Attention<Simd>::run(args);
}

}  // namespace ballast::kernels::avx512
