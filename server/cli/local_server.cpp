// SPDX-License-Identifier: MIT
// A connection a request, closed by the server when it has answered.
#include "server/cli/local_server.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "server/cli/address.h"

namespace ballast::cli {

namespace {

constexpr int kTimeoutSeconds = 5;
constexpr std::size_t kReplyBytesMax = 16 << 20;

/// Owns a descriptor.
class Socket {
  public:
    explicit Socket(int descriptor) : descriptor_(descriptor) {}
    ~Socket() { ::close(descriptor_); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

  private:
    int descriptor_;
};

tl::unexpected<Error> failed(const char* what) {
    return fail(ErrorCode::kIo, fmt::format("{}: {}", what, std::strerror(errno)));
}

Status send_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::send(descriptor, text.data(), text.size(), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return failed("the request could not be sent");
        }
        text.remove_prefix(static_cast<std::size_t>(n));
    }
    return {};
}

Result<std::string> receive_all(int descriptor) {
    std::string reply;
    std::array<char, 4096> buffer{};
    while (reply.size() <= kReplyBytesMax) {
        const ssize_t n = ::recv(descriptor, buffer.data(), buffer.size(), 0);
        if (n == 0) {
            return reply;
        }
        if (n > 0) {
            reply.append(buffer.data(), static_cast<std::size_t>(n));
        } else if (errno != EINTR) {
            return failed("no whole answer came");
        }
    }
    return fail(ErrorCode::kTooLarge, "the answer is too long");
}

Result<LocalReply> read_reply(const std::string& text) {
    constexpr std::string_view kStart = "HTTP/1.1 ";
    LocalReply reply;
    const std::size_t end = text.find("\r\n\r\n");
    if (text.starts_with(kStart) && end != std::string::npos) {
        const char* digits = text.data() + kStart.size();
        std::from_chars(digits, digits + 3, reply.status);
    }
    if (reply.status == 0) {
        return fail(ErrorCode::kIo, "what listens there does not answer like a web server");
    }
    reply.body = text.substr(end + 4);
    return reply;
}

}  // namespace

Result<LocalReply> LocalServer::exchange(const std::string& head, const std::string& body) const {
    BALLAST_TRY(const int descriptor, connect_to(host_, port_));
    const Socket owner(descriptor);
    const timeval timeout = {.tv_sec = kTimeoutSeconds, .tv_usec = 0};
    ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    const std::string request = fmt::format(
        "{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
        head,
        body.size(),
        body);
    BALLAST_TRY_STATUS(send_all(descriptor, request));
    BALLAST_TRY(const std::string text, receive_all(descriptor));
    return read_reply(text);
}

Status LocalReply::check() const {
    if (status == 200) {
        return {};
    }
    const auto json = nlohmann::json::parse(body, nullptr, false);
    std::string message = fmt::format("the server answered {}", status);
    if (json.is_object() && json.contains("error") && json["error"].is_object()) {
        message = json["error"].value("message", message);
    }
    return fail(status == 409 ? ErrorCode::kCancelled : ErrorCode::kInternal, message);
}

Result<LocalReply> LocalServer::post(const std::string& path, const std::string& json) const {
    return exchange("POST " + path, json);
}

Result<LocalReply> LocalServer::get(const std::string& path) const {
    return exchange("GET " + path, "");
}

}  // namespace ballast::cli
