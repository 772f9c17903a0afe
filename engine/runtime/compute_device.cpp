// SPDX-License-Identifier: MIT
// The part of Compute that changes while the engine runs: the device's share is given back, and
// taken again for another plan.
#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/base/log.h"
#include "engine/runtime/compute.h"

namespace ballast::runtime {

backend::MemoryUse Compute::device_use() const {
    return device_backend_ != nullptr ? device_backend_->memory_use() : backend::MemoryUse{};
}

std::uint64_t Compute::booked_bytes() const {
    return (device_ != nullptr ? device_->held_bytes() : 0) + cache_->bytes_on(DeviceId::kDevice);
}

Result<ReleasedDevice> Compute::release_device() {
    ReleasedDevice released = {.bytes = device_use().bytes, .n_groups = residency().n_on_device()};
    if (device_ == nullptr) {
        return released;
    }
    recovery_->end();
    const std::vector<cache::BlockRun> used = blocks_->used();
    for (int layer = 0; layer < model_.config().n_layers; ++layer) {
        if (cache_->n_heads_on(layer, DeviceId::kDevice) == 0) {
            continue;
        }
        const auto home = kv_placements(layer, 0);
        if (const Status moved = cache_->move(layer, home, used); !moved) {
            log_debug("keys and values of layer {} are lost: {}", layer, moved.error().message);
            BALLAST_TRY_STATUS(cache_->move_without_device(layer, home, used));
            recovery_->restore(layer);
            released.kv_lost = true;
        }
        ++released.n_kv_layers;
    }
    recovery_->settle(released.kv_lost);
    // It knows the device's side, which goes after it.
    BALLAST_TRY_STATUS(make_executor(nullptr));
    device_.reset();
    return released;
}

void Compute::drop_device() {
    BALLAST_CHECK(device_ == nullptr);
    device_backend_.reset();
}

scheduler::Plan Compute::plan_for(std::uint64_t device_bytes) {
    if (shape_.plan != nullptr) {
        return *shape_.plan;
    }
    return scheduler_->plan_for(static_cast<double>(room_of(device_bytes)));
}

Status Compute::move_kv_to_device() {
    const std::vector<cache::BlockRun> used = blocks_->used();
    for (int layer = 0; layer < model_.config().n_layers; ++layer) {
        const int n_there = device_->attending_heads(layer);
        if (n_there == 0) {
            continue;
        }
        Status moved = cache_->move(layer, kv_placements(layer, n_there), used);
        if (!moved && moved.error().code != ErrorCode::kOutOfMemory) {
            return moved;
        }
        if (!moved) {
            device_->give_up_attention(layer);
        }
    }
    return {};
}

Result<BuiltDevice> Compute::build_device(scheduler::Plan plan,
                                          std::uint64_t device_bytes,
                                          const PlanNote& note) {
    BALLAST_CHECK(device_ == nullptr);
    scheduler_->adopt(
        std::move(plan), static_cast<double>(room_of(device_bytes)), note.cause, note.why);
    Status status = add_device(scheduler_->plan(), device_bytes);
    if (status) {
        status = move_kv_to_device();
    }
    if (status) {
        device_->settle(cpu_only_.kv_tokens);
        status = make_executor(device_.get());
    }
    if (status) {
        recovery_->begin(*device_backend_);
    }
    BuiltDevice built = {.status = std::move(status)};
    if (!built.status && device_ != nullptr) {
        BALLAST_TRY(const ReleasedDevice released, release_device());
        built.kv_lost = released.kv_lost;
    }
    return built;
}

void Compute::plan_without_device(const PlanNote& note) {
    scheduler_->adopt(scheduler_->plan_for(0.0), 0.0, note.cause, note.why);
}

}  // namespace ballast::runtime
