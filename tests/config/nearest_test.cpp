// SPDX-License-Identifier: MIT
// Suggestions for mistyped names.
#include "config/nearest.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ballast::config {
namespace {

const std::vector<std::string> kNames = {"port", "host", "connections_max", "io_threads"};

TEST(Nearest, FindsADroppedAChangedAndASwappedLetter) {
    EXPECT_EQ(nearest_name(kNames, "prt"), "port");
    EXPECT_EQ(nearest_name(kNames, "pott"), "port");
    EXPECT_EQ(nearest_name(kNames, "prot"), "port");
    EXPECT_EQ(nearest_name(kNames, "conections_mx"), "connections_max");
}

TEST(Nearest, PrefersTheCloserName) {
    EXPECT_EQ(nearest_name(std::vector<std::string>{"abcdef", "abcdeX"}, "abcdeX"), "abcdeX");
}

TEST(Nearest, StaysSilentWhenNothingIsClose) {
    EXPECT_EQ(nearest_name(kNames, "temperature"), "");
    EXPECT_EQ(nearest_name(kNames, ""), "");
    EXPECT_EQ(nearest_name(kNames, std::string(1'000'000, 'p')), "");
    EXPECT_EQ(nearest_name({}, "port"), "");
}

TEST(Nearest, EndsTheSentenceEitherWay) {
    EXPECT_EQ(suggestion(kNames, "prot"), "; did you mean 'port'?");
    EXPECT_EQ(suggestion(kNames, "temperature"), ".");
}

}  // namespace
}  // namespace ballast::config
