// SPDX-License-Identifier: MIT
// Router and experts against the definition: softmax over all, the best few, weights divided by
// their sum; decode and prefill rows mixed in one step.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/backend/cpu_backend.h"
#include "engine/backend/op_work.h"
#include "tests/engine/backend/expert_layer.h"

namespace ballast::backend {
namespace {

using test::ExpertSide;
using test::ExpertWeights;
using test::kLayerExperts;
using test::kLayerFfn;
using test::kLayerRows;
using test::kLayerUsed;
using test::kLayerWidth;
using test::random_floats;

std::vector<double> times(const std::vector<float>& w,
                          std::size_t first_row,
                          std::size_t n_rows,
                          const std::vector<double>& x) {
    std::vector<double> y(n_rows, 0.0);
    for (std::size_t r = 0; r < n_rows; ++r) {
        for (std::size_t i = 0; i < x.size(); ++i) {
            y[r] += static_cast<double>(w[(first_row + r) * x.size() + i]) * x[i];
        }
    }
    return y;
}

/// The experts of a row in the order of their ranks.
std::vector<std::size_t> expected_choice(const ExpertWeights& w, const std::vector<double>& x) {
    const std::vector<double> logits = times(w.router, 0, kLayerExperts, x);
    std::vector<std::size_t> order(kLayerExperts);
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return logits[a] > logits[b];
    });
    order.resize(kLayerUsed);
    return order;
}

std::vector<double> expected_row(const ExpertWeights& w, const std::vector<double>& x) {
    const std::vector<double> logits = times(w.router, 0, kLayerExperts, x);
    const std::vector<std::size_t> chosen = expected_choice(w, x);
    double sum = 0.0;
    for (const std::size_t e : chosen) {
        sum += std::exp(logits[e]);
    }
    std::vector<double> y(kLayerWidth, 0.0);
    for (const std::size_t e : chosen) {
        std::vector<double> gate = times(w.gate, e * kLayerFfn, kLayerFfn, x);
        const std::vector<double> up = times(w.up, e * kLayerFfn, kLayerFfn, x);
        for (std::size_t i = 0; i < kLayerFfn; ++i) {
            gate[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
        }
        const std::vector<double> down = times(w.down, e * kLayerWidth, kLayerWidth, gate);
        for (std::size_t i = 0; i < kLayerWidth; ++i) {
            y[i] += std::exp(logits[e]) / sum * down[i];
        }
    }
    return y;
}

std::vector<double> row_of(const std::vector<float>& x, std::size_t row) {
    return {x.begin() + static_cast<std::ptrdiff_t>(row * kLayerWidth),
            x.begin() + static_cast<std::ptrdiff_t>((row + 1) * kLayerWidth)};
}

/// What router and experts make of the rows `x`, of which the first `n_decode` are decode rows.
std::vector<float> run_layer(const ExpertWeights& w,
                             const std::vector<float>& x,
                             int n_threads,
                             int n_decode) {
    ThreadPool pool(n_threads);
    CpuBackend backend(*kernels::find_kernels(Isa::kScalar), pool);
    test::reserve_layer(backend);
    ExpertSide side(backend, w);
    side.write(0, x);
    side.run(std::array{test::router_op(), test::experts_op()}, n_decode);
    return side.read(2);
}

void expect_definition(const ExpertWeights& w,
                       const std::vector<float>& x,
                       const std::vector<float>& y,
                       std::size_t row) {
    const std::vector<double> expected = expected_row(w, row_of(x, row));
    for (std::size_t i = 0; i < kLayerWidth; ++i) {
        ASSERT_TRUE(std::fabs(static_cast<double>(y[row * kLayerWidth + i]) - expected[i]) <= 1e-4)
            << "row " << row;
    }
}

TEST(Experts, AddUpTheChosenOnesForDecodeAndPrefillRowsAlike) {
    const ExpertWeights w;
    const std::vector<float> x = random_floats(kLayerRows * kLayerWidth, 5);
    for (const int n_threads : {1, 2}) {
        for (const int n_decode : {0, 4, static_cast<int>(kLayerRows)}) {
            SCOPED_TRACE(testing::Message() << n_threads << " threads, " << n_decode << " decode");
            const std::vector<float> y = run_layer(w, x, n_threads, n_decode);
            for (std::size_t row = 0; row < kLayerRows; ++row) {
                expect_definition(w, x, y, row);
            }
        }
    }
}

// A row that is not a number once chose one expert twice, which wrote past that expert's rows.
TEST(Experts, TakeRowsThatAreNotNumbersAndKeepThemSo) {
    const ExpertWeights w;
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e38F}) {
        for (const int n_decode : {0, static_cast<int>(kLayerRows)}) {
            SCOPED_TRACE(testing::Message() << value << ", " << n_decode << " decode rows");
            std::vector<float> x = random_floats(kLayerRows * kLayerWidth, 5);
            std::fill(x.begin() + kLayerWidth, x.end(), value);
            const std::vector<float> y = run_layer(w, x, 2, n_decode);
            expect_definition(w, x, y, 0);
            for (std::size_t i = kLayerWidth; i < y.size(); ++i) {
                ASSERT_FALSE(std::isfinite(y[i]));
            }
        }
    }
}

TEST(Router, WritesNumbersAndWeightsInTheOrderOfRanks) {
    const ExpertWeights w;
    const std::vector<float> x = random_floats(kLayerRows * kLayerWidth, 5);
    ThreadPool pool(1);
    CpuBackend backend(*kernels::find_kernels(Isa::kScalar), pool);
    test::reserve_layer(backend);
    ExpertSide side(backend, w);
    side.write(0, x);
    side.run(std::array{test::router_op()}, 3);
    std::vector<std::uint32_t> expected_counts(kLayerExperts);
    for (std::size_t row = 0; row < kLayerRows; ++row) {
        const ExpertChoice choice(side.slot(1), static_cast<int>(row), kLayerUsed);
        const std::vector<std::size_t> expected = expected_choice(w, row_of(x, row));
        double sum = 0.0;
        for (std::size_t rank = 0; rank < kLayerUsed; ++rank) {
            EXPECT_EQ(choice.expert(rank, kLayerExperts), static_cast<int>(expected[rank]));
            EXPECT_TRUE(rank == 0 || choice.weight(rank) <= choice.weight(rank - 1));
            sum += static_cast<double>(choice.weight(rank));
            ++expected_counts[expected[rank]];
        }
        EXPECT_NEAR(sum, 1.0, 1e-6);
    }
    std::vector<std::uint32_t> counts(kLayerExperts);
    count_choices(side.slot(1), kLayerRows, kLayerUsed, counts);
    EXPECT_EQ(counts, expected_counts);
    count_choices(side.slot(1), kLayerRows, kLayerUsed, counts);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0U), 2 * kLayerRows * kLayerUsed)
        << "counts are added to";
}

TEST(ExpertChoice, TellsWhatNoRouterWrote) {
    for (const float number : {-1.0F,
                               static_cast<float>(kLayerExperts),
                               1e30F,
                               -1e30F,
                               std::numeric_limits<float>::quiet_NaN()}) {
        std::array<float, 2> row = {number, 0.5F};
        const ExpertChoice choice({row.data(), 2}, 0, 1);
        EXPECT_EQ(choice.expert(0, kLayerExperts), -1) << number;
    }
}

TEST(OpWork, CountsTheExpertsThatAreHereAndChosen) {
    const ExpertWeights w;
    ThreadPool pool(1);
    CpuBackend backend(*kernels::find_kernels(Isa::kScalar), pool);
    test::reserve_layer(backend);
    const std::vector<int> held = {7, 2, 9};
    ExpertSide side(backend, w, held);
    side.write(0, random_floats(kLayerRows * kLayerWidth, 5));
    side.run(std::array{test::router_op()}, 0);
    std::vector<std::uint32_t> counts(kLayerExperts);
    count_choices(side.slot(1), kLayerRows, kLayerUsed, counts);
    std::uint64_t pairs = 0;
    std::uint64_t met = 0;
    for (const int expert : held) {
        pairs += counts[static_cast<std::size_t>(expert)];
        met += counts[static_cast<std::size_t>(expert)] > 0 ? 1 : 0;
    }
    ASSERT_GT(pairs, met);
    const OpWork work = op_work(test::experts_op(), side.context(0));
    EXPECT_EQ(work.bytes, met * 3 * kLayerWidth * kLayerFfn * sizeof(float));
    EXPECT_EQ(work.flops, pairs * 3 * 2 * kLayerWidth * kLayerFfn);
    side.write(1, std::vector<float>(kLayerRows * 2 * kLayerUsed, -1.0F));
    EXPECT_EQ(op_work(test::experts_op(), side.context(0)).bytes, 0U) << "nothing is chosen yet";
}

}  // namespace
}  // namespace ballast::backend
