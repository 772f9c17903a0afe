// SPDX-License-Identifier: MIT
// Which weight types to profile, and on which matrices.
#pragma once

#include <vector>

#include "engine/backend/step_context.h"
#include "engine/model/model.h"
#include "engine/runtime/attention_probe.h"

namespace ballast::runtime {

/// A weight type to measure.
struct ProfileFormat {
    quant::QuantType type = quant::QuantType::kF32;
    /// A model's matrices of this type, the ones to measure on. Empty: made up.
    std::vector<backend::WeightView> matrices = {};
};

/// The types of the matrices that a model multiplies with, most bytes first. Views its mapping.
std::vector<ProfileFormat> formats_of(const model::Model& model);
AttentionShape attention_of(const model::Model& model);
/// Types that files commonly have, where there is no model.
std::vector<ProfileFormat> default_formats();
/// Matrices of a type, all of one shape, made of these bytes: of as many rows as they have or
/// rows_max. None where not even a row fits.
std::vector<backend::WeightView> matrices_in(std::span<const std::byte> bytes,
                                             quant::QuantType type,
                                             std::size_t k,
                                             std::size_t rows_max);
/// Bytes of all of them.
std::size_t bytes_of(std::span<const backend::WeightView> matrices);

}  // namespace ballast::runtime
