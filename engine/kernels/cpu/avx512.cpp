// SPDX-License-Identifier: MIT
// The AVX-512 table. Its kernels are in the files beside it, one per family of operations.
#include "engine/kernels/cpu/avx512.h"

#include "engine/kernels/cpu/packed_activations.h"
#include "engine/kernels/cpu/tables.h"

namespace ballast::kernels {
namespace avx512 {
namespace {

LinearKernels linear(quant::QuantType type) {
    if (LinearKernel kernel = matvec(type)) {
        return {.form = ActivationForm::kPacked, .matvec = kernel, .matmul = matmul(type)};
    }
    return float_linear(type);
}

}  // namespace
}  // namespace avx512

const KernelTable* avx512_table() {
    static const KernelTable table = {
        .isa = Isa::kAvx512,
        .linear = avx512::linear,
        .packed_bytes = packed_column_bytes,
        .pack = avx512::pack,
        .matmul_scratch_bytes = avx512::matmul_scratch_bytes,
        .attention_scratch_bytes = avx512::kAttentionScratchBytes,
        .dequantize_row = dequantize_row,
        .rms_norm = avx512::rms_norm,
        .add = avx512::add,
        .silu_multiply = avx512::silu_multiply,
        .gelu_multiply = avx512::gelu_multiply,
        .rope = avx512::rope,
        .store_kv = avx512::store_kv,
        .attention = avx512::attention,
    };
    return &table;
}

}  // namespace ballast::kernels
