// SPDX-License-Identifier: MIT
// Chooses the family and checks that the file has no layers beyond those it announces.
#include "engine/model/model.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "engine/model/forward.h"

namespace ballast::model {

Result<RopeTable> make_rope_table(Weights& weights, int n_rotated, float base, float scale) {
    RopeTable table;
    const float* divisors = nullptr;
    if (weights.has("rope_freqs.weight")) {
        BALLAST_TRY(const backend::UnitId unit, weights.vector("rope_freqs.weight", n_rotated / 2));
        divisors = weights.views()[static_cast<std::size_t>(unit)].floats();
    }
    for (int i = 0; i < n_rotated / 2; ++i) {
        const double divisor = divisors == nullptr ? 1.0 : static_cast<double>(divisors[i]);
        if (!std::isfinite(divisor) || divisor <= 0.0) {
            return fail(
                ErrorCode::kCorruptFile,
                fmt::format("tensor rope_freqs.weight has the value {}, but must be above 0",
                            divisor));
        }
        table.rates.push_back(std::pow(static_cast<double>(base), -2.0 * i / n_rotated) /
                              (static_cast<double>(scale) * divisor));
    }
    return table;
}

Result<backend::SlotId> emit_head(Forward f, backend::SlotId x, backend::UnitId embedding) {
    const ModelConfig& c = f.config;
    const backend::SlotId last = f.ops.slot(c.width, backend::RowDomain::kOutputs);
    const backend::SlotId logits = f.ops.slot(c.vocabulary, backend::RowDomain::kOutputs);
    f.ops.begin_layer(c.n_layers);
    f.ops.begin_group(backend::OpGroup::kHead);
    f.ops.begin_outputs();
    BALLAST_TRY(const backend::UnitId norm, f.weights.vector("output_norm.weight", c.width));
    backend::UnitId head = embedding;
    if (f.weights.has("output.weight")) {
        BALLAST_TRY(head, f.weights.matrix("output.weight", c.vocabulary, c.width));
    }
    f.ops.add(backend::GatherOutputs{.in = x, .out = last, .width = c.width});
    f.ops.add(backend::RmsNorm{
        .in = last, .out = last, .weight = norm, .width = c.width, .epsilon = c.rms_epsilon});
    f.ops.add(backend::Linear{.in = last, .weights = {head}, .outs = {logits}});
    return logits;
}

namespace {

/// A tensor of a layer that block_count does not announce means that one of the two is wrong.
Status check_layers(const gguf::Reader& reader, const ModelConfig& config) {
    for (const gguf::TensorInfo& tensor : reader.tensors()) {
        if (!tensor.name.starts_with("blk.")) {
            continue;
        }
        int layer = 0;
        const char* begin = tensor.name.data() + 4;
        const auto parsed = std::from_chars(begin, tensor.name.data() + tensor.name.size(), layer);
        if (parsed.ec == std::errc() && layer >= config.n_layers) {
            return fail(ErrorCode::kCorruptFile,
                        fmt::format("tensor {} belongs to no layer: key {}.block_count is {}",
                                    tensor.name,
                                    config.architecture,
                                    config.n_layers));
        }
    }
    return {};
}

/// The weight units an op multiplies with.
std::vector<backend::UnitId> units_of(const backend::Op& op) {
    if (const auto* embed = std::get_if<backend::Embed>(&op)) {
        return {embed->table};
    }
    if (const auto* linear = std::get_if<backend::Linear>(&op)) {
        return {linear->weights.begin(), linear->weights.begin() + linear->n_matrices};
    }
    if (const auto* router = std::get_if<backend::Router>(&op)) {
        return {router->weight};
    }
    if (const auto* experts = std::get_if<backend::Experts>(&op)) {
        return {experts->gate, experts->up, experts->down};
    }
    return {};
}

}  // namespace

Status Model::check_supported(const backend::Backend& backend) const {
    for (const backend::OpRecord& record : ops_.records()) {
        for (const backend::UnitId unit : units_of(record.op)) {
            const quant::QuantType type = weights_.views()[static_cast<std::size_t>(unit)].type;
            if (!backend.supports(record.op, type)) {
                return fail(ErrorCode::kUnsupported,
                            fmt::format("tensor {} is {}, for which {} has no kernels",
                                        weights_.name(unit),
                                        quant::traits(type).name,
                                        backend.name()));
            }
        }
    }
    return {};
}

Result<std::unique_ptr<Model>> load_model(const gguf::Reader& reader) {
    BALLAST_TRY(ModelConfig config, read_model_config(reader.metadata()));
    BALLAST_TRY_STATUS(check_layers(reader, config));
    Weights weights(reader);
    OpsList ops;
    const Forward forward{.config = config, .weights = weights, .ops = ops};
    BALLAST_TRY(const backend::SlotId logits,
                config.architecture == "gemma3" ? emit_gemma3(forward) : emit_llama(forward));
    return std::make_unique<Model>(std::move(config), std::move(weights), std::move(ops), logits);
}

}  // namespace ballast::model
