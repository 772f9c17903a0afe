// SPDX-License-Identifier: MIT
// The AVX2 table's parts. Needs AVX2, FMA and F16C.
#pragma once

#include "engine/kernels/cpu/kernel_table.h"

namespace ballast::kernels::avx2 {

using LinearKernel = void (*)(const LinearArgs&);

LinearKernel matvec(quant::QuantType type);  // packed types
LinearKernel matmul(quant::QuantType type);  // packed types
LinearKernels float_linear(quant::QuantType type);

void pack(const float* x, std::size_t k, std::byte* out);
std::size_t matmul_scratch_bytes(std::size_t k);
extern const std::size_t kAttentionScratchBytes;

void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon, float* out);
void add(float* x, const float* y, std::size_t n);
void silu_multiply(const float* gate, const float* up, std::size_t n, float* out);
void gelu_multiply(const float* gate, const float* up, std::size_t n, float* out);
void rope(float* head, const float* cos, const float* sin, std::size_t n_rotated, bool interleaved);
void store_kv(const float* x, std::size_t n, KvType type, std::byte* out);
void attention(const AttentionArgs& args);

/// Panel of float or packed weights that matmul unpacks for itself.
constexpr std::size_t kPanelBytes = 10U * 1024;

}  // namespace ballast::kernels::avx2
