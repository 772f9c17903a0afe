// SPDX-License-Identifier: MIT
// Appending ops and cutting them into segments.
#include "engine/model/ops_list.h"

#include <utility>

#include "engine/base/check.h"

namespace ballast::model {

backend::SlotId OpsList::slot(int width, backend::RowDomain rows) {
    slots_.push_back({.width = width, .rows = rows});
    return static_cast<backend::SlotId>(slots_.size() - 1);
}

int OpsList::rope_table(RopeTable table) {
    rope_tables_.push_back(std::move(table));
    return static_cast<int>(rope_tables_.size()) - 1;
}

void OpsList::begin_layer(int layer) {
    BALLAST_CHECK(layer == static_cast<int>(segment_begin_.size()) - 1);
    segment_begin_.push_back(records_.size());
    layer_ = layer;
}

void OpsList::add(const backend::Op& op) {
    records_.push_back({.op = op, .rows = rows_, .group = group_, .layer = layer_});
}

std::span<const backend::OpRecord> OpsList::segments(int first, int last) const {
    const std::size_t begin = segment_begin_[static_cast<std::size_t>(first)];
    const std::size_t end =
        last == n_segments() ? records_.size() : segment_begin_[static_cast<std::size_t>(last)];
    return std::span(records_).subspan(begin, end - begin);
}

}  // namespace ballast::model
