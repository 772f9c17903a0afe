// SPDX-License-Identifier: MIT
// Merging one word of n bytes takes O(n log n): a heap of candidate pairs, and a list of symbols
// that are linked by index. Candidates that a merge has overtaken stay in the heap and are skipped.
#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace ballast::tokenizer {

namespace {

constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

std::uint64_t pair_key(TokenId left, TokenId right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) |
           static_cast<std::uint32_t>(right);
}

/// Merges words, one after another; keeps its memory between them.
class WordMerger {
  public:
    explicit WordMerger(const MergeTable& merges) : merges_(merges) {}

    /// Appends the ids of one word, given as the ids of its bytes. A byte without a token (−1)
    /// cannot be said in this vocabulary: it merges with nothing and is left out.
    void merge(std::vector<TokenId>& bytes, std::vector<TokenId>& ids) {
        symbols_.clear();
        heap_.clear();
        const auto n = static_cast<std::int32_t>(bytes.size());
        for (std::int32_t i = 0; i < n; ++i) {
            symbols_.push_back(
                {bytes[static_cast<std::size_t>(i)], i - 1, i + 1 < n ? i + 1 : kNone});
        }
        for (std::int32_t i = 0; i + 1 < n; ++i) {
            propose(i);
        }
        while (!heap_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), comes_later);
            const Candidate candidate = heap_.back();
            heap_.pop_back();
            apply(candidate);
        }
        for (std::int32_t i = n > 0 ? 0 : kNone; i != kNone; i = at(i).next) {
            if (at(i).id >= 0) {
                ids.push_back(at(i).id);
            }
        }
    }

  private:
    static constexpr std::int32_t kNone = -1;
    struct Symbol {
        TokenId id = -1;  // −1 once it has merged into the one before
        std::int32_t previous = kNone;
        std::int32_t next = kNone;
    };
    struct Candidate {
        std::uint32_t rank = 0;
        std::int32_t left = 0;
        TokenId left_id = -1;
        TokenId right_id = -1;
        TokenId result = -1;
    };

    static bool comes_later(const Candidate& a, const Candidate& b) {
        return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
    }

    Symbol& at(std::int32_t i) { return symbols_[static_cast<std::size_t>(i)]; }

    void propose(std::int32_t left) {
        const std::int32_t right = at(left).next;
        if (right == kNone || at(left).id < 0 || at(right).id < 0) {
            return;
        }
        const Merge* merge = merges_.find(at(left).id, at(right).id);
        if (merge != nullptr) {
            heap_.push_back({merge->rank, left, at(left).id, at(right).id, merge->result});
            std::push_heap(heap_.begin(), heap_.end(), comes_later);
        }
    }

    void apply(const Candidate& candidate) {
        Symbol& left = at(candidate.left);
        if (left.id != candidate.left_id || left.next == kNone ||
            at(left.next).id != candidate.right_id) {
            return;  // overtaken
        }
        Symbol& right = at(left.next);
        right.id = -1;
        left.id = candidate.result;
        left.next = right.next;
        if (left.next != kNone) {
            at(left.next).previous = candidate.left;
        }
        if (left.previous != kNone) {
            propose(left.previous);
        }
        propose(candidate.left);
    }

    const MergeTable& merges_;
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
};

}  // namespace

Result<MergeTable> MergeTable::load(const gguf::Metadata& metadata, const Vocabulary& vocabulary) {
    BALLAST_TRY(const auto merges, metadata.strings(kMergesKey));
    MergeTable table;
    const std::size_t n_slots = std::bit_ceil(std::max<std::size_t>(16, 2 * merges.size()));
    table.slots_.resize(n_slots);
    table.shift_ = 64 - std::countr_zero(n_slots);
    std::string joined;
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
        const std::string_view merge = merges[rank];
        const std::size_t space = merge.find(' ', 1);
        if (space == std::string_view::npos) {
            return fail(
                ErrorCode::kCorruptFile,
                fmt::format("{}[{}] is not two pieces with a space between.", kMergesKey, rank));
        }
        joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
        const TokenId left = vocabulary.find(merge.substr(0, space));
        const TokenId right = vocabulary.find(merge.substr(space + 1));
        const TokenId result = vocabulary.find(joined);
        if (left < 0 || right < 0 || result < 0) {
            return fail(
                ErrorCode::kCorruptFile,
                fmt::format(
                    "{}[{}] names a piece that is not in the vocabulary.", kMergesKey, rank));
        }
        const std::uint64_t pair = pair_key(left, right);
        Slot& slot = table.slots_[table.slot_of(pair)];
        if (slot.pair == kEmpty) {  // of merges listed twice the first counts
            slot = {pair, {static_cast<std::uint32_t>(rank), result}};
        }
    }
    return table;
}

std::size_t MergeTable::slot_of(std::uint64_t pair) const {
    // Fibonacci hashing: the high bits of the product depend on all bits of the pair.
    auto slot = static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15ULL) >> shift_);
    while (slots_[slot].pair != kEmpty && slots_[slot].pair != pair) {
        slot = (slot + 1) & (slots_.size() - 1);
    }
    return slot;
}

const Merge* MergeTable::find(TokenId left, TokenId right) const {
    const std::uint64_t pair = pair_key(left, right);
    const Slot& slot = slots_[slot_of(pair)];
    return slot.pair == pair ? &slot.merge : nullptr;
}

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary,
                           SpecialTokens special_tokens,
                           MergeTable merges,
                           Pretokenizer pretokenizer,
                           const PretokenizerRule& rule)
    : VocabularyTokenizer(std::move(vocabulary), std::move(special_tokens)),
      merges_(std::move(merges)),
      pretokenizer_(std::move(pretokenizer)),
      byte_ids_{},
      whole_words_first_(rule.whole_words_first),
      cleans_up_spaces_(rule.cleans_up_spaces) {
    for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
        byte_ids_[byte] =
            this->vocabulary().find(alphabet_.spelling(static_cast<unsigned char>(byte)));
    }
}

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::load(const gguf::Metadata& metadata) {
    BALLAST_TRY(const auto name, metadata.string_or("tokenizer.ggml.pre", ""));
    BALLAST_TRY(const auto rule, find_pretokenizer_rule(name));
    VocabularyDefaults defaults;
    defaults.adds_bos = rule.adds_bos;
    BALLAST_TRY(auto vocabulary, Vocabulary::load(metadata, defaults));
    BALLAST_TRY(auto special_tokens, SpecialTokens::build(vocabulary));
    BALLAST_TRY(auto merges, MergeTable::load(metadata, vocabulary));
    BALLAST_TRY(auto pretokenizer, Pretokenizer::create(rule.patterns));
    return std::make_unique<BpeTokenizer>(std::move(vocabulary),
                                          std::move(special_tokens),
                                          std::move(merges),
                                          std::move(pretokenizer),
                                          rule);
}

void BpeTokenizer::encode_stretch(std::string_view text, std::vector<TokenId>& ids) const {
    WordMerger merger(merges_);
    std::vector<TokenId> bytes;
    for (const std::string_view word : pretokenizer_.split(text)) {
        if (whole_words_first_ && word.size() <= vocabulary().longest_piece()) {
            if (const TokenId id = vocabulary().find(alphabet_.spell(word)); id >= 0) {
                ids.push_back(id);
                continue;
            }
        }
        bytes.clear();
        for (const char c : word) {
            bytes.push_back(byte_ids_[static_cast<unsigned char>(c)]);
        }
        merger.merge(bytes, ids);
    }
}

}  // namespace ballast::tokenizer
