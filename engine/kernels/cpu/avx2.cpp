// SPDX-License-Identifier: MIT
// The AVX2 table. Its kernels are in the files beside it, one per family of operations.
#include "engine/kernels/cpu/avx2.h"

#include "engine/kernels/cpu/packed_activations.h"
#include "engine/kernels/cpu/tables.h"

namespace ballast::kernels {
namespace avx2 {
namespace {

LinearKernels linear(quant::QuantType type) {
    if (LinearKernel kernel = matvec(type)) {
        return {.form = ActivationForm::kPacked, .matvec = kernel, .matmul = matmul(type)};
    }
    return float_linear(type);
}

}  // namespace
}  // namespace avx2

const KernelTable* avx2_table() {
    static const KernelTable table = {
        .isa = Isa::kAvx2,
        .linear = avx2::linear,
        .packed_bytes = packed_column_bytes,
        .pack = avx2::pack,
        .matmul_scratch_bytes = avx2::matmul_scratch_bytes,
        .attention_scratch_bytes = avx2::kAttentionScratchBytes,
        .dequantize_row = dequantize_row,
        .rms_norm = avx2::rms_norm,
        .add = avx2::add,
        .silu_multiply = avx2::silu_multiply,
        .gelu_multiply = avx2::gelu_multiply,
        .rope = avx2::rope,
        .store_kv = avx2::store_kv,
        .attention = avx2::attention,
    };
    return &table;
}

}  // namespace ballast::kernels
