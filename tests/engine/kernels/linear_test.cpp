// SPDX-License-Identifier: MIT
// Matrix products of every table against a dequantise-and-dot in double precision.
//
// The reference takes the activations as the kernel sees them: float columns unrounded, packed
// columns as scale · q, with scale and q computed here from the definition. Then the kernel differs
// from it by float rounding alone: the integer dot of a block is exact. Each term of the sum goes
// through at most 8 roundings (in the reference: d·scale, ·q, − minimum; in the kernel: d·scale,
// ·s, ·dot and for a minimum dmin·min, ·s·Σq), and through at most n_terms additions, so
//     |error| ≤ (n_terms + 8) · ε · Σ (|d·q_k| + |m_k|) · |x_k|,   ε = 2^-24
// where code and minimum of a weight are taken apart because they may cancel in it. n_terms is k
// for float weights and k / 16 for packed ones (two a block of 32). A wrong element of k = 2048
// would show as 1/2048 = 5e-4 of Σ, far above the tolerance of 136 ε = 8e-6.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "engine/kernels/cpu/packed_activations.h"
#include "tests/engine/kernels/support.h"

namespace ballast::kernels::test {
namespace {

using quant::QuantType;

bool is_float(QuantType type) {
    return quant::traits(type).block_elements == 1;
}

bool has_minimum(QuantType type) {
    return type == QuantType::kQ4_1 || type == QuantType::kQ5_1 || type == QuantType::kQ4_K ||
           type == QuantType::kQ5_K;
}

/// What a packed column stands for.
std::vector<double> quantised(const std::vector<float>& x) {
    std::vector<double> out(x.size());
    for (std::size_t b = 0; b < x.size(); b += 32) {
        float largest = 0.0F;
        for (std::size_t i = b; i < b + 32; ++i) {
            largest = std::max(largest, std::fabs(x[i]));
        }
        const float scale = largest / 32512.0F;
        for (std::size_t i = b; i < b + 32; ++i) {
            double q = scale > 0.0F ? static_cast<double>(std::nearbyint(x[i] / scale)) : 0.0;
            q = std::clamp(q, -32512.0, 32512.0);
            // A low byte of −128 is not used: the step moves up by one.
            const bool ends_in_128 = (static_cast<int>(q) & 0xFF) == 0x80;
            out[i] = static_cast<double>(scale) * (ends_in_128 ? q + 1.0 : q);
        }
    }
    return out;
}

/// Dequantised rows: the weights, and their parts without minimum and without scale.
struct RowParts {
    std::vector<float> weight;
    std::vector<float> code_part;
    std::vector<float> min_part;
};

RowParts split_row(const Problem& problem, std::size_t r) {
    const auto& traits = quant::traits(problem.type);
    const std::size_t row_bytes = quant::row_bytes(problem.type, problem.k);
    const auto begin = problem.weights.begin() + static_cast<long>(r * row_bytes);
    const std::vector<std::byte> row(begin, begin + static_cast<long>(row_bytes));
    const auto expand = [&](const std::vector<std::byte>& bytes) {
        std::vector<float> out(problem.k);
        traits.dequantize(bytes.data(), problem.k, out.data());
        return out;
    };
    const auto without_half_at = [&](std::size_t offset) {
        std::vector<std::byte> bytes = row;
        for (std::size_t at = 0; at < row_bytes; at += traits.block_bytes) {
            std::memset(bytes.data() + at + offset, 0, 2);
        }
        return expand(bytes);
    };
    if (!has_minimum(problem.type)) {
        return {expand(row), expand(row), std::vector<float>(problem.k, 0.0F)};
    }
    return {expand(row), without_half_at(2), without_half_at(0)};
}

void check_problem(const KernelTable& table, Product product, const Problem& problem) {
    const bool packed = !is_float(problem.type);
    const std::vector<float> got = run_product(table, product, problem, whole(problem));
    const auto k = static_cast<double>(problem.k);
    // A packed block's dot is rounded to float too: it may have 27 bits.
    const double roundings = (packed ? k / 8 : k) + 8;
    // Where a product is subnormal it is off by up to half of the smallest float, which a block's
    // dot (≤ 32 · 32512 · 255) may magnify.
    const double floor = roundings * 0x1p-149 * (packed ? 32.0 * 32512 * 255 : 1.0);
    std::vector<std::vector<double>> columns;
    for (const auto& column : problem.columns) {
        columns.push_back(packed ? quantised(column)
                                 : std::vector<double>(column.begin(), column.end()));
    }
    for (std::size_t r = 0; r < problem.n_rows; ++r) {
        const RowParts row = split_row(problem, r);
        for (std::size_t c = 0; c < columns.size(); ++c) {
            double value = 0.0;
            double magnitude = 0.0;
            for (std::size_t i = 0; i < problem.k; ++i) {
                value += static_cast<double>(row.weight[i]) * columns[c][i];
                magnitude += (std::fabs(static_cast<double>(row.code_part[i])) +
                              std::fabs(static_cast<double>(row.min_part[i]))) *
                             std::fabs(columns[c][i]);
            }
            const double tolerance = roundings * 0x1p-24 * magnitude + floor;
            const auto result = static_cast<double>(got[c * problem.n_rows + r]);
            ASSERT_TRUE(std::fabs(result - value) <= tolerance)
                << isa_name(table.isa) << (product == Product::kMatvec ? " matvec " : " matmul ")
                << type_name(problem.type) << " k " << problem.k << " rows " << problem.n_rows
                << " columns " << columns.size() << " row " << r << " column " << c << ": got "
                << result << ", expected " << value << ", tolerance " << tolerance;
        }
    }
}

/// Row lengths a type can have, of those worth trying: single blocks, tails of a group of 128,
/// tails of a matmul chunk, real models' widths.
std::vector<std::size_t> row_lengths(QuantType type) {
    const std::size_t block = quant::traits(type).block_elements;
    if (block == 256) {
        return {256, 768, 1536, 2048};
    }
    if (block == 1) {
        return {1, 7, 32, 50, 576, 1536};
    }
    return {32, 64, 96, 128, 160, 576, 1536, 2048};
}

class LinearKernelsOf : public testing::TestWithParam<const KernelTable*> {};

TEST_P(LinearKernelsOf, MatvecAgreesWithDoublePrecision) {
    Rng rng(1);
    for (const QuantType type : weight_types()) {
        for (const std::size_t k : row_lengths(type)) {
            for (const std::size_t n_columns : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
                check_problem(
                    *GetParam(),
                    Product::kMatvec,
                    make_problem(
                        type, 5, k, n_columns, Weights::kRandom, Activations::kRandom, rng));
                ASSERT_FALSE(HasFatalFailure());
            }
        }
    }
}

TEST_P(LinearKernelsOf, MatmulAgreesWithDoublePrecisionForEveryColumnCount) {
    Rng rng(2);
    for (const QuantType type : weight_types()) {
        for (std::size_t n_columns :
             {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 10U, 11U, 12U, 13U, 64U, 100U}) {
            const std::size_t n_rows = 1 + rng.below(70);
            check_problem(*GetParam(),
                          Product::kMatmul,
                          make_problem(type,
                                       n_rows,
                                       row_lengths(type)[rng.below(row_lengths(type).size())],
                                       n_columns,
                                       Weights::kRandom,
                                       Activations::kRandom,
                                       rng));
            ASSERT_FALSE(HasFatalFailure());
        }
    }
}

TEST_P(LinearKernelsOf, MatmulAgreesWithDoublePrecisionForEveryRowLength) {
    Rng rng(3);
    for (const QuantType type : weight_types()) {
        for (const std::size_t k : row_lengths(type)) {
            for (const std::size_t n_rows : {1U, 15U, 16U, 33U}) {
                check_problem(
                    *GetParam(),
                    Product::kMatmul,
                    make_problem(type, n_rows, k, 7, Weights::kRandom, Activations::kRandom, rng));
                ASSERT_FALSE(HasFatalFailure());
            }
        }
    }
}

TEST_P(LinearKernelsOf, ProductsSurviveAwkwardWeightsAndActivations) {
    Rng rng(4);
    for (const QuantType type : weight_types()) {
        for (const Weights weights : kAllWeights) {
            for (const Activations activations : kAllActivations) {
                for (const Product product : {Product::kMatvec, Product::kMatmul}) {
                    check_problem(*GetParam(),
                                  product,
                                  make_problem(type, 18, 768, 5, weights, activations, rng));
                    ASSERT_FALSE(HasFatalFailure());
                }
            }
        }
    }
}

TEST_P(LinearKernelsOf, SeededRandomProblemsAgreeWithDoublePrecision) {
    Rng rng(5);
    for (int round = 0; round < 300; ++round) {
        const QuantType type = weight_types()[rng.below(weight_types().size())];
        const std::size_t block = quant::traits(type).block_elements;
        const std::size_t k = block * (1 + rng.below(1 + 1024 / block));
        const Product product = rng.below(2) == 0 ? Product::kMatvec : Product::kMatmul;
        const std::size_t n_columns = 1 + rng.below(product == Product::kMatvec ? 8 : 30);
        const Weights weights = kAllWeights[rng.below(5)];
        const Activations activations = kAllActivations[rng.below(5)];
        check_problem(
            *GetParam(),
            product,
            make_problem(type, 1 + rng.below(40), k, n_columns, weights, activations, rng));
        ASSERT_FALSE(HasFatalFailure()) << "round " << round;
    }
}

TEST_P(LinearKernelsOf, PackingWritesEveryByteAsTheScalarTableDoes) {
    const KernelTable& scalar = *find_kernels(Isa::kScalar);
    Rng rng(6);
    for (const std::size_t k : {32U, 64U, 96U, 128U, 160U, 576U, 2048U}) {
        ASSERT_EQ(GetParam()->packed_bytes(k), scalar.packed_bytes(k));
        for (const Activations kind : kAllActivations) {
            const std::vector<float> x = make_activations(k, kind, rng);
            const auto got = prepare_column(*GetParam(), ActivationForm::kPacked, x);
            const auto expected = prepare_column(scalar, ActivationForm::kPacked, x);
            // The padding line at the end is nobody's.
            const std::size_t used = packed_groups(k) * sizeof(PackedGroup);
            ASSERT_EQ(std::memcmp(got.data(), expected.data(), used), 0) << "k " << k;
        }
    }
}

TEST_P(LinearKernelsOf, EveryTypeHasBothProductsInTheFormOfTheScalarTable) {
    for (const QuantType type : weight_types()) {
        const LinearKernels kernels = GetParam()->linear(type);
        EXPECT_NE(kernels.matvec, nullptr) << type_name(type);
        EXPECT_NE(kernels.matmul, nullptr) << type_name(type);
        EXPECT_EQ(kernels.form, find_kernels(Isa::kScalar)->linear(type).form) << type_name(type);
    }
    EXPECT_EQ(GetParam()->linear(QuantType::kQ2_K).matvec, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Tables,
                         LinearKernelsOf,
                         testing::ValuesIn(available_tables()),
                         table_name);

}  // namespace
}  // namespace ballast::kernels::test
