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

Result<ReleasedDevice> Compute::release_device(bool is_trusted) {
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
        const Status moved =
            is_trusted ? cache_->move(layer, home, used)
                       : Status(fail(ErrorCode::kDeviceLost, "the device is not trusted"));
        if (!moved) {
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

Status Compute::start_device(std::uint64_t device_bytes) {
    BALLAST_CHECK(device_ == nullptr);
    scheduler::Plan nothing = {.placement = scheduler::cpu_only(catalog_)};
    BALLAST_TRY_STATUS(
        add_device(std::make_shared<const scheduler::Plan>(std::move(nothing)), device_bytes));
    device_->settle(kv_tokens());
    return make_executor(device_.get());
}

Status Compute::move_kv(int layer, int n_on_device) {
    return cache_->move(layer, kv_placements(layer, n_on_device), blocks_->used());
}

void Compute::kv_has_moved() {
    recovery_->settle(false);
    recovery_->begin(*device_backend_);
}

void Compute::follow_device() {
    device_->settle_parts(kv_tokens());
    executor_->follow_device();
}

}  // namespace ballast::runtime
