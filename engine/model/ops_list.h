// SPDX-License-Identifier: MIT
// The ops of one forward pass, with a symbolic number of rows, in segments that a run can stop and
// resume between: embedding, each layer, head. A family's forward (llama.cpp, gemma.cpp) emits
// them.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "engine/backend/op.h"

namespace ballast::model {

/// Angles of one kind of rotary embedding: dimension pair i of position p turns by p · rate[i].
struct RopeTable {
    std::vector<double> rates;  // [n_rotated / 2]
};

/// Built once when a model is loaded, immutable afterwards.
class OpsList {
  public:
    /// An activation buffer of this many floats a row.
    backend::SlotId slot(int width, backend::RowDomain rows = backend::RowDomain::kAll);
    int rope_table(RopeTable table);

    /// What follows belongs to this layer; −1 is the embedding, n_layers the head.
    void begin_layer(int layer);
    void begin_group(backend::OpGroup group) { group_ = group; }
    /// From here on ops see only the rows whose logits are wanted.
    void begin_outputs() { rows_ = backend::RowDomain::kOutputs; }
    void add(const backend::Op& op);

    struct Slot {
        int width = 0;
        backend::RowDomain rows = backend::RowDomain::kAll;
    };
    std::span<const Slot> slots() const { return slots_; }
    std::span<const RopeTable> rope_tables() const { return rope_tables_; }
    std::span<const backend::OpRecord> records() const { return records_; }
    /// 1 + n_layers + 1: embedding, layers, head.
    int n_segments() const { return static_cast<int>(segment_begin_.size()); }
    /// The ops of segments [first, last).
    std::span<const backend::OpRecord> segments(int first, int last) const;

  private:
    std::vector<Slot> slots_;
    std::vector<RopeTable> rope_tables_;
    std::vector<backend::OpRecord> records_;
    std::vector<std::size_t> segment_begin_;
    int layer_ = -1;
    backend::OpGroup group_ = backend::OpGroup::kEmbedding;
    backend::RowDomain rows_ = backend::RowDomain::kAll;
};

}  // namespace ballast::model
