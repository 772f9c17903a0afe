// SPDX-License-Identifier: MIT
// `ballast pause`, `ballast resume` and `ballast pause --while -- COMMAND`: the last asks for the
// pause again and again while the command runs, so that the server resumes by itself if this
// process is killed.
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "config/load.h"
#include "engine/base/clock.h"
#include "server/cli/commands.h"
#include "server/cli/local_server.h"
#include "server/cli/report.h"

namespace ballast::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPausePath = "/ballast/v1/pause";
constexpr const char* kResumePath = "/ballast/v1/resume";
// The server forgets a holder after this; it is told three times meanwhile.
constexpr int kHoldSeconds = 10;
constexpr Nanoseconds kRenewal = std::chrono::seconds(3);
// The device is looked at so often, so far apart, until it is free.
constexpr int kLooks = 100;
constexpr Nanoseconds kBetweenLooks = std::chrono::milliseconds(20);
// What a shell would say of its command.
constexpr int kExitNotFound = 127;
constexpr int kExitNotRunnable = 126;
constexpr int kExitSignal = 128;

/// Our bytes on the device, as the server says; 0 if it has none or loads.
std::uint64_t device_bytes(const LocalReply& reply) {
    const Json json = Json::parse(reply.body, nullptr, false);
    if (!json.is_object() || !json.contains("load") || !json["load"].is_object()) {
        return 0;
    }
    const Json& load = json["load"];
    const auto found = load.find("device_bytes");
    return found != load.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

sigset_t set_of(const std::vector<int>& numbers) {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : numbers) {
        sigaddset(&signals, number);
    }
    return signals;
}

/// Returns the signal that ended the wait, or −1 when the time is over.
int wait_for_signal(const sigset_t& signals, Nanoseconds time) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
    const timespec timeout = {.tv_sec = seconds.count(), .tv_nsec = (time - seconds).count()};
    return ::sigtimedwait(&signals, nullptr, &timeout);
}

/// Whether nothing of the device is in use, for which it waits some seconds.
Result<bool> wait_until_free(const LocalServer& server) {
    const sigset_t none = set_of({});
    for (int i = 0; i < kLooks; ++i) {
        BALLAST_TRY(const LocalReply reply, server.get("/health"));
        if (device_bytes(reply) == 0) {
            return true;
        }
        wait_for_signal(none, kBetweenLooks);
    }
    return false;
}

/// Asks for the pause, for a while.
class Hold {
  public:
    explicit Hold(const LocalServer& server)
        : server_(server),
          holder_(fmt::format("pause-{}-{}", ::getpid(), SystemClock().now().count())) {}

    /// Says it again. How it went is told on stderr whenever that changes. True: it is paused.
    bool renew() {
        if (ended_) {
            return false;
        }
        const Json body = {{"holder", holder_}, {"seconds", kHoldSeconds}};
        const auto reply = server_.post(kPausePath, body.dump());
        const Status status = reply ? reply->check() : Status(tl::unexpected(reply.error()));
        // Somebody has resumed, and it is not for us to pause again.
        ended_ = !status && status.error().code == ErrorCode::kCancelled;
        const std::string problem = status ? "" : status.error().message;
        if (problem != problem_ && !problem.empty()) {
            fmt::print(stderr, "ballast: not paused: {}\n", printable(problem, 500));
        }
        problem_ = problem;
        return problem.empty();
    }
    void let_go() const {
        const Json body = {{"holder", holder_}};
        // If it does not arrive, the pause ends by itself soon.
        static_cast<void>(server_.post(kResumePath, body.dump()));
    }

  private:
    const LocalServer& server_;
    const std::string holder_;
    std::string problem_;
    bool ended_ = false;
};

/// In the child: becomes the command or ends.
[[noreturn]] void become(std::vector<std::string> command) {
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (std::string& argument : command) {
        arguments.push_back(argument.data());
    }
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    const int error = errno;
    fmt::print(stderr, "ballast: {}: {}\n", printable(command[0], 500), std::strerror(error));
    ::_exit(error == ENOENT ? kExitNotFound : kExitNotRunnable);
}

/// Until the child ends: says the hold again, and hands on what should end this process. Returns
/// what waitpid() says of the child.
int watch(pid_t child, const sigset_t& signals, Hold& hold) {
    const SystemClock clock;
    Nanoseconds renewed = clock.now();
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
        const Nanoseconds left = renewed + kRenewal - clock.now();
        if (left.count() <= 0) {
            static_cast<void>(hold.renew());
            renewed = clock.now();
            continue;
        }
        // A terminal sends SIGINT and SIGQUIT to the command too.
        const int signal = wait_for_signal(signals, left);
        if (signal == SIGTERM || signal == SIGHUP) {
            ::kill(child, signal);
        }
    }
    return status;
}

int pause_while(const LocalServer& server, const std::vector<std::string>& command) {
    const sigset_t signals = set_of({SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP});
    sigset_t before;
    ::sigprocmask(SIG_BLOCK, &signals, &before);
    Hold hold(server);
    // The command runs in any case: a game that does not start is worse than a slow one.
    if (hold.renew()) {
        static_cast<void>(wait_until_free(server));
    }
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child < 0) {
        return report({ErrorCode::kInternal,
                       fmt::format("Cannot start a process: {}.", std::strerror(errno))});
    }
    if (child == 0) {
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
        become(command);
    }
    const int status = watch(child, signals, hold);
    hold.let_go();
    return WIFSIGNALED(status) ? kExitSignal + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Pauses until somebody resumes, or resumes.
Status tell(const LocalServer& server, bool is_resume) {
    BALLAST_TRY(const LocalReply reply, server.post(is_resume ? kResumePath : kPausePath, "{}"));
    BALLAST_TRY_STATUS(reply.check());
    if (is_resume) {
        fmt::print("Resumed; the device is used again when there is work.\n");
        return {};
    }
    BALLAST_TRY(const bool is_free, wait_until_free(server));
    if (!is_free) {
        return fail(ErrorCode::kTimeout, "The pause is noted, but the device is still in use.");
    }
    fmt::print("Paused; nothing of the device is in use. `ballast resume` ends it.\n");
    return {};
}

}  // namespace

int pause(const PauseArgs& args, const config::Environment& environment) {
    const auto loaded = config::load({args.config_file, environment, args.overrides});
    if (!loaded) {
        return report(loaded.error(), kExitUsage);
    }
    const LocalServer server(loaded->config.server.host, loaded->config.server.port);
    if (!args.command.empty()) {
        return pause_while(server, args.command);
    }
    const Status status = tell(server, args.is_resume);
    return status ? kExitSuccess : report(status.error());
}

}  // namespace ballast::cli
