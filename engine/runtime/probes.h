// SPDX-License-Identifier: MIT
// What the profiler measures with: each probe does a short piece of work on memory that is not in
// the caches and says how much it was and how long it took.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/base/thread_pool.h"
#include "engine/quant/type_traits.h"

namespace ballast::runtime {

/// How long a sample aims to take, and how long its smallest piece may be expected to take: a
/// request that comes meanwhile waits for both, which is below 100 ms.
constexpr Nanoseconds kSampleTarget = std::chrono::milliseconds(20);
constexpr Nanoseconds kPieceMax = std::chrono::milliseconds(60);

/// Work done and the time it took.
struct Sample {
    double bytes = 0.0;
    double flops = 0.0;  // a multiply-add is two
    double seconds = 0.0;
    /// A thread had less than half of its share, because it was kept waiting.
    bool disturbed = false;
    double gbps() const { return bytes / seconds * 1e-9; }
    double gflops() const { return flops / seconds * 1e-9; }
};

/// Memory to read, taken piece by piece because taking it all at once lasts too long. Its words are
/// random, and small finite numbers in every weight type's scales.
class ProbeMemory {
  public:
    static constexpr std::size_t kSegmentBytes = std::size_t{16} << 20U;
    /// At least two segments.
    explicit ProbeMemory(std::size_t bytes);

    /// Takes and fills one more segment. False once all are there.
    bool grow();
    std::size_t n_segments() const { return n_segments_; }
    std::size_t n_taken() const { return segments_.size(); }
    std::span<std::uint64_t> segment(std::size_t i) { return segments_[i].span(); }

  private:
    std::size_t n_segments_ = 0;
    std::vector<AlignedBuffer<std::uint64_t>> segments_;
};

/// One thing to measure. Used by one thread, the one that may run the pool.
class Probe {
  public:
    virtual ~Probe() = default;
    /// Goes on where the last call ended. About kSampleTarget long, except for the first, which
    /// only learns how fast it goes and is shorter or longer. kUnsupported if even the smallest
    /// piece would take longer than kPieceMax.
    virtual Result<Sample> sample() = 0;
};

/// Plain streaming reads, by all threads of the pool or by the caller alone. Not a kernel of ours:
/// it says what reading can reach.
class ReadProbe final : public Probe {
  public:
    /// pool: null for the caller alone.
    ReadProbe(ProbeMemory& memory, ThreadPool* pool, const Clock& clock)
        : memory_(memory), pool_(pool), clock_(clock) {}
    Result<Sample> sample() override;

  private:
    /// Takes chunks until none is left; gives how many.
    std::size_t read_chunks(std::size_t n);

    ProbeMemory& memory_;
    ThreadPool* pool_;
    const Clock& clock_;
    double pace_ = 1e9;  // bytes a second
    std::size_t cursor_ = 0;
    std::atomic<std::size_t> next_{0};
    std::atomic<std::uint64_t> sum_{0};  // so that the reads are not left out
};

/// memcpy by one thread, as weights are staged for a device that cannot read where they lie.
class CopyProbe final : public Probe {
  public:
    CopyProbe(ProbeMemory& memory, const Clock& clock) : memory_(memory), clock_(clock) {}
    Result<Sample> sample() override;

  private:
    ProbeMemory& memory_;
    const Clock& clock_;
    double pace_ = 1e9;  // bytes a second
    std::size_t cursor_ = 0;
};

/// Reads a byte of each page, so that later samples do not meet pages that are not mapped yet. Once
/// all are touched, samples are empty.
class TouchProbe final : public Probe {
  public:
    TouchProbe(std::span<const backend::WeightView> matrices, const Clock& clock);
    Result<Sample> sample() override;

  private:
    std::vector<std::span<const std::byte>> left_;  // the last first
    const Clock& clock_;
    std::atomic<unsigned> sum_{0};
};

/// The activations that linear probes share, in the memory of a backend, which outlives it.
class ProbeStep {
  public:
    /// threads: how wide the backend works, for the least rows of a matrix. at_once: most matrices
    /// of one submission; a device that runs beside the caller is not waited for after each.
    ProbeStep(backend::Backend& backend, int threads, std::size_t at_once = 1);
    ~ProbeStep();
    ProbeStep(const ProbeStep&) = delete;
    ProbeStep& operator=(const ProbeStep&) = delete;

    /// Once, before the first probe samples. Of the limits rows, k, heads and blocks count.
    Status reserve(const backend::StepLimits& limits);
    /// Bytes of the backend's memory that reserve() takes.
    static std::size_t activation_bytes(const backend::StepLimits& limits);
    /// out = weight · activations for `tokens` rows, of the decode class up to kDecodeTokensMax;
    /// each weight in turn.
    Status multiply(std::span<const backend::WeightView> weights, int tokens);
    /// Attention of rows at positions first, first + 1, … of one sequence with these blocks.
    Status attend(const backend::Attention& op,
                  const backend::KvLayerView& layer,
                  std::span<const std::int32_t> blocks,
                  int first,
                  int tokens);
    bool supports(quant::QuantType type) const;
    int threads() const { return threads_; }
    std::size_t at_once() const { return at_once_; }

    /// Batches up to this many rows are what decoding sequences bring, larger ones a prompt's.
    static constexpr int kDecodeTokensMax = 8;
    /// Weight rows of one multiply() at most.
    static constexpr std::size_t kRowsMax = 8192;

    /// The most arithmetic that any type has reached.
    double tflops() const;
    /// Arithmetic a second that each type has reached so far, whatever the batch.
    std::map<quant::QuantType, double> pace;

  private:
    Result<backend::SlotView> take(std::size_t n_floats);

    backend::Backend& backend_;
    const int threads_;
    const std::size_t at_once_;
    std::vector<backend::Chunk> chunks_;
    backend::SlotView in_ = {};  // its width is the number of all floats, as of the next
    backend::SlotView out_ = {};
    std::vector<TokenId> tokens_;
    std::vector<backend::OpRecord> ops_;
};

/// A matrix of one type times `tokens` rows through the backend, over all the matrices in turn.
class LinearProbe final : public Probe {
  public:
    /// matrices: of one type, together larger than the caches.
    LinearProbe(ProbeStep& step,
                std::vector<backend::WeightView> matrices,
                int tokens,
                const Clock& clock);
    Result<Sample> sample() override;

  private:
    /// Some rows of the current matrix, few enough for a slice at the pace so far.
    backend::WeightView next_piece();
    /// The next submission's pieces: as many as are expected to end in time.
    void next_pieces();
    double expected_seconds(const backend::WeightView& piece) const;
    double flops_of(const backend::WeightView& piece) const;

    ProbeStep& step_;
    std::vector<backend::WeightView> matrices_;
    int tokens_;
    const Clock& clock_;
    std::size_t matrix_ = 0;
    std::size_t row_ = 0;
    bool warm_ = false;
    std::vector<backend::WeightView> pieces_;
};

}  // namespace ballast::runtime
