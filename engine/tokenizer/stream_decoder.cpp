// SPDX-License-Identifier: MIT
// Holds back the bytes of an unfinished character, at most three.
#include "engine/tokenizer/stream_decoder.h"

#include <utility>

#include "engine/base/utf8.h"

namespace ballast::tokenizer {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, StreamDecoderOptions options)
    : tokenizer_(tokenizer),
      options_(options),
      strip_space_(options.begins_text && tokenizer.adds_space_prefix()) {}

std::string StreamDecoder::feed(TokenId id) {
    std::string bytes = tokenizer_.token_bytes(id, options_.render_special);
    if (std::exchange(strip_space_, false) && !bytes.empty() && bytes.front() == ' ') {
        bytes.erase(0, 1);
    }
    held_ += bytes;
    const std::size_t ready = held_.size() - utf8_incomplete_tail(held_);
    std::string text = utf8_replace_invalid(std::string_view(held_).substr(0, ready));
    held_.erase(0, ready);
    return text;
}

std::string StreamDecoder::finish() {
    return utf8_replace_invalid(std::exchange(held_, {}));
}

}  // namespace ballast::tokenizer
