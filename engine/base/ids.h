// SPDX-License-Identifier: MIT
// Identifiers that cross module borders.
#pragma once

#include <cstdint>

namespace ballast {

/// Index into a model's vocabulary; negative means "none".
using TokenId = std::int32_t;

/// A compute device; 0 is always the CPU, 1 the other one, where one is used.
enum class DeviceId : std::int32_t { kCpu = 0, kDevice = 1 };
constexpr int kDevices = 2;

/// Which arithmetic a token row meets: decided by its role, never by the width of the batch, so
/// that neighbours cannot change a text. Prompt tokens are prefill, generated ones decode.
enum class ArithmeticClass { kPrefill, kDecode };

}  // namespace ballast
