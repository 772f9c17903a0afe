// SPDX-License-Identifier: MIT
// Names and the one ratio.
#include "engine/runtime/transfer_stats.h"

namespace ballast::runtime {

const char* transfer_direction_name(TransferDirection direction) {
    return direction == TransferDirection::kIn ? "in" : "out";
}

const char* transfer_reason_name(TransferReason reason) {
    switch (reason) {
        case TransferReason::kDecodeWeights:
            return "decode_weights";
        case TransferReason::kPrefillWeights:
            return "prefill_weights";
        case TransferReason::kUpload:
            return "upload";
        case TransferReason::kExperts:
            return "experts";
        case TransferReason::kActivations:
            return "activations";
        case TransferReason::kKv:
            return "kv";
    }
    return "";
}

double TransferStats::overlap_ratio() const {
    return copied.count() > 0 ? to_seconds(overlapped) / to_seconds(copied) : 0.0;
}

double TransferStats::link_bps() const {
    return copied.count() > 0 ? static_cast<double>(streamed_bytes()) / to_seconds(copied) : 0.0;
}

}  // namespace ballast::runtime
