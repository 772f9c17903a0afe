// SPDX-License-Identifier: MIT
// The engine appends under a mutex and, if the coroutine waits, posts its wake-up; neither side
// ever waits for the other.
#include "server/queue/token_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "engine/base/check.h"

namespace ballast::queue {

namespace asio = boost::asio;

namespace {

/// What an unread delta costs, roughly: its text and the candidates of its log-probabilities.
std::size_t size_of(const runtime::TextDelta& delta) {
    std::size_t n_bytes = delta.text.size();
    for (const runtime::TokenLogprobs& token : delta.logprobs) {
        n_bytes += (1 + token.top.size()) * sizeof(runtime::TokenLogprobs::Entry);
    }
    return n_bytes;
}

}  // namespace

/// One choice's end of the stream. Called on the engine thread.
class TokenStream::Choice final : public runtime::TokenSink {
  public:
    Choice(TokenStream& stream, int index) : stream_(stream), index_(index) {}

    void on_start() override {
        push(StreamEvent::Kind::kStarted, [](StreamEvent&) {});
    }
    void on_text(runtime::TextDelta delta) override {
        push(StreamEvent::Kind::kText, [&](StreamEvent& e) { e.delta = std::move(delta); });
    }
    void on_finish(runtime::FinishReason reason, const runtime::JobStats& stats) override {
        push(StreamEvent::Kind::kFinished, [&](StreamEvent& e) {
            e.reason = reason;
            e.stats = stats;
        });
    }
    void on_error(Error error) override {
        push(StreamEvent::Kind::kFailed, [&](StreamEvent& e) { e.error = std::move(error); });
    }
    bool cancelled() const override { return stream_.cancelled(); }

  private:
    template <class Fill>
    void push(StreamEvent::Kind kind, Fill fill) {
        StreamEvent event;
        event.kind = kind;
        event.choice = index_;
        fill(event);
        stream_.push(std::move(event));
    }

    TokenStream& stream_;
    const int index_;
};

std::shared_ptr<TokenStream> TokenStream::create(int n_choices, std::size_t bytes_max) {
    return std::make_shared<TokenStream>(Key{}, n_choices, bytes_max);
}

TokenStream::TokenStream(Key /*key*/, int n_choices, std::size_t bytes_max)
    : bytes_max_(bytes_max) {
    for (int i = 0; i < n_choices; ++i) {
        choices_.push_back(std::make_unique<Choice>(*this, i));
    }
}

TokenStream::~TokenStream() = default;

std::shared_ptr<runtime::TokenSink> TokenStream::sink(int choice) {
    const auto index = static_cast<std::size_t>(choice);
    BALLAST_CHECK(index < choices_.size());
    // Shares the stream's count: the sink lives as long as the stream, and keeps it alive.
    return {shared_from_this(), choices_[index].get()};
}

void TokenStream::push(StreamEvent event) {
    const std::lock_guard lock(mutex_);
    if (cancelled()) {
        return;
    }
    if (event.kind == StreamEvent::Kind::kText) {
        bytes_ += size_of(event.delta);
        if (bytes_ > bytes_max_) {
            cancel_locked({ErrorCode::kCancelled, "The client does not read its reply."});
            return;
        }
        const auto unread = std::find_if(events_.begin(), events_.end(), [&](const auto& e) {
            return e.kind == StreamEvent::Kind::kText && e.choice == event.choice;
        });
        if (unread != events_.end()) {
            unread->delta.text += event.delta.text;
            unread->delta.n_tokens += event.delta.n_tokens;
            std::move(event.delta.logprobs.begin(),
                      event.delta.logprobs.end(),
                      std::back_inserter(unread->delta.logprobs));
            wake_locked();
            return;
        }
    }
    events_.push_back(std::move(event));
    wake_locked();
}

void TokenStream::cancel(Error error) {
    const std::lock_guard lock(mutex_);
    if (!cancelled()) {
        cancel_locked(std::move(error));
    }
}

void TokenStream::cancel_locked(Error error) {
    cancel_error_ = std::move(error);
    events_.clear();
    cancelled_.store(true, std::memory_order_release);
    wake_locked();
}

void TokenStream::wake_locked() {
    if (wake_) {
        std::exchange(wake_, nullptr)();
    }
}

bool TokenStream::ready_locked() const {
    return cancelled() || !events_.empty();
}

std::optional<StreamEvent> TokenStream::take_locked() {
    if (cancelled()) {
        StreamEvent event;
        event.kind = StreamEvent::Kind::kCancelled;
        event.error = cancel_error_;
        return event;
    }
    if (events_.empty()) {
        return std::nullopt;
    }
    StreamEvent event = std::move(events_.front());
    events_.pop_front();
    if (event.kind == StreamEvent::Kind::kText) {
        bytes_ -= size_of(event.delta);
    }
    return event;
}

asio::awaitable<std::optional<StreamEvent>> TokenStream::next(Nanoseconds timeout) {
    const auto self = shared_from_this();
    const auto executor = co_await asio::this_coro::executor;
    const auto timer = std::make_shared<asio::steady_timer>(executor);
    {
        const std::lock_guard lock(mutex_);
        if (ready_locked()) {
            co_return take_locked();
        }
        timer->expires_after(timeout);
        // Runs on the engine thread. The post is executed on this coroutine's strand, so it cannot
        // come before the wait below has begun.
        wake_ = [executor, weak = std::weak_ptr(timer)] {
            asio::post(executor, [weak] {
                if (const auto waiting = weak.lock()) {
                    waiting->cancel();
                }
            });
        };
    }
    // Also when the coroutine is destroyed while it waits: afterwards nobody may post to an
    // executor that is about to go.
    struct Unwake {
        TokenStream& stream;
        ~Unwake() {
            const std::lock_guard lock(stream.mutex_);
            stream.wake_ = nullptr;
        }
    };
    const Unwake unwake{*this};
    auto [error] = co_await timer->async_wait(asio::as_tuple(asio::use_awaitable));
    static_cast<void>(error);
    const std::lock_guard lock(mutex_);
    co_return take_locked();
}

}  // namespace ballast::queue
