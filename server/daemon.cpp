// SPDX-License-Identifier: MIT
// The daemon. Threads: this one starts, waits for signals, gives signs of life and stops; one
// loads the model and ends; the io threads are the HTTP server's, the rest the engine's.
#include "server/daemon.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "config/keys.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/runtime/compute.h"
#include "engine/runtime/engine.h"
#include "engine/runtime/idle_profiler.h"
#include "engine/runtime/loaded_model.h"
#include "engine/runtime/monitor_choice.h"
#include "server/api/model_state.h"
#include "server/api/routes.h"
#include "server/api/services.h"
#include "server/cli/address.h"
#include "server/cli/read_text.h"
#include "server/cli/report.h"
#include "server/http/router.h"
#include "server/http/server.h"
#include "server/metrics/engine_metrics.h"
#include "server/metrics/http_metrics.h"
#include "server/metrics/registry.h"
#include "server/metrics/request_metrics.h"
#include "server/metrics/scheduler_metrics.h"
#include "server/notify.h"
#include "server/queue/admission.h"
#include "server/queue/request_queue.h"
#include "server/signals.h"

namespace ballast::server {

namespace {

/// What the loading thread makes.
struct Loading {
    std::optional<runtime::LoadedModel> model;
    std::unique_ptr<scheduler::SampleScript> script;  // null: nobody tells of others
    std::unique_ptr<runtime::IdleProfiler> profiler;
    std::unique_ptr<runtime::Engine> engine;
    Status status;
};

/// Owns every part of the server. Members are destroyed in reverse: first the HTTP server, whose
/// handlers borrow all that stands above it.
class Daemon {
  public:
    Daemon(config::Config config,
           std::vector<scheduler::LoadSample> samples,
           std::string profiles,
           Notifier notifier,
           Signals signals)
        : config_(std::move(config)),
          samples_(std::move(samples)),
          profile_folder_(std::move(profiles)),
          notifier_(std::move(notifier)),
          signals_(signals),
          registry_(clock_),
          engine_metrics_(registry_),
          scheduler_metrics_(registry_),
          http_metrics_(registry_),
          request_metrics_(registry_),
          queue_(config_.queue.depth),
          admission_(queue_, config_.queue),
          ids_(static_cast<std::uint64_t>(clock_.now().count()) ^
               (static_cast<std::uint64_t>(::getpid()) << 32)),
          services_{.options = config_.api,
                    .sse_comments = config_.server.sse_comments,
                    .model = model_state_,
                    .admission = admission_,
                    .registry = registry_,
                    .request_metrics = request_metrics_,
                    .pauses = pauses_,
                    .clock = clock_,
                    .ids = ids_} {
        registry_.set_queue_depth_source([this] { return static_cast<double>(queue_.size()); });
        // The engine's thread may sleep while there is nothing to do.
        pauses_.set_listener([this] { queue_.wake(); });
        api::add_routes(router_, services_);
    }

    Status run(int inherited_socket) {
        BALLAST_TRY_STATUS(listen(inherited_socket));
        start_loading();
        if (wait_until_loaded()) {
            if (Status status = become_ready(); !status) {
                // Whoever asked meanwhile has been answered 503; that takes no longer.
                stop(std::chrono::seconds(1));
                return status;
            }
            wait_for_stop();
        }
        log_info("told to stop; running requests get {} seconds", config_.server.shutdown_seconds);
        stop(std::chrono::seconds(config_.server.shutdown_seconds));
        log_info("stopped");
        return {};
    }

  private:
    Status listen(int inherited_socket);
    void start_loading();
    Status load();
    bool wait_until_loaded();
    Status become_ready();
    void print_summary() const;
    void wait_for_stop();
    void give_sign_of_life();
    void stop(Nanoseconds deadline);
    void notify(const std::string& state) const;

    const config::Config config_;
    const std::vector<scheduler::LoadSample> samples_;  // of the script to be played, if any
    const std::string profile_folder_;
    const Notifier notifier_;
    Signals signals_;
    SystemClock clock_;
    metrics::Registry registry_;
    metrics::EngineMetrics engine_metrics_;
    metrics::SchedulerMetrics scheduler_metrics_;
    metrics::HttpMetrics http_metrics_;
    metrics::RequestMetrics request_metrics_;
    queue::RequestQueue queue_;
    queue::Admission admission_;
    scheduler::Pauses pauses_;
    api::ModelState model_state_;
    api::IdSource ids_;
    api::Services services_;
    http::Router router_;
    Loading loading_;  // the loading thread's until kLoaded, this thread's afterwards
    std::string reported_failure_;
    std::unique_ptr<http::Server> http_;
    Thread loader_;
};

Status Daemon::listen(int inherited_socket) {
    const http::ServerParts parts{.options = config_.server,
                                  .router = router_,
                                  .error_writer = api::transport_errors(),
                                  .observer = http_metrics_,
                                  .clock = clock_};
    BALLAST_TRY(http_, http::Server::create(parts, inherited_socket));
    http_->start();
    fmt::print("Loading {}; {} answers 503 until it is there.\n",
               cli::printable(config_.model.path, 4096),
               cli::format_url(config_.server.host, http_->port()));
    std::fflush(stdout);
    notify("STATUS=Loading " + config_.model.path);
    return {};
}

void Daemon::start_loading() {
    loader_.start("load", [this](StopToken) {
        loading_.status = load();
        signals_.post(Event::kLoaded);
    });
}

/// On the loading thread.
Status Daemon::load() {
    const std::string& path = config_.model.path;
    if (std::string why = cli::explain_unreadable(path); !why.empty()) {
        return fail(ErrorCode::kNotFound, std::move(why));
    }
    BALLAST_TRY(loading_.model, runtime::load_model(path, config_.model.chat_template));
    BALLAST_TRY(const runtime::StoredProfile stored,
                runtime::stored_profile(config_.engine, profile_folder_));
    runtime::EngineParts parts = {.hardware = stored.profile, .pauses = &pauses_};
    if (!samples_.empty()) {
        loading_.script = std::make_unique<scheduler::SampleScript>(samples_, clock_.now());
        parts.monitor = loading_.script.get();
        parts.host.truth = runtime::host_truth(*loading_.script, clock_);
    }
    BALLAST_TRY(
        loading_.engine,
        runtime::Engine::create(
            *loading_.model, config_.engine, queue_, engine_metrics_, clock_, std::move(parts)));
    if (config_.engine.profile_when_idle) {
        loading_.profiler = std::make_unique<runtime::IdleProfiler>(
            *loading_.model->model, profile_folder_, clock_);
        loading_.engine->set_idle_task(*loading_.profiler);
    }
    return {};
}

/// False if the process was told to stop meanwhile.
bool Daemon::wait_until_loaded() {
    std::optional<Event> event;
    while (!event) {
        event = signals_.wait(std::nullopt);
    }
    if (*event == Event::kLoaded) {
        loader_.stop();
        return true;
    }
    // Loading cannot be interrupted, but it is mapping and checking, not reading the weights.
    return false;
}

Status Daemon::become_ready() {
    if (!loading_.status) {
        model_state_.set_failed(loading_.status.error().message);
        return loading_.status;
    }
    runtime::Engine& engine = *loading_.engine;
    engine.start();
    const auto placed = [&engine] {
        return runtime::placed_bytes(engine.catalog(), *engine.load().residency);
    };
    const auto load = [&engine] { return engine.load(); };
    const auto state = [&engine] { return engine.scheduler().state(); };
    model_state_.set_ready(api::describe_model(
        *loading_.model,
        {.alias = config_.api.model_alias,
         .created = clock_.unix_seconds(),
         .context = engine.context(),
         .parallel = engine.parallel(),
         .engine_failure = [&engine] { return engine.failure(); },
         .placement = {
             .catalog = &engine.catalog(), .load = load, .bytes = placed, .state = state}}));
    scheduler_metrics_.start({.placed = placed, .state = state, .load = load});
    print_summary();
    notify(fmt::format("READY=1\nSTATUS=Serving {}", loading_.model->id));
    return {};
}

/// For the person at the terminal: on stdout, in lines that can be pasted into a shell.
void Daemon::print_summary() const {
    const runtime::LoadedModel& model = *loading_.model;
    const runtime::Engine& engine = *loading_.engine;
    const std::string url = cli::format_url(config_.server.host, http_->port());
    std::string chat = "from " + model.chat_template_origin;
    if (!model.chat_template) {
        chat = model.chat_template_error.empty()
                   ? "none in the file; chat is refused without --chat-template FILE"
                   : "unusable (" + model.chat_template_error + "); give --chat-template FILE";
    }
    const std::string device = engine.device_summary();
    fmt::print(
        "Model:         {} ({}, {})\n"
        "Context:       {} tokens a request, {} requests at a time\n"
        "Compute:       {} threads, {} kernels{}{}\n"
        "Chat template: {}\n"
        "Listening on:  {}\n"
        "Clients take these settings; any value will do as the key:\n"
        "OPENAI_BASE_URL={}/v1\n"
        "OPENAI_API_KEY=ballast\n",
        cli::printable(model.id, 200),
        cli::printable(model.model->config().architecture, 60),
        cli::format_bytes(model.reader->file().bytes().size()),
        engine.context(),
        engine.parallel(),
        engine.threads(),
        engine.isa(),
        device.empty() ? "" : "; ",
        device,
        cli::printable(chat, 400),
        url,
        url);
    std::fflush(stdout);
}

void Daemon::wait_for_stop() {
    // Half the limit, so that one late wake-up does no harm (sd_watchdog_enabled(3)); and at least
    // so often that a failed engine shows in the status soon.
    Nanoseconds period = std::chrono::seconds(5);
    if (notifier_.watchdog()) {
        period = std::min<Nanoseconds>(period, *notifier_.watchdog() / 2);
    }
    while (signals_.wait(period) != Event::kStop) {
        give_sign_of_life();
    }
}

void Daemon::give_sign_of_life() {
    const runtime::Engine& engine = *loading_.engine;
    if (const std::string failure = engine.failure(); failure != reported_failure_) {
        reported_failure_ = failure;
        notify("STATUS=Failed: " + failure);
    }
    const auto limit = notifier_.watchdog();
    if (limit && makes_progress(engine.idle(), clock_.now() - engine.last_progress(), *limit)) {
        notify("WATCHDOG=1");
    }
}

/// Reverse of the start. What still runs gets until the deadline, then it is cancelled.
void Daemon::stop(Nanoseconds deadline) {
    notify("STOPPING=1\nSTATUS=Finishing what runs");
    admission_.stop();
    http_->stop(deadline);
    scheduler_metrics_.stop();
    queue_.close();
    loader_.stop();
    if (loading_.engine) {
        loading_.engine->stop();
    }
}

void Daemon::notify(const std::string& state) const {
    if (const Status sent = notifier_.send(state); !sent) {
        log_warning("{}", sent.error().message);
    }
}

LogLevel log_level(const std::string& name) {
    if (name == "debug") {
        return LogLevel::kDebug;
    }
    if (name == "warning") {
        return LogLevel::kWarning;
    }
    return name == "error" ? LogLevel::kError : LogLevel::kInfo;
}

/// Whether stderr is the journal: the variable alone may be inherited by a shell in a terminal.
bool logs_to_journal(const config::Environment& environment) {
    struct stat facts {};
    return ::fstat(STDERR_FILENO, &facts) == 0 &&
           config::variable(environment, "JOURNAL_STREAM") ==
               fmt::format("{}:{}", facts.st_dev, facts.st_ino);
}

Status serve_checked(const config::Loaded& loaded, const config::Environment& environment) {
    set_log_level(log_level(loaded.config.log.level));
    set_log_journal(logs_to_journal(environment));
    if (loaded.config.model.path.empty()) {
        return fail(ErrorCode::kInvalidRequest,
                    "No model is named; give one (ballast serve MODEL) or set path in [model].");
    }
    config::Config config = loaded.config;
    BALLAST_TRY(const int socket, inherited_socket(environment));
    if (socket >= 0) {
        // The service manager's address is the one that counts, not the configured one.
        BALLAST_TRY(config.server.host, cli::host_of_socket(socket));
    }
    BALLAST_TRY_STATUS(cli::check_loopback(config.server.host));
    BALLAST_TRY(std::vector<scheduler::LoadSample> samples,
                runtime::read_monitor_script(config.engine));
    BALLAST_TRY(const Signals signals, Signals::install());
    Daemon daemon(std::move(config),
                  std::move(samples),
                  config::profile_folder(environment),
                  Notifier::from_environment(environment),
                  signals);
    return daemon.run(socket);
}

}  // namespace

int serve(const config::Loaded& loaded, const config::Environment& environment) {
    if (const Status status = serve_checked(loaded, environment); !status) {
        // What the user has set wrongly does not become right by starting again.
        return cli::report(status.error(),
                           status.error().code == ErrorCode::kInvalidRequest ? cli::kExitUsage
                                                                             : cli::kExitFailure);
    }
    return cli::kExitSuccess;
}

}  // namespace ballast::server
