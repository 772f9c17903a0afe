// SPDX-License-Identifier: MIT
// A named thread with a stop flag, joined on destruction (libc++ has no stable std::jthread).
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace ballast {

/// Says whether the owner wants the thread to end; read by the thread's function.
class StopToken {
  public:
    explicit StopToken(const std::atomic<bool>& flag) : flag_(&flag) {}
    bool stop_requested() const { return flag_->load(std::memory_order_acquire); }

  private:
    const std::atomic<bool>* flag_;
};

/// Owns one running thread. The function must return soon after stop is requested; whoever owns
/// the thread wakes it from its own waits.
class Thread {
  public:
    Thread() = default;
    ~Thread() { stop(); }
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;

    /// Starts it; the name (15 characters at most) shows in top and gdb.
    void start(const std::string& name, std::function<void(StopToken)> function);
    void request_stop() { stop_.store(true, std::memory_order_release); }
    /// Requests the stop and returns when the function has ended.
    void stop();
    bool running() const { return thread_.joinable(); }

  private:
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

/// Names the calling thread.
void set_thread_name(const std::string& name);

}  // namespace ballast
