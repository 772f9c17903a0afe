// SPDX-License-Identifier: MIT
// Stop strings must be found wherever the text is cut, and no part of one may get out.
#include "engine/sampling/stop_matcher.h"

#include <gtest/gtest.h>

#include "engine/base/rng.h"
#include "engine/base/utf8.h"

namespace ballast::sampling {
namespace {

struct Outcome {
    std::string text;
    bool stopped = false;
    std::string matched;
    bool operator==(const Outcome&) const = default;
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
    StopMatcher matcher(stops);
    Outcome outcome;
    for (const std::string& piece : pieces) {
        outcome.text += matcher.feed(piece);
    }
    if (!matcher.stopped()) {
        outcome.text += matcher.flush();
    }
    outcome.stopped = matcher.stopped();
    outcome.matched = matcher.matched();
    return outcome;
}

/// The definition, without automata: the first place where some stop string is complete.
Outcome expected_outcome(const std::vector<std::string>& stops, const std::string& text) {
    for (std::size_t end = 1; end <= text.size(); ++end) {
        std::string longest;
        for (const std::string& stop : stops) {
            const bool ends = !stop.empty() && stop.size() <= end &&
                              text.compare(end - stop.size(), stop.size(), stop) == 0;
            if (ends && stop.size() > longest.size()) {
                longest = stop;
            }
        }
        if (!longest.empty()) {
            return {text.substr(0, end - longest.size()), true, longest};
        }
    }
    return {text, false, ""};
}

TEST(StopMatcher, FindsAStopStringThatSpansTokens) {
    EXPECT_EQ(run({"<END>"}, {"Hello <", "EN", "D", "> and more"}),
              (Outcome{"Hello ", true, "<END>"}));
}

TEST(StopMatcher, LetsNothingOfAPossibleStopStringOut) {
    StopMatcher matcher({"\n\nUser:"});
    EXPECT_EQ(matcher.feed("Hi"), "Hi");
    EXPECT_EQ(matcher.feed("\n"), "");
    EXPECT_EQ(matcher.feed("\nUs"), "");
    EXPECT_EQ(matcher.feed("age"), "\n\nUsage");
    EXPECT_EQ(matcher.feed("!\n"), "!");
    EXPECT_FALSE(matcher.stopped());
    EXPECT_EQ(matcher.flush(), "\n");
    EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, HoldsOnlyTheLongestEndingThatCanStillMatch) {
    StopMatcher matcher({"aab"});
    EXPECT_EQ(matcher.feed("aaaa"), "aa");
    EXPECT_EQ(matcher.feed("b"), "");
    EXPECT_EQ(matcher.matched(), "aab");
}

TEST(StopMatcher, TakesTheFirstCompleteAndOfThoseTheLongest) {
    EXPECT_EQ(run({"abc", "b"}, {"xabc"}), (Outcome{"xa", true, "b"}));
    EXPECT_EQ(run({"c", "abc", "bc"}, {"xabc"}), (Outcome{"x", true, "abc"}));
    EXPECT_EQ(run({"ab", "abab"}, {"abab"}), (Outcome{"", true, "ab"}));
}

TEST(StopMatcher, SaysNothingMoreAfterAMatch) {
    StopMatcher matcher({"."});
    EXPECT_EQ(matcher.feed("One. Two."), "One");
    EXPECT_EQ(matcher.feed("Three"), "");
    EXPECT_EQ(matcher.flush(), "");
    EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, PassesEverythingThroughWithoutStopStrings) {
    EXPECT_EQ(run({}, {"a", "b"}), (Outcome{"ab", false, ""}));
    EXPECT_EQ(run({""}, {"a", "b"}), (Outcome{"ab", false, ""}));
}

TEST(StopMatcher, NeverCutsACharacter) {
    // é is C3 A9, è is C3 A8: they share the first byte.
    StopMatcher matcher({"\xC3\xA9!"});
    EXPECT_EQ(matcher.feed("\xC3\xA8"), "\xC3\xA8");
    EXPECT_EQ(matcher.feed("\xC3\xA9"), "");
    EXPECT_EQ(matcher.feed("?"), "\xC3\xA9?");
    EXPECT_EQ(matcher.feed("\xC3\xA9!"), "");
    EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, GivesTheSameHoweverTheTextIsCut) {
    const std::vector<std::string> alphabet = {"a", "b", "\xC3\xA9", "\xC3\xA8"};
    Rng rng(1);
    int n_stopped = 0;
    for (int round = 0; round < 3000; ++round) {
        const auto random_text = [&](std::uint64_t length_max) {
            std::string text;
            for (std::uint64_t n = rng.below(length_max + 1); n > 0; --n) {
                text += alphabet[rng.below(alphabet.size())];
            }
            return text;
        };
        std::vector<std::string> stops;
        for (std::uint64_t n = 1 + rng.below(4); n > 0; --n) {
            stops.push_back(random_text(7));
        }
        std::string whole;
        std::vector<std::string> pieces;
        for (std::uint64_t n = rng.below(12); n > 0; --n) {
            pieces.push_back(random_text(4));
            whole += pieces.back();
        }
        const Outcome expected = expected_outcome(stops, whole);
        n_stopped += expected.stopped ? 1 : 0;
        ASSERT_EQ(run(stops, pieces), expected) << "round " << round;
        StopMatcher matcher(stops);
        for (const std::string& piece : pieces) {
            ASSERT_TRUE(utf8_is_valid(matcher.feed(piece))) << "round " << round;
        }
    }
    EXPECT_GT(n_stopped, 500);
    EXPECT_LT(n_stopped, 2900);
}

TEST(StopMatcher, TakesOneMebibyteOfNearMatches) {
    // A stop string that is the worst for a search that starts anew at each place.
    const std::string stop = std::string(20000, 'a') + "b";
    StopMatcher matcher({stop});
    std::size_t n_out = 0;
    for (int i = 0; i < 1024; ++i) {
        n_out += matcher.feed(std::string(1024, 'a')).size();
    }
    n_out += matcher.flush().size();
    EXPECT_EQ(n_out, std::size_t{1024} * 1024);
    EXPECT_FALSE(matcher.stopped());
}

}  // namespace
}  // namespace ballast::sampling
