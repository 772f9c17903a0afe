// SPDX-License-Identifier: MIT
// Measures this machine for the scheduler: what reading memory reaches, what copying does, how fast
// the kernels are on each weight type and batch, with cold caches and where the weights lie. It
// works in slices, so that it can be watched, stopped, or run in a server's idle gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/runtime/attention_probe.h"
#include "engine/runtime/profile_formats.h"
#include "engine/runtime/profile_stage.h"
#include "scheduler/profile/hardware_profile.h"

namespace ballast::runtime {

struct ProfilerOptions {
    bool machine = true;  // bandwidths, arithmetic and attention; else only the formats
    std::vector<ProfileFormat> formats = {};
    AttentionShape attention = {};
    /// Of made-up matrices, as models of 8 B parameters have it; a multiple of 256.
    std::size_t row_length = 4096;
    /// Memory to read, more than four times the last-level caches; 0: by this machine.
    std::size_t memory_bytes = 0;
    std::size_t cache_bytes = 0;  // of the last-level caches; 0: by this machine
    /// A second device that is measured with the machine, and its link; null: none. Of its memory
    /// device_bytes may be used. It outlives the profiler, and nobody else uses it in a slice.
    backend::Backend* device = nullptr;
    std::uint64_t device_bytes = 0;
};

/// Lives on the thread that may run the pool, which nobody else uses during a slice. Pool, kernels,
/// clock and the formats' weights outlive it.
class Profiler {
  public:
    /// kOutOfMemory if there is not enough memory to get past the caches, here or on the device.
    static Result<std::unique_ptr<Profiler>> create(ThreadPool& pool,
                                                    const kernels::KernelTable& kernels,
                                                    const Clock& clock,
                                                    ProfilerOptions options);
    ~Profiler();
    Profiler(const Profiler&) = delete;
    Profiler& operator=(const Profiler&) = delete;

    bool done() const;
    /// Does the next piece, below 100 ms. Throws std::bad_alloc where memory ends. Errors: those of
    /// the backends.
    Status run_slice();
    /// Forgets what the last slice measured, because something else ran at the same time; done()
    /// may be false again.
    void drop_slice();

    /// From 0 to 1, and what is measured now, for people.
    double progress() const;
    std::string doing() const;

    /// Samples taken again because another program ran in between.
    int n_disturbed() const;

    /// Once done: the figures for people, in the order of measurement.
    std::vector<Figure> figures() const;
    /// Once done: writes what was measured into the profile, and nothing else. Rates of types that
    /// are not measured now are kept.
    void fill(scheduler::HardwareProfile& profile) const;

  private:
    struct State;
    explicit Profiler(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace ballast::runtime
