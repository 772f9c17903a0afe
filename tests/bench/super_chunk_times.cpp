// SPDX-License-Identifier: MIT
// How long a long prompt takes to its first token, alone and beside a running stream, and how long
// that stream waits between two tokens meanwhile: in steps, and in super-chunks. The model runs on
// the CPU and the device "host", both paced to a shipped machine scaled down. A report: it judges
// nothing. Usage: super_chunk_times MODEL.gguf [MACHINE] [FACTOR] [TOKENS] [PERCENT]; PERCENT of
// the weights have room on the device, or 0: attention stays there and all feed-forwards stream.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/runtime/engine.h"
#include "scheduler/placement/planner.h"
#include "scheduler/profile/profile_store.h"
#include "tests/engine/runtime/recording.h"

namespace ballast {
namespace {

constexpr int kContext = 2048;
constexpr std::uint64_t kDeviceBytes = 4ULL << 30U;

/// When each piece of text came.
class TimedSink final : public runtime::TokenSink {
  public:
    explicit TimedSink(const Clock& clock) : clock_(clock) {}
    void on_start() override {}
    void on_text(runtime::TextDelta) override {
        const std::lock_guard lock(mutex_);
        times_.push_back(clock_.now());
        changed_.notify_all();
    }
    void on_finish(runtime::FinishReason, const runtime::JobStats&) override { end(); }
    void on_error(Error error) override {
        fmt::print(stderr, "{}\n", error.message);
        end();
    }
    bool cancelled() const override { return false; }

    void wait_for_texts(std::size_t n) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return times_.size() >= n || ended_; });
    }
    void wait_for_end() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ended_; });
    }
    std::vector<Nanoseconds> times() const {
        const std::lock_guard lock(mutex_);
        return times_;
    }

  private:
    void end() {
        const std::lock_guard lock(mutex_);
        ended_ = true;
        changed_.notify_all();
    }
    const Clock& clock_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Nanoseconds> times_;
    bool ended_ = false;
};

struct Settings {
    scheduler::HardwareProfile machine = {};
    int n_tokens = 512;
    int percent = 20;
};

class Run {
  public:
    Run(const runtime::LoadedModel& model,
        const Settings& settings,
        std::shared_ptr<const scheduler::Plan> plan)
        : model_(model), settings_(settings), plan_(std::move(plan)) {}

    /// Prints a line.
    Status measure(int super_chunk, bool with_stream) {
        test::ListSource source;
        test::CountingObserver observer;
        runtime::EngineParts parts = {.plan = plan_};
        const scheduler::HardwareProfile& machine = settings_.machine;
        parts.host = {.memory_bytes = kDeviceBytes,
                      .pace = {.read_gbps = machine.device_read_gbps,
                               .gflops = machine.device_tflops * 1e3,
                               .link_gbps = machine.link_gbps,
                               .latency = std::chrono::microseconds(20)}};
        parts.cpu_pace = {.read_gbps = machine.cpu_read_gbps,
                          .gflops = machine.cpu_tflops * 1e3,
                          .dram_gbps = machine.dram_gbps};
        const runtime::EngineOptions options = {.threads = 1,
                                                .context = kContext,
                                                .parallel = 2,
                                                .super_chunk = super_chunk,
                                                .profile_when_idle = false,
                                                .device = "host",
                                                .vram_budget = kDeviceBytes};
        BALLAST_TRY(
            const auto engine,
            runtime::Engine::create(model_, options, source, observer, clock_, std::move(parts)));
        engine->start();
        const auto stream = std::make_shared<TimedSink>(clock_);
        if (with_stream) {
            push(source, stream, 8, kContext - 8);
            stream->wait_for_texts(3);
        }
        const auto prompt = std::make_shared<TimedSink>(clock_);
        const Nanoseconds begin = clock_.now();
        push(source, prompt, settings_.n_tokens, 1);
        prompt->wait_for_end();
        const Nanoseconds end = clock_.now();
        engine->stop();
        std::vector<double> gaps;
        const std::vector<Nanoseconds> times = stream->times();
        for (std::size_t i = 1; i < times.size(); ++i) {
            if (times[i] > begin && times[i - 1] < end) {
                gaps.push_back(to_seconds(times[i] - times[i - 1]));
            }
        }
        std::sort(gaps.begin(), gaps.end());
        const auto quantile = [&](double q) {
            return gaps.empty() ? std::string("-")
                                : fmt::format("{:.2f}",
                                              gaps[static_cast<std::size_t>(
                                                  q * static_cast<double>(gaps.size() - 1) + 0.5)]);
        };
        fmt::print("{:<14}{:<9}{:>9.2f}{:>9}{:>9}{:>9}{:>9}\n",
                   super_chunk > 0 ? "super-chunks" : "steps",
                   with_stream ? "stream" : "alone",
                   to_seconds(end - begin),
                   gaps.size(),
                   quantile(0.5),
                   quantile(0.95),
                   quantile(1.0));
        std::fflush(stdout);
        return {};
    }

  private:
    void push(test::ListSource& source,
              std::shared_ptr<TimedSink> sink,
              int n_prompt,
              int n_generated) const {
        auto job = std::make_shared<runtime::Job>();
        for (int i = 0; i < n_prompt; ++i) {
            job->prompt.push_back(1000 + i % 500);
        }
        job->max_tokens = n_generated;
        job->ignore_eos = true;
        job->created = clock_.now();
        job->sink = std::move(sink);
        source.push(std::move(job));
    }

    const runtime::LoadedModel& model_;
    const Settings& settings_;
    std::shared_ptr<const scheduler::Plan> plan_;
    SystemClock clock_;
};

/// Attention stays on the device, with its keys and values and the head; of the feed-forwards
/// everything streams for prompts. So it is where a model is much larger than a fast device.
scheduler::Placement feed_forward_streams(const scheduler::TensorCatalog& catalog) {
    scheduler::Placement placement = scheduler::cpu_only(catalog);
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const scheduler::TensorGroup& group = catalog.groups[i];
        if (group.kind == scheduler::GroupKind::kFeedForward) {
            placement.groups[i].prefill_streamed = group.parts;
        } else {
            placement.groups[i] = scheduler::all_resident(group);
        }
    }
    return placement;
}

scheduler::Placement planned(const scheduler::TensorCatalog& catalog, const Settings& settings) {
    scheduler::PlanResult result = scheduler::make_plan(
        {.catalog = &catalog,
         .costs = scheduler::CostModel(settings.machine),
         .memory_bytes = static_cast<double>(catalog.total_bytes()) * settings.percent / 100.0,
         .reserve = {.tokens = 2 * kContext},
         .depth = settings.n_tokens,
         .prefill_tokens = settings.n_tokens,
         .prefill_weight = 4.0,
         .ladder = {.attention_prefill = false, .router_streams = false}});
    return std::move(result.plan.placement);
}

std::shared_ptr<const scheduler::Plan> plan_for(const scheduler::TensorCatalog& catalog,
                                                const Settings& settings) {
    scheduler::Placement placement =
        settings.percent > 0 ? planned(catalog, settings) : feed_forward_streams(catalog);
    const auto count = [&](auto value) {
        double bytes = 0.0;
        for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
            const scheduler::TensorGroup& group = catalog.groups[i];
            bytes +=
                static_cast<double>(group.weight_bytes) * value(placement.groups[i]) / group.parts;
        }
        return bytes / 1e6;
    };
    fmt::print(
        "{:.1f} MB of weights stay on the device, {:.1f} MB stream for a prompt, {:.1f} MB "
        "for a token\n",
        count([](const auto& placed) { return placed.resident; }),
        count([](const auto& placed) { return placed.prefill_streamed; }),
        count([](const auto& placed) { return placed.streamed; }));
    return std::make_shared<const scheduler::Plan>(
        scheduler::Plan{.version = 1, .placement = std::move(placement)});
}

Status run(const std::string& path, const std::string& machine, double factor, Settings settings) {
    BALLAST_TRY(const runtime::LoadedModel loaded, runtime::load_model(path, ""));
    BALLAST_TRY(settings.machine, scheduler::stored_hardware(machine));
    for (double* rate : {&settings.machine.device_read_gbps,
                         &settings.machine.cpu_read_gbps,
                         &settings.machine.link_gbps,
                         &settings.machine.dram_gbps,
                         &settings.machine.device_tflops,
                         &settings.machine.cpu_tflops}) {
        *rate *= factor;
    }
    fmt::print("{} at {:.2f}% of its speed, a prompt of {} tokens, room for {}% of the weights\n",
               machine,
               100.0 * factor,
               settings.n_tokens,
               settings.percent);
    Run runs(loaded, settings, plan_for(loaded.model->catalog(), settings));
    fmt::print("{:<14}{:<9}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
               "prompt in",
               "",
               "TTFT s",
               "gaps",
               "p50 s",
               "p95 s",
               "most s");
    for (const bool with_stream : {false, true}) {
        for (const int super_chunk : {0, 8192}) {
            BALLAST_TRY_STATUS(runs.measure(super_chunk, with_stream));
        }
    }
    return {};
}

}  // namespace
}  // namespace ballast

int main(int argc, char** argv) {
    if (argc < 2) {
        fmt::print(stderr, "usage: {} MODEL.gguf [MACHINE] [FACTOR] [TOKENS] [PERCENT]\n", argv[0]);
        return 2;
    }
    if (!std::ifstream(argv[1])) {
        fmt::print("skipped: there is no {}\n", argv[1]);
        return 77;
    }
    ballast::Settings settings;
    settings.n_tokens = argc > 4 ? std::atoi(argv[4]) : 512;
    settings.percent = argc > 5 ? std::atoi(argv[5]) : 20;
    const double factor = argc > 3 ? std::atof(argv[3]) : 0.004;
    const ballast::Status status =
        ballast::run(argv[1], argc > 2 ? argv[2] : "laptop-4060", factor, settings);
    if (!status) {
        fmt::print(stderr, "{}\n", status.error().message);
        return 1;
    }
    return 0;
}
