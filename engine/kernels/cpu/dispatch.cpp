// SPDX-License-Identifier: MIT
// Picks the kernel table once: the best this processor runs, or the one that was forced.
#include <array>

#include "engine/kernels/cpu/tables.h"

namespace ballast::kernels {
namespace {

constexpr std::array kBestFirst = {Isa::kAvx512, Isa::kAvx2, Isa::kScalar};

bool processor_has(Isa isa) {
    // Asked once: the answer reads a file and cannot change.
    static const CpuFeatures features = detect_cpu_features();
    switch (isa) {
        case Isa::kScalar:
            return true;
        case Isa::kAvx2:
            return features.avx2;
        case Isa::kAvx512:
            return features.avx512;
    }
    return false;
}

const KernelTable* built_table(Isa isa) {
    switch (isa) {
        case Isa::kScalar:
            return scalar_table();
        case Isa::kAvx2:
            return avx2_table();
        case Isa::kAvx512:
            return avx512_table();
    }
    return nullptr;
}

}  // namespace

const KernelTable* find_kernels(Isa isa) {
    return processor_has(isa) ? built_table(isa) : nullptr;
}

Result<const KernelTable*> choose_kernels(const std::string& forced) {
    if (forced.empty()) {
        for (const Isa isa : kBestFirst) {
            if (const KernelTable* table = find_kernels(isa)) {
                return table;
            }
        }
        return fail(ErrorCode::kInternal, "no kernel table was built");
    }
    std::string known;
    for (const Isa isa : kBestFirst) {
        if (forced == isa_name(isa)) {
            if (const KernelTable* table = find_kernels(isa)) {
                return table;
            }
            return fail(ErrorCode::kUnsupported,
                        "the instruction set '" + forced +
                            "' was asked for, but this processor or this build lacks it; unset "
                            "BALLAST_FORCE_ISA to use the best one");
        }
        known += known.empty() ? "" : ", ";
        known += isa_name(isa);
    }
    return fail(ErrorCode::kUnsupported,
                "the instruction set '" + forced + "' is not one of " + known);
}

void dequantize_row(quant::QuantType type, const std::byte* row, std::size_t n, float* out) {
    quant::traits(type).dequantize(row, n, out);
}

}  // namespace ballast::kernels
