// SPDX-License-Identifier: MIT
// PCRE2 with JIT. Where the system forbids memory that is writable and executable, or JIT runs out
// of stack, the interpreter gives the same matches.
#include "engine/tokenizer/pretokenize.h"

#include <string>

#include <fmt/format.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/check.h"
#include "engine/base/utf8.h"

namespace ballast::tokenizer {

namespace {

// White_Space of the Unicode character database. PCRE's \s has U+180E besides.
constexpr std::string_view kWhiteSpace =
    R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// A matcher step is one backtracking attempt. The patterns in use need about three a byte at most;
// a match that needs more than this is a pattern that would not be linear, and is given up.
constexpr std::size_t kStepsPerByteMax = 16;
constexpr std::size_t kStepsMin = 1000;

/// Writes \s and \S out, as members inside [...] and as classes of their own outside.
std::string expand_white_space(std::string_view pattern) {
    std::string result;
    bool in_class = false;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const char c = pattern[i];
        if (c != '\\' || i + 1 == pattern.size()) {
            in_class = c == '[' || (in_class && c != ']');
            result.push_back(c);
            continue;
        }
        const char escaped = pattern[++i];
        if (escaped == 's' && in_class) {
            result += kWhiteSpace;
        } else if (escaped == 's' || escaped == 'S') {
            BALLAST_CHECK(!in_class);
            result += escaped == 's' ? "[" : "[^";
            result += kWhiteSpace;
            result += "]";
        } else {
            result.push_back(c);
            result.push_back(escaped);
        }
    }
    return result;
}

struct MatchDataDeleter {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextDeleter {
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct CodeDeleter {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};

/// What matching needs besides the compiled pattern; one a call, so that calls do not share.
struct MatchState {
    std::unique_ptr<pcre2_match_data, MatchDataDeleter> data{pcre2_match_data_create(1, nullptr)};
    std::unique_ptr<pcre2_match_context, MatchContextDeleter> context{
        pcre2_match_context_create(nullptr)};
};

struct Fragment {
    std::string_view text;
    bool is_utf8 = true;
};

/// Well-formed stretches and the broken ones between them.
std::vector<Fragment> split_at_broken_bytes(std::string_view text) {
    std::vector<Fragment> fragments;
    while (!text.empty()) {
        const std::size_t good = utf8_valid_prefix(text);
        if (good > 0) {
            fragments.push_back({text.substr(0, good), true});
            text.remove_prefix(good);
        }
        std::size_t bad = 0;
        while (bad < text.size()) {
            const Utf8Step step = utf8_step(text.substr(bad));
            if (step.kind == Utf8Step::Kind::kValid) {
                break;
            }
            bad += step.length;
        }
        if (bad > 0) {
            fragments.push_back({text.substr(0, bad), false});
            text.remove_prefix(bad);
        }
    }
    return fragments;
}

}  // namespace

struct Pretokenizer::Pattern {
    std::unique_ptr<pcre2_code, CodeDeleter> code;
    bool is_compiled = false;

    /// One match at or after `from`; negative PCRE2 error codes.
    int match(std::string_view text, std::size_t from, MatchState& state) const;
    void split(std::string_view text, MatchState& state, std::vector<Fragment>& out) const;
};

int Pretokenizer::Pattern::match(std::string_view text, std::size_t from, MatchState& state) const {
    // PCRE2 takes bytes as `const unsigned char*`; void* is the way there without a reinterpret.
    const auto* subject = static_cast<PCRE2_SPTR>(static_cast<const void*>(text.data()));
    const auto run = [&](std::uint32_t options) {
        return pcre2_match(code.get(),
                           subject,
                           text.size(),
                           from,
                           PCRE2_NO_UTF_CHECK | options,
                           state.data.get(),
                           state.context.get());
    };
    const int result = run(is_compiled ? 0 : PCRE2_NO_JIT);
    return result == PCRE2_ERROR_JIT_STACKLIMIT ? run(PCRE2_NO_JIT) : result;
}

void Pretokenizer::Pattern::split(std::string_view text,
                                  MatchState& state,
                                  std::vector<Fragment>& out) const {
    const std::size_t limit = kStepsMin + kStepsPerByteMax * text.size();
    pcre2_set_match_limit(state.context.get(),
                          static_cast<std::uint32_t>(std::min<std::size_t>(limit, UINT32_MAX)));
    std::size_t taken = 0;  // up to here the text is in `out`
    std::size_t from = 0;
    while (from < text.size()) {
        if (match(text, from, state) < 0) {
            break;  // no further match; or the limit, and the rest stays one word
        }
        const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state.data.get());
        const std::size_t begin = bounds[0];
        const std::size_t end = bounds[1];
        if (begin > taken) {
            out.push_back({text.substr(taken, begin - taken), true});
            taken = begin;
        }
        if (end > begin) {
            out.push_back({text.substr(begin, end - begin), true});
            taken = end;
            from = end;
        } else {
            // An empty match cuts, and the search goes on behind the next character.
            from = begin < text.size() ? begin + utf8_step(text.substr(begin)).length : begin;
        }
    }
    if (taken < text.size()) {
        out.push_back({text.substr(taken), true});
    }
}

Pretokenizer::Pretokenizer(std::vector<std::unique_ptr<Pattern>> patterns)
    : patterns_(std::move(patterns)) {}
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

Result<Pretokenizer> Pretokenizer::create(std::span<const std::string_view> patterns,
                                          Matcher matcher) {
    std::vector<std::unique_ptr<Pattern>> compiled;
    for (const std::string_view pattern : patterns) {
        const std::string expanded = expand_white_space(pattern);
        const auto* text = static_cast<PCRE2_SPTR>(static_cast<const void*>(expanded.data()));
        int error = 0;
        PCRE2_SIZE offset = 0;
        auto entry = std::make_unique<Pattern>();
        entry->code.reset(
            pcre2_compile(text, expanded.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
        if (entry->code == nullptr) {
            return fail(ErrorCode::kInternal,
                        fmt::format("The pre-tokenizer pattern '{}' does not compile (PCRE2 error "
                                    "{} at byte {}).",
                                    expanded,
                                    error,
                                    offset));
        }
        entry->is_compiled = matcher == Matcher::kCompiled &&
                             pcre2_jit_compile(entry->code.get(), PCRE2_JIT_COMPLETE) == 0;
        compiled.push_back(std::move(entry));
    }
    return Pretokenizer(std::move(compiled));
}

std::vector<std::string_view> Pretokenizer::split(std::string_view text) const {
    MatchState state;
    std::vector<Fragment> fragments = split_at_broken_bytes(text);
    std::vector<Fragment> next;
    for (const auto& pattern : patterns_) {
        next.clear();
        for (const Fragment& fragment : fragments) {
            if (fragment.is_utf8) {
                pattern->split(fragment.text, state, next);
            } else {
                next.push_back(fragment);
            }
        }
        fragments.swap(next);
    }
    std::vector<std::string_view> words;
    words.reserve(fragments.size());
    for (const Fragment& fragment : fragments) {
        words.push_back(fragment.text);
    }
    return words;
}

}  // namespace ballast::tokenizer
