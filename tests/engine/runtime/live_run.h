// SPDX-License-Identifier: MIT
// An engine with a device whose share changes while it answers: time goes on with each token that
// a sink hears, so that a script of samples plays the same way each time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/monitor_choice.h"
#include "scheduler/load/pauses.h"
#include "tests/engine/runtime/harness.h"
#include "tests/engine/runtime/manual_clock.h"

namespace ballast::test {

/// What is played.
struct LivePlay {
    std::string script = {};  // JSON lines; "" for no monitor
    backend::FaultPlan faults = {};
    backend::HostPace pace = {};
    int n_jobs = 3;
    int n_prompt = 100;  // tokens of the first job
    int n_tokens = 100;  // of each
    /// Called after each token with its number among all, before time goes on.
    std::function<void(int, scheduler::Pauses&)> on_token = [](int, scheduler::Pauses&) {};
    int sleeps_after = 0;  // this token: the computer, for an hour; 0: it does not
    std::string device = "host";
    std::uint64_t vram_budget = 8ULL << 20U;
    std::uint64_t kv_mirror_bytes = runtime::EngineOptions{}.kv_mirror_bytes;
    bool divide_groups = false;  // else texts have the bits of the CPU's
    Nanoseconds token_time = std::chrono::milliseconds(10);
    /// Time goes on by this, too, whenever somebody asks for it: within steps.
    Nanoseconds tick{0};
};

/// What came of it.
struct LiveOutcome {
    std::vector<std::string> texts;  // by job
    std::vector<std::string> errors;
    std::vector<runtime::LoadReport> reports;  // after each token
    runtime::LoadReport last;                  // when all had ended
    std::vector<scheduler::Decision> decisions;
    int n_rows = 0;                      // of all steps: tokens that were fed
    Nanoseconds first_step_end{0};       // since the start
    std::uint64_t first_step_bytes = 0;  // ours at that time
    std::uint64_t most_bytes = 0;        // ours at any token
    bool over_budget = false;            // more than the script leaves, at some token
    bool wrong_books = false;            // the device's view was another, at some token
};

constexpr std::uint64_t kLiveBudget = 8ULL << 20U;

/// One sample of a script, and the first one, which says how much the device has: kLiveBudget.
std::string sample_line(int t_ms, std::uint64_t others, const std::string& more = "");
std::string first_sample(std::uint64_t others = 0);

LiveOutcome play(const TinyFixture& fixture, const LivePlay& play);

/// The texts of the CPU alone.
std::vector<std::string> undisturbed(const TinyFixture& fixture, const LivePlay& played = {});
/// Nothing is lost, nothing differs, and memory is kept to.
void expect_undisturbed(const LiveOutcome& outcome, const std::vector<std::string>& texts);

/// The machine of these tests: a CPU so slow that any device is worth its hops.
scheduler::HardwareProfile slow_cpu();

}  // namespace ballast::test
