// SPDX-License-Identifier: MIT
// Copies of tiles alone, copies beside the CPU's reads, and a round trip of a few bytes.
#include "engine/runtime/link_probe.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine/base/units.h"

namespace ballast::runtime {

namespace {

constexpr std::size_t kTileBytes = 4 * kMiB;
constexpr int kSamples = 9;
// Scheduling disturbs single trips, but not half of so many.
constexpr int kTrips = 65;
constexpr int kTripWidth = 64;

double seconds(Nanoseconds duration) {
    return std::chrono::duration<double>(duration).count();
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// Measures with a chunk of the device's memory.
class LinkProbe {
  public:
    LinkProbe(backend::Backend& device,
              backend::Chunk chunk,
              ProbeMemory& memory,
              ThreadPool& pool,
              const Clock& clock)
        : device_(device),
          chunk_(chunk),
          memory_(memory),
          read_(memory, &pool, clock),
          clock_(clock) {}

    Result<LinkRates> measure() {
        std::vector<double> alone;
        std::vector<double> together;
        std::vector<double> hops;
        double pace = 1e9;  // bytes a second
        for (int i = 0; i <= kSamples; ++i) {
            BALLAST_TRY(const double gbps, copy(pace));
            pace = gbps * 1e9;
            BALLAST_TRY(const double sum, copy_and_read(pace));
            // The first ones learn the pace.
            if (i > 0) {
                alone.push_back(gbps);
                together.push_back(sum);
            }
        }
        for (int i = 0; i < kTrips; ++i) {
            BALLAST_TRY(const double trip, round_trip());
            hops.push_back(0.5 * trip * 1e6);
        }
        return LinkRates{.copy_in_gbps = median(alone),
                         .together_gbps = median(together),
                         .hop_us = median(hops)};
    }

  private:
    /// Queues tiles that fill the target at this pace; gives the bytes and the last one's event.
    struct Queued {
        double bytes = 0.0;
        backend::Event last = {};
    };
    Result<Queued> queue_tiles(double pace) {
        constexpr std::size_t kTilesPerSegment = ProbeMemory::kSegmentBytes / kTileBytes;
        const double wanted = pace * seconds(kSampleTarget) / double{kTileBytes};
        const auto n = static_cast<std::size_t>(std::clamp(wanted, 1.0, 256.0));
        Queued queued;
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t tile = cursor_++ % (memory_.n_segments() * kTilesPerSegment);
            const auto bytes = std::as_bytes(memory_.segment(tile / kTilesPerSegment));
            BALLAST_TRY(
                queued.last,
                device_.copy_in(chunk_.data,
                                bytes.subspan(tile % kTilesPerSegment * kTileBytes, kTileBytes)));
            queued.bytes += double{kTileBytes};
        }
        return queued;
    }

    Result<double> copy(double pace) {
        const Nanoseconds begin = clock_.now();
        BALLAST_TRY(const Queued queued, queue_tiles(pace));
        BALLAST_TRY_STATUS(device_.wait(queued.last));
        return queued.bytes / std::max(seconds(clock_.now() - begin), 1e-9) * 1e-9;
    }

    /// Both take about as long alone, so that they meet for most of the time; what is left of the
    /// slower one makes the sum a little too low, never too high.
    Result<double> copy_and_read(double pace) {
        const Nanoseconds begin = clock_.now();
        BALLAST_TRY(const Queued queued, queue_tiles(pace));
        BALLAST_TRY(const Sample read, read_.sample());
        BALLAST_TRY_STATUS(device_.wait(queued.last));
        return (queued.bytes + read.bytes) / std::max(seconds(clock_.now() - begin), 1e-9) * 1e-9;
    }

    Result<double> round_trip() {
        std::array<float, kTripWidth> values = {};
        const auto bytes = std::as_writable_bytes(std::span(values));
        auto* const row = static_cast<float*>(static_cast<void*>(chunk_.data));
        const std::array<backend::SlotView, 1> slots = {{{row, kTripWidth}}};
        const backend::OpRecord record{.op = backend::Add{.x = 0, .y = 0, .width = kTripWidth}};
        const std::array<TokenId, 1> tokens = {0};
        const backend::StepContext context{.input = {.tokens = tokens, .n_decode_rows = 1},
                                           .slots = slots};
        const Nanoseconds begin = clock_.now();
        BALLAST_TRY(const backend::Event in, device_.copy_in(chunk_.data, bytes));
        device_.order_after(backend::Queue::kCompute, in);
        BALLAST_TRY(const backend::Event added, device_.submit({&record, 1}, context));
        device_.order_after(backend::Queue::kCopy, added);
        BALLAST_TRY(const backend::Event out, device_.copy_out(bytes, chunk_.data));
        BALLAST_TRY_STATUS(device_.wait(out));
        return seconds(clock_.now() - begin);
    }

    backend::Backend& device_;
    const backend::Chunk chunk_;
    ProbeMemory& memory_;
    ReadProbe read_;
    const Clock& clock_;
    std::size_t cursor_ = 0;
};

}  // namespace

Result<LinkRates> measure_link(backend::Backend& device,
                               ProbeMemory& memory,
                               ThreadPool& pool,
                               const Clock& clock) {
    BALLAST_TRY(const backend::Chunk chunk, device.allocate_chunk(kTileBytes));
    Result<LinkRates> rates = LinkProbe(device, chunk, memory, pool, clock).measure();
    device.free_chunk(chunk);
    return rates;
}

}  // namespace ballast::runtime
