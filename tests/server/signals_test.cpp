// SPDX-License-Identifier: MIT
// Signals become events, once; the second one ends the process.
#include "server/signals.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include <gtest/gtest.h>

namespace ballast::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Runs the function in a child, because handlers are the whole process's, and gives its exit code.
template <class Function>
int exit_code_of(Function function) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(function());
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Signals, BecomeAStopEvent) {
    for (const int number : {SIGTERM, SIGINT}) {
        EXPECT_EQ(exit_code_of([number] {
                      auto signals = Signals::install();
                      ::raise(number);
                      return signals->wait(seconds(10)) == Event::kStop ? 0 : 1;
                  }),
                  0);
    }
}

TEST(Signals, EndTheProcessTheSecondTime) {
    EXPECT_EQ(exit_code_of([] {
                  auto signals = Signals::install();
                  ::raise(SIGTERM);
                  ::raise(SIGINT);
                  return 1;
              }),
              128 + SIGINT);
}

TEST(Signals, DeliverPostedEventsInOrder) {
    EXPECT_EQ(exit_code_of([] {
                  auto signals = Signals::install();
                  signals->post(Event::kLoaded);
                  ::raise(SIGTERM);
                  const bool first = signals->wait(seconds(10)) == Event::kLoaded;
                  const bool second = signals->wait(seconds(10)) == Event::kStop;
                  return first && second ? 0 : 1;
              }),
              0);
}

TEST(Signals, GiveNothingWhenTheTimeIsOver) {
    EXPECT_EQ(exit_code_of([] {
                  auto signals = Signals::install();
                  return signals->wait(milliseconds(1)) ? 1 : 0;
              }),
              0);
}

TEST(Signals, SurviveAClosedPipe) {
    EXPECT_EQ(exit_code_of([] {
                  auto signals = Signals::install();
                  ::raise(SIGPIPE);
                  return signals ? 0 : 1;
              }),
              0);
}

}  // namespace
}  // namespace ballast::server
