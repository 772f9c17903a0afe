// SPDX-License-Identifier: MIT
// Seeded random numbers, equal on every platform: xoshiro256** seeded by splitmix64
// (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021).
#pragma once

#include <array>
#include <cstdint>

namespace ballast {

/// A generator owned by one user; not shared between threads.
class Rng {
  public:
    explicit Rng(std::uint64_t seed) {
        for (auto& word : state_) {
            seed += 0x9E3779B97F4A7C15ULL;
            std::uint64_t z = seed;
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
            z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
            word = z ^ (z >> 31);
        }
    }

    /// 64 uniform bits.
    std::uint64_t next() {
        const std::uint64_t result = rotate_left(state_[1] * 5, 7) * 9;
        const std::uint64_t t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = rotate_left(state_[3], 45);
        return result;
    }

    /// Uniform in [0, 1) with 53 bits.
    double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

    /// Uniform in [0, n); n > 0. The bias is below n / 2^64.
    std::uint64_t below(std::uint64_t n) { return next() % n; }

  private:
    static std::uint64_t rotate_left(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

    std::array<std::uint64_t, 4> state_{};
};

}  // namespace ballast
