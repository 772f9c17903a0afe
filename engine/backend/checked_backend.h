// SPDX-License-Identifier: MIT
// A backend that tells an AccessChecker of every call before it hands it on.
#pragma once

#include <memory>

#include "engine/backend/access_checker.h"
#include "engine/backend/backend.h"

namespace ballast::backend {

/// Watches a device, or the CPU, whose work is over when its call returns. Both of a pair share one
/// checker. What it hands on to is its own or outlives it.
class CheckedBackend final : public Backend {
  public:
    CheckedBackend(Backend& inner, std::shared_ptr<AccessChecker> checker);
    CheckedBackend(std::unique_ptr<Backend> inner, std::shared_ptr<AccessChecker> checker);
    ~CheckedBackend() override;
    CheckedBackend(const CheckedBackend&) = delete;
    CheckedBackend& operator=(const CheckedBackend&) = delete;

    DeviceId device() const override { return inner_.device(); }
    std::string name() const override { return inner_.name(); }
    bool supports(const Op& op, quant::QuantType type) const override {
        return inner_.supports(op, type);
    }
    Status reserve(const StepLimits& limits) override { return inner_.reserve(limits); }
    Result<Chunk> allocate_chunk(std::size_t size_bytes) override;
    void free_chunk(Chunk chunk) override;
    MemoryUse memory_use() const override { return inner_.memory_use(); }
    Result<Chunk> allocate_host(std::size_t size_bytes) override;
    void free_host(Chunk chunk) override;
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
    void order_after(Queue queue, Event event) override;
    bool done(Event event) const override;
    Status wait(Event event) override;
    WorkTime work_time(Event event) const override { return inner_.work_time(event); }

  private:
    /// The device's queues are lanes of their own; all that the CPU does, the host does.
    Lane lane(Queue queue) const { return on_cpu() ? Lane::kHost : static_cast<Lane>(queue); }
    Side side() const { return on_cpu() ? Side::kHost : Side::kDevice; }
    bool on_cpu() const { return device() == DeviceId::kCpu; }
    /// Checks a copy of these strips, one way or the other.
    void check_copy(Queue queue,
                    const std::byte* device,
                    const std::byte* host,
                    const Strips& strips,
                    bool to_device);
    void bind_batch(std::span<const OpRecord> ops, const StepInput& input);
    void bind_views(const OpRecord& record, const StepContext& context);
    /// What was checked is on its queue, if it was taken.
    Result<Event> noted(Result<Event> event);

    std::unique_ptr<Backend> owned_;
    Backend& inner_;
    const std::shared_ptr<AccessChecker> checker_;
    std::vector<Touch> touches_;  // of one op
};

}  // namespace ballast::backend
