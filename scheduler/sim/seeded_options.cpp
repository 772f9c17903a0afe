// SPDX-License-Identifier: MIT
// Small enough that a run takes some hundredths of a second: three to six layers, a minute of time.
#include "scheduler/sim/seeded_options.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/base/rng.h"

namespace ballast::scheduler {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kGiga = 1e9;
// Each other state of the machine is planned for anew, which takes most of a run's time.
constexpr std::size_t kSamplesMost = 40;
// Plans are made for memory in steps of 16 MiB, which must not count.
constexpr double kMemoryLeastGb = 0.25;

class Draw {
  public:
    explicit Draw(std::uint64_t seed) : rng_(seed) { made_.seed = seed; }

    SeededOptions run() {
        machine();
        model();
        rules();
        trace();
        requests();
        return std::move(made_);
    }

  private:
    bool chance(double probability) { return rng_.uniform() < probability; }
    double between(double least, double most) { return least + (most - least) * rng_.uniform(); }
    /// Each power of two is as likely.
    double spread(double least, double most) {
        return least * std::exp2(rng_.uniform() * std::log2(most / least));
    }
    Nanoseconds time(Nanoseconds least, Nanoseconds most) {
        return to_nanoseconds(spread(to_seconds(least), to_seconds(most)));
    }
    template <class List>
    auto one_of(const List& list) {
        return list[rng_.below(std::size(list))];
    }

    void machine() {
        HardwareProfile& h = made_.hardware;
        h.name = "drawn";
        h.cpu_read_gbps = spread(15.0, 80.0);
        h.dram_gbps = h.cpu_read_gbps * between(1.0, 1.5);
        h.device_read_gbps = h.cpu_read_gbps * spread(2.0, 20.0);
        h.link_gbps = spread(3.0, 25.0);
        h.hop_us = spread(5.0, 100.0);
        h.device_tflops = spread(10.0, 80.0);
        h.cpu_tflops = spread(0.5, 2.0);
        h.ram_gb = 64.0;
        if (chance(0.1)) {
            h.unified_memory = true;
            h.link_gbps = 0.0;
            h.device_read_gbps = h.dram_gbps * between(0.8, 1.0);
        }
        made_.hops = chance(0.5) ? HopModel::kOverlapped : HopModel::kBlocking;
    }

    void model() {
        ModelShape& s = made_.shape;
        s.name = "drawn";
        s.architecture = "llama";
        s.layers = 3 + static_cast<int>(rng_.below(4));
        s.vocabulary = 32000;
        s.context_length = 8192;
        s.norms_per_layer = 2;
        s.embedding_length = 1024 * (3 + static_cast<int>(rng_.below(4)));
        s.attention.head_length = 128;
        s.attention.heads = s.embedding_length / s.attention.head_length;
        s.attention.kv_heads = s.attention.heads / (chance(0.5) ? 2 : 8);
        s.attention.windowed.assign(static_cast<std::size_t>(s.layers), false);
        if (chance(0.15)) {
            s.experts = ModelShape::Experts{
                .count = chance(0.5) ? 8 : 16,
                .used = 2,
                .length = 1024,
                .in_layer = std::vector<bool>(static_cast<std::size_t>(s.layers), true)};
            made_.locality = chance(0.5) ? Locality::kUniform : Locality::kStrong;
        } else {
            s.ffn_length = 256 * (24 + static_cast<int>(rng_.below(65)));
        }
        constexpr std::array<const char*, 3> kQuants = {"Q4_0", "Q6_K", "Q8_0"};
        made_.quant = one_of(kQuants);
        made_.context = 256 << rng_.below(5);
        const auto catalog = catalog_of(s, made_.quant);
        BALLAST_CHECK(catalog.has_value());
        const auto bytes = static_cast<double>(catalog->total_bytes());
        made_.hardware.device_memory_gb =
            std::max(kMemoryLeastGb, bytes / kGiga * spread(0.1, 1.5));
        alone_seconds_ = bytes / (made_.hardware.cpu_read_gbps * kGiga);
    }

    void rules() {
        LoadRules& r = made_.session.rules;
        r.growth.wait_least = time(milliseconds(200), seconds(1));
        r.growth.wait_most = r.growth.wait_least * (1 << rng_.below(4));
        r.idle_after = time(milliseconds(500), seconds(3));
        r.idle_release = time(seconds(4), seconds(20));
        r.retry_least = time(milliseconds(500), seconds(2));
        r.retry_most = r.retry_least * (1 << rng_.below(3));
        made_.session.poll = time(milliseconds(20), milliseconds(100));
        SimMonitor::Faults& seen = made_.session.seen;
        seen.seed = rng_.next();
        seen.noise = chance(0.5) ? between(0.0, 0.25) : 0.0;
        seen.lag = chance(0.5) ? time(milliseconds(5), milliseconds(300)) : Nanoseconds{0};
        seen.jitter = chance(0.5) ? time(milliseconds(5), milliseconds(100)) : Nanoseconds{0};
        seen.wrong = chance(0.5) ? spread(0.001, 0.1) : 0.0;
    }

    /// By others: nothing, some of our part, or more than that, but never more than there is.
    std::uint64_t taken_bytes() {
        if (chance(0.3)) {
            return 0;
        }
        const double cap = made_.hardware.device_memory_gb * kGiga;
        const auto bytes = static_cast<std::uint64_t>(cap * between(0.0, 1.0));
        const auto total = device_memory({}, cap, cap).total_bytes;
        return chance(0.2) ? total - bytes / 8 : bytes;
    }

    /// What others take from now on.
    void disturb(LoadSample& now) {
        constexpr std::array<double, 5> kBusy = {0.0, 0.3, 0.6, 0.9, 1.0};
        switch (one_of(kinds_)) {
            case kMemory:
                now.others_bytes = taken_bytes();
                break;
            case kDevice:
                now.device_busy = one_of(kBusy);
                break;
            case kLink:
                now.link_busy = one_of(kBusy);
                break;
            case kCpu:
                now.cpu_psi = 0.9 * one_of(kBusy);
                break;
            case kBattery:
                now.on_battery = !now.on_battery;
                break;
            case kLost:
                now.event = LoadEvent::kDeviceLost;
                break;
            case kSleep:
                now.event = LoadEvent::kSuspend;
                break;
            case kQuiet:
                now = LoadSample{.time = now.time};
                break;
        }
    }

    void trace() {
        for (const Kind kind : {kMemory, kDevice, kLink, kCpu, kBattery, kLost, kSleep, kQuiet}) {
            if (chance(0.5)) {
                kinds_.push_back(kind);
            }
        }
        if (kinds_.empty()) {
            kinds_.push_back(kMemory);
        }
        made_.safety_end = to_nanoseconds(between(10.0, 30.0));
        made_.session.seen.until = made_.safety_end;
        std::vector<LoadSample>& samples = made_.session.trace.samples;
        samples.push_back({});
        LoadSample now;
        const Nanoseconds gap = time(milliseconds(50), seconds(5));
        while (samples.size() < kSamplesMost) {
            now.time += time(gap / 8, 2 * gap);
            now.event = LoadEvent::kNone;
            disturb(now);
            if (now.time >= made_.safety_end) {
                break;
            }
            samples.push_back(now);
            if (now.event == LoadEvent::kSuspend) {
                now.time =
                    std::min(now.time + time(milliseconds(100), seconds(4)), made_.safety_end);
                now.event = LoadEvent::kResume;
                samples.push_back(now);
            }
        }
        samples.push_back({.time = made_.safety_end, .event = LoadEvent::kResume});
    }

    void requests() {
        // The CPU alone could answer them in about two thirds of the time.
        const int tokens_most =
            std::max(2, static_cast<int>(0.65 * to_seconds(made_.safety_end) / alone_seconds_));
        const auto n = 1 + rng_.below(8);
        int left = tokens_most;
        for (std::uint64_t i = 0; i < n && left > 0; ++i) {
            const int most = std::min(left, tokens_most / 2);
            const int tokens =
                1 + static_cast<int>(rng_.below(static_cast<std::uint64_t>(std::max(1, most))));
            made_.requests.push_back(
                {.at = to_nanoseconds(between(0.0, to_seconds(made_.safety_end))),
                 .tokens = tokens});
            left -= tokens;
        }
        std::sort(made_.requests.begin(), made_.requests.end(), [](const auto& a, const auto& b) {
            return a.at < b.at;
        });
    }

    enum Kind { kMemory, kDevice, kLink, kCpu, kBattery, kLost, kSleep, kQuiet };

    Rng rng_;
    SeededOptions made_;
    std::vector<Kind> kinds_ = {};
    double alone_seconds_ = 0.0;  // of a step on the CPU, nearly
};

}  // namespace

SeededOptions draw_options(std::uint64_t seed) {
    return Draw(seed).run();
}

std::string SeededOptions::text() const {
    const HardwareProfile& h = hardware;
    const LoadRules& r = session.rules;
    const SimMonitor::Faults& seen = session.seen;
    int tokens = 0;
    for (const SeededRequest& request : requests) {
        tokens += request.tokens;
    }
    return fmt::format(
        "seed={} unified={} device={:.1f}GB/s cpu={:.1f}GB/s link={:.1f}GB/s dram={:.1f}GB/s "
        "memory={:.2f}GB hop={:.0f}us hops={} layers={} width={} kv_heads={} ffn={} experts={} "
        "quant={} context={} locality={} wait={:.2f}-{:.2f}s idle={:.1f}/{:.1f}s retry={:.1f}-"
        "{:.1f}s poll={:.0f}ms noise={:.2f} lag={:.0f}ms jitter={:.0f}ms wrong={:.3f} "
        "safety={:.1f}s "
        "samples={} requests={} tokens={}",
        seed,
        h.unified_memory ? 1 : 0,
        h.device_read_gbps,
        h.cpu_read_gbps,
        h.link_gbps,
        h.dram_gbps,
        h.device_memory_gb,
        h.hop_us,
        hops == HopModel::kBlocking ? "blocking" : "overlapped",
        shape.layers,
        shape.embedding_length,
        shape.attention.kv_heads,
        shape.ffn_length,
        shape.experts ? shape.experts->count : 0,
        quant,
        context,
        locality == Locality::kStrong ? "strong" : "uniform",
        to_seconds(r.growth.wait_least),
        to_seconds(r.growth.wait_most),
        to_seconds(r.idle_after),
        to_seconds(r.idle_release),
        to_seconds(r.retry_least),
        to_seconds(r.retry_most),
        1e3 * to_seconds(session.poll),
        seen.noise,
        1e3 * to_seconds(seen.lag),
        1e3 * to_seconds(seen.jitter),
        seen.wrong,
        to_seconds(safety_end),
        session.trace.samples.size(),
        requests.size(),
        tokens);
}

}  // namespace ballast::scheduler
