// SPDX-License-Identifier: MIT
// Attention (simd_attention.h) with 8 lanes.
#include "engine/kernels/cpu/avx2.h"
#include "engine/kernels/cpu/avx2_simd.h"
#include "engine/kernels/cpu/simd_attention.h"

namespace ballast::kernels::avx2 {

const std::size_t kAttentionScratchBytes = sizeof(simd::Attention<Simd>::Scratch);

void attention(const AttentionArgs& args) {
    simd::Attention<Simd>::run(args);
}

}  // namespace ballast::kernels::avx2
