// SPDX-License-Identifier: MIT
// Reads numpy's .npy files and the members of .npz files (stored or deflated).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/base/result.h"

namespace ballast::test {

/// An array in C order. float64 is narrowed to float32; other types are refused.
struct NpyArray {
    std::vector<std::size_t> shape;
    std::vector<float> values;
};

Result<NpyArray> read_npy(const std::string& path);
/// The member `name` (without ".npy") of an .npz file.
Result<NpyArray> read_npz(const std::string& path, const std::string& name);

}  // namespace ballast::test
