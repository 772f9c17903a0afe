// SPDX-License-Identifier: MIT
// Attention of every table against softmax in double precision, and its independence of the call's
// shape.
//
// Tolerance: with S = Σ|q_d k_d|·scale the largest over the keys, a score is off by at most
// (head_dim + 3)·ε·S, a weight exp(s − m) relatively by twice that (its own score and the
// normaliser) plus 4 ulp for exp, plus one rounding for each of the n keys' sums. Every error acts
// on a convex combination of values, so
//     |error| ≤ (2·(head_dim + 3)·S + n + 16) · ε · max|v|.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "engine/quant/float16.h"
#include "tests/engine/kernels/support.h"

namespace ballast::kernels::test {
namespace {

struct Shape {
    KvType kv_type = KvType::kF16;
    std::size_t head_dim = 64;
    int n_tokens = 1;
    int n_heads = 3;
    std::int64_t first_position = 0;
    int window = 0;
    float scale = 0.125F;
    float soft_cap = 0.0F;
};

/// Keys, values and queries of one sequence; slots that hold no token are NaN.
class Sequence {
  public:
    Sequence(const Shape& shape, Rng& rng) : shape_(shape) {
        n_positions_ = static_cast<std::size_t>(shape.first_position) +
                       static_cast<std::size_t>(shape.n_tokens);
        const std::size_t n_blocks = (n_positions_ + kKvBlockTokens - 1) / kKvBlockTokens;
        const std::size_t n = n_blocks * kKvBlockTokens * shape.head_dim;
        keys_.assign(n, std::numeric_limits<float>::quiet_NaN());
        values_ = keys_;
        for (std::size_t i = 0; i < n_positions_ * shape.head_dim; ++i) {
            keys_[i] = quant::half_to_float(quant::float_to_half(random_normal(rng)));
            values_[i] = quant::half_to_float(quant::float_to_half(random_normal(rng)));
        }
        q_.resize(static_cast<std::size_t>(shape.n_tokens * shape.n_heads) * shape.head_dim);
        for (float& value : q_) {
            value = random_normal(rng);
        }
        stored_keys_ = store(keys_);
        stored_values_ = store(values_);
        const std::size_t block_bytes = stored_keys_.size() / n_blocks;
        for (std::size_t b = 0; b < n_blocks; ++b) {
            key_blocks_.push_back(stored_keys_.data() + b * block_bytes);
            value_blocks_.push_back(stored_values_.data() + b * block_bytes);
        }
    }

    /// Runs tokens [first, first + n) with heads [first_head, first_head + n_heads); out[t][h][d].
    std::vector<float> run(
        const KernelTable& table, int first, int n, int first_head, int n_heads) const {
        const std::size_t dim = shape_.head_dim;
        const std::size_t token_stride = static_cast<std::size_t>(shape_.n_heads) * dim;
        std::vector<float> out(static_cast<std::size_t>(n * n_heads) * dim + 1,
                               std::numeric_limits<float>::quiet_NaN());
        AlignedBuffer<std::byte> scratch(table.attention_scratch_bytes);
        table.attention({.kv_type = shape_.kv_type,
                         .key_blocks = key_blocks_.data(),
                         .value_blocks = value_blocks_.data(),
                         .head_dim = dim,
                         .q = q_.data() + static_cast<std::size_t>(first) * token_stride +
                              static_cast<std::size_t>(first_head) * dim,
                         .q_token_stride = token_stride,
                         .q_head_stride = dim,
                         .out = out.data(),
                         .out_token_stride = static_cast<std::size_t>(n_heads) * dim,
                         .out_head_stride = dim,
                         .n_tokens = n,
                         .n_heads = n_heads,
                         .first_position = shape_.first_position + first,
                         .window = shape_.window,
                         .scale = shape_.scale,
                         .soft_cap = shape_.soft_cap,
                         .scratch = scratch.data()});
        EXPECT_TRUE(std::isnan(out.back())) << "written past the last row";
        out.pop_back();
        return out;
    }

    std::vector<float> run_all(const KernelTable& table) const {
        return run(table, 0, shape_.n_tokens, 0, shape_.n_heads);
    }

    void check_row(int t, int h, const float* got) const;

  private:
    std::vector<std::byte> store(const std::vector<float>& x) const {
        std::vector<std::byte> out(x.size() * (shape_.kv_type == KvType::kF16 ? 2 : 4));
        find_kernels(Isa::kScalar)->store_kv(x.data(), x.size(), shape_.kv_type, out.data());
        return out;
    }

    Shape shape_;
    std::size_t n_positions_ = 0;
    std::vector<float> keys_;
    std::vector<float> values_;
    std::vector<float> q_;
    std::vector<std::byte> stored_keys_;
    std::vector<std::byte> stored_values_;
    std::vector<const std::byte*> key_blocks_;
    std::vector<const std::byte*> value_blocks_;
};

void Sequence::check_row(int t, int h, const float* got) const {
    const std::size_t dim = shape_.head_dim;
    const float* q = q_.data() + static_cast<std::size_t>(t * shape_.n_heads + h) * dim;
    const std::int64_t position = shape_.first_position + t;
    const std::int64_t first =
        shape_.window > 0 ? std::max<std::int64_t>(0, position - shape_.window + 1) : 0;
    std::vector<double> scores;
    double largest_sum = 0.0;
    for (std::int64_t p = first; p <= position; ++p) {
        double dot = 0.0;
        double magnitude = 0.0;
        for (std::size_t d = 0; d < dim; ++d) {
            const double product =
                static_cast<double>(q[d]) *
                static_cast<double>(keys_[static_cast<std::size_t>(p) * dim + d]);
            dot += product;
            magnitude += std::fabs(product);
        }
        double score = dot * static_cast<double>(shape_.scale);
        if (shape_.soft_cap > 0.0F) {
            const double cap = static_cast<double>(shape_.soft_cap);
            score = cap * std::tanh(score / cap);
        }
        scores.push_back(score);
        largest_sum = std::max(largest_sum, magnitude * static_cast<double>(shape_.scale));
    }
    const double m = *std::max_element(scores.begin(), scores.end());
    double l = 0.0;
    for (double& score : scores) {
        score = std::exp(score - m);
        l += score;
    }
    for (std::size_t d = 0; d < dim; ++d) {
        double expected = 0.0;
        double largest = 0.0;
        for (std::size_t i = 0; i < scores.size(); ++i) {
            const auto v =
                static_cast<double>(values_[(static_cast<std::size_t>(first) + i) * dim + d]);
            expected += scores[i] / l * v;
            largest = std::max(largest, std::fabs(v));
        }
        const double tolerance = (2 * (static_cast<double>(dim) + 3) * largest_sum +
                                  static_cast<double>(scores.size()) + 16) *
                                 0x1p-24 * largest;
        ASSERT_TRUE(std::fabs(static_cast<double>(got[d]) - expected) <= tolerance)
            << "token " << t << " head " << h << " element " << d << ": got " << got[d]
            << ", expected " << expected << ", tolerance " << tolerance;
    }
}

std::vector<Shape> shapes() {
    std::vector<Shape> all;
    for (const KvType kv_type : {KvType::kF16, KvType::kF32}) {
        all.push_back({.kv_type = kv_type});
        all.push_back({.kv_type = kv_type, .n_tokens = 33, .n_heads = 2});
        all.push_back({.kv_type = kv_type, .n_heads = 9, .first_position = 100});
        all.push_back({.kv_type = kv_type,
                       .head_dim = 256,
                       .n_tokens = 40,
                       .n_heads = 4,
                       .first_position = 61,
                       .window = 37,
                       .scale = 0.0625F});
        all.push_back(
            {.kv_type = kv_type, .head_dim = 8, .n_tokens = 17, .first_position = 15, .window = 1});
        all.push_back({.kv_type = kv_type,
                       .head_dim = 80,
                       .n_tokens = 70,
                       .n_heads = 1,
                       .first_position = 31,
                       .soft_cap = 2.0F});
        all.push_back({.kv_type = kv_type,
                       .head_dim = 128,
                       .n_tokens = 64,
                       .n_heads = 5,
                       .first_position = 64,
                       .soft_cap = 50.0F});
        all.push_back({.kv_type = kv_type,
                       .head_dim = 24,
                       .n_tokens = 5,
                       .n_heads = 2,
                       .first_position = 130,
                       .window = 64,
                       .scale = 6.0F});
    }
    return all;
}

class AttentionOf : public testing::TestWithParam<const KernelTable*> {};

TEST_P(AttentionOf, AgreesWithSoftmaxInDoublePrecision) {
    Rng rng(31);
    for (const Shape& shape : shapes()) {
        const Sequence sequence(shape, rng);
        const std::vector<float> out = sequence.run_all(*GetParam());
        for (int t = 0; t < shape.n_tokens; ++t) {
            for (int h = 0; h < shape.n_heads; ++h) {
                sequence.check_row(
                    t,
                    h,
                    out.data() + static_cast<std::size_t>(t * shape.n_heads + h) * shape.head_dim);
                ASSERT_FALSE(HasFatalFailure())
                    << isa_name(GetParam()->isa) << " head_dim " << shape.head_dim;
            }
        }
    }
}

TEST_P(AttentionOf, RowBitsDoNotDependOnTheOtherRowsOfTheCall) {
    Rng rng(32);
    for (const Shape& shape : shapes()) {
        const Sequence sequence(shape, rng);
        const std::vector<float> full = sequence.run_all(*GetParam());
        for (int round = 0; round < 12; ++round) {
            const int first =
                static_cast<int>(rng.below(static_cast<std::uint64_t>(shape.n_tokens)));
            const int n =
                1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(shape.n_tokens - first)));
            const int head = static_cast<int>(rng.below(static_cast<std::uint64_t>(shape.n_heads)));
            const int n_heads =
                1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(shape.n_heads - head)));
            const auto part = sequence.run(*GetParam(), first, n, head, n_heads);
            for (int t = 0; t < n; ++t) {
                for (int h = 0; h < n_heads; ++h) {
                    const auto got = static_cast<std::size_t>(t * n_heads + h) * shape.head_dim;
                    const auto expected =
                        static_cast<std::size_t>((first + t) * shape.n_heads + head + h) *
                        shape.head_dim;
                    ASSERT_EQ(std::memcmp(part.data() + got,
                                          full.data() + expected,
                                          shape.head_dim * sizeof(float)),
                              0)
                        << "head_dim " << shape.head_dim << " token " << first + t << " head "
                        << head + h;
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Tables, AttentionOf, testing::ValuesIn(available_tables()), table_name);

}  // namespace
}  // namespace ballast::kernels::test
