// SPDX-License-Identifier: MIT
// The table of CPU kernels of one instruction set. The scalar table is the specification; the
// others must agree with it within the tolerances that their tests derive. Shapes are in elements,
// strides in elements unless they say bytes. Kernels run on one thread and take no memory.
//
// Weights are read where they are mapped, in GGUF's block layout. Activations meet quantised
// weights as 16-bit integers with one float32 scale per 32 elements ("packed" below); float weights
// (F32, F16, BF16) meet them unrounded.
//
// Two arithmetic classes (engine/base/ids.h). matvec is the decode class: a column's bits do not
// depend on how many columns are passed. matmul is the prefill class: likewise for any number of
// columns and any grouping of rows into calls. The two may differ from each other in low bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/cpu_features.h"
#include "engine/base/result.h"
#include "engine/quant/type_traits.h"

namespace ballast::kernels {

/// How activations must be given to a weight type's kernels.
enum class ActivationForm { kFloat, kPacked };

/// Widest pass of matvec.
constexpr int kMatvecColumnsMax = 8;

/// y[column][row] = Σ_k w[row][k] · x[column][k] for `n_rows` consecutive weight rows.
struct LinearArgs {
    const std::byte* weights = nullptr;  // first row
    std::size_t row_bytes = 0;           // from one row to the next
    std::size_t n_rows = 0;
    std::size_t k = 0;                       // row length, a multiple of the type's block
    const std::byte* activations = nullptr;  // column 0; float32[k] or packed, by the type's form
    std::size_t activation_bytes = 0;        // from one column to the next
    std::size_t n_columns = 0;
    float* out = nullptr;  // out[column * out_stride + row]
    std::size_t out_stride = 0;
    std::byte* scratch = nullptr;  // matmul only: scratch_bytes, 64-byte aligned, own thread
};

/// The kernels of one weight type. Null where the type has none.
struct LinearKernels {
    ActivationForm form = ActivationForm::kFloat;
    void (*matvec)(const LinearArgs&) = nullptr;  // n_columns ≤ kMatvecColumnsMax
    void (*matmul)(const LinearArgs&) = nullptr;  // any n_columns
};

/// Element type of the KV cache.
enum class KvType { kF32, kF16 };

/// Tokens in one KV block: attention is cut at multiples of it.
constexpr int kKvBlockTokens = 32;

/// Softmax attention of query rows of ONE key-value head over that head's paged keys and values.
/// Row r = (query token t, head h of the group) reads positions first(t)..position(t), where
/// first(t) = max(0, position(t) − window + 1) if window > 0, else 0. Scores are
/// soft_cap·tanh(q·k·scale / soft_cap) when soft_cap > 0, else q·k·scale. The online softmax
/// advances block by block (absolute blocks of kKvBlockTokens), so a row's bits do not depend on
/// what other rows are in the call.
struct AttentionArgs {
    KvType kv_type = KvType::kF16;
    // Block b of the sequence: keys at key_blocks[b], values at value_blocks[b], both
    // [kKvBlockTokens][head_dim] of kv_type for this head.
    const std::byte* const* key_blocks = nullptr;
    const std::byte* const* value_blocks = nullptr;
    std::size_t head_dim = 0;  // a multiple of 8; 256 at most
    // Query of (token t, head h): q + t * q_token_stride + h * q_head_stride, float32[head_dim].
    const float* q = nullptr;
    std::size_t q_token_stride = 0;
    std::size_t q_head_stride = 0;
    float* out = nullptr;  // same strides as q by out_*
    std::size_t out_token_stride = 0;
    std::size_t out_head_stride = 0;
    int n_tokens = 0;                 // tokens at consecutive positions
    int n_heads = 0;                  // query heads that share this key-value head
    std::int64_t first_position = 0;  // of token 0
    int window = 0;
    float scale = 1.0F;
    float soft_cap = 0.0F;
    std::byte* scratch = nullptr;  // attention_scratch_bytes, 64-byte aligned, own thread
};

/// All kernels of one instruction set. One constant object per set; never changes.
struct KernelTable {
    Isa isa = Isa::kScalar;

    /// The kernels of a weight type (fields null if there are none).
    LinearKernels (*linear)(quant::QuantType type) = nullptr;

    /// Bytes of one packed column of k elements (k a multiple of 32), a multiple of 64.
    std::size_t (*packed_bytes)(std::size_t k) = nullptr;
    /// Packs one column: per 32 elements scale = max|x| / 32512 and the nearest step
    /// of each that split_planes() can hold.
    void (*pack)(const float* x, std::size_t k, std::byte* out) = nullptr;

    /// Scratch one thread needs for matmul with this k, and for attention.
    std::size_t (*matmul_scratch_bytes)(std::size_t k) = nullptr;
    std::size_t attention_scratch_bytes = 0;

    /// Expands one weight row to float32 (embedding look-up). Equal bits in every table.
    void (*dequantize_row)(quant::QuantType type,
                           const std::byte* row,
                           std::size_t n,
                           float* out) = nullptr;

    /// out = x / sqrt(mean(x²) + epsilon) · weight; n elements; out may be x.
    void (*rms_norm)(
        const float* x, const float* weight, std::size_t n, float epsilon, float* out) = nullptr;
    /// x += y.
    void (*add)(float* x, const float* y, std::size_t n) = nullptr;
    /// out = silu(gate) · up; out may be gate.
    void (*silu_multiply)(const float* gate, const float* up, std::size_t n, float* out) = nullptr;
    /// out = gelu_tanh(gate) · up; out may be gate.
    void (*gelu_multiply)(const float* gate, const float* up, std::size_t n, float* out) = nullptr;
    /// Rotates one head in place. cos and sin: [n_rotated / 2]. Interleaved pairs are (2i, 2i+1);
    /// otherwise (i, i + n_rotated/2).
    void (*rope)(float* head,
                 const float* cos,
                 const float* sin,
                 std::size_t n_rotated,
                 bool interleaved) = nullptr;
    /// Converts n elements to the KV element type.
    void (*store_kv)(const float* x, std::size_t n, KvType type, std::byte* out) = nullptr;
    void (*attention)(const AttentionArgs&) = nullptr;
};

/// The table of an instruction set, or null if this build or this processor lacks it.
const KernelTable* find_kernels(Isa isa);

/// The fastest table this processor can run, or the one BALLAST_FORCE_ISA named (passed in by the
/// configuration as `forced`, "" for none). kUnsupported if it is unknown or cannot run here.
Result<const KernelTable*> choose_kernels(const std::string& forced);

}  // namespace ballast::kernels
