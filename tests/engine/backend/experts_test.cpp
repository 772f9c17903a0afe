// SPDX-License-Identifier: MIT
// Router and experts against the definition: softmax over all, the best few, weights divided by
// their sum; decode and prefill rows mixed in one step.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/backend/cpu_backend.h"
#include "engine/base/rng.h"

namespace ballast::backend {
namespace {

constexpr std::size_t kWidth = 32;
constexpr std::size_t kFfn = 48;
constexpr std::size_t kExperts = 5;
constexpr std::size_t kUsed = 2;
constexpr std::size_t kRows = 9;

std::vector<float> random_floats(std::size_t n, std::uint64_t seed) {
    Rng rng(seed);
    std::vector<float> values(n);
    for (float& value : values) {
        value = static_cast<float>(rng.uniform() * 2.0 - 1.0);
    }
    return values;
}

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

struct Weights {
    std::vector<float> router = random_floats(kExperts * kWidth, 1);
    std::vector<float> gate = random_floats(kExperts * kFfn * kWidth, 2);
    std::vector<float> up = random_floats(kExperts * kFfn * kWidth, 3);
    std::vector<float> down = random_floats(kExperts * kWidth * kFfn, 4);
};

std::vector<double> expected_row(const Weights& w, const std::vector<double>& x) {
    const std::vector<double> logits = times(w.router, 0, kExperts, x);
    std::vector<std::size_t> order(kExperts);
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return logits[a] > logits[b];
    });
    double sum = 0.0;
    for (std::size_t rank = 0; rank < kUsed; ++rank) {
        sum += std::exp(logits[order[rank]]);
    }
    std::vector<double> y(kWidth, 0.0);
    for (std::size_t rank = 0; rank < kUsed; ++rank) {
        const std::size_t e = order[rank];
        std::vector<double> gate = times(w.gate, e * kFfn, kFfn, x);
        const std::vector<double> up = times(w.up, e * kFfn, kFfn, x);
        for (std::size_t i = 0; i < kFfn; ++i) {
            gate[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
        }
        const std::vector<double> down = times(w.down, e * kWidth, kWidth, gate);
        for (std::size_t i = 0; i < kWidth; ++i) {
            y[i] += std::exp(logits[e]) / sum * down[i];
        }
    }
    return y;
}

/// What router and experts make of the rows `x`, of which the first `n_decode` are decode rows.
std::vector<float> run_layer(const Weights& w, std::vector<float> x, int n_threads, int n_decode) {
    const auto view =
        [](const std::vector<float>& values, std::size_t rows, std::size_t k, std::size_t slices) {
            return WeightView{.type = quant::QuantType::kF32,
                              .data = reinterpret_cast<const std::byte*>(values.data()),
                              .n_rows = rows,
                              .k = k,
                              .row_bytes = k * sizeof(float),
                              .n_slices = slices};
        };
    const std::vector<WeightView> weights = {view(w.router, kExperts, kWidth, 1),
                                             view(w.gate, kFfn, kWidth, kExperts),
                                             view(w.up, kFfn, kWidth, kExperts),
                                             view(w.down, kWidth, kFfn, kExperts)};
    ThreadPool pool(n_threads);
    CpuBackend backend(*kernels::find_kernels(Isa::kScalar), pool);
    EXPECT_TRUE(backend
                    .reserve({.rows = kRows,
                              .outputs = 1,
                              .blocks = 1,
                              .k = kFfn,
                              .experts = kExperts,
                              .experts_used = kUsed,
                              .width = kWidth,
                              .expert_ffn_width = kFfn})
                    .has_value());
    std::vector<float> y(kRows * kWidth, -1e30F);
    const std::vector<SlotView> slots = {{x.data(), kWidth}, {y.data(), kWidth}};
    const std::vector<TokenId> tokens(kRows, 0);
    const StepContext context{
        .input = {.tokens = tokens, .n_decode_rows = n_decode}, .weights = weights, .slots = slots};
    const std::vector<OpRecord> ops = {
        {.op = Router{.in = 0, .weight = 0, .n_experts = kExperts, .n_used = kUsed}},
        {.op = Experts{.in = 0,
                       .out = 1,
                       .gate = 1,
                       .up = 2,
                       .down = 3,
                       .n_experts = kExperts,
                       .n_used = kUsed,
                       .width = kWidth,
                       .ffn_width = kFfn}}};
    EXPECT_TRUE(backend.submit(ops, context).has_value());
    return y;
}

void expect_definition(const Weights& w,
                       const std::vector<float>& x,
                       const std::vector<float>& y,
                       std::size_t row) {
    const std::vector<double> in(x.begin() + static_cast<std::ptrdiff_t>(row * kWidth),
                                 x.begin() + static_cast<std::ptrdiff_t>((row + 1) * kWidth));
    const std::vector<double> expected = expected_row(w, in);
    for (std::size_t i = 0; i < kWidth; ++i) {
        ASSERT_TRUE(std::fabs(static_cast<double>(y[row * kWidth + i]) - expected[i]) <= 1e-4)
            << "row " << row;
    }
}

TEST(Experts, AddUpTheChosenOnesForDecodeAndPrefillRowsAlike) {
    const Weights w;
    const std::vector<float> x = random_floats(kRows * kWidth, 5);
    for (const int n_threads : {1, 2}) {
        for (const int n_decode : {0, 4, static_cast<int>(kRows)}) {
            SCOPED_TRACE(testing::Message() << n_threads << " threads, " << n_decode << " decode");
            const std::vector<float> y = run_layer(w, x, n_threads, n_decode);
            for (std::size_t row = 0; row < kRows; ++row) {
                expect_definition(w, x, y, row);
            }
        }
    }
}

// A row that is not a number once chose one expert twice, which wrote past that expert's rows.
TEST(Experts, TakeRowsThatAreNotNumbersAndKeepThemSo) {
    const Weights w;
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e38F}) {
        for (const int n_decode : {0, static_cast<int>(kRows)}) {
            SCOPED_TRACE(testing::Message() << value << ", " << n_decode << " decode rows");
            std::vector<float> x = random_floats(kRows * kWidth, 5);
            std::fill(x.begin() + kWidth, x.end(), value);
            const std::vector<float> y = run_layer(w, x, 2, n_decode);
            expect_definition(w, x, y, 0);
            for (std::size_t i = kWidth; i < y.size(); ++i) {
                ASSERT_FALSE(std::isfinite(y[i]));
            }
        }
    }
}

}  // namespace
}  // namespace ballast::backend
