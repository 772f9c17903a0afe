// SPDX-License-Identifier: MIT
// POSIX sockets and a small reply parser that shares no code with the server.
#include "tests/server/support/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <gtest/gtest.h>

namespace ballast::test {

namespace {

constexpr std::chrono::milliseconds kPatience{10'000};

}  // namespace

std::string ClientReply::header(const std::string& lower_name) const {
    const auto found = headers.find(lower_name);
    return found == headers.end() ? std::string{} : found->second;
}

HttpClient::HttpClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const void* raw = &address;
    if (::connect(socket_, static_cast<const sockaddr*>(raw), sizeof(address)) != 0) {
        ADD_FAILURE() << "cannot connect to port " << port;
    }
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

HttpClient::~HttpClient() {
    close();
}

void HttpClient::close() {
    if (socket_ >= 0) {
        ::close(socket_);
        socket_ = -1;
    }
}

void HttpClient::reset() {
    const linger hard{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close();
}

void HttpClient::send(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) {
            return;  // the server refused the rest; the reply tells
        }
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
}

bool HttpClient::read_some(std::chrono::milliseconds time) {
    pollfd waiting{socket_, POLLIN, 0};
    if (ended_ || ::poll(&waiting, 1, static_cast<int>(time.count())) <= 0) {
        return false;
    }
    char block[65536];
    const ssize_t n_bytes = ::recv(socket_, block, sizeof(block), 0);
    if (n_bytes <= 0) {
        ended_ = true;
        return false;
    }
    buffer_.append(block, static_cast<std::size_t>(n_bytes));
    return true;
}

std::string HttpClient::read_until(std::string_view text) {
    while (buffer_.find(text) == std::string::npos) {
        if (!read_some(kPatience)) {
            ADD_FAILURE() << "no \"" << text << "\" in: " << buffer_;
            return std::exchange(buffer_, {});
        }
    }
    const std::size_t end = buffer_.find(text) + text.size();
    std::string result = buffer_.substr(0, end);
    buffer_.erase(0, end);
    return result;
}

std::string HttpClient::read_to_end() {
    while (read_some(kPatience)) {
    }
    EXPECT_TRUE(ended_) << "the server did not close";
    return std::exchange(buffer_, {});
}

bool HttpClient::closed_within(std::chrono::milliseconds time) {
    const auto before = buffer_.size();
    while (read_some(time)) {
    }
    return ended_ && buffer_.size() == before;
}

ClientReply HttpClient::read_reply(bool head_only) {
    ClientReply reply;
    std::string head = read_until("\r\n\r\n");
    if (!head.starts_with("HTTP/1.1 ")) {
        return reply;
    }
    reply.status = std::atoi(head.c_str() + 9);
    std::size_t line = head.find("\r\n") + 2;
    while (line < head.size() - 2) {
        const std::size_t end = head.find("\r\n", line);
        const std::size_t colon = head.find(": ", line);
        std::string name = head.substr(line, colon - line);
        std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
            return static_cast<char>(std::tolower(c));
        });
        reply.headers[name] = head.substr(colon + 2, end - colon - 2);
        line = end + 2;
    }
    if (reply.status == 100) {
        return read_reply(head_only);
    }
    if (head_only || reply.status == 204) {
        reply.complete = true;
    } else if (reply.header("transfer-encoding") == "chunked") {
        while (true) {
            const std::string size = read_until("\r\n");
            const auto length = std::strtoul(size.c_str(), nullptr, 16);
            if (size.size() < 3) {
                return reply;  // cut
            }
            while (buffer_.size() < length + 2 && read_some(kPatience)) {
            }
            if (buffer_.size() < length + 2) {
                return reply;
            }
            reply.body += buffer_.substr(0, length);
            buffer_.erase(0, length + 2);
            if (length == 0) {
                reply.complete = true;
                return reply;
            }
        }
    } else {
        const auto length = std::strtoul(reply.header("content-length").c_str(), nullptr, 10);
        while (buffer_.size() < length && read_some(kPatience)) {
        }
        reply.complete = buffer_.size() >= length;
        reply.body = buffer_.substr(0, length);
        buffer_.erase(0, length);
    }
    return reply;
}

std::string post_json(std::string_view path, std::string_view body, std::string_view extra) {
    std::string text = "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n";
    text += "Content-Type: application/json\r\n";
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    text.append(extra).append("\r\n").append(body);
    return text;
}

std::string get(std::string_view path, std::string_view extra) {
    std::string text = "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n";
    text.append(extra).append("\r\n");
    return text;
}

ClientReply fetch(int port, std::string_view bytes) {
    HttpClient client(port);
    client.send(bytes);
    return client.read_reply();
}

}  // namespace ballast::test
