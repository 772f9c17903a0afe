// SPDX-License-Identifier: MIT
// The copy lane by hand: in order, through a ring of four, beside the CPU.
#include "scheduler/placement/copy_lane.h"

#include <gtest/gtest.h>

namespace ballast::scheduler {
namespace {

constexpr double kTile = static_cast<double>(kTileBytesMax);
// A tile takes one second.
constexpr double kLink = kTile;

TEST(CopyLane, ComputesEachTileAsSoonAsItIsThere) {
    CopyLane lane(kLink);
    // Tiles are there at 1, 2, 3; each is computed in 0.5 s.
    EXPECT_NEAR(lane.stream(3 * kTile, 1.5, 0.0), 3.5, 1e-9);
    // The device has something else to do first: the next two wait in the ring, then 0.5 s each.
    EXPECT_NEAR(lane.stream(2 * kTile, 1.0, 10.0), 11.0, 1e-9);
}

TEST(CopyLane, CutsBytesIntoTheFewestEqualTiles) {
    CopyLane lane(kLink);
    // A byte more than a tile is two tiles of half of it: 0.5 s, then 0.5 s.
    EXPECT_NEAR(lane.stream(kTile + 1, 0.2, 0.0), 1.1, 1e-6);
    // Three tiles and a rounding error are three tiles.
    CopyLane rounded(kLink);
    EXPECT_NEAR(rounded.stream(3 * kTile * (1.0 + 1e-15), 1.5, 0.0), 3.5, 1e-9);
    CopyLane small(kLink);
    EXPECT_NEAR(small.stream(kTile / 4, 0.0, 0.0), 0.25, 1e-9);
}

TEST(CopyLane, RunsAheadNoFurtherThanItsRing) {
    CopyLane lane(kLink);
    // Nothing is computed before 100: four tiles are there then, the fifth starts when the first
    // has been computed (at 101) and is there at 102.
    EXPECT_NEAR(lane.stream(4 * kTile, 4.0, 100.0), 104.0, 1e-9);
    EXPECT_NEAR(lane.stream(kTile, 0.1, 104.0), 104.1, 1e-9);
    CopyLane full(kLink);
    full.stream(4 * kTile, 0.4, 100.0);  // the readers finish at 100.1, 100.2, 100.3, 100.4
    EXPECT_NEAR(full.stream(kTile, 0.0, 0.0), 101.1, 1e-9);
}

TEST(CopyLane, IsSlowedWhileTheCpuReads) {
    CopyLane lane(kLink);
    lane.cpu_works(0.5, 2.5, kLink / 4);
    // 0.5 tiles by 0.5, another 0.5 by 2.5: the first tile is there at 2.5, the second at 3.5.
    EXPECT_NEAR(lane.stream(2 * kTile, 0.0, 0.0), 3.5, 1e-9);
    // Work of the past does not matter any more.
    EXPECT_NEAR(lane.stream(kTile, 0.0, 0.0), 4.5, 1e-9);
}

TEST(CopyLane, WaitsWhereTheCpuLeavesNothing) {
    CopyLane lane(kLink);
    lane.cpu_works(0.0, 3.0, 0.0);
    lane.cpu_works(3.0, 4.0, 0.0);
    EXPECT_NEAR(lane.stream(kTile, 0.0, 0.0), 5.0, 1e-9);
}

TEST(CopyLane, HoldsUntilATurnHasCome) {
    CopyLane lane(kLink);
    lane.hold_until(7.0);
    EXPECT_NEAR(lane.stream(kTile, 0.0, 0.0), 8.0, 1e-9);
    lane.hold_until(1.0);  // is past
    EXPECT_NEAR(lane.stream(kTile, 0.0, 0.0), 9.0, 1e-9);
}

TEST(CopyLane, EndsForGroupsOfAnySize) {
    CopyLane lane(kLink);
    // A petabyte: about as long as it takes to cross, found without going through each tile.
    EXPECT_NEAR(lane.stream(1e15, 1.0, 0.0), 1e15 / kLink, 1e-3 * 1e15 / kLink);
}

}  // namespace
}  // namespace ballast::scheduler
