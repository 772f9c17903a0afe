// SPDX-License-Identifier: MIT
// Walks the groups in order and knows on which sides each slot's latest rows are.
#include "engine/runtime/step_program.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/backend/op_access.h"
#include "engine/base/check.h"
#include "engine/base/units.h"

namespace ballast::runtime {

namespace {

using backend::OpRecord;
using backend::SlotId;

constexpr std::size_t kCpuSide = 0;
constexpr std::size_t kDeviceSide = 1;
// What every device's vector loads ask for.
constexpr std::size_t kAlignment = 64;

std::size_t size_of(int number) {
    return static_cast<std::size_t>(number);
}

class Compiler {
  public:
    Compiler(const model::Model& model,
             std::span<const GroupOps> groups,
             std::span<const GroupDivision> divisions,
             std::size_t tile_bytes,
             std::span<const std::vector<PartRange>> pieces)
        : model_(model),
          groups_(groups),
          divisions_(divisions),
          tile_bytes_(tile_bytes),
          pieces_(pieces) {
        const auto slots = model.ops().slots();
        for (const model::OpsList::Slot& slot : slots) {
            add_slot({.memory = static_cast<SlotId>(program_.slots.size()),
                      .width = slot.width,
                      .rows = slot.rows});
        }
        const int width = model.config().width;
        for (SlotId* const added : {&peers_[0], &peers_[1], &sum_}) {
            *added =
                add_slot({.memory = static_cast<SlotId>(program_.slots.size()), .width = width});
        }
        program_.device_slots.resize(program_.slots.size());
        program_.device_tables.resize(model.ops().rope_tables().size());
        on_.resize(slots.size());
        arriving_.resize(slots.size(), -1);
    }

    StepProgram compile() {
        int segment = 0;
        for (std::size_t i = 0; i < groups_.size(); ++i) {
            const int layer = model_.ops().records()[groups_[i].begin].layer;
            for (; segment <= layer + 1; ++segment) {
                program_.segment_begin.push_back(program_.actions.size());
            }
            place(groups_[i], i + 1 < groups_.size() ? &groups_[i + 1] : nullptr);
        }
        bring(kCpuSide, std::span(&logits_, 1));
        program_.segment_begin.push_back(program_.actions.size());
        note_device_use();
        return std::move(program_);
    }

  private:
    /// A group that ran on both sides and that no side has finished.
    struct Pending {
        const GroupOps* group = nullptr;
        std::array<bool, kDevices> joined = {};
        SlotId peer = 0;  // where the other side's sum comes to
        int fetch = -1;
    };

    SlotId add_slot(const StepSlot& slot) {
        program_.slots.push_back(slot);
        return static_cast<SlotId>(program_.slots.size() - 1);
    }
    GroupDivision division(const GroupOps& group) const {
        return group.group < 0 ? GroupDivision{} : divisions_[size_of(group.group)];
    }
    bool needs_cpu(const GroupOps& group) const {
        return division(group).on_device() < group.n_parts;
    }

    void place(const GroupOps& group, const GroupOps* next) {
        const int n_device = division(group).on_device();
        BALLAST_CHECK(n_device <= group.n_parts);
        if (n_device > 0) {
            bring(kDeviceSide, group.inputs);
            if (n_device < group.n_parts) {
                order_inputs_of_cpu(group);
            }
            run_device_shares(group);
        }
        if (n_device == group.n_parts) {
            append_ops(kDeviceSide, group, [&](SideOps& ops) { append_tail(model_, group, ops); });
            if (group.has_experts() && division(group).streamed > 0) {
                await(choice_fetch_, group.group);
            }
            note_written(group, {false, true});
            pending_.reset();
            return;
        }
        if (n_device == 0) {
            bring(kCpuSide, group.inputs);
            run_on_cpu(group, {0, group.n_parts}, group.result, true);
            note_written(group, {true, false});
            pending_.reset();
            return;
        }
        split(group, next);
    }

    void split(const GroupOps& group, const GroupOps* next) {
        const int n_device = division(group).on_device();
        const PartRange rest{n_device, group.n_parts - n_device};
        if (group.is_head()) {
            const int fetched = fetch(group.result, group.result, rest.first * columns_each(group));
            bring(kCpuSide, group.inputs);
            run_on_cpu(group, rest, columns_from(group, rest.first), false);
            await(fetched);
            note_written(group, {true, false});
            pending_.reset();
            return;
        }
        Pending now{.group = &group, .peer = peers_[size_of(next_peer_)]};
        next_peer_ = 1 - next_peer_;
        if (next != nullptr && needs_cpu(*next)) {
            now.fetch = fetch(group.result, now.peer, 0);
        }
        bring(kCpuSide, group.inputs);
        if (group.has_experts()) {
            await(choice_fetch_, group.group);
        }
        run_on_cpu(group, rest, group.result, false);
        note_written(group, {false, false});
        pending_ = now;
    }

    /// What the CPU's share begins with, where only the device has it, leaves before the device's
    /// share begins: behind it on the same queue it would make the CPU wait for all of that.
    void order_inputs_of_cpu(const GroupOps& group) {
        if (pending_ && !pending_->joined[kCpuSide]) {
            return;  // the CPU makes them itself, from the other side's sum
        }
        for (const SlotId slot : group.inputs) {
            if (!on_[static_cast<std::size_t>(slot)][kCpuSide]) {
                arriving_[static_cast<std::size_t>(slot)] = fetch(slot, slot, 0);
            }
        }
    }

    /// The result's slot may also be what a share begins with, so that while more shares come the
    /// sum is kept elsewhere.
    void run_device_shares(const GroupOps& group) {
        const GroupDivision division = this->division(group);
        const std::vector<PartRange> tiles = tiles_of(group, division);
        const std::vector<PartRange> pieces = pieces_of(group, division);
        const std::size_t n_shares = tiles.size() + pieces.size();
        std::size_t n_done = 0;
        if (group.has_experts()) {
            const ShareForm before{.result = group.result, .body = false};
            append_ops(kDeviceSide, group, [&](SideOps& ops) {
                append_share(model_, group, before, ops);
            });
            // Who holds some experts asks which ones are wanted, even if the CPU computes none.
            if (division.resident < group.n_parts) {
                choice_fetch_ = fetch(group.choice, group.choice, 0);
            }
        }
        const auto add_share = [&](PartRange parts, int tile) {
            const bool is_first = n_done == 0;
            const bool is_last = ++n_done == n_shares;
            ShareForm form{.parts = parts,
                           .result = group.result,
                           .tile = tile,
                           .prologue = !group.has_experts()};
            if (group.is_head()) {
                form.result = columns_from(group, parts.first);
            } else if (is_first && !is_last) {
                form.result = sum_;
            }
            const auto append = [&](SideOps& ops) {
                append_share(model_, group, form, ops);
                if (!is_first && !group.is_head()) {
                    is_last ? append_sum(group, group.result, sum_, ops)
                            : append_sum(group, sum_, group.result, ops);
                }
            };
            append_ops(kDeviceSide, group, append, tile);
        };
        for (const PartRange parts : pieces) {
            add_share(parts, -1);
        }
        for (const PartRange parts : tiles) {
            program_.tiles.push_back(
                {.group = group.group, .parts = parts, .n_parts = group.n_parts});
            add_share(parts, static_cast<int>(program_.tiles.size()) - 1);
            note_tile_units();
        }
    }

    std::vector<PartRange> pieces_of(const GroupOps& group, const GroupDivision& division) const {
        if (division.resident == 0) {
            return {};
        }
        if (pieces_.empty()) {
            return {{0, division.resident}};
        }
        std::vector<PartRange> pieces;
        for (const PartRange piece : pieces_[size_of(group.group)]) {
            if (piece.n > 0 && piece.end() <= division.resident) {
                pieces.push_back(piece);
            }
        }
        BALLAST_CHECK(!pieces.empty() && pieces.back().end() == division.resident);
        return pieces;
    }

    std::size_t bytes_of(const GroupOps& group, PartRange parts) const {
        std::size_t bytes = 0;
        for (const WeightSlice& slice : share_slices(model_, group, parts)) {
            bytes += round_up(packed_bytes(tensor(slice.unit), slice), kAlignment);
        }
        return bytes;
    }

    std::vector<PartRange> tiles_of(const GroupOps& group, const GroupDivision& division) const {
        std::vector<PartRange> tiles;
        if (division.streamed == 0) {
            return tiles;
        }
        const std::size_t bytes = bytes_of(group, {division.resident, division.streamed});
        const auto n_tiles = static_cast<int>(std::min<std::size_t>(
            (bytes + tile_bytes_ - 1) / tile_bytes_, size_of(division.streamed)));
        for (int i = 0; i < n_tiles; ++i) {
            const int first = division.streamed * i / n_tiles;
            const int end = division.streamed * (i + 1) / n_tiles;
            tiles.push_back({division.resident + first, end - first});
        }
        return tiles;
    }

    /// The share that reads the last tile has been appended.
    void note_tile_units() {
        StepTile& tile = program_.tiles.back();
        const int number = static_cast<int>(program_.tiles.size()) - 1;
        const std::vector<SideUnit>& units = program_.sides[kDeviceSide].units();
        for (std::size_t i = 0; i < units.size(); ++i) {
            if (units[i].tile == number) {
                tile.units.push_back(static_cast<backend::UnitId>(i));
                tile.offsets.push_back(tile.size_bytes);
                tile.size_bytes +=
                    round_up(packed_bytes(tensor(units[i].slice.unit), units[i].slice), kAlignment);
            }
        }
    }

    const backend::WeightView& tensor(backend::UnitId unit) const {
        return model_.weights().views()[static_cast<std::size_t>(unit)];
    }

    /// Columns of the result that one part of the head makes.
    int columns_each(const GroupOps& group) const {
        return program_.slots[static_cast<std::size_t>(group.result)].width / group.n_parts;
    }
    SlotId columns_from(const GroupOps& group, int part) {
        if (part == 0) {
            return group.result;
        }
        StepSlot slot = program_.slots[static_cast<std::size_t>(group.result)];
        slot.first_column = part * columns_each(group);
        return add_slot(slot);
    }

    void append_sum(const GroupOps& group, SlotId to, SlotId from, SideOps& ops) const {
        OpRecord record = model_.ops().records()[group.tail - 1];
        record.op = backend::Add{.x = to, .y = from, .width = model_.config().width};
        ops.records.push_back(record);
    }

    template <class Append>
    void append_ops(std::size_t side, const GroupOps& group, const Append& append, int tile = -1) {
        SideOps& ops = program_.sides[side];
        const std::size_t begin = ops.records.size();
        append(ops);
        if (ops.records.size() == begin) {
            return;
        }
        const int n_device = division(group).on_device();
        const int n_parts = side == kDeviceSide ? n_device : group.n_parts - n_device;
        program_.actions.push_back(
            {.kind = side == kDeviceSide ? StepAction::Kind::kDevice : StepAction::Kind::kCpu,
             .rows = group.rows,
             .begin = begin,
             .end = ops.records.size(),
             .tile = tile,
             .group = group.group,
             .share = static_cast<double>(n_parts) / group.n_parts});
    }

    void run_on_cpu(const GroupOps& group, PartRange parts, SlotId result, bool whole) {
        append_ops(kCpuSide, group, [&](SideOps& ops) {
            // The other side has chosen experts where it has some.
            const ShareForm form{
                .parts = parts, .result = result, .router = whole, .in_place = true};
            append_share(model_, group, form, ops);
            if (whole) {
                append_tail(model_, group, ops);
            }
        });
    }

    /// The latest rows of these are on this side then.
    void bring(std::size_t side, std::span<const SlotId> slots) {
        if (pending_ && !pending_->joined[side]) {
            join(side);
        }
        for (const SlotId slot : slots) {
            auto& places = on_[static_cast<std::size_t>(slot)];
            if (places[side]) {
                continue;
            }
            BALLAST_CHECK(places[1 - side]);
            if (side == kDeviceSide) {
                send(slot, slot);
            } else {
                int& arriving = arriving_[static_cast<std::size_t>(slot)];
                await(arriving >= 0 ? std::exchange(arriving, -1) : fetch(slot, slot, 0));
            }
            places[side] = true;
        }
    }

    void join(std::size_t side) {
        const GroupOps& group = *pending_->group;
        if (side == kDeviceSide) {
            send(group.result, pending_->peer);
        } else {
            // Whoever places the group after knows whether the CPU needs this.
            BALLAST_CHECK(pending_->fetch >= 0);
            await(pending_->fetch);
        }
        append_ops(side, group, [&](SideOps& ops) {
            append_sum(group, group.result, pending_->peer, ops);
            append_tail(model_, group, ops);
        });
        program_.actions.back().finishes = true;
        pending_->joined[side] = true;
        for_each_written(group,
                         [&](SlotId slot) { on_[static_cast<std::size_t>(slot)][side] = true; });
    }

    void send(SlotId from, SlotId to) {
        const StepSlot& slot = program_.slots[static_cast<std::size_t>(from)];
        program_.actions.push_back({.kind = StepAction::Kind::kSend,
                                    .rows = slot.rows,
                                    .from = from,
                                    .to = to,
                                    .n_columns = slot.width});
    }

    /// n_columns: the first ones; 0: all. Returns its number.
    int fetch(SlotId from, SlotId to, int n_columns) {
        const StepSlot& slot = program_.slots[static_cast<std::size_t>(from)];
        program_.actions.push_back({.kind = StepAction::Kind::kFetch,
                                    .rows = slot.rows,
                                    .from = from,
                                    .to = to,
                                    .n_columns = n_columns > 0 ? n_columns : slot.width,
                                    .fetch = program_.n_fetches});
        return program_.n_fetches++;
    }

    /// chosen: the group whose choice of experts it is, if it is one.
    void await(int fetch, int chosen = -1) {
        program_.actions.push_back(
            {.kind = StepAction::Kind::kAwait, .fetch = fetch, .group = chosen});
    }

    template <class Use>
    void for_each_written(const GroupOps& group, const Use& use) const {
        for (std::size_t i = group.begin; i < group.end; ++i) {
            const backend::OpAccess access(model_.ops().records()[i].op);
            for (const SlotId slot : access.writes()) {
                use(slot);
            }
        }
    }
    void note_written(const GroupOps& group, const std::array<bool, kDevices>& places) {
        for_each_written(group, [&](SlotId slot) { on_[static_cast<std::size_t>(slot)] = places; });
    }

    void note_device_use() {
        const auto note = [&](SlotId slot) {
            const auto memory = program_.slots[static_cast<std::size_t>(slot)].memory;
            program_.device_slots[static_cast<std::size_t>(memory)] = true;
        };
        for (const OpRecord& record : program_.sides[kDeviceSide].records) {
            const backend::OpAccess access(record.op);
            for (const auto slots : {access.reads(), access.writes()}) {
                std::for_each(slots.begin(), slots.end(), note);
            }
            if (const auto* rope = std::get_if<backend::Rope>(&record.op)) {
                program_.device_tables[size_of(rope->table)] = true;
            }
        }
        for (const StepAction& action : program_.actions) {
            if (action.kind == StepAction::Kind::kSend) {
                note(action.to);
            }
        }
    }

    const model::Model& model_;
    const std::span<const GroupOps> groups_;
    const std::span<const GroupDivision> divisions_;
    const std::size_t tile_bytes_;
    const std::span<const std::vector<PartRange>> pieces_;  // by group; empty: each is one
    StepProgram program_;
    const SlotId logits_ = model_.logits();
    std::array<SlotId, 2> peers_ = {};
    int next_peer_ = 0;
    SlotId sum_ = 0;                              // of the device's shares so far
    std::vector<std::array<bool, kDevices>> on_;  // by the model's slots
    std::vector<int> arriving_;                   // likewise: a fetch that nobody awaits yet
    std::optional<Pending> pending_;
    int choice_fetch_ = -1;
};

}  // namespace

std::span<const StepAction> StepProgram::segments(int first, int last) const {
    const std::size_t begin = segment_begin[size_of(first)];
    return std::span(actions).subspan(begin, segment_begin[size_of(last)] - begin);
}

StepProgram make_step_program(const model::Model& model,
                              std::span<const GroupOps> groups,
                              std::span<const GroupDivision> divisions,
                              std::size_t tile_bytes,
                              std::span<const std::vector<PartRange>> pieces) {
    return Compiler(model, groups, divisions, tile_bytes, pieces).compile();
}

}  // namespace ballast::runtime
