// SPDX-License-Identifier: MIT
// What a user may set about the engine; composed into the configuration by config/.
#pragma once

#include <cstdint>
#include <string>

namespace ballast::runtime {

/// Bounds of the options below; a micro-batch's prompt tokens end on a multiple of the grain.
constexpr int kParallelMax = 64;
constexpr int kPrefillGrain = 64;
constexpr int kPrefillChunkMax = 4096;

struct EngineOptions {
    int threads = 0;              // compute threads; 0: one per logical processor
    int context = 0;              // tokens one request may use; 0: the model's own, 8192 at most
    int parallel = 4;             // sequences that run at the same time
    int prefill_chunk = 512;      // most prompt tokens of one micro-batch
    int super_chunk = 8192;       // most that share a crossing of what streams; at most a context
    std::string kv_type = "f16";  // "f16" or "f32"
    std::string force_isa = {};   // "" or a name of engine/base/cpu_features.h
    /// Measure the machine in idle gaps, where that has not been done yet.
    bool profile_when_idle = true;
    std::string device = "auto";  // "auto" or "" (none yet: the CPU alone), "host"
    /// Most device memory that is used, in bytes; 0: what the device has (host: 256 MiB).
    std::uint64_t vram_budget = 0;
    /// Most bytes of the host, and an eighth of its memory at most, for copies of keys and values
    /// that the device holds: with them a lost device costs little computing again. 0: none.
    std::uint64_t kv_mirror_bytes = std::uint64_t{4} << 30U;
    /// Plans may divide groups between the sides and stream shares; else each is on one side, and
    /// results on a device with the CPU's kernels have the bits of the CPU alone.
    bool divide_groups = true;
    /// Which experts of a divided group the device holds: "frequency" (those used most lately),
    /// "lru" (those used last), "fixed" (the first ones).
    std::string expert_slots = "frequency";
    /// Who tells what others take of the device: "none" or "" (nobody), "script:FILE".
    std::string gpu_monitor = "none";
};

}  // namespace ballast::runtime
