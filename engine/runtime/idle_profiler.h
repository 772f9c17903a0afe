// SPDX-License-Identifier: MIT
// Profiling a machine that serves: where no stored profile fits, it is measured while nobody wants
// anything, and stored for the next start.
#pragma once

#include <memory>
#include <string>

#include "engine/base/clock.h"
#include "engine/model/model.h"
#include "engine/runtime/ports.h"
#include "engine/runtime/profiler.h"
#include "scheduler/profile/hardware_profile.h"

namespace ballast::runtime {

/// Made by the server, used on the engine thread. Model and clock outlive it. Whatever goes wrong
/// is a line in the log and the end of measuring.
class IdleProfiler final : public IdleTask {
  public:
    /// folder: where profiles are kept. Of the options the sizes count.
    IdleProfiler(const model::Model& model,
                 std::string folder,
                 const Clock& clock,
                 ProfilerOptions options = {})
        : model_(model), folder_(std::move(folder)), clock_(clock), options_(std::move(options)) {}

    bool run_slice(Compute& compute) override;
    void drop_slice() override;

  private:
    /// Looks for what is stored, and decides what is to be measured. False: nothing.
    bool begin(Compute& compute);
    bool end(const Error& error);
    void finish(Compute& compute);

    const model::Model& model_;
    const std::string folder_;
    const Clock& clock_;
    ProfilerOptions options_;
    scheduler::HardwareProfile profile_;
    std::unique_ptr<Profiler> profiler_;
};

}  // namespace ballast::runtime
