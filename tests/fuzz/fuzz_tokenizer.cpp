// SPDX-License-Identifier: MIT
// The tokenizer on any bytes. A GGUF file is loaded as a vocabulary, which is refused or works;
// anything else is a text for two fixed vocabularies, and must come back from its ids.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/base/utf8.h"
#include "engine/gguf/parse.h"
#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/stream_decoder.h"
#include "engine/tokenizer/tokenizer.h"

namespace {

using ballast::TokenId;
using ballast::tokenizer::StreamDecoder;
using ballast::tokenizer::Tokenizer;

/// Whatever the vocabulary and the text, ids are of the vocabulary and streams are UTF-8.
void use(const Tokenizer& tokenizer, std::string_view text) {
    for (const bool parse_special : {false, true}) {
        const auto ids =
            tokenizer.encode(text, {.add_special = true, .parse_special = parse_special});
        StreamDecoder decoder(tokenizer, {.render_special = true, .begins_text = true});
        for (const TokenId id : ids) {
            BALLAST_CHECK(id >= 0 && id < tokenizer.vocabulary_size());
            BALLAST_CHECK(ballast::utf8_is_valid(decoder.feed(id)));
        }
        BALLAST_CHECK(ballast::utf8_is_valid(decoder.finish()));
        static_cast<void>(tokenizer.decode(ids, parse_special));
    }
}

void try_vocabulary(std::span<const std::byte> file) {
    const auto contents = ballast::gguf::parse(file, "fuzz.gguf");
    if (!contents) {
        return;
    }
    const auto tokenizer = Tokenizer::load(contents->metadata);
    if (!tokenizer) {
        const std::string& message = tokenizer.error().message;
        BALLAST_CHECK(message.find("tokenizer.ggml.") != std::string::npos);
        return;
    }
    use(**tokenizer, "The <s> ship</s>\n\nis 12345 level;  abc \xF0\x9F\x9A\xA2 \xFF <|im_end|>");
    for (TokenId id = 0; id < (*tokenizer)->vocabulary_size(); ++id) {
        static_cast<void>((*tokenizer)->token_bytes(id, true));
        use(**tokenizer, (*tokenizer)->piece(id));
        if (id == 64) {
            break;  // enough, and a bound on the work
        }
    }
}

std::unique_ptr<Tokenizer> load(ballast::gguf::Metadata& metadata,
                                const std::vector<std::string>& tokens,
                                std::vector<std::int64_t> kinds) {
    std::vector<std::string_view> views(tokens.begin(), tokens.end());
    metadata.insert("tokenizer.ggml.tokens", std::move(views));
    metadata.insert("tokenizer.ggml.token_type", std::move(kinds));
    auto tokenizer = Tokenizer::load(metadata);
    BALLAST_CHECK(tokenizer.has_value());
    return std::move(*tokenizer);
}

std::unique_ptr<Tokenizer> byte_level() {
    const ballast::tokenizer::ByteAlphabet alphabet;
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) {
        tokens.emplace_back(alphabet.spelling(static_cast<unsigned char>(byte)));
    }
    for (const char* token : {"aa", "aaaa", "Ġa", "ab", "Ġab", "ĠĠ", "ĊĊ"}) {
        tokens.emplace_back(token);
    }
    ballast::gguf::Metadata metadata;
    metadata.insert("tokenizer.ggml.model", std::string_view("gpt2"));
    metadata.insert("tokenizer.ggml.pre", std::string_view("smollm"));
    metadata.insert(
        "tokenizer.ggml.merges",
        std::vector<std::string_view>{"a a", "aa aa", "Ġ a", "a b", "Ġ ab", "Ġ Ġ", "Ċ Ċ"});
    std::vector<std::int64_t> kinds(tokens.size(), 1);
    return load(metadata, tokens, std::move(kinds));
}

std::unique_ptr<Tokenizer> sentence_piece() {
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
    std::vector<std::int64_t> kinds = {2, 3, 3};
    for (int byte = 0; byte < 256; ++byte) {
        tokens.push_back(fmt::format("<0x{:02X}>", byte));
        kinds.push_back(6);
    }
    for (const char* token : {"▁", "a", "b", "aa", "ab", "▁a", "▁▁", "aaaa", "▁ab"}) {
        tokens.emplace_back(token);
        kinds.push_back(1);
    }
    std::vector<float> scores;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        scores.push_back(-static_cast<float>(i));
    }
    ballast::gguf::Metadata metadata;
    metadata.insert("tokenizer.ggml.model", std::string_view("llama"));
    metadata.insert("tokenizer.ggml.scores", std::move(scores));
    return load(metadata, tokens, std::move(kinds));
}

std::string with_spaces_for_marks(std::string_view text) {
    std::string result(text);
    for (std::size_t at = 0; (at = result.find("▁", at)) != std::string::npos;) {
        result.replace(at, 3, " ");
    }
    return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    const std::string text(data, data + size);
    if (text.starts_with("GGUF")) {
        try_vocabulary(bytes);
        return 0;
    }
    static const std::unique_ptr<Tokenizer> kByteLevel = byte_level();
    static const std::unique_ptr<Tokenizer> kSentencePiece = sentence_piece();
    use(*kByteLevel, text);
    use(*kSentencePiece, text);
    BALLAST_CHECK(kByteLevel->decode(kByteLevel->encode(text, {}), true) == text);
    // SentencePiece writes a space and U+2581 alike, and puts a space before the first word.
    BALLAST_CHECK(kSentencePiece->decode(kSentencePiece->encode(text, {.add_special = false}),
                                         true) == with_spaces_for_marks(text));
    return 0;
}
