// SPDX-License-Identifier: MIT
// The life of one connection, top to bottom: run → serve_one → read_request → handler → reply.
#include "server/http/session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "engine/base/log.h"
#include "engine/base/rng.h"

namespace ballast::http {

namespace asio = boost::asio;

namespace {

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kReadBytes = 16 * 1024;
// Input of the next requests that is read ahead while a handler runs, only to see whether the
// client is still there.
constexpr std::size_t kReadAheadBytesMax = 64 * 1024;
// After an early refusal the rest of the request is thrown away for a while: closing a socket with
// unread input would reset the connection and the client might never see the refusal.
constexpr auto kLingerTime = std::chrono::seconds(2);
constexpr std::size_t kLingerBytesMax = 64U << 20;

}  // namespace

Session::Session(asio::ip::tcp::socket socket, SessionContext& context, bool refuse)
    : socket_(std::move(socket)),
      context_(context),
      refuse_(refuse),
      deadline_(socket_.get_executor()),
      watch_ended_(socket_.get_executor()) {}

void Session::start(std::function<void()> ended) {
    auto self = shared_from_this();
    asio::co_spawn(socket_.get_executor(),
                   run(),
                   [self, ended = std::move(ended)](const std::exception_ptr& failure) {
                       if (failure) {
                           try {
                               std::rethrow_exception(failure);
                           } catch (const std::exception& e) {
                               log_error("A connection ended with an exception: {}", e.what());
                           }
                       }
                       boost::system::error_code ignored;
                       self->disarm();
                       self->socket_.close(ignored);
                       ended();
                   });
}

void Session::begin_stop() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
        self->stopping_ = true;
        if (self->receiving_) {
            // Half a request is nothing that runs.
            self->on_deadline(false);
        }
    });
}

void Session::cancel_handler() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
        self->stopping_ = true;
        self->run_cancel();
    });
}

void Session::abort() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
        boost::system::error_code ignored;
        self->gone_ = true;
        self->socket_.close(ignored);
        self->run_cancel();
    });
}

void Session::on_cancel(std::function<void()> cancel) {
    cancel_ = std::move(cancel);
    if (cancel_ && cancelled_) {
        std::exchange(cancel_, nullptr)();
    }
}

void Session::run_cancel() {
    cancelled_ = true;
    if (cancel_) {
        std::exchange(cancel_, nullptr)();
    }
}

Task<void> Session::run() {
    boost::system::error_code ignored;
    socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    while (true) {
        const bool again = co_await serve_one();
        if (!again) {
            break;
        }
    }
    socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
}

Task<bool> Session::serve_one() {
    const bool arrived = co_await wait_for_request();
    if (!arrived) {
        co_return false;
    }
    const Nanoseconds begun = context_.parts.clock.now();
    RequestParser parser(context_.parts.options.body_bytes_max);
    Verdict verdict = co_await read_request(&parser);
    if (verdict.status < 0) {
        co_return false;  // the client has gone in mid-request
    }
    // A refused client's next try must come over a connection that is counted anew.
    keep_alive_ = verdict.reusable && parser.keep_alive() && !refuse_;
    http_1_0_ = parser.http_1_0();
    request_id_ = request_id(parser.request());
    const std::string method = parser.request().method;
    const RouteMatch match = context_.parts.router.match(method, parser.request().path);
    if (verdict.status == 0) {
        verdict = check_route(parser.request(), match);
    }
    Reply reply;
    if (verdict.status == 204) {
        reply.status = 204;
        reply.headers.push_back({"Allow", verdict.allow});
    } else if (verdict.status != 0) {
        reply = context_.parts.error_writer(verdict.status, verdict.message);
        if (!verdict.allow.empty()) {
            reply.headers.push_back({"Allow", verdict.allow});
        }
    } else {
        Request request = parser.take();
        request.rest = match.rest;
        request.id = request_id_;
        reply = co_await run_handler(match.route, std::move(request));
    }
    const int status = gone_ ? 499 : (reply.streamed ? stream_status_ : reply.status);
    const bool lingering = !verdict.reusable;
    const bool again = co_await write_reply(std::move(reply), method == "HEAD");
    const Nanoseconds duration = context_.parts.clock.now() - begun;
    const std::string endpoint = match.route != nullptr ? match.route->pattern : "other";
    context_.parts.observer.on_reply(endpoint, status, duration);
    log_debug("{} {} {} in {} ms, request {}",
              method.empty() ? "?" : method,
              endpoint,
              status,
              std::chrono::duration_cast<std::chrono::milliseconds>(duration).count(),
              request_id_);
    if (lingering) {
        co_await linger();
    }
    co_return again;
}

Task<bool> Session::wait_for_request() {
    if (stopping_ || gone_) {
        co_return false;
    }
    if (!buffer_.empty()) {
        co_return true;
    }
    const HttpOptions& options = context_.parts.options;
    arm(std::chrono::seconds(first_request_ ? options.header_timeout_seconds
                                            : options.idle_timeout_seconds),
        false);
    first_request_ = false;
    receiving_ = true;
    const Read read = co_await read_more();
    receiving_ = false;
    disarm();
    co_return read == Read::kData;
}

/// Reads a whole request. Status −1: the client has gone and needs no answer.
Task<Verdict> Session::read_request(RequestParser* parser) {
    const HttpOptions& options = context_.parts.options;
    arm(std::chrono::seconds(options.header_timeout_seconds), false);
    receiving_ = true;
    bool checked = false;
    Verdict verdict;
    while (parser->state() != RequestParser::State::kDone) {
        const Read read = co_await feed_until_progress(parser);
        if (parser->state() == RequestParser::State::kFailed) {
            verdict = {parser->failure_status(), parser->failure(), {}, false};
            break;
        }
        if (read != Read::kData) {
            verdict = {read == Read::kTimeout ? 408 : -1,
                       "The request did not arrive completely in time.",
                       {},
                       false};
            break;
        }
        if (!checked && parser->state() != RequestParser::State::kHead) {
            checked = true;
            verdict = refuse_
                          ? Verdict{503, "This server has too many open connections.", {}, false}
                          : check_head(parser->request(), context_.host_check);
            if (verdict.status != 0) {
                verdict.reusable = parser->state() == RequestParser::State::kDone;
                break;
            }
            const std::string* expect = parser->request().header("expect");
            if (expect != nullptr && parser->state() != RequestParser::State::kDone) {
                std::string line = "HTTP/1.1 100 Continue\r\n\r\n";
                Status sent = co_await write(std::move(line));
                if (!sent) {
                    verdict = {-1, {}, {}, false};
                    break;
                }
            }
            arm(std::chrono::seconds(options.body_timeout_seconds), false);
        }
    }
    receiving_ = false;
    disarm();
    co_return verdict;
}

/// Feeds what is buffered, and reads more where the parser can do nothing with it. kData: the
/// parser got further or has new bytes to look at.
Task<Session::Read> Session::feed_until_progress(RequestParser* parser) {
    const RequestParser::State before = parser->state();
    const std::size_t used = parser->feed(buffer_);
    buffer_.erase(0, used);
    if (used > 0 || parser->state() != before) {
        co_return Read::kData;
    }
    const Read read = co_await read_more();
    co_return read;
}

Task<Session::Read> Session::read_more() {
    const std::size_t old_size = buffer_.size();
    buffer_.resize(old_size + kReadBytes);
    auto [error, n_bytes] = co_await socket_.async_read_some(
        asio::buffer(buffer_.data() + old_size, kReadBytes), kNoThrow);
    buffer_.resize(old_size + n_bytes);
    if (timed_out_) {
        co_return Read::kTimeout;
    }
    co_return error || n_bytes == 0 ? Read::kEnd : Read::kData;
}

Task<Reply> Session::run_handler(const Route* route, Request request) {
    stream_status_ = 0;
    cancelled_ = gone_;
    watch_wanted_ = true;
    watch();
    std::string failure;
    Reply reply;
    try {
        reply = co_await route->handler(std::move(request), *this);
    } catch (const std::exception& e) {
        failure = e.what();
    }
    cancel_ = nullptr;
    co_await stop_watching();
    if (!failure.empty()) {
        log_error(
            "The handler of {} failed: {} (request {})", route->pattern, failure, request_id_);
        if (stream_status_ != 0) {
            reply = Reply::after_stream(false);
        } else {
            reply = context_.parts.error_writer(500, "The server failed to handle the request.");
        }
    }
    co_return reply;
}

/// Whether the connection can take another request.
Task<bool> Session::write_reply(Reply reply, bool head_only) {
    if (gone_) {
        co_return false;
    }
    keep_alive_ = keep_alive_ && !reply.close && !stopping_;
    if (!reply.streamed) {
        std::string bytes = serialize_head(reply, head_context(false));
        if (!head_only) {
            bytes += reply.body;
        }
        Status written = co_await write(std::move(bytes));
        keep_alive_ = keep_alive_ && written.has_value();
    }
    co_return keep_alive_;
}

HeadContext Session::head_context(bool streamed) const {
    HeadContext head;
    head.request_id = request_id_;
    head.unix_seconds = context_.parts.clock.unix_seconds();
    head.keep_alive = keep_alive_;
    head.chunked = streamed && !http_1_0_;
    head.until_close = streamed && http_1_0_;
    return head;
}

Task<Status> Session::start_stream(Reply head) {
    keep_alive_ = keep_alive_ && !http_1_0_ && !stopping_;
    stream_status_ = head.status;
    std::string bytes = serialize_head(head, head_context(true));
    Status written = co_await write(std::move(bytes));
    co_return written;
}

Task<Status> Session::write_stream(std::string bytes) {
    std::string chunk;
    if (http_1_0_) {
        chunk = std::move(bytes);
    } else {
        chunk = fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
    }
    Status written = co_await write(std::move(chunk));
    co_return written;
}

Task<Status> Session::end_stream() {
    if (http_1_0_) {
        co_return Status{};
    }
    std::string last = "0\r\n\r\n";
    Status written = co_await write(std::move(last));
    co_return written;
}

Task<Status> Session::write(std::string bytes) {
    if (gone_) {
        co_return fail(ErrorCode::kIo, "The client has closed the connection.");
    }
    arm(std::chrono::seconds(context_.parts.options.write_timeout_seconds), true);
    auto [error, n_bytes] = co_await asio::async_write(socket_, asio::buffer(bytes), kNoThrow);
    static_cast<void>(n_bytes);
    disarm();
    if (error) {
        gone_ = true;
        run_cancel();
        co_return fail(timed_out_ ? ErrorCode::kTimeout : ErrorCode::kIo,
                       "The client has closed the connection or does not read.");
    }
    co_return Status{};
}

Task<void> Session::linger() {
    boost::system::error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    timed_out_ = false;
    arm(kLingerTime, false);
    std::size_t n_discarded = 0;
    while (n_discarded < kLingerBytesMax && !stopping_) {
        buffer_.clear();
        const Read read = co_await read_more();
        if (read != Read::kData) {
            break;
        }
        n_discarded += buffer_.size();
    }
    disarm();
}

void Session::watch() {
    if (!watch_wanted_ || gone_ || buffer_.size() >= kReadAheadBytesMax) {
        return;
    }
    watching_ = true;
    socket_.async_read_some(
        asio::buffer(watch_block_),
        [self = shared_from_this()](boost::system::error_code error, std::size_t n_bytes) {
            const bool stopped = error == asio::error::operation_aborted && !self->watch_wanted_;
            self->on_watched(error && !stopped, n_bytes);
        });
}

void Session::on_watched(bool failed, std::size_t n_bytes) {
    watching_ = false;
    buffer_.append(watch_block_, n_bytes);
    if (failed) {
        gone_ = true;
        run_cancel();
    } else {
        watch();
    }
    if (!watching_) {
        watch_ended_.cancel();
    }
}

Task<void> Session::stop_watching() {
    watch_wanted_ = false;
    if (watching_) {
        boost::system::error_code ignored;
        socket_.cancel(ignored);
    }
    while (watching_) {
        watch_ended_.expires_at(std::chrono::steady_clock::time_point::max());
        auto [error] = co_await watch_ended_.async_wait(kNoThrow);
        static_cast<void>(error);
    }
}

void Session::arm(std::chrono::steady_clock::duration time, bool writing) {
    const std::uint64_t generation = ++deadline_generation_;
    deadline_.expires_after(time);
    deadline_.async_wait(
        [self = shared_from_this(), generation, writing](boost::system::error_code error) {
            if (!error && generation == self->deadline_generation_) {
                self->timed_out_ = true;
                self->on_deadline(writing);
            }
        });
}

void Session::disarm() {
    ++deadline_generation_;
    deadline_.cancel();
}

void Session::on_deadline(bool writing) {
    boost::system::error_code ignored;
    if (writing) {
        socket_.close(ignored);
    } else {
        // Not only cancel: between two reads nothing is there to cancel, and the next one would
        // wait without a deadline.
        socket_.shutdown(asio::ip::tcp::socket::shutdown_receive, ignored);
        socket_.cancel(ignored);
    }
}

std::string Session::request_id(const Request& request) {
    const std::string* sent = request.header("x-request-id");
    if (sent != nullptr && is_sane_request_id(*sent)) {
        return *sent;
    }
    Rng rng(context_.id_seed + context_.n_requests.fetch_add(1, std::memory_order_relaxed));
    return fmt::format("req_{:016x}{:016x}", rng.next(), rng.next());
}

}  // namespace ballast::http
