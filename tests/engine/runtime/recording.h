// SPDX-License-Identifier: MIT
// The engine's ports for tests: a sink that remembers, a job source that is a list, an observer
// that counts.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/runtime/ports.h"

namespace ballast::test {

/// Remembers everything; may be read once ended() is true.
class RecordingSink final : public runtime::TokenSink {
  public:
    void on_start() override {
        const std::lock_guard lock(mutex_);
        started_ = true;
    }
    void on_text(runtime::TextDelta delta) override {
        const std::lock_guard lock(mutex_);
        n_events_after_cancel_ += cancelled_ ? 1 : 0;
        text_ += delta.text;
        n_tokens_ += delta.n_tokens;
        for (auto& entry : delta.logprobs) {
            logprobs_.push_back(std::move(entry));
        }
        if (cancel_after_tokens_ > 0 && n_tokens_ >= cancel_after_tokens_) {
            cancelled_ = true;
        }
        changed_.notify_all();
    }
    void on_finish(runtime::FinishReason reason, const runtime::JobStats& stats) override {
        const std::lock_guard lock(mutex_);
        ++n_ends_;
        reason_ = reason;
        stats_ = stats;
        changed_.notify_all();
    }
    void on_error(Error error) override {
        const std::lock_guard lock(mutex_);
        ++n_ends_;
        error_ = std::move(error);
        changed_.notify_all();
    }
    bool cancelled() const override {
        const std::lock_guard lock(mutex_);
        return cancelled_;
    }

    void cancel() {
        const std::lock_guard lock(mutex_);
        cancelled_ = true;
    }
    void cancel_after(int n_tokens) { cancel_after_tokens_ = n_tokens; }
    bool wait_for_end() {
        return wait_until([this] { return n_ends_ > 0; });
    }
    bool wait_for_tokens(int n) {
        return wait_until([this, n] { return n_tokens_ >= n; });
    }

    bool started() const { return locked(started_); }
    std::string text() const { return locked(text_); }
    int n_tokens() const { return locked(n_tokens_); }
    int n_events_after_cancel() const { return locked(n_events_after_cancel_); }
    int n_ends() const { return locked(n_ends_); }
    std::vector<runtime::TokenLogprobs> logprobs() const { return locked(logprobs_); }
    std::optional<runtime::FinishReason> reason() const { return locked(reason_); }
    std::optional<Error> error() const { return locked(error_); }
    runtime::JobStats stats() const { return locked(stats_); }

  private:
    template <class T>
    T locked(const T& value) const {
        const std::lock_guard lock(mutex_);
        return value;
    }
    template <class Condition>
    bool wait_until(const Condition& condition) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(60), condition);
    }

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool started_ = false;
    bool cancelled_ = false;
    int cancel_after_tokens_ = 0;
    int n_tokens_ = 0;
    int n_ends_ = 0;
    int n_events_after_cancel_ = 0;
    std::string text_;
    std::vector<runtime::TokenLogprobs> logprobs_;
    std::optional<runtime::FinishReason> reason_;
    std::optional<Error> error_;
    runtime::JobStats stats_;
};

/// A list of jobs under a mutex.
class ListSource final : public runtime::JobSource {
  public:
    std::shared_ptr<runtime::Job> try_take() override {
        const std::lock_guard lock(mutex_);
        if (jobs_.empty()) {
            return nullptr;
        }
        auto job = std::move(jobs_.front());
        jobs_.pop_front();
        return job;
    }
    void wait(Nanoseconds timeout) override {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, timeout, [this] { return !jobs_.empty() || closed_ || woken_; });
        woken_ = false;
    }
    void wake() override {
        const std::lock_guard lock(mutex_);
        woken_ = true;
        changed_.notify_all();
    }
    bool closed() const override {
        const std::lock_guard lock(mutex_);
        return closed_ && jobs_.empty();
    }
    void push(std::shared_ptr<runtime::Job> job) {
        const std::lock_guard lock(mutex_);
        jobs_.push_back(std::move(job));
        changed_.notify_all();
    }
    void close() {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }

  private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::shared_ptr<runtime::Job>> jobs_;
    bool closed_ = false;
    bool woken_ = false;
};

/// Counts what it hears.
class CountingObserver final : public runtime::EngineObserver {
  public:
    void on_step(int n_prefill_tokens, int n_decode_tokens, Nanoseconds) override {
        ++n_steps;
        prefill_tokens += n_prefill_tokens;
        decode_tokens += n_decode_tokens;
        decode_tokens_max = std::max(decode_tokens_max, n_decode_tokens);
    }
    void on_job_started(Nanoseconds) override { ++n_started; }
    void on_first_token(Nanoseconds) override { ++n_first; }
    void on_inter_token(Nanoseconds) override { ++n_inter; }
    void on_job_ended(const char* outcome, const runtime::JobStats&) override {
        outcomes.emplace_back(outcome);
    }
    void on_load(int, int kv_blocks_used, int) override { blocks_used = kv_blocks_used; }

    // Read after the engine has stopped.
    int n_steps = 0;
    int prefill_tokens = 0;
    int decode_tokens = 0;
    int decode_tokens_max = 0;
    int n_started = 0;
    int n_first = 0;
    int n_inter = 0;
    int blocks_used = -1;
    std::vector<std::string> outcomes;
};

}  // namespace ballast::test
