// SPDX-License-Identifier: MIT
// Memory first: what goes goes when it is told, what comes waits until all that goes has gone.
#include "engine/runtime/held_share.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/log.h"
#include "engine/base/units.h"

namespace ballast::runtime {

using scheduler::GroupPlacement;
using scheduler::Placement;
using scheduler::TensorGroup;

namespace {

// Bytes of an upload that are ordered at a time: a step's own weights, which cross behind them on
// the same queue, wait for no more.
constexpr std::uint64_t kUploadBytesAtOnce = 32 * kMiB;

// More names than these are a number.
constexpr std::size_t kNamesMost = 12;

std::string names_of(const std::vector<std::size_t>& groups,
                     const scheduler::TensorCatalog& catalog) {
    std::string names;
    for (std::size_t i = 0; i < groups.size() && i < kNamesMost; ++i) {
        names += fmt::format("{}{}", i == 0 ? "" : ", ", group_name(catalog.groups[groups[i]]));
    }
    return groups.size() <= kNamesMost
               ? names
               : fmt::format("{}, and {} more", names, groups.size() - kNamesMost);
}

}  // namespace

void ShareMoves::add(ShareMoves more) {
    given_bytes += more.given_bytes;
    gone.insert(gone.end(), more.gone.begin(), more.gone.end());
    come.insert(come.end(), more.come.begin(), more.come.end());
    come_bytes += more.come_bytes;
    n_kv_layers_out += more.n_kv_layers_out;
    n_kv_layers_in += more.n_kv_layers_in;
    cancelled = cancelled || more.cancelled;
}

std::string ShareMoves::sentence(const scheduler::TensorCatalog& catalog) const {
    std::vector<std::string> parts;
    if (cancelled) {
        parts.emplace_back("what had not arrived yet is not waited for");
    }
    if (!gone.empty()) {
        parts.push_back(fmt::format("weights of {} went", names_of(gone, catalog)));
    }
    if (n_kv_layers_out > 0) {
        parts.push_back(
            fmt::format("keys and values of {} layers went to the host", n_kv_layers_out));
    }
    if (!come.empty()) {
        parts.push_back(fmt::format("{:.1f} MiB of weights came beside the steps, of {}",
                                    static_cast<double>(come_bytes) / static_cast<double>(kMiB),
                                    names_of(come, catalog)));
    }
    if (n_kv_layers_in > 0) {
        parts.push_back(
            fmt::format("keys and values of {} layers came from the host", n_kv_layers_in));
    }
    return parts.empty() ? "" : fmt::format(": {}", fmt::join(parts, "; "));
}

HeldShare::HeldShare(Compute& compute)
    : compute_(compute),
      kept_(scheduler::cpu_only(compute.catalog())),
      executed_(scheduler::cpu_only(compute.catalog())) {
    refresh();
    const Residency& facts = compute_.residency();
    for (std::size_t i = 0; i < facts.groups.size(); ++i) {
        GroupPlacement& placed = executed_.groups[i];
        placed.resident = facts.groups[i].resident;
        placed.streamed = facts.groups[i].streamed;
        placed.shared_on_device = kept_.groups[i].shared_on_device && facts.groups[i].on_device();
    }
}

void HeldShare::refresh() {
    DeviceSide* const device = compute_.device_side();
    kept_ = device != nullptr ? device->kept() : scheduler::cpu_only(compute_.catalog());
}

void HeldShare::reset() {
    refresh();
    executed_ = scheduler::cpu_only(compute_.catalog());
    arriving_.clear();
    changed_ = false;
    kv_moves_ = false;
    ++n_changes_;
}

void HeldShare::try_again() {
    changed_ = compute_.device_side() != nullptr;
    ++n_changes_;
}

bool HeldShare::uploading() const {
    return compute_.device_side() != nullptr && compute_.device_side()->is_uploading();
}

bool HeldShare::is_attention(std::size_t group) const {
    return compute_.catalog().groups[group].kind == scheduler::GroupKind::kAttention;
}

std::uint64_t HeldShare::kv_bytes_of_part(std::size_t group) const {
    const TensorGroup& of = compute_.catalog().groups[group];
    return of.kv_bytes_per_token / static_cast<std::uint64_t>(of.parts) *
           static_cast<std::uint64_t>(compute_.kv_tokens());
}

std::uint64_t HeldShare::kv_due_bytes() const {
    std::uint64_t sum = 0;
    for (const Arriving& piece : arriving_) {
        sum += piece.kv_bytes;
    }
    return sum;
}

std::uint64_t HeldShare::held_bytes() const {
    const DeviceSide* const device = compute_.device_side();
    return compute_.device_use().bytes +
           (device != nullptr ? device->untaken_bytes() + kv_due_bytes() : 0);
}

std::uint64_t HeldShare::overhead_bytes() const {
    // What lies in chunks beside what is kept cannot be used for anything else.
    std::uint64_t known = 0;
    const scheduler::KvReserve none;
    for (std::size_t i = 0; i < kept_.groups.size(); ++i) {
        known += group_bytes(compute_.catalog().groups[i], kept_.groups[i], none).weights;
    }
    for (const Arriving& piece : arriving_) {
        known += piece.weight_bytes;
    }
    const DeviceSide* const device = compute_.device_side();
    const std::uint64_t taken =
        device != nullptr ? device->weights().total_bytes() + device->untaken_bytes() : 0;
    const std::uint64_t padding = compute_.padding_bytes();
    return compute_.step_bytes() + (taken > known + padding ? taken - known - padding : 0);
}

Placement HeldShare::as_droppable(Placement placement) const {
    const DeviceSide* const device = compute_.device_side();
    for (std::size_t i = 0; i < placement.groups.size() && device != nullptr; ++i) {
        GroupPlacement& placed = placement.groups[i];
        if (placed.resident < kept_.groups[i].resident) {
            placed.resident = device->whole_pieces(i, placed.resident);
            placed.shared_on_device = placed.shared_on_device && placed.resident > 0;
        }
    }
    return placement;
}

void HeldShare::keep(const Placement& kept) {
    DeviceSide* const device = compute_.device_side();
    if (device == nullptr) {
        return;
    }
    const Placement before = device->kept();
    const std::uint64_t bytes = compute_.device_use().bytes;
    device->keep(kept);
    refresh();
    for (std::size_t i = 0; i < kept_.groups.size(); ++i) {
        if (!(kept_.groups[i] == before.groups[i])) {
            moves_.gone.push_back(i);
            changed_ = true;
        }
        GroupPlacement& placed = executed_.groups[i];
        placed.resident = std::min(placed.resident, kept_.groups[i].resident);
        placed.shared_on_device = placed.shared_on_device && kept_.groups[i].shared_on_device;
    }
    if (Status status = send_kv_home(); !status) {
        failure_ = std::move(status);
    }
    moves_.given_bytes += bytes - std::min(bytes, compute_.device_use().bytes);
}

void HeldShare::execute(const Placement& executed) {
    changed_ = changed_ || !(executed_ == executed);
    executed_ = executed;
}

Status HeldShare::move_kv(int layer, int n_on_device) {
    if (!std::exchange(kv_moves_, true)) {
        compute_.recovery().end();
    }
    if (n_on_device > 0) {
        // Copies on the host are of what was there before; without them all would be computed again
        // if the device were lost now.
        compute_.recovery().settle(false);
    }
    return compute_.move_kv(layer, n_on_device);
}

Status HeldShare::send_kv_home() {
    DeviceSide& device = *compute_.device_side();
    for (std::size_t i = 0; i < kept_.groups.size(); ++i) {
        if (!is_attention(i)) {
            continue;
        }
        const TensorGroup& group = compute_.catalog().groups[i];
        const int n_there = compute_.kv_heads_on_device(group.layer);
        if (device.attending_heads(group.layer) >= n_there) {
            continue;
        }
        // Heads do not move within the device: those that stay come back with bring_kv().
        BALLAST_TRY_STATUS(move_kv(group.layer, 0));
        ++moves_.n_kv_layers_out;
        changed_ = true;
    }
    return {};
}

Result<bool> HeldShare::bring_kv() {
    DeviceSide& device = *compute_.device_side();
    bool all = true;
    for (std::size_t i = 0; i < kept_.groups.size(); ++i) {
        if (!is_attention(i)) {
            continue;
        }
        const TensorGroup& group = compute_.catalog().groups[i];
        const int n_there = compute_.kv_heads_on_device(group.layer);
        const int n_wanted = device.attending_heads(group.layer);
        if (n_wanted <= n_there) {
            continue;
        }
        if (n_there > 0) {
            BALLAST_TRY_STATUS(move_kv(group.layer, 0));
        }
        const std::uint64_t bytes =
            kv_bytes_of_part(i) * static_cast<std::uint64_t>(n_wanted * group.parts /
                                                             compute_.model().config().n_kv_heads);
        Status moved = fail(ErrorCode::kOutOfMemory, "there is no room for them");
        if (compute_.device_use().bytes + bytes <= budget_) {
            moved = move_kv(group.layer, n_wanted);
        }
        if (!moved && moved.error().code != ErrorCode::kOutOfMemory) {
            return tl::unexpected(std::move(moved).error());
        }
        if (moved) {
            ++moves_.n_kv_layers_in;
            continue;
        }
        all = false;
        device.give_up_attention(group.layer);
    }
    return all;
}

void HeldShare::upload(const std::vector<scheduler::ResidencyGrowth>& growth) {
    if (compute_.device_side() == nullptr) {
        if (Status status = compute_.start_device(budget_); !status) {
            failure_ = std::move(status);
            return;
        }
    }
    DeviceSide& device = *compute_.device_side();
    std::vector<DeviceSide::Piece> pieces;
    const scheduler::KvReserve reserve{.tokens = compute_.kv_tokens()};
    for (const scheduler::ResidencyGrowth& more : growth) {
        const GroupPlacement& now = kept_.groups[more.group];
        const TensorGroup& group = compute_.catalog().groups[more.group];
        const bool divides = more.then.resident < group.parts;
        if (!device.is_supported(more.group) || (divides && !compute_.divides_groups())) {
            continue;
        }
        const scheduler::GroupBytes before = group_bytes(group, now, reserve);
        const scheduler::GroupBytes then = group_bytes(group, more.then, reserve);
        pieces.push_back({more.group, {now.resident, more.then.resident - now.resident}});
        arriving_.push_back({more.group, then.weights - before.weights, then.kv - before.kv});
    }
    device.begin_upload(pieces, chunk_bytes(budget_));
}

void HeldShare::cancel_upload() {
    if (!uploading()) {
        return;
    }
    DeviceSide& device = *compute_.device_side();
    const std::uint64_t bytes = compute_.device_use().bytes;
    if (const auto arrived = advance_by(0); !arrived) {
        failure_ = tl::unexpected(arrived.error());
    }
    if (device.is_uploading()) {
        device.cancel_upload();
        arriving_.clear();
        moves_.cancelled = true;
        moves_.given_bytes += bytes - std::min(bytes, compute_.device_use().bytes);
    }
}

Result<bool> HeldShare::advance() {
    BALLAST_TRY_STATUS(std::exchange(failure_, {}));
    return advance_by(kUploadBytesAtOnce);
}

Result<bool> HeldShare::advance_by(std::uint64_t bytes_most) {
    if (!uploading()) {
        return true;
    }
    DeviceSide& device = *compute_.device_side();
    const std::uint64_t taken = compute_.device_use().bytes + kv_due_bytes();
    const std::size_t n_before = arriving_.size();
    const Status status = device.advance_upload(bytes_most, budget_ - std::min(budget_, taken));
    const std::size_t n_come = n_before - device.n_coming();
    for (std::size_t i = 0; i < n_come; ++i) {
        moves_.come.push_back(arriving_[i].group);
        moves_.come_bytes += arriving_[i].weight_bytes;
    }
    arriving_.erase(arriving_.begin(), arriving_.begin() + static_cast<std::ptrdiff_t>(n_come));
    if (n_come > 0) {
        refresh();
        ++n_changes_;
    }
    if (!status && status.error().code != ErrorCode::kOutOfMemory) {
        return tl::unexpected(status.error());
    }
    if (!status) {
        log_debug("an upload ends early: {}", status.error().message);
        device.cancel_upload();
        arriving_.clear();
        moves_.cancelled = true;
        ++n_changes_;
    }
    return status.has_value();
}

Result<bool> HeldShare::commit(const Placement& plan) {
    BALLAST_TRY_STATUS(std::exchange(failure_, {}));
    if (!std::exchange(changed_, false) || compute_.device_side() == nullptr) {
        return true;
    }
    DeviceSide& device = *compute_.device_side();
    Placement next = executed_;
    for (std::size_t i = 0; i < next.groups.size(); ++i) {
        GroupPlacement& placed = next.groups[i];
        const bool experts = compute_.catalog().groups[i].kind == scheduler::GroupKind::kExperts;
        // Where nothing is executed on the device, prompts are not either.
        if (executed_.n_on_device() > 0 && (!experts || placed.shared_on_device)) {
            placed.prefill_streamed =
                std::min(plan.groups[i].prefill_streamed,
                         compute_.catalog().groups[i].parts - placed.resident);
        }
        placed.shared_on_device = placed.shared_on_device && placed.resident > 0;
    }
    BALLAST_TRY_STATUS(device.execute(next));
    BALLAST_TRY_STATUS(send_kv_home());
    bool all = true;
    bool settled = false;
    // Where keys and values have no room, fewer groups attend there, and what streams crosses in
    // other tiles. Each round gives up one group at least.
    while (!settled) {
        all = device.take_for_steps(budget_) && all;
        // Without a ring less may attend there.
        BALLAST_TRY_STATUS(send_kv_home());
        BALLAST_TRY(settled, bring_kv());
        all = all && settled;
    }
    compute_.follow_device();
    if (std::exchange(kv_moves_, false)) {
        compute_.kv_has_moved();
    }
    changed_ = false;
    return all;
}

}  // namespace ballast::runtime
