// SPDX-License-Identifier: MIT
// How a router's choice lies in its slot. It is an activation like any other, so that it can cross
// between devices: it is made on one of them only and sent, because another one's arithmetic might
// choose otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/backend/step_context.h"

namespace ballast::backend {

/// Floats a row of the slot: the experts' numbers, then their weights.
constexpr int choice_width(int n_used) {
    return 2 * n_used;
}

/// One row: [n_used] numbers of experts in the order of their ranks, [n_used] weights. Numbers are
/// floats, which are exact below 2^24.
class ExpertChoice {
  public:
    ExpertChoice(const SlotView& choice, int row, int n_used)
        : data_(choice.row(static_cast<std::size_t>(row))),
          n_used_(static_cast<std::size_t>(n_used)) {}

    void set(std::size_t rank, int expert, float weight) {
        data_[rank] = static_cast<float>(expert);
        data_[n_used_ + rank] = weight;
    }
    std::size_t n_used() const { return n_used_; }
    /// −1: no router wrote this.
    int expert(std::size_t rank, int n_experts) const {
        const float number = data_[rank];
        return number >= 0.0F && number < static_cast<float>(n_experts) ? static_cast<int>(number)
                                                                        : -1;
    }
    float weight(std::size_t rank) const { return data_[n_used_ + rank]; }

  private:
    float* data_;
    std::size_t n_used_;
};

/// Adds to each expert's count the rows, of the first n_rows, that chose it. Counts of a layer must
/// be taken before the next layer's router runs: layers share the slot.
void count_choices(const SlotView& choice, int n_rows, int n_used, std::span<std::uint32_t> counts);

}  // namespace ballast::backend
