// SPDX-License-Identifier: MIT
// Names and sizes of devices.
#include "engine/runtime/device_choice.h"

#include <utility>

#include <fmt/format.h>

namespace ballast::runtime {

Result<bool> wants_device(const EngineOptions& options) {
    if (options.device == "host") {
        return true;
    }
    if (options.device.empty() || options.device == "auto") {
        return false;
    }
    return fail(ErrorCode::kInvalidRequest,
                fmt::format("device is \"{}\"; possible are auto (the CPU alone) and host",
                            options.device));
}

std::uint64_t device_budget(const EngineOptions& options) {
    return options.vram_budget != 0 ? options.vram_budget : backend::HostOptions{}.memory_bytes;
}

std::unique_ptr<backend::Backend> make_device(const EngineOptions& options,
                                              const kernels::KernelTable& kernels,
                                              const Clock& clock,
                                              int threads,
                                              backend::HostOptions host) {
    host.threads = threads;
    host.memory_bytes = device_budget(options);
    return std::make_unique<backend::HostBackend>(kernels, clock, host);
}

}  // namespace ballast::runtime
