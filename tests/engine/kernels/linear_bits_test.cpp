// SPDX-License-Identifier: MIT
// The promise that neighbours cannot change a text, at the level of kernels: the bits of one
// (row, column) cell do not depend on what else the call computes.
#include <cstring>

#include <gtest/gtest.h>

#include "tests/engine/kernels/support.h"

namespace ballast::kernels::test {
namespace {

using quant::QuantType;

class LinearBitsOf : public testing::TestWithParam<const KernelTable*> {};

void expect_same_bits(const KernelTable& table,
                      Product product,
                      const Problem& problem,
                      const std::vector<float>& full,
                      const Part& part) {
    const std::vector<float> got = run_product(table, product, problem, part);
    for (std::size_t c = 0; c < part.n_columns; ++c) {
        const float* expected =
            full.data() + (part.first_column + c) * problem.n_rows + part.first_row;
        ASSERT_EQ(std::memcmp(got.data() + c * part.n_rows, expected, part.n_rows * sizeof(float)),
                  0)
            << isa_name(table.isa) << " " << type_name(problem.type) << " k " << problem.k
            << " rows from " << part.first_row << " count " << part.n_rows << ", columns from "
            << part.first_column << " count " << part.n_columns;
    }
}

std::size_t pick_length(QuantType type, Rng& rng) {
    const std::size_t block = quant::traits(type).block_elements;
    return block == 1 ? 1 + rng.below(700) : block * (1 + rng.below(1 + 1200 / block));
}

TEST_P(LinearBitsOf, MatvecCellIsTheSameForEveryColumnCountAndRowSplit) {
    Rng rng(11);
    for (const QuantType type : weight_types()) {
        for (int round = 0; round < 4; ++round) {
            const Problem problem = make_problem(
                type, 13, pick_length(type, rng), 8, Weights::kRandom, Activations::kRandom, rng);
            const auto full = run_product(*GetParam(), Product::kMatvec, problem, whole(problem));
            for (std::size_t n_columns = 1; n_columns <= 8; ++n_columns) {
                const std::size_t first_row = rng.below(13);
                expect_same_bits(*GetParam(),
                                 Product::kMatvec,
                                 problem,
                                 full,
                                 {.first_row = first_row,
                                  .n_rows = 1 + rng.below(13 - first_row),
                                  .first_column = rng.below(9 - n_columns),
                                  .n_columns = n_columns});
                ASSERT_FALSE(HasFatalFailure());
            }
        }
    }
}

TEST_P(LinearBitsOf, MatmulCellIsTheSameForEveryGroupingOfRowsAndColumns) {
    Rng rng(12);
    for (const QuantType type : weight_types()) {
        for (int round = 0; round < 3; ++round) {
            const std::size_t n_rows = 20 + rng.below(50);
            const Problem problem = make_problem(type,
                                                 n_rows,
                                                 pick_length(type, rng),
                                                 29,
                                                 Weights::kRandom,
                                                 Activations::kRandom,
                                                 rng);
            const auto full = run_product(*GetParam(), Product::kMatmul, problem, whole(problem));
            for (std::size_t n_columns : {1U, 2U, 3U, 5U, 6U, 7U, 12U, 13U, 28U}) {
                const std::size_t first_row = rng.below(n_rows);
                expect_same_bits(*GetParam(),
                                 Product::kMatmul,
                                 problem,
                                 full,
                                 {.first_row = first_row,
                                  .n_rows = 1 + rng.below(n_rows - first_row),
                                  .first_column = rng.below(30 - n_columns),
                                  .n_columns = n_columns});
                ASSERT_FALSE(HasFatalFailure());
            }
        }
    }
}

TEST_P(LinearBitsOf, MatmulOverwritesWhateverTheOutputHeld) {
    // run_product starts from NaN; a kernel that added to its output would keep it.
    Rng rng(13);
    for (const QuantType type : weight_types()) {
        const Problem problem =
            make_problem(type, 3, 1024, 9, Weights::kRandom, Activations::kRandom, rng);
        for (const float value :
             run_product(*GetParam(), Product::kMatmul, problem, whole(problem))) {
            ASSERT_EQ(value, value) << type_name(type);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Tables, LinearBitsOf, testing::ValuesIn(available_tables()), table_name);

}  // namespace
}  // namespace ballast::kernels::test
