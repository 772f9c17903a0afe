// SPDX-License-Identifier: MIT
// Matrix times activations. Rows of the decode class go through matvec in passes of up to eight
// columns, rows of the prefill class through matmul; which class a row meets never depends on how
// many rows there are.
#include <algorithm>

#include "engine/backend/cpu_backend.h"
#include "engine/backend/cpu_parallel.h"
#include "engine/base/check.h"
#include "engine/base/units.h"

namespace ballast::backend {

namespace {

// A thread's run of weights in the decode class: smaller ones restart the memory stream and its
// prefetch too often (24 KiB lose 17 %, 128 KiB nothing).
constexpr std::size_t kDecodeRunBytes = 128 * kKiB;

// Weight rows of one matmul call: the height of a kernel's unpacked panel.
constexpr std::size_t kPanelRows = 32;

}  // namespace

void CpuBackend::run(const Linear& op, Rows rows, const StepContext& context) {
    std::array<Matrix, 3> matrices;
    for (std::size_t i = 0; i < index_of(op.n_matrices); ++i) {
        const SlotView& out = context.slots[index_of(op.outs[i])];
        matrices[i] = {.weight = context.weights[index_of(op.weights[i])],
                       .out = out.data,
                       .out_stride = out.width};
    }
    const SlotView& in = context.slots[index_of(op.in)];
    multiply(std::span(matrices).first(index_of(op.n_matrices)), in.data, in.width, rows);
}

void CpuBackend::multiply(std::span<const Matrix> matrices,
                          const float* in,
                          std::size_t in_stride,
                          Rows rows) {
    if (rows.n_decode > 0) {
        multiply_decode(matrices, in, in_stride, rows.n_decode);
    }
    if (rows.n > rows.n_decode) {
        std::array<Matrix, 3> shifted;
        std::copy(matrices.begin(), matrices.end(), shifted.begin());
        for (Matrix& matrix : shifted) {
            matrix.out += index_of(rows.n_decode) * matrix.out_stride;
        }
        multiply_prefill(std::span(shifted).first(matrices.size()),
                         in + index_of(rows.n_decode) * in_stride,
                         in_stride,
                         rows.n - rows.n_decode);
    }
}

const std::byte* CpuBackend::pack_rows(const float* in,
                                       std::size_t in_stride,
                                       std::size_t k,
                                       int n) {
    const std::size_t stride = kernels_.packed_bytes(k);
    BALLAST_DCHECK(stride * index_of(n) <= packed_.size());
    for_each(n, k, [&](int row) {
        kernels_.pack(in + index_of(row) * in_stride, k, packed_.data() + index_of(row) * stride);
    });
    return packed_.data();
}

kernels::LinearArgs CpuBackend::linear_args(const Matrix& matrix,
                                            const float* in,
                                            std::size_t in_stride,
                                            const std::byte* packed) const {
    const WeightView& weight = matrix.weight;
    const bool is_float = kernels_.linear(weight.type).form == kernels::ActivationForm::kFloat;
    return {
        .weights = weight.data + matrix.slice * weight.slice_bytes(),
        .row_bytes = weight.row_bytes,
        .n_rows = weight.n_rows,
        .k = weight.k,
        .activations = is_float ? reinterpret_cast<const std::byte*>(in) : packed,
        .activation_bytes = is_float ? in_stride * sizeof(float) : kernels_.packed_bytes(weight.k),
        .out = matrix.out,
        .out_stride = matrix.out_stride};
}

bool CpuBackend::needs_packing(std::span<const Matrix> matrices) const {
    return std::any_of(matrices.begin(), matrices.end(), [&](const Matrix& matrix) {
        return kernels_.linear(matrix.weight.type).form == kernels::ActivationForm::kPacked;
    });
}

void CpuBackend::multiply_decode(std::span<const Matrix> matrices,
                                 const float* in,
                                 std::size_t in_stride,
                                 int n) {
    const std::byte* packed =
        needs_packing(matrices) ? pack_rows(in, in_stride, matrices[0].weight.k, n) : nullptr;
    std::size_t total_rows = 0;
    std::size_t total_bytes = 0;
    for (const Matrix& matrix : matrices) {
        total_rows += matrix.weight.n_rows;
        total_bytes += matrix.weight.read_bytes();
    }
    const auto n_threads = index_of(pool_.size());
    const std::size_t n_items =
        std::min(total_rows,
                 n_threads * std::max<std::size_t>(1, total_bytes / (n_threads * kDecodeRunBytes)));
    share_items(static_cast<int>(n_items), [&](int item, int /*thread*/) {
        // The matrices' rows form one sequence, cut into equal runs.
        std::size_t begin = total_rows * index_of(item) / n_items;
        const std::size_t end = total_rows * index_of(item + 1) / n_items;
        std::size_t base = 0;
        for (const Matrix& matrix : matrices) {
            const std::size_t matrix_end = base + matrix.weight.n_rows;
            if (begin < end && begin < matrix_end) {
                const std::size_t first = begin - base;
                const std::size_t n_rows = std::min(end, matrix_end) - begin;
                multiply_run(matrix, linear_args(matrix, in, in_stride, packed), first, n_rows, n);
                begin += n_rows;
            }
            base = matrix_end;
        }
    });
}

void CpuBackend::multiply_run(const Matrix& matrix,
                              kernels::LinearArgs args,
                              std::size_t first,
                              std::size_t n_rows,
                              int n_columns) const {
    args.weights += first * args.row_bytes;
    args.n_rows = n_rows;
    args.out += first;
    const auto matvec = kernels_.linear(matrix.weight.type).matvec;
    for (int column = 0; column < n_columns; column += kernels::kMatvecColumnsMax) {
        args.n_columns = index_of(std::min(kernels::kMatvecColumnsMax, n_columns - column));
        matvec(args);
        args.activations += args.n_columns * args.activation_bytes;
        args.out += args.n_columns * args.out_stride;
    }
}

void CpuBackend::multiply_prefill(std::span<const Matrix> matrices,
                                  const float* in,
                                  std::size_t in_stride,
                                  int n) {
    const std::byte* packed =
        needs_packing(matrices) ? pack_rows(in, in_stride, matrices[0].weight.k, n) : nullptr;
    std::size_t n_items = 0;
    for (const Matrix& matrix : matrices) {
        n_items += (matrix.weight.n_rows + kPanelRows - 1) / kPanelRows;
    }
    share_items(static_cast<int>(n_items), [&](int item, int thread) {
        auto panel = index_of(item);
        for (const Matrix& matrix : matrices) {
            const std::size_t n_panels = (matrix.weight.n_rows + kPanelRows - 1) / kPanelRows;
            if (panel >= n_panels) {
                panel -= n_panels;
                continue;
            }
            kernels::LinearArgs args = linear_args(matrix, in, in_stride, packed);
            const std::size_t first = panel * kPanelRows;
            args.weights += first * args.row_bytes;
            args.n_rows = std::min(kPanelRows, matrix.weight.n_rows - first);
            args.n_columns = index_of(n);
            args.out += first;
            args.scratch = scratch_[index_of(thread)].kernel.data();
            kernels_.linear(matrix.weight.type).matmul(args);
            return;
        }
    });
}

}  // namespace ballast::backend
