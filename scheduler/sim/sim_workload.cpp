// SPDX-License-Identifier: MIT
// A chain of groups: only one is being computed at any time, but the residual may reach its two
// sides at different moments.
#include "scheduler/sim/sim_workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ballast::scheduler {

namespace {

constexpr Side other(Side side) {
    return side == Side::kDevice ? Side::kCpu : Side::kDevice;
}

/// The time until one side's result is usable on the other. A prompt's residual is large enough for
/// its own copy to count: two bytes an element.
Nanoseconds hop_time(const HardwareProfile& h,
                     const TensorCatalog& catalog,
                     const StepShape& step) {
    double seconds = h.hop_us * 1e-6;
    if (step.is_prefill() && !h.unified_memory) {
        seconds += 2.0 * step.tokens * catalog.width / (h.link_gbps * 1e9);
    }
    return to_nanoseconds(seconds);
}

}  // namespace

SimWorkload::SimWorkload(SimMachine& machine,
                         const TensorCatalog& catalog,
                         const Placement& placement,
                         const Options& options)
    : machine_(machine),
      catalog_(catalog),
      placement_(&placement),
      options_(options),
      hop_(hop_time(machine.hardware(), catalog, options.shape)),
      routing_(options.routing_seed) {
    list_tiles();
}

void SimWorkload::list_tiles() {
    constexpr auto kTileBytes = static_cast<double>(kTileBytesMax);
    const HardwareProfile& hardware = machine_.hardware();
    for (std::size_t i = 0; i < catalog_.groups.size(); ++i) {
        Rng unused(0);  // what streams does not depend on routing
        const ShareWork work = share_work(hardware,
                                          catalog_.groups[i],
                                          placement_->groups[i],
                                          options_.shape,
                                          options_.locality,
                                          unused);
        // Half a byte more is rounding, not a tile.
        const double n = std::ceil(std::max(work.streamed_bytes - 0.5, 0.0) / kTileBytes);
        tiles_of_group_.push_back(static_cast<std::size_t>(n));
        tiles_.insert(tiles_.end(),
                      static_cast<std::size_t>(n),
                      Tile{work.streamed_bytes / std::max(n, 1.0), static_cast<int>(i)});
    }
    const std::size_t n_all = tiles_.size() * static_cast<std::size_t>(options_.n_steps);
    n_allowed_ = options_.serial_copies ? 0 : n_all;
}

void SimWorkload::start(EventQueue::Action done) {
    done_ = std::move(done);
    send_tiles();
    begin_step();
}

void SimWorkload::begin_step() {
    ++step_;
    n_entered_ = 0;
    const Nanoseconds now = machine_.events().now();
    // The embedding's row is gathered on the CPU.
    will_be_usable(0, Side::kCpu, now);
    will_be_usable(0, Side::kDevice, now + hop_);
}

void SimWorkload::end_step() {
    ends_.push_back(machine_.events().now());
    if (step_ < options_.n_steps) {
        begin_step();
    } else {
        ++step_;  // what is still on its way belongs to no step
        done_();
    }
}

void SimWorkload::will_be_usable(std::size_t version, Side side, Nanoseconds time) {
    machine_.events().at(time, [this, step = step_, version, side] {
        if (step == step_) {
            usable(version, side);
        }
    });
}

void SimWorkload::usable(std::size_t version, Side side) {
    if (version == catalog_.groups.size()) {
        // Sampling is on the CPU.
        if (side == Side::kCpu) {
            end_step();
        }
        return;
    }
    if (version == n_entered_) {
        enter_group(version, side);
    }
    const bool of_current = version + 1 == n_entered_;
    const bool waits = both() && options_.hops == HopModel::kBlocking;
    if (of_current && takes_part(side) && !waits) {
        begin_share(side);
    }
}

void SimWorkload::enter_group(std::size_t version, Side side) {
    ++n_entered_;
    current_ = {.work = share_work(machine_.hardware(),
                                   catalog_.groups[version],
                                   placement_->groups[version],
                                   options_.shape,
                                   options_.locality,
                                   routing_),
                .owner = side,
                .n_tiles_left = has_stopped_ ? 0 : tiles_of_group_[version]};
    if (both() && options_.hops == HopModel::kBlocking) {
        // The owner sends the residual, and waits until it has arrived.
        machine_.events().after(hop_, [this] {
            begin_share(Side::kDevice);
            begin_share(Side::kCpu);
        });
    }
}

void SimWorkload::begin_share(Side side) {
    const ShareWork& work = current_.work;
    const int group = static_cast<int>(n_entered_) - 1;
    if (side == Side::kCpu) {
        const double intensity = work.cpu_seconds > 0.0 ? work.cpu_bytes / work.cpu_seconds : 0.0;
        machine_.cpu().run(
            {.amount = work.cpu_seconds, .intensity = intensity, .group = group, .done = [this] {
                 finish_share(Side::kCpu);
             }});
        return;
    }
    machine_.device().run(
        {.amount = work.device_seconds, .group = group, .done = [this] { compute_tiles(); }});
}

void SimWorkload::compute_tiles() {
    if (current_.n_tiles_left == 0) {
        finish_share(Side::kDevice);
        return;
    }
    if (has_stopped_) {
        compute_rest_on_cpu();
        return;
    }
    waits_for_tile_ = n_arrived_ == n_read_;
    if (waits_for_tile_) {
        if (options_.serial_copies) {
            n_allowed_ = n_sent_ + 1;
            send_tiles();
        }
        return;
    }
    const std::size_t n_tiles = tiles_of_group_[n_entered_ - 1];
    machine_.device().run({.amount = current_.work.streamed_seconds / static_cast<double>(n_tiles),
                           .group = static_cast<int>(n_entered_) - 1,
                           .done = [this] {
                               ++n_read_;
                               --current_.n_tiles_left;
                               send_tiles();
                               compute_tiles();
                           }});
}

void SimWorkload::replace(const Placement& placement) {
    placement_ = &placement;
    has_stopped_ = has_stopped_ || (!tiles_.empty() && !placement.streams());
    if (has_stopped_ && std::exchange(waits_for_tile_, false)) {
        compute_tiles();
    }
}

void SimWorkload::compute_rest_on_cpu() {
    const std::size_t group = n_entered_ - 1;
    Rng routing = routing_;
    const ShareWork without = share_work(machine_.hardware(),
                                         catalog_.groups[group],
                                         placement_->groups[group],
                                         options_.shape,
                                         options_.locality,
                                         routing);
    const double left = static_cast<double>(std::exchange(current_.n_tiles_left, 0)) /
                        static_cast<double>(tiles_of_group_[group]);
    const double seconds = left * std::max(0.0, without.cpu_seconds - current_.work.cpu_seconds);
    const double intensity = seconds > 0.0 ? without.cpu_bytes / without.cpu_seconds : 0.0;
    machine_.cpu().run({.amount = seconds, .intensity = intensity, .done = [this] {
                            finish_share(Side::kDevice);
                        }});
}

void SimWorkload::send_tiles() {
    while (!has_stopped_ && n_sent_ < n_allowed_ && n_sent_ - n_read_ < kRingTiles) {
        const Tile tile = tiles_[n_sent_ % tiles_.size()];
        ++n_sent_;
        machine_.link().run({.amount = tile.bytes, .group = tile.group, .done = [this] {
                                 ++n_arrived_;
                                 if (std::exchange(waits_for_tile_, false)) {
                                     compute_tiles();
                                 }
                             }});
    }
}

void SimWorkload::finish_share(Side side) {
    const Nanoseconds now = machine_.events().now();
    current_.ended[index(side)] = now;
    const std::size_t next = n_entered_;
    if (!both()) {
        will_be_usable(next, side, now);
        will_be_usable(next, other(side), now + hop_);
        return;
    }
    if (!current_.ended[index(other(side))]) {
        return;
    }
    if (options_.hops == HopModel::kBlocking) {
        will_be_usable(next, current_.owner, now + hop_);
        will_be_usable(next, other(current_.owner), now + 2 * hop_);
        return;
    }
    // Each side needs its own part and, a hop later, the other's.
    const Nanoseconds device = *current_.ended[index(Side::kDevice)];
    const Nanoseconds cpu = *current_.ended[index(Side::kCpu)];
    will_be_usable(next, Side::kDevice, std::max(device, cpu + hop_));
    will_be_usable(next, Side::kCpu, std::max(cpu, device + hop_));
}

}  // namespace ballast::scheduler
