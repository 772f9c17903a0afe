// SPDX-License-Identifier: MIT
// Look, measure slice by slice, store.
#include "engine/runtime/idle_profiler.h"

#include <algorithm>
#include <new>

#include "engine/base/log.h"
#include "engine/runtime/compute.h"
#include "engine/runtime/profile_file.h"

namespace ballast::runtime {

bool IdleProfiler::run_slice(Compute& compute) {
    try {
        if (profiler_ == nullptr) {
            return begin(compute);
        }
        if (profiler_->done()) {
            finish(compute);
            return false;
        }
        const Status status = profiler_->run_slice();
        return status ? true : end(status.error());
    } catch (const std::bad_alloc&) {
        return end({ErrorCode::kOutOfMemory, "too little memory is free"});
    }
}

void IdleProfiler::drop_slice() {
    if (profiler_ != nullptr) {
        profiler_->drop_slice();
    }
}

bool IdleProfiler::begin(Compute& compute) {
    const HardwareFacts facts = detect_hardware(compute.kernels(), compute.pool().size());
    const StoredProfile stored = load_profile(folder_, hardware_key(facts));
    if (folder_.empty()) {
        log_debug("not profiling this machine: {}", stored.reason);
        return false;
    }
    options_.machine = !stored.profile;
    options_.formats = formats_of(model_);
    options_.attention = attention_of(model_);
    profile_ = stored.profile.value_or(empty_profile(facts, clock_.unix_seconds()));
    // What an earlier model has had measured does not change with this one.
    std::erase_if(options_.formats, [&](const ProfileFormat& format) {
        return std::any_of(profile_.ops.begin(), profile_.ops.end(), [&](const auto& rate) {
            return rate.op == "linear" && rate.type == quant::traits(format.type).name;
        });
    });
    if (stored.profile && options_.formats.empty()) {
        return false;
    }
    log_info(
        "profiling this machine while nobody asks: {}",
        stored.profile ? "the model has weight types that were not measured yet" : stored.reason);
    auto profiler = Profiler::create(compute.pool(), compute.kernels(), clock_, options_);
    if (!profiler) {
        return end(profiler.error());
    }
    profiler_ = std::move(*profiler);
    return true;
}

bool IdleProfiler::end(const Error& error) {
    log_warning("this machine's profile is not measured: {}", error.message);
    profiler_.reset();
    return false;
}

void IdleProfiler::finish(Compute& compute) {
    profiler_->fill(profile_);
    profiler_.reset();
    compute.set_measured_hardware(profile_);
    if (const Status stored = store_profile(folder_, profile_); !stored) {
        log_warning("this machine's profile is measured, but {}", stored.error().message);
        return;
    }
    log_info("this machine's profile is in {}", profile_path(folder_, profile_.key));
}

}  // namespace ballast::runtime
