// SPDX-License-Identifier: MIT
// Queues in rings, a thread for each, and waits with a deadline and a stop flag.
#include "engine/backend/host_backend.h"

#include <sys/mman.h>

#include <algorithm>

#include <fmt/format.h>

#include "engine/backend/op_work.h"
#include "engine/base/byte_size.h"
#include "engine/base/check.h"

namespace ballast::backend {

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
        stopping_ = true;
    }
    changed_.notify_all();
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
    std::unique_lock lock(mutex_);
    const Lane& compute = lane(Queue::kCompute);
    changed_.wait(lock, [&] { return stopping_ || compute.n_done == compute.n_put; });
    // With the lock held, so that the compute thread sees what is taken here.
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
    const std::lock_guard lock(mutex_);
    lost_ = lost_ || now;
    return lost_;
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
    std::uint64_t number = 0;
    {
        const std::lock_guard lock(mutex_);
        Lane& to = lane(queue);
        if (to.n_put - to.n_done == kDepth) {
            return fail(ErrorCode::kOverloaded, "the device's queue is full");
        }
        number = ++to.n_put;
        work.after = to.after;
        work.put_at = clock_.now();
        to.ring[number % kDepth] = work;
    }
    changed_.notify_all();
    return event_of(queue, number);
}

void HostBackend::order_after(Queue queue, Event event) {
    const std::lock_guard lock(mutex_);
    std::uint64_t& number = lane(queue).after[queue_of(event)];
    number = std::max(number, number_of(event));
}

bool HostBackend::done(Event event) const {
    const std::lock_guard lock(mutex_);
    return happened(event);
}

Status HostBackend::wait(Event event) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || happened(event); });
    const Lane& of = *lanes_[queue_of(event)];
    if (of.first_failed != 0 && number_of(event) >= of.first_failed) {
        return lost_error();
    }
    return {};
}

WorkTime HostBackend::work_time(Event event) const {
    const std::lock_guard lock(mutex_);
    const Lane& of = *lanes_[queue_of(event)];
    const std::uint64_t number = number_of(event);
    const bool known = happened(event) && of.n_done - number < kTimesKept;
    return known ? of.times[number % kTimesKept] : WorkTime();
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
    return lanes_[queue_of(event)]->n_done >= number_of(event);
}

bool HostBackend::ready(const Work& work) const {
    for (std::size_t queue = 0; queue < kQueues; ++queue) {
        if (lanes_[queue]->n_done < work.after[queue]) {
            return false;
        }
    }
    return true;
}

void HostBackend::run_lane(Lane& lane) {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] {
            return stopping_ ||
                   (lane.n_put > lane.n_done && ready(lane.ring[(lane.n_done + 1) % kDepth]));
        });
        if (stopping_) {
            return;
        }
        const std::uint64_t number = lane.n_done + 1;
        const Work& work = lane.ring[number % kDepth];
        const std::uint64_t lost_at = options_.faults.lost_at_submission;
        lost_ = lost_ || (lost_at != 0 && work.submission >= lost_at);
        const bool lost = lost_;
        WorkTime time;
        if (!lost) {
            lock.unlock();
            time.begin = clock_.now();
            carry_out(work, lane);
            time.end = clock_.now();
            lock.lock();
        }
        if (lost && lane.first_failed == 0) {
            lane.first_failed = number;
        }
        lane.times[number % kTimesKept] = time;
        lane.n_done = number;
        changed_.notify_all();
    }
}

void HostBackend::carry_out(const Work& work, Lane& lane) {
    const HostPace& pace = options_.pace;
    // What was put while the queue was at work has had its latency already.
    Nanoseconds begin = std::max(clock_.now(), work.put_at + pace.latency);
    if (options_.faults.delay_max.count() > 0) {
        begin += Nanoseconds(static_cast<std::int64_t>(
            lane.delays.below(static_cast<std::uint64_t>(options_.faults.delay_max.count()))));
        wait_until(begin);
    }
    if (work.submission == 0) {
        const Strips& strips = work.strips;
        const std::size_t to = work.to_device ? strips.device_stride : strips.host_stride;
        const std::size_t from = work.to_device ? strips.host_stride : strips.device_stride;
        copy_rows(work.to, to, work.from, from, strips);
        wait_until(begin);
        if (&lane == lanes_[static_cast<std::size_t>(Queue::kCopy)].get()) {
            memory_->cross(strips.total_bytes(), pace.link_gbps, begin);
        } else if (pace.link_gbps > 0.0) {
            // Activations are few bytes: they do not share the memory's rate with anyone.
            wait_until(begin + Nanoseconds(static_cast<std::int64_t>(
                                   static_cast<double>(strips.total_bytes()) / pace.link_gbps)));
        }
        return;
    }
    // The CPU's submit() only fails for lack of what reserve() took.
    BALLAST_CHECK(cpu_.submit(work.ops, work.context).has_value());
    wait_until(begin + modelled_work(work.ops, work.context, pace.read_gbps, pace.gflops).time);
}

void HostBackend::wait_until(Nanoseconds time) {
    if (clock_.now() < time) {
        std::unique_lock lock(mutex_);
        backend::wait_until(clock_, lock, ending_, time, [&] { return stopping_; });
    }
}

tl::unexpected<Error> HostBackend::lost_error() {
    return fail(ErrorCode::kDeviceLost, "the host device was lost");
}

}  // namespace ballast::backend
