// SPDX-License-Identifier: MIT
#include "scheduler/load/load_filter.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "engine/base/rng.h"

namespace ballast::scheduler {
namespace {

LoadSample busy_at(int ms, double busy) {
    LoadSample sample;
    sample.time = std::chrono::milliseconds(ms);
    sample.device_busy = busy;
    return sample;
}

TEST(LoadFilter, ForgetsHalfInFourSamples) {
    LoadFilter filter;
    EXPECT_TRUE(filter.add(busy_at(0, 0.0)));
    for (int i = 1; i <= 4; ++i) {
        filter.add(busy_at(i, 0.8));
    }
    // The last change may be a threshold behind the average, which is 0.4 busy now.
    EXPECT_NEAR(filter.view().device_share, 0.6, 0.08);
    for (int i = 5; i < 60; ++i) {
        filter.add(busy_at(i, 0.8));
    }
    EXPECT_NEAR(filter.view().device_share, 0.2, 0.08);
}

TEST(LoadFilter, MakesNothingOfNoise) {
    LoadFilter filter;
    Rng rng(3);
    int n_changes = 0;
    filter.add(busy_at(0, 0.5));
    for (int i = 1; i <= 1000; ++i) {
        const double noise = 1.0 + 0.25 * (2.0 * rng.uniform() - 1.0);
        n_changes += filter.add(busy_at(i, 0.5 * noise)) ? 1 : 0;
    }
    EXPECT_LE(n_changes, 20);
    EXPECT_NEAR(filter.view().device_share, 0.5, 0.1);
}

TEST(LoadFilter, ComesBackToTheWholeDevice) {
    LoadFilter filter;
    filter.add(busy_at(0, 0.7));
    int n = 1;
    while (filter.view().device_share < 1.0 && n < 100) {
        filter.add(busy_at(n++, 0.0));
    }
    EXPECT_EQ(filter.view().device_share, 1.0);
    EXPECT_LE(n, 28);
}

TEST(LoadFilter, HoldsStillWhereAShareGoesToAndFro) {
    LoadFilter filter;
    LoadFilter plain({.turn_samples = 0});  // never takes it for a wave
    int n_changes = 0;
    int n_plain = 0;
    for (int i = 0; i < 400; ++i) {
        const LoadSample sample = busy_at(i, i / 6 % 2 == 0 ? 0.0 : 0.7);
        n_changes += filter.add(sample) ? 1 : 0;
        n_plain += plain.add(sample) ? 1 : 0;
        EXPECT_EQ(filter.view().device_latest, 1.0 - sample.device_busy);
    }
    EXPECT_GE(n_plain, 100);
    EXPECT_LE(n_changes, 60);
    EXPECT_NEAR(filter.view().device_share, 0.65, 0.16);
    // When it is over, all comes back.
    for (int i = 400; i < 500; ++i) {
        filter.add(busy_at(i, 0.0));
    }
    EXPECT_EQ(filter.view().device_share, 1.0);
}

TEST(LoadFilter, ComesBackFromOnePulseAsIfItWereTheFirst) {
    LoadFilter filter;
    int i = 0;
    for (const int pulse : {0, 1, 2}) {
        SCOPED_TRACE(pulse);
        for (const int end = i + 30; i < end; ++i) {
            filter.add(busy_at(i, 0.0));
        }
        for (const int end = i + 10; i < end; ++i) {
            filter.add(busy_at(i, 0.7));
        }
        int n = 0;
        while (filter.view().device_share < 1.0 && n < 100) {
            filter.add(busy_at(i++, 0.0));
            ++n;
        }
        EXPECT_LE(n, 28);
    }
}

TEST(LoadFilter, DropsWhatIsLateAndWhatCannotBe) {
    LoadFilter filter;
    LoadSample sample = busy_at(100, 0.0);
    sample.device_total_bytes = 1000;
    sample.others_bytes = 400;
    filter.add(sample);
    sample = busy_at(99, 1.0);
    sample.others_bytes = 0;
    EXPECT_FALSE(filter.add(sample));
    EXPECT_EQ(filter.n_late(), 1U);
    EXPECT_EQ(filter.view().others_bytes, 400U);

    sample = busy_at(101, std::numeric_limits<double>::quiet_NaN());
    sample.link_busy = -0.5;
    sample.cpu_psi = 1.01;
    sample.device_total_bytes = 1000;
    sample.others_bytes = 1001;
    EXPECT_FALSE(filter.add(sample));
    EXPECT_EQ(filter.n_wrong(), 4U);
    const LoadView& view = filter.view();
    EXPECT_EQ(view.others_bytes, 400U);
    EXPECT_EQ(view.device_share, 1.0);
    EXPECT_EQ(view.link_share, 1.0);
    EXPECT_EQ(view.cpu_share, 1.0);
    EXPECT_EQ(view.device_latest, 1.0) << "not a number is not idle either";
    filter.add(busy_at(102, 0.25));
    filter.add(busy_at(103, -1.0));
    EXPECT_EQ(filter.view().device_latest, 0.75);
}

TEST(LoadFilter, LeavesAShareAboveNothing) {
    LoadFilter filter;
    for (int i = 0; i < 100; ++i) {
        filter.add(busy_at(i, 1.0));
    }
    EXPECT_EQ(filter.view().device_share, LoadFilter::Options{}.share_least);
}

}  // namespace
}  // namespace ballast::scheduler
