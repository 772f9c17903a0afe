// SPDX-License-Identifier: MIT
// One series an owner, level, cause and reason, of which there are few.
#include "server/metrics/load_families.h"

namespace ballast::metrics {

namespace {

using runtime::LoadCause;
using scheduler::LoadLevel;

constexpr std::array kLevels = {LoadLevel::kFull,
                                LoadLevel::kPolite,
                                LoadLevel::kMinimal,
                                LoadLevel::kPaused,
                                LoadLevel::kDegraded};
constexpr std::array kReasons = {
    LoadCause::kLost, LoadCause::kFailedSubmission, LoadCause::kFailedAllocation};

}  // namespace

LoadFamilies::LoadFamilies(prometheus::Registry& registry)
    : memory_(prometheus::BuildGauge()
                  .Name("ballast_gpu_memory_bytes")
                  .Help("The device's memory by who uses it; self is the device's own count.")
                  .Register(registry)),
      contention_(prometheus::BuildGauge()
                      .Name("ballast_gpu_contention_ratio")
                      .Help("Share of the device's time that others take.")
                      .Register(registry)),
      level_(prometheus::BuildGauge()
                 .Name("ballast_pressure_level")
                 .Help("1 at the level in force: full, polite, minimal, paused or degraded.")
                 .Register(registry)),
      degraded_(prometheus::BuildGauge()
                    .Name("ballast_degraded")
                    .Help("1 if the device does less than it should for this reason.")
                    .Register(registry)),
      evicted_(prometheus::BuildCounter()
                   .Name("ballast_evicted_bytes_total")
                   .Help("Bytes of the device that were given back, by cause.")
                   .Register(registry)),
      moves_(prometheus::BuildCounter()
                 .Name("ballast_moves_total")
                 .Help("Times that the model's share moved to the device or from it.")
                 .Register(registry)),
      crossed_(prometheus::BuildCounter()
                   .Name("ballast_transfer_bytes_total")
                   .Help("Bytes that crossed to the device (in) or from it (out), by reason.")
                   .Register(registry)),
      stalled_(prometheus::BuildCounter()
                   .Name("ballast_transfer_stall_seconds_total")
                   .Help("Time in which the device stood still for weights that were crossing.")
                   .Register(registry)),
      overlap_(prometheus::BuildGauge()
                   .Name("ballast_transfer_overlap_ratio")
                   .Help("Share of the time of weights' crossing in which CPU or device computed, "
                         "since the start.")
                   .Register(registry)) {}

void LoadFamilies::update(const runtime::LoadReport& report) {
    for (const LoadLevel level : kLevels) {
        level_.Add({{"level", scheduler::load_level_name(level)}})
            .Set(level == report.level ? 1.0 : 0.0);
    }
    if (!report.has_device) {
        return;
    }
    memory_.Add({{"owner", "self"}}).Set(static_cast<double>(report.self_bytes));
    if (report.total_bytes > 0) {
        memory_.Add({{"owner", "others"}}).Set(static_cast<double>(report.others_bytes));
        memory_.Add({{"owner", "free"}}).Set(static_cast<double>(report.free_bytes()));
    }
    contention_.Add({}).Set(report.contention);
    for (const LoadCause reason : kReasons) {
        degraded_.Add({{"reason", runtime::load_cause_name(reason)}})
            .Set(report.degraded == reason ? 1.0 : 0.0);
    }
    for (int i = 0; i < runtime::kLoadCauses; ++i) {
        raise(evicted_.Add({{"cause", runtime::load_cause_name(static_cast<LoadCause>(i))}}),
              static_cast<double>(report.evicted_bytes[static_cast<std::size_t>(i)]));
    }
    raise(moves_.Add({}), static_cast<double>(report.n_moves));
    update(report.transfers);
}

void LoadFamilies::update(const runtime::TransferStats& transfers) {
    for (const auto direction : runtime::kTransferDirections) {
        for (const auto reason : runtime::kTransferReasons) {
            raise(crossed_.Add({{"direction", runtime::transfer_direction_name(direction)},
                                {"reason", runtime::transfer_reason_name(reason)}}),
                  static_cast<double>(transfers.bytes(direction, reason)));
        }
    }
    raise(stalled_.Add({}), to_seconds(transfers.stalled));
    overlap_.Add({}).Set(transfers.overlap_ratio());
}

}  // namespace ballast::metrics
