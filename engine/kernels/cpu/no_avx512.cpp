// SPDX-License-Identifier: MIT
// Stands in for the AVX512 table where the processor family has none.
#include "engine/kernels/cpu/tables.h"

namespace ballast::kernels {

const KernelTable* avx512_table() {
    return nullptr;
}

}  // namespace ballast::kernels
