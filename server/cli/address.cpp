// SPDX-License-Identifier: MIT
// Address checks over the socket calls.
#include "server/cli/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>

#include <fmt/format.h>

namespace ballast::cli {

namespace {

struct Address {
    sockaddr_storage storage{};
    socklen_t length = 0;

    // The socket calls take a generic pointer to one of several structs.
    sockaddr* generic() { return static_cast<sockaddr*>(static_cast<void*>(&storage)); }
};

bool is_loopback_v4(const in_addr& address) {
    return (ntohl(address.s_addr) >> 24) == 127;
}

std::optional<Address> parse(const std::string& host, int port) {
    Address address;
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    std::string literal = host == "localhost" ? "127.0.0.1" : host;
    if (literal.starts_with('[') && literal.ends_with(']')) {
        literal = literal.substr(1, literal.size() - 2);
    }
    if (::inet_pton(AF_INET, literal.c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        v4.sin_port = htons(static_cast<std::uint16_t>(port));
        std::memcpy(&address.storage, &v4, sizeof v4);
        address.length = sizeof v4;
        return address;
    }
    if (::inet_pton(AF_INET6, literal.c_str(), &v6.sin6_addr) == 1) {
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(static_cast<std::uint16_t>(port));
        std::memcpy(&address.storage, &v6, sizeof v6);
        address.length = sizeof v6;
        return address;
    }
    return std::nullopt;
}

bool is_loopback(const Address& address) {
    if (address.storage.ss_family == AF_INET) {
        sockaddr_in v4{};
        std::memcpy(&v4, &address.storage, sizeof v4);
        return is_loopback_v4(v4.sin_addr);
    }
    if (address.storage.ss_family == AF_INET6) {
        sockaddr_in6 v6{};
        std::memcpy(&v6, &address.storage, sizeof v6);
        return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == 127);
    }
    return false;
}

tl::unexpected<Error> refuse(const std::string& address) {
    return fail(
        ErrorCode::kInvalidRequest,
        fmt::format("Refusing to listen on {}: other machines could use the model, and this "
                    "version has no API keys to keep them out; listen on 127.0.0.1.",
                    address));
}

}  // namespace

Status check_loopback(const std::string& host) {
    const auto address = parse(host, 0);
    if (!address) {
        return fail(
            ErrorCode::kInvalidRequest,
            fmt::format("The host \"{}\" is not an IP address; listen on 127.0.0.1.", host));
    }
    if (!is_loopback(*address)) {
        return refuse(host);
    }
    return {};
}

Result<std::string> host_of_socket(int descriptor) {
    Address address;
    address.length = sizeof address.storage;
    if (::getsockname(descriptor, address.generic(), &address.length) != 0) {
        return fail(ErrorCode::kIo,
                    fmt::format("The socket's address is unknown: {}.", std::strerror(errno)));
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    const char* done = nullptr;
    if (address.storage.ss_family == AF_INET) {
        sockaddr_in v4{};
        std::memcpy(&v4, &address.storage, sizeof v4);
        done = ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    } else if (address.storage.ss_family == AF_INET6) {
        sockaddr_in6 v6{};
        std::memcpy(&v6, &address.storage, sizeof v6);
        done = ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    }
    if (done == nullptr) {
        return fail(ErrorCode::kUnsupported, "The service manager's socket is no internet socket.");
    }
    return std::string(text.data());
}

Status check_port_free(const std::string& host, int port) {
    auto address = parse(host, port);
    if (!address) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("The host \"{}\" is not an IP address.", host));
    }
    const int descriptor = ::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = descriptor < 0 ? errno : 0;
    if (error == 0) {
        // As the server does: connections of an earlier run that linger do not count.
        const int yes = 1;
        ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (::bind(descriptor, address->generic(), address->length) != 0 ||
            ::listen(descriptor, 1) != 0) {
            error = errno;
        }
        ::close(descriptor);
    }
    if (error != 0) {
        return fail(
            ErrorCode::kIo,
            fmt::format("{} port {} cannot be listened on: {}.", host, port, std::strerror(error)));
    }
    return {};
}

Result<int> connect_to(const std::string& host, int port) {
    auto address = parse(host, port);
    if (!address) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("The host \"{}\" is not an IP address.", host));
    }
    const int descriptor = ::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 || ::connect(descriptor, address->generic(), address->length) != 0) {
        const int error = errno;
        if (descriptor >= 0) {
            ::close(descriptor);
        }
        return fail(
            error == ECONNREFUSED ? ErrorCode::kNotFound : ErrorCode::kIo,
            fmt::format(
                "No server answers at {}: {}.", format_url(host, port), std::strerror(error)));
    }
    return descriptor;
}

std::string format_url(const std::string& host, int port) {
    const bool is_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
    return fmt::format("http://{}:{}", is_v6 ? "[" + host + "]" : host, port);
}

}  // namespace ballast::cli
