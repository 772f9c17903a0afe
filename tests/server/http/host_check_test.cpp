// SPDX-License-Identifier: MIT
#include "server/http/host_check.h"

#include <gtest/gtest.h>

namespace ballast::http {
namespace {

int status_of(const HostCheck& check, std::vector<Header> headers) {
    std::string message;
    const int status = check.check(headers, message);
    EXPECT_EQ(status == 0, message.empty());
    return status;
}

int status_of_host(const HostCheck& check, const std::string& host) {
    return status_of(check, {{"Host", host}});
}

TEST(HostCheck, AcceptsTheLoopbackNamesWithAnyPort) {
    const HostCheck check("127.0.0.1", {});
    for (const char* host : {"localhost",
                             "LOCALHOST:1",
                             "localhost:2255",
                             "127.0.0.1",
                             "127.0.0.1:65535",
                             "[::1]",
                             "[::1]:2255"}) {
        EXPECT_EQ(status_of_host(check, host), 0) << host;
    }
}

TEST(HostCheck, RefusesForeignNames) {
    const HostCheck check("127.0.0.1", {});
    for (const char* host : {"evil.example",
                             "evil.example:2255",
                             "localhost.evil.example",
                             "127.0.0.2",
                             "192.168.0.1",
                             "[::2]",
                             "localhost.",
                             "0.0.0.0"}) {
        EXPECT_EQ(status_of_host(check, host), 403) << host;
    }
}

TEST(HostCheck, RefusesWhatIsNoHost) {
    const HostCheck check("127.0.0.1", {});
    for (const char* host : {"",
                             ":2255",
                             "localhost:",
                             "localhost:x",
                             "localhost:123456",
                             "local host",
                             "localhost/",
                             "[::1",
                             "[]",
                             "user@localhost",
                             "localhost, evil",
                             "[localhost]"}) {
        EXPECT_EQ(status_of_host(check, host), 400) << host;
    }
}

TEST(HostCheck, WantsExactlyOneHost) {
    const HostCheck check("127.0.0.1", {});
    EXPECT_EQ(status_of(check, {}), 400);
    EXPECT_EQ(status_of(check, {{"Host", "localhost"}, {"host", "localhost"}}), 400);
}

TEST(HostCheck, AcceptsConfiguredNamesAndTheBoundAddress) {
    const HostCheck check("192.168.0.7", {"box.lan"});
    EXPECT_EQ(status_of_host(check, "box.lan:2255"), 0);
    EXPECT_EQ(status_of_host(check, "192.168.0.7"), 0);
    EXPECT_EQ(status_of_host(check, "192.168.0.8"), 403);
    EXPECT_EQ(status_of_host(HostCheck("fd00::7", {}), "[fd00::7]:80"), 0);
}

TEST(HostCheck, AcceptsAddressesButNoNamesWhenBoundToAllInterfaces) {
    const HostCheck check("0.0.0.0", {});
    EXPECT_EQ(status_of_host(check, "192.168.0.7:2255"), 0);
    EXPECT_EQ(status_of_host(check, "[fd00::7]"), 0);
    EXPECT_EQ(status_of_host(check, "evil.example"), 403);
    EXPECT_EQ(status_of_host(check, "1.2.3.example"), 403);
}

TEST(HostCheck, RefusesForeignOrigins) {
    const HostCheck check("127.0.0.1", {});
    const auto with_origin = [&](const std::string& origin) {
        return status_of(check, {{"Host", "localhost"}, {"Origin", origin}});
    };
    EXPECT_EQ(with_origin("http://localhost:3000"), 0);
    EXPECT_EQ(with_origin("http://127.0.0.1:2255"), 0);
    EXPECT_EQ(with_origin("https://evil.example"), 403);
    EXPECT_EQ(with_origin("null"), 403);
    EXPECT_EQ(with_origin(""), 403);
}

}  // namespace
}  // namespace ballast::http
