// SPDX-License-Identifier: MIT
// Stands in for the AVX2 table where the processor family has none.
#include "engine/kernels/cpu/tables.h"

namespace ballast::kernels {

const KernelTable* avx2_table() {
    return nullptr;
}

}  // namespace ballast::kernels
