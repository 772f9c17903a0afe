// SPDX-License-Identifier: MIT
// The scalar table and its plain element-wise kernels. Every other table is tested against it.
#include "engine/kernels/cpu/scalar.h"

#include <cmath>
#include <cstring>

#include "engine/kernels/cpu/packed_activations.h"
#include "engine/kernels/cpu/tables.h"
#include "engine/quant/float16.h"

namespace ballast::kernels {
namespace scalar {

void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon, float* out) {
    double sum = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    const double mean = sum / static_cast<double>(n);
    const auto scale = static_cast<float>(1.0 / std::sqrt(mean + static_cast<double>(epsilon)));
    for (std::size_t i = 0; i < n; ++i) {
        out[i] = x[i] * scale * weight[i];
    }
}

void add(float* x, const float* y, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        x[i] += y[i];
    }
}

void silu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
    for (std::size_t i = 0; i < n; ++i) {
        out[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
    }
}

void gelu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
    // x/2 · (1 + tanh u) = x / (1 + exp(−2u)), without the cancellation for negative x.
    constexpr float kTwoRootTwoOverPi = 1.5957691216057308F;
    constexpr float kCubic = 0.044715F;
    for (std::size_t i = 0; i < n; ++i) {
        const float x = gate[i];
        const float two_u = kTwoRootTwoOverPi * x * (1.0F + kCubic * x * x);
        out[i] = x / (1.0F + std::exp(-two_u)) * up[i];
    }
}

void rope(
    float* head, const float* cos, const float* sin, std::size_t n_rotated, bool interleaved) {
    const std::size_t n_pairs = n_rotated / 2;
    for (std::size_t i = 0; i < n_pairs; ++i) {
        float& a = head[interleaved ? 2 * i : i];
        float& b = head[interleaved ? 2 * i + 1 : i + n_pairs];
        const float rotated = a * cos[i] - b * sin[i];
        b = a * sin[i] + b * cos[i];
        a = rotated;
    }
}

void store_kv(const float* x, std::size_t n, KvType type, std::byte* out) {
    if (type == KvType::kF32) {
        std::memcpy(out, x, n * sizeof(float));
        return;
    }
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint16_t half = quant::float_to_half(x[i]);
        std::memcpy(out + i * sizeof half, &half, sizeof half);
    }
}

}  // namespace scalar

const KernelTable* scalar_table() {
    static constexpr KernelTable kTable = {
        .isa = Isa::kScalar,
        .linear = scalar::linear,
        .packed_bytes = packed_column_bytes,
        .pack = scalar::pack,
        .matmul_scratch_bytes = scalar::matmul_scratch_bytes,
        .attention_scratch_bytes = 64,
        .dequantize_row = dequantize_row,
        .rms_norm = scalar::rms_norm,
        .add = scalar::add,
        .silu_multiply = scalar::silu_multiply,
        .gelu_multiply = scalar::gelu_multiply,
        .rope = scalar::rope,
        .store_kv = scalar::store_kv,
        .attention = scalar::attention,
    };
    return &kTable;
}

}  // namespace ballast::kernels
