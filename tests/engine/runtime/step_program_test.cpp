// SPDX-License-Identifier: MIT
// What crosses between the sides, and in which order one thread orders it.
#include "engine/runtime/step_program.h"

#include <algorithm>

#include "tests/engine/runtime/harness.h"

namespace ballast::runtime {
namespace {

using test::TinyFixture;
using Kind = StepAction::Kind;

class Programs {
  public:
    explicit Programs(const test::TinyModelOptions& options = {.n_layers = 3})
        : fixture_(options), groups_(*group_ops(model().ops(), model().catalog())) {}

    const model::Model& model() const { return *fixture_.model().model; }
    std::size_t n_groups() const { return model().catalog().groups.size(); }
    int n_parts(std::size_t group) const { return model().catalog().groups[group].parts; }
    StepProgram make(const std::vector<GroupDivision>& divisions,
                     std::size_t tile_bytes = 1U << 20U) const {
        return make_step_program(model(), groups_, divisions, tile_bytes);
    }
    /// Half of each group on either side.
    std::vector<GroupDivision> halves() const {
        std::vector<GroupDivision> divisions(n_groups());
        for (std::size_t i = 0; i < divisions.size(); ++i) {
            divisions[i].resident = n_parts(i) / 2;
        }
        return divisions;
    }

  private:
    TinyFixture fixture_;
    std::vector<GroupOps> groups_;
};

std::string order_of(const StepProgram& program) {
    std::string order;
    for (const StepAction& action : program.actions) {
        order += "sfadc"[static_cast<int>(action.kind)];
    }
    return order;
}

TEST(StepProgram, OnTheCpuAloneIsTheModelsOps) {
    const Programs programs;
    const StepProgram program = programs.make(std::vector<GroupDivision>(programs.n_groups()));
    EXPECT_EQ(order_of(program), "cccccccc");  // the embedding, six groups, the head
    EXPECT_EQ(program.sides[0].records.size(), programs.model().ops().records().size());
    EXPECT_TRUE(program.sides[1].records.empty());
    EXPECT_EQ(std::count(program.device_slots.begin(), program.device_slots.end(), true), 0);
    EXPECT_FALSE(program.device_tables[0]);
    EXPECT_EQ(program.segments(0, 1).size(), 1U);
    EXPECT_EQ(program.segments(1, 3).size(), 4U);
}

TEST(StepProgram, SendsTheResidualAloneWhereWholeGroupsChangeSides) {
    const Programs programs;
    std::vector<GroupDivision> divisions(programs.n_groups());
    for (const std::size_t group : {2U, 3U, 6U}) {
        divisions[group].resident = programs.n_parts(group);
    }
    const StepProgram program = programs.make(divisions);
    // There, two groups with what ends each, back, two groups, there, the head, its logits back.
    EXPECT_EQ(order_of(program), "cccsddddfaccsdfa");
    for (const StepAction& action : program.actions) {
        if (action.kind == Kind::kSend) {
            EXPECT_EQ(action.from, 0) << "the residual";
            EXPECT_EQ(action.to, 0);
        }
    }
    EXPECT_EQ(program.actions.back().fetch, program.n_fetches - 1);
    EXPECT_EQ(program.actions[program.actions.size() - 2].from, programs.model().logits());
}

TEST(StepProgram, QueuesTheDevicesShareBeforeTheCpuWaits) {
    const Programs programs;
    const StepProgram program = programs.make(programs.halves());
    // Each group: the other side's sum and the end of the group before are on their way to the
    // device with its share, before the CPU waits for the device's sum and does the same.
    const std::string first = "csdfc";
    const std::string each = "sddfacc";
    std::string expected = first;
    for (std::size_t group = 1; group + 1 < programs.n_groups(); ++group) {
        expected += each;
    }
    // Of the head columns come back instead of a sum.
    EXPECT_EQ(order_of(program), expected + "sddfacca");
    EXPECT_TRUE(program.device_tables[0]);
}

TEST(StepProgram, FetchesWhatTheCpuBeginsWithBeforeTheDevicesShareBegins) {
    const Programs programs;
    std::vector<GroupDivision> divisions(programs.n_groups());
    for (const std::size_t group : {0U, 2U, 4U}) {
        divisions[group].resident = programs.n_parts(group);
        divisions[group + 1].resident = programs.n_parts(group + 1) / 2;
    }
    // A whole attention with its end, the residual to the CPU, the device's share of the
    // feed-forward, and only then the CPU waits and does its own; its sum goes to the device.
    // After the last one the device's sum comes to the CPU, which has the head.
    const std::string order = order_of(programs.make(divisions));
    EXPECT_EQ(order.substr(0, 17), "csddfdacsdddfdacs");
    EXPECT_EQ(order.substr(17), "dddfdfacacc");
}

TEST(StepProgram, FinishesAGroupOnlyWhereTheResidualIsNeededNext) {
    const Programs programs;
    std::vector<GroupDivision> divisions(programs.n_groups());
    divisions[2].resident = programs.n_parts(2) / 2;
    // Before and after it all is the CPU's: nothing of it goes back to the device.
    EXPECT_EQ(order_of(programs.make(divisions)), "cccsdfcaccccc");
    for (std::size_t i = 3; i < divisions.size(); ++i) {
        divisions[i].resident = programs.n_parts(i);
    }
    // After it all is the device's: nothing of it comes to the CPU but the logits.
    EXPECT_EQ(order_of(programs.make(divisions)), "cccsdcsddddddddfa");
}

TEST(StepProgram, CutsWhatStreamsIntoTilesThatCoverIt) {
    const Programs programs;
    std::vector<GroupDivision> divisions = programs.halves();
    int n_streamed = 0;
    for (std::size_t i = 0; i < divisions.size(); ++i) {
        divisions[i].streamed = programs.n_parts(i) / 4;
        n_streamed += divisions[i].streamed;
    }
    constexpr std::size_t kTileBytes = 5000;
    const StepProgram program = programs.make(divisions, kTileBytes);
    EXPECT_GT(program.tiles.size(), 8U);
    int n_covered = 0;
    int group = -1;
    int next_part = 0;
    for (const StepTile& tile : program.tiles) {
        EXPECT_GE(tile.group, group) << "in the order of use";
        const GroupDivision& of = divisions[static_cast<std::size_t>(tile.group)];
        if (tile.group != group) {
            group = tile.group;
            next_part = of.resident;
        }
        EXPECT_EQ(tile.parts.first, next_part);
        next_part = tile.parts.end();
        EXPECT_LE(next_part, of.on_device());
        n_covered += tile.parts.n;
        EXPECT_LE(tile.size_bytes, tile.parts.n == 1 ? 100000U : kTileBytes + 3 * 64);
        EXPECT_EQ(tile.units.size(), tile.offsets.size());
        EXPECT_FALSE(tile.units.empty());
    }
    EXPECT_EQ(n_covered, n_streamed);
    // Each is read once, in order.
    int next_tile = 0;
    for (const StepAction& action : program.actions) {
        if (action.tile >= 0) {
            EXPECT_EQ(action.tile, next_tile++);
        }
    }
    EXPECT_EQ(next_tile, static_cast<int>(program.tiles.size()));
}

TEST(WeightSlice, OfColumnsReadsThemAloneAndIsPackedWithoutTheOthers) {
    const Programs programs({.n_layers = 3, .type = quant::QuantType::kQ8_0});
    const auto views = programs.model().weights().views();
    int n_seen = 0;
    for (std::size_t i = 0; i < views.size(); ++i) {
        const backend::WeightView& whole = views[i];
        if (whole.type != quant::QuantType::kQ8_0 || whole.k < 64) {
            continue;
        }
        ++n_seen;
        WeightSlice left = whole_slice(static_cast<backend::UnitId>(i), whole);
        left.n_columns = 32;
        WeightSlice right = left;
        right.first_column = 32;
        right.n_columns = whole.k - 32;
        EXPECT_EQ(
            view_in_place(whole, left).read_bytes() + view_in_place(whole, right).read_bytes(),
            whole.read_bytes());
        EXPECT_EQ(packed_bytes(whole, left) + packed_bytes(whole, right), whole.slice_bytes());
        EXPECT_EQ(packed_view(whole, right, nullptr).row_bytes * whole.n_rows,
                  packed_bytes(whole, right));
        EXPECT_EQ(view_in_place(whole, right).data - whole.data, 34) << "a block";
    }
    EXPECT_GT(n_seen, 10);
}

TEST(StepProgram, ChoosesExpertsOnOneSideAndSendsTheChoice) {
    const Programs programs({.n_experts = 4});
    const StepProgram program = programs.make(programs.halves());
    int n_routers = 0;
    for (const SideOps& side : program.sides) {
        for (const backend::OpRecord& record : side.records) {
            n_routers += std::holds_alternative<backend::Router>(record.op) ? 1 : 0;
        }
        ASSERT_FALSE(side.expert_shares.empty());
        for (const ExpertShare& share : side.expert_shares) {
            EXPECT_EQ(share.parts.n, 2);
            EXPECT_EQ(share.parts.first, &side == &program.sides[0] ? 2 : 0);
        }
    }
    EXPECT_EQ(n_routers, programs.model().config().n_layers);
}

}  // namespace
}  // namespace ballast::runtime
