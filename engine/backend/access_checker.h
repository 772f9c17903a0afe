// SPDX-License-Identifier: MIT
// Proves that what is put on a device's queues and what the host does meanwhile never collide:
// nothing is read before it was written, written while it is in use, or freed before its last
// reader. Order is what the calls say (queues, order_after, wait), not what happened to happen, so
// a missing call is found even where the timing was kind.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/byte_map.h"
#include "engine/backend/op_bytes.h"

namespace ballast::backend {

/// Whose memory an address is of.
enum class Side { kHost, kDevice };
constexpr std::size_t kSides = 2;

/// Who works: one of the device's queues, or the host in its calls.
enum class Lane { kCompute, kCopy, kHost };

/// What a piece of work, or a part of it, is called.
struct WorkLabel {
    const char* what = "";
    int layer = -1;
};

/// One for a device and the CPU beside it, shared by the backends that tell it of their calls
/// (checked_backend.h). Used by one thread at a time. It remembers only what the host is not known
/// to come after.
class AccessChecker {
  public:
    using Handler = std::function<void(const std::string& sentence)>;
    struct Options {
        /// Gets a sentence for each violation; null: the process stops with it.
        Handler handler = nullptr;
        /// Reads of device memory that nothing was written to are violations too, though chunks
        /// begin as zeros.
        bool unwritten = false;
    };
    AccessChecker() : AccessChecker(Options{}) {}
    explicit AccessChecker(Options options) : options_(std::move(options)) {}
    AccessChecker(const AccessChecker&) = delete;
    AccessChecker& operator=(const AccessChecker&) = delete;

    void allocated(Side side, Chunk chunk);
    /// Before it is freed.
    void freeing(Side side, Chunk chunk);
    /// The device went, with all that was on its queues.
    void device_gone();

    // A piece of work: begin(), what it touches and what it is bound by, check(), and where it is
    // put on a queue, put() once the queue took it. What is begun and not put leaves no trace.

    void begin(Lane lane);
    void touch(Side side, const Touch& touch, WorkLabel label);
    /// Lists and views of the host that must stay as they are until the work is over.
    void bind(std::span<const std::byte> bytes, WorkLabel label);
    /// Reports the first collision of it, if there is one.
    void check();
    void put(Event event);

    /// What the queue gets next comes after the event.
    void order_after(Queue queue, Event event);
    /// The host saw that it happened.
    void happened(Event event);

    /// What code outside the backends does to host memory that they copy to or from.
    void host_uses(const ByteRows& bytes, bool writes, const char* what);

    std::uint64_t n_violations() const { return n_violations_; }
    std::uint64_t n_checked() const { return n_checked_; }
    /// Runs of bytes and events that it remembers.
    std::size_t n_remembered() const;

  private:
    using Address = std::uintptr_t;
    /// Numbers of each queue's last work that comes before.
    using Clock = std::array<std::uint64_t, kQueues>;
    struct Use {
        std::uint64_t number = 0;  // of the queue's work; 0: none
        WorkLabel label = {};
    };
    /// The uses of a run of bytes that a later one may collide with.
    struct Uses {
        std::array<Use, kQueues> reads = {};  // the last one of each queue
        Use write = {};
        Queue writer = Queue::kCompute;
    };
    struct LabelledTouch {
        Side side = Side::kHost;
        Touch touch = {};
        WorkLabel label = {};
    };
    struct PutWork {
        Queue queue = Queue::kCompute;
        std::uint64_t number = 0;
        Clock clock = {};
    };
    struct LiveChunk {
        Address end = 0;
        std::uint64_t serial = 0;
    };
    struct FreedChunk {
        Address begin = 0;
        LiveChunk chunk = {};
    };
    /// Host memory that work on a queue reads, as it was when the work was put.
    struct Source {
        ByteRows bytes = {};
        std::uint64_t fingerprint = 0;
        PutWork work = {};
        WorkLabel label = {};
    };
    static constexpr std::size_t kFreedMax = 64;

    template <class Visit>
    static void each_row(const ByteRows& bytes, const Visit& visit);
    static std::size_t index_of(Queue queue) { return static_cast<std::size_t>(queue); }
    static std::uint64_t fingerprint(const ByteRows& bytes);

    bool on_queue() const { return lane_ != Lane::kHost; }
    Queue queue() const { return static_cast<Queue>(lane_); }
    /// What comes before the work that was begun.
    Clock clock_of_work() const;
    bool check_alive(const LabelledTouch& each);
    bool check_written(const LabelledTouch& each);
    bool check_order(const LabelledTouch& each, const Clock& clock);
    void note(const LabelledTouch& each, std::uint64_t number);
    void note_sources(const PutWork& work);
    void forget_what_the_host_comes_after();
    void check_sources(std::vector<Source>& sources);
    void report(const std::string& sentence);
    std::string name_work(Lane lane, std::uint64_t number, const WorkLabel& label) const;
    std::string name_begun(const WorkLabel& label) const;
    std::string name_bytes(Side side, Address begin, Address end) const;

    const Options options_;
    // The work that was begun:
    Lane lane_ = Lane::kHost;
    std::vector<LabelledTouch> touches_;
    std::vector<Source> bound_;

    Clock n_put_ = {};
    Clock host_ = {};                         // what the host comes after
    std::array<Clock, kQueues> queues_ = {};  // what each queue's next work comes after
    std::unordered_map<std::uint64_t, PutWork> events_;
    std::array<ByteMap<Uses>, kSides> uses_;
    ByteMap<bool> written_;         // of the device
    std::vector<Source> sources_;   // of copies
    std::vector<Source> bindings_;  // of ops
    std::array<std::map<Address, LiveChunk>, kSides> chunks_;
    std::deque<FreedChunk> freed_;  // of the device, the last ones
    std::uint64_t n_chunks_ = 0;
    std::uint64_t n_violations_ = 0;
    std::uint64_t n_checked_ = 0;
};

}  // namespace ballast::backend
