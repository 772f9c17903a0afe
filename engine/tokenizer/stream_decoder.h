// SPDX-License-Identifier: MIT
// Token ids in, text out, one token at a time: what a streaming reply needs.
#pragma once

#include <string>

#include "engine/tokenizer/tokenizer.h"

namespace ballast::tokenizer {

struct StreamDecoderOptions {
    /// Whether control tokens appear as they are spelled, or not at all.
    bool render_special = false;
    /// True where the tokens begin a text, so that the space which encoding puts before the first
    /// word is stripped, as by decode(). False where they continue a prompt: that space is text.
    bool begins_text = false;
};

/// Every text it returns is whole UTF-8: a character whose bytes are spread over tokens is held
/// back until its last. One sequence's; not shared between threads. The tokenizer outlives it.
class StreamDecoder {
  public:
    explicit StreamDecoder(const Tokenizer& tokenizer, StreamDecoderOptions options = {});

    /// The text that became certain with this token; often "" inside a character. Bytes that
    /// cannot become a character are U+FFFD.
    std::string feed(TokenId id);
    /// The rest at the end: an unfinished character is U+FFFD.
    std::string finish();

  private:
    const Tokenizer& tokenizer_;
    StreamDecoderOptions options_;
    bool strip_space_ = false;
    std::string held_;  // the bytes of an unfinished character
};

}  // namespace ballast::tokenizer
