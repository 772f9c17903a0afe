// SPDX-License-Identifier: MIT
// Queues in rings, a thread for each, and waits with a deadline and a stop flag.
#include "engine/backend/host_backend.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>

#include <fmt/format.h>

#include "engine/backend/op_work.h"
#include "engine/base/byte_size.h"
#include "engine/base/check.h"
#include "engine/base/pause.h"

namespace ballast::backend {

namespace {

// Pauses between two looks at the clock.
constexpr int kPauses = 8;

/// A part of a poll. Whoever else wants the core gets it.
void poll_once() {
    for (int i = 0; i < kPauses; ++i) {
        pause_cpu();
    }
    sched_yield();
}

}  // namespace

HostBackend::HostBackend(const kernels::KernelTable& kernels,
                         const Clock& clock,
                         const HostOptions& options)
    : clock_(clock),
      options_(options),
      memory_(options.shared_memory != nullptr ? options.shared_memory
                                               : std::make_shared<PacedMemory>(clock, 0.0)),
      pool_(options.threads),
      cpu_(kernels, pool_),
      n_losses_(options.truth ? options.truth().n_losses : 0) {
    for (std::size_t i = 0; i < kQueues; ++i) {
        lanes_[i] = std::make_unique<Lane>(options.faults.seed + i);
    }
    lane(Queue::kCompute).thread.start("host-compute", [this](StopToken) {
        run_lane(lane(Queue::kCompute));
    });
    lane(Queue::kCopy).thread.start("host-copy", [this](StopToken) {
        run_lane(lane(Queue::kCopy));
    });
}

HostBackend::~HostBackend() {
    {
        const std::lock_guard lock(mutex_);
        stopping_.store(true);
    }
    for (const auto& lane : lanes_) {
        lane->sleeper.woken.notify_all();
    }
    ending_.notify_all();
    memory_->interrupt();
    for (const auto& lane : lanes_) {
        lane->thread.stop();
    }
}

std::string HostBackend::name() const {
    return fmt::format("host ({}, {})", cpu_.name(), format_byte_size(options_.memory_bytes));
}

bool HostBackend::supports(const Op& op, quant::QuantType type) const {
    const auto& refused = options_.refused_types;
    return std::find(refused.begin(), refused.end(), type) == refused.end() &&
           cpu_.supports(op, type);
}

Status HostBackend::reserve(const StepLimits& limits) {
    const Lane& compute = lane(Queue::kCompute);
    const std::uint64_t n_put = compute.n_put.load();
    wait_for(caller_, {n_put}, [&] { return compute.n_done.load() == n_put; });
    // The compute thread sees what is taken here with the next work that is put.
    return cpu_.reserve(limits);
}

Result<Chunk> HostBackend::allocate_chunk(std::size_t size_bytes) {
    if (is_lost()) {
        return lost_error();
    }
    if (++n_allocations_ == options_.faults.failed_allocation) {
        ++n_refused_;
        return fail(ErrorCode::kOutOfMemory, "the device gave no memory (a planned fault)");
    }
    const std::uint64_t limit = limit_bytes();
    const std::uint64_t left = limit > used_bytes_ ? limit - used_bytes_ : 0;
    if (size_bytes > left) {
        ++n_refused_;
        return fail(ErrorCode::kOutOfMemory,
                    fmt::format("the device has {} bytes of its {} left, which {} exceed",
                                left,
                                format_byte_size(options_.memory_bytes),
                                size_bytes));
    }
    BALLAST_TRY(const Chunk chunk, cpu_.allocate_chunk(size_bytes));
    chunks_.emplace(chunk.data, size_bytes);
    used_bytes_ += size_bytes;
    return chunk;
}

std::uint64_t HostBackend::limit_bytes() const {
    return options_.truth ? std::min(options_.memory_bytes, options_.truth().left_bytes)
                          : options_.memory_bytes;
}

bool HostBackend::is_lost() {
    const bool now = options_.truth && options_.truth().n_losses > n_losses_;
    if (now) {
        lost_.store(true);
    }
    return lost_.load();
}

void HostBackend::free_chunk(Chunk chunk) {
    const auto found = chunks_.find(chunk.data);
    BALLAST_CHECK(found != chunks_.end());
    used_bytes_ -= found->second;
    chunks_.erase(found);
    cpu_.free_chunk(chunk);
}

Result<Chunk> HostBackend::allocate_host(std::size_t size_bytes) {
    if (is_lost()) {
        return lost_error();
    }
    if (++n_host_allocations_ == options_.faults.failed_host) {
        return fail(ErrorCode::kOutOfMemory, "no memory could be pinned (a planned fault)");
    }
    BALLAST_TRY(const Chunk chunk, cpu_.allocate_host(size_bytes));
    // Limits are often a few MiB; pages that may be swapped out are copied from just as well.
    static_cast<void>(mlock(chunk.data, chunk.size_bytes));
    return chunk;
}

Result<Event> HostBackend::copy_in(std::byte* device, std::span<const std::byte> host) {
    return copy_strips_in(Queue::kCopy, device, host.data(), {.row_bytes = host.size()});
}

Result<Event> HostBackend::copy_out(std::span<std::byte> host, const std::byte* device) {
    return copy_strips_out(Queue::kCopy, host.data(), device, {.row_bytes = host.size()});
}

Result<Event> HostBackend::copy_strips_in(Queue queue,
                                          std::byte* device,
                                          const std::byte* host,
                                          const Strips& strips) {
    return put(queue, {.to = device, .from = host, .strips = strips});
}

Result<Event> HostBackend::copy_strips_out(Queue queue,
                                           std::byte* host,
                                           const std::byte* device,
                                           const Strips& strips) {
    return put(queue, {.to = host, .from = device, .strips = strips, .to_device = false});
}

Result<Event> HostBackend::submit(std::span<const OpRecord> ops, const StepContext& context) {
    if (++n_submissions_ == options_.faults.failed_submission) {
        return fail(ErrorCode::kOutOfMemory, "the device took no more work (a planned fault)");
    }
    return put(Queue::kCompute, {.ops = ops, .context = context, .submission = n_submissions_});
}

Result<Event> HostBackend::put(Queue queue, Work work) {
    if (is_lost()) {
        return lost_error();
    }
    Lane& to = lane(queue);
    const std::uint64_t number = to.n_put.load(std::memory_order_relaxed) + 1;
    if (number - to.n_done.load(std::memory_order_acquire) > kDepth) {
        return fail(ErrorCode::kOverloaded, "the device's queue is full");
    }
    work.after = to.after;
    work.put_at = clock_.now();
    to.ring[number % kDepth] = work;
    to.n_put.store(number);
    if (to.sleeper.asleep.load()) {
        wake(to.sleeper);
    }
    return event_of(queue, number);
}

void HostBackend::order_after(Queue queue, Event event) {
    std::uint64_t& number = lane(queue).after[queue_of(event)];
    number = std::max(number, number_of(event));
}

bool HostBackend::done(Event event) const {
    return happened(event);
}

Status HostBackend::wait(Event event) {
    Moments awaits = {};
    awaits[queue_of(event)] = number_of(event);
    wait_for(caller_, awaits, [&] { return happened(event); });
    const std::uint64_t first_failed = lanes_[queue_of(event)]->first_failed.load();
    if (first_failed != 0 && number_of(event) >= first_failed) {
        return lost_error();
    }
    return {};
}

WorkTime HostBackend::work_time(Event event) const {
    const Done* const done = done_work(queue_of(event), number_of(event));
    return done != nullptr ? done->time : WorkTime();
}

const HostBackend::Done* HostBackend::done_work(std::size_t queue, std::uint64_t number) const {
    const Lane& of = *lanes_[queue];
    const std::uint64_t n_done = of.n_done.load();
    // The lane may write over those of all that can be on the queue meanwhile.
    const bool known = number <= n_done && n_done - number < kTimesKept - kDepth;
    return known && number > 0 ? &of.done[number % kTimesKept] : nullptr;
}

template <class Condition>
void HostBackend::wait_for(Sleeper& sleeper, const Moments& awaits, const Condition& holds) {
    const Nanoseconds until = clock_.now() + options_.poll;
    const auto over = [&] { return stopping_.load() || holds(); };
    while (!over()) {
        if (clock_.now() < until) {
            poll_once();
            continue;
        }
        std::unique_lock lock(mutex_);
        for (std::size_t queue = 0; queue < kQueues; ++queue) {
            sleeper.awaits[queue].store(awaits[queue]);
        }
        sleeper.asleep.store(true);  // before it asks again: pairs with the looks of the others
        sleeper.woken.wait(lock, over);
        sleeper.asleep.store(false);
    }
}

void HostBackend::wake_those_who_await(std::size_t queue) {
    const std::uint64_t n_done = lanes_[queue]->n_done.load();
    for (Sleeper* const sleeper : {&caller_, &lanes_[0]->sleeper, &lanes_[1]->sleeper}) {
        if (sleeper->asleep.load()) {
            const std::uint64_t awaited = sleeper->awaits[queue].load();
            if (awaited != 0 && awaited <= n_done) {
                wake(*sleeper);
            }
        }
    }
}

void HostBackend::wake(Sleeper& sleeper) {
    {
        // It has asked for the last time, or will see what has changed.
        const std::lock_guard lock(mutex_);
    }
    sleeper.woken.notify_one();
}

Event HostBackend::event_of(Queue queue, std::uint64_t number) {
    return Event{number * kQueues + static_cast<std::uint64_t>(queue)};
}

std::size_t HostBackend::queue_of(Event event) {
    return static_cast<std::size_t>(static_cast<std::uint64_t>(event) % kQueues);
}

std::uint64_t HostBackend::number_of(Event event) {
    return static_cast<std::uint64_t>(event) / kQueues;
}

bool HostBackend::happened(Event event) const {
    return lanes_[queue_of(event)]->n_done.load() >= number_of(event);
}

bool HostBackend::ready(const Work& work) const {
    for (std::size_t queue = 0; queue < kQueues; ++queue) {
        if (lanes_[queue]->n_done.load() < work.after[queue]) {
            return false;
        }
    }
    return true;
}

void HostBackend::run_lane(Lane& lane) {
    for (std::uint64_t number = 1;; ++number) {
        const Work& work = lane.ring[number % kDepth];
        wait_for(lane.sleeper, {}, [&] { return lane.n_put.load() >= number; });
        if (!stopping_.load()) {
            wait_for(lane.sleeper, work.after, [&] { return ready(work); });
        }
        if (stopping_.load()) {
            return;
        }
        const std::uint64_t lost_at = options_.faults.lost_at_submission;
        if (lost_at != 0 && work.submission >= lost_at) {
            lost_.store(true);
        }
        Done done;
        if (!lost_.load()) {
            done = carry_out(work, lane, could_begin(lane, number));
        } else if (lane.first_failed.load() == 0) {
            lane.first_failed.store(number);
        }
        lane.done[number % kTimesKept] = done;
        lane.n_done.store(number);
        wake_those_who_await(&lane == lanes_[0].get() ? 0 : 1);
    }
}

Nanoseconds HostBackend::could_begin(const Lane& lane, std::uint64_t number) const {
    const Work& work = lane.ring[number % kDepth];
    // What was put while the queue was at work has had its latency already.
    Nanoseconds begin = work.put_at + options_.pace.latency;
    if (number > 1) {
        begin = std::max(begin, lane.done[(number - 1) % kTimesKept].end);
    }
    for (std::size_t queue = 0; queue < kQueues; ++queue) {
        if (const Done* const before = done_work(queue, work.after[queue]); before != nullptr) {
            begin = std::max(begin, before->end);
        }
    }
    return begin;
}

HostBackend::Done HostBackend::carry_out(const Work& work, Lane& lane, Nanoseconds could_begin) {
    Nanoseconds begin = could_begin;
    if (options_.faults.delay_max.count() > 0) {
        begin += Nanoseconds(static_cast<std::int64_t>(
            lane.delays.below(static_cast<std::uint64_t>(options_.faults.delay_max.count()))));
        wait_until(begin);
    }
    Done done{.time = {.begin = std::max(clock_.now(), begin)}};
    if (work.submission == 0) {
        const Strips& strips = work.strips;
        const std::size_t to = work.to_device ? strips.device_stride : strips.host_stride;
        const std::size_t from = work.to_device ? strips.host_stride : strips.device_stride;
        copy_rows(work.to, to, work.from, from, strips);
    } else {
        // The CPU's submit() only fails for lack of what reserve() took.
        BALLAST_CHECK(cpu_.submit(work.ops, work.context).has_value());
    }
    done.end = end_of(work, lane, begin);
    wait_until(done.end);
    done.time.end = std::max(clock_.now(), done.end);
    return done;
}

Nanoseconds HostBackend::end_of(const Work& work, const Lane& lane, Nanoseconds begin) {
    const HostPace& pace = options_.pace;
    const Nanoseconds worked = clock_.now();
    if (work.submission != 0) {
        const ModelledWork modelled =
            modelled_work(work.ops, work.context, pace.read_gbps, pace.gflops);
        return std::max(begin + modelled.time, worked);
    }
    const std::size_t n_bytes = work.strips.total_bytes();
    if (&lane == lanes_[static_cast<std::size_t>(Queue::kCopy)].get()) {
        wait_until(begin);
        return std::max(memory_->cross(n_bytes, pace.link_gbps, begin), worked);
    }
    // Activations are few bytes: they do not share the memory's rate with anyone.
    const double crossing =
        pace.link_gbps > 0.0 ? static_cast<double>(n_bytes) / pace.link_gbps : 0.0;
    return std::max(begin + Nanoseconds(static_cast<std::int64_t>(crossing)), worked);
}

void HostBackend::wait_until(Nanoseconds time) {
    if (clock_.now() < time) {
        std::unique_lock lock(mutex_);
        backend::wait_until(clock_, lock, ending_, time, [&] { return stopping_.load(); });
    }
}

tl::unexpected<Error> HostBackend::lost_error() {
    return fail(ErrorCode::kDeviceLost, "the host device was lost");
}

}  // namespace ballast::backend
