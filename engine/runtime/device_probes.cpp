// SPDX-License-Identifier: MIT
// The link's memory, then weights, then activations; then one stage a figure.
#include "engine/runtime/device_probes.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "engine/runtime/profile_formats.h"

namespace ballast::runtime {

namespace {

using quant::QuantType;

// Two types, of which the better counts: no device is judged by one kernel.
constexpr std::array<QuantType, 2> kTypes = {QuantType::kQ8_0, QuantType::kQ4_K};
constexpr int kBatch = 512;
// So that on a device which reads 8 MiB of weights while one submission is made, that is lost in
// thirty.
constexpr std::size_t kOpsAtOnce = 32;

}  // namespace

DeviceProbes::DeviceProbes(const DeviceParts& parts, const DeviceSizes& sizes)
    : parts_(parts),
      sizes_(sizes),
      link_(parts.device, sizes.pinned_bytes),
      step_(parts.device, parts.pool.size(), kOpsAtOnce) {
    weights_.reserve(sizes.weight_bytes / ProbeMemory::kSegmentBytes);
}

DeviceProbes::~DeviceProbes() {
    for (const backend::Chunk& chunk : weights_) {
        parts_.device.free_chunk(chunk);
    }
}

backend::StepLimits DeviceProbes::limits(std::size_t row_length) {
    return {.rows = kBatch, .k = row_length};
}

std::size_t DeviceProbes::bytes_beside_weights(std::size_t row_length) {
    return Link::kTiles * Link::kTileBytes + ProbeStep::activation_bytes(limits(row_length));
}

Status DeviceProbes::take() {
    if (!link_taken_) {
        BALLAST_TRY(const bool more, link_.grow());
        link_taken_ = !more;
        return {};
    }
    if (weights_.size() < sizes_.weight_bytes / ProbeMemory::kSegmentBytes) {
        return take_weights();
    }
    BALLAST_TRY_STATUS(step_.reserve(limits(sizes_.row_length)));
    ready_ = true;
    return {};
}

Status DeviceProbes::take_weights() {
    BALLAST_TRY(const backend::Chunk chunk,
                parts_.device.allocate_chunk(ProbeMemory::kSegmentBytes));
    weights_.push_back(chunk);
    const std::size_t segment = (weights_.size() - 1) % parts_.memory.n_segments();
    BALLAST_TRY(const backend::Event copied,
                parts_.device.copy_in(chunk.data, std::as_bytes(parts_.memory.segment(segment))));
    return parts_.device.wait(copied);
}

void DeviceProbes::add_linear(std::vector<Stage>& stages, QuantType type, int tokens) {
    std::vector<backend::WeightView> matrices;
    for (const backend::Chunk& chunk : weights_) {
        const auto more = matrices_in(
            {chunk.data, chunk.size_bytes}, type, sizes_.row_length, ProbeStep::kRowsMax);
        matrices.insert(matrices.end(), more.begin(), more.end());
    }
    if (matrices.empty() || !step_.supports(type)) {
        return;
    }
    const std::string_view name = quant::traits(type).name;
    stages.push_back(
        {.purpose = tokens == 1 ? Purpose::kDeviceRead : Purpose::kDeviceArithmetic,
         .name = tokens == 1 ? fmt::format("device reads {}", name)
                             : fmt::format("device arithmetic {}, {} tokens", name, tokens),
         .type = type,
         .tokens = tokens,
         .probe = std::make_unique<LinearProbe>(step_, std::move(matrices), tokens, parts_.clock)});
}

void DeviceProbes::add_stages(std::vector<Stage>& stages) {
    const auto add = [&](Purpose purpose, const char* name, std::unique_ptr<Probe> probe) {
        stages.push_back({.purpose = purpose, .name = name, .probe = std::move(probe)});
    };
    const Clock& clock = parts_.clock;
    add(Purpose::kLink, "link, pinned", std::make_unique<PinnedCopyProbe>(link_, false, clock));
    add(Purpose::kLinkBack,
        "link, pinned, back",
        std::make_unique<PinnedCopyProbe>(link_, true, clock));
    add(Purpose::kLinkStaged,
        "link, staged",
        std::make_unique<StagedCopyProbe>(link_, parts_.memory, clock));
    add(Purpose::kTogether,
        "CPU and link together",
        std::make_unique<TogetherProbe>(link_, parts_.memory, parts_.pool, clock));
    add(Purpose::kHop, "hop", std::make_unique<HopProbe>(link_, clock));
    for (const QuantType type : kTypes) {
        add_linear(stages, type, 1);
    }
    for (const QuantType type : kTypes) {
        add_linear(stages, type, kBatch);
    }
}

}  // namespace ballast::runtime
