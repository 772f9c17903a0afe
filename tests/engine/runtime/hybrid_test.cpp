// SPDX-License-Identifier: MIT
// A model on two devices: the bits of the CPU alone, memory that is kept to, what happens when the
// device refuses or is lost, and what a step took.
#include "engine/runtime/step_program.h"
#include "tests/engine/runtime/divided_plans.h"
#include "tests/engine/runtime/harness.h"
#include "tests/engine/runtime/script.h"
#include "tests/engine/runtime/whole_groups.h"
#include "tests/support/sanitizer.h"

namespace ballast::test {
namespace {

const model::Model& model_of(const TinyFixture& fixture) {
    return *fixture.model().model;
}

runtime::EngineOptions on_host(std::uint64_t budget = 64ULL << 20U) {
    return {.threads = 2, .device = "host", .vram_budget = budget};
}

/// On the device "host", with as many groups there as the budget takes.
Result<std::unique_ptr<runtime::Compute>> fill_device(const model::Model& model,
                                                      const runtime::EngineOptions& options,
                                                      runtime::ComputeShape shape) {
    const std::int64_t blocks =
        (shape.context + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
    const runtime::ExecutorLimits limits = {
        .rows = shape.rows, .outputs = shape.outputs, .context = shape.context};
    if (shape.plan != nullptr) {
        return runtime::Compute::create(model, options, shape);
    }
    shape.plan = std::make_shared<const scheduler::Plan>(scheduler::Plan{
        .version = 1,
        .placement = place_whole_groups(
            model.catalog(),
            {.budget_bytes = options.vram_budget,
             .step = runtime::device_step_bytes(model, limits),
             .reserve = {.tokens = shape.sequences * blocks * kernels::kKvBlockTokens}})});
    return runtime::Compute::create(model, options, shape);
}

class Hybrid : public testing::TestWithParam<TinyModelOptions> {};

TEST_P(Hybrid, GivesTheBitsOfTheCpuWhereverTheGroupsAre) {
    const TinyFixture fixture(GetParam());
    expect_the_bits_of_the_cpu(model_of(fixture), 0, kSanitized ? 6 : 19, 4);
}

TEST_P(Hybrid, GivesTheCpusLogitsHoweverTheGroupsAreDivided) {
    const TinyFixture fixture(GetParam());
    const double worst = worst_divided_placement(model_of(fixture), kSanitized ? 12 : 60, 4);
    EXPECT_GT(worst, 0.0) << "no sum was divided";
    EXPECT_LE(worst, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    Hybrid,
    testing::Values(TinyModelOptions{},
                    TinyModelOptions{.type = quant::QuantType::kQ8_0},
                    TinyModelOptions{.n_experts = 4, .type = quant::QuantType::kQ4_1},
                    TinyModelOptions{.architecture = "gemma3", .n_layers = 6, .n_kv_heads = 1}),
    testing::PrintToStringParamName());

TEST(HybridMemory, KeepsToEveryBudgetAndGivesTheSameBits) {
    const TinyFixture fixture({.n_layers = 3, .type = quant::QuantType::kQ8_0});
    const auto expected = logits_of_script(model_of(fixture), {.threads = 1}, Script::shape(), 2);
    ASSERT_TRUE(expected.has_value());
    int most = 0;
    for (const std::uint64_t budget :
         {1ULL, 100000ULL, 150000ULL, 250000ULL, 400000ULL, 1000000ULL}) {
        auto compute = fill_device(model_of(fixture), on_host(budget), Script::shape());
        ASSERT_TRUE(compute.has_value()) << compute.error().message;
        const runtime::Residency& facts = (*compute)->residency();
        EXPECT_EQ(facts.degraded, "") << budget;
        EXPECT_LE(facts.device_bytes(), budget);
        EXPECT_GE(facts.n_on_device(), most) << "more memory, fewer groups";
        most = facts.n_on_device();
        Script script(model_of(fixture), **compute, 2);
        ASSERT_TRUE(script.run().has_value());
        EXPECT_TRUE(same_bits(script.logits(), *expected)) << budget;
    }
    EXPECT_EQ(most, 7) << "all fit in a megabyte";
}

TEST(HybridMemory, IsFilledFromTheLastLayerOnAndTheHeadComesLast) {
    const TinyFixture fixture({.n_layers = 3});
    const scheduler::TensorCatalog& catalog = model_of(fixture).catalog();
    const auto n_resident = [&](std::uint64_t budget) {
        const scheduler::Placement placement = place_whole_groups(
            catalog, {.budget_bytes = budget, .step = {.layers = 1000, .head = 500}});
        std::string marks;
        for (const auto& group : placement.groups) {
            marks += group.resident > 0 ? '1' : '0';
        }
        return marks;
    };
    const std::uint64_t last = catalog.groups[5].weight_bytes + catalog.groups[4].weight_bytes;
    EXPECT_EQ(n_resident(1000), "0000000");
    EXPECT_EQ(n_resident(1000 + last + 2 * 2048), "0000110");
    EXPECT_EQ(n_resident(1ULL << 40U), "1111111");
}

TEST(HybridFaults, AFailedAllocationKeepsGroupsOnTheCpuAndSaysSo) {
    const TinyFixture fixture({.n_layers = 2, .type = quant::QuantType::kQ8_0});
    const auto expected = logits_of_script(model_of(fixture), {.threads = 1}, Script::shape(), 1);
    ASSERT_TRUE(expected.has_value());
    bool whole = false;
    int n_degraded = 0;
    for (std::uint64_t n = 1; !whole; ++n) {
        runtime::ComputeShape shape = Script::shape();
        shape.plan = random_plan(model_of(fixture).catalog(), 0);
        shape.host.faults.failed_allocation = n;
        auto compute = fill_device(model_of(fixture), on_host(), shape);
        ASSERT_TRUE(compute.has_value()) << compute.error().message;
        const runtime::Residency& facts = (*compute)->residency();
        whole = facts.degraded.empty();
        n_degraded += whole ? 0 : 1;
        EXPECT_EQ(whole, facts.n_on_device() == 5) << n;
        EXPECT_TRUE(whole || facts.degraded.find("planned fault") != std::string::npos ||
                    facts.degraded.find("keys and values") != std::string::npos)
            << facts.degraded;
        Script script(model_of(fixture), **compute, 1);
        ASSERT_TRUE(script.run().has_value());
        EXPECT_TRUE(same_bits(script.logits(), *expected)) << n;
    }
    // Slots, angles, a chunk of weights, and keys and values of two layers.
    EXPECT_GE(n_degraded, 12);
}

TEST(HybridFaults, AnUnsupportedTypeKeepsItsGroupsOnTheCpuAndNamesTheTensor) {
    const TinyFixture fixture({.n_layers = 2, .type = quant::QuantType::kQ8_0});
    runtime::ComputeShape shape = Script::shape();
    shape.plan = random_plan(model_of(fixture).catalog(), 0);
    shape.host.refused_types = {quant::QuantType::kQ8_0};
    const auto compute = fill_device(model_of(fixture), on_host(), shape);
    ASSERT_TRUE(compute.has_value());
    EXPECT_EQ((*compute)->residency().n_on_device(), 0);
    EXPECT_EQ((*compute)->residency().device_bytes(), 0U);
    EXPECT_NE((*compute)->residency().degraded.find("5 of the 5 groups that the plan puts on host"),
              std::string::npos)
        << (*compute)->residency().degraded;
    EXPECT_NE((*compute)->residency().degraded.find("tensor blk.0.attn_q.weight is Q8_0"),
              std::string::npos)
        << (*compute)->residency().degraded;
}

TEST(HybridFaults, ALostDeviceFailsTheStepAndNothingHangs) {
    const TinyFixture fixture({.n_layers = 2});
    for (std::uint64_t n = 1; n <= 12; ++n) {
        runtime::ComputeShape shape = Script::shape();
        shape.plan = random_plan(model_of(fixture).catalog(), 2 + n % 2);
        shape.host.faults.lost_at_submission = n;
        auto compute = fill_device(model_of(fixture), on_host(), shape);
        ASSERT_TRUE(compute.has_value());
        Script script(model_of(fixture), **compute, 2);
        const Status status = script.run();
        ASSERT_FALSE(status.has_value()) << n;
        EXPECT_EQ(status.error().code, ErrorCode::kDeviceLost);
        EXPECT_NE(status.error().message.find("start the server again"), std::string::npos);
        Script again(model_of(fixture), **compute, 2);
        EXPECT_EQ(again.run().error().code, ErrorCode::kDeviceLost);
    }
}

TEST(HybridFaults, ARefusedSubmissionFailsOneStepAndTheNextIsRight) {
    const TinyFixture fixture({.n_layers = 2});
    const auto expected = logits_of_script(model_of(fixture), {.threads = 1}, Script::shape(), 1);
    ASSERT_TRUE(expected.has_value());
    for (std::uint64_t n = 1; n <= 6; ++n) {
        runtime::ComputeShape shape = Script::shape();
        shape.plan = random_plan(model_of(fixture).catalog(), 2);
        shape.host.faults.failed_submission = n;
        auto compute = fill_device(model_of(fixture), on_host(), shape);
        ASSERT_TRUE(compute.has_value());
        {
            Script script(model_of(fixture), **compute, 1);
            EXPECT_EQ(script.run().error().code, ErrorCode::kOutOfMemory) << n;
        }
        Script script(model_of(fixture), **compute, 1);
        const Status status = script.run();
        ASSERT_TRUE(status.has_value()) << status.error().message;
        EXPECT_TRUE(same_bits(script.logits(), *expected)) << n;
    }
}

TEST(HybridFaults, APlanThatCannotBeFollowedIsRefused) {
    const TinyFixture dense;
    const TinyFixture experts({.n_experts = 4});
    const auto refused = [](const model::Model& model, std::size_t group, auto placed) {
        runtime::ComputeShape shape = Script::shape();
        auto plan = std::make_shared<scheduler::Plan>(*random_plan(model.catalog(), 2));
        plan->placement.groups[group] = placed;
        shape.plan = plan;
        const auto compute = fill_device(model, on_host(), shape);
        EXPECT_FALSE(compute.has_value());
        return compute ? Error{} : compute.error();
    };
    using Placed = scheduler::GroupPlacement;
    const std::string attention = "the attention of layer 0";
    const std::string experts_name = "the experts of layer 0";
    for (const Placed& placed : {Placed{.resident = 3},
                                 Placed{.resident = 1, .streamed = 2},
                                 Placed{.prefill_streamed = 3},
                                 Placed{.resident = -1}}) {
        const Error error = refused(model_of(dense), 0, placed);
        EXPECT_EQ(error.code, ErrorCode::kInternal);
        EXPECT_NE(error.message.find(attention), std::string::npos) << error.message;
    }
    for (const Placed& placed : {Placed{.resident = 2},
                                 Placed{.prefill_streamed = 4},
                                 Placed{.streamed = 1, .shared_on_device = true}}) {
        const Error error = refused(model_of(experts), 1, placed);
        EXPECT_EQ(error.code, ErrorCode::kUnsupported);
        EXPECT_NE(error.message.find(experts_name), std::string::npos) << error.message;
    }
}

TEST(HybridOptions, NameTheDevicesThereAre) {
    const TinyFixture fixture;
    const auto compute =
        runtime::Compute::create(model_of(fixture), {.device = "cuda"}, Script::shape());
    ASSERT_FALSE(compute.has_value());
    EXPECT_EQ(compute.error().code, ErrorCode::kInvalidRequest);
    EXPECT_EQ(compute.error().message,
              "device is \"cuda\"; possible are auto (the CPU alone) and host");
    for (const std::string none : {"", "auto"}) {
        const auto alone =
            runtime::Compute::create(model_of(fixture), {.device = none}, Script::shape());
        ASSERT_TRUE(alone.has_value());
        EXPECT_EQ((*alone)->device_summary(), "");
        EXPECT_EQ((*alone)->residency().n_on_device(), 0);
        EXPECT_EQ((*alone)->residency().groups.size(), 5U);
    }
}

/// Random plans give the bits of the CPU alone, whatever `set` does to the shape for a seed.
template <class Set>
void expect_the_same_bits(const Set& set) {
    const TinyFixture fixture({.n_layers = 3});
    const auto expected = logits_of_script(model_of(fixture), {.threads = 1}, Script::shape(), 2);
    ASSERT_TRUE(expected.has_value());
    for (std::uint64_t seed = 5; seed < 9; ++seed) {
        runtime::ComputeShape shape = Script::shape();
        shape.plan = random_plan(model_of(fixture).catalog(), seed);
        set(shape, seed);
        const auto logits = logits_of_script(model_of(fixture), on_host(), shape, 2);
        ASSERT_TRUE(logits.has_value()) << logits.error().message;
        EXPECT_TRUE(same_bits(*logits, *expected)) << seed;
    }
}

TEST(HybridDelays, DoNotChangeABit) {
    expect_the_same_bits([](runtime::ComputeShape& shape, std::uint64_t seed) {
        shape.host.faults.seed = seed;
        shape.host.faults.delay_max = std::chrono::microseconds(200);
    });
}

TEST(HybridPace, OfBothSidesAndTheirMemoryDoesNotChangeABit) {
    expect_the_same_bits([](runtime::ComputeShape& shape, std::uint64_t /*seed*/) {
        shape.host.pace = {.read_gbps = 0.5,
                           .gflops = 2.0,
                           .link_gbps = 0.05,
                           .latency = std::chrono::microseconds(20)};
        shape.cpu_pace = {.read_gbps = 0.2, .gflops = 1.0, .dram_gbps = 0.22};
    });
}

TEST(OpTimes, CoverEveryGroupOnceAndSayHowLongTheCpuWaited) {
    const TinyFixture fixture({.n_layers = 3});
    runtime::ComputeShape shape = Script::shape();
    shape.plan = whole_group_plan(model_of(fixture).catalog(),
                                  [](std::size_t i) { return i == 2 || i == 3 || i == 6; });
    shape.host.pace = {.latency = std::chrono::milliseconds(2)};
    auto compute = fill_device(model_of(fixture), on_host(), shape);
    ASSERT_TRUE(compute.has_value());
    Script script(model_of(fixture), **compute, 1);
    ASSERT_TRUE(script.run().has_value());
    int next = -1;
    for (const runtime::OpTime& time : (*compute)->executor().op_times()) {
        EXPECT_EQ(time.first_group, next);
        next += time.n_groups;
        const bool on_device = time.first_group == 2 || time.first_group == 6;
        EXPECT_EQ(time.device, on_device ? DeviceId::kDevice : DeviceId::kCpu);
        EXPECT_EQ(time.n_groups, time.first_group == 2 ? 2 : 1);
        EXPECT_EQ(time.rows, 3);
        EXPECT_GT(time.busy.count(), 0);
        if (on_device) {
            EXPECT_EQ(time.waited.count(), 0);
        } else if (time.first_group == 4) {
            // There, two groups and back are put at once, and may begin 2 ms later.
            EXPECT_GE(time.waited, std::chrono::milliseconds(1));
            EXPECT_GE((*compute)->executor().waited(), std::chrono::milliseconds(3));
        } else {
            EXPECT_EQ(time.waited.count(), 0);
        }
    }
    EXPECT_EQ(next, 7);
}

TEST(HybridEngine, ServesTheSameTextAsTheCpu) {
    const TinyFixture fixture({.n_layers = 2, .type = quant::QuantType::kQ8_0});
    std::vector<std::string> texts;
    for (const std::string device : {"auto", "host"}) {
        Running running(fixture.model(), {.threads = 2, .device = device, .vram_budget = 300000});
        std::vector<std::shared_ptr<RecordingSink>> sinks;
        for (int i = 0; i < 4; ++i) {
            sinks.push_back(running.submit(make_job({1, 2, 3 + i}, 12, 5)));
        }
        for (const auto& sink : sinks) {
            ASSERT_TRUE(sink->wait_for_end());
            ASSERT_FALSE(sink->error().has_value()) << sink->error()->message;
            texts.push_back(sink->text());
        }
    }
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(texts[i], texts[4 + i]);
    }
}

}  // namespace
}  // namespace ballast::test
