// SPDX-License-Identifier: MIT
// Element-wise kernels of every table against double precision.
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "engine/quant/float16.h"
#include "tests/engine/kernels/support.h"

namespace ballast::kernels::test {
namespace {

constexpr double kEpsilon = 0x1p-24;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kLengths[] = {1, 7, 15, 16, 17, 64, 100, 576, 2048};

class ElementwiseOf : public testing::TestWithParam<const KernelTable*> {};

std::vector<float> normals(std::size_t n, float scale, Rng& rng) {
    std::vector<float> x(n);
    for (float& value : x) {
        value = random_normal(rng) * scale;
    }
    return x;
}

TEST_P(ElementwiseOf, RmsNormIsWithinFourRoundings) {
    Rng rng(21);
    for (const std::size_t n : kLengths) {
        for (const float scale : {1e-6F, 1.0F, 1e4F}) {
            const auto x = normals(n, scale, rng);
            const auto weight = normals(n, 1.0F, rng);
            std::vector<float> out(n + 1, kNan);
            GetParam()->rms_norm(x.data(), weight.data(), n, 1e-5F, out.data());
            double sum = 0.0;
            for (const float value : x) {
                sum += static_cast<double>(value) * static_cast<double>(value);
            }
            const double factor =
                1.0 / std::sqrt(sum / static_cast<double>(n) + static_cast<double>(1e-5F));
            for (std::size_t i = 0; i < n; ++i) {
                // Roundings: the factor to float32 and two products.
                const double expected =
                    static_cast<double>(x[i]) * factor * static_cast<double>(weight[i]);
                ASSERT_TRUE(std::fabs(static_cast<double>(out[i]) - expected) <=
                            4 * kEpsilon * std::fabs(expected) + 0x1p-149)
                    << n << " at " << i;
            }
            EXPECT_TRUE(std::isnan(out[n]));
            std::vector<float> in_place = x;
            GetParam()->rms_norm(in_place.data(), weight.data(), n, 1e-5F, in_place.data());
            out.pop_back();
            EXPECT_EQ(in_place, out);
        }
    }
}

TEST_P(ElementwiseOf, AddIsExactlyRounded) {
    Rng rng(22);
    for (const std::size_t n : kLengths) {
        auto x = normals(n + 1, 1.0F, rng);
        const auto before = x;
        const auto y = normals(n, 1.0F, rng);
        GetParam()->add(x.data(), y.data(), n);
        for (std::size_t i = 0; i < n; ++i) {
            ASSERT_EQ(x[i], before[i] + y[i]);
        }
        EXPECT_EQ(x[n], before[n]);
    }
}

/// Gates over the whole range, dense where the functions bend.
std::vector<float> gates() {
    std::vector<float> x = {
        0.0F, -0.0F, 1e-30F, -1e-30F, 1e4F, -1e4F, 87.0F, -87.0F, 88.8F, -88.8F};
    for (int i = -4000; i <= 4000; ++i) {
        x.push_back(static_cast<float>(i) * 0.005F);
        x.push_back(static_cast<float>(i) * 0.025F);
    }
    return x;
}

/// out = x / (1 + exp(−argument(x))) · up, where the kernel's argument went through so many
/// roundings.
struct Gate {
    void (*kernel)(const float*, const float*, std::size_t, float*);
    double (*argument)(double x);
    double argument_roundings;
};

// exp is right within 2 ulp = 4 ε; a sum, a quotient and a product add 3 ε; and a relative error of
// the argument becomes an error of exp that is |argument| times as large. Where exp overflows the
// true result is below 20 · e^-88.7 · |up|.
void check_gate(const Gate& tested) {
    Rng rng(23);
    const auto gate = gates();
    const auto up = normals(gate.size(), 1.0F, rng);
    std::vector<float> out(gate.size() + 1, kNan);
    tested.kernel(gate.data(), up.data(), gate.size(), out.data());
    for (std::size_t i = 0; i < gate.size(); ++i) {
        const auto x = static_cast<double>(gate[i]);
        const double argument = tested.argument(x);
        const double expected = x / (1 + std::exp(-argument)) * static_cast<double>(up[i]);
        const double tolerance =
            (8 + tested.argument_roundings * std::fabs(argument)) * kEpsilon * std::fabs(expected) +
            1e-36;
        ASSERT_TRUE(std::fabs(static_cast<double>(out[i]) - expected) <= tolerance)
            << "gate " << gate[i] << " got " << out[i] << " expected " << expected;
    }
    EXPECT_TRUE(std::isnan(out[gate.size()]));
    auto in_place = gate;
    tested.kernel(in_place.data(), up.data(), gate.size(), in_place.data());
    out.pop_back();
    EXPECT_EQ(in_place, out);
}

TEST_P(ElementwiseOf, SiluIsWithinFourUnits) {
    check_gate({GetParam()->silu_multiply, [](double x) { return x; }, 0});
}

TEST_P(ElementwiseOf, GeluIsAsAccurateAsItsArgument) {
    check_gate({GetParam()->gelu_multiply,
                [](double x) { return 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); },
                6});
}

TEST_P(ElementwiseOf, GatesKeepNan) {
    const std::vector<float> gate(20, kNan);
    const std::vector<float> up(20, 1.0F);
    for (const auto kernel : {GetParam()->silu_multiply, GetParam()->gelu_multiply}) {
        std::vector<float> out(20, 0.0F);
        kernel(gate.data(), up.data(), 20, out.data());
        for (const float value : out) {
            EXPECT_TRUE(std::isnan(value));
        }
    }
}

TEST_P(ElementwiseOf, RopeRotatesBothPairings) {
    Rng rng(24);
    for (const std::size_t n : {2U, 8U, 30U, 32U, 64U, 96U, 128U, 256U}) {
        for (const bool interleaved : {false, true}) {
            std::vector<float> cos(n / 2);
            std::vector<float> sin(n / 2);
            for (std::size_t i = 0; i < n / 2; ++i) {
                const double angle = rng.uniform() * 6.28;
                cos[i] = static_cast<float>(std::cos(angle));
                sin[i] = static_cast<float>(std::sin(angle));
            }
            auto head = normals(n + 5, 1.0F, rng);
            const auto before = head;
            GetParam()->rope(head.data(), cos.data(), sin.data(), n, interleaved);
            for (std::size_t i = 0; i < n / 2; ++i) {
                const std::size_t ia = interleaved ? 2 * i : i;
                const std::size_t ib = interleaved ? 2 * i + 1 : i + n / 2;
                const double a = static_cast<double>(before[ia]);
                const double b = static_cast<double>(before[ib]);
                const double c = static_cast<double>(cos[i]);
                const double s = static_cast<double>(sin[i]);
                // Two products and a sum.
                const double tolerance = 2 * kEpsilon * (std::fabs(a) + std::fabs(b));
                ASSERT_TRUE(std::fabs(static_cast<double>(head[ia]) - (a * c - b * s)) <=
                            tolerance);
                ASSERT_TRUE(std::fabs(static_cast<double>(head[ib]) - (a * s + b * c)) <=
                            tolerance);
            }
            for (std::size_t i = n; i < n + 5; ++i) {
                ASSERT_EQ(head[i], before[i]);
            }
        }
    }
}

TEST_P(ElementwiseOf, StoreKvRoundsToTheNearestHalfTiesToEven) {
    // 1 + 2^-11 lies between two halves; 65519.996 and 65520 on either side of infinity.
    std::vector<float> x = {1.0F + 0x1p-11F,
                            1.0F + 3 * 0x1p-11F,
                            65519.996F,
                            65520.0F,
                            -0.0F,
                            0x1p-24F,
                            0x1p-25F,
                            3 * 0x1p-25F,
                            -6.1e-5F,
                            1e-10F};
    Rng rng(25);
    for (int i = 0; i < 1001; ++i) {
        x.push_back(random_normal(rng) * std::exp2(static_cast<float>(rng.below(30)) - 20.0F));
    }
    std::vector<std::uint16_t> halves(x.size() + 1, 0x7E01);
    GetParam()->store_kv(
        x.data(), x.size(), KvType::kF16, reinterpret_cast<std::byte*>(halves.data()));
    for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(halves[i], quant::float_to_half(x[i])) << x[i];
    }
    EXPECT_EQ(halves[x.size()], 0x7E01);
    EXPECT_EQ(halves[0], 0x3C00);
    EXPECT_EQ(halves[1], 0x3C02);
    EXPECT_EQ(halves[3], 0x7C00);

    std::vector<float> floats(x.size() + 1, kNan);
    GetParam()->store_kv(
        x.data(), x.size(), KvType::kF32, reinterpret_cast<std::byte*>(floats.data()));
    EXPECT_EQ(std::memcmp(floats.data(), x.data(), x.size() * sizeof(float)), 0);
    EXPECT_TRUE(std::isnan(floats[x.size()]));
}

TEST_P(ElementwiseOf, DequantizedRowsHaveTheBitsOfTheSpecification) {
    Rng rng(26);
    for (const auto type : weight_types()) {
        const auto row = make_weights(type, 1, 512, Weights::kRandom, rng);
        std::vector<float> got(512, kNan);
        std::vector<float> expected(512);
        GetParam()->dequantize_row(type, row.data(), 512, got.data());
        quant::traits(type).dequantize(row.data(), 512, expected.data());
        EXPECT_EQ(got, expected) << type_name(type);
    }
}

INSTANTIATE_TEST_SUITE_P(Tables, ElementwiseOf, testing::ValuesIn(available_tables()), table_name);

}  // namespace
}  // namespace ballast::kernels::test
