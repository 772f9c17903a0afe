// SPDX-License-Identifier: MIT
// Tiles on the copy queue, with as few waits as their memory allows.
#include "engine/runtime/link_probe.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/backend/put_or_wait.h"

namespace ballast::runtime {

namespace {

// Tiles of one sample: 512 MiB, which the fastest links take 10 ms for.
constexpr double kTilesMax = 128.0;
// Scheduling disturbs single trips, but not half of so many; more than that take too long where a
// trip takes a millisecond.
constexpr std::size_t kTripsMax = 65;
constexpr std::size_t kTripsMin = 9;

/// Tiles that fill the target at this pace.
std::size_t tiles_at(double bytes_per_second) {
    const double wanted =
        bytes_per_second * to_seconds(kSampleTarget) / static_cast<double>(Link::kTileBytes);
    return static_cast<std::size_t>(std::clamp(wanted, 1.0, kTilesMax));
}

double bytes_of_tiles(std::size_t n) {
    return static_cast<double>(n * Link::kTileBytes);
}

double pace_of(const Sample& sample) {
    return sample.bytes / std::max(sample.seconds, 1e-9);
}

/// Puts n copies of pinned tiles on the queue; gives the last one's event.
Result<backend::Event> queue_tiles(Link& link, std::size_t& cursor, std::size_t n, bool back) {
    backend::Event last = {};
    for (std::size_t i = 0; i < n; ++i) {
        BALLAST_TRY(last, link.copy(link.pinned_tile(cursor), cursor % Link::kTiles, back));
        ++cursor;
    }
    return last;
}

}  // namespace

Link::Link(backend::Backend& device, std::size_t pinned_bytes)
    : device_(device),
      n_pieces_(std::max<std::size_t>(1, (pinned_bytes + kPieceBytes - 1) / kPieceBytes)) {
    pinned_.reserve(n_pieces_);
}

Link::~Link() {
    if (last_copy_) {
        // It has ended with the device if that is lost; there is nothing else to be done here.
        static_cast<void>(device_.wait(*last_copy_));
    }
    for (const backend::Chunk& piece : pinned_) {
        device_.free_host(piece);
    }
    if (on_device_.data != nullptr) {
        device_.free_chunk(on_device_);
    }
}

Result<bool> Link::grow() {
    if (on_device_.data == nullptr) {
        BALLAST_TRY(on_device_, device_.allocate_chunk(kTiles * kTileBytes));
    } else if (pinned_.size() < n_pieces_) {
        BALLAST_TRY(const backend::Chunk piece, device_.allocate_host(kPieceBytes));
        pinned_.push_back(piece);
    }
    return pinned_.size() < n_pieces_;
}

std::span<std::byte> Link::pinned_tile(std::size_t i) const {
    constexpr std::size_t kTilesPerPiece = kPieceBytes / kTileBytes;
    const std::size_t tile = i % n_tiles();
    return {pinned_[tile / kTilesPerPiece].data + tile % kTilesPerPiece * kTileBytes, kTileBytes};
}

std::byte* Link::device_tile(std::size_t i) const {
    return on_device_.data + i * kTileBytes;
}

Result<backend::Event> Link::copy(std::span<std::byte> host, std::size_t tile, bool back) {
    const auto put = [&] {
        return back ? device_.copy_out(host, device_tile(tile))
                    : device_.copy_in(device_tile(tile), host);
    };
    BALLAST_TRY_STATUS(backend::put_or_wait(device_, last_copy_, put));
    return *last_copy_;
}

Result<Sample> PinnedCopyProbe::sample() {
    const std::size_t n = tiles_at(pace_);
    const Nanoseconds begin = clock_.now();
    BALLAST_TRY(const backend::Event last, queue_tiles(link_, cursor_, n, back_));
    BALLAST_TRY_STATUS(link_.wait(last));
    const Sample sample{.bytes = bytes_of_tiles(n), .seconds = to_seconds(clock_.now() - begin)};
    pace_ = pace_of(sample);
    if (!back_) {
        link_.pace = pace_;
    }
    return sample;
}

Result<Sample> StagedCopyProbe::sample() {
    constexpr std::size_t kTilesPerSegment = ProbeMemory::kSegmentBytes / Link::kTileBytes;
    const std::size_t n = tiles_at(pace_);
    std::array<std::optional<backend::Event>, Link::kTiles> copied;
    const Nanoseconds begin = clock_.now();
    for (std::size_t i = 0; i < n; ++i) {
        const std::size_t slot = i % Link::kTiles;
        const std::size_t tile = cursor_++ % (memory_.n_segments() * kTilesPerSegment);
        const auto bytes = std::as_bytes(memory_.segment(tile / kTilesPerSegment));
        if (copied[slot]) {
            BALLAST_TRY_STATUS(link_.wait(*copied[slot]));
        }
        const std::span<std::byte> pinned = link_.pinned_tile(slot);
        std::memcpy(pinned.data(),
                    bytes.data() + tile % kTilesPerSegment * Link::kTileBytes,
                    Link::kTileBytes);
        BALLAST_TRY(copied[slot], link_.copy(pinned, slot, false));
    }
    BALLAST_TRY_STATUS(link_.wait(*copied[(n - 1) % Link::kTiles]));
    const Sample sample{.bytes = bytes_of_tiles(n), .seconds = to_seconds(clock_.now() - begin)};
    pace_ = pace_of(sample);
    return sample;
}

Result<Sample> TogetherProbe::sample() {
    const std::size_t n = tiles_at(link_.pace);
    const Nanoseconds begin = clock_.now();
    BALLAST_TRY(const backend::Event last, queue_tiles(link_, cursor_, n, false));
    BALLAST_TRY(const Sample read, read_.sample());
    BALLAST_TRY_STATUS(link_.wait(last));
    return Sample{.bytes = bytes_of_tiles(n) + read.bytes,
                  .seconds = to_seconds(clock_.now() - begin),
                  .disturbed = read.disturbed};
}

Result<Sample> HopProbe::sample() {
    std::vector<double> trips;
    const Nanoseconds begin = clock_.now();
    Nanoseconds now = begin;
    while (trips.size() < kTripsMin || (trips.size() < kTripsMax && now - begin < kSampleTarget)) {
        BALLAST_TRY_STATUS(make_trip());
        const Nanoseconds end = clock_.now();
        trips.push_back(to_seconds(end - now));
        now = end;
    }
    const auto middle = trips.begin() + static_cast<std::ptrdiff_t>(trips.size() / 2);
    std::nth_element(trips.begin(), middle, trips.end());
    return Sample{.seconds = 0.5 * *middle};
}

Status HopProbe::make_trip() {
    backend::Backend& device = link_.device();
    const std::span<std::byte> bytes = link_.pinned_tile(0).first(kWidth * sizeof(float));
    std::byte* const there = link_.device_tile(0);
    auto* const row = static_cast<float*>(static_cast<void*>(there));
    const std::array<backend::SlotView, 1> slots = {{{row, kWidth}}};
    const backend::OpRecord record{.op = backend::Add{.x = 0, .y = 0, .width = kWidth}};
    const std::array<TokenId, 1> tokens = {0};
    const backend::StepContext context{.input = {.tokens = tokens, .n_decode_rows = 1},
                                       .slots = slots};
    BALLAST_TRY(const backend::Event in, device.copy_in(there, bytes));
    device.order_after(backend::Queue::kCompute, in);
    const Result<backend::Event> added = device.submit({&record, 1}, context);
    Result<backend::Event> out = added;
    if (added) {
        device.order_after(backend::Queue::kCopy, *added);
        out = device.copy_out(bytes, there);
    }
    // What is on a queue still reads what is here: it ends before this returns, also after an
    // error.
    const Status ended = device.wait(out ? *out : added ? *added : in);
    return out ? ended : tl::unexpected<Error>(out.error());
}

}  // namespace ballast::runtime
