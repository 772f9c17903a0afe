// SPDX-License-Identifier: MIT
// A loaded model: hyper-parameters, weights and the ops of one forward pass.
#pragma once

#include <memory>

#include "engine/base/result.h"
#include "engine/gguf/reader.h"
#include "engine/model/model_config.h"

namespace ballast::model {

/// Immutable; views the reader's mapping, which outlives it.
class Model {
  public:
    virtual ~Model() = default;
    virtual const ModelConfig& config() const = 0;
};

/// Builds the model of the file's architecture. Errors: kUnsupported or kCorruptFile naming the key
/// or the tensor.
Result<std::unique_ptr<Model>> load_model(const gguf::Reader& reader);

}  // namespace ballast::model
