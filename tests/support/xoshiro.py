# SPDX-License-Identifier: MIT
"""xoshiro256** seeded by splitmix64, from its authors' paper: what engine/base/rng.h must draw."""

MASK = (1 << 64) - 1


def rotate_left(x, k):
    return ((x << k) | (x >> (64 - k))) & MASK


class Xoshiro:
    def __init__(self, seed):
        self.state = []
        for _ in range(4):
            seed = z = (seed + 0x9E3779B97F4A7C15) & MASK
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            self.state.append(z ^ (z >> 31))

    def next(self):
        s = self.state
        drawn = (rotate_left((s[1] * 5) & MASK, 7) * 9) & MASK
        shifted = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= shifted
        s[3] = rotate_left(s[3], 45)
        return drawn

    def uniform(self):
        return (self.next() >> 11) * 2.0**-53
