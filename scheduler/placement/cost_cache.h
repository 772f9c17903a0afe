// SPDX-License-Identifier: MIT
// Costs of divisions that need not be in an option table, worked out once each.
#pragma once

#include <deque>
#include <vector>

#include "scheduler/placement/option_table.h"

namespace ballast::scheduler {

/// For placements in which few divisions occur, each many times. Borrows the table.
class CostCache {
  public:
    explicit CostCache(const OptionTable& table) : table_(table), known_(table.n_types()) {}

    /// Stays where it is.
    const ShareCost& cost(int type, const GroupPlacement& placed) {
        std::deque<Known>& known = known_[static_cast<std::size_t>(type)];
        for (const Known& of : known) {
            if (of.placed == placed) {
                return of.cost;
            }
        }
        known.push_back(
            {.placed = placed, .cost = table_.model().cost(table_.example(type), placed)});
        return known.back().cost;
    }

  private:
    struct Known {
        GroupPlacement placed;
        ShareCost cost;
    };
    const OptionTable& table_;
    std::vector<std::deque<Known>> known_;  // by type
};

}  // namespace ballast::scheduler
