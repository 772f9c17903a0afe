// SPDX-License-Identifier: MIT
// O(n log n) in the text: a heap of candidate pairs over symbols that are stretches of the text.
#include "engine/tokenizer/spm.h"

#include <algorithm>

#include "engine/base/utf8.h"

namespace ballast::tokenizer {

namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

/// Merges the characters of one text.
class TextMerger {
  public:
    TextMerger(const Vocabulary& vocabulary, std::string_view text)
        : vocabulary_(vocabulary), text_(text) {
        std::size_t begin = 0;
        while (begin < text.size()) {
            // A broken character is as many symbols as it has bytes.
            const Utf8Step step = utf8_step(text.substr(begin));
            const std::size_t length = step.kind == Utf8Step::Kind::kValid ? step.length : 1;
            const auto index = static_cast<std::int32_t>(symbols_.size());
            symbols_.push_back({begin, length, index - 1, index + 1});
            begin += length;
        }
        if (!symbols_.empty()) {
            symbols_.back().next = kNone;
        }
    }

    void run() {
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(symbols_.size()); ++i) {
            propose(i);
        }
        while (!heap_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), comes_later);
            const Candidate candidate = heap_.back();
            heap_.pop_back();
            apply(candidate);
        }
    }

    /// Calls visit(piece) for each symbol that is left, in order.
    template <class Visit>
    void for_each(const Visit& visit) const {
        for (std::int32_t i = symbols_.empty() ? kNone : 0; i != kNone;) {
            const Symbol& symbol = symbols_[static_cast<std::size_t>(i)];
            visit(text_.substr(symbol.begin, symbol.length));
            i = symbol.next;
        }
    }

  private:
    static constexpr std::int32_t kNone = -1;
    struct Symbol {
        std::size_t begin = 0;
        std::size_t length = 0;  // 0 once it has merged into the one before
        std::int32_t previous = kNone;
        std::int32_t next = kNone;
    };
    struct Candidate {
        float score = 0.0F;
        std::int32_t left = 0;
        std::size_t length = 0;  // of both together
        std::int32_t right = 0;
    };

    static bool comes_later(const Candidate& a, const Candidate& b) {
        return a.score != b.score ? a.score < b.score : a.left > b.left;
    }

    Symbol& at(std::int32_t i) { return symbols_[static_cast<std::size_t>(i)]; }

    void propose(std::int32_t left) {
        const std::int32_t right = at(left).next;
        if (right == kNone) {
            return;
        }
        const std::size_t length = at(left).length + at(right).length;
        const TokenId id = vocabulary_.find(text_.substr(at(left).begin, length));
        if (id >= 0) {
            heap_.push_back({vocabulary_.score(id), left, length, right});
            std::push_heap(heap_.begin(), heap_.end(), comes_later);
        }
    }

    void apply(const Candidate& candidate) {
        Symbol& left = at(candidate.left);
        Symbol& right = at(candidate.right);
        if (left.length == 0 || right.length == 0 ||
            left.length + right.length != candidate.length) {
            return;  // overtaken
        }
        left.length += right.length;
        right.length = 0;
        left.next = right.next;
        if (left.next != kNone) {
            at(left.next).previous = candidate.left;
        }
        if (left.previous != kNone) {
            propose(left.previous);
        }
        propose(candidate.left);
    }

    const Vocabulary& vocabulary_;
    std::string_view text_;
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
};

}  // namespace

SpmTokenizer::SpmTokenizer(Vocabulary vocabulary, SpecialTokens special_tokens)
    : VocabularyTokenizer(std::move(vocabulary), std::move(special_tokens)), byte_ids_{} {
    byte_ids_.fill(-1);
    const Vocabulary& all = this->vocabulary();
    for (TokenId id = 0; id < all.size(); ++id) {
        if (const int byte = parse_byte_piece(all.piece(id)); byte >= 0) {
            TokenId& entry = byte_ids_[static_cast<std::size_t>(byte)];
            entry = entry >= 0 ? entry : id;
        }
    }
}

Result<std::unique_ptr<Tokenizer>> SpmTokenizer::load(const gguf::Metadata& metadata) {
    const VocabularyDefaults defaults = {.bos = 1,
                                         .eos = 2,
                                         .unknown = 0,
                                         .adds_bos = true,
                                         .adds_space_prefix = true,
                                         .needs_scores = true};
    BALLAST_TRY(auto vocabulary, Vocabulary::load(metadata, defaults));
    BALLAST_TRY(auto special_tokens, SpecialTokens::build(vocabulary));
    return std::make_unique<SpmTokenizer>(std::move(vocabulary), std::move(special_tokens));
}

void SpmTokenizer::encode_stretch(std::string_view text, std::vector<TokenId>& ids) const {
    std::string marked;
    marked.reserve(text.size() + text.size() / 4);
    if (vocabulary().adds_space_prefix()) {
        marked += kSpaceMark;
    }
    for (const char c : text) {
        if (c == ' ') {
            marked += kSpaceMark;
        } else {
            marked.push_back(c);
        }
    }
    TextMerger merger(vocabulary(), marked);
    merger.run();
    merger.for_each([&](std::string_view piece) {
        if (const TokenId id = vocabulary().find(piece); id >= 0) {
            ids.push_back(id);
        } else {
            append_bytes(piece, ids);
        }
    });
}

void SpmTokenizer::append_bytes(std::string_view character, std::vector<TokenId>& ids) const {
    const std::size_t before = ids.size();
    for (const char c : character) {
        const TokenId id = byte_ids_[static_cast<unsigned char>(c)];
        if (id < 0) {
            ids.resize(before);
            if (vocabulary().unknown() >= 0) {
                ids.push_back(vocabulary().unknown());
            }
            return;
        }
        ids.push_back(id);
    }
}

std::string SpmTokenizer::normal_bytes(std::string_view piece) const {
    std::string bytes;
    while (true) {
        const std::size_t mark = piece.find(kSpaceMark);
        bytes.append(piece.substr(0, mark));
        if (mark == std::string_view::npos) {
            return bytes;
        }
        bytes.push_back(' ');
        piece.remove_prefix(mark + kSpaceMark.size());
    }
}

}  // namespace ballast::tokenizer
