// SPDX-License-Identifier: MIT
// The probe of attention over a KV cache that is not in the caches.
#pragma once

#include <vector>

#include "engine/runtime/probes.h"

namespace ballast::runtime {

/// Heads as a model has them.
struct AttentionShape {
    int n_heads = 32;
    int n_kv_heads = 8;
    int head_dim = 128;
};

/// Attention of `tokens` rows of one sequence over kPositions positions of float16 keys and values,
/// through the backend, over as many layers as the memory holds. Bytes are those of the KV cache,
/// each counted once.
class AttentionProbe final : public Probe {
  public:
    static constexpr int kPositions = 1024;
    static constexpr int kBlocks = kPositions / kernels::kKvBlockTokens;

    /// Whether a layer of this shape fits into a segment of the memory.
    static bool fits(const AttentionShape& shape);
    AttentionProbe(ProbeStep& step,
                   ProbeMemory& memory,
                   const AttentionShape& shape,
                   int tokens,
                   const Clock& clock);
    Result<Sample> sample() override;

  private:
    ProbeStep& step_;
    const AttentionShape shape_;
    const int tokens_;
    const Clock& clock_;
    std::vector<backend::KvRangeView> layers_;
    std::vector<std::int32_t> blocks_;
    std::size_t layer_ = 0;
};

}  // namespace ballast::runtime
