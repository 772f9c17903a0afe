// SPDX-License-Identifier: MIT
// The service manager's protocols, with the test as the service manager.
#include "server/notify.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace ballast::server {
namespace {

using std::chrono::seconds;

/// A datagram socket bound to a name, as the service manager has one.
class Manager {
  public:
    explicit Manager(const std::string& name)
        : descriptor_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, name.data(), name.size());
        if (name.front() == '@') {
            address.sun_path[0] = '\0';
        }
        const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
        bound_ = ::bind(descriptor_,
                        static_cast<const sockaddr*>(static_cast<const void*>(&address)),
                        size) == 0;
    }
    ~Manager() { ::close(descriptor_); }
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    bool bound() const { return bound_; }
    /// The next datagram, or "nothing".
    std::string receive() const {
        std::array<char, 1024> text{};
        const ssize_t n = ::recv(descriptor_, text.data(), text.size(), 0);
        return n < 0 ? "nothing" : std::string(text.data(), static_cast<std::size_t>(n));
    }

  private:
    int descriptor_;
    bool bound_ = false;
};

std::string own_pid() {
    return std::to_string(::getpid());
}

TEST(Notifier, SendsOneDatagramToAPath) {
    const std::string path = testing::TempDir() + "ballast-notify-" + own_pid();
    std::filesystem::remove(path);
    const Manager manager(path);
    ASSERT_TRUE(manager.bound());
    const Notifier notifier(path, std::nullopt);
    ASSERT_TRUE(notifier.send("READY=1\nSTATUS=Serving"));
    EXPECT_EQ(manager.receive(), "READY=1\nSTATUS=Serving");
    EXPECT_EQ(manager.receive(), "nothing");
    std::filesystem::remove(path);
}

TEST(Notifier, SendsToAnAbstractName) {
    const std::string name = "@ballast-notify-test-" + own_pid();
    const Manager manager(name);
    ASSERT_TRUE(manager.bound());
    ASSERT_TRUE(Notifier(name, std::nullopt).send("WATCHDOG=1"));
    EXPECT_EQ(manager.receive(), "WATCHDOG=1");
}

TEST(Notifier, DoesNothingWithoutAServiceManager) {
    const Notifier notifier = Notifier::from_environment({});
    EXPECT_FALSE(notifier.active());
    EXPECT_TRUE(notifier.send("READY=1"));
    EXPECT_FALSE(notifier.watchdog());
}

TEST(Notifier, SaysWhenItCannotBeHeard) {
    const auto nobody = Notifier("/nowhere/notify", std::nullopt).send("READY=1");
    ASSERT_FALSE(nobody);
    EXPECT_EQ(nobody.error().message,
              "Cannot notify the service manager at /nowhere/notify: No such file or directory.");
    EXPECT_FALSE(Notifier("vsock:2:1234", std::nullopt).send("READY=1"));
    EXPECT_FALSE(Notifier("/" + std::string(107, 'x'), std::nullopt).send("READY=1"));
}

TEST(Notifier, ReadsTheWatchdogTimeMeantForThisProcess) {
    const std::string other = std::to_string(::getppid());
    using Env = config::Environment;
    EXPECT_EQ(Notifier::from_environment(Env{{"WATCHDOG_USEC", "2000000"}}).watchdog(), seconds(2));
    EXPECT_EQ(
        Notifier::from_environment(Env{{"WATCHDOG_USEC", "2000000"}, {"WATCHDOG_PID", own_pid()}})
            .watchdog(),
        seconds(2));
    EXPECT_FALSE(
        Notifier::from_environment(Env{{"WATCHDOG_USEC", "2000000"}, {"WATCHDOG_PID", other}})
            .watchdog());
    EXPECT_FALSE(Notifier::from_environment(Env{{"WATCHDOG_USEC", "0"}}).watchdog());
    EXPECT_FALSE(Notifier::from_environment(Env{{"WATCHDOG_USEC", "soon"}}).watchdog());
}

TEST(Watchdog, HearsOfAnEngineThatIsIdleOrMoves) {
    EXPECT_TRUE(makes_progress(true, seconds(1000), seconds(10)));
    EXPECT_TRUE(makes_progress(false, seconds(9), seconds(10)));
    EXPECT_FALSE(makes_progress(false, seconds(10), seconds(10)));
}

TEST(InheritedSocket, IsAbsentWithoutTheVariablesOrForAnotherProcess) {
    EXPECT_EQ(inherited_socket({}).value_or(99), -1);
    EXPECT_EQ(inherited_socket({{"LISTEN_FDS", "1"}}).value_or(99), -1);
    EXPECT_EQ(inherited_socket({{"LISTEN_FDS", "1"}, {"LISTEN_PID", std::to_string(::getppid())}})
                  .value_or(99),
              -1);
}

TEST(InheritedSocket, IsRefusedWhenThereAreSeveral) {
    const auto socket = inherited_socket({{"LISTEN_FDS", "2"}, {"LISTEN_PID", own_pid()}});
    ASSERT_FALSE(socket);
    EXPECT_EQ(socket.error().message, "The service manager passed 2 sockets; one is needed.");
}

/// Runs in a child, whose descriptor 3 is made to be what the service manager passes.
int child_with_descriptor_three(int descriptor) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(descriptor, 3);
        const auto socket = inherited_socket({{"LISTEN_FDS", "1"}, {"LISTEN_PID", own_pid()}});
        const bool closes = (::fcntl(3, F_GETFD) & FD_CLOEXEC) != 0;
        ::_exit(!socket ? 1 : (*socket == 3 && closes) ? 0 : 2);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(InheritedSocket, IsTakenWhenItListens) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_GE(descriptor, 0);
    EXPECT_EQ(child_with_descriptor_three(descriptor), 1) << "it does not listen yet";
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(descriptor,
                     static_cast<const sockaddr*>(static_cast<const void*>(&address)),
                     sizeof address),
              0);
    ASSERT_EQ(::listen(descriptor, 1), 0);
    EXPECT_EQ(child_with_descriptor_three(descriptor), 0);
    ::close(descriptor);
}

TEST(InheritedSocket, IsRefusedWhenItIsAFile) {
    const int descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    EXPECT_EQ(child_with_descriptor_three(descriptor), 1);
    ::close(descriptor);
}

}  // namespace
}  // namespace ballast::server
