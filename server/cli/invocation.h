// SPDX-License-Identifier: MIT
// What the user asked for, as plain data: one struct a subcommand. parse.cpp makes it, main.cpp
// hands it to the function of the same name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/load.h"
#include "engine/base/result.h"

namespace ballast::cli {

/// --help or --version: print this and succeed.
struct PrintArgs {
    std::string text;
};

struct ServeArgs {
    std::string config_file;                  // "" to search
    std::vector<config::Override> overrides;  // MODEL among them
};

struct ShowArgs {
    std::string model;
};

struct TemplateArgs {
    std::string file;
    std::optional<std::int64_t> unix_seconds;  // what the template takes for now
};

struct ConfigShowArgs {
    std::string config_file;
};

struct ConfigCheckArgs {
    std::string config_file;
};

struct DoctorArgs {
    std::string config_file;
    std::vector<config::Override> overrides;
};

struct EvalArgs {
    std::string model;
    std::string perplexity_file;  // "" unless perplexity is wanted
    int context = 512;
    int chunks = 0;   // 0: all
    std::string ids;  // "1,2,3"; "" unless logits are wanted
    std::string logits_file;
    bool last_only = false;
    std::string arithmetic = "prefill";
    std::vector<config::Override> overrides;
};

struct BenchArgs {
    std::string model;
    int prefill_tokens = 512;
    int decode_tokens = 128;
    int runs = 3;
    std::string trace_file;  // "" for none
    bool json = false;
    std::vector<config::Override> overrides;
};

struct ProfileArgs {
    std::string model;  // "" for none
    std::string out;    // a copy of the profile; "" for none
    bool json = false;
    std::vector<config::Override> overrides;
};

struct PlanArgs {
    std::string model;     // a path, or the name of a shape with or without :QUANT
    std::string hardware;  // a name or a path; "" for this machine's own profile
    std::optional<std::uint64_t> vram_budget;  // bytes
    std::optional<std::uint64_t> ram;          // bytes
    std::optional<double> link_gbps;
    int context = 4096;
    std::string mix = "4:1";
    std::string locality = "uniform";
    bool list = false;
    bool json = false;
};

struct SimulateArgs {
    PlanArgs asked = {};  // without its list
    std::string policy = "all";
    std::string hops = "overlapped";
    std::string trace_file = {};             // "" unless a trace is to be saved
    std::string load_trace = {};             // a script of samples; "" for an idle machine
    std::optional<std::uint64_t> seed = {};  // of a run that draws all of the above
};

/// `pause` and `resume`: where the server is follows from the configuration.
struct PauseArgs {
    std::string config_file;
    std::vector<config::Override> overrides;
    std::vector<std::string> command;  // empty: until `resume`
    bool is_resume = false;
};

/// Where the server is follows from the configuration.
struct PsArgs {
    std::string config_file;
    std::vector<config::Override> overrides;
    bool json = false;
};

using Invocation = std::variant<PrintArgs,
                                ServeArgs,
                                ShowArgs,
                                TemplateArgs,
                                EvalArgs,
                                BenchArgs,
                                ProfileArgs,
                                PlanArgs,
                                SimulateArgs,
                                PauseArgs,
                                PsArgs,
                                ConfigShowArgs,
                                ConfigCheckArgs,
                                DoctorArgs>;

/// Errors: kInvalidRequest with one sentence that names the argument and, where there is one, the
/// option or subcommand it is close to.
Result<Invocation> parse(int argc, const char* const* argv);

}  // namespace ballast::cli
