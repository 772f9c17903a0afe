// SPDX-License-Identifier: MIT
// The hand-over of one request's output from the engine thread to the coroutine that answers it.
// The engine never waits: text that nobody has fetched yet is joined, and beyond a limit the
// request is cancelled.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/runtime/ports.h"

namespace ballast::queue {

/// One thing that happened to one choice of a request.
struct StreamEvent {
    enum class Kind { kStarted, kText, kFinished, kFailed, kCancelled };
    Kind kind = Kind::kStarted;
    int choice = 0;
    runtime::TextDelta delta;                                     // kText
    runtime::FinishReason reason = runtime::FinishReason::kStop;  // kFinished
    runtime::JobStats stats;                                      // kFinished
    Error error;                                                  // kFailed, kCancelled
};

/// Shared by the connection's coroutine and, through its sinks, by the engine's jobs. One reader.
class TokenStream : public std::enable_shared_from_this<TokenStream> {
  public:
    /// n_choices sinks; bytes_max of unread text and log-probabilities over all of them.
    static std::shared_ptr<TokenStream> create(int n_choices, std::size_t bytes_max);
    TokenStream(const TokenStream&) = delete;
    TokenStream& operator=(const TokenStream&) = delete;

    /// Where the job of that choice writes. Keeps the stream alive.
    std::shared_ptr<runtime::TokenSink> sink(int choice);

    /// The next event, or nothing when the time is over. After kCancelled there is no other.
    boost::asio::awaitable<std::optional<StreamEvent>> next(Nanoseconds timeout);

    /// Nobody wants the rest. The engine sees it at the next micro-batch; a waiting next() returns
    /// kCancelled with this error. Any thread.
    void cancel(Error error);
    bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
    ~TokenStream();

  private:
    class Choice;
    struct Key {};

    void push(StreamEvent event);
    void cancel_locked(Error error);
    std::optional<StreamEvent> take_locked();
    bool ready_locked() const;
    void wake_locked();

    const std::size_t bytes_max_;
    std::atomic<bool> cancelled_{false};
    std::vector<std::unique_ptr<Choice>> choices_;
    std::mutex mutex_;
    std::deque<StreamEvent> events_;  // in order of arrival; at most one unread kText per choice
    std::size_t bytes_ = 0;
    Error cancel_error_;
    std::function<void()> wake_;  // set while a coroutine waits

  public:
    /// For create() alone: nobody else can name a Key.
    TokenStream(Key key, int n_choices, std::size_t bytes_max);
};

}  // namespace ballast::queue
