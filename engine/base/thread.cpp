// SPDX-License-Identifier: MIT
// Thread start, stop and naming.
#include "engine/base/thread.h"

#include <pthread.h>

#include <utility>

namespace ballast {

void set_thread_name(const std::string& name) {
#if defined(__linux__)
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
#elif defined(__APPLE__)
    pthread_setname_np(name.substr(0, 15).c_str());
#endif
}

void Thread::start(const std::string& name, std::function<void(StopToken)> function) {
    stop();
    stop_.store(false, std::memory_order_release);
    thread_ = std::thread([this, name, body = std::move(function)] {
        set_thread_name(name);
        body(StopToken(stop_));
    });
}

void Thread::stop() {
    request_stop();
    if (thread_.joinable()) {
        thread_.join();
    }
}

}  // namespace ballast
