// SPDX-License-Identifier: MIT
// Canonical Huffman codes are decoded a bit at a time: slow, short, and enough for tests.
#include "tests/support/inflate.h"

#include <array>
#include <cstdint>
#include <vector>

namespace ballast::test {

namespace {

/// Bits of a byte string, lowest first. Past the end it gives zeros and says so.
class BitReader {
  public:
    explicit BitReader(std::string_view bytes) : bytes_(bytes) {}

    unsigned bits(int n) {
        unsigned value = 0;
        for (int i = 0; i < n; ++i) {
            value |= bit() << i;
        }
        return value;
    }
    unsigned bit() {
        if (at_ >= bytes_.size() * 8) {
            ended_ = true;
            return 0;
        }
        const unsigned value = (static_cast<unsigned char>(bytes_[at_ / 8]) >> (at_ % 8)) & 1U;
        ++at_;
        return value;
    }
    void skip_to_byte() { at_ = (at_ + 7) / 8 * 8; }
    bool ended() const { return ended_; }

  private:
    std::string_view bytes_;
    std::size_t at_ = 0;
    bool ended_ = false;
};

/// A canonical code: how many codes have each length, and the symbols in order of their codes.
struct Code {
    std::array<int, 16> counts{};
    std::vector<int> symbols;

    explicit Code(const std::vector<int>& lengths) {
        for (int length = 1; length < 16; ++length) {
            for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
                if (lengths[symbol] == length) {
                    ++counts[static_cast<std::size_t>(length)];
                    symbols.push_back(static_cast<int>(symbol));
                }
            }
        }
    }

    /// The next symbol, or -1 for a bit sequence that is no code.
    int decode(BitReader& in) const {
        int code = 0;
        int first = 0;
        int index = 0;
        for (std::size_t length = 1; length < 16; ++length) {
            code |= static_cast<int>(in.bit());
            const int count = counts[length];
            if (code - first < count) {
                return symbols[static_cast<std::size_t>(index + code - first)];
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        return -1;
    }
};

constexpr std::array<int, 29> kLengthBase = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                             15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                             67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<int, 29> kLengthBits = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                             2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::array<int, 30> kDistanceBase = {
    1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
    193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::array<int, 30> kDistanceBits = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                               6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

bool stored_block(BitReader& in, std::string& out) {
    in.skip_to_byte();
    const unsigned size = in.bits(16);
    if ((in.bits(16) ^ 0xFFFFU) != size) {
        return false;
    }
    for (unsigned i = 0; i < size && !in.ended(); ++i) {
        out += static_cast<char>(in.bits(8));
    }
    return !in.ended();
}

bool coded_block(BitReader& in, const Code& literals, const Code& distances, std::string& out) {
    while (!in.ended()) {
        const int symbol = literals.decode(in);
        if (symbol == 256) {
            return true;
        }
        if (symbol < 0 || symbol > 285) {
            return false;
        }
        if (symbol < 256) {
            out += static_cast<char>(symbol);
            continue;
        }
        const auto l = static_cast<std::size_t>(symbol - 257);
        const std::size_t length =
            static_cast<std::size_t>(kLengthBase[l]) + in.bits(kLengthBits[l]);
        const int code = distances.decode(in);
        if (code < 0 || code > 29) {
            return false;
        }
        const auto d = static_cast<std::size_t>(code);
        const std::size_t distance =
            static_cast<std::size_t>(kDistanceBase[d]) + in.bits(kDistanceBits[d]);
        if (distance > out.size()) {
            return false;
        }
        for (std::size_t i = 0; i < length; ++i) {
            out += out[out.size() - distance];
        }
    }
    return false;
}

bool fixed_block(BitReader& in, std::string& out) {
    std::vector<int> lengths(288, 8);
    for (std::size_t i = 144; i < 280; ++i) {
        lengths[i] = i < 256 ? 9 : 7;
    }
    return coded_block(in, Code(lengths), Code(std::vector<int>(30, 5)), out);
}

bool dynamic_block(BitReader& in, std::string& out) {
    constexpr std::array<std::size_t, 19> kOrder = {
        16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const std::size_t n_literals = in.bits(5) + 257;
    const std::size_t n_distances = in.bits(5) + 1;
    const std::size_t n_lengths = in.bits(4) + 4;
    std::vector<int> code_lengths(19, 0);
    for (std::size_t i = 0; i < n_lengths; ++i) {
        code_lengths[kOrder.at(i)] = static_cast<int>(in.bits(3));
    }
    const Code code(code_lengths);
    std::vector<int> lengths;
    while (lengths.size() < n_literals + n_distances && !in.ended()) {
        const int symbol = code.decode(in);
        if (symbol < 0 || (symbol == 16 && lengths.empty())) {
            return false;
        }
        if (symbol < 16) {
            lengths.push_back(symbol);
        } else if (symbol == 16) {
            lengths.insert(lengths.end(), 3 + in.bits(2), int{lengths.back()});
        } else {
            lengths.insert(lengths.end(), symbol == 17 ? 3 + in.bits(3) : 11 + in.bits(7), 0);
        }
    }
    if (lengths.size() != n_literals + n_distances) {
        return false;
    }
    const auto border = lengths.begin() + static_cast<std::ptrdiff_t>(n_literals);
    return coded_block(in,
                       Code(std::vector<int>(lengths.begin(), border)),
                       Code(std::vector<int>(border, lengths.end())),
                       out);
}

}  // namespace

Result<std::string> inflate(std::string_view deflated, std::size_t size_bytes) {
    BitReader in(deflated);
    std::string out;
    for (bool last = false; !last;) {
        last = in.bit() == 1;
        const unsigned kind = in.bits(2);
        const bool good = kind == 0   ? stored_block(in, out)
                          : kind == 1 ? fixed_block(in, out)
                          : kind == 2 ? dynamic_block(in, out)
                                      : false;
        if (!good || out.size() > size_bytes) {
            return fail(ErrorCode::kCorruptFile, "the deflated data is damaged");
        }
    }
    if (out.size() != size_bytes) {
        return fail(ErrorCode::kCorruptFile, "the deflated data has another size than stated");
    }
    return out;
}

}  // namespace ballast::test
