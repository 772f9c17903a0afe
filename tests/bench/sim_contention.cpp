// SPDX-License-Identifier: MIT
// The tables of docs/scheduling.md's "Contention (simulated)": what each rule makes of each trace.
//   sim_contention [MODEL HARDWARE [quick]]
#include <cstdio>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "scheduler/profile/model_store.h"
#include "scheduler/profile/profile_store.h"
#include "scheduler/sim/load_traces.h"

namespace ballast::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kGiga = 1e9;

void print_trace(SimSession& session, const SessionOptions& options, const std::string& name) {
    std::array<SessionResult, kLoadRules.size()> results;
    for (std::size_t i = 0; i < kLoadRules.size(); ++i) {
        results[i] = session.run(kLoadRules[i], options);
    }
    const auto& ours = results[0];
    const double ideal = results[4].tokens;
    const double fixed = results[3].tokens;
    fmt::print(
        "| {} | {:.0f} | {:.1f} | {:.1f} | {:.0f} | {:.0f} | {:.0f} | {:.1f} | {} | {:.0f} |\n",
        name,
        ours.tokens,
        100.0 * ours.tokens / ideal,
        100.0 * ours.tokens / fixed,
        100.0 * results[1].tokens / ideal,
        100.0 * results[2].tokens / ideal,
        100.0 * fixed / ideal,
        ours.uploaded_bytes / kGiga,
        ours.n_plans,
        1e3 * to_seconds(ours.over_room));
    std::fflush(stdout);
}

void print_table(const std::string& model, const std::string& hardware, bool quick) {
    const TensorCatalog catalog = *catalog_of(*stored_model(model), "");
    const PlanQuestion question{.catalog = &catalog, .hardware = *stored_hardware(hardware)};
    SimSession session(question, answer(question));
    fmt::print("{} on {}, simulated:\n\n", model, hardware);
    fmt::print(
        "| trace | tokens | of the ideal, % | of the best static plan, % | paper's rule, % | "
        "spilling, % | static, % | GB uploaded | plans | over room, ms |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n");
    for (const LoadTrace& trace : load_traces()) {
        print_trace(session, {.trace = trace}, trace.name);
    }
    const LoadTrace game = load_traces().front();
    print_trace(session, {.trace = game, .seen = {.noise = 0.25}}, "game, 25% noise");
    print_trace(session,
                {.trace = game, .seen = {.lag = milliseconds(100), .jitter = milliseconds(100)}},
                "game, 0.1 to 0.2 s late");
    print_trace(session, {.trace = game, .seen = {.wrong = 0.02}}, "game, 2% wrong");
    const LoadTrace busy = busy_trace(1, seconds(quick ? 60 : 180));
    print_trace(session, {.trace = busy}, busy.name);
    print_trace(session, {.trace = busy, .seen = {.noise = 0.25}}, busy.name + ", 25% noise");
    for (const int per_minute : {1, 4, 12}) {
        for (const int length : {1, 5}) {
            if (per_minute == 12 && length == 5) {
                continue;  // nothing is left
            }
            const LoadTrace trace = pulse_trace(per_minute, seconds(length), seconds(120));
            print_trace(session, {.trace = trace}, trace.name);
        }
    }
    for (const int ms : {100, 200, 400, 1000, 4000, 20000, 120000}) {
        const Nanoseconds period = milliseconds(ms);
        const LoadTrace trace = square_trace(
            period, std::max<Nanoseconds>(4 * period, seconds(quick || ms < 1000 ? 30 : 120)));
        print_trace(session, {.trace = trace}, trace.name);
    }
    fmt::print("\n{} different steps simulated\n", session.times().n_simulated());
}

}  // namespace
}  // namespace ballast::scheduler

int main(int argc, char** argv) {
    const std::string model = argc > 2 ? argv[1] : "qwen3-14b";
    const std::string hardware = argc > 2 ? argv[2] : "laptop-4060";
    ballast::scheduler::print_table(
        model, hardware, argc > 3 && std::strcmp(argv[3], "quick") == 0);
    return 0;
}
