// SPDX-License-Identifier: MIT
// The CPU as a backend: ops run at once on the caller and the compute threads, so every event has
// happened when its call returns.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/thread_pool.h"
#include "engine/kernels/cpu/kernel_table.h"

namespace ballast::backend {

/// What a copy of strips does where both sides are ordinary memory.
void copy_rows(std::byte* to,
               std::size_t to_stride,
               const std::byte* from,
               std::size_t from_stride,
               const Strips& strips);

/// Lives on the engine thread; borrows the pool and the kernel table.
class CpuBackend final : public Backend {
  public:
    CpuBackend(const kernels::KernelTable& kernels, ThreadPool& pool);
    ~CpuBackend() override;

    DeviceId device() const override { return DeviceId::kCpu; }
    std::string name() const override;
    bool supports(const Op& op, quant::QuantType type) const override;
    Status reserve(const StepLimits& limits) override;
    Result<Chunk> allocate_chunk(std::size_t size_bytes) override;
    void free_chunk(Chunk chunk) override;
    MemoryUse memory_use() const override;
    /// Ordinary memory: the CPU copies from none faster.
    Result<Chunk> allocate_host(std::size_t size_bytes) override;
    void free_host(Chunk chunk) override { free_chunk(chunk); }
    Result<Event> copy_in(std::byte* device, std::span<const std::byte> host) override;
    Result<Event> copy_out(std::span<std::byte> host, const std::byte* device) override;
    Result<Event> copy_strips_in(Queue queue,
                                 std::byte* device,
                                 const std::byte* host,
                                 const Strips& strips) override;
    Result<Event> copy_strips_out(Queue queue,
                                  std::byte* host,
                                  const std::byte* device,
                                  const Strips& strips) override;
    Result<Event> submit(std::span<const OpRecord> ops, const StepContext& context) override;
    void order_after(Queue, Event) override {}
    bool done(Event) const override { return true; }
    Status wait(Event) override { return {}; }
    WorkTime work_time(Event) const override { return {}; }

  private:
    /// Rows an op works on, split by arithmetic class: [0, n_decode) and [n_decode, n).
    struct Rows {
        int n = 0;
        int n_decode = 0;
    };
    /// One thread's scratch.
    struct ThreadScratch {
        AlignedBuffer<std::byte> kernel;  // matmul or attention
        std::vector<const std::byte*> key_blocks;
        std::vector<const std::byte*> value_blocks;
    };
    /// One matrix of a linear job: where its weights, inputs and outputs are.
    struct Matrix {
        WeightView weight;
        std::size_t slice = 0;
        float* out = nullptr;
        std::size_t out_stride = 0;
    };
    /// Rows of one arithmetic class.
    struct ClassRows {
        int first = 0;
        int n = 0;
        bool decode = false;
    };
    /// One thread's share of an attention op: query tokens [first, first + n_tokens) of a sequence
    /// and query heads [head, head + n_heads) of one key-value head.
    struct AttentionItem {
        const SequenceRows* sequence = nullptr;
        int first = 0;
        int n_tokens = 0;
        int kv_head = 0;
        int head = 0;
        int n_heads = 0;
    };
    /// Scratch of routers and experts.
    struct Routing {
        AlignedBuffer<float> logits;        // [rows][n_experts]
        std::vector<std::int32_t> members;  // (row · n_used + rank), grouped by expert
        std::vector<std::int32_t> first;    // [n_experts + 1] into members
        // One expert's rows at a time:
        AlignedBuffer<float> inputs;   // [rows][width]
        AlignedBuffer<float> gate;     // [rows][ffn_width]
        AlignedBuffer<float> up;       // [rows][ffn_width]
        AlignedBuffer<float> results;  // [rows][width]
        AlignedBuffer<float> outputs;  // [rows · n_used][width]
    };

    void run(const Embed& op, Rows rows, const StepContext& context);
    void run(const RmsNorm& op, Rows rows, const StepContext& context);
    void run(const Linear& op, Rows rows, const StepContext& context);
    void run(const Rope& op, Rows rows, const StepContext& context);
    void run(const Attention& op, Rows rows, const StepContext& context);
    void run(const GatedActivation& op, Rows rows, const StepContext& context);
    void run(const Add& op, Rows rows, const StepContext& context);
    void run(const Router& op, Rows rows, const StepContext& context);
    void run(const Experts& op, Rows rows, const StepContext& context);
    void run(const GatherOutputs& op, Rows rows, const StepContext& context);

    /// in: [rows.n][in_stride]. All matrices read the same rows.
    void multiply(std::span<const Matrix> matrices,
                  const float* in,
                  std::size_t in_stride,
                  Rows rows);
    void multiply_decode(std::span<const Matrix> matrices,
                         const float* in,
                         std::size_t in_stride,
                         int n);
    void multiply_prefill(std::span<const Matrix> matrices,
                          const float* in,
                          std::size_t in_stride,
                          int n);
    /// Packs n rows and returns where row 0 is; the stride is packed_bytes(k).
    const std::byte* pack_rows(const float* in, std::size_t in_stride, std::size_t k, int n);
    void store_kv(const Attention& op, const StepContext& context);
    void attend(const Attention& op, const StepContext& context);
    kernels::LinearArgs linear_args(const Matrix& matrix,
                                    const float* in,
                                    std::size_t in_stride,
                                    const std::byte* packed) const;
    bool needs_packing(std::span<const Matrix> matrices) const;
    /// Decode class: weight rows [first, first + n_rows) times n_columns columns.
    void multiply_run(const Matrix& matrix,
                      kernels::LinearArgs args,
                      std::size_t first,
                      std::size_t n_rows,
                      int n_columns) const;
    void attend_item(const Attention& op,
                     const StepContext& context,
                     const AttentionItem& item,
                     ThreadScratch& scratch);
    /// Groups the rows' choices by the expert, of those that are here.
    void group_by_expert(const Experts& op, const StepContext& context, const ClassRows& rows);
    void run_experts(const Experts& op, const StepContext& context, const ClassRows& rows);

    /// Calls body(i) for 0 ≤ i < n, shared among the threads where n · cost is worth it.
    template <class Body>
    void for_each(int n, std::size_t cost, const Body& body);
    /// Calls body(item, thread) for 0 ≤ item < n; threads take the next item as they come free.
    template <class Body>
    void share_items(int n, const Body& body);

    const kernels::KernelTable& kernels_;
    ThreadPool& pool_;
    std::map<std::byte*, std::size_t> chunks_;
    std::uint64_t n_refused_ = 0;
    AlignedBuffer<std::byte> packed_;
    std::vector<ThreadScratch> scratch_;  // by thread
    std::vector<AttentionItem> attention_items_;
    Routing routing_;
    std::atomic<int> next_item_{0};
    std::uint64_t n_submitted_ = 0;
};

}  // namespace ballast::backend
