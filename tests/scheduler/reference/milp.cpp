// SPDX-License-Identifier: MIT
#include "tests/scheduler/reference/milp.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "engine/base/check.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_data.h"

namespace ballast::test {

namespace {

using scheduler::GroupPlacement;

constexpr double kGiga = 1e9;

std::string python() {
    const char* given = std::getenv("BALLAST_PYTHON");
    return given != nullptr ? given : source_dir() + "/build/venv/bin/python";
}

nlohmann::json option_of(const ExactProblem& problem,
                         std::size_t group,
                         const GroupPlacement& placed) {
    const scheduler::HardwareProfile& h = problem.hardware;
    const scheduler::TensorGroup& tensors = problem.catalog.groups[group];
    const std::vector<Outcome> all = outcomes(h, problem.step, tensors, placed);
    BALLAST_CHECK(all.size() == 1 && placed.prefill_streamed == 0);
    const Outcome& o = all[0];
    double blocked = 0.0;
    if (o.cpu_seconds > 0.0) {
        const double left = h.dram_gbps - o.cpu_bytes / o.cpu_seconds / kGiga;
        blocked = (1.0 - std::clamp(left / h.link_gbps, 0.0, 1.0)) * o.cpu_seconds;
    }
    return {{"kind",
             o.on_device && o.on_cpu ? "both"
             : o.on_device           ? "device"
                                     : "cpu"},
            {"g", o.device_seconds},
            {"c", o.cpu_seconds},
            {"streamed_bytes", o.streamed_bytes},
            {"tile_seconds", o.streamed_seconds / std::max(1, tiles_of(o.streamed_bytes))},
            {"v_bytes", reference_group_bytes(tensors, placed, problem.reserve)},
            {"blocked_seconds", blocked}};
}

}  // namespace

nlohmann::json milp_problem(const ExactProblem& problem, double time_limit_seconds) {
    BALLAST_CHECK(!problem.hardware.unified_memory && !problem.catalog.has_experts());
    nlohmann::json groups = nlohmann::json::array();
    for (std::size_t i = 0; i < problem.options.size(); ++i) {
        nlohmann::json options = nlohmann::json::array();
        for (const GroupPlacement& placed : problem.options[i]) {
            options.push_back(option_of(problem, i, placed));
        }
        groups.push_back(std::move(options));
    }
    return {{"hop_seconds", reference_hop_seconds(problem.catalog, problem.hardware, problem.step)},
            {"link_bytes_per_second", problem.hardware.link_gbps * kGiga},
            {"budget_bytes", problem.budget_bytes},
            {"tile_bytes", scheduler::kTileBytesMax},
            {"ring_tiles", scheduler::kRingTiles},
            {"blocking_hops", problem.step.blocking_hops},
            {"time_limit_seconds", time_limit_seconds},
            {"groups", std::move(groups)}};
}

std::vector<std::vector<GroupPlacement>> ladder_options(const scheduler::TensorCatalog& catalog) {
    std::vector<int> ladder = {0, 1, 2, 3, 4, 5, 6, 8, 10, 12};
    for (int share = 16; share <= 64; share += 4) {
        ladder.push_back(share);
    }
    std::vector<std::vector<GroupPlacement>> all;
    for (const scheduler::TensorGroup& group : catalog.groups) {
        const auto parts_of = [&group](int share) {
            return static_cast<int>(std::lround(share * group.parts / 64.0));
        };
        std::vector<GroupPlacement> options;
        for (const int cpu_share : ladder) {
            for (const int streamed_share : ladder) {
                const int streamed = parts_of(streamed_share);
                const int resident = group.parts - parts_of(cpu_share) - streamed;
                const GroupPlacement placed = {.resident = resident, .streamed = streamed};
                if (resident >= 0 &&
                    std::find(options.begin(), options.end(), placed) == options.end()) {
                    options.push_back(placed);
                }
            }
        }
        all.push_back(std::move(options));
    }
    return all;
}

bool milp_available() {
    const std::string command = "'" + python() + "' -c 'import scipy.optimize' 2>/dev/null";
    return std::system(command.c_str()) == 0;
}

std::vector<MilpAnswer> solve_milp(const std::vector<ExactProblem>& problems,
                                   double time_limit_seconds) {
    nlohmann::json written = nlohmann::json::array();
    for (const ExactProblem& problem : problems) {
        written.push_back(milp_problem(problem, time_limit_seconds));
    }
    const TempDir dir;
    const std::string file = dir.write("problems.json", written.dump());
    const std::string command = "'" + python() + "' -B '" + source_dir() +
                                "/tests/scheduler/reference/milp.py' '" + file + "'";
    std::FILE* pipe = ::popen(command.c_str(), "r");
    BALLAST_CHECK(pipe != nullptr);
    std::string printed;
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
        printed.append(buffer.data(), n);
    }
    BALLAST_CHECK(::pclose(pipe) == 0);
    const nlohmann::json read = nlohmann::json::parse(printed);
    BALLAST_CHECK(read.size() == problems.size());

    std::vector<MilpAnswer> answers;
    for (std::size_t i = 0; i < problems.size(); ++i) {
        MilpAnswer answer;
        answer.status = read[i]["status"];
        answer.bound_seconds = read[i]["bound"].is_null() ? 0.0 : read[i]["bound"].get<double>();
        answer.found = !read[i]["choice"].is_null();
        if (answer.found) {
            answer.objective_seconds = read[i]["objective"];
            for (std::size_t group = 0; group < problems[i].options.size(); ++group) {
                const std::size_t chosen = read[i]["choice"][group];
                answer.placement.groups.push_back(problems[i].options[group].at(chosen));
            }
        }
        answers.push_back(std::move(answer));
    }
    return answers;
}

}  // namespace ballast::test
