// SPDX-License-Identifier: MIT
// Open questions about dividing models between CPU and GPU, each answered by a table. Every figure
// is simulated: placements are replayed event by event (scheduler/sim).
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "tests/scheduler/sim/request_run.h"

namespace ballast::test {

// Each prints its table as Markdown. A quick one has its first rows only.
void ask_mix(bool quick);
void ask_link(bool quick);
void ask_quantisation(bool quick);
void ask_routing(bool quick);
void ask_load(bool quick);
void ask_vendors(bool quick);
void ask_break_even(bool quick);
void ask_llama4(bool quick);

/// The scenario of a shipped model and machine; ends the program if one of them is not shipped.
Scenario shipped_scenario(const std::string& model, const std::string& machine);

/// What one phase, or a request, takes under the fastest of these policies; infinite if none ran.
using SecondsOf = double (*)(const scheduler::PolicyRun& run);
double decode_seconds(const scheduler::PolicyRun& run);
double prompt_seconds(const scheduler::PolicyRun& run);
double least(const Scenario& scenario,
             std::initializer_list<scheduler::SimPolicy> policies,
             SecondsOf seconds);
/// llama.cpp's: the CPU alone, whole layers, and experts last.
double least_of_llama_cpp(const Scenario& scenario, SecondsOf seconds);
double ours(const Scenario& scenario, SecondsOf seconds);

/// Two or three significant digits without an exponent; "-" for what is not finite.
std::string figure(double value);
/// "22.7 (1.78)": a rate, and how many times that of llama.cpp's best policy it is.
std::string decode_cell(const Scenario& scenario);
std::string prompt_cell(const Scenario& scenario);

void print_head(const std::vector<std::string>& columns);
void print_row(const std::vector<std::string>& cells);

}  // namespace ballast::test
