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
#include "scheduler/profile/tensor_catalog.h"

namespace ballast::model {

/// Immutable; views the reader's mapping, which outlives it.
class Model {
  public:
    Model(ModelConfig config,
          Weights weights,
          OpsList ops,
          backend::SlotId logits,
          scheduler::TensorCatalog catalog)
        : config_(std::move(config)),
          weights_(std::move(weights)),
          ops_(std::move(ops)),
          logits_(logits),
          catalog_(std::move(catalog)) {}

    const ModelConfig& config() const { return config_; }
    const Weights& weights() const { return weights_; }
    const OpsList& ops() const { return ops_; }
    /// The slot that holds the logits after the last op: [outputs, vocabulary].
    backend::SlotId logits() const { return logits_; }
    /// What a planner knows of the model, with keys and values of kCatalogKvBytes an element.
    const scheduler::TensorCatalog& catalog() const { return catalog_; }
    static constexpr std::uint64_t kCatalogKvBytes = 2;

  private:
    ModelConfig config_;
    Weights weights_;
    OpsList ops_;
    backend::SlotId logits_;
    scheduler::TensorCatalog catalog_;
};

/// Builds the model of the file's architecture. Errors: kUnsupported or kCorruptFile naming the key
/// or the tensor.
Result<std::unique_ptr<Model>> load_model(const gguf::Reader& reader);

}  // namespace ballast::model
