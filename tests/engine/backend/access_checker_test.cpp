// SPDX-License-Identifier: MIT
// Each way to break the order between queues and host is found, though the timing is kind: the
// device has done all its work by then, only the calls do not say so. With the one call that was
// missing nothing is found.
#include "engine/backend/access_checker.h"

#include <cstring>

#include <gtest/gtest.h>

#include "engine/backend/checked_backend.h"
#include "engine/backend/cpu_backend.h"
#include "engine/backend/host_backend.h"
#include "tests/engine/backend/layer_step.h"

namespace ballast::backend {
namespace {

constexpr std::size_t kFloats = kRows * kWidth;
constexpr std::size_t kBytes = kFloats * sizeof(float);
const OpRecord kAdd{.op = Add{.x = 0, .y = 1, .width = kWidth}, .layer = 3};

/// A device of threads and a CPU, watched by one checker that collects what it finds.
class Watched {
  public:
    explicit Watched(bool unwritten = false, const FaultPlan& faults = {})
        : checker_(std::make_shared<AccessChecker>(AccessChecker::Options{
              .handler = [this](const std::string& sentence) { found_.push_back(sentence); },
              .unwritten = unwritten})),
          host_(scalar(), clock_, {.faults = faults}),
          pool_(1),
          plain_cpu_(scalar(), pool_),
          device_(host_, checker_),
          cpu_(plain_cpu_, checker_) {
        EXPECT_TRUE(host_
                        .reserve({.rows = kRows,
                                  .k = kWidth,
                                  .experts = 2,
                                  .experts_used = 1,
                                  .width = 1,
                                  .expert_ffn_width = 1})
                        .has_value());
        EXPECT_TRUE(plain_cpu_.reserve({.rows = kRows, .k = kWidth}).has_value());
    }

    CheckedBackend& device() { return device_; }
    CheckedBackend& cpu() { return cpu_; }
    AccessChecker& checker() { return *checker_; }
    const std::vector<std::string>& found() const { return found_; }
    /// The device has done it, and the checker does not learn of it.
    Event settled(Result<Event> event) {
        EXPECT_TRUE(event.has_value());
        EXPECT_TRUE(host_.wait(*event).has_value());
        return *event;
    }
    /// A slot of the step on the device, all written.
    SlotView slot(float value = 1.0F) {
        auto chunk = device_.allocate_chunk(kBytes);
        EXPECT_TRUE(chunk.has_value());
        const std::vector<float> values(kFloats, value);
        auto event = device_.copy_in(chunk->data, bytes_of(values));
        EXPECT_TRUE(event.has_value() && device_.wait(*event).has_value());
        chunks_.push_back(*chunk);
        return {reinterpret_cast<float*>(chunk->data), kWidth};
    }
    const Chunk& chunk(std::size_t i) const { return chunks_[i]; }

  private:
    std::vector<std::string> found_;
    SystemClock clock_;
    std::shared_ptr<AccessChecker> checker_;
    HostBackend host_;
    ThreadPool pool_;
    CpuBackend plain_cpu_;
    CheckedBackend device_;
    CheckedBackend cpu_;
    std::vector<Chunk> chunks_;
};

/// Two slots and rows for them.
class TwoSlots {
  public:
    TwoSlots(SlotView x, SlotView y) : slots_{x, y} {}
    explicit TwoSlots(Watched& watched) : slots_{watched.slot(), watched.slot()} {}
    StepContext context() const { return {.input = {.tokens = tokens_}, .slots = slots_}; }
    void set_token(std::size_t i, TokenId token) { tokens_[i] = token; }
    void swap() { std::swap(slots_[0], slots_[1]); }
    std::byte* x() const { return reinterpret_cast<std::byte*>(slots_[0].data); }
    std::byte* y() const { return reinterpret_cast<std::byte*>(slots_[1].data); }

  private:
    std::vector<TokenId> tokens_ = std::vector<TokenId>(kRows, 0);
    std::vector<SlotView> slots_;
};

/// Memory of the host with the same slots.
struct HostSlots {
    std::vector<float> x = std::vector<float>(kFloats, 2.0F);
    std::vector<float> y = std::vector<float>(kFloats, 3.0F);
    TwoSlots slots() { return {{x.data(), kWidth}, {y.data(), kWidth}}; }
};

std::span<std::byte> writable(std::vector<float>& values) {
    return std::as_writable_bytes(std::span(values));
}

/// Runs it with and without the ordering call; only without is there a violation, and its sentence
/// begins like this.
template <class Sequence>
void expect_found_unless_ordered(const std::string& sentence, const Sequence& sequence) {
    for (const bool ordered : {true, false}) {
        Watched watched;
        sequence(watched, ordered);
        if (ordered) {
            EXPECT_EQ(watched.found(), std::vector<std::string>()) << sentence;
        } else {
            ASSERT_EQ(watched.found().size(), 1U) << sentence;
            EXPECT_EQ(watched.found()[0].substr(0, sentence.size()), sentence);
        }
        EXPECT_EQ(watched.checker().n_violations(), watched.found().size());
    }
}

TEST(AccessChecker, FindsOpsThatReadWhatACopyBringsAndAreNotOrderedAfterIt) {
    expect_found_unless_ordered(
        "work 1 of the compute queue (Add of layer 3) reads bytes [0, 1280) of device chunk 2, "
        "which work 3 of the copy queue (copy in) writes, and nothing orders the first after the "
        "second",
        [](Watched& watched, bool ordered) {
            const TwoSlots slots(watched);
            const std::vector<float> values(kFloats, 5.0F);
            const Event in = watched.settled(watched.device().copy_in(slots.y(), bytes_of(values)));
            if (ordered) {
                watched.device().order_after(Queue::kCompute, in);
            }
            watched.settled(watched.device().submit({&kAdd, 1}, slots.context()));
        });
}

TEST(AccessChecker, FindsASlotOverwrittenWhileOpsReadIt) {
    expect_found_unless_ordered(
        "work 3 of the copy queue (copy in) writes bytes [0, 1280) of device chunk 2, which work 1 "
        "of the compute queue (Add of layer 3) reads, and nothing orders the first after the "
        "second",
        [](Watched& watched, bool ordered) {
            const TwoSlots slots(watched);
            const std::vector<float> values(kFloats, 5.0F);
            const Event added =
                watched.settled(watched.device().submit({&kAdd, 1}, slots.context()));
            if (ordered) {
                watched.device().order_after(Queue::kCopy, added);
            }
            watched.settled(watched.device().copy_in(slots.y(), bytes_of(values)));
        });
}

TEST(AccessChecker, FindsResultsCopiedOutBeforeTheOpsThatMakeThem) {
    expect_found_unless_ordered(
        "work 3 of the copy queue (copy out) reads bytes [0, 1280) of device chunk 1, which work 1 "
        "of the compute queue (Add of layer 3) writes, and nothing orders the first after the "
        "second",
        [](Watched& watched, bool ordered) {
            const TwoSlots slots(watched);
            std::vector<float> values(kFloats);
            const Event added =
                watched.settled(watched.device().submit({&kAdd, 1}, slots.context()));
            if (ordered) {
                watched.device().order_after(Queue::kCopy, added);
            }
            watched.settled(watched.device().copy_out(writable(values), slots.x()));
        });
}

TEST(AccessChecker, FindsAnOpOfTheCpuThatReadsWhatIsNotYetKnownToHaveCome) {
    for (const bool by_asking : {false, true}) {
        expect_found_unless_ordered(
            "the host (Add of layer 3) reads", [&](Watched& watched, bool ordered) {
                const TwoSlots slots(watched);
                HostSlots host;
                const Event out =
                    watched.settled(watched.device().copy_out(writable(host.y), slots.y()));
                if (ordered && by_asking) {
                    EXPECT_TRUE(watched.device().done(out));
                } else if (ordered) {
                    EXPECT_TRUE(watched.device().wait(out).has_value());
                }
                EXPECT_TRUE(watched.cpu().submit({&kAdd, 1}, host.slots().context()).has_value());
            });
    }
}

TEST(AccessChecker, FindsAStagingBufferThatIsFilledAgainTooEarly) {
    // By plain code, which nobody announces: seen from what the buffer holds.
    expect_found_unless_ordered("the host changed", [](Watched& watched, bool ordered) {
        const TwoSlots slots(watched);
        const auto staging = watched.device().allocate_host(kBytes);
        ASSERT_TRUE(staging.has_value());
        std::memset(staging->data, 1, kBytes);
        const Event in = watched.settled(
            watched.device().copy_in(slots.y(), {staging->data, staging->size_bytes}));
        if (ordered) {
            EXPECT_TRUE(watched.device().wait(in).has_value());
        }
        std::memset(staging->data, 2, kBytes);
        EXPECT_TRUE(watched.device().wait(in).has_value());
    });
    // Announced, or by an op.
    expect_found_unless_ordered("the host (fill) writes", [](Watched& watched, bool ordered) {
        const TwoSlots slots(watched);
        const std::vector<float> staging(kFloats, 1.0F);
        const Event in = watched.settled(watched.device().copy_in(slots.y(), bytes_of(staging)));
        if (ordered) {
            EXPECT_TRUE(watched.device().wait(in).has_value());
        }
        const auto bytes = bytes_of(staging);
        watched.checker().host_uses(
            {.data = bytes.data(), .row_bytes = bytes.size()}, true, "fill");
        EXPECT_TRUE(watched.device().wait(in).has_value());
    });
    expect_found_unless_ordered(
        "the host (Add of layer 3) writes", [](Watched& watched, bool ordered) {
            const TwoSlots slots(watched);
            HostSlots host;
            const Event in = watched.settled(watched.device().copy_in(slots.y(), bytes_of(host.x)));
            if (ordered) {
                EXPECT_TRUE(watched.device().wait(in).has_value());
            }
            EXPECT_TRUE(watched.cpu().submit({&kAdd, 1}, host.slots().context()).has_value());
            EXPECT_TRUE(watched.device().wait(in).has_value());
        });
}

TEST(AccessChecker, FindsABatchThatIsChangedWhileOpsRunOnIt) {
    for (const bool tokens : {false, true}) {
        expect_found_unless_ordered("the host changed", [&](Watched& watched, bool ordered) {
            TwoSlots slots(watched);
            const Event added =
                watched.settled(watched.device().submit({&kAdd, 1}, slots.context()));
            if (ordered) {
                EXPECT_TRUE(watched.device().wait(added).has_value());
            }
            if (tokens) {
                slots.set_token(2, 9);
            } else {
                slots.swap();
            }
            // Two views have changed, which is one mistake.
            EXPECT_TRUE(watched.device().wait(added).has_value());
        });
    }
}

TEST(AccessChecker, FindsExpertsThatMoveWhileOpsLookForThem) {
    expect_found_unless_ordered("the host changed", [&](Watched& watched, bool ordered) {
        // One expert of one neuron, in slice 0; the other one is not here.
        TwoSlots slots(watched);
        const std::vector<WeightView> weights(
            3, {.data = slots.x(), .n_rows = 1, .k = 1, .row_bytes = sizeof(float), .n_slices = 1});
        std::vector<std::int32_t> slice_of = {-1, -1};
        const std::vector<ExpertSlices> slices = {{.slice_of = slice_of}};
        StepContext context = slots.context();
        context.weights = weights;
        context.experts = slices;
        const OpRecord op{.op = Experts{.in = 0,
                                        .choice = 1,
                                        .out = 0,
                                        .gate = 0,
                                        .up = 1,
                                        .down = 2,
                                        .n_experts = 2,
                                        .n_used = 1,
                                        .width = 1,
                                        .ffn_width = 1}};
        const Event done = watched.settled(watched.device().submit({&op, 1}, context));
        if (ordered) {
            EXPECT_TRUE(watched.device().wait(done).has_value());
        }
        slice_of[1] = 0;
        EXPECT_TRUE(watched.device().wait(done).has_value());
    });
}

TEST(AccessChecker, LetsTheHostReadWhatACopyReads) {
    Watched watched;
    const TwoSlots slots(watched);
    HostSlots host;
    const Event in = watched.settled(watched.device().copy_in(slots.y(), bytes_of(host.y)));
    EXPECT_TRUE(watched.cpu().submit({&kAdd, 1}, host.slots().context()).has_value());
    EXPECT_TRUE(watched.device().wait(in).has_value());
    EXPECT_EQ(watched.found(), std::vector<std::string>());
}

TEST(AccessChecker, FindsAChunkThatIsFreedBeforeItsLastReader) {
    expect_found_unless_ordered(
        "the host frees bytes [0, 1280) of ", [](Watched& watched, bool ordered) {
            const TwoSlots slots(watched);
            const Event added =
                watched.settled(watched.device().submit({&kAdd, 1}, slots.context()));
            if (ordered) {
                EXPECT_TRUE(watched.device().wait(added).has_value());
            }
            watched.device().free_chunk(watched.chunk(1));
        });
    expect_found_unless_ordered(
        "the host frees bytes [0, 1280) of ", [](Watched& watched, bool ordered) {
            const TwoSlots slots(watched);
            const auto staging = watched.device().allocate_host(kBytes);
            ASSERT_TRUE(staging.has_value());
            const Event in = watched.settled(
                watched.device().copy_in(slots.y(), {staging->data, staging->size_bytes}));
            if (ordered) {
                EXPECT_TRUE(watched.device().wait(in).has_value());
            }
            watched.device().free_host(*staging);
        });
    expect_found_unless_ordered(
        "the host frees bytes [0, 1280) of ", [](Watched& watched, bool ordered) {
            const TwoSlots slots(watched);
            const auto of_cpu = watched.cpu().allocate_chunk(kBytes);
            ASSERT_TRUE(of_cpu.has_value());
            const Event out =
                watched.settled(watched.device().copy_out({of_cpu->data, kBytes}, slots.y()));
            if (ordered) {
                EXPECT_TRUE(watched.device().wait(out).has_value());
            }
            watched.cpu().free_chunk(*of_cpu);
        });
}

TEST(AccessChecker, FindsMemoryThatIsNotInUse) {
    // The device refuses the submission, or it would read what is gone.
    Watched watched(false, {.failed_submission = 1});
    const TwoSlots slots(watched);
    watched.device().free_chunk(watched.chunk(1));
    EXPECT_FALSE(watched.device().submit({&kAdd, 1}, slots.context()).has_value());
    const TwoSlots nowhere(SlotView{nullptr, kWidth}, SlotView{nullptr, kWidth});
    Watched other(false, {.failed_submission = 1});
    EXPECT_FALSE(other.device().submit({&kAdd, 1}, nowhere.context()).has_value());
    ASSERT_EQ(watched.found().size(), 1U);
    EXPECT_EQ(watched.found()[0],
              "work 1 of the compute queue (Add of layer 3) reads bytes [0, 1280) of the freed "
              "device chunk 2, which is not within a chunk in use");
    ASSERT_EQ(other.found().size(), 1U);
    EXPECT_EQ(other.found()[0],
              "work 1 of the compute queue (Add of layer 3) reads 1280 bytes of device memory at "
              "0x0, which is not within a chunk in use");
}

TEST(AccessChecker, FindsACopyThatRunsPastTheEndOfItsChunk) {
    for (const std::size_t excess : {0U, 1U}) {
        Watched watched;
        const auto chunk = watched.device().allocate_chunk(100);  // a page, in truth
        ASSERT_TRUE(chunk.has_value());
        const std::vector<std::byte> bytes(100 + excess);
        watched.settled(watched.device().copy_in(chunk->data, bytes));
        EXPECT_EQ(watched.found().size(), excess);
    }
}

TEST(AccessChecker, KnowsThatOrderIsHandedOn) {
    // Copy before ops, ops before the host: so the copy too.
    Watched watched;
    const TwoSlots slots(watched);
    std::vector<float> values(kFloats, 5.0F);
    const Event in = watched.settled(watched.device().copy_in(slots.y(), bytes_of(values)));
    watched.device().order_after(Queue::kCompute, in);
    const Event added = watched.settled(watched.device().submit({&kAdd, 1}, slots.context()));
    EXPECT_TRUE(watched.device().wait(added).has_value());
    watched.checker().host_uses(
        {.data = bytes_of(values).data(), .row_bytes = kBytes}, true, "fill");
    watched.device().free_chunk(watched.chunk(1));
    EXPECT_EQ(watched.found(), std::vector<std::string>());
    EXPECT_EQ(watched.checker().n_remembered(), 0U);
}

TEST(AccessChecker, ComparesStripsRowByRow) {
    // Two copies on two queues, of columns [0, 32) and of columns from `first` on.
    for (const std::size_t first : {32U, 31U}) {
        Watched watched;
        const TwoSlots slots(watched);
        const std::vector<float> values(kFloats, 5.0F);
        const Strips half{.row_bytes = 32 * sizeof(float),
                          .n_rows = kRows,
                          .device_stride = kWidth * sizeof(float),
                          .host_stride = kWidth * sizeof(float)};
        const std::byte* from = bytes_of(values).data();
        watched.settled(watched.device().copy_strips_in(Queue::kCopy, slots.x(), from, half));
        watched.settled(watched.device().copy_strips_in(
            Queue::kCompute, slots.x() + first * sizeof(float), from, half));
        EXPECT_EQ(watched.found().size(), first == 32 ? 0U : 1U);
    }
}

TEST(AccessChecker, FindsReadsOfWhatNothingWroteIfAsked) {
    for (const bool asked : {false, true}) {
        Watched watched(asked);
        const auto chunk = watched.device().allocate_chunk(kBytes);
        ASSERT_TRUE(chunk.has_value());
        const std::vector<float> values(kFloats, 5.0F);
        watched.settled(watched.device().copy_in(chunk->data, bytes_of(values).first(kBytes - 4)));
        std::vector<float> out(kFloats);
        watched.settled(watched.device().copy_out(writable(out).first(kBytes - 4), chunk->data));
        EXPECT_EQ(watched.found().size(), 0U);
        watched.settled(watched.device().copy_out(writable(out), chunk->data));
        ASSERT_EQ(watched.found().size(), asked ? 1U : 0U);
        if (asked) {
            EXPECT_EQ(
                watched.found()[0],
                "work 3 of the copy queue (copy out) reads bytes [1276, 1280) of device chunk "
                "1, which nothing has written");
        }
    }
}

TEST(AccessChecker, ForgetsARefusedSubmission) {
    Watched watched(false, {.failed_submission = 1});
    const TwoSlots slots(watched);
    EXPECT_FALSE(watched.device().submit({&kAdd, 1}, slots.context()).has_value());
    watched.device().free_chunk(watched.chunk(0));
    EXPECT_EQ(watched.found(), std::vector<std::string>());
}

TEST(AccessChecker, RemembersNoMoreThanIsUnderWay) {
    Watched watched;
    const TwoSlots slots(watched);
    const std::vector<float> values(kFloats, 5.0F);
    std::size_t most = 0;
    for (int round = 0; round < 300; ++round) {
        const auto in = watched.device().copy_in(slots.y(), bytes_of(values));
        ASSERT_TRUE(in.has_value());
        watched.device().order_after(Queue::kCompute, *in);
        const auto added = watched.device().submit({&kAdd, 1}, slots.context());
        ASSERT_TRUE(added.has_value());
        watched.device().order_after(Queue::kCopy, *added);
        most = std::max(most, watched.checker().n_remembered());
        if (round % 10 == 9) {
            EXPECT_TRUE(watched.device().wait(*added).has_value());
            EXPECT_EQ(watched.checker().n_remembered(), 0U);
        }
    }
    EXPECT_LE(most, 100U);
    EXPECT_EQ(watched.found(), std::vector<std::string>());
}

TEST(AccessChecker, EndsTheProcessWithTheSentenceIfNobodyHandlesIt) {
    EXPECT_DEATH(
        {
            AccessChecker checker;
            checker.freeing(Side::kDevice, {.data = nullptr, .size_bytes = 8});
        },
        "internal error: the host frees 8 bytes of device memory at 0x0, where no chunk in use "
        "begins");
}

}  // namespace
}  // namespace ballast::backend
