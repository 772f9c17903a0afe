// SPDX-License-Identifier: MIT
// Each probe keeps a cursor that walks through much more memory than the caches hold, so that what
// it meets again has been pushed out meanwhile.
#include "engine/runtime/probes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/rng.h"
#include "engine/base/units.h"

namespace ballast::runtime {

namespace {

// What a thread reads before it asks for more: large enough that the stream runs, small enough
// that no thread waits long for another at the end.
constexpr std::size_t kChunkBytes = kMiB;
constexpr std::size_t kChunkWords = kChunkBytes / sizeof(std::uint64_t);
constexpr std::size_t kChunksPerSegment = ProbeMemory::kSegmentBytes / kChunkBytes;
// Weight bytes of one multiply() at most, so that its time is short on any machine.
constexpr std::size_t kPieceBytesMax = 8 * kMiB;
// Rows of a weight panel in the prefill kernels: the least that one thread works on.
constexpr std::size_t kPanelRows = 32;
// Before anything is known: arithmetic a second of one slow thread without vector instructions.
constexpr double kFlopsAssumed = 0.5e9;

/// Chunks that fill the target at this pace.
std::size_t chunks_at(double bytes_per_second, std::size_t n_chunks) {
    const double wanted = bytes_per_second * to_seconds(kSampleTarget) / double{kChunkBytes};
    return static_cast<std::size_t>(std::clamp(wanted, 1.0, static_cast<double>(n_chunks)));
}

std::span<std::uint64_t> chunk_of(ProbeMemory& memory, std::size_t i) {
    const std::size_t chunk = i % (memory.n_segments() * kChunksPerSegment);
    return memory.segment(chunk / kChunksPerSegment)
        .subspan(chunk % kChunksPerSegment * kChunkWords, kChunkWords);
}

/// A vector that every processor of this build loads in one instruction; a line takes four. Wider
/// ones, and asking for lines ahead, were slower on Zen 4 by up to a quarter: the processor follows
/// one plain stream best.
using Words = std::uint64_t __attribute__((vector_size(16)));

/// Four sums of vectors, so that no addition waits for the one before it. The number of words is a
/// multiple of eight.
std::uint64_t sum_of(std::span<const std::uint64_t> words) {
    constexpr std::size_t kLineWords = 8;
    Words a = {};
    Words b = {};
    Words c = {};
    Words d = {};
    const auto load = [](const std::uint64_t* from) {
        Words loaded;
        std::memcpy(&loaded, from, sizeof loaded);
        return loaded;
    };
    const std::uint64_t* const end = words.data() + words.size();
    for (const std::uint64_t* line = words.data(); line != end; line += kLineWords) {
        a += load(line);
        b += load(line + 2);
        c += load(line + 4);
        d += load(line + 6);
    }
    const Words sum = (a + b) + (c + d);
    return sum[0] + sum[1];
}

}  // namespace

ProbeMemory::ProbeMemory(std::size_t bytes)
    : n_segments_(std::max<std::size_t>(2, bytes / kSegmentBytes)) {
    segments_.reserve(n_segments_);
}

bool ProbeMemory::grow() {
    if (segments_.size() == n_segments_) {
        return false;
    }
    AlignedBuffer<std::uint64_t> segment(kSegmentBytes / sizeof(std::uint64_t));
    Rng rng(segments_.size());
    for (std::uint64_t& word : segment.span()) {
        // Every half word a half-precision number below 2.
        word = rng.next() & 0x3BFF3BFF3BFF3BFFULL;
    }
    segments_.push_back(std::move(segment));
    return segments_.size() < n_segments_;
}

Result<Sample> ReadProbe::sample() {
    const std::size_t n = chunks_at(pace_, memory_.n_segments() * kChunksPerSegment);
    next_.store(0, std::memory_order_relaxed);
    std::atomic<std::size_t> least{n};
    const Nanoseconds begin = clock_.now();
    if (pool_ == nullptr) {
        read_chunks(n);
    } else {
        pool_->run([&](int) {
            const std::size_t mine = read_chunks(n);
            std::size_t seen = least.load();
            while (mine < seen && !least.compare_exchange_weak(seen, mine)) {
            }
        });
    }
    const auto n_threads = static_cast<std::size_t>(pool_ == nullptr ? 1 : pool_->size());
    const Sample sample{.bytes = static_cast<double>(n * kChunkBytes),
                        .seconds = to_seconds(clock_.now() - begin),
                        .disturbed = least.load() < n / n_threads / 2};
    cursor_ += n;
    pace_ = sample.bytes / std::max(sample.seconds, 1e-9);
    return sample;
}

std::size_t ReadProbe::read_chunks(std::size_t n) {
    std::uint64_t sum = 0;
    std::size_t n_read = 0;
    while (true) {
        const std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
        if (i >= n) {
            break;
        }
        sum += sum_of(chunk_of(memory_, cursor_ + i));
        ++n_read;
    }
    sum_.fetch_add(sum, std::memory_order_relaxed);
    return n_read;
}

Result<Sample> CopyProbe::sample() {
    const std::size_t n_chunks = memory_.n_segments() * kChunksPerSegment;
    const std::size_t n = chunks_at(pace_, n_chunks / 2);
    const Nanoseconds begin = clock_.now();
    for (std::size_t i = 0; i < n; ++i) {
        std::memcpy(chunk_of(memory_, cursor_ + i + n_chunks / 2).data(),
                    chunk_of(memory_, cursor_ + i).data(),
                    kChunkBytes);
    }
    const Sample sample{.bytes = static_cast<double>(n * kChunkBytes),
                        .seconds = to_seconds(clock_.now() - begin)};
    cursor_ += n;
    pace_ = sample.bytes / std::max(sample.seconds, 1e-9);
    return sample;
}

TouchProbe::TouchProbe(std::span<const backend::WeightView> matrices, const Clock& clock)
    : clock_(clock) {
    for (const backend::WeightView& matrix : matrices) {
        left_.emplace_back(matrix.data, matrix.n_slices * matrix.slice_bytes());
    }
}

Result<Sample> TouchProbe::sample() {
    constexpr std::size_t kPageBytes = 4 * kKiB;
    const Nanoseconds begin = clock_.now();
    Sample sample;
    while (!left_.empty() && clock_.now() - begin < kSampleTarget) {
        std::span<const std::byte>& bytes = left_.back();
        const std::size_t n = std::min(bytes.size(), kChunkBytes);
        unsigned sum = 0;
        for (std::size_t i = 0; i < n; i += kPageBytes) {
            sum += std::to_integer<unsigned>(bytes[i]);
        }
        sum_.fetch_add(sum, std::memory_order_relaxed);
        sample.bytes += static_cast<double>(n);
        bytes = bytes.subspan(n);
        if (bytes.empty()) {
            left_.pop_back();
        }
    }
    sample.seconds = to_seconds(clock_.now() - begin);
    return sample;
}

ProbeStep::ProbeStep(backend::Backend& backend, int threads, std::size_t at_once)
    : backend_(backend), threads_(threads), at_once_(at_once) {
    for (std::size_t i = 0; i < at_once; ++i) {
        ops_.push_back(
            {.op = backend::Linear{
                 .in = 0,
                 .n_matrices = 1,
                 .weights = {static_cast<backend::UnitId>(i), backend::kNoUnit, backend::kNoUnit},
                 .outs = {1, 0, 0}}});
    }
}

ProbeStep::~ProbeStep() {
    for (const backend::Chunk& chunk : chunks_) {
        backend_.free_chunk(chunk);
    }
}

std::size_t ProbeStep::activation_bytes(const backend::StepLimits& limits) {
    // A vector load that starts at the last element stays inside.
    constexpr std::size_t kSlackBytes = 64;
    return static_cast<std::size_t>(limits.rows) * (limits.k + kRowsMax) * sizeof(float) +
           2 * kSlackBytes;
}

Result<backend::SlotView> ProbeStep::take(std::size_t n_floats) {
    constexpr std::size_t kSlackFloats = 16;
    BALLAST_TRY(const backend::Chunk chunk,
                backend_.allocate_chunk((n_floats + kSlackFloats) * sizeof(float)));
    chunks_.push_back(chunk);
    return backend::SlotView{static_cast<float*>(static_cast<void*>(chunk.data)), n_floats};
}

Status ProbeStep::reserve(const backend::StepLimits& limits) {
    const auto n = static_cast<std::size_t>(limits.rows);
    BALLAST_TRY(in_, take(n * limits.k));
    BALLAST_TRY(out_, take(n * kRowsMax));
    tokens_.assign(n, 0);
    std::vector<float> values(std::max(in_.width, out_.width));
    Rng rng(1);
    for (float& value : values) {
        value = static_cast<float>(rng.next() >> 40U) * 0x1.0p-24F - 0.5F;
    }
    // The results' place too, so that no sample meets pages that are not there yet.
    for (const backend::Chunk& chunk : chunks_) {
        const auto bytes = std::as_bytes(std::span(values));
        BALLAST_TRY(
            const backend::Event copied,
            backend_.copy_in(chunk.data, bytes.first(std::min(bytes.size(), chunk.size_bytes))));
        BALLAST_TRY_STATUS(backend_.wait(copied));
    }
    return backend_.reserve(limits);
}

Status ProbeStep::multiply(std::span<const backend::WeightView> weights, int tokens) {
    const auto n = static_cast<std::size_t>(tokens);
    BALLAST_CHECK(weights.size() <= ops_.size() && n <= tokens_.size());
    std::size_t n_rows_max = 0;
    for (const backend::WeightView& weight : weights) {
        n_rows_max = std::max(n_rows_max, weight.n_rows);
        // One slot for the inputs of all.
        BALLAST_CHECK(weight.k == weights[0].k);
    }
    const std::size_t k = weights[0].k;
    BALLAST_CHECK(n_rows_max <= kRowsMax && k * n <= in_.width);
    const std::array<backend::SlotView, 2> slots = {{{in_.data, k}, {out_.data, n_rows_max}}};
    const backend::StepContext context{
        .input = {.tokens = std::span<const TokenId>(tokens_).first(n),
                  .n_decode_rows = tokens <= kDecodeTokensMax ? tokens : 0},
        .weights = weights,
        .slots = slots};
    BALLAST_TRY(const backend::Event event,
                backend_.submit(std::span(ops_).first(weights.size()), context));
    return backend_.wait(event);
}

Status ProbeStep::attend(const backend::Attention& op,
                         const backend::KvLayerView& layer,
                         std::span<const std::int32_t> blocks,
                         int first,
                         int tokens) {
    const auto n = static_cast<std::size_t>(tokens);
    const auto width = static_cast<std::size_t>(op.n_heads) * static_cast<std::size_t>(op.head_dim);
    const std::size_t kv_width =
        static_cast<std::size_t>(op.n_kv_heads) * static_cast<std::size_t>(op.head_dim);
    BALLAST_CHECK(width <= kRowsMax && n * width <= in_.width && n <= tokens_.size());
    const std::array<backend::SlotView, 3> slots = {{{in_.data, width},  //
                                                     {in_.data, kv_width},
                                                     {out_.data, width}}};
    const backend::OpRecord record{.op = op};
    const backend::SequenceRows rows{
        .first_row = 0, .n_rows = tokens, .first_position = first, .blocks = blocks};
    const backend::StepContext context{
        .input = {.tokens = std::span<const TokenId>(tokens_).first(n),
                  .sequences = {&rows, 1},
                  .n_decode_rows = tokens <= kDecodeTokensMax ? tokens : 0},
        .slots = slots,
        .kv = {&layer, 1}};
    BALLAST_TRY(const backend::Event event, backend_.submit({&record, 1}, context));
    return backend_.wait(event);
}

bool ProbeStep::supports(quant::QuantType type) const {
    return backend_.supports(backend::Linear{}, type);
}

double ProbeStep::tflops() const {
    double most = 0.0;
    for (const auto& [type, flops] : pace) {
        most = std::max(most, flops);
    }
    return most * 1e-12;
}

LinearProbe::LinearProbe(ProbeStep& step,
                         std::vector<backend::WeightView> matrices,
                         int tokens,
                         const Clock& clock)
    : step_(step), matrices_(std::move(matrices)), tokens_(tokens), clock_(clock) {
    BALLAST_CHECK(!matrices_.empty());
}

double LinearProbe::flops_of(const backend::WeightView& piece) const {
    return 2.0 * static_cast<double>(piece.n_rows) * static_cast<double>(piece.k) * tokens_;
}

double LinearProbe::expected_seconds(const backend::WeightView& piece) const {
    const auto known = step_.pace.find(piece.type);
    const double pace = known == step_.pace.end() ? kFlopsAssumed * step_.threads() : known->second;
    return flops_of(piece) / pace;
}

backend::WeightView LinearProbe::next_piece() {
    if (row_ == matrices_[matrix_].n_rows) {
        matrix_ = (matrix_ + 1) % matrices_.size();
        row_ = 0;
    }
    const backend::WeightView& matrix = matrices_[matrix_];
    backend::WeightView piece = matrix;
    piece.n_slices = 1;
    piece.data += row_ * matrix.row_bytes;
    piece.n_rows = 1;
    const double rows_in_target = to_seconds(kSampleTarget) / expected_seconds(piece);
    const auto panels = kPanelRows * static_cast<std::size_t>(step_.threads());
    const std::size_t rows_max =
        std::clamp(kPieceBytesMax / matrix.row_bytes, panels, ProbeStep::kRowsMax);
    const std::size_t wanted = rows_in_target >= static_cast<double>(rows_max)
                                   ? rows_max
                                   : std::max(panels, static_cast<std::size_t>(rows_in_target));
    piece.n_rows = std::min(wanted, matrix.n_rows - row_);
    row_ += piece.n_rows;
    return piece;
}

void LinearProbe::next_pieces() {
    pieces_.clear();
    double expected = 0.0;
    do {
        pieces_.push_back(next_piece());
        expected += expected_seconds(pieces_.back());
        // Inputs of one width stand in a slot together.
    } while (pieces_.size() < step_.at_once() && 2.0 * expected < to_seconds(kSampleTarget) &&
             matrices_[matrix_].k == matrices_[(matrix_ + 1) % matrices_.size()].k);
}

Result<Sample> LinearProbe::sample() {
    if (!warm_ && !step_.pace.contains(matrices_[0].type)) {
        // One row of activations costs the least, and shows how fast this type goes at least.
        const int tokens = std::exchange(tokens_, 1);
        const backend::WeightView piece = next_piece();
        const Nanoseconds begin = clock_.now();
        BALLAST_TRY_STATUS(step_.multiply({&piece, 1}, 1));
        const double duration = std::max(to_seconds(clock_.now() - begin), 1e-9);
        step_.pace[piece.type] = flops_of(piece) / duration;
        tokens_ = tokens;
    }
    warm_ = true;
    Sample sample;
    while (sample.seconds < to_seconds(kSampleTarget)) {
        next_pieces();
        const double expected = expected_seconds(pieces_[0]);
        if (sample.seconds == 0.0 && expected > to_seconds(kPieceMax)) {
            return fail(ErrorCode::kUnsupported, "this would take too long here");
        }
        const Nanoseconds begin = clock_.now();
        BALLAST_TRY_STATUS(step_.multiply(pieces_, tokens_));
        const double duration = std::max(to_seconds(clock_.now() - begin), 1e-9);
        double flops = 0.0;
        for (const backend::WeightView& piece : pieces_) {
            sample.bytes += static_cast<double>(piece.slice_bytes());
            flops += flops_of(piece);
        }
        sample.seconds += duration;
        sample.flops += flops;
        double& pace = step_.pace[pieces_[0].type];
        pace = std::max(pace, flops / duration);
    }
    return sample;
}

}  // namespace ballast::runtime
