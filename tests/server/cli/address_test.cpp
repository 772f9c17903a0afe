// SPDX-License-Identifier: MIT
// Which addresses may be listened on while there are no API keys.
#include "server/cli/address.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

namespace ballast::cli {
namespace {

/// A listening socket on a free loopback port.
class Listening {
  public:
    Listening() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* generic = static_cast<sockaddr*>(static_cast<void*>(&address));
        EXPECT_EQ(::bind(descriptor_, generic, size), 0);
        EXPECT_EQ(::listen(descriptor_, 1), 0);
        EXPECT_EQ(::getsockname(descriptor_, generic, &size), 0);
        port_ = ntohs(address.sin_port);
    }
    ~Listening() { close(); }
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;
    void close() {
        if (descriptor_ >= 0) {
            ::close(descriptor_);
        }
        descriptor_ = -1;
    }
    int descriptor() const { return descriptor_; }
    int port() const { return port_; }

  private:
    int descriptor_;
    int port_ = 0;
};

TEST(Loopback, MayBeListenedOn) {
    for (const char* host :
         {"127.0.0.1", "127.1.2.3", "localhost", "::1", "[::1]", "::ffff:127.0.0.1"}) {
        EXPECT_TRUE(check_loopback(host)) << host;
    }
}

TEST(Loopback, IsTheOnlyPlaceToListenOn) {
    for (const char* host :
         {"0.0.0.0", "::", "192.168.1.2", "128.0.0.1", "::2", "fe80::1", "::ffff:10.0.0.1"}) {
        const Status status = check_loopback(host);
        ASSERT_FALSE(status) << host;
        EXPECT_NE(status.error().message.find("no API keys"), std::string::npos);
        EXPECT_NE(status.error().message.find("127.0.0.1"), std::string::npos);
    }
    for (const char* host : {"", "example.com", "127.0.0.1.example.com", "127.1", "0x7f000001"}) {
        EXPECT_FALSE(check_loopback(host)) << host;
    }
}

TEST(Port, IsSaidToBeTakenWhileSomeoneListens) {
    Listening other;
    const Status taken = check_port_free("127.0.0.1", other.port());
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().message,
              "127.0.0.1 port " + std::to_string(other.port()) +
                  " cannot be listened on: Address already in use.");
    other.close();
    EXPECT_TRUE(check_port_free("127.0.0.1", other.port()));
}

TEST(HostOfSocket, IsTheAddressItIsBoundTo) {
    const Listening socket;
    EXPECT_EQ(host_of_socket(socket.descriptor()).value_or("none"), "127.0.0.1");
    EXPECT_FALSE(host_of_socket(-1));
    const int unix_socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_FALSE(host_of_socket(unix_socket));
    ::close(unix_socket);
}

TEST(Url, PutsBracketsAroundSixthVersionAddresses) {
    EXPECT_EQ(format_url("127.0.0.1", 2255), "http://127.0.0.1:2255");
    EXPECT_EQ(format_url("::1", 80), "http://[::1]:80");
    EXPECT_EQ(format_url("[::1]", 80), "http://[::1]:80");
}

}  // namespace
}  // namespace ballast::cli
