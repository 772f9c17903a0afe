// SPDX-License-Identifier: MIT
// What has crossed between the host and a device, why, and what that cost: bytes by direction and
// reason, the time in which the device stood still for weights, and how much of the copying was
// hidden behind computation.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/clock.h"

namespace ballast::runtime {

enum class TransferDirection { kIn, kOut };  // to the device, from it
constexpr std::array kTransferDirections = {TransferDirection::kIn, TransferDirection::kOut};

enum class TransferReason {
    kDecodeWeights,   // that stream in a step of generated tokens
    kPrefillWeights,  // in a step with prompt tokens
    kUpload,          // weights that come to stay
    kExperts,         // that are fetched because they are used
    kActivations,     // with the angles of positions
    kKv,              // keys and values
};
constexpr std::array kTransferReasons = {TransferReason::kDecodeWeights,
                                         TransferReason::kPrefillWeights,
                                         TransferReason::kUpload,
                                         TransferReason::kExperts,
                                         TransferReason::kActivations,
                                         TransferReason::kKv};

/// "in", "out".
const char* transfer_direction_name(TransferDirection direction);
/// "decode_weights", …: as the enumerators, for metrics.
const char* transfer_reason_name(TransferReason reason);

/// Running totals since the start. Bytes count when their copy is ordered, times when it is done.
/// Engine thread.
struct TransferStats {
    std::array<std::array<std::uint64_t, kTransferReasons.size()>, kTransferDirections.size()>
        bytes_moved = {};
    /// The device's compute lane had work that could begin but for a tile of weights.
    Nanoseconds stalled{0};
    /// The copy lane worked; and that while the CPU or the device computed. Of the copies of
    /// weights that stream, where the device knows their times.
    Nanoseconds copied{0};
    Nanoseconds overlapped{0};

    void count(TransferDirection direction, TransferReason reason, std::uint64_t bytes) {
        at(direction, reason) += bytes;
    }
    std::uint64_t bytes(TransferDirection direction, TransferReason reason) const {
        return bytes_moved[static_cast<std::size_t>(direction)][static_cast<std::size_t>(reason)];
    }
    /// Weights that crossed for one step.
    std::uint64_t streamed_bytes() const {
        return bytes(TransferDirection::kIn, TransferReason::kDecodeWeights) +
               bytes(TransferDirection::kIn, TransferReason::kPrefillWeights);
    }
    /// At which weights that stream have crossed; 0: none have, or the device does not know.
    double link_bps() const;
    /// Of the copying, 0 to 1; 0 if nothing was copied.
    double overlap_ratio() const;

  private:
    std::uint64_t& at(TransferDirection direction, TransferReason reason) {
        return bytes_moved[static_cast<std::size_t>(direction)][static_cast<std::size_t>(reason)];
    }
};

}  // namespace ballast::runtime
