// SPDX-License-Identifier: MIT
// What an op reads and writes, for those that bind ops to memory without looking into them.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "engine/backend/op.h"

namespace ballast::backend {

/// The slots and weights of one op. A slot that is changed in place is both read and written; what
/// is written is written whole, for the rows that the op works on.
class OpAccess {
  public:
    explicit OpAccess(const Op& op);

    std::span<const SlotId> reads() const { return reads_.span(); }
    std::span<const SlotId> writes() const { return writes_.span(); }
    std::span<const UnitId> units() const { return units_.span(); }

  private:
    /// At most four of something.
    template <class T>
    struct Few {
        std::array<T, 4> items = {};
        std::size_t n = 0;
        void add(T item) { items[n++] = item; }
        std::span<const T> span() const { return {items.data(), n}; }
    };
    void note(const Embed& op);
    void note(const RmsNorm& op);
    void note(const Linear& op);
    void note(const Rope& op);
    void note(const Attention& op);
    void note(const GatedActivation& op);
    void note(const Add& op);
    void note(const Router& op);
    void note(const Experts& op);
    void note(const GatherOutputs& op);

    Few<SlotId> reads_;
    Few<SlotId> writes_;
    Few<UnitId> units_;
};

}  // namespace ballast::backend
