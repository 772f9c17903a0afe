// SPDX-License-Identifier: MIT
// Picks the kernel table once: the best this processor runs, or the one that was forced.
#include <array>

#include "engine/kernels/cpu/tables.h"

namespace ballast::kernels {
namespace {

constexpr std::array kBestFirst = {Isa::kAvx512, Isa::kAvx2, Isa::kScalar};

// Asked once: the answer reads a file and cannot change.
const CpuFeatures& this_processor() {
    static const CpuFeatures kFeatures = detect_cpu_features();
    return kFeatures;
}

bool has(const CpuFeatures& features, Isa isa) {
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
    return has(this_processor(), isa) ? built_table(isa) : nullptr;
}

Result<const KernelTable*> choose_kernels(const std::string& forced) {
    return choose_kernels_for(this_processor(), forced);
}

Result<const KernelTable*> choose_kernels_for(const CpuFeatures& features,
                                              const std::string& forced) {
    std::string known;
    for (const Isa isa : kBestFirst) {
        const KernelTable* table = has(features, isa) ? built_table(isa) : nullptr;
        if (forced.empty() && table != nullptr) {
            return table;
        }
        if (forced == isa_name(isa)) {
            if (table != nullptr) {
                return table;
            }
            return fail(ErrorCode::kUnsupported,
                        "the instruction set '" + forced +
                            "' was asked for, but this processor or this build lacks it; leave "
                            "engine.force_isa empty to use the best one");
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
