// SPDX-License-Identifier: MIT
// A walk over a model's ops.
#include "engine/runtime/profile_formats.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

namespace ballast::runtime {

namespace {

using backend::WeightView;
using quant::QuantType;

// A model has few types that matter; the rest is norms and biases.
constexpr std::size_t kFormatsMax = 6;

}  // namespace

std::size_t bytes_of(std::span<const WeightView> matrices) {
    std::size_t sum = 0;
    for (const WeightView& matrix : matrices) {
        sum += matrix.n_slices * matrix.slice_bytes();
    }
    return sum;
}

std::vector<ProfileFormat> formats_of(const model::Model& model) {
    std::map<QuantType, ProfileFormat> by_type;
    std::vector<backend::UnitId> seen;
    const auto add = [&](backend::UnitId unit) {
        if (unit == backend::kNoUnit || std::find(seen.begin(), seen.end(), unit) != seen.end()) {
            return;
        }
        seen.push_back(unit);
        WeightView view = model.weights().views()[static_cast<std::size_t>(unit)];
        // Experts are so many rows more.
        view.n_rows *= std::exchange(view.n_slices, 1);
        ProfileFormat& format = by_type[view.type];
        format.type = view.type;
        format.matrices.push_back(view);
    };
    for (const backend::OpRecord& record : model.ops().records()) {
        if (const auto* linear = std::get_if<backend::Linear>(&record.op)) {
            for (int i = 0; i < linear->n_matrices; ++i) {
                add(linear->weights[static_cast<std::size_t>(i)]);
            }
        } else if (const auto* router = std::get_if<backend::Router>(&record.op)) {
            add(router->weight);
        } else if (const auto* experts = std::get_if<backend::Experts>(&record.op)) {
            add(experts->gate);
            add(experts->up);
            add(experts->down);
        }
    }
    std::vector<ProfileFormat> formats;
    formats.reserve(by_type.size());
    for (auto& [type, format] : by_type) {
        formats.push_back(std::move(format));
    }
    std::stable_sort(formats.begin(), formats.end(), [](const auto& a, const auto& b) {
        return bytes_of(a.matrices) > bytes_of(b.matrices);
    });
    formats.resize(std::min(formats.size(), kFormatsMax));
    return formats;
}

std::vector<WeightView> matrices_in(std::span<const std::byte> bytes,
                                    QuantType type,
                                    std::size_t k,
                                    std::size_t rows_max) {
    std::vector<WeightView> matrices;
    const std::size_t row_bytes = quant::row_bytes(type, k);
    const std::size_t n_rows = std::min(bytes.size() / row_bytes, rows_max);
    if (n_rows == 0) {
        return matrices;
    }
    for (std::size_t at = 0; at + n_rows * row_bytes <= bytes.size(); at += n_rows * row_bytes) {
        matrices.push_back({.type = type,
                            .data = bytes.data() + at,
                            .n_rows = n_rows,
                            .k = k,
                            .row_bytes = row_bytes});
    }
    return matrices;
}

AttentionShape attention_of(const model::Model& model) {
    return {.n_heads = model.config().n_heads,
            .n_kv_heads = model.config().n_kv_heads,
            .head_dim = model.config().head_dim};
}

std::vector<ProfileFormat> default_formats() {
    return {{.type = QuantType::kQ4_K},
            {.type = QuantType::kQ6_K},
            {.type = QuantType::kQ8_0},
            {.type = QuantType::kF16}};
}

}  // namespace ballast::runtime
