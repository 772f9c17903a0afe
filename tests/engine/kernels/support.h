// SPDX-License-Identifier: MIT
// What the kernel tests share: the tables that run here, weights of every kind of awkwardness, and
// one call of a matrix product with poisoned surroundings.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/aligned_buffer.h"
#include "engine/base/rng.h"
#include "engine/kernels/cpu/kernel_table.h"

namespace ballast::kernels::test {

/// Tables this machine runs, scalar first.
std::vector<const KernelTable*> available_tables();

/// Names a parameterised test after its table.
inline std::string table_name(const testing::TestParamInfo<const KernelTable*>& table) {
    return isa_name(table.param->isa);
}

/// Weight types that have kernels.
std::vector<quant::QuantType> weight_types();
std::string type_name(quant::QuantType type);

/// How the blocks of a weight matrix are made.
enum class Weights { kRandom, kExtremeCodes, kZeroScales, kTinyScales, kHugeScales };
constexpr Weights kAllWeights[] = {Weights::kRandom,
                                   Weights::kExtremeCodes,
                                   Weights::kZeroScales,
                                   Weights::kTinyScales,
                                   Weights::kHugeScales};

/// How the activations of a column are made.
enum class Activations { kRandom, kZero, kExtreme, kOutlier, kTiny };
constexpr Activations kAllActivations[] = {Activations::kRandom,
                                           Activations::kZero,
                                           Activations::kExtreme,
                                           Activations::kOutlier,
                                           Activations::kTiny};

/// n_rows rows of k weights. The allocation ends with the last row, so that a kernel that reads
/// past it is caught by the address sanitizer.
std::vector<std::byte> make_weights(
    quant::QuantType type, std::size_t n_rows, std::size_t k, Weights kind, Rng& rng);
std::vector<float> make_activations(std::size_t k, Activations kind, Rng& rng);

float random_normal(Rng& rng);

/// One weight matrix and its columns, with the answer in double.
struct Problem {
    quant::QuantType type;
    std::size_t n_rows = 0;
    std::size_t k = 0;
    std::vector<std::byte> weights;
    std::vector<std::vector<float>> columns;
};
Problem make_problem(quant::QuantType type,
                     std::size_t n_rows,
                     std::size_t k,
                     std::size_t n_columns,
                     Weights weights,
                     Activations activations,
                     Rng& rng);

/// Rows and columns of a problem that one call computes.
struct Part {
    std::size_t first_row = 0;
    std::size_t n_rows = 0;
    std::size_t first_column = 0;
    std::size_t n_columns = 0;
};
inline Part whole(const Problem& p) {
    return {0, p.n_rows, 0, p.columns.size()};
}

enum class Product { kMatvec, kMatmul };

/// Runs one product into out[column][row] of the part. Cells start as NaN; cells around the part
/// are checked to be untouched.
std::vector<float> run_product(const KernelTable& table,
                               Product product,
                               const Problem& problem,
                               const Part& part);

/// A column as the kernels of the type take it.
AlignedBuffer<std::byte> prepare_column(const KernelTable& table,
                                        ActivationForm form,
                                        const std::vector<float>& x);

}  // namespace ballast::kernels::test
