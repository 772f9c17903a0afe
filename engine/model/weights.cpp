// SPDX-License-Identifier: MIT
// Looks tensors up and compares their shapes.
#include "engine/model/weights.h"

#include <string_view>
#include <unordered_set>

#include <fmt/format.h>

namespace ballast::model {

Result<backend::UnitId> Weights::matrix(const std::string& name, int n_rows, int k) {
    return add(name,
               {.k = static_cast<std::uint64_t>(k), .n_rows = static_cast<std::uint64_t>(n_rows)});
}

Result<backend::UnitId> Weights::stacked(const std::string& name, int n_slices, int n_rows, int k) {
    return add(name,
               {.k = static_cast<std::uint64_t>(k),
                .n_rows = static_cast<std::uint64_t>(n_rows),
                .n_slices = static_cast<std::uint64_t>(n_slices)});
}

Result<backend::UnitId> Weights::vector(const std::string& name, int n) {
    BALLAST_TRY(const backend::UnitId unit, add(name, {.k = static_cast<std::uint64_t>(n)}));
    if (views_.back().type != quant::QuantType::kF32) {
        return fail(
            ErrorCode::kUnsupported,
            fmt::format(
                "tensor {} is {}, but must be F32", name, quant::traits(views_.back().type).name));
    }
    return unit;
}

Result<backend::UnitId> Weights::add(const std::string& name, const Shape& shape) {
    const gguf::TensorInfo* tensor = reader_->find_tensor(name);
    if (tensor == nullptr) {
        return fail(ErrorCode::kCorruptFile, fmt::format("tensor {} is missing", name));
    }
    if (tensor->shape[0] != shape.k || tensor->shape[1] != shape.n_rows ||
        tensor->shape[2] != shape.n_slices || tensor->shape[3] != 1) {
        return fail(ErrorCode::kCorruptFile,
                    fmt::format("tensor {} has the shape [{}, {}, {}, {}], but the "
                                "hyper-parameters ask for [{}, {}, {}, 1]",
                                name,
                                tensor->shape[0],
                                tensor->shape[1],
                                tensor->shape[2],
                                tensor->shape[3],
                                shape.k,
                                shape.n_rows,
                                shape.n_slices));
    }
    views_.push_back({.type = tensor->type,
                      .data = tensor->data,
                      .n_rows = shape.n_rows,
                      .k = shape.k,
                      .row_bytes = quant::row_bytes(tensor->type, shape.k),
                      .n_slices = shape.n_slices});
    names_.push_back(name);
    return static_cast<backend::UnitId>(views_.size() - 1);
}

Status Weights::check_all_used() const {
    const std::unordered_set<std::string_view> used(names_.begin(), names_.end());
    for (const gguf::TensorInfo& tensor : reader_->tensors()) {
        if (!used.contains(tensor.name)) {
            return fail(ErrorCode::kUnsupported,
                        fmt::format("tensor {} is not used by this architecture as it is built "
                                    "here, so the answers would be wrong",
                                    tensor.name));
        }
    }
    return {};
}

}  // namespace ballast::model
