// SPDX-License-Identifier: MIT
// Offsets into a tensor, in rows and in blocks.
#include "engine/runtime/weight_slice.h"

#include "engine/base/check.h"
#include "engine/quant/type_traits.h"

namespace ballast::runtime {

WeightSlice whole_slice(backend::UnitId unit, const backend::WeightView& tensor) {
    return {.unit = unit,
            .n_matrices = tensor.n_slices,
            .n_rows = tensor.n_rows,
            .n_columns = tensor.k};
}

backend::WeightView view_in_place(const backend::WeightView& tensor, const WeightSlice& slice) {
    // Rows and columns of several matrices would need a stride from one to the next.
    BALLAST_CHECK(tensor.n_slices == 1 ||
                  (slice.n_rows == tensor.n_rows && slice.n_columns == tensor.k));
    BALLAST_CHECK(slice.first_row + slice.n_rows <= tensor.n_rows);
    BALLAST_CHECK(slice.first_column + slice.n_columns <= tensor.k);
    backend::WeightView view = tensor;
    view.data += slice.first_matrix * tensor.slice_bytes() + slice.first_row * tensor.row_bytes +
                 quant::row_bytes(tensor.type, slice.first_column);
    view.n_slices = slice.n_matrices;
    view.n_rows = slice.n_rows;
    view.k = slice.n_columns;
    return view;
}

backend::WeightView packed_view(const backend::WeightView& tensor,
                                const WeightSlice& slice,
                                const std::byte* data) {
    backend::WeightView view = tensor;
    view.data = data;
    view.n_slices = slice.n_matrices;
    view.n_rows = slice.n_rows;
    view.k = slice.n_columns;
    view.row_bytes = packing_strips(tensor, slice).device_stride;
    return view;
}

std::size_t packed_bytes(const backend::WeightView& tensor, const WeightSlice& slice) {
    return packing_strips(tensor, slice).total_bytes();
}

backend::Strips packing_strips(const backend::WeightView& tensor, const WeightSlice& slice) {
    // All columns: the tensor's own figure, which need not be that of its type in every test.
    const std::size_t row = slice.n_columns == tensor.k
                                ? tensor.row_bytes
                                : quant::row_bytes(tensor.type, slice.n_columns);
    const std::size_t n_rows = slice.n_matrices * slice.n_rows;
    if (row == tensor.row_bytes) {
        return {.row_bytes = row * n_rows, .device_stride = row, .host_stride = row};
    }
    return {
        .row_bytes = row, .n_rows = n_rows, .device_stride = row, .host_stride = tensor.row_bytes};
}

}  // namespace ballast::runtime
