// SPDX-License-Identifier: MIT
// The scalar table's parts.
#pragma once

#include "engine/kernels/cpu/kernel_table.h"

namespace ballast::kernels::scalar {

LinearKernels linear(quant::QuantType type);
void pack(const float* x, std::size_t k, std::byte* out);
std::size_t matmul_scratch_bytes(std::size_t k);

void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon, float* out);
void add(float* x, const float* y, std::size_t n);
void silu_multiply(const float* gate, const float* up, std::size_t n, float* out);
void gelu_multiply(const float* gate, const float* up, std::size_t n, float* out);
void rope(float* head, const float* cos, const float* sin, std::size_t n_rotated, bool interleaved);
void store_kv(const float* x, std::size_t n, KvType type, std::byte* out);

void attention(const AttentionArgs& args);

}  // namespace ballast::kernels::scalar
