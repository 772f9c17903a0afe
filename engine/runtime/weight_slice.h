// SPDX-License-Identifier: MIT
// Parts of weight tensors: what one device's share of a group reads.
#pragma once

#include <array>
#include <cstddef>

#include "engine/backend/backend.h"
#include "engine/backend/step_context.h"

namespace ballast::runtime {

/// Rows and columns of one tensor, columns at the borders of blocks. Of a stack of matrices some,
/// each whole.
struct WeightSlice {
    backend::UnitId unit = backend::kNoUnit;  // as the model numbers it
    std::size_t first_matrix = 0;
    std::size_t n_matrices = 1;
    std::size_t first_row = 0;
    std::size_t n_rows = 0;
    std::size_t first_column = 0;
    std::size_t n_columns = 0;

    friend bool operator==(const WeightSlice&, const WeightSlice&) = default;
    friend bool operator<(const WeightSlice& a, const WeightSlice& b) { return a.key() < b.key(); }

  private:
    std::array<std::size_t, 7> key() const {
        return {static_cast<std::size_t>(unit),
                first_matrix,
                n_matrices,
                first_row,
                n_rows,
                first_column,
                n_columns};
    }
};

WeightSlice whole_slice(backend::UnitId unit, const backend::WeightView& tensor);

/// The slice where it lies in its tensor.
backend::WeightView view_in_place(const backend::WeightView& tensor, const WeightSlice& slice);

/// The slice as it is packed, row after row, at `data`.
backend::WeightView packed_view(const backend::WeightView& tensor,
                                const WeightSlice& slice,
                                const std::byte* data);
std::size_t packed_bytes(const backend::WeightView& tensor, const WeightSlice& slice);
/// What a copy from where it lies to where it is packed is.
backend::Strips packing_strips(const backend::WeightView& tensor, const WeightSlice& slice);

}  // namespace ballast::runtime
