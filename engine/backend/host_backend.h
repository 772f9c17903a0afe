// SPDX-License-Identifier: MIT
// A second device made of threads: its own memory with a limit, a copy queue and a compute queue
// with a thread each, events between them, and the CPU's kernels. It may be paced like a slower
// device and may fail on purpose. The hybrid executor is proved on it where there is no GPU.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cpu_backend.h"
#include "engine/backend/paced_memory.h"
#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/base/thread.h"
#include "engine/base/thread_pool.h"
#include "engine/base/units.h"

namespace ballast::backend {

/// How fast the device pretends to be: nothing ends earlier than its modelled time. A rate of 0
/// paces nothing.
struct HostPace {
    double read_gbps = 0.0;  // 1e9 bytes a second of weights, keys and values that ops read
    double gflops = 0.0;     // 1e9 operations a second
    double link_gbps = 0.0;  // 1e9 bytes a second of a copy, either way
    Nanoseconds latency{0};  // from the call until a submission or a copy may begin

    bool is_set() const {
        return read_gbps > 0.0 || gflops > 0.0 || link_gbps > 0.0 || latency.count() > 0;
    }
};

/// Failures on purpose; calls are counted from 1, 0 is never.
struct FaultPlan {
    std::uint64_t failed_allocation = 0;   // this allocate_chunk() gives kOutOfMemory
    std::uint64_t failed_host = 0;         // this allocate_host() gives kOutOfMemory
    std::uint64_t failed_submission = 0;   // this submit() gives kOutOfMemory and runs nothing
    std::uint64_t lost_at_submission = 0;  // from this submission on all is kDeviceLost
    std::uint64_t seed = 1;                // of the delays
    Nanoseconds delay_max{0};              // everything starts late by a random time up to this
};

/// What befalls the device from outside, as of now.
struct HostTruth {
    std::uint64_t left_bytes = 0;  // of its memory, beside what others use
    std::uint64_t n_losses = 0;    // how often it was lost; one that is made anew works
};

struct HostOptions {
    int threads = 1;
    std::uint64_t memory_bytes = 256 * kMiB;  // chunks in use together; kernels' scratch is beside
    HostPace pace = {};
    FaultPlan faults = {};
    /// What its copies share with a paced CPU; null: they have the memory to themselves.
    std::shared_ptr<PacedMemory> shared_memory = nullptr;
    std::vector<quant::QuantType> refused_types = {};  // it says it has no kernels for these
    /// Asked at each allocation, so that what others have taken is refused at once, and at each
    /// copy and submission. Null: nobody else is there.
    std::function<HostTruth()> truth = nullptr;
};

/// Used by one thread, which it never makes wait but in wait() and reserve(). The kernel table and
/// the clock outlive it. Destruction waits for what runs and drops what has not begun.
class HostBackend final : public Backend {
  public:
    HostBackend(const kernels::KernelTable& kernels,
                const Clock& clock,
                const HostOptions& options);
    ~HostBackend() override;
    HostBackend(const HostBackend&) = delete;
    HostBackend& operator=(const HostBackend&) = delete;

    DeviceId device() const override { return DeviceId::kDevice; }
    std::string name() const override;
    bool supports(const Op& op, quant::QuantType type) const override;
    Status reserve(const StepLimits& limits) override;
    Result<Chunk> allocate_chunk(std::size_t size_bytes) override;
    void free_chunk(Chunk chunk) override;
    /// Ordinary pages, kept in memory where the system's limit allows it.
    Result<Chunk> allocate_host(std::size_t size_bytes) override;
    void free_host(Chunk chunk) override { cpu_.free_host(chunk); }
    Result<Event> copy_in(std::byte* device, std::span<const std::byte> host) override;
    Result<Event> copy_out(std::span<std::byte> host, const std::byte* device) override;
    Result<Event> copy_strips_in(Queue queue,
                                 std::byte* device,
                                 const std::byte* host,
                                 const Strips& strips) override;
    Result<Event> copy_strips_out(Queue queue,
                                  std::byte* host,
                                  const std::byte* device,
                                  const Strips& strips) override;
    Result<Event> submit(std::span<const OpRecord> ops, const StepContext& context) override;
    void order_after(Queue queue, Event event) override;
    bool done(Event event) const override;
    Status wait(Event event) override;
    WorkTime work_time(Event event) const override;

    MemoryUse memory_use() const override {
        return {.bytes = used_bytes_, .n_refused = n_refused_};
    }
    /// Bytes of all chunks.
    std::uint64_t used_bytes() const { return used_bytes_; }

  private:
    /// Numbers of the last event of each queue that must have happened first.
    using Moments = std::array<std::uint64_t, kQueues>;
    /// A copy, or ops where there are any.
    struct Work {
        std::byte* to = nullptr;
        const std::byte* from = nullptr;
        Strips strips = {};
        bool to_device = true;
        std::span<const OpRecord> ops = {};
        StepContext context = {};
        std::uint64_t submission = 0;  // its number among submissions; 0: a copy
        Moments after = {};
        Nanoseconds put_at{0};
    };
    /// One queue: work number n, from 1, stands in place n mod depth until it is done.
    struct Lane {
        explicit Lane(std::uint64_t seed) : delays(seed) {}
        std::vector<Work> ring{kDepth};
        std::vector<WorkTime> times = std::vector<WorkTime>(kTimesKept);
        std::uint64_t n_put = 0;
        std::uint64_t n_done = 0;
        std::uint64_t first_failed = 0;  // this one and all later ones failed; 0: none
        Moments after = {};              // of what is put next
        Rng delays;                      // its thread's
        Thread thread = {};
    };
    static constexpr std::size_t kDepth = 256;
    // More than a step of any model has, so that its times can be asked for when it has ended.
    static constexpr std::size_t kTimesKept = 4096;

    Lane& lane(Queue queue) { return *lanes_[static_cast<std::size_t>(queue)]; }
    static Event event_of(Queue queue, std::uint64_t number);
    static std::size_t queue_of(Event event);
    static std::uint64_t number_of(Event event);
    bool happened(Event event) const;  // these three with the lock held
    bool ready(const Work& work) const;
    Result<Event> put(Queue queue, Work work);
    void run_lane(Lane& lane);
    /// Carries it out and returns when its modelled time is over.
    void carry_out(const Work& work, Lane& lane);
    /// Returns when it is that time, or when the device ends.
    void wait_until(Nanoseconds time);
    /// What of its memory may be used at all, now.
    std::uint64_t limit_bytes() const;
    bool is_lost();
    static tl::unexpected<Error> lost_error();

    const Clock& clock_;
    const HostOptions options_;
    const std::shared_ptr<PacedMemory> memory_;
    ThreadPool pool_;
    CpuBackend cpu_;  // its memory is the owner's business, its kernels the compute thread's
    std::map<std::byte*, std::size_t> chunks_;
    std::uint64_t used_bytes_ = 0;
    std::uint64_t n_refused_ = 0;
    std::uint64_t n_losses_ = 0;  // that were before it was made
    std::uint64_t n_allocations_ = 0;
    std::uint64_t n_host_allocations_ = 0;
    std::uint64_t n_submissions_ = 0;

    mutable std::mutex mutex_;         // of all below
    std::condition_variable changed_;  // something was put or is done
    std::condition_variable ending_;
    bool stopping_ = false;
    bool lost_ = false;
    std::array<std::unique_ptr<Lane>, kQueues> lanes_;
};

}  // namespace ballast::backend
