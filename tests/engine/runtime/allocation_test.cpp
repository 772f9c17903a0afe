// SPDX-License-Identifier: MIT
// A decode step takes no memory: all of it was taken when the executor was made. This program
// counts every call of operator new.
#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/runtime/batch.h"
#include "engine/runtime/compute.h"
#include "tests/engine/runtime/harness.h"
#include "tests/engine/runtime/script.h"

namespace {
std::atomic<std::uint64_t> n_allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
    n_allocations.fetch_add(1, std::memory_order_relaxed);
    void* p = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (p == nullptr) {
        throw std::bad_alloc();
    }
    return p;
}

// Out of line, or the compiler takes free() for a mistake.
[[gnu::noinline]] void release(void* p) {
    std::free(p);
}
}  // namespace

void* operator new(std::size_t size) {
    return counted(size, alignof(std::max_align_t));
}
void* operator new[](std::size_t size) {
    return counted(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
    return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept {
    release(p);
}
void operator delete[](void* p) noexcept {
    release(p);
}
void operator delete(void* p, std::size_t) noexcept {
    release(p);
}
void operator delete[](void* p, std::size_t) noexcept {
    release(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
    release(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
    release(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
    release(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
    release(p);
}

namespace ballast::test {
namespace {

/// Every other group on the device, of experts as many as they say.
std::shared_ptr<const scheduler::Plan> plan_with_experts(const model::Model& model, int n_experts) {
    auto plan = std::make_shared<scheduler::Plan>(
        *whole_group_plan(model.catalog(), [](std::size_t i) { return i % 2 == 0; }));
    for (std::size_t i = 0; i < model.catalog().groups.size(); ++i) {
        if (model.catalog().groups[i].kind == scheduler::GroupKind::kExperts && n_experts > 0) {
            plan->placement.groups[i] = {.resident = n_experts, .shared_on_device = true};
        }
    }
    return plan;
}

TEST(DecodeStep, TakesNoMemory) {
    struct Kind {
        std::uint32_t n_experts = 0;
        std::string device = "auto";
        int n_slots = 0;
    };
    const std::vector<Kind> kinds = {
        {0, "auto"}, {4, "auto"}, {0, "host"}, {4, "host"}, {8, "host", 3}};
    for (const auto& [n_experts, device, n_slots] : kinds) {
        const TinyFixture fixture({.n_experts = n_experts, .type = quant::QuantType::kQ8_0});
        const model::Model& model = *fixture.model().model;
        auto compute = runtime::Compute::create(model,
                                                {.threads = 2, .device = device},
                                                {.sequences = 2,
                                                 .context = 256,
                                                 .rows = 128,
                                                 .outputs = 2,
                                                 .plan = plan_with_experts(model, n_slots),
                                                 .unchecked = true});
        ASSERT_TRUE(compute.has_value()) << compute.error().message;
        const runtime::Residency& facts = (*compute)->residency();
        ASSERT_EQ(facts.n_on_device(), device == "auto" ? 0 : n_slots > 0 ? 5 : 3);
        runtime::Batch batch(128, 2);
        std::vector<std::unique_ptr<runtime::Sequence>> sequences;
        for (int i = 0; i < 2; ++i) {
            runtime::Job job = make_job({1, 100, 101}, 100);
            job.sink = std::make_shared<RecordingSink>();
            sequences.push_back(
                std::make_unique<runtime::Sequence>(std::make_shared<runtime::Job>(std::move(job)),
                                                    *fixture.model().tokenizer,
                                                    (*compute)->blocks(),
                                                    (*compute)->blocks_per_sequence(),
                                                    std::span<const TokenId>(),
                                                    Nanoseconds(0)));
        }
        for (int step = 0; step < 60; ++step) {
            const std::uint64_t before = n_allocations.load();
            ASSERT_TRUE(batch.build(sequences, 64).has_value());
            ASSERT_TRUE((*compute)->executor().run(batch.input()).has_value());
            (*compute)->note_decode(step, Nanoseconds(1000000));
            const std::uint64_t taken = n_allocations.load() - before;
            if (step > 0) {
                EXPECT_EQ(taken, 0U) << "step " << step;
            }
            for (const runtime::Batch::Member& member : batch.members()) {
                member.sequence->advance(member.n_tokens);
                ASSERT_TRUE(
                    member.sequence
                        ->accept((*compute)->executor().logits(member.output), Nanoseconds(0))
                        .has_value());
                member.sequence->deliver();
            }
        }
        (*compute)->expert_use().publish(Nanoseconds(0), true);
        EXPECT_EQ((*compute)->expert_use().report().n_moves > 0, n_slots > 0);
    }
}

TEST(CountingAllocator, Counts) {
    const std::uint64_t before = n_allocations.load();
    const auto vector = std::make_unique<std::vector<int>>(100);
    EXPECT_GE(n_allocations.load() - before, 2U);
}

}  // namespace
}  // namespace ballast::test
