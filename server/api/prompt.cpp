// SPDX-License-Identifier: MIT
// Rendering, marking and encoding.
#include "server/api/prompt.h"

#include <charconv>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ballast::api {

namespace {

// Longer prompts are not encoded if their length alone shows that they cannot fit: encoding
// hundreds of megabytes only to refuse them would hold up everybody else.
constexpr std::size_t kAlwaysCountedBytes = 1U << 20;

std::string token_text(const ServedModel& served, TokenId id) {
    return id < 0 ? std::string{} : served.tokenizer->token_bytes(id, true);
}

/// Whether BOS (and what else the vocabulary adds) is still missing from a prompt.
bool needs_special(const std::string& text, const ServedModel& served) {
    const std::string bos = token_text(served, served.tokenizer->bos());
    return bos.empty() || !text.starts_with(bos);
}

ApiResult<void> refuse_hopeless_length(const std::string& text,
                                       const ServedModel& served,
                                       const char* param) {
    if (text.size() <= kAlwaysCountedBytes) {
        return {};
    }
    const std::size_t n_tokens_min = text.size() / served.longest_piece_bytes;
    if (n_tokens_min > static_cast<std::size_t>(served.context)) {
        return refuse(prompt_too_long(param, static_cast<int>(n_tokens_min), true, served.context));
    }
    return {};
}

Json variables_of(const Conversation& conversation, const ServedModel& served) {
    Json messages = Json::array();
    for (const Message& message : conversation.messages) {
        Json json;
        json["role"] = message.role;
        json["content"] = message.content;
        if (message.name) {
            json["name"] = *message.name;
        }
        if (message.reasoning_content) {
            json["reasoning_content"] = *message.reasoning_content;
        }
        messages.push_back(std::move(json));
    }
    Json variables;
    variables["messages"] = std::move(messages);
    variables["add_generation_prompt"] = conversation.add_generation_prompt;
    variables["bos_token"] = token_text(served, served.tokenizer->bos());
    variables["eos_token"] = token_text(served, served.tokenizer->eos());
    if (conversation.reasoning_effort) {
        variables["reasoning_effort"] = *conversation.reasoning_effort;
    }
    if (conversation.enable_thinking) {
        variables["enable_thinking"] = *conversation.enable_thinking;
    }
    if (conversation.thinking) {
        variables["thinking"] = *conversation.thinking;
    }
    return variables;
}

template <class Visit>
void for_each_text(std::vector<Message>& messages, Visit visit) {
    for (Message& message : messages) {
        visit(message.content);
        if (message.name) {
            visit(*message.name);
        }
        if (message.reasoning_content) {
            visit(*message.reasoning_content);
        }
    }
}

constexpr std::string_view kMarkBegin = "\xEE\x80\x80";  // U+E000, a private-use character
constexpr std::string_view kMarkEnd = "\xEE\x80\x81";    // U+E001

/// Collects every number that stands between two mark characters of the text.
void collect_marks(std::string_view text, std::set<std::uint64_t>& numbers) {
    for (std::size_t begin = text.find(kMarkBegin); begin != std::string_view::npos;
         begin = text.find(kMarkBegin, begin)) {
        begin += kMarkBegin.size();
        std::uint64_t number = 0;
        const auto parsed = std::from_chars(text.data() + begin, text.data() + text.size(), number);
        const auto end = static_cast<std::size_t>(parsed.ptr - text.data());
        if (parsed.ec == std::errc() && text.substr(end).starts_with(kMarkEnd)) {
            numbers.insert(number);
        }
    }
}

/// A string that occurs in no message: private-use characters around a number. One pass over the
/// messages, whatever a client has put into them.
std::string choose_mark(std::vector<Message>& messages) {
    std::set<std::uint64_t> used;
    for_each_text(messages, [&](const std::string& text) { collect_marks(text, used); });
    std::uint64_t number = 0;
    while (used.contains(number)) {
        ++number;
    }
    return fmt::format("{}{}{}", kMarkBegin, number, kMarkEnd);
}

std::string put_marks(const std::string& text,
                      const SpecialText& special,
                      const std::string& mark) {
    std::string marked;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (special.match(text, i) > 0) {
            marked += mark;
        }
        marked += text[i];
    }
    return marked;
}

/// Encodes a rendered prompt in pieces: control tokens without a mark as themselves, all between
/// them as plain text.
std::vector<TokenId> encode_marked(std::string_view text,
                                   const std::string& mark,
                                   const ServedModel& served) {
    const tokenizer::Tokenizer& tokenizer = *served.tokenizer;
    std::vector<TokenId> ids;
    std::string plain;
    const auto append = [&ids](const std::vector<TokenId>& more) {
        ids.insert(ids.end(), more.begin(), more.end());
    };
    const auto flush = [&] {
        if (!plain.empty()) {
            append(tokenizer.encode(plain, {.add_special = false, .parse_special = false}));
            plain.clear();
        }
    };
    for (std::size_t i = 0; i < text.size();) {
        if (text.substr(i).starts_with(mark)) {
            i += mark.size();
            if (i < text.size() && !text.substr(i).starts_with(mark)) {
                plain += text[i];  // a control token needs its first byte
                ++i;
            }
            continue;
        }
        const std::size_t length = served.special_text.match(text, i);
        if (length == 0) {
            plain += text[i];
            ++i;
            continue;
        }
        flush();
        append(tokenizer.encode(text.substr(i, length),
                                {.add_special = false, .parse_special = true}));
        i += length;
    }
    flush();
    return ids;
}

}  // namespace

ApiResult<std::string> render_conversation(const Conversation& conversation,
                                           const ServedModel& served,
                                           std::int64_t unix_seconds) {
    if (served.chat_template == nullptr) {
        return refuse(no_chat_template(served));
    }
    Result<std::string> text =
        served.chat_template->render(variables_of(conversation, served), unix_seconds);
    if (!text) {
        return refuse(template_refused(text.error().message));
    }
    return std::move(*text);
}

ApiResult<std::vector<TokenId>> encode_conversation(Conversation conversation,
                                                    const ServedModel& served,
                                                    std::int64_t unix_seconds) {
    bool hides_something = false;
    for_each_text(conversation.messages, [&](const std::string& text) {
        hides_something = hides_something || served.special_text.occurs_in(text);
    });
    std::string mark;
    if (hides_something) {
        mark = choose_mark(conversation.messages);
        for_each_text(conversation.messages, [&](std::string& text) {
            text = put_marks(text, served.special_text, mark);
        });
    }
    BALLAST_TRY(const std::string text, render_conversation(conversation, served, unix_seconds));
    BALLAST_TRY_STATUS(refuse_hopeless_length(text, served, "messages"));
    const bool special = needs_special(text, served);
    if (!hides_something) {
        return served.tokenizer->encode(text, {.add_special = special, .parse_special = true});
    }
    std::vector<TokenId> ids = encode_marked(text, mark, served);
    if (special && served.tokenizer->adds_bos() && served.tokenizer->bos() >= 0) {
        ids.insert(ids.begin(), served.tokenizer->bos());
    }
    return ids;
}

ApiResult<std::vector<TokenId>> encode_text(const std::string& text, const ServedModel& served) {
    BALLAST_TRY_STATUS(refuse_hopeless_length(text, served, "prompt"));
    return served.tokenizer->encode(
        text, {.add_special = needs_special(text, served), .parse_special = true});
}

}  // namespace ballast::api
