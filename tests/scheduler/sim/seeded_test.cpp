// SPDX-License-Identifier: MIT
// A thousand seeds, and every seed that ever failed; and that each invariant can fail.
#include "scheduler/sim/seeded_run.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/sanitizer.h"
#include "tests/support/test_data.h"

namespace ballast::scheduler {
namespace {

// In parts, for as many processors.
constexpr std::uint64_t kParts = 4;
constexpr std::uint64_t kSeedsOfPart = test::kSanitized ? 12 : 250;
// Of these some show each mutation.
constexpr std::uint64_t kMutatedSeeds = 20;

class SeededPart : public testing::TestWithParam<std::uint64_t> {};

TEST_P(SeededPart, BreaksNoInvariant) {
    int n_uploads = 0;
    int n_redone = 0;
    for (std::uint64_t i = 0; i < kSeedsOfPart; ++i) {
        const std::uint64_t seed = 1 + GetParam() + kParts * i;
        const SeededResult found = run_seed(seed);
        EXPECT_EQ(found.failure(seed), "") << found.options;
        n_uploads += found.n_uploads;
        n_redone += found.n_steps_redone;
    }
    EXPECT_GT(n_uploads, 0);
    EXPECT_GT(n_redone, 0);
}

INSTANTIATE_TEST_SUITE_P(Thousand, SeededPart, testing::Range<std::uint64_t>(0, kParts));

/// One a line; what follows it is for people.
std::vector<std::uint64_t> seeds_that_failed() {
    std::ifstream file(test::source_dir() + "/tests/sim/seeds.txt");
    std::vector<std::uint64_t> seeds;
    std::string line;
    while (std::getline(file, line)) {
        if (line.empty() || line.front() == '#') {
            continue;
        }
        std::uint64_t seed = 0;
        EXPECT_TRUE(std::istringstream(line) >> seed) << line;
        seeds.push_back(seed);
    }
    return seeds;
}

TEST(SeededRun, BreaksNoInvariantWithASeedThatEverDid) {
    const std::vector<std::uint64_t> seeds = seeds_that_failed();
    EXPECT_FALSE(seeds.empty());
    for (const std::uint64_t seed : seeds) {
        const SeededResult found = run_seed(seed);
        EXPECT_EQ(found.failure(seed), "") << found.options;
    }
}

TEST(SeededRun, RepeatsItselfExactly) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        const SeededResult first = run_seed(seed);
        const SeededResult second = run_seed(seed);
        EXPECT_EQ(first.log, second.log);
        EXPECT_EQ(first.log_hash, second.log_hash);
        EXPECT_EQ(first.options, second.options);
        EXPECT_NE(first.log_hash, run_seed(seed + 1).log_hash);
    }
}

struct MutationCase {
    const char* name;
    Mutation mutation;
    Invariant invariant;
};

void PrintTo(const MutationCase& tested, std::ostream* out) {
    *out << tested.name;
}

class SeededMutation : public testing::TestWithParam<MutationCase> {};

TEST_P(SeededMutation, BreaksItsInvariant) {
    int n_broken = 0;
    for (std::uint64_t seed = 1; seed <= kMutatedSeeds && n_broken == 0; ++seed) {
        for (const Violation& violation : run_seed(seed, GetParam().mutation).violations) {
            n_broken += violation.invariant == GetParam().invariant ? 1 : 0;
        }
    }
    EXPECT_GT(n_broken, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Each,
    SeededMutation,
    testing::Values(
        MutationCase{"IgnoreBudget", Mutation::kIgnoreBudget, Invariant::kBudgetIsMet},
        MutationCase{"ExecuteEarly", Mutation::kExecuteEarly, Invariant::kExecutesResident},
        MutationCase{"UploadTooMuch", Mutation::kUploadTooMuch, Invariant::kCopiesFit},
        MutationCase{"LoseRequests", Mutation::kLoseRequests, Invariant::kRequestsEnd},
        MutationCase{"GrowWithoutPause", Mutation::kGrowWithoutPause, Invariant::kMovesBounded},
        MutationCase{"FreeAtOnce", Mutation::kFreeAtOnce, Invariant::kFreeIsUnread},
        MutationCase{"NeverGrowAgain", Mutation::kNeverGrowAgain, Invariant::kDeviceIsUsed}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace ballast::scheduler
