// SPDX-License-Identifier: MIT
// Counting what a router chose.
#include "engine/backend/expert_choice.h"

#include "engine/base/check.h"

namespace ballast::backend {

void count_choices(const SlotView& choice,
                   int n_rows,
                   int n_used,
                   std::span<std::uint32_t> counts) {
    const auto n_experts = static_cast<int>(counts.size());
    for (int row = 0; row < n_rows; ++row) {
        const ExpertChoice of_row(choice, row, n_used);
        for (std::size_t rank = 0; rank < of_row.n_used(); ++rank) {
            const int expert = of_row.expert(rank, n_experts);
            BALLAST_CHECK(expert >= 0);
            ++counts[static_cast<std::size_t>(expert)];
        }
    }
}

}  // namespace ballast::backend
