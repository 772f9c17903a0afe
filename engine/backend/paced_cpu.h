// SPDX-License-Identifier: MIT
// The CPU as a slower one: no submission ends earlier than its modelled time. For reports and tests
// that compare forecasts with what really runs.
#pragma once

#include <memory>

#include "engine/backend/backend.h"
#include "engine/backend/paced_memory.h"

namespace ballast::backend {

/// A rate of 0 paces nothing.
struct CpuPace {
    double read_gbps = 0.0;  // 1e9 bytes a second of weights, keys and values that ops read
    double gflops = 0.0;     // 1e9 operations a second
    double dram_gbps = 0.0;  // of CPU and copies together

    bool is_set() const { return read_gbps > 0.0 || gflops > 0.0 || dram_gbps > 0.0; }
};

/// Hands everything on to another backend, and returns from submit() when the time is over. Tells
/// the memory what it reads meanwhile. The backend and the clock outlive it.
class PacedCpu final : public Backend {
  public:
    PacedCpu(Backend& inner,
             const Clock& clock,
             const CpuPace& pace,
             std::shared_ptr<PacedMemory> memory)
        : inner_(inner), clock_(clock), pace_(pace), memory_(std::move(memory)) {}

    DeviceId device() const override { return inner_.device(); }
    std::string name() const override { return inner_.name(); }
    bool supports(const Op& op, quant::QuantType type) const override {
        return inner_.supports(op, type);
    }
    Status reserve(const StepLimits& limits) override { return inner_.reserve(limits); }
    Result<Chunk> allocate_chunk(std::size_t size_bytes) override {
        return inner_.allocate_chunk(size_bytes);
    }
    void free_chunk(Chunk chunk) override { inner_.free_chunk(chunk); }
    MemoryUse memory_use() const override { return inner_.memory_use(); }
    Result<Chunk> allocate_host(std::size_t size_bytes) override {
        return inner_.allocate_host(size_bytes);
    }
    void free_host(Chunk chunk) override { inner_.free_host(chunk); }
    Result<Event> copy_in(std::byte* device, std::span<const std::byte> host) override {
        return inner_.copy_in(device, host);
    }
    Result<Event> copy_out(std::span<std::byte> host, const std::byte* device) override {
        return inner_.copy_out(host, device);
    }
    Result<Event> copy_strips_in(Queue queue,
                                 std::byte* device,
                                 const std::byte* host,
                                 const Strips& strips) override {
        return inner_.copy_strips_in(queue, device, host, strips);
    }
    Result<Event> copy_strips_out(Queue queue,
                                  std::byte* host,
                                  const std::byte* device,
                                  const Strips& strips) override {
        return inner_.copy_strips_out(queue, host, device, strips);
    }
    Result<Event> submit(std::span<const OpRecord> ops, const StepContext& context) override;
    void order_after(Queue queue, Event event) override { inner_.order_after(queue, event); }
    bool done(Event event) const override { return inner_.done(event); }
    Status wait(Event event) override { return inner_.wait(event); }
    WorkTime work_time(Event event) const override { return inner_.work_time(event); }

  private:
    Backend& inner_;
    const Clock& clock_;
    const CpuPace pace_;
    const std::shared_ptr<PacedMemory> memory_;
};

}  // namespace ballast::backend
