// SPDX-License-Identifier: MIT
// Speed of the CPU kernels, one thread. matvec walks through weights much larger than the caches
// and reports bytes of weights per second, beside a probe that only reads them; matmul and
// attention report operations per second (a multiply-add counts as two).
//   kernels_bench --benchmark_filter='matvec/avx512'
#include <cstring>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "engine/base/aligned_buffer.h"
#include "engine/base/rng.h"
#include "engine/kernels/cpu/kernel_table.h"

namespace ballast::kernels {
namespace {

using quant::QuantType;

constexpr QuantType kTypes[] = {QuantType::kQ4_0,
                                QuantType::kQ4_1,
                                QuantType::kQ5_0,
                                QuantType::kQ5_1,
                                QuantType::kQ8_0,
                                QuantType::kQ4_K,
                                QuantType::kQ5_K,
                                QuantType::kQ6_K,
                                QuantType::kF16,
                                QuantType::kF32};

constexpr std::size_t kPoolBytes = std::size_t{192} << 20U;

/// Random codes; every half word is a small finite half, so that no scale is infinite.
void fill_weights(std::byte* out, std::size_t n) {
    Rng rng(1);
    for (std::size_t i = 0; i + 8 <= n; i += 8) {
        const std::uint64_t word = rng.next() & 0x3BFF3BFF3BFF3BFFULL;
        std::memcpy(out + i, &word, sizeof word);
    }
}

AlignedBuffer<std::byte>& pool() {
    static AlignedBuffer<std::byte> weights = [] {
        AlignedBuffer<std::byte> bytes(kPoolBytes);
        fill_weights(bytes.data(), bytes.size());
        return bytes;
    }();
    return weights;
}

struct Columns {
    AlignedBuffer<std::byte> bytes;
    std::size_t stride = 0;
};

Columns make_columns(const KernelTable& table, ActivationForm form, std::size_t k, std::size_t n) {
    Columns columns;
    columns.stride = form == ActivationForm::kPacked ? table.packed_bytes(k) : k * sizeof(float);
    columns.bytes = AlignedBuffer<std::byte>(columns.stride * n);
    Rng rng(2);
    std::vector<float> x(k);
    for (std::size_t c = 0; c < n; ++c) {
        for (float& value : x) {
            value = static_cast<float>(rng.uniform()) - 0.5F;
        }
        std::byte* out = columns.bytes.data() + c * columns.stride;
        if (form == ActivationForm::kPacked) {
            table.pack(x.data(), k, out);
        } else {
            std::memcpy(out, x.data(), k * sizeof(float));
        }
    }
    return columns;
}

void matvec(benchmark::State& state,
            const KernelTable& table,
            QuantType type,
            std::size_t k,
            std::size_t n_columns,
            std::size_t pool_bytes) {
    const LinearKernels kernels = table.linear(type);
    const std::size_t row_bytes = quant::row_bytes(type, k);
    const std::size_t n_rows = pool_bytes / row_bytes;
    const Columns columns = make_columns(table, kernels.form, k, n_columns);
    std::vector<float> out(n_rows * n_columns);
    for (auto _ : state) {
        kernels.matvec({.weights = pool().data(),
                        .row_bytes = row_bytes,
                        .n_rows = n_rows,
                        .k = k,
                        .activations = columns.bytes.data(),
                        .activation_bytes = columns.stride,
                        .n_columns = n_columns,
                        .out = out.data(),
                        .out_stride = n_rows});
        benchmark::DoNotOptimize(out.data());
    }
    const auto passes = static_cast<double>(state.iterations());
    const auto bytes = static_cast<double>(n_rows * row_bytes);
    state.counters["GB/s"] = benchmark::Counter(passes * bytes * 1e-9, benchmark::Counter::kIsRate);
    state.counters["columns*GB/s"] = benchmark::Counter(
        passes * bytes * 1e-9 * static_cast<double>(n_columns), benchmark::Counter::kIsRate);
}

void matmul(benchmark::State& state,
            const KernelTable& table,
            QuantType type,
            std::size_t n_rows,
            std::size_t k,
            std::size_t n_columns) {
    const LinearKernels kernels = table.linear(type);
    const Columns columns = make_columns(table, kernels.form, k, n_columns);
    std::vector<float> out(n_rows * n_columns);
    AlignedBuffer<std::byte> scratch(table.matmul_scratch_bytes(k));
    for (auto _ : state) {
        kernels.matmul({.weights = pool().data(),
                        .row_bytes = quant::row_bytes(type, k),
                        .n_rows = n_rows,
                        .k = k,
                        .activations = columns.bytes.data(),
                        .activation_bytes = columns.stride,
                        .n_columns = n_columns,
                        .out = out.data(),
                        .out_stride = n_rows,
                        .scratch = scratch.data()});
        benchmark::DoNotOptimize(out.data());
    }
    const double operations = 2e-9 * static_cast<double>(n_rows) * static_cast<double>(k) *
                              static_cast<double>(n_columns);
    state.counters["GOPS"] = benchmark::Counter(
        static_cast<double>(state.iterations()) * operations, benchmark::Counter::kIsRate);
}

void attention(benchmark::State& state,
               const KernelTable& table,
               std::size_t head_dim,
               int n_heads,
               int n_tokens,
               int context) {
    const std::size_t n_blocks = static_cast<std::size_t>(context) / kKvBlockTokens;
    const std::size_t block_bytes = kKvBlockTokens * head_dim * 2;
    std::vector<const std::byte*> keys;
    std::vector<const std::byte*> values;
    for (std::size_t b = 0; b < n_blocks; ++b) {
        keys.push_back(pool().data() + 2 * b * block_bytes);
        values.push_back(pool().data() + (2 * b + 1) * block_bytes);
    }
    const auto n_rows = static_cast<std::size_t>(n_tokens * n_heads);
    std::vector<float> q(n_rows * head_dim, 0.1F);
    std::vector<float> out(q.size());
    AlignedBuffer<std::byte> scratch(table.attention_scratch_bytes);
    const std::size_t token_stride = static_cast<std::size_t>(n_heads) * head_dim;
    for (auto _ : state) {
        table.attention({.kv_type = KvType::kF16,
                         .key_blocks = keys.data(),
                         .value_blocks = values.data(),
                         .head_dim = head_dim,
                         .q = q.data(),
                         .q_token_stride = token_stride,
                         .q_head_stride = head_dim,
                         .out = out.data(),
                         .out_token_stride = token_stride,
                         .out_head_stride = head_dim,
                         .n_tokens = n_tokens,
                         .n_heads = n_heads,
                         .first_position = context - n_tokens,
                         .scale = 0.01F,
                         .scratch = scratch.data()});
        benchmark::DoNotOptimize(out.data());
    }
    const double pairs = static_cast<double>(n_rows) * (context - 0.5 * (n_tokens - 1));
    state.counters["GFLOPS"] = benchmark::Counter(
        static_cast<double>(state.iterations()) * pairs * static_cast<double>(head_dim) * 4e-9,
        benchmark::Counter::kIsRate);
}

void read_probe(benchmark::State& state) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(pool().data());
    constexpr std::size_t kWords = kPoolBytes / sizeof(std::uint64_t);
    for (auto _ : state) {
        std::uint64_t sum[8] = {};
        for (std::size_t i = 0; i < kWords; i += 8) {
            __builtin_prefetch(words + i + 1024);
            for (std::size_t j = 0; j < 8; ++j) {
                sum[j] += words[i + j];
            }
        }
        benchmark::DoNotOptimize(sum);
    }
    state.counters["GB/s"] = benchmark::Counter(
        static_cast<double>(state.iterations()) * kPoolBytes * 1e-9, benchmark::Counter::kIsRate);
}

void register_linear(const KernelTable& table) {
    const std::string isa = isa_name(table.isa);
    for (const QuantType type : kTypes) {
        const std::string name = isa + "/" + std::string(quant::traits(type).name);
        const std::size_t small_k = quant::traits(type).block_elements == 256 ? 768 : 576;
        for (const std::size_t k : {small_k, std::size_t{1536}}) {
            for (const std::size_t n : {1U, 4U, 8U}) {
                benchmark::RegisterBenchmark(
                    ("matvec/" + name + "/k" + std::to_string(k) + "/" + std::to_string(n)).c_str(),
                    [&table, type, k, n](benchmark::State& state) {
                        matvec(state, table, type, k, n, kPoolBytes);
                    });
            }
        }
        benchmark::RegisterBenchmark(("matvec_hot/" + name + "/k1536").c_str(),
                                     [&table, type](benchmark::State& state) {
                                         matvec(state, table, type, 1536, 1, 256 * 1024);
                                     });
        for (const std::size_t n : {12U, 64U, 512U}) {
            benchmark::RegisterBenchmark(
                ("matmul/" + name + "/1536x" + std::to_string(small_k) + "/" + std::to_string(n))
                    .c_str(),
                [&table, type, small_k, n](benchmark::State& state) {
                    matmul(state, table, type, 1536, small_k, n);
                });
        }
        benchmark::RegisterBenchmark(("matmul/" + name + "/2048x4096/512").c_str(),
                                     [&table, type](benchmark::State& state) {
                                         matmul(state, table, type, 2048, 4096, 512);
                                     });
    }
}

void register_attention(const KernelTable& table) {
    struct Shape {
        std::size_t head_dim;
        int n_heads;
        int n_tokens;
        int context;
    };
    for (const Shape s :
         {Shape{64, 3, 1, 1024}, {64, 3, 64, 1024}, {256, 4, 1, 1024}, {256, 4, 64, 1024}}) {
        benchmark::RegisterBenchmark(
            ("attention/" + std::string(isa_name(table.isa)) + "/dim" + std::to_string(s.head_dim) +
             "/heads" + std::to_string(s.n_heads) + "/tokens" + std::to_string(s.n_tokens) +
             "/context" + std::to_string(s.context))
                .c_str(),
            [&table, s](benchmark::State& state) {
                attention(state, table, s.head_dim, s.n_heads, s.n_tokens, s.context);
            });
    }
}

const bool kRegistered = [] {
    benchmark::RegisterBenchmark("read_probe", read_probe);
    for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
        if (const KernelTable* table = find_kernels(isa)) {
            register_linear(*table);
            register_attention(*table);
        }
    }
    return true;
}();

}  // namespace
}  // namespace ballast::kernels
