// SPDX-License-Identifier: MIT
// Same text whatever the neighbours: one seeded request is run alone, and again amid random others
// that come and go, with other chunk sizes and thread counts; the bits of all its logits are equal.
#include <cstring>
#include <numeric>
#include <tuple>

#include "engine/base/rng.h"
#include "engine/runtime/batch.h"
#include "engine/runtime/compute.h"
#include "tests/engine/runtime/harness.h"
#include "tests/support/sanitizer.h"
#include "tests/support/test_data.h"

namespace ballast::test {
namespace {

// Sanitized kernels are many times slower; what they look for shows in the first round.
constexpr int kRounds = kSanitized ? 1 : 4;

struct Conditions {
    int threads = 1;
    std::uint64_t neighbours_seed = 0;  // 0: none
    int prefill_tokens_max = 512;
    std::string isa = {};
};

/// FNV-1a over the bits of each logits row.
std::uint64_t hash_bits(std::span<const float> logits, std::uint64_t hash) {
    for (const float value : logits) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof(bits));
        hash = (hash ^ bits) * 1099511628211ULL;
    }
    return hash;
}

runtime::Job random_job(Rng& rng, int vocabulary) {
    std::vector<TokenId> ids(1 + rng.below(120));
    for (TokenId& id : ids) {
        id = static_cast<TokenId>(rng.below(static_cast<std::uint64_t>(vocabulary)));
    }
    return make_job(std::move(ids), static_cast<int>(1 + rng.below(40)), rng.next());
}

/// What one run of the request gave.
struct Outcome {
    std::uint64_t logits_hash = 14695981039346656037ULL;
    std::string text = {};
    int most_together = 0;
    bool operator==(const Outcome& other) const {
        return logits_hash == other.logits_hash && text == other.text;
    }
};

/// Drives batches by hand, so that the logits can be seen.
class Driver {
  public:
    Driver(const runtime::LoadedModel& model, const Conditions& conditions)
        : model_(model),
          conditions_(conditions),
          rng_(conditions.neighbours_seed),
          batch_(kRows, kSequences) {
        auto compute = runtime::Compute::create(
            *model.model,
            {.threads = conditions.threads, .force_isa = conditions.isa},
            {.sequences = kSequences, .context = 256, .rows = kRows, .outputs = kSequences});
        EXPECT_TRUE(compute.has_value()) << compute.error().message;
        compute_ = std::move(*compute);
    }

    Outcome run(const runtime::Job& request) {
        Outcome outcome;
        const bool neighbours = conditions_.neighbours_seed != 0;
        auto sink = std::make_shared<RecordingSink>();
        const std::uint64_t start = neighbours ? 1 + rng_.below(6) : 0;
        for (std::uint64_t step = 0; sink->n_ends() == 0; ++step) {
            if (step == start) {
                subject_ = add(request, sink);
            }
            while (neighbours && sequences_.size() < kSequences && rng_.below(3) != 0) {
                add(random_job(rng_, model_.tokenizer->vocabulary_size()),
                    std::make_shared<RecordingSink>());
            }
            if (!sequences_.empty()) {
                take_step(outcome);
            }
        }
        outcome.text = sink->text();
        return outcome;
    }

  private:
    static constexpr int kRows = 512;
    static constexpr int kSequences = 6;

    runtime::Sequence* add(runtime::Job job, std::shared_ptr<RecordingSink> sink) {
        if (sequences_.size() >= kSequences) {
            sequences_.pop_back();
        }
        job.sink = std::move(sink);
        sequences_.push_back(
            std::make_unique<runtime::Sequence>(std::make_shared<runtime::Job>(std::move(job)),
                                                *model_.tokenizer,
                                                compute_->blocks(),
                                                compute_->blocks_per_sequence(),
                                                std::span<const TokenId>(),
                                                Nanoseconds(0)));
        // Neighbours stand before and after the subject.
        if (conditions_.neighbours_seed != 0 && rng_.below(2) == 0) {
            std::rotate(sequences_.begin(), sequences_.end() - 1, sequences_.end());
            return sequences_.front().get();
        }
        return sequences_.back().get();
    }

    void take_step(Outcome& outcome) {
        const int grains = conditions_.prefill_tokens_max / 64;
        const int budget =
            64 * static_cast<int>(1 + rng_.below(static_cast<std::uint64_t>(grains)));
        ASSERT_TRUE(batch_.build(sequences_, std::min(budget, kRows - kSequences)).has_value());
        ASSERT_TRUE(compute_->executor().run(batch_.input()).has_value());
        outcome.most_together =
            std::max(outcome.most_together, static_cast<int>(batch_.members().size()));
        std::vector<runtime::Sequence*> ended;
        for (const runtime::Batch::Member& member : batch_.members()) {
            member.sequence->advance(member.n_tokens);
            if (member.output < 0) {
                continue;
            }
            const std::span<float> logits = compute_->executor().logits(member.output);
            if (member.sequence == subject_) {
                outcome.logits_hash = hash_bits(logits, outcome.logits_hash);
            }
            const auto done = member.sequence->accept(logits, Nanoseconds(0));
            ASSERT_TRUE(done.has_value());
            member.sequence->deliver();
            if (*done) {
                ended.push_back(member.sequence);
            }
        }
        std::erase_if(sequences_, [&](const auto& sequence) {
            return std::find(ended.begin(), ended.end(), sequence.get()) != ended.end();
        });
    }

    const runtime::LoadedModel& model_;
    Conditions conditions_;
    Rng rng_;
    runtime::Batch batch_;
    std::unique_ptr<runtime::Compute> compute_;
    std::vector<std::unique_ptr<runtime::Sequence>> sequences_;
    runtime::Sequence* subject_ = nullptr;
};

void expect_same_whatever_the_neighbours(const runtime::LoadedModel& model,
                                         const std::string& isa,
                                         int n_prompt,
                                         int n_reply,
                                         int n_rounds) {
    Rng rng(11);
    std::vector<TokenId> prompt(static_cast<std::size_t>(n_prompt));
    for (TokenId& id : prompt) {
        id = static_cast<TokenId>(
            rng.below(static_cast<std::uint64_t>(model.tokenizer->vocabulary_size())));
    }
    const runtime::Job request = make_job(prompt, n_reply, 42);
    const Outcome alone = Driver(model, {.threads = 1, .isa = isa}).run(request);
    ASSERT_EQ(alone.most_together, 1);
    int most_together = 0;
    for (int round = 0; round < n_rounds; ++round) {
        for (const int threads : {1, 2}) {
            const Conditions conditions{.threads = threads,
                                        .neighbours_seed = 1 + static_cast<std::uint64_t>(round),
                                        .prefill_tokens_max = round % 2 == 0 ? 64 : 512,
                                        .isa = isa};
            const Outcome amid = Driver(model, conditions).run(request);
            most_together = std::max(most_together, amid.most_together);
            EXPECT_EQ(amid, alone) << isa << " round " << round << " threads " << threads;
        }
    }
    EXPECT_GE(most_together, 3) << "the neighbours never ran together";
}

class Neighbours : public testing::TestWithParam<TinyModelOptions> {};

TEST_P(Neighbours, DoNotChangeABitOfTheLogits) {
    const TinyFixture fixture(GetParam());
    for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
        if (kernels::find_kernels(isa) != nullptr) {
            expect_same_whatever_the_neighbours(fixture.model(), isa_name(isa), 70, 24, kRounds);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    Neighbours,
    testing::Values(TinyModelOptions{},
                    TinyModelOptions{.type = quant::QuantType::kQ4_1},
                    TinyModelOptions{.type = quant::QuantType::kQ8_0},
                    TinyModelOptions{.n_experts = 4, .type = quant::QuantType::kQ8_0},
                    TinyModelOptions{.architecture = "gemma3", .n_layers = 6, .n_kv_heads = 1}),
    testing::PrintToStringParamName());

TEST(Neighbours, DoNotChangeABitOfTheLogitsOfARealModel) {
    if (kSanitized) {
        GTEST_SKIP() << "SKIPPED: a real model takes minutes under a sanitizer";
    }
    BALLAST_MODEL_OR_SKIP(path, "smollm2-135m-instruct-q4_1");
    auto loaded = runtime::load_model(path, "");
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    expect_same_whatever_the_neighbours(*loaded, "", 70, 24, 2);
}

TEST(Neighbours, ADifferentSeedGivesADifferentText) {
    const TinyFixture fixture;
    const Outcome first = Driver(fixture.model(), {}).run(make_job({1, 2, 3}, 30, 1));
    const Outcome second = Driver(fixture.model(), {}).run(make_job({1, 2, 3}, 30, 2));
    EXPECT_FALSE(first == second);
}

}  // namespace
}  // namespace ballast::test
