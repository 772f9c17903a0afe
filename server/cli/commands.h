// SPDX-License-Identifier: MIT
// The subcommands, each in a file of its name. Each prints its result on stdout, or one sentence
// on stderr, and returns the process's exit code. `serve` is not here: it is the daemon.
#pragma once

#include "config/environment.h"
#include "server/cli/invocation.h"

namespace ballast::cli {

int show(const ShowArgs& args);
int render_template(const TemplateArgs& args);
int eval(const EvalArgs& args, const config::Environment& environment);
int bench(const BenchArgs& args, const config::Environment& environment);
int plan(const PlanArgs& args, const config::Environment& environment);
int simulate(const SimulateArgs& args, const config::Environment& environment);
int profile(const ProfileArgs& args, const config::Environment& environment);
/// Both; with a command, its exit status.
int pause(const PauseArgs& args, const config::Environment& environment);
int ps(const PsArgs& args, const config::Environment& environment);
int config_show(const ConfigShowArgs& args, const config::Environment& environment);
int config_check(const ConfigCheckArgs& args, const config::Environment& environment);
int doctor(const DoctorArgs& args, const config::Environment& environment);

}  // namespace ballast::cli
