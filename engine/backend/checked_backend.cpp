// SPDX-License-Identifier: MIT
// Each call: what it touches, the check, the call itself, and the note that it was taken.
#include "engine/backend/checked_backend.h"

#include <variant>

#include "engine/backend/op_access.h"

namespace ballast::backend {

CheckedBackend::CheckedBackend(Backend& inner, std::shared_ptr<AccessChecker> checker)
    : inner_(inner), checker_(std::move(checker)) {}

CheckedBackend::CheckedBackend(std::unique_ptr<Backend> inner,
                               std::shared_ptr<AccessChecker> checker)
    : owned_(std::move(inner)), inner_(*owned_), checker_(std::move(checker)) {}

CheckedBackend::~CheckedBackend() {
    if (!on_cpu()) {
        checker_->device_gone();
    }
}

Result<Chunk> CheckedBackend::allocate_chunk(std::size_t size_bytes) {
    BALLAST_TRY(const Chunk chunk, inner_.allocate_chunk(size_bytes));
    checker_->allocated(side(), chunk);
    return chunk;
}

void CheckedBackend::free_chunk(Chunk chunk) {
    checker_->freeing(side(), chunk);
    inner_.free_chunk(chunk);
}

Result<Chunk> CheckedBackend::allocate_host(std::size_t size_bytes) {
    BALLAST_TRY(const Chunk chunk, inner_.allocate_host(size_bytes));
    checker_->allocated(Side::kHost, chunk);
    return chunk;
}

void CheckedBackend::free_host(Chunk chunk) {
    checker_->freeing(Side::kHost, chunk);
    inner_.free_host(chunk);
}

void CheckedBackend::check_copy(Queue queue,
                                const std::byte* device,
                                const std::byte* host,
                                const Strips& strips,
                                bool to_device) {
    const WorkLabel label{.what = to_device ? "copy in" : "copy out"};
    ByteRows bytes{.data = device,
                   .row_bytes = strips.row_bytes,
                   .n_rows = strips.n_rows,
                   .stride = strips.device_stride};
    checker_->begin(lane(queue));
    checker_->touch(side(), {.bytes = bytes, .writes = to_device}, label);
    bytes.data = host;
    bytes.stride = strips.host_stride;
    checker_->touch(Side::kHost, {.bytes = bytes, .writes = !to_device}, label);
    checker_->check();
}

Result<Event> CheckedBackend::noted(Result<Event> event) {
    if (event && !on_cpu()) {
        checker_->put(*event);
    }
    return event;
}

Result<Event> CheckedBackend::copy_in(std::byte* device, std::span<const std::byte> host) {
    check_copy(Queue::kCopy, device, host.data(), {.row_bytes = host.size()}, true);
    return noted(inner_.copy_in(device, host));
}

Result<Event> CheckedBackend::copy_out(std::span<std::byte> host, const std::byte* device) {
    check_copy(Queue::kCopy, device, host.data(), {.row_bytes = host.size()}, false);
    return noted(inner_.copy_out(host, device));
}

Result<Event> CheckedBackend::copy_strips_in(Queue queue,
                                             std::byte* device,
                                             const std::byte* host,
                                             const Strips& strips) {
    check_copy(queue, device, host, strips, true);
    return noted(inner_.copy_strips_in(queue, device, host, strips));
}

Result<Event> CheckedBackend::copy_strips_out(Queue queue,
                                              std::byte* host,
                                              const std::byte* device,
                                              const Strips& strips) {
    check_copy(queue, device, host, strips, false);
    return noted(inner_.copy_strips_out(queue, host, device, strips));
}

void CheckedBackend::bind_batch(std::span<const OpRecord> ops, const StepInput& input) {
    const WorkLabel label{.what = "its ops or batch"};
    checker_->bind(std::as_bytes(ops), label);
    checker_->bind(std::as_bytes(input.tokens), label);
    checker_->bind(std::as_bytes(input.output_rows), label);
    checker_->bind(std::as_bytes(input.sequences), label);
    for (const SequenceRows& sequence : input.sequences) {
        const std::int64_t end = sequence.first_position + sequence.n_rows;
        const std::int64_t n_blocks = (end + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
        checker_->bind(std::as_bytes(sequence.blocks.first(static_cast<std::size_t>(n_blocks))),
                       label);
    }
}

void CheckedBackend::bind_views(const OpRecord& record, const StepContext& context) {
    const WorkLabel label{.what = "a view", .layer = record.layer};
    const auto bind = [&](auto views, std::int64_t i) {
        checker_->bind(std::as_bytes(views.subspan(static_cast<std::size_t>(i), 1)), label);
    };
    const OpAccess access(record.op);
    for (const UnitId unit : access.units()) {
        bind(context.weights, unit);
    }
    for (const auto slots : {access.reads(), access.writes()}) {
        for (const SlotId slot : slots) {
            bind(context.slots, slot);
        }
    }
    if (const auto* attention = std::get_if<Attention>(&record.op)) {
        bind(context.kv, attention->layer);
        const KvLayerView& layer = context.kv[static_cast<std::size_t>(attention->layer)];
        checker_->bind(std::as_bytes(layer.ranges), label);
    }
    if (const auto* rope = std::get_if<Rope>(&record.op)) {
        bind(context.rope, rope->table);
    }
    const auto* experts = std::get_if<Experts>(&record.op);
    if (experts != nullptr && !context.experts.empty()) {
        bind(context.experts, experts->layer);
        checker_->bind(std::as_bytes(context.expert_slices(experts->layer).slice_of), label);
    }
}

Result<Event> CheckedBackend::submit(std::span<const OpRecord> ops, const StepContext& context) {
    checker_->begin(lane(Queue::kCompute));
    if (!on_cpu()) {
        bind_batch(ops, context.input);
    }
    for (const OpRecord& record : ops) {
        if (!on_cpu()) {
            bind_views(record, context);
        }
        touches_.clear();
        append_touches(record, context, touches_);
        for (const Touch& touch : touches_) {
            checker_->touch(side(), touch, {.what = name_of(record.op), .layer = record.layer});
        }
    }
    checker_->check();
    return noted(inner_.submit(ops, context));
}

void CheckedBackend::order_after(Queue queue, Event event) {
    if (!on_cpu()) {
        checker_->order_after(queue, event);
    }
    inner_.order_after(queue, event);
}

bool CheckedBackend::done(Event event) const {
    const bool done = inner_.done(event);
    if (done && !on_cpu()) {
        checker_->happened(event);
    }
    return done;
}

Status CheckedBackend::wait(Event event) {
    Status status = inner_.wait(event);
    if (!on_cpu()) {
        // It happened, whatever its queue says of it.
        checker_->happened(event);
    }
    return status;
}

}  // namespace ballast::backend
