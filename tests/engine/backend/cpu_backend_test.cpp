// SPDX-License-Identifier: MIT
// The CPU backend's ops, each bound by hand to small arrays.
#include <cmath>
#include <numeric>

#include "engine/backend/cpu_backend.h"
#include "engine/base/rng.h"

namespace ballast::backend {
namespace {

std::vector<float> random_floats(std::size_t n, std::uint64_t seed) {
    Rng rng(seed);
    std::vector<float> values(n);
    for (float& value : values) {
        value = static_cast<float>(rng.uniform() * 2.0 - 1.0);
    }
    return values;
}

WeightView float_matrix(const std::vector<float>& values, std::size_t n_rows, std::size_t k) {
    return {.type = quant::QuantType::kF32,
            .data = reinterpret_cast<const std::byte*>(values.data()),
            .n_rows = n_rows,
            .k = k,
            .row_bytes = k * sizeof(float)};
}

OpRecord record(const Op& op, RowDomain rows = RowDomain::kAll) {
    return {.op = op, .rows = rows};
}

class CpuBackendTest : public testing::TestWithParam<int> {
  protected:
    ThreadPool pool_{GetParam()};
    CpuBackend backend_{*kernels::find_kernels(Isa::kScalar), pool_};
};

/// Attention of 70 tokens and then one more, with the layer's heads kept in the given ranges.
std::vector<float> attend(CpuBackend& backend, const std::vector<int>& heads_by_range, int window) {
    constexpr int kHeads = 6;
    constexpr int kKvHeads = 3;
    constexpr int kHeadDim = 16;
    constexpr int kTokens = 70;
    constexpr std::size_t kBlocks = 4;
    const std::vector<std::int32_t> blocks = {2, 0, 3};
    std::vector<std::vector<std::byte>> storage;
    std::vector<KvRangeView> ranges;
    int first = 0;
    for (const int n : heads_by_range) {
        const std::size_t head_bytes = 32 * kHeadDim * sizeof(float);
        const std::size_t block_bytes = head_bytes * static_cast<std::size_t>(n);
        storage.emplace_back(block_bytes * kBlocks);
        storage.emplace_back(block_bytes * kBlocks);
        ranges.push_back({.first_head = first,
                          .n_heads = n,
                          .keys = storage[storage.size() - 2].data(),
                          .values = storage.back().data(),
                          .block_bytes = block_bytes,
                          .head_bytes = head_bytes});
        first += n;
    }
    const KvLayerView layer{.type = kernels::KvType::kF32, .ranges = ranges};
    std::vector<float> q = random_floats(kTokens * kHeads * kHeadDim, 1);
    std::vector<float> k = random_floats(kTokens * kKvHeads * kHeadDim, 2);
    std::vector<float> v = random_floats(kTokens * kKvHeads * kHeadDim, 3);
    std::vector<float> out(kTokens * kHeads * kHeadDim, NAN);
    const std::vector<SlotView> slots = {{q.data(), kHeads * kHeadDim},
                                         {k.data(), kKvHeads * kHeadDim},
                                         {v.data(), kKvHeads * kHeadDim},
                                         {out.data(), kHeads * kHeadDim}};
    const std::vector<TokenId> tokens(kTokens, 0);
    const SequenceRows sequence{
        .first_row = 0, .n_rows = kTokens, .first_position = 0, .blocks = blocks};
    const StepContext context{.input = {.tokens = tokens, .sequences = {&sequence, 1}},
                              .slots = slots,
                              .kv = {&layer, 1}};
    EXPECT_TRUE(backend.reserve({.rows = kTokens, .outputs = 1, .blocks = 3, .k = 96}).has_value());
    const OpRecord op = record(Attention{.q = 0,
                                         .k = 1,
                                         .v = 2,
                                         .out = 3,
                                         .layer = 0,
                                         .n_heads = kHeads,
                                         .n_kv_heads = kKvHeads,
                                         .head_dim = kHeadDim,
                                         .window = window,
                                         .scale = 0.25F});
    EXPECT_TRUE(backend.submit({&op, 1}, context).has_value());
    return out;
}

/// The same in double precision, straight from the definition.
std::vector<double> attend_exactly(int window) {
    constexpr int kHeads = 6;
    constexpr int kKvHeads = 3;
    constexpr int kHeadDim = 16;
    constexpr int kTokens = 70;
    const auto q = random_floats(kTokens * kHeads * kHeadDim, 1);
    const auto k = random_floats(kTokens * kKvHeads * kHeadDim, 2);
    const auto v = random_floats(kTokens * kKvHeads * kHeadDim, 3);
    std::vector<double> out(q.size(), 0.0);
    for (int t = 0; t < kTokens; ++t) {
        for (int h = 0; h < kHeads; ++h) {
            const int kv = h / (kHeads / kKvHeads);
            const int first = window > 0 ? std::max(0, t - window + 1) : 0;
            std::vector<double> p;
            double sum = 0.0;
            for (int s = first; s <= t; ++s) {
                double score = 0.0;
                for (int i = 0; i < kHeadDim; ++i) {
                    score += static_cast<double>(
                                 q[static_cast<std::size_t>((t * kHeads + h) * kHeadDim + i)]) *
                             static_cast<double>(
                                 k[static_cast<std::size_t>((s * kKvHeads + kv) * kHeadDim + i)]);
                }
                p.push_back(std::exp(score * 0.25));
                sum += p.back();
            }
            for (int s = first; s <= t; ++s) {
                for (int i = 0; i < kHeadDim; ++i) {
                    out[static_cast<std::size_t>((t * kHeads + h) * kHeadDim + i)] +=
                        p[static_cast<std::size_t>(s - first)] / sum *
                        static_cast<double>(
                            v[static_cast<std::size_t>((s * kKvHeads + kv) * kHeadDim + i)]);
                }
            }
        }
    }
    return out;
}

TEST_P(CpuBackendTest, AttendsAsTheDefinitionSays) {
    for (const int window : {0, 9, 40}) {
        const auto got = attend(backend_, {3}, window);
        const auto expected = attend_exactly(window);
        for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_TRUE(std::fabs(static_cast<double>(got[i]) - expected[i]) <= 1e-5) << i;
        }
    }
}

TEST_P(CpuBackendTest, AttendsWithTheSameBitsWhereverTheHeadsAreKept) {
    const auto together = attend(backend_, {3}, 0);
    EXPECT_EQ(attend(backend_, {1, 2}, 0), together);
    EXPECT_EQ(attend(backend_, {2, 1}, 0), together);
    EXPECT_EQ(attend(backend_, {1, 1, 1}, 0), together);
}

TEST_P(CpuBackendTest, MultipliesSeveralMatricesThatReadTheSameRows) {
    constexpr std::size_t kK = 64;
    constexpr std::size_t kRows = 11;
    const auto a = random_floats(40 * kK, 1);
    const auto b = random_floats(7 * kK, 2);
    const std::vector<WeightView> weights = {float_matrix(a, 40, kK), float_matrix(b, 7, kK)};
    std::vector<float> x = random_floats(kRows * kK, 3);
    std::vector<float> y(kRows * 40, NAN);
    std::vector<float> z(kRows * 7, NAN);
    const std::vector<SlotView> slots = {{x.data(), kK}, {y.data(), 40}, {z.data(), 7}};
    const std::vector<TokenId> tokens(kRows, 0);
    const StepContext context{
        .input = {.tokens = tokens, .n_decode_rows = 10}, .weights = weights, .slots = slots};
    ASSERT_TRUE(backend_.reserve({.rows = kRows, .outputs = 1, .blocks = 1, .k = kK}).has_value());
    const OpRecord op = record(Linear{.in = 0, .n_matrices = 2, .weights = {0, 1}, .outs = {1, 2}});
    ASSERT_TRUE(backend_.submit({&op, 1}, context).has_value());
    const auto check =
        [&](const std::vector<float>& w, const std::vector<float>& out, std::size_t n) {
            for (std::size_t row = 0; row < kRows; ++row) {
                for (std::size_t r = 0; r < n; ++r) {
                    double expected = 0.0;
                    for (std::size_t i = 0; i < kK; ++i) {
                        expected += static_cast<double>(w[r * kK + i]) *
                                    static_cast<double>(x[row * kK + i]);
                    }
                    ASSERT_TRUE(std::fabs(static_cast<double>(out[row * n + r]) - expected) <= 1e-5)
                        << row << " " << r;
                }
            }
        };
    check(a, y, 40);
    check(b, z, 7);
}

TEST_P(CpuBackendTest, SaysWhatItHasNoKernelsFor) {
    const Op linear = Linear{};
    EXPECT_TRUE(backend_.supports(linear, quant::QuantType::kQ4_1));
    EXPECT_TRUE(backend_.supports(linear, quant::QuantType::kBF16));
    EXPECT_FALSE(backend_.supports(linear, quant::QuantType::kIQ4_XS));
    EXPECT_FALSE(backend_.supports(RmsNorm{}, quant::QuantType::kQ4_1));
}

TEST_P(CpuBackendTest, CopiesInOrderAndEveryEventHasHappened) {
    const auto chunk = backend_.allocate_chunk(1 << 20);
    ASSERT_TRUE(chunk.has_value());
    std::vector<std::byte> data(1000, std::byte{42});
    std::vector<std::byte> back(1000);
    const auto in = backend_.copy_in(chunk->data, data);
    const auto out = backend_.copy_out(back, chunk->data);
    ASSERT_TRUE(in.has_value() && out.has_value());
    EXPECT_LT(static_cast<std::uint64_t>(*in), static_cast<std::uint64_t>(*out));
    EXPECT_TRUE(backend_.done(*out));
    EXPECT_TRUE(backend_.wait(*out).has_value());
    EXPECT_EQ(back, data);
    backend_.free_chunk(*chunk);
    EXPECT_FALSE(backend_.allocate_chunk(std::size_t{1} << 62).has_value());
}

INSTANTIATE_TEST_SUITE_P(Threads, CpuBackendTest, testing::Values(1, 2, 3));

}  // namespace
}  // namespace ballast::backend
