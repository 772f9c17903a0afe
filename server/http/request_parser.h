// SPDX-License-Identifier: MIT
// Bytes to one request, without a socket: the limits and the refusals of malformed input are here,
// so that they can be tested and fuzzed alone. Wraps Beast's parser, which stays inside the .cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/request.h"

namespace ballast::http {

/// Largest request line and headers together.
inline constexpr std::size_t kHeaderBytesMax = 16 * 1024;

/// Parses one request. Single-threaded.
class RequestParser {
  public:
    explicit RequestParser(std::uint64_t body_bytes_max);
    ~RequestParser();

    enum class State { kHead, kBody, kDone, kFailed };

    /// Takes bytes from the front of `bytes` and returns how many. What it leaves in state kHead is
    /// part of an incomplete head: call again with the same bytes and more behind them. Stops once
    /// when the head is complete.
    std::size_t feed(std::string_view bytes);
    State state() const { return state_; }

    /// kFailed: the status to answer (400, 413, 431, 505) and why.
    int failure_status() const { return failure_status_; }
    const std::string& failure() const { return failure_; }

    // From state kBody on:
    const Request& request() const { return request_; }
    bool keep_alive() const { return keep_alive_; }
    bool http_1_0() const { return http_1_0_; }

    /// kDone: the request with its body.
    Request take() { return std::move(request_); }

  private:
    struct Beast;
    void fail(int status, std::string message);
    void read_head();

    std::unique_ptr<Beast> beast_;
    State state_ = State::kHead;
    Request request_;
    bool keep_alive_ = false;
    bool http_1_0_ = false;
    int failure_status_ = 0;
    std::string failure_;
};

}  // namespace ballast::http
