// SPDX-License-Identifier: MIT
// Chooses the family and checks that the file has no layers beyond those it announces.
#include "engine/model/model.h"

#include <charconv>

#include <fmt/format.h>

#include "engine/model/forward.h"
#include "engine/model/tensor_catalog.h"

namespace ballast::model {

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

}  // namespace

Result<std::unique_ptr<Model>> load_model(const gguf::Reader& reader) {
    BALLAST_TRY(ModelConfig config, read_model_config(reader.metadata()));
    BALLAST_TRY_STATUS(check_layers(reader, config));
    Weights weights(reader);
    OpsList ops;
    const Forward forward{.config = config, .weights = weights, .ops = ops};
    BALLAST_TRY(const backend::SlotId logits,
                config.architecture == "gemma3" ? emit_gemma3(forward) : emit_llama(forward));
    BALLAST_TRY_STATUS(weights.check_all_used());
    BALLAST_TRY(scheduler::TensorCatalog catalog, catalog_of(reader, Model::kCatalogKvBytes));
    return std::make_unique<Model>(
        std::move(config), std::move(weights), std::move(ops), logits, std::move(catalog));
}

}  // namespace ballast::model
