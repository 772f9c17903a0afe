// SPDX-License-Identifier: MIT
// The table of contents: command line → subcommand. `serve` is the daemon, the rest print.
#include <fcntl.h>

#include <cstdio>
#include <exception>
#include <variant>

#include <fmt/format.h>

#include "config/environment.h"
#include "config/load.h"
#include "server/cli/commands.h"
#include "server/cli/invocation.h"
#include "server/cli/report.h"
#include "server/daemon.h"

namespace ballast {

namespace {

using cli::report;

/// One overload a subcommand.
struct Dispatch {
    const config::Environment& environment;

    int operator()(const cli::PrintArgs& args) const {
        fmt::print("{}", args.text);
        return cli::kExitSuccess;
    }
    int operator()(const cli::ServeArgs& args) const {
        const auto loaded = config::load({args.config_file, environment, args.overrides});
        return loaded ? server::serve(*loaded, environment)
                      : report(loaded.error(), cli::kExitUsage);
    }
    int operator()(const cli::ShowArgs& args) const { return cli::show(args); }
    int operator()(const cli::TemplateArgs& args) const { return cli::render_template(args); }
    int operator()(const cli::EvalArgs& args) const { return cli::eval(args, environment); }
    int operator()(const cli::BenchArgs& args) const { return cli::bench(args, environment); }
    int operator()(const cli::PlanArgs& args) const { return cli::plan(args, environment); }
    int operator()(const cli::SimulateArgs& args) const { return cli::simulate(args, environment); }
    int operator()(const cli::ProfileArgs& args) const { return cli::profile(args, environment); }
    int operator()(const cli::PauseArgs& args) const { return cli::pause(args, environment); }
    int operator()(const cli::PsArgs& args) const { return cli::ps(args, environment); }
    int operator()(const cli::ConfigShowArgs& args) const {
        return cli::config_show(args, environment);
    }
    int operator()(const cli::ConfigCheckArgs& args) const {
        return cli::config_check(args, environment);
    }
    int operator()(const cli::DoctorArgs& args) const { return cli::doctor(args, environment); }
};

/// A closed standard stream's number would go to the next file, socket or pipe that is opened, and
/// what is printed would go into that.
void open_standard_streams() {
    for (int descriptor = 0; descriptor <= 2; ++descriptor) {
        if (::fcntl(descriptor, F_GETFD) == -1) {
            // The lowest free number is this one. Without /dev/null nothing can be done.
            static_cast<void>(::open("/dev/null", O_RDWR));
        }
    }
}

int run(int argc, const char* const* argv) {
    open_standard_streams();
    const config::Environment environment = config::read_environment();
    const auto invocation = cli::parse(argc, argv);
    if (!invocation) {
        return report(invocation.error(), cli::kExitUsage);
    }
    const int exit_code = std::visit(Dispatch{environment}, *invocation);
    // A result that did not reach its file, because the disk is full, is no success.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        return report({ErrorCode::kIo, "Cannot write to standard output."});
    }
    return exit_code;
}

}  // namespace

}  // namespace ballast

int main(int argc, char** argv) {
    // Our code returns errors; what a library throws ends here in one sentence.
    try {
        return ballast::run(argc, argv);
    } catch (const std::exception& error) {
        return ballast::report(
            {ballast::ErrorCode::kInternal, fmt::format("Unexpected failure: {}.", error.what())});
    }
}
