// SPDX-License-Identifier: MIT
// How a group is shared by the two sides in one step.
#pragma once

#include <array>

namespace ballast::runtime {

/// Weights that stream are worth it for many tokens at once, so that prompts have a division of
/// their own. A step with prompt tokens is of that kind, whatever else it has.
enum class StepKind { kDecode, kPrefill };
constexpr std::array<StepKind, 2> kStepKinds = {StepKind::kDecode, StepKind::kPrefill};

/// One group in one kind of step: the device computes the first `resident` parts from its memory,
/// the next `streamed` from the ring that they cross into; the CPU computes the rest.
struct GroupDivision {
    int resident = 0;
    int streamed = 0;

    int on_device() const { return resident + streamed; }
    friend bool operator==(const GroupDivision&, const GroupDivision&) = default;
};

}  // namespace ballast::runtime
