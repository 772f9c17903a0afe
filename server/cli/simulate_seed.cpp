// SPDX-License-Identifier: MIT
// The same seed prints the same, on every machine whose arithmetic is IEEE 754's.
#include "server/cli/simulate_seed.h"

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scheduler/sim/seeded_run.h"

namespace ballast::cli {

namespace {

using scheduler::SeededResult;

void print_json(std::uint64_t seed, const SeededResult& run) {
    nlohmann::json violations = nlohmann::json::array();
    for (const scheduler::Violation& violation : run.violations) {
        violations.push_back({{"invariant", scheduler::invariant_name(violation.invariant)},
                              {"seconds", to_seconds(violation.time)},
                              {"what", violation.what}});
    }
    const nlohmann::json all = {{"simulated", true},
                                {"seed", seed},
                                {"options", run.options},
                                {"log_hash", fmt::format("{:016x}", run.log_hash)},
                                {"seconds", run.ended_seconds},
                                {"requests", run.n_requests},
                                {"steps", run.n_steps},
                                {"steps_redone", run.n_steps_redone},
                                {"uploads", run.n_uploads},
                                {"recovered_fraction", run.recovered_share},
                                {"violations", std::move(violations)}};
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

Status simulate_seed(std::uint64_t seed, bool json) {
    const SeededResult run = scheduler::run_seed(seed);
    if (json) {
        print_json(seed, run);
    } else {
        fmt::print("{}\n", run.options);
        fmt::print(
            "simulated: {:.1f} s, {} requests, {} steps and {} done again, {} uploads; at the end "
            "{:.1f}% of the ideal rate; log hash {:016x}\n",
            run.ended_seconds,
            run.n_requests,
            run.n_steps,
            run.n_steps_redone,
            run.n_uploads,
            100.0 * run.recovered_share,
            run.log_hash);
    }
    if (run.violations.empty()) {
        return {};
    }
    if (!json) {
        fmt::print("{}", run.failure(seed));
    }
    return fail(ErrorCode::kInternal,
                fmt::format("Seed {} breaks {} of what must always hold; first that {}.",
                            seed,
                            run.violations.size(),
                            scheduler::invariant_name(run.violations.front().invariant)));
}

}  // namespace ballast::cli
