// SPDX-License-Identifier: MIT
// What is measured of a second device, through the Backend interface alone: its link, and what its
// kernels reach on weights in its memory.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/clock.h"
#include "engine/base/thread_pool.h"
#include "engine/runtime/link_probe.h"
#include "engine/runtime/probes.h"
#include "engine/runtime/profile_stage.h"

namespace ballast::runtime {

/// All outlive the probes. The memory has been taken before the first piece is.
struct DeviceParts {
    backend::Backend& device;
    ProbeMemory& memory;
    ThreadPool& pool;
    const Clock& clock;
};

struct DeviceSizes {
    std::size_t pinned_bytes = 0;
    std::size_t weight_bytes = 0;  // rounded down to segments of the memory
    std::size_t row_length = 0;
};

/// Holds what the device's stages work on; gives it back at its end.
class DeviceProbes {
  public:
    DeviceProbes(const DeviceParts& parts, const DeviceSizes& sizes);
    ~DeviceProbes();
    DeviceProbes(const DeviceProbes&) = delete;
    DeviceProbes& operator=(const DeviceProbes&) = delete;

    /// Takes one piece of the memory, or fills it. Errors: those of the device.
    Status take();
    bool ready() const { return ready_; }
    /// Once ready.
    void add_stages(std::vector<Stage>& stages);
    /// The most that its arithmetic has reached.
    double tflops() const { return step_.tflops(); }

    /// Of the device's memory.
    static std::size_t bytes_beside_weights(std::size_t row_length);

  private:
    static backend::StepLimits limits(std::size_t row_length);
    /// One more segment of the memory as weights on the device.
    Status take_weights();
    void add_linear(std::vector<Stage>& stages, quant::QuantType type, int tokens);

    const DeviceParts parts_;
    const DeviceSizes sizes_;
    Link link_;
    ProbeStep step_;
    std::vector<backend::Chunk> weights_;
    bool link_taken_ = false;
    bool ready_ = false;
};

}  // namespace ballast::runtime
