// SPDX-License-Identifier: MIT
// The thread behind FakeEngine, and ready-made scripts.
#include "tests/server/support/fake_engine.h"

#include <utility>

namespace ballast::test {

namespace {

constexpr std::chrono::seconds kPatience{10};

}  // namespace

void Gate::open(int times) {
    const std::lock_guard lock(mutex_);
    n_open_ += times;
    changed_.notify_all();
}

bool Gate::wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [this] { return n_open_ > 0; })) {
        return false;
    }
    --n_open_;
    return true;
}

FakeEngine::FakeEngine(runtime::JobSource& source, Script script)
    : source_(source), script_(std::move(script)) {
    thread_ = std::thread([this] {
        while (!stop_.load()) {
            if (const auto job = source_.try_take()) {
                jobs_taken_.fetch_add(1);
                script_(*job);
            } else if (source_.closed()) {
                return;
            } else {
                source_.wait(std::chrono::milliseconds(20));
            }
        }
    });
}

FakeEngine::~FakeEngine() {
    stop_.store(true);
    thread_.join();
}

Script say(std::vector<std::string> texts, runtime::FinishReason reason) {
    return [texts = std::move(texts), reason](const runtime::Job& job) {
        job.sink->on_start();
        for (const std::string& text : texts) {
            if (job.sink->cancelled()) {
                return;
            }
            job.sink->on_text(token(text));
        }
        job.sink->on_finish(reason, some_stats());
    };
}

runtime::TextDelta token(std::string text) {
    runtime::TextDelta delta;
    delta.text = std::move(text);
    delta.n_tokens = 1;
    return delta;
}

runtime::JobStats some_stats() {
    runtime::JobStats stats;
    stats.prompt_tokens = 7;
    stats.cached_prompt_tokens = 2;
    stats.completion_tokens = 3;
    stats.queued = std::chrono::milliseconds(1);
    stats.prefill = std::chrono::milliseconds(500);
    stats.decode = std::chrono::milliseconds(250);
    return stats;
}

bool eventually(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
}

}  // namespace ballast::test
