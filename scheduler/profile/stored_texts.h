// SPDX-License-Identifier: MIT
// The JSON files of this folder as the build has compiled them in.
#pragma once

#include <span>
#include <string_view>

namespace ballast::scheduler {

struct StoredText {
    std::string_view name;  // the file's, without its ending
    std::string_view text;
};

/// Sorted by name.
std::span<const StoredText> stored_hardware_texts();
std::span<const StoredText> stored_model_texts();

}  // namespace ballast::scheduler
