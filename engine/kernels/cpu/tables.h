// SPDX-License-Identifier: MIT
// The tables that dispatch.cpp chooses among. Those that this build lacks return null.
#pragma once

#include "engine/kernels/cpu/kernel_table.h"

namespace ballast::kernels {

const KernelTable* scalar_table();
const KernelTable* avx2_table();
const KernelTable* avx512_table();

/// choose_kernels for a processor with these features (tests take some away).
Result<const KernelTable*> choose_kernels_for(const CpuFeatures& features,
                                              const std::string& forced);

/// Query rows that attention carries through the blocks of keys together. A row's bits do not
/// depend on it; it bounds the scratch.
constexpr int kAttentionRowsMax = 64;
constexpr std::size_t kHeadDimMax = 256;

/// Equal in every table: the formats' specification in engine/quant.
void dequantize_row(quant::QuantType type, const std::byte* row, std::size_t n, float* out);

}  // namespace ballast::kernels
