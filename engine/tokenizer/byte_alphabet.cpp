// SPDX-License-Identifier: MIT
// Makes the two tables of the alphabet and applies them character by character.
#include "engine/tokenizer/byte_alphabet.h"

#include "engine/base/utf8.h"

namespace ballast::tokenizer {

namespace {

// '!' to '~', U+00A1 to U+00AC, U+00AE to U+00FF: what is left out has no glyph.
bool stands_for_itself(int byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

}  // namespace

ByteAlphabet::ByteAlphabet() {
    bytes_.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
        const char32_t code_point = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
        utf8_append(spellings_[static_cast<std::size_t>(byte)], code_point);
        bytes_[code_point] = byte;
    }
}

std::string ByteAlphabet::spell(std::string_view bytes) const {
    std::string result;
    result.reserve(2 * bytes.size());
    for (const char c : bytes) {
        result += spelling(static_cast<unsigned char>(c));
    }
    return result;
}

std::string ByteAlphabet::unspell(std::string_view piece) const {
    std::string result;
    result.reserve(piece.size());
    while (!piece.empty()) {
        const Utf8Step step = utf8_step(piece);
        const bool known = step.kind == Utf8Step::Kind::kValid && step.code_point < kCodePoints &&
                           bytes_[step.code_point] >= 0;
        if (known) {
            result.push_back(static_cast<char>(bytes_[step.code_point]));
        } else {
            result.append(piece.substr(0, step.length));
        }
        piece.remove_prefix(step.length);
    }
    return result;
}

}  // namespace ballast::tokenizer
