// SPDX-License-Identifier: MIT
// One device that runs ops: its memory, a queue for copies, a queue for computation, and events
// that order them. A GPU is a module that implements this; the CPU always does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/backend/op.h"
#include "engine/backend/step_context.h"
#include "engine/base/clock.h"
#include "engine/base/ids.h"
#include "engine/base/result.h"

namespace ballast::backend {

/// A piece of device memory; freed as a whole, because only a whole chunk goes back to the system.
struct Chunk {
    std::byte* data = nullptr;  // host address where the device's memory has one, else a handle
    std::size_t size_bytes = 0;
};

/// What a device knows of its memory.
struct MemoryUse {
    std::uint64_t bytes = 0;      // of all chunks that are not freed
    std::uint64_t n_refused = 0;  // allocations that it had no memory for, so far
};

/// A point in a queue. Events of one queue complete in order.
enum class Event : std::uint64_t {};
enum class Queue { kCompute, kCopy };
constexpr std::size_t kQueues = 2;

/// From when to when a queue worked on something.
struct WorkTime {
    Nanoseconds begin{0};
    Nanoseconds end{0};

    bool is_known() const { return end > begin; }
    Nanoseconds duration() const { return end - begin; }
};

/// Rows of equal length, on either side with a stride of its own: a part of the columns of a matrix
/// or of an activation.
struct Strips {
    std::size_t row_bytes = 0;
    std::size_t n_rows = 1;
    std::size_t device_stride = 0;  // bytes from one row to the next
    std::size_t host_stride = 0;

    std::size_t total_bytes() const { return row_bytes * n_rows; }
};

/// Sizes of the largest step, for memory that is taken up front.
struct StepLimits {
    int rows = 0;       // token rows
    int outputs = 0;    // rows with logits
    int heads = 0;      // query heads of a layer
    int blocks = 0;     // KV blocks of one sequence
    std::size_t k = 0;  // longest weight row
    int experts = 0;    // 0: the model has none
    int experts_used = 0;
    std::size_t width = 0;
    std::size_t expert_ffn_width = 0;
};

/// Owned by the runtime, used by one thread at a time. After an error the device may be lost
/// (kDeviceLost): its work is repeated on the CPU.
class Backend {
  public:
    virtual ~Backend() = default;

    virtual DeviceId device() const = 0;
    /// For people: "cpu (avx512, 2 threads)".
    virtual std::string name() const = 0;
    /// Whether the op's kernels exist for weights of this type; what is not supported stays on the
    /// CPU. Ops without a weight ignore the type.
    virtual bool supports(const Op& op, quant::QuantType type) const = 0;

    /// Takes the step's scratch memory; no later call takes any. kOutOfMemory.
    virtual Status reserve(const StepLimits& limits) = 0;
    /// Zero-filled memory. kOutOfMemory.
    virtual Result<Chunk> allocate_chunk(std::size_t size_bytes) = 0;
    /// Only after the last event that reads it.
    virtual void free_chunk(Chunk chunk) = 0;
    /// The device's own view of its chunks.
    virtual MemoryUse memory_use() const = 0;
    /// Host memory that the device copies from and to fastest (pinned, where there is such a
    /// thing): at least so many bytes, mapped, of any content. It counts as the host's, and is
    /// scarce: a few buffers to stage through, taken in advance. What is left at the end goes back
    /// with the backend. kOutOfMemory.
    virtual Result<Chunk> allocate_host(std::size_t size_bytes) = 0;
    /// Only after the last event that reads or writes it.
    virtual void free_host(Chunk chunk) = 0;

    // What is put on a queue may run after the call returned: memory, ops and what the context
    // views stay as they are until the event. kOverloaded: too much is on the queue, wait for an
    // event of it first.

    /// Copy queue.
    virtual Result<Event> copy_in(std::byte* device, std::span<const std::byte> host) = 0;
    virtual Result<Event> copy_out(std::span<std::byte> host, const std::byte* device) = 0;
    /// Either queue. On the compute queue a copy is in order with the ops and waits for no other
    /// copy: for activations, which must not stand behind weights.
    virtual Result<Event> copy_strips_in(Queue queue,
                                         std::byte* device,
                                         const std::byte* host,
                                         const Strips& strips) = 0;
    virtual Result<Event> copy_strips_out(Queue queue,
                                          std::byte* host,
                                          const std::byte* device,
                                          const Strips& strips) = 0;
    /// Compute queue: the ops in order, each seeing the results of those before it.
    virtual Result<Event> submit(std::span<const OpRecord> ops, const StepContext& context) = 0;

    /// What is put on the queue after this call starts only when the event has happened.
    virtual void order_after(Queue queue, Event event) = 0;

    virtual bool done(Event event) const = 0;
    /// Returns when the event has happened, with the error of its queue if it failed.
    virtual Status wait(Event event) = 0;
    /// When its queue worked on an event that happened lately, on the clock that the backend was
    /// made with; nothing where that is not known: what runs inside the call is timed around it.
    virtual WorkTime work_time(Event event) const = 0;
};

}  // namespace ballast::backend
