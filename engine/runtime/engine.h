// SPDX-License-Identifier: MIT
// The engine thread: takes jobs, batches their tokens, runs the model, samples, and hands text to
// each job's sink.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "engine/backend/host_backend.h"
#include "engine/backend/paced_cpu.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/base/thread.h"
#include "engine/runtime/load_report.h"
#include "engine/runtime/loaded_model.h"
#include "engine/runtime/options.h"
#include "engine/runtime/ports.h"
#include "engine/runtime/residency.h"
#include "scheduler/load/monitor.h"
#include "scheduler/load/pauses.h"
#include "scheduler/tensor_scheduler.h"

namespace ballast::runtime {

/// What an engine may have besides, none of which it needs; what is pointed to outlives it.
struct EngineParts {
    /// This machine as it was measured, if it was.
    std::optional<scheduler::HardwareProfile> hardware = {};
    scheduler::GpuMonitor* monitor = nullptr;   // null: nobody else uses the device
    const scheduler::Pauses* pauses = nullptr;  // after a change of it the source is woken
    /// The device "host": its pace, faults, and what befalls it.
    backend::HostOptions host = {};
    /// The CPU as a slower one, for reports.
    backend::CpuPace cpu_pace = {};
    /// What goes where until something has to go; null: what the scheduler decides.
    std::shared_ptr<const scheduler::Plan> plan = nullptr;
    /// Super-chunks also where steps are as good, for tests.
    bool always_super_chunks = false;
    /// Beside the rules' defaults; the memory follows from the options.
    scheduler::LoadRules rules = {};
};

/// Owns the compute threads, the KV cache and the engine thread. Created, started and stopped by
/// one thread; the model, source, observer and clock outlive it.
class Engine {
  public:
    /// Checks the options and takes all memory. Errors: kInvalidRequest (an option), kOutOfMemory,
    /// kUnsupported (instruction set).
    static Result<std::unique_ptr<Engine>> create(const LoadedModel& model,
                                                  const EngineOptions& options,
                                                  JobSource& source,
                                                  EngineObserver& observer,
                                                  const Clock& clock,
                                                  EngineParts parts = {});
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// What to do while there is nothing to do; before start(). Outlives the engine.
    void set_idle_task(IdleTask& task);
    void start();
    /// Returns when the engine thread has ended. Jobs still running get kCancelled, at the latest
    /// after one micro-batch. To drain first, close the source and wait for idle().
    void stop();

    /// Tokens one request may use, prompt and reply together.
    int context() const;
    /// Sequences that run at the same time.
    int parallel() const;
    /// Compute threads in use and the name of the kernels' instruction set.
    int threads() const;
    std::string isa() const;
    /// The model's groups of tensors; the same as long as the engine lives.
    const scheduler::TensorCatalog& catalog() const;
    /// Where they are and how much of the device may be used, as of the last change. Any thread.
    LoadReport load() const;
    /// What it decides and has learnt. Any thread may ask for its state.
    const scheduler::TensorScheduler& scheduler() const;
    /// For people, about the second device as it was at the start; "" without one.
    std::string device_summary() const;
    /// No job is running. Any thread.
    bool idle() const;
    /// Not empty once the engine cannot go on, e.g. because the model file was cut while mapped:
    /// every job then fails with this sentence. Any thread.
    std::string failure() const;
    /// Time on the clock of the last step or idle wait, for the watchdog. Any thread.
    Nanoseconds last_progress() const;

  private:
    struct State;
    explicit Engine(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace ballast::runtime
