// SPDX-License-Identifier: MIT
// A mirror for as long as heads stay where they are, and the count of rows after a loss.
#include "engine/runtime/kv_recovery.h"

#include <algorithm>

#include "engine/base/log.h"

namespace ballast::runtime {

void KvRecovery::begin(backend::Backend& device) {
    mirror_.reset();
    ended_ = false;
    if (cache_.bytes_on(DeviceId::kDevice) == 0 || bytes_most_ == 0) {
        return;
    }
    auto mirror = cache::KvMirror::create({.cache = &cache_,
                                           .blocks = &blocks_,
                                           .device = &device,
                                           .host = &host_,
                                           .bytes_most = bytes_most_,
                                           .crossed = &cache_.crossed()});
    if (mirror) {
        mirror_ = std::move(*mirror);
    } else {
        log_warning("keys and values of the device have no copy on the host: {}",
                    mirror.error().message);
    }
}

void KvRecovery::end() {
    ended_ = true;
    if (mirror_ != nullptr) {
        mirror_->finish();
    }
}

void KvRecovery::before_step(std::span<const backend::SequenceRows> rows) {
    if (mirror_ != nullptr && !ended_) {
        mirror_->before(rows);
    }
}

void KvRecovery::after_step(std::span<const backend::SequenceRows> rows) {
    if (mirror_ != nullptr && !ended_) {
        mirror_->note(rows);
    }
}

void KvRecovery::restore(int layer) {
    if (mirror_ != nullptr) {
        const auto& ranges = cache_.layers()[static_cast<std::size_t>(layer)].ranges;
        mirror_->restore(layer, ranges.front());
    }
}

void KvRecovery::settle(bool is_lost) {
    if (is_lost) {
        note_loss();
    }
    mirror_.reset();
}

void KvRecovery::note_loss() {
    const bool is_first = kept_rows_.empty();
    kept_rows_.resize(static_cast<std::size_t>(blocks_.n_blocks()));
    for (std::size_t i = 0; i < kept_rows_.size(); ++i) {
        const int n = mirror_ != nullptr ? mirror_->rows_of(static_cast<std::int32_t>(i)) : 0;
        kept_rows_[i] = is_first ? n : std::min(n, kept_rows_[i]);
    }
}

std::int64_t KvRecovery::kept_tokens(std::span<const std::int32_t> blocks,
                                     std::int64_t n_tokens) const {
    if (kept_rows_.empty()) {
        return n_tokens;
    }
    std::int64_t n_kept = 0;
    for (const std::int32_t block : blocks) {
        const int n_rows = kept_rows_[static_cast<std::size_t>(block)];
        n_kept += n_rows;
        if (n_rows < kernels::kKvBlockTokens) {
            break;
        }
    }
    return std::min(n_kept, n_tokens);
}

}  // namespace ballast::runtime
