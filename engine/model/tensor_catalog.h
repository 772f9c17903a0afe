// SPDX-License-Identifier: MIT
// What a GGUF file of any architecture is to the planner: its groups of tensors by their names, and
// the numbers of its metadata that cost time. Only the header is looked at.
#pragma once

#include <cstdint>

#include "engine/base/result.h"
#include "engine/gguf/reader.h"
#include "scheduler/profile/tensor_catalog.h"

namespace ballast::model {

/// One group of attention (or what stands in its place) and one of feed-forward or experts a layer,
/// as far as the layer has such tensors, then the head. Keys and values take kv_element_bytes each.
/// A tensor of a layer that is not known counts as attention; one outside the layers and the head
/// counts as embedding. A number that the metadata lack or that makes no sense is taken for 0.
/// kUnsupported if the file has no tensors of layers.
Result<scheduler::TensorCatalog> catalog_of(const gguf::Reader& reader,
                                            std::uint64_t kv_element_bytes = 2);

}  // namespace ballast::model
