// SPDX-License-Identifier: MIT
#include "tests/engine/kernels/support.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "engine/quant/float16.h"

namespace ballast::kernels::test {

using quant::QuantType;

std::vector<const KernelTable*> available_tables() {
    std::vector<const KernelTable*> tables;
    for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
        if (const KernelTable* table = find_kernels(isa)) {
            tables.push_back(table);
        }
    }
    return tables;
}

std::vector<QuantType> weight_types() {
    return {QuantType::kF32,
            QuantType::kF16,
            QuantType::kBF16,
            QuantType::kQ4_0,
            QuantType::kQ4_1,
            QuantType::kQ5_0,
            QuantType::kQ5_1,
            QuantType::kQ8_0,
            QuantType::kQ4_K,
            QuantType::kQ5_K,
            QuantType::kQ6_K};
}

std::string type_name(QuantType type) {
    return std::string(quant::traits(type).name);
}

float random_normal(Rng& rng) {
    float sum = -6.0F;
    for (int i = 0; i < 12; ++i) {
        sum += static_cast<float>(rng.uniform());
    }
    return sum;
}

namespace {

// Where the halves that scale a block stand in it.
std::vector<std::size_t> scale_offsets(QuantType type) {
    switch (type) {
        case QuantType::kQ4_0:
        case QuantType::kQ5_0:
        case QuantType::kQ8_0:
            return {0};
        case QuantType::kQ4_1:
        case QuantType::kQ5_1:
        case QuantType::kQ4_K:
        case QuantType::kQ5_K:
            return {0, 2};
        case QuantType::kQ6_K:
            return {208};
        default:
            return {};
    }
}

std::uint16_t make_scale(Weights kind, Rng& rng) {
    const float sign = rng.below(2) == 0 ? 1.0F : -1.0F;
    switch (kind) {
        case Weights::kZeroScales:
            return rng.below(2) == 0 ? 0x0000 : 0x8000;
        case Weights::kTinyScales:  // subnormal halves
            return static_cast<std::uint16_t>(1 + rng.below(0x3FF)) |
                   static_cast<std::uint16_t>(rng.below(2) << 15);
        case Weights::kHugeScales:
            return quant::float_to_half(sign * 65504.0F);
        default:
            return quant::float_to_half(sign *
                                        (0.001F + 0.05F * static_cast<float>(rng.uniform())));
    }
}

float make_float_weight(Weights kind, Rng& rng) {
    switch (kind) {
        case Weights::kZeroScales:
            return rng.below(2) == 0 ? 0.0F : -0.0F;
        case Weights::kTinyScales:
            return random_normal(rng) * 1e-6F;
        case Weights::kHugeScales:
            return random_normal(rng) * 8000.0F;
        case Weights::kExtremeCodes:
            return rng.below(2) == 0 ? 1.0F : -1.0F;
        default:
            return random_normal(rng);
    }
}

void fill_float_weights(QuantType type, Weights kind, Rng& rng, std::vector<std::byte>& bytes) {
    const std::size_t size = quant::traits(type).block_bytes;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
        const float value = make_float_weight(kind, rng);
        if (type == QuantType::kF32) {
            std::memcpy(bytes.data() + at, &value, size);
        } else {
            const std::uint16_t narrow = type == QuantType::kF16 ? quant::float_to_half(value)
                                                                 : quant::float_to_bfloat16(value);
            std::memcpy(bytes.data() + at, &narrow, size);
        }
    }
}

}  // namespace

std::vector<std::byte> make_weights(
    QuantType type, std::size_t n_rows, std::size_t k, Weights kind, Rng& rng) {
    std::vector<std::byte> bytes(n_rows * quant::row_bytes(type, k));
    const std::vector<std::size_t> scales = scale_offsets(type);
    if (scales.empty()) {
        fill_float_weights(type, kind, rng, bytes);
        return bytes;
    }
    for (std::byte& byte : bytes) {
        constexpr std::uint8_t kExtremes[] = {0x00, 0xFF, 0xF0, 0x0F, 0x80, 0x7F};
        const auto random = static_cast<std::uint8_t>(rng.below(256));
        byte = std::byte{kind == Weights::kExtremeCodes ? kExtremes[random % 6] : random};
    }
    const std::size_t block_bytes = quant::traits(type).block_bytes;
    for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
        for (const std::size_t offset : scales) {
            const std::uint16_t scale = make_scale(kind, rng);
            std::memcpy(bytes.data() + at + offset, &scale, sizeof scale);
        }
    }
    return bytes;
}

std::vector<float> make_activations(std::size_t k, Activations kind, Rng& rng) {
    std::vector<float> x(k, 0.0F);
    for (float& value : x) {
        switch (kind) {
            case Activations::kRandom:
                value = random_normal(rng);
                break;
            case Activations::kZero:
                value = rng.below(2) == 0 ? 0.0F : -0.0F;
                break;
            case Activations::kExtreme:  // every code is +127 or −127
                value = rng.below(2) == 0 ? 3.0F : -3.0F;
                break;
            case Activations::kOutlier:
                value = random_normal(rng) * 0.01F;
                break;
            case Activations::kTiny:  // subnormal floats
                value = random_normal(rng) * 1e-40F;
                break;
        }
    }
    if (kind == Activations::kOutlier) {
        x[rng.below(k)] = 1000.0F;
    }
    return x;
}

Problem make_problem(QuantType type,
                     std::size_t n_rows,
                     std::size_t k,
                     std::size_t n_columns,
                     Weights weights,
                     Activations activations,
                     Rng& rng) {
    Problem problem{.type = type, .n_rows = n_rows, .k = k, .weights = {}, .columns = {}};
    problem.weights = make_weights(type, n_rows, k, weights, rng);
    for (std::size_t c = 0; c < n_columns; ++c) {
        problem.columns.push_back(make_activations(k, activations, rng));
    }
    return problem;
}

AlignedBuffer<std::byte> prepare_column(const KernelTable& table,
                                        ActivationForm form,
                                        const std::vector<float>& x) {
    if (form == ActivationForm::kFloat) {
        AlignedBuffer<std::byte> column(x.size() * sizeof(float));
        std::memcpy(column.data(), x.data(), column.size());
        return column;
    }
    AlignedBuffer<std::byte> column(table.packed_bytes(x.size()));
    std::memset(column.data(), 0xA5, column.size());
    table.pack(x.data(), x.size(), column.data());
    return column;
}

std::vector<float> run_product(const KernelTable& table,
                               Product product,
                               const Problem& problem,
                               const Part& part) {
    const LinearKernels kernels = table.linear(problem.type);
    std::size_t column_bytes = 0;
    AlignedBuffer<std::byte> columns;
    for (std::size_t c = 0; c < part.n_columns; ++c) {
        const auto column =
            prepare_column(table, kernels.form, problem.columns[part.first_column + c]);
        if (c == 0) {
            column_bytes = column.size();
            columns = AlignedBuffer<std::byte>(column_bytes * part.n_columns);
        }
        std::memcpy(columns.data() + c * column_bytes, column.data(), column_bytes);
    }
    // One more row in front and two behind stay poisoned.
    const float poison = std::numeric_limits<float>::quiet_NaN();
    const std::size_t stride = part.n_rows + 3;
    std::vector<float> out(stride * part.n_columns, poison);
    AlignedBuffer<std::byte> scratch(table.matmul_scratch_bytes(problem.k));
    const std::size_t row_bytes = quant::row_bytes(problem.type, problem.k);
    const LinearArgs args = {.weights = problem.weights.data() + part.first_row * row_bytes,
                             .row_bytes = row_bytes,
                             .n_rows = part.n_rows,
                             .k = problem.k,
                             .activations = columns.data(),
                             .activation_bytes = column_bytes,
                             .n_columns = part.n_columns,
                             .out = out.data() + 1,
                             .out_stride = stride,
                             .scratch = scratch.data()};
    (product == Product::kMatvec ? kernels.matvec : kernels.matmul)(args);
    std::vector<float> result;
    for (std::size_t c = 0; c < part.n_columns; ++c) {
        const float* column = out.data() + c * stride;
        EXPECT_TRUE(std::isnan(column[0]) && std::isnan(column[stride - 1]) &&
                    std::isnan(column[stride - 2]))
            << "a cell outside the rows was written";
        result.insert(result.end(), column + 1, column + 1 + part.n_rows);
    }
    return result;
}

}  // namespace ballast::kernels::test
