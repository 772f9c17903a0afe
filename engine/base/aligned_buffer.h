// SPDX-License-Identifier: MIT
// Owned memory aligned to a cache line, for activations, scratch and packed rows.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace ballast {

/// A zero-filled array of T on a 64-byte border. Moves, does not copy.
template <class T>
class AlignedBuffer {
  public:
    AlignedBuffer() = default;
    explicit AlignedBuffer(std::size_t count)
        : data_(static_cast<T*>(::operator new[](count * sizeof(T) + kSlack, kAlignment))),
          count_(count) {
        std::uninitialized_value_construct_n(data_.get(), count);
    }

    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }
    std::size_t size() const { return count_; }
    std::span<T> span() { return {data_.get(), count_}; }
    std::span<const T> span() const { return {data_.get(), count_}; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }

  private:
    static_assert(std::is_trivially_destructible_v<T>);
    static constexpr std::align_val_t kAlignment{64};
    // A vector load that starts at the last element stays inside the allocation.
    static constexpr std::size_t kSlack = 64;
    struct Release {
        void operator()(T* p) const { ::operator delete[](p, kAlignment); }
    };
    std::unique_ptr<T[], Release> data_;
    std::size_t count_ = 0;
};

}  // namespace ballast
