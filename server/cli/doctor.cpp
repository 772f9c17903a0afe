// SPDX-License-Identifier: MIT
// `ballast doctor`: what this machine offers, and everything that would stop `serve`, each with
// its reason. Exits non-zero if something would.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "config/keys.h"
#include "config/load.h"
#include "engine/base/cpu_features.h"
#include "engine/base/system_info.h"
#include "engine/kernels/cpu/kernel_table.h"
#include "engine/runtime/compute.h"
#include "engine/runtime/loaded_model.h"
#include "engine/runtime/profile_file.h"
#include "server/cli/address.h"
#include "server/cli/commands.h"
#include "server/cli/read_text.h"
#include "server/cli/report.h"
#include "server/cli/version.h"

namespace ballast::cli {

namespace {

/// Prints one line a finding and remembers whether one of them stops `serve`.
class Findings {
  public:
    void fact(std::string_view name, const std::string& text) { print("  ", name, text); }
    void problem(std::string_view name, const std::string& text) {
        print("! ", name, text);
        found_problem_ = true;
    }
    bool found_problem() const { return found_problem_; }

  private:
    static void print(std::string_view mark, std::string_view name, const std::string& text) {
        constexpr std::size_t kLineBytesMax = 2048;
        fmt::print("{}{:<15} {}\n", mark, name, printable(text, kLineBytesMax));
    }
    bool found_problem_ = false;
};

void look_at_processor(Findings& findings, const std::string& forced) {
    const CpuFeatures features = detect_cpu_features();
    findings.fact("Processor", features.model_name.empty() ? "unknown" : features.model_name);
    findings.fact("Cores", fmt::format("{}", features.logical_cores));
    findings.fact(
        "Features",
        fmt::format(
            "avx2 {}, avx512 {}", features.avx2 ? "yes" : "no", features.avx512 ? "yes" : "no"));
    const auto kernels = kernels::choose_kernels(forced);
    if (!kernels) {
        findings.problem("Kernels", kernels.error().message);
        return;
    }
    findings.fact("Kernels",
                  fmt::format("{}{}",
                              isa_name((*kernels)->isa),
                              forced.empty() ? "" : " (forced by engine.force_isa)"));
}

void look_at_memory(Findings& findings) {
    const MemoryInfo memory = read_memory_info();
    findings.fact("Memory",
                  memory.total_bytes == 0 ? "unknown"
                                          : fmt::format("{}, {} available",
                                                        format_bytes(memory.total_bytes),
                                                        format_bytes(memory.available_bytes)));
}

/// What a stored profile is worth today. None is no problem: serving measures in idle gaps.
void look_at_profile(Findings& findings,
                     const runtime::EngineOptions& options,
                     const config::Environment& environment) {
    const std::string folder = config::profile_folder(environment);
    const auto stored = runtime::stored_profile(options, folder);
    if (!stored) {
        return;  // wrong options are told elsewhere
    }
    const auto& profile = stored->profile;
    if (!profile) {
        findings.fact("Profile", "none; " + stored->reason);
        return;
    }
    findings.fact("Profile",
                  fmt::format("CPU reads {:.1f} GB/s, measured {} ({})",
                              profile->cpu_read_gbps,
                              profile->measured_at,
                              runtime::profile_path(folder, profile->key)));
}

void look_at_model(Findings& findings, const config::Config& config) {
    const std::string& path = config.model.path;
    if (path.empty()) {
        findings.fact("Model", "none is set; `ballast serve MODEL` names one");
    } else if (const std::string why = explain_unreadable(path); !why.empty()) {
        findings.problem("Model", why);
    } else if (const auto model = runtime::load_model(path, config.model.chat_template); !model) {
        findings.problem("Model", model.error().message);
    } else if (const auto context = runtime::context_tokens(*model->model, config.engine);
               !context) {
        findings.problem("Context", context.error().message);
    } else {
        findings.fact("Model",
                      fmt::format("{} ({}, {} tokens of context)",
                                  path,
                                  format_bytes(model->reader->file().bytes().size()),
                                  *context));
    }
    if (const std::string& file = config.model.chat_template; !file.empty()) {
        const std::string why = explain_unreadable(file);
        why.empty() ? findings.fact("Chat template", file) : findings.problem("Chat template", why);
    }
}

void look_at_address(Findings& findings, const http::HttpOptions& options) {
    if (const Status allowed = check_loopback(options.host); !allowed) {
        findings.problem("Address", allowed.error().message);
        return;
    }
    if (const Status free = check_port_free(options.host, options.port); !free) {
        findings.problem("Port",
                         free.error().message + " Another program, or a running Ballast, has it.");
        return;
    }
    findings.fact("Port", fmt::format("{} is free", format_url(options.host, options.port)));
}

void look_at_config(Findings& findings,
                    const config::Loaded& loaded,
                    const config::Environment& environment) {
    findings.fact("Configuration", loaded.file.empty() ? "no file" : loaded.file);
    for (std::size_t i = 0; i < config::keys().size(); ++i) {
        if (loaded.origins[i] != "default") {
            const config::Key& key = config::keys()[i];
            findings.fact("",
                          fmt::format("{} = {} from {}",
                                      config::full_name(key),
                                      config::format_value(loaded.config, key),
                                      loaded.origins[i]));
        }
    }
    for (const std::string& name : config::unused_variables(environment)) {
        findings.fact("", fmt::format("{} is set but is no setting of Ballast", name));
    }
}

}  // namespace

int doctor(const DoctorArgs& args, const config::Environment& environment) {
    Findings findings;
    findings.fact("Ballast", version());
    const auto loaded = config::load({args.config_file, environment, args.overrides});
    if (loaded) {
        look_at_config(findings, *loaded, environment);
    } else {
        findings.problem("Configuration", loaded.error().message);
    }
    look_at_processor(findings, loaded ? loaded->config.engine.force_isa : "");
    look_at_memory(findings);
    findings.fact("GPU", "not used: this build has no GPU backend");
    if (loaded) {
        look_at_profile(findings, loaded->config.engine, environment);
        look_at_model(findings, loaded->config);
        look_at_address(findings, loaded->config.server);
    }
    std::fflush(stdout);
    if (findings.found_problem()) {
        return report(
            {ErrorCode::kInvalidRequest, "The lines marked with ! would stop `ballast serve`."});
    }
    return kExitSuccess;
}

}  // namespace ballast::cli
