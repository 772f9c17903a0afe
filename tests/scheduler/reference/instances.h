// SPDX-License-Identifier: MIT
// Random machines, models and budgets on which plans are compared. Everything follows from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/rng.h"
#include "tests/scheduler/reference/step_time.h"

namespace ballast::test {

/// One question to a planner.
struct Instance {
    std::string name = {};  // says what was drawn, for messages
    scheduler::HardwareProfile hardware = {};
    scheduler::TensorCatalog catalog = {};
    std::uint64_t budget_bytes = 0;
    int context = 0;         // tokens whose KV cache is reserved
    int depth = 0;           // tokens in the cache on the average: half of them
    int prefill_tokens = 0;  // of one prompt
    int decode_tokens = 0;   // that follow it
    Locality locality = Locality::kUniform;
    bool blocking_hops = false;

    scheduler::KvReserve reserve() const {
        return {.tokens = context, .unified_memory = hardware.unified_memory};
    }
    ReferenceStep decode() const {
        return {.depth = depth, .blocking_hops = blocking_hops, .locality = locality};
    }
    ReferenceStep prefill() const {
        return {.tokens = prefill_tokens, .blocking_hops = blocking_hops, .locality = locality};
    }
};

/// A shipped profile or one drawn from the ranges that real machines span.
scheduler::HardwareProfile draw_hardware(Rng& rng);

/// 2 to 60 GB, every layer attention and feed-forward, and a head.
scheduler::TensorCatalog draw_dense_model(Rng& rng);
/// 16 to 512 experts, 1 to 10 used, with or without one that is always used.
scheduler::TensorCatalog draw_expert_model(Rng& rng);
/// At most `groups` groups, whose times range from shorter than a hop to much longer.
scheduler::TensorCatalog draw_chain(Rng& rng, int groups, bool with_experts);

/// A model of full size: dense or with experts, in turn at random.
Instance draw_instance(std::uint64_t seed);
struct SmallLimits {
    int groups_min = 2;
    int groups_max = 12;
    bool experts = true;  // whether there may be any
    bool unified = true;  // whether the memory may be
};
/// A short chain; its budget is a part of what all of it takes.
Instance draw_small_instance(std::uint64_t seed, const SmallLimits& limits = {});

/// From 2 to `most` ways to place each group without streaming: CPU, device (as far as the group
/// can be), and parts between at random.
std::vector<std::vector<scheduler::GroupPlacement>> draw_options(
    Rng& rng, const scheduler::TensorCatalog& catalog, int most);

}  // namespace ballast::test
