// SPDX-License-Identifier: MIT
// What one rendering may use: steps, bytes of living values, nesting. Templates come from untrusted
// files, so every loop over their data spends steps and every value charges its bytes here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/result.h"

namespace ballast::chat {

class Heap;

/// Bytes held by one object; given back when the object dies. The Heap outlives all its charges.
class Charge {
  public:
    Charge() = default;
    Charge(Charge&& other) noexcept : heap_(other.heap_), bytes_(other.bytes_) {
        other.heap_ = nullptr;
    }
    Charge& operator=(Charge&& other) noexcept;
    ~Charge() { release(); }

  private:
    friend class Heap;
    Charge(Heap& heap, std::uint64_t bytes) : heap_(&heap), bytes_(bytes) {}
    void release();

    Heap* heap_ = nullptr;
    std::uint64_t bytes_ = 0;
};

class Heap {
  public:
    struct Limits {
        std::uint64_t steps_max = 0;
        std::uint64_t bytes_max = 0;
        std::uint32_t value_depth_max = 0;
    };

    explicit Heap(const Limits& limits) : limits_(limits) {}
    Heap(const Heap&) = delete;
    Heap& operator=(const Heap&) = delete;

    /// Counts work done; fails once all steps are spent.
    Status spend(std::uint64_t steps) {
        steps_ += steps;
        return steps_ > limits_.steps_max ? out_of_steps() : Status{};
    }

    /// Counts work that is linear in bytes touched; memory is far quicker than steps are.
    Status spend_bytes(std::uint64_t bytes) { return spend(1 + bytes / kBytesPerStep); }

    /// Counts one search (template_search.h) of all occurrences.
    Status spend_search(std::string_view text, std::string_view needle) {
        return spend(1 + (text.size() + needle.size()) / kSearchedBytesPerStep);
    }

    /// Fails if `bytes` more would not fit; to be asked before something large is built.
    Status ensure(std::uint64_t bytes) const;
    /// ensure(count * bytes_each) without overflow.
    Status ensure(std::uint64_t count, std::uint64_t bytes_each) const;

    Result<Charge> charge(std::uint64_t bytes);

    const Limits& limits() const { return limits_; }

    /// A step is about 50 ns of interpretation; copying or checking 64 bytes is about as much, and
    /// so is finding at worst a short text in 16.
    static constexpr std::uint64_t kBytesPerStep = 64;
    static constexpr std::uint64_t kSearchedBytesPerStep = 16;

  private:
    friend class Charge;
    static Status out_of_steps();

    Limits limits_;
    std::uint64_t steps_ = 0;
    std::uint64_t bytes_ = 0;
};

}  // namespace ballast::chat
