// SPDX-License-Identifier: MIT
// The weight tensors of one model by number, each checked against the shape that the
// hyper-parameters ask for.
#pragma once

#include <string>
#include <vector>

#include "engine/backend/op.h"
#include "engine/backend/step_context.h"
#include "engine/base/result.h"
#include "engine/gguf/reader.h"

namespace ballast::model {

/// Views of the tensors a model uses; the reader's mapping outlives it. Immutable once loaded.
class Weights {
  public:
    explicit Weights(const gguf::Reader& reader) : reader_(&reader) {}

    /// A matrix [n_rows, k] that ops multiply or look rows up in. kCorruptFile or kUnsupported,
    /// naming the tensor.
    Result<backend::UnitId> matrix(const std::string& name, int n_rows, int k);
    /// n_slices matrices of [n_rows, k], one an expert.
    Result<backend::UnitId> stacked(const std::string& name, int n_slices, int n_rows, int k);
    /// n float32 values.
    Result<backend::UnitId> vector(const std::string& name, int n);
    bool has(std::string_view name) const { return reader_->find_tensor(name) != nullptr; }

    /// kUnsupported naming a tensor of the file that none of the calls above asked for: an op that
    /// needs it is missing here, and without it the answers would be wrong.
    Status check_all_used() const;

    std::span<const backend::WeightView> views() const { return views_; }
    const std::string& name(backend::UnitId unit) const {
        return names_[static_cast<std::size_t>(unit)];
    }

  private:
    struct Shape {
        std::uint64_t k = 0;
        std::uint64_t n_rows = 1;
        std::uint64_t n_slices = 1;
    };
    Result<backend::UnitId> add(const std::string& name, const Shape& shape);

    const gguf::Reader* reader_;
    std::vector<backend::WeightView> views_;
    std::vector<std::string> names_;
};

}  // namespace ballast::model
