// SPDX-License-Identifier: MIT
// What plans gain over other programs' placements, every step of both played by the simulator. For
// tests and for tests/bench.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/placement/planner.h"
#include "scheduler/sim/simulator.h"

namespace ballast::test {

/// A dense model by what a token reads of it, in bytes without the KV cache: 32 layers at 4.9 GB,
/// deeper the larger it is; 8 KV heads of 128, a feed-forward part of 3.5 times the width, 4.85
/// bits a weight, a head of 128,256 rows. Its width need not be a whole number of anything, so that
/// a sweep of sizes has no steps but the number of layers and of neuron blocks.
scheduler::TensorCatalog synthetic_dense(double read_bytes);
/// What a token reads of the weights, the head among them.
double read_bytes(const scheduler::TensorCatalog& catalog);

/// One use of a model on a machine. Borrows the catalog.
struct GainCase {
    scheduler::HardwareProfile hardware = {};
    const scheduler::TensorCatalog* catalog = nullptr;
    scheduler::HopModel hops = scheduler::HopModel::kOverlapped;
    scheduler::Locality locality = scheduler::Locality::kUniform;
    int context = 4096;
    int depth = 2048;

    double memory_bytes() const { return hardware.device_memory_gb * 1e9; }
    scheduler::KvReserve reserve() const {
        return {.tokens = context, .unified_memory = hardware.unified_memory};
    }
};

/// Whether device memory and RAM, less 4 GB for the system, hold the weights.
bool holds(const GainCase& of);

/// Seconds of a token, simulated.
double simulated_decode(const GainCase& of, const scheduler::Placement& placement);
struct PolicyDecode {
    scheduler::Placement placement = {};
    double seconds = 0.0;
};
/// Of the policy's placements the one forecast to be fastest; nothing if it has none.
std::optional<PolicyDecode> policy_decode(const GainCase& of, scheduler::Policy policy);
/// The best whole groups without streams, by any policy or by the planner when it may not divide.
PolicyDecode best_static_decode(const GainCase& of);
/// The planner's, asked for decode alone.
PolicyDecode planned_decode(const GainCase& of);

struct DecodeGain {
    double read_bytes = 0.0;  // of the model's weights, a token
    double ours = 0.0;        // seconds of a token, like those below
    double best_static = 0.0;
    double whole_layers = 0.0;  // as many as fit
    scheduler::Placement plan = {};

    double over_static() const { return best_static / ours; }
    double over_layers() const { return whole_layers / ours; }
};
DecodeGain decode_gain(const GainCase& of);

/// Of the synthetic models whose weights are this many times the device's memory the one that gains
/// most over the best whole groups.
DecodeGain best_decode_gain(const scheduler::HardwareProfile& hardware,
                            scheduler::HopModel hops,
                            const std::vector<double>& sizes);

/// What is divided, what streams, who owns the residual, in words.
std::string plan_kind(const GainCase& of, const scheduler::Placement& plan);
/// Groups that both sides compute in decode.
int n_joins(const scheduler::TensorCatalog& catalog, const scheduler::Placement& plan);

/// Prompts on a model that does not fit. Seconds of a prompt, simulated.
struct PrefillGain {
    double hide_tokens = 0.0;  // n*: where copying and computing take equally long
    int tokens = 0;
    double serial = 0.0;   // what is not resident is copied when its turn comes
    double prompts = 0.0;  // ours, planned for 4,000 of a prompt's tokens to each of decode
    double mixed = 0.0;    // for four, as plans are by default

    double gain() const { return serial / prompts; }
    double gain_of_mix() const { return serial / mixed; }
};
/// Tokens of one step at which computing all of the model takes as long as copying what is not
/// resident does. Without the ring and without hops.
double hide_tokens(const GainCase& of, const scheduler::Placement& placement);
/// A prompt of this share of n* against the best whole groups with serial copies, one step each.
PrefillGain dense_prefill_gain(const GainCase& of, double share_of_hide);
/// A prompt of `tokens` in one step against the tuned experts-last placement which copies all that
/// is not resident anew every `step_tokens`.
PrefillGain expert_prefill_gain(const GainCase& of, int tokens, int step_tokens);

}  // namespace ballast::test
