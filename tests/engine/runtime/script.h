// SPDX-License-Identifier: MIT
// A fixed script of steps on three sequences: prompts in chunks, some without logits, prompts
// beside decoding neighbours, and all decoding together. What the placement tests compare.
#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/rng.h"
#include "engine/runtime/compute.h"

namespace ballast::test {

constexpr int kScriptSequences = 3;
constexpr int kScriptRows = 64;

/// Takes the steps on one Compute and keeps the logits of all.
class Script {
  public:
    Script(const model::Model& model, runtime::Compute& compute, int n_decode_steps)
        : compute_(compute),
          vocabulary_(static_cast<std::uint64_t>(model.config().vocabulary)),
          n_decode_steps_(n_decode_steps) {
        for (int i = 0; i < kScriptSequences; ++i) {
            tables_.push_back(std::make_unique<cache::BlockTable>(compute.blocks(),
                                                                  compute.blocks_per_sequence()));
        }
    }
    static runtime::ComputeShape shape() {
        return {.sequences = kScriptSequences,
                .context = 128,
                .rows = kScriptRows,
                .outputs = kScriptSequences};
    }

    Status run() {
        prefill(0, 33, false);
        BALLAST_TRY_STATUS(step());
        prefill(0, 7, true);
        BALLAST_TRY_STATUS(step());
        decode(0);
        prefill(1, 20, true);
        BALLAST_TRY_STATUS(step());
        decode(0);
        decode(1);
        prefill(2, 5, true);
        BALLAST_TRY_STATUS(step());
        for (int i = 0; i < n_decode_steps_; ++i) {
            for (int sequence = 0; sequence < kScriptSequences; ++sequence) {
                decode(sequence);
            }
            BALLAST_TRY_STATUS(step());
        }
        return {};
    }
    const std::vector<float>& logits() const { return logits_; }

  private:
    void decode(int sequence) {
        ++n_decode_;
        prefill(sequence, 1, true);
    }
    void prefill(int sequence, int n, bool wants_logits) {
        auto& table = *tables_[static_cast<std::size_t>(sequence)];
        auto& position = positions_[static_cast<std::size_t>(sequence)];
        EXPECT_TRUE(table.grow(position + n).has_value());
        rows_.push_back({.first_row = static_cast<int>(tokens_.size()),
                         .n_rows = n,
                         .first_position = position,
                         .blocks = table.blocks()});
        position += n;
        for (int i = 0; i < n; ++i) {
            tokens_.push_back(static_cast<TokenId>(rng_.below(vocabulary_)));
        }
        if (wants_logits) {
            outputs_.push_back(static_cast<std::int32_t>(tokens_.size()) - 1);
        }
    }
    Status step() {
        const Status status = compute_.executor().run({.tokens = tokens_,
                                                       .sequences = rows_,
                                                       .n_decode_rows = n_decode_,
                                                       .output_rows = outputs_});
        for (std::size_t i = 0; i < outputs_.size() && status; ++i) {
            const auto row = compute_.executor().logits(static_cast<int>(i));
            logits_.insert(logits_.end(), row.begin(), row.end());
        }
        tokens_.clear();
        rows_.clear();
        outputs_.clear();
        n_decode_ = 0;
        return status;
    }

    runtime::Compute& compute_;
    std::uint64_t vocabulary_;
    int n_decode_steps_;
    Rng rng_{77};
    std::vector<std::unique_ptr<cache::BlockTable>> tables_;
    std::vector<std::int64_t> positions_ = std::vector<std::int64_t>(kScriptSequences);
    std::vector<TokenId> tokens_;
    std::vector<backend::SequenceRows> rows_;
    std::vector<std::int32_t> outputs_;
    int n_decode_ = 0;
    std::vector<float> logits_;
};

/// All logits of the script, or the error of the step that failed.
inline Result<std::vector<float>> logits_of_script(const model::Model& model,
                                                   const runtime::EngineOptions& options,
                                                   const runtime::ComputeShape& shape,
                                                   int n_decode_steps) {
    BALLAST_TRY(const auto compute, runtime::Compute::create(model, options, shape));
    Script script(model, *compute, n_decode_steps);
    BALLAST_TRY_STATUS(script.run());
    return script.logits();
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// A plan of whole groups: `choose` says which are on the device.
template <class Choose>
std::shared_ptr<const scheduler::Plan> whole_group_plan(const scheduler::TensorCatalog& catalog,
                                                        const Choose& choose) {
    scheduler::Plan plan{
        .version = 1, .reason = "of a test", .placement = scheduler::cpu_only(catalog)};
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        if (choose(i)) {
            plan.placement.groups[i].resident = catalog.groups[i].parts;
            plan.placement.groups[i].shared_on_device =
                catalog.groups[i].kind == scheduler::GroupKind::kExperts;
        }
    }
    return std::make_shared<const scheduler::Plan>(std::move(plan));
}

/// The first seeds are the placements that are easiest to get wrong: everything, the head alone,
/// every other group either way, attention alone; the others put one group on the device and each
/// other one with a probability of their own, resident or streamed.
inline std::shared_ptr<const scheduler::Plan> random_plan(const scheduler::TensorCatalog& catalog,
                                                          std::uint64_t seed) {
    Rng rng(seed);
    const double share = 0.1 + 0.8 * rng.uniform();
    const std::uint64_t at_least = rng.below(catalog.groups.size());
    const auto resident = whole_group_plan(catalog, [&](std::size_t i) {
        switch (seed) {
            case 0:
                return true;
            case 1:
                return i + 1 == catalog.groups.size();
            case 2:
                return i % 2 == 0;
            case 3:
                return i % 2 == 1;
            case 4:
                return catalog.groups[i].kind == scheduler::GroupKind::kAttention;
            default:
                return rng.uniform() < share || i == at_least;
        }
    });
    if (seed <= 4) {
        return resident;
    }
    // Some of them cross in every step, or in one kind of step.
    auto plan = std::make_shared<scheduler::Plan>(*resident);
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        scheduler::GroupPlacement& placed = plan->placement.groups[i];
        const bool experts = catalog.groups[i].kind == scheduler::GroupKind::kExperts;
        if (placed.resident > 0 && !experts && rng.below(4) == 0) {
            placed.streamed = std::exchange(placed.resident, 0);
            placed.prefill_streamed = placed.streamed;
        } else if (placed.resident == 0 && !experts && rng.below(4) == 0) {
            placed.prefill_streamed = catalog.groups[i].parts;
        }
    }
    return plan;
}

}  // namespace ballast::test
