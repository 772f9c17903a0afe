// SPDX-License-Identifier: MIT
// Liveness, from the last action to the first.
#include "engine/runtime/super_stages.h"

#include <algorithm>

#include "engine/backend/op_access.h"
#include "engine/base/check.h"

namespace ballast::runtime {

namespace {

using backend::SlotId;

constexpr std::size_t kCpuSide = 0;
constexpr std::size_t kDeviceSide = 1;

/// A set of memories of each side.
using Memories = std::array<std::vector<bool>, kDevices>;

class Stages {
  public:
    Stages(const model::Model& model, const StepProgram& program)
        : model_(model), program_(program) {}

    SuperStages find(std::size_t tiles_max) {
        cut(tiles_max);
        const std::size_t n_memories = program_.device_slots.size();
        for (auto& side : result_.carried) {
            side.resize(n_memories);
        }
        // What is read later before it is written again.
        Memories live = empty();
        for (auto stage = result_.stages.rbegin(); stage != result_.stages.rend(); ++stage) {
            note_stage(*stage, live);
        }
        for (const StepTile& tile : program_.tiles) {
            for (const backend::UnitId unit : tile.units) {
                const WeightSlice& slice =
                    program_.sides[kDeviceSide].units()[static_cast<std::size_t>(unit)].slice;
                result_.tile_bytes += packed_bytes(
                    model_.weights().views()[static_cast<std::size_t>(slice.unit)], slice);
            }
        }
        return std::move(result_);
    }

  private:
    Memories empty() const {
        Memories none;
        for (auto& side : none) {
            side.resize(program_.device_slots.size());
        }
        return none;
    }
    const StepSlot& slot(SlotId id) const { return program_.slots[static_cast<std::size_t>(id)]; }

    /// Where a segment begins for us: what is on its way to the CPU arrives with the one before, so
    /// that it need not wait on the device.
    std::size_t begin_of(std::size_t segment) const {
        std::size_t begin = program_.segment_begin[segment];
        while (begin < program_.actions.size() &&
               (program_.actions[begin].kind == StepAction::Kind::kFetch ||
                program_.actions[begin].kind == StepAction::Kind::kAwait)) {
            ++begin;
        }
        return begin;
    }

    void cut(std::size_t tiles_max) {
        std::size_t tile = 0;
        for (std::size_t segment = 0; segment + 1 < program_.segment_begin.size(); ++segment) {
            const std::size_t end = begin_of(segment + 1);
            const bool is_head = segment + 2 == program_.segment_begin.size();
            SuperStage stage{.begin = begin_of(segment), .first_tile = tile, .outputs = is_head};
            for (std::size_t i = stage.begin; i < end; ++i) {
                if (program_.actions[i].tile < 0) {
                    continue;
                }
                if (tile - stage.first_tile == tiles_max && !is_head) {
                    close(stage, i, tile);
                    stage = {.begin = i, .first_tile = tile};
                }
                BALLAST_CHECK(static_cast<std::size_t>(program_.actions[i].tile) == tile);
                ++tile;
            }
            close(stage, end, tile);
        }
    }
    void close(SuperStage& stage, std::size_t end, std::size_t end_tile) {
        stage.end = end;
        stage.end_tile = end_tile;
        result_.stages.push_back(stage);
    }

    /// `live`: after the stage; then before it.
    void note_stage(SuperStage& stage, Memories& live) {
        Memories written = empty();
        const Memories after = live;
        // Read here of what earlier stages wrote: alone, nothing is live after the stage.
        Memories read = empty();
        for (std::size_t i = stage.end; i > stage.begin; --i) {
            pass(program_.actions[i - 1], live, written);
            pass(program_.actions[i - 1], read, written);
            stage.device_angles |= turns_on_device(program_.actions[i - 1]);
        }
        for (std::size_t memory = 0; memory < live[0].size(); ++memory) {
            const auto id = static_cast<SlotId>(memory);
            for (std::size_t side = 0; side < kDevices; ++side) {
                const bool carried = live[side][memory] || after[side][memory];
                result_.carried[side][memory] = result_.carried[side][memory] || carried;
                BALLAST_CHECK(!carried || slot(id).rows == backend::RowDomain::kAll);
            }
            const auto row_bytes = static_cast<std::uint64_t>(slot(id).width) * sizeof(float);
            if (read[kDeviceSide][memory]) {
                stage.sent.push_back(id);
                result_.crossing_bytes += row_bytes;
            }
            if (written[kDeviceSide][memory] && after[kDeviceSide][memory]) {
                stage.fetched.push_back(id);
                result_.crossing_bytes += row_bytes;
            }
        }
    }

    bool turns_on_device(const StepAction& action) const {
        const auto& records = program_.sides[kDeviceSide].records;
        return action.kind == StepAction::Kind::kDevice &&
               std::any_of(records.begin() + static_cast<std::ptrdiff_t>(action.begin),
                           records.begin() + static_cast<std::ptrdiff_t>(action.end),
                           [](const backend::OpRecord& record) {
                               return std::holds_alternative<backend::Rope>(record.op);
                           });
    }

    /// Backwards over one action. The logits are the head's own, which is one stage.
    void pass(const StepAction& action, Memories& live, Memories& written) const {
        const auto write = [&](std::size_t side, SlotId id, bool whole) {
            const auto memory = static_cast<std::size_t>(slot(id).memory);
            written[side][memory] = true;
            if (whole && slot(id).first_column == 0) {
                live[side][memory] = false;
            }
        };
        const auto read = [&](std::size_t side, SlotId id) {
            if (slot(id).memory != model_.logits()) {
                live[side][static_cast<std::size_t>(slot(id).memory)] = true;
            }
        };
        switch (action.kind) {
            case StepAction::Kind::kSend:
                write(kDeviceSide, action.to, true);
                read(kCpuSide, action.from);
                return;
            case StepAction::Kind::kFetch:
                write(kCpuSide, action.to, action.n_columns == slot(action.to).width);
                read(kDeviceSide, action.from);
                return;
            case StepAction::Kind::kAwait:
                return;  // all that was fetched has arrived at the end of a stage
            case StepAction::Kind::kCpu:
            case StepAction::Kind::kDevice:
                break;
        }
        const bool on_device = action.kind == StepAction::Kind::kDevice;
        const std::size_t side = on_device ? kDeviceSide : kCpuSide;
        const auto& records = program_.sides[side].records;
        for (std::size_t i = action.end; i > action.begin; --i) {
            const backend::Op& op = records[i - 1].op;
            const backend::OpAccess access(op);
            for (const SlotId id : access.writes()) {
                write(side, id, true);
            }
            for (const SlotId id : access.reads()) {
                read(side, id);
            }
        }
    }

    const model::Model& model_;
    const StepProgram& program_;
    SuperStages result_;
};

}  // namespace

SuperStages super_stages(const model::Model& model,
                         const StepProgram& program,
                         std::size_t tiles_max) {
    return Stages(model, program).find(tiles_max);
}

}  // namespace ballast::runtime
