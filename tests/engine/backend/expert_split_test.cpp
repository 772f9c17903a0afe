// SPDX-License-Identifier: MIT
// Experts shared by two sides: each computes those it holds, and the sums of both are the whole.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/backend/cpu_backend.h"
#include "engine/backend/host_backend.h"
#include "tests/engine/backend/expert_layer.h"

namespace ballast::backend {
namespace {

using test::ExpertSide;
using test::ExpertWeights;
using test::kLayerExperts;
using test::kLayerRows;
using test::kLayerUsed;
using test::kLayerWidth;
using test::random_floats;

const kernels::KernelTable& scalar() {
    return *kernels::find_kernels(Isa::kScalar);
}

std::vector<float> rows(std::uint64_t seed) {
    return random_floats(kLayerRows * kLayerWidth, seed);
}

/// A random half of the experts in random order, and the others.
std::array<std::vector<int>, 2> random_split(std::uint64_t seed) {
    Rng rng(seed);
    const double share = rng.uniform();
    std::array<std::vector<int>, 2> sides;
    for (const int expert : ExpertSide::all()) {
        std::vector<int>& side = sides[rng.uniform() < share ? 0 : 1];
        side.insert(side.begin() + static_cast<std::ptrdiff_t>(rng.below(side.size() + 1)), expert);
    }
    return sides;
}

/// The experts that one side holds, for a choice made elsewhere.
std::vector<float> share_of(Backend& backend,
                            const ExpertWeights& w,
                            const std::vector<int>& held,
                            const std::vector<float>& x,
                            const std::vector<float>& choice,
                            int n_decode) {
    ExpertSide side(backend, w, held);
    side.write(0, x);
    side.write(1, choice);
    side.run(std::array{test::experts_op()}, n_decode);
    return side.read(2);
}

struct Whole {
    std::vector<float> choice;
    std::vector<float> y;
};
Whole whole_of(Backend& backend,
               const ExpertWeights& w,
               const std::vector<float>& x,
               int n_decode) {
    ExpertSide side(backend, w);
    side.write(0, x);
    side.run(std::array{test::router_op(), test::experts_op()}, n_decode);
    return {.choice = side.read(1), .y = side.read(2)};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> sum_of(std::vector<float> a, const std::vector<float>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] += b[i];
    }
    return a;
}

/// Σ over the row's experts of |weight · output|, an element each: what rounding is relative to.
std::vector<double> magnitudes(Backend& backend,
                               const ExpertWeights& w,
                               const std::vector<float>& x,
                               const std::vector<float>& choice,
                               int n_decode) {
    std::vector<double> sums(kLayerRows * kLayerWidth);
    for (const int expert : ExpertSide::all()) {
        const std::vector<float> one = share_of(backend, w, {expert}, x, choice, n_decode);
        for (std::size_t i = 0; i < sums.size(); ++i) {
            sums[i] += std::fabs(static_cast<double>(one[i]));
        }
    }
    return sums;
}

// Either way a row's n terms are the same floats, added in n − 1 roundings each of at most 2^−24 of
// a partial sum, which is at most the sum of magnitudes but for what the roundings before added.
TEST(ExpertSplit, AddsUpToTheWholeWhateverTheSplit) {
    const ExpertWeights w;
    ThreadPool pool(2);
    CpuBackend cpu(scalar(), pool);
    test::reserve_layer(cpu);
    constexpr double kBound = 2.0 * (kLayerUsed - 1) * 0x1p-24 * (1.0 + 1e-6);
    int n_different = 0;
    for (const int n_decode : {0, 4, static_cast<int>(kLayerRows)}) {
        const std::vector<float> x = rows(5);
        const Whole whole = whole_of(cpu, w, x, n_decode);
        const std::vector<double> magnitude = magnitudes(cpu, w, x, whole.choice, n_decode);
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            const auto split = random_split(seed);
            const std::vector<float> joined =
                sum_of(share_of(cpu, w, split[0], x, whole.choice, n_decode),
                       share_of(cpu, w, split[1], x, whole.choice, n_decode));
            double error = 0.0;
            double power = 0.0;
            for (std::size_t i = 0; i < joined.size(); ++i) {
                const double expected = static_cast<double>(whole.y[i]);
                const double difference = static_cast<double>(joined[i]) - expected;
                ASSERT_TRUE(std::fabs(difference) <= kBound * magnitude[i])
                    << "split " << seed << " element " << i << " is off by " << difference;
                error += difference * difference;
                power += expected * expected;
            }
            EXPECT_TRUE(std::sqrt(error / power) <= 1e-6) << "split " << seed;
            n_different += same_bits(joined, whole.y) ? 0 : 1;
        }
    }
    EXPECT_GT(n_different, 0) << "no split changed the order of a sum: this tests nothing";
}

TEST(ExpertSplit, GivesTheBitsOfTheWholeWhereOneSideHasAll) {
    const ExpertWeights w;
    ThreadPool pool(2);
    CpuBackend cpu(scalar(), pool);
    test::reserve_layer(cpu);
    const std::vector<float> x = rows(5);
    std::vector<int> backwards = ExpertSide::all();
    std::reverse(backwards.begin(), backwards.end());
    for (const int n_decode : {0, 4, static_cast<int>(kLayerRows)}) {
        const Whole whole = whole_of(cpu, w, x, n_decode);
        const auto nothing = share_of(cpu, w, {}, x, whole.choice, n_decode);
        EXPECT_TRUE(same_bits(nothing, std::vector<float>(x.size(), 0.0F)));
        for (const std::vector<int>& held : {ExpertSide::all(), backwards}) {
            const auto all = share_of(cpu, w, held, x, whole.choice, n_decode);
            EXPECT_TRUE(same_bits(all, whole.y));
            EXPECT_TRUE(same_bits(sum_of(all, nothing), whole.y));
            EXPECT_TRUE(same_bits(sum_of(nothing, all), whole.y));
        }
    }
}

// A row's share must not depend on which other experts the side holds, nor on the other rows.
TEST(ExpertSplit, GivesARowTheSameBitsWhateverElseIsHeld) {
    const ExpertWeights w;
    ThreadPool pool(1);
    CpuBackend cpu(scalar(), pool);
    test::reserve_layer(cpu);
    const std::vector<float> x = rows(5);
    const Whole whole = whole_of(cpu, w, x, 4);
    const SlotView choice{const_cast<float*>(whole.choice.data()), choice_width(kLayerUsed)};
    for (std::size_t row = 0; row < kLayerRows; ++row) {
        std::vector<int> chosen;
        for (std::size_t rank = 0; rank < kLayerUsed; ++rank) {
            chosen.push_back(ExpertChoice(choice, static_cast<int>(row), kLayerUsed)
                                 .expert(rank, kLayerExperts));
        }
        const auto y = share_of(cpu, w, chosen, x, whole.choice, 4);
        EXPECT_EQ(0,
                  std::memcmp(y.data() + row * kLayerWidth,
                              whole.y.data() + row * kLayerWidth,
                              kLayerWidth * sizeof(float)))
            << "row " << row;
    }
}

TEST(ExpertSplit, WorksWhereAllRowsChooseTheSameExperts) {
    const ExpertWeights w;
    ThreadPool pool(2);
    CpuBackend cpu(scalar(), pool);
    test::reserve_layer(cpu);
    std::vector<float> x = rows(5);
    for (std::size_t i = kLayerWidth; i < x.size(); ++i) {
        x[i] = x[i - kLayerWidth];
    }
    const Whole whole = whole_of(cpu, w, x, 4);
    const SlotView slot{const_cast<float*>(whole.choice.data()), choice_width(kLayerUsed)};
    const int hot = ExpertChoice(slot, 0, kLayerUsed).expert(0, kLayerExperts);
    std::vector<int> others = ExpertSide::all();
    others.erase(others.begin() + hot);
    const auto one = share_of(cpu, w, {hot}, x, whole.choice, 4);
    const auto rest = share_of(cpu, w, others, x, whole.choice, 4);
    const auto joined = sum_of(one, rest);
    for (std::size_t i = 0; i < joined.size(); ++i) {
        // 1e-5 is far above rounding of values of a few units, far below any expert's share.
        ASSERT_NEAR(joined[i], whole.y[i], 1e-5F);
        ASSERT_NE(one[i], 0.0F);
    }
}

TEST(ExpertSplit, KeepsRowsThatAreNotNumbersSoAndTheirNeighboursNumbers) {
    const ExpertWeights w;
    ThreadPool pool(2);
    CpuBackend cpu(scalar(), pool);
    test::reserve_layer(cpu);
    std::vector<float> x = rows(5);
    std::fill(x.begin() + kLayerWidth,
              x.begin() + 2 * kLayerWidth,
              std::numeric_limits<float>::quiet_NaN());
    for (const int n_decode : {0, static_cast<int>(kLayerRows)}) {
        const Whole whole = whole_of(cpu, w, x, n_decode);
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
            const auto split = random_split(seed);
            const auto joined = sum_of(share_of(cpu, w, split[0], x, whole.choice, n_decode),
                                       share_of(cpu, w, split[1], x, whole.choice, n_decode));
            for (std::size_t i = 0; i < joined.size(); ++i) {
                ASSERT_EQ(std::isnan(joined[i]), i / kLayerWidth == 1) << i;
            }
        }
        const auto nothing = share_of(cpu, w, {}, x, whole.choice, n_decode);
        EXPECT_TRUE(same_bits(nothing, std::vector<float>(x.size(), 0.0F)));
    }
}

/// Hits on a device of threads while the CPU computes the misses: the choice is made on the CPU and
/// crosses, the device's share is queued before the CPU begins its own, and its sum crosses back.
TEST(ExpertSplit, RunsHitsOnTheDeviceWhileMissesRunOnTheCpu) {
    const ExpertWeights w;
    const SystemClock clock;
    ThreadPool pool(2);
    CpuBackend cpu(scalar(), pool);
    test::reserve_layer(cpu);
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
        HostBackend device(
            scalar(),
            clock,
            {.threads = 2, .faults = {.seed = seed, .delay_max = std::chrono::milliseconds(1)}});
        test::reserve_layer(device);
        const auto split = random_split(seed);
        const std::vector<float> x = rows(seed);
        ExpertSide here(cpu, w, split[0]);
        ExpertSide there(device, w, split[1]);
        here.write(0, x);
        here.run(std::array{test::router_op()}, 4);
        const std::vector<float> choice = here.read(1);
        const auto bytes = std::as_bytes(std::span(choice));
        const auto x_sent = device.copy_in(reinterpret_cast<std::byte*>(there.slot(0).data),
                                           std::as_bytes(std::span(x)));
        const auto sent = device.copy_in(reinterpret_cast<std::byte*>(there.slot(1).data), bytes);
        ASSERT_TRUE(x_sent.has_value() && sent.has_value());
        device.order_after(Queue::kCompute, *sent);
        const std::array ops = {test::experts_op()};
        const Event hits = there.submit(ops, 4);
        here.run(ops, 4);
        const std::vector<float> misses = here.read(2);
        device.order_after(Queue::kCopy, hits);
        const std::vector<float> joined = sum_of(misses, there.read(2));
        const std::vector<float> again = sum_of(misses, share_of(cpu, w, split[1], x, choice, 4));
        EXPECT_TRUE(same_bits(joined, again)) << "seed " << seed;
    }
}

}  // namespace
}  // namespace ballast::backend
