// SPDX-License-Identifier: MIT
// An engine without a model: a thread that takes jobs and answers each as a script says.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/runtime/ports.h"

namespace ballast::test {

/// Lets one thread hold another: wait() returns once open() has been called as often.
class Gate {
  public:
    void open(int times = 1);
    /// False after ten seconds.
    bool wait();

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int n_open_ = 0;
};

using Script = std::function<void(const runtime::Job& job)>;

/// Runs the script on its own thread for each job, in order. Stops when the source is closed.
class FakeEngine {
  public:
    FakeEngine(runtime::JobSource& source, Script script);
    ~FakeEngine();
    FakeEngine(const FakeEngine&) = delete;
    FakeEngine& operator=(const FakeEngine&) = delete;

    int jobs_taken() const { return jobs_taken_.load(); }

  private:
    runtime::JobSource& source_;
    Script script_;
    std::atomic<bool> stop_{false};
    std::atomic<int> jobs_taken_{0};
    std::thread thread_;
};

/// Starts, sends each text as one token, and finishes; ends early where nobody wants the rest.
Script say(std::vector<std::string> texts,
           runtime::FinishReason reason = runtime::FinishReason::kStop);

/// One token's text.
runtime::TextDelta token(std::string text);

/// Counts that tests can recognise: 7 prompt tokens, 2 of them cached, 3 generated, times that
/// give round rates.
runtime::JobStats some_stats();

/// Waits until the condition holds, ten seconds at most.
bool eventually(const std::function<bool()>& condition);

}  // namespace ballast::test
