// SPDX-License-Identifier: MIT
// Work in the engine's idle gaps: when it runs, when it must not, and that jobs come first.
#include <functional>
#include <future>
#include <stdexcept>

#include "tests/engine/runtime/harness.h"
#include "tests/engine/runtime/manual_clock.h"

namespace ballast::test {
namespace {

/// Runs a test's function each time; counts.
class RecordingTask final : public runtime::IdleTask {
  public:
    bool run_slice(runtime::Compute&) override {
        ++n_slices;
        return on_slice();
    }
    void drop_slice() override { ++n_dropped; }

    std::function<bool()> on_slice = [] { return true; };
    std::atomic<int> n_slices{0};
    std::atomic<int> n_dropped{0};
};

/// An engine with an idle task, whose clock stands still until it is moved.
struct IdleEngine {
    explicit IdleEngine(const TinyFixture& fixture) {
        auto created =
            runtime::Engine::create(fixture.model(), {.threads = 2}, source, observer, clock);
        EXPECT_TRUE(created) << created.error().message;
        engine = std::move(*created);
        engine->set_idle_task(task);
    }
    ~IdleEngine() {
        source.close();
        engine->stop();
    }
    std::shared_ptr<RecordingSink> submit(int max_tokens) {
        auto sink = std::make_shared<RecordingSink>();
        runtime::Job job = make_job({100, 101, 102}, max_tokens);
        job.sink = sink;
        job.created = clock.now();
        source.push(std::make_shared<runtime::Job>(std::move(job)));
        return sink;
    }
    /// Whether the condition comes true; the clock goes on meanwhile.
    bool wait_until(const std::function<bool()>& condition) {
        const SystemClock real;
        const Nanoseconds end = real.now() + std::chrono::seconds(60);
        while (!condition() && real.now() < end) {
            clock.advance(std::chrono::milliseconds(100));
            std::this_thread::yield();
        }
        return condition();
    }

    ManualClock clock;
    ListSource source;
    CountingObserver observer;
    RecordingTask task;
    std::unique_ptr<runtime::Engine> engine;
};

TEST(IdleTask, WaitsUntilNobodyHasAskedForASecond) {
    const TinyFixture fixture;
    IdleEngine idle(fixture);
    idle.engine->start();
    // The clock stands: however long it takes, no second has passed since the start.
    const auto sink = idle.submit(4);
    ASSERT_TRUE(sink->wait_for_end());
    EXPECT_EQ(idle.task.n_slices, 0);
    ASSERT_TRUE(idle.wait_until([&] { return idle.task.n_slices > 3; }));
    EXPECT_EQ(idle.task.n_dropped, 0);
}

TEST(IdleTask, IsNotCalledAgainOnceItHasEnded) {
    const TinyFixture fixture;
    IdleEngine idle(fixture);
    idle.task.on_slice = [] { return false; };
    idle.engine->start();
    ASSERT_TRUE(idle.wait_until([&] { return idle.task.n_slices == 1; }));
    idle.clock.advance(std::chrono::seconds(10));
    ASSERT_TRUE(idle.submit(4)->wait_for_end());
    EXPECT_EQ(idle.task.n_slices, 1);
}

TEST(IdleTask, DropsTheSliceDuringWhichAJobCame) {
    const TinyFixture fixture;
    IdleEngine idle(fixture);
    std::promise<std::shared_ptr<RecordingSink>> submitted;
    idle.task.on_slice = [&] {
        if (idle.task.n_slices == 3) {
            submitted.set_value(idle.submit(4));
        }
        return true;
    };
    idle.engine->start();
    auto coming = submitted.get_future();
    ASSERT_TRUE(idle.wait_until(
        [&] { return coming.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }));
    const auto sink = coming.get();
    ASSERT_TRUE(sink->wait_for_end());
    EXPECT_FALSE(sink->error());
    EXPECT_EQ(idle.task.n_dropped, 1);
    // Not one slice more before the job had ended: the next one needs a quiet second.
    ASSERT_TRUE(idle.wait_until([&] { return idle.task.n_slices > 5; }));
    EXPECT_EQ(idle.task.n_dropped, 1);
}

TEST(IdleTask, MayFailWithoutHarm) {
    const TinyFixture fixture;
    IdleEngine idle(fixture);
    idle.task.on_slice = []() -> bool { throw std::runtime_error("no memory for it"); };
    idle.engine->start();
    ASSERT_TRUE(idle.wait_until([&] { return idle.task.n_slices == 1; }));
    idle.clock.advance(std::chrono::seconds(10));
    const auto sink = idle.submit(4);
    ASSERT_TRUE(sink->wait_for_end());
    EXPECT_FALSE(sink->error());
    EXPECT_EQ(idle.task.n_slices, 1);
}

TEST(IdleTask, DoesNotHoldUpTheEnd) {
    const TinyFixture fixture;
    IdleEngine idle(fixture);
    idle.engine->start();
    ASSERT_TRUE(idle.wait_until([&] { return idle.task.n_slices > 0; }));
    idle.source.close();
    idle.engine->stop();
    const int n = idle.task.n_slices;
    EXPECT_TRUE(idle.engine->idle());
    EXPECT_EQ(idle.task.n_slices, n);
}

}  // namespace
}  // namespace ballast::test
