// SPDX-License-Identifier: MIT
// How much of the running sequences' keys and values is left after a device was lost: what the host
// has a copy of.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/cache/kv_mirror.h"

namespace ballast::runtime {

/// Engine thread; cache, pool and host outlive it.
class KvRecovery {
  public:
    /// bytes_most: of the host, for copies; 0: none.
    KvRecovery(cache::KvCache& cache,
               const cache::BlockPool& blocks,
               backend::Backend& host,
               std::uint64_t bytes_most)
        : cache_(cache), blocks_(blocks), host_(host), bytes_most_(bytes_most) {}

    /// Heads are where they stay for a while; the device has some of them.
    void begin(backend::Backend& device);
    /// Heads are about to move: nothing is on its way any more.
    void end();

    /// A step is about to write the keys and values of these rows, and has done so.
    void before_step(std::span<const backend::SequenceRows> rows);
    void after_step(std::span<const backend::SequenceRows> rows);

    /// The heads of this layer, all at home by now, were on a device that is lost. After end().
    void restore(int layer);
    /// All heads are at home. If any were lost, what follows holds until forget_loss().
    void settle(bool is_lost);
    /// How many of a sequence's tokens, from the first on, are in the cache, of n_tokens that were.
    std::int64_t kept_tokens(std::span<const std::int32_t> blocks, std::int64_t n_tokens) const;
    void forget_loss() { kept_rows_.clear(); }

    /// Of the copies' memory.
    std::uint64_t total_bytes() const { return mirror_ != nullptr ? mirror_->total_bytes() : 0; }

  private:
    void note_loss();

    cache::KvCache& cache_;
    const cache::BlockPool& blocks_;
    backend::Backend& host_;
    const std::uint64_t bytes_most_;
    std::unique_ptr<cache::KvMirror> mirror_;  // null: none
    bool ended_ = false;                       // what it has is of the past
    std::vector<int> kept_rows_;               // by block, after a loss; empty: none
};

}  // namespace ballast::runtime
