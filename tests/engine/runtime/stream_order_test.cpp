// SPDX-License-Identifier: MIT
// Weights that stream are ordered ahead of the ops that read them, so that they can cross while
// something is computed.
#include "tests/engine/runtime/divided_plans.h"
#include "tests/engine/runtime/harness.h"

namespace ballast::test {
namespace {

using runtime::Lane;
using runtime::LaneSpan;

/// Of units that streamed: how many, and how many of them were ordered ahead.
struct Ahead {
    int n_units = 0;
    int n_ahead = 0;
};

/// By the order in which the engine ordered work: at least one op, on either side, lies between a
/// copy and the first op that reads its tile.
Ahead count_ahead(std::span<const LaneSpan> spans) {
    Ahead found;
    for (std::size_t i = 0; i < spans.size(); ++i) {
        if (spans[i].lane != Lane::kCopy) {
            continue;
        }
        int n_ops = 0;
        std::size_t reader = i + 1;
        while (reader < spans.size() &&
               (spans[reader].lane == Lane::kCopy || spans[reader].tile != spans[i].tile)) {
            n_ops += spans[reader].is_copy() ? 0 : 1;
            ++reader;
        }
        // What nobody reads, because no logits are wanted, is not counted.
        if (reader < spans.size()) {
            ++found.n_units;
            found.n_ahead += n_ops > 0 ? 1 : 0;
        }
    }
    return found;
}

TEST(WeightRing, OrdersUnitsAheadOfTheOpsThatReadThem) {
    const TinyFixture fixture({.n_layers = 4, .type = quant::QuantType::kQ8_0});
    const model::Model& model = *fixture.model().model;
    Ahead all;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        runtime::ComputeShape shape = Script::shape();
        shape.plan = divided_plan(model.catalog(), seed);
        shape.tile_bytes =
            seed % 2 == 0 ? scheduler::kTileBytesMax : model.catalog().total_bytes() / 100;
        auto compute = runtime::Compute::create(
            model, {.threads = 1, .device = "host", .vram_budget = 1ULL << 30U}, shape);
        ASSERT_TRUE(compute.has_value());
        (*compute)->lane_log().keep_spans();
        Script script(model, **compute, 4);
        ASSERT_TRUE(script.run().has_value());
        const Ahead found = count_ahead((*compute)->lane_log().spans());
        all.n_units += found.n_units;
        all.n_ahead += found.n_ahead;
    }
    EXPECT_GT(all.n_units, 500);
    EXPECT_GE(all.n_ahead, all.n_units * 9 / 10);
}

TEST(WeightRing, IsSeenToOrderTooLate) {
    // The count tells the two apart.
    const LaneSpan copy{.lane = Lane::kCopy, .bytes = 1, .tile = 0};
    const LaneSpan reader{.lane = Lane::kDevice, .tile = 0};
    const LaneSpan other{.lane = Lane::kCpu};
    const LaneSpan sent{.lane = Lane::kDevice, .bytes = 8};
    EXPECT_EQ(count_ahead(std::vector{other, copy, sent, reader}).n_ahead, 0);
    EXPECT_EQ(count_ahead(std::vector{copy, other, reader}).n_ahead, 1);
    EXPECT_EQ(count_ahead(std::vector{copy, other}).n_units, 0);
}

}  // namespace
}  // namespace ballast::test
