// SPDX-License-Identifier: MIT
// A second device made of threads: its own memory with a limit, a copy queue and a compute queue
// with a thread each, events between them, and the CPU's kernels. It may be paced like a slower
// device and may fail on purpose. The hybrid executor is proved on it where there is no GPU.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cpu_backend.h"
#include "engine/backend/host_options.h"
#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/base/thread.h"
#include "engine/base/thread_pool.h"
#include "engine/base/units.h"

namespace ballast::backend {

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
    /// A thread that waits, and for what. The others look here before they call the system.
    struct Sleeper {
        std::atomic<bool> asleep{false};
        std::array<std::atomic<std::uint64_t>, kQueues> awaits = {};  // 0: nothing of that queue
        std::condition_variable woken = {};
    };
    /// When something was done, and when it had ended for the device, which may be earlier: then a
    /// thread was late.
    struct Done {
        WorkTime time = {};
        Nanoseconds end{0};
    };
    /// One queue: work number n, from 1, stands in place n mod depth until it is done.
    struct Lane {
        explicit Lane(std::uint64_t seed) : delays(seed) {}
        std::vector<Work> ring{kDepth};
        std::vector<Done> done = std::vector<Done>(kTimesKept);
        // Written by the thread that puts, and by the lane's. Places in the ring, and times, belong
        // to whoever the two numbers say.
        std::atomic<std::uint64_t> n_put{0};
        std::atomic<std::uint64_t> n_done{0};
        std::atomic<std::uint64_t> first_failed{0};  // it and all later ones failed; 0: none
        Moments after = {};                          // of what is put next
        Sleeper sleeper = {};                        // its thread
        Rng delays;                                  // its thread's
        Thread thread = {};
    };
    static constexpr std::size_t kDepth = 256;
    // More than a step of any model has, so that its times can be asked for when it has ended.
    static constexpr std::size_t kTimesKept = 4096;

    Lane& lane(Queue queue) { return *lanes_[static_cast<std::size_t>(queue)]; }
    static Event event_of(Queue queue, std::uint64_t number);
    static std::size_t queue_of(Event event);
    static std::uint64_t number_of(Event event);
    bool happened(Event event) const;
    bool ready(const Work& work) const;
    /// Returns when it holds: looks for a moment, then sleeps. `awaits`: what has to be done for
    /// it; none: something has to be put.
    template <class Condition>
    void wait_for(Sleeper& sleeper, const Moments& awaits, const Condition& holds);
    /// Work of this queue is done. Takes no lock unless somebody sleeps who waits for it.
    void wake_those_who_await(std::size_t queue);
    void wake(Sleeper& sleeper);
    Result<Event> put(Queue queue, Work work);
    void run_lane(Lane& lane);
    /// Carries it out and returns when its modelled time is over.
    Done carry_out(const Work& work, Lane& lane, Nanoseconds could_begin);
    /// The modelled end of a copy or of ops that begin then, and have been carried out.
    Nanoseconds end_of(const Work& work, const Lane& lane, Nanoseconds begin);
    /// When all that the work number n stands behind had ended.
    Nanoseconds could_begin(const Lane& lane, std::uint64_t number) const;
    const Done* done_work(std::size_t queue, std::uint64_t number) const;
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

    std::mutex mutex_;  // of those who sleep
    std::condition_variable ending_;
    Sleeper caller_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> lost_{false};
    std::array<std::unique_ptr<Lane>, kQueues> lanes_;
};

}  // namespace ballast::backend
