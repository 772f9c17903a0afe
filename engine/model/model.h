// SPDX-License-Identifier: MIT
// A loaded model: hyper-parameters, weights and the ops of one forward pass.
#pragma once

#include <memory>
#include <utility>

#include "engine/backend/op.h"
#include "engine/base/result.h"
#include "engine/gguf/reader.h"
#include "engine/model/model_config.h"
#include "engine/model/ops_list.h"
#include "engine/model/weights.h"

namespace ballast::model {

/// Immutable; views the reader's mapping, which outlives it.
class Model {
  public:
    Model(ModelConfig config, Weights weights, OpsList ops, backend::SlotId logits)
        : config_(std::move(config)),
          weights_(std::move(weights)),
          ops_(std::move(ops)),
          logits_(logits) {}

    const ModelConfig& config() const { return config_; }
    const Weights& weights() const { return weights_; }
    const OpsList& ops() const { return ops_; }
    /// The slot that holds the logits after the last op: [outputs, vocabulary].
    backend::SlotId logits() const { return logits_; }

  private:
    ModelConfig config_;
    Weights weights_;
    OpsList ops_;
    backend::SlotId logits_;
};

/// Builds the model of the file's architecture. Errors: kUnsupported or kCorruptFile naming the key
/// or the tensor.
Result<std::unique_ptr<Model>> load_model(const gguf::Reader& reader);

}  // namespace ballast::model
