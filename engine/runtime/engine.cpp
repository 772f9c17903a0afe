// SPDX-License-Identifier: MIT
// The engine's loop: take jobs, build a batch, run it, sample, hand text on.
#include "engine/runtime/engine.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/base/log.h"
#include "engine/runtime/batch.h"
#include "engine/runtime/compute.h"
#include "engine/runtime/device_choice.h"
#include "engine/runtime/engine_checks.h"
#include "engine/runtime/idle_turns.h"
#include "engine/runtime/live_device.h"
#include "engine/runtime/prefill_pace.h"
#include "engine/runtime/sequence.h"
#include "engine/runtime/super_chunk.h"

namespace ballast::runtime {

struct Engine::State {
    State(const LoadedModel& loaded,
          const EngineOptions& wanted,
          JobSource& jobs,
          EngineObserver& hears,
          const Clock& time,
          const LoadWatch::Setup& load,
          bool always_super_chunks)
        : model(loaded),
          options(wanted),
          source(jobs),
          observer(hears),
          clock(time),
          live(load, time),
          pace(wanted.prefill_chunk),
          chunk(always_super_chunks) {}

    void loop(StopToken stop);
    void take_jobs();
    /// kInternal once the model file cannot be read any more; that is kept as the engine's failure.
    Status check_file();
    Status check_job(const Job& job);
    void start_job(std::shared_ptr<Job> job);
    /// Ends a job that has not started.
    void refuse(const Job& job, const Error& error);
    void drop_cancelled();
    Status step_or_error();
    /// Brings the device's share up to date; then work is at hand, or not.
    Status follow_load(bool working);
    /// Whatever has become of keys and values.
    void go_on(LiveDevice::Kv kv);
    Status step();
    /// A piece of the super-chunk.
    Status step_of_chunk();
    /// The device did not do its work; the step is to be done again if there is no error.
    Status device_failed(const Error& error);
    /// The batch's forward pass. False: it has to be done again, on a device's share that changed.
    Result<bool> run_batch();
    void sample(const Batch::Member& member);
    /// Counts the job's end and takes it from `running`; its sink is told by the caller.
    std::unique_ptr<Sequence> retire(const Sequence& ended, const char* outcome);
    void fail_all(const Error& error);
    bool anyone_decodes() const;
    void report_load();

    const LoadedModel& model;
    EngineOptions options;
    JobSource& source;
    EngineObserver& observer;
    const Clock& clock;
    int context = 0;
    std::vector<TokenId> end_ids;
    LiveDevice live;
    std::unique_ptr<Compute> compute;
    std::string device_at_start;
    std::unique_ptr<Batch> batch;
    std::vector<std::unique_ptr<Sequence>> running;  // oldest first
    PrefillPace pace;
    SuperChunk chunk;
    IdleTurns idle_turns;

    std::atomic<bool> idle{true};
    std::atomic<std::int64_t> progress_ns{0};
    mutable std::mutex failure_mutex;
    std::string failure;

    Thread thread;  // last: ends before what it uses
};

Result<std::unique_ptr<Engine>> Engine::create(const LoadedModel& model,
                                               const EngineOptions& options,
                                               JobSource& source,
                                               EngineObserver& observer,
                                               const Clock& clock,
                                               EngineParts parts) {
    BALLAST_TRY_STATUS(check_options(options));
    BALLAST_TRY(const bool with_device, wants_device(options));
    parts.rules.memory = {.cap_bytes = with_device ? device_budget(options) : 0};
    auto state = std::make_unique<State>(
        model,
        options,
        source,
        observer,
        clock,
        LoadWatch::Setup{parts.rules, with_device ? parts.monitor : nullptr, parts.pauses},
        parts.always_super_chunks);
    BALLAST_TRY(state->context, context_tokens(*model.model, options));
    const int rows = options.parallel + options.prefill_chunk;
    BALLAST_TRY(state->compute,
                Compute::create(*model.model,
                                options,
                                {.sequences = options.parallel,
                                 .context = state->context,
                                 .rows = rows,
                                 .outputs = options.parallel,
                                 .super_rows = std::min(options.super_chunk, state->context),
                                 .plan = std::move(parts.plan),
                                 .hardware = std::move(parts.hardware),
                                 .device_bytes = state->live.first_budget(),
                                 .host = std::move(parts.host),
                                 .cpu_pace = parts.cpu_pace}));
    state->live.take_over(*state->compute);
    state->device_at_start = state->compute->device_summary();
    state->batch = std::make_unique<Batch>(rows, options.parallel);
    state->running.reserve(static_cast<std::size_t>(options.parallel));
    state->end_ids = end_ids_of(*model.tokenizer);
    return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() {
    stop();
}

void Engine::set_idle_task(IdleTask& task) {
    state_->idle_turns.set_task(task);
}

void Engine::start() {
    state_->idle_turns.busy(state_->clock.now());
    state_->progress_ns.store(state_->clock.now().count());
    state_->thread.start("engine", [state = state_.get()](StopToken stop) { state->loop(stop); });
}

void Engine::stop() {
    state_->thread.stop();
}

int Engine::context() const {
    return state_->context;
}
int Engine::parallel() const {
    return state_->options.parallel;
}
int Engine::threads() const {
    return state_->compute->pool().size();
}
std::string Engine::isa() const {
    return isa_name(state_->compute->kernels().isa);
}
const scheduler::TensorCatalog& Engine::catalog() const {
    return state_->compute->catalog();
}
const scheduler::TensorScheduler& Engine::scheduler() const {
    return state_->compute->scheduler();
}
LoadReport Engine::load() const {
    LoadReport report = state_->live.report();
    report.experts = state_->compute->expert_use().report();
    return report;
}
std::string Engine::device_summary() const {
    return state_->device_at_start;
}
bool Engine::idle() const {
    return state_->idle.load();
}
Nanoseconds Engine::last_progress() const {
    return Nanoseconds(state_->progress_ns.load());
}

std::string Engine::failure() const {
    const std::lock_guard lock(state_->failure_mutex);
    return state_->failure;
}

void Engine::State::loop(StopToken stop) {
    while (!stop.stop_requested()) {
        progress_ns.store(clock.now().count());
        // Before a job leaves the source: who sees an empty source and an idle engine can be sure.
        idle.store(false);
        take_jobs();
        drop_cancelled();
        if (running.empty()) {
            idle.store(true);
            report_load();
            compute->expert_use().publish(clock.now(), true);
            if (source.closed()) {
                break;
            }
            if (Status status = follow_load(false); !status) {
                log_error("{}", status.error().message);
            }
            idle_turns.pass(source, *compute, clock.now());
            continue;
        }
        idle_turns.busy(clock.now());
        if (Status status = step_or_error(); !status) {
            log_error("a step failed: {}", status.error().message);
            fail_all(status.error());
        }
    }
    fail_all({ErrorCode::kCancelled, "the server is stopping"});
    while (auto job = source.try_take()) {
        refuse(*job, {ErrorCode::kCancelled, "the server is stopping"});
    }
    report_load();
    compute->expert_use().publish(clock.now(), true);
    idle.store(true);
}

void Engine::State::take_jobs() {
    while (static_cast<int>(running.size()) < options.parallel) {
        std::shared_ptr<Job> job = source.try_take();
        if (job == nullptr) {
            return;
        }
        if (job->sink->cancelled()) {
            observer.on_job_ended("cancelled", unstarted_stats(*job, clock.now()));
        } else if (Status fits = check_job(*job); !fits) {
            refuse(*job, fits.error());
        } else {
            start_job(std::move(job));
        }
    }
}

void Engine::State::refuse(const Job& job, const Error& error) {
    observer.on_job_ended(error.code == ErrorCode::kCancelled ? "cancelled" : "error",
                          unstarted_stats(job, clock.now()));
    job.sink->on_error(error);
}

Status Engine::State::check_file() {
    if (!model.reader->file().failed()) {
        return {};
    }
    const std::lock_guard lock(failure_mutex);
    if (failure.empty()) {
        // Clients are told without the path, which is the machine owner's business.
        log_error("the model file {} was cut or could not be read", model.reader->file().path());
        failure =
            "the model file was cut or could not be read while in use; start the server again "
            "with a whole file";
    }
    return fail(ErrorCode::kInternal, failure);
}

Status Engine::State::check_job(const Job& job) {
    BALLAST_TRY_STATUS(check_file());
    return runtime::check_job(job, model.tokenizer->vocabulary_size(), context);
}

void Engine::State::start_job(std::shared_ptr<Job> job) {
    const Nanoseconds now = clock.now();
    observer.on_job_started(now - job->created);
    job->sink->on_start();
    if (job->max_tokens == 0) {
        const JobStats stats = unstarted_stats(*job, now);
        observer.on_job_ended("length", stats);
        job->sink->on_finish(FinishReason::kLength, stats);
        return;
    }
    running.push_back(std::make_unique<Sequence>(std::move(job),
                                                 *model.tokenizer,
                                                 compute->blocks(),
                                                 compute->blocks_per_sequence(),
                                                 end_ids,
                                                 now));
}

void Engine::State::drop_cancelled() {
    for (std::size_t i = running.size(); i > 0; --i) {
        if (running[i - 1]->cancelled()) {
            retire(*running[i - 1], "cancelled");
        }
    }
}

std::unique_ptr<Sequence> Engine::State::retire(const Sequence& ended, const char* outcome) {
    const auto found = std::find_if(running.begin(), running.end(), [&](const auto& candidate) {
        return candidate.get() == &ended;
    });
    std::unique_ptr<Sequence> sequence = std::move(*found);
    running.erase(found);
    chunk.forget(*sequence, compute->executor());
    observer.on_job_ended(outcome, sequence->stats());
    return sequence;
}

void Engine::State::fail_all(const Error& error) {
    chunk.drop(compute->executor());
    while (!running.empty()) {
        const char* outcome = error.code == ErrorCode::kCancelled ? "cancelled" : "error";
        retire(*running.back(), outcome)->fail_with(error);
    }
}

bool Engine::State::anyone_decodes() const {
    return std::any_of(
        running.begin(), running.end(), [](const auto& sequence) { return sequence->decoding(); });
}

Status Engine::State::step_or_error() {
    // Ours returns errors; what a library throws, memory above all, must not end the process.
    try {
        return step();
    } catch (const std::exception& error) {
        return fail(ErrorCode::kInternal, fmt::format("unexpected failure: {}", error.what()));
    }
}

void Engine::State::go_on(LiveDevice::Kv kv) {
    if (kv == LiveDevice::Kv::kLost) {
        KvRecovery& recovery = compute->recovery();
        for (const auto& sequence : running) {
            sequence->rewind(
                recovery.kept_tokens(sequence->table().blocks(), sequence->position()));
        }
        recovery.forget_loss();
    }
}

Status Engine::State::follow_load(bool working) {
    auto kv = live.follow(working);
    if (!kv) {
        // Part of what a step reads may be gone.
        const std::lock_guard lock(failure_mutex);
        failure = "the host has no memory for what the device gave back; start the server again";
        return tl::unexpected(std::move(kv).error());
    }
    go_on(*kv);
    return {};
}

Status Engine::State::device_failed(const Error& error) {
    chunk.drop(compute->executor());
    BALLAST_TRY(const LiveDevice::Kv kv, live.step_failed(error));
    go_on(kv);
    return {};
}

Result<bool> Engine::State::run_batch() {
    Executor& executor = compute->executor();
    compute->recovery().before_step(batch->input().sequences);
    if (const Status status = executor.begin(batch->input()); !status) {
        BALLAST_TRY_STATUS(device_failed(status.error()));
        return false;
    }
    const int n_segments = model.model->ops().n_segments();
    // A step with a prompt can take longer than others may wait; between two layers it can be left.
    const bool in_parts = batch->n_prefill() > 0 && compute->device_use().bytes > 0;
    const int stride = in_parts ? 1 : n_segments;
    for (int segment = 0; segment < n_segments; segment += stride) {
        if (segment > 0 && live.is_overdue()) {
            return false;
        }
        const Status status = executor.run_segments(segment, segment + stride);
        if (!status) {
            BALLAST_TRY_STATUS(device_failed(status.error()));
            return false;
        }
    }
    compute->recovery().after_step(batch->input().sequences);
    return true;
}

Status Engine::State::step() {
    report_load();
    if (chunk.is_running() && live.is_overdue()) {
        chunk.drop(compute->executor());
    }
    if (!chunk.is_running()) {
        BALLAST_TRY_STATUS(follow_load(true));
        const double link_bps = compute->transfers().link_bps();
        const Status begun = chunk.begin(compute->executor(), running, pace, link_bps, clock.now());
        if (!begun) {
            return device_failed(begun.error());
        }
    }
    const bool in_chunk = chunk.is_running();
    if (in_chunk && !(anyone_decodes() && chunk.has_held_up(clock.now()))) {
        return step_of_chunk();
    }
    BALLAST_TRY_STATUS(batch->build(running, in_chunk ? 0 : pace.step_tokens(anyone_decodes())));
    const Nanoseconds begin = clock.now();
    BALLAST_TRY(const bool done, run_batch());
    if (!done) {
        return {};
    }
    const Nanoseconds duration = clock.now() - begin;
    live.step_took(duration);
    BALLAST_TRY_STATUS(check_file());
    observer.on_step(batch->n_prefill(), batch->n_decode(), duration);
    pace.note(batch->n_prefill(), duration);
    const bool alone = batch->n_prefill() == 0 && batch->n_decode() == 1 && !in_chunk;
    if (alone && !batch->input().output_rows.empty()) {
        const std::int64_t depth = batch->input().sequences.front().first_position;
        compute->note_decode(static_cast<int>(depth), duration);
    }
    for (const Batch::Member& member : batch->members()) {
        sample(member);
    }
    chunk.gave_way(clock.now(), duration);
    return {};
}

Status Engine::State::step_of_chunk() {
    const Nanoseconds before = chunk.duration();
    if (const Status status = chunk.run(compute->executor(), compute->recovery(), clock); !status) {
        return device_failed(status.error());
    }
    live.step_took(chunk.duration() - before);
    BALLAST_TRY_STATUS(check_file());
    const std::vector<SuperChunk::Fed> fed = chunk.take_fed();
    if (!fed.empty() && chunk.is_first_fed()) {
        observer.on_step(chunk.n_tokens(), 0, chunk.duration());
        pace.note(chunk.n_tokens(), chunk.duration());
    }
    for (const SuperChunk::Fed& each : fed) {
        sample({.sequence = each.sequence,
                .n_tokens = each.n_tokens,
                .output = each.has_logits ? 0 : -1});
    }
    return {};
}

void Engine::State::sample(const Batch::Member& member) {
    const Nanoseconds now = clock.now();
    Sequence& sequence = *member.sequence;
    sequence.advance(member.n_tokens);
    if (member.output < 0) {
        return;
    }
    const bool first = sequence.stats().completion_tokens == 0;
    const Nanoseconds last = sequence.last_token_time();
    const Result<bool> ended = sequence.accept(compute->executor().logits(member.output), now);
    if (first) {
        observer.on_first_token(now - sequence.job().created);
    } else {
        observer.on_inter_token(now - last);
    }
    if (ended && !*ended) {
        sequence.deliver();
        return;
    }
    if (ended) {
        retire(sequence, sequence.reason() == FinishReason::kStop ? "stop" : "length")->deliver();
    } else {
        retire(sequence, "error")->fail_with(ended.error());
    }
}

void Engine::State::report_load() {
    observer.on_load(
        static_cast<int>(running.size()), compute->blocks().n_used(), compute->blocks().n_blocks());
}

}  // namespace ballast::runtime
