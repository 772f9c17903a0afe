// SPDX-License-Identifier: MIT
// A page a block, in it every layer's share of the device; copies in order of the steps.
#include "engine/cache/kv_mirror.h"

#include <algorithm>
#include <cstring>

#include "engine/backend/put_or_wait.h"
#include "engine/base/check.h"

namespace ballast::cache {

namespace {

constexpr int kBlockRows = kernels::kKvBlockTokens;
// So many rows cross together: each copy has a price, and a lost device costs the rest.
constexpr int kRowsAtOnce = 8;
// Of blocks that a step has not touched, so many follow with it.
constexpr int kBacklogAtOnce = 4;
constexpr std::size_t kCrossingsMost = 256;

}  // namespace

Result<std::unique_ptr<KvMirror>> KvMirror::create(const Setup& setup) {
    std::unique_ptr<KvMirror> mirror(new KvMirror(setup));
    mirror->lay_out();
    const auto n_blocks = static_cast<std::size_t>(setup.blocks->n_blocks());
    const std::size_t page_bytes = mirror->page_bytes_;
    const auto n_pages = page_bytes == 0 ? std::size_t{0}
                                         : static_cast<std::size_t>(std::min<std::uint64_t>(
                                               n_blocks, setup.bytes_most / page_bytes));
    if (n_pages > 0) {
        BALLAST_TRY(mirror->pages_, setup.host->allocate_chunk(n_pages * page_bytes));
    }
    for (std::size_t page = n_pages; page > 0; --page) {
        mirror->free_pages_.push_back(static_cast<std::int32_t>(page - 1));
    }
    mirror->blocks_.resize(n_blocks);
    mirror->crossings_.reserve(kCrossingsMost);
    for (const BlockRun& run : setup.blocks->used()) {
        for (int i = 0; i < run.n; ++i) {
            mirror->blocks_[index(run.first + i)].n_written = kBlockRows;
        }
    }
    return mirror;
}

KvMirror::~KvMirror() {
    finish();
    if (pages_.data != nullptr) {
        setup_.host->free_chunk(pages_);
    }
}

void KvMirror::lay_out() {
    const std::span<const backend::KvLayerView> layers = setup_.cache->layers();
    layers_.resize(layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
        if (setup_.cache->n_heads_on(static_cast<int>(i), DeviceId::kDevice) == 0) {
            continue;
        }
        // The device's heads are the first ones.
        const backend::KvRangeView& range = layers[i].ranges.front();
        layers_[i] = {.range = range, .offset = page_bytes_};
        page_bytes_ += 2 * range.block_bytes;
        row_bytes_ = range.head_bytes / static_cast<std::size_t>(kBlockRows);
    }
}

template <class Use>
void KvMirror::for_each_block(std::span<const backend::SequenceRows> rows, const Use& use) const {
    for (const backend::SequenceRows& sequence : rows) {
        const std::int64_t end = sequence.first_position + sequence.n_rows;
        for (std::int64_t at = sequence.first_position; at < end;) {
            const std::int64_t number = at / kBlockRows;
            const std::int64_t next = std::min(end, (number + 1) * kBlockRows);
            use(sequence.blocks[static_cast<std::size_t>(number)],
                static_cast<int>(at % kBlockRows),
                static_cast<int>(next - number * kBlockRows));
            at = next;
        }
    }
}

void KvMirror::settle(std::size_t n_at_least) {
    std::size_t n = 0;
    while (n < crossings_.size() && !broken_ &&
           (n < n_at_least || setup_.device->done(crossings_[n].event))) {
        const Crossing& crossing = crossings_[n];
        if (!setup_.device->wait(crossing.event)) {
            broken_ = true;
            break;
        }
        Block& block = blocks_[index(crossing.block)];
        if (block.n_here >= crossing.begin) {
            block.n_here = std::max(block.n_here, crossing.end);
        }
        ++n;
    }
    if (broken_) {
        crossings_.clear();
    } else {
        crossings_.erase(crossings_.begin(), crossings_.begin() + static_cast<std::ptrdiff_t>(n));
    }
}

void KvMirror::before(std::span<const backend::SequenceRows> rows) {
    for_each_block(rows, [&](std::int32_t number, int begin, int /*end*/) {
        for (std::size_t i = crossings_.size(); i > 0; --i) {
            if (crossings_[i - 1].block == number && crossings_[i - 1].end > begin) {
                settle(i);
                break;
            }
        }
        Block& block = blocks_[index(number)];
        block.n_written = std::min(block.n_written, begin);
        block.n_ordered = std::min(block.n_ordered, begin);
        block.n_here = std::min(block.n_here, begin);
    });
}

void KvMirror::note(std::span<const backend::SequenceRows> rows) {
    if (page_bytes_ == 0 || broken_) {
        return;
    }
    settle(0);
    for_each_block(rows, [&](std::int32_t number, int begin, int end) {
        Block& block = blocks_[index(number)];
        BALLAST_CHECK(block.n_ordered <= begin);
        block.n_written = end;
        order_if_due(number);
    });
    int n_more = kBacklogAtOnce;
    for (std::size_t i = 0; i < blocks_.size() && n_more > 0; ++i) {
        backlog_ = (backlog_ + 1) % blocks_.size();
        const auto number = static_cast<std::int32_t>(backlog_);
        if (setup_.blocks->references(number) > 0 &&
            blocks_[backlog_].n_written > blocks_[backlog_].n_ordered) {
            order_if_due(number);
            --n_more;
        }
    }
}

void KvMirror::order_if_due(std::int32_t number) {
    const Block& block = blocks_[index(number)];
    const bool is_due = block.n_written - block.n_ordered >= kRowsAtOnce ||
                        (block.n_written == kBlockRows && block.n_ordered < kBlockRows);
    if (!is_due || broken_ || !has_page(number)) {
        return;
    }
    if (crossings_.size() == kCrossingsMost) {
        settle(1);
    }
    broken_ = broken_ || !order(number);
}

Status KvMirror::order(std::int32_t number) {
    Block& block = blocks_[index(number)];
    const auto begin = static_cast<std::size_t>(block.n_ordered);
    const auto n_rows = static_cast<std::size_t>(block.n_written) - begin;
    std::byte* const page = pages_.data + static_cast<std::size_t>(block.page) * page_bytes_;
    for (const LayerPart& layer : layers_) {
        if (layer.range.n_heads == 0) {
            continue;
        }
        const backend::Strips strips{.row_bytes = n_rows * row_bytes_,
                                     .n_rows = static_cast<std::size_t>(layer.range.n_heads),
                                     .device_stride = layer.range.head_bytes,
                                     .host_stride = layer.range.head_bytes};
        const std::size_t from = index(number) * layer.range.block_bytes + begin * row_bytes_;
        const std::size_t to = layer.offset + begin * row_bytes_;
        BALLAST_TRY_STATUS(backend::put_or_wait(*setup_.device, last_, [&] {
            return setup_.device->copy_strips_out(
                backend::Queue::kCopy, page + to, layer.range.keys + from, strips);
        }));
        BALLAST_TRY_STATUS(backend::put_or_wait(*setup_.device, last_, [&] {
            return setup_.device->copy_strips_out(backend::Queue::kCopy,
                                                  page + layer.range.block_bytes + to,
                                                  layer.range.values + from,
                                                  strips);
        }));
        if (setup_.crossed != nullptr) {
            setup_.crossed->out_bytes += 2 * strips.total_bytes();
        }
    }
    crossings_.push_back({*last_, number, block.n_ordered, block.n_written});
    block.n_ordered = block.n_written;
    return {};
}

bool KvMirror::has_page(std::int32_t number) {
    Block& block = blocks_[index(number)];
    if (block.page < 0 && free_pages_.empty()) {
        reclaim_pages();
    }
    if (block.page < 0 && !free_pages_.empty()) {
        block.page = free_pages_.back();
        free_pages_.pop_back();
    }
    return block.page >= 0;
}

void KvMirror::reclaim_pages() {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        if (blocks_[i].page >= 0 && setup_.blocks->references(static_cast<std::int32_t>(i)) == 0) {
            // Copies into the page are in order with those that follow.
            free_pages_.push_back(blocks_[i].page);
            blocks_[i] = {};
        }
    }
}

void KvMirror::finish() {
    settle(crossings_.size());
    if (last_) {
        // Also after a failure: nothing may still be on its way when memory is given back.
        static_cast<void>(setup_.device->wait(*last_));
        last_.reset();
    }
}

void KvMirror::restore(int layer, const backend::KvRangeView& to) const {
    const LayerPart& part = layers_[static_cast<std::size_t>(layer)];
    BALLAST_CHECK(part.range.n_heads > 0 && to.first_head == 0 && to.n_heads >= part.range.n_heads);
    for (std::size_t number = 0; number < blocks_.size(); ++number) {
        const Block& block = blocks_[number];
        const std::size_t n_bytes = static_cast<std::size_t>(block.n_here) * row_bytes_;
        for (int head = 0; head < part.range.n_heads && n_bytes > 0; ++head) {
            const std::size_t in_block = static_cast<std::size_t>(head) * to.head_bytes;
            const std::byte* const keys = pages_.data +
                                          static_cast<std::size_t>(block.page) * page_bytes_ +
                                          part.offset + in_block;
            const std::size_t at = number * to.block_bytes + in_block;
            std::memcpy(to.keys + at, keys, n_bytes);
            std::memcpy(to.values + at, keys + part.range.block_bytes, n_bytes);
        }
    }
}

}  // namespace ballast::cache
