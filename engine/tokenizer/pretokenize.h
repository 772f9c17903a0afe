// SPDX-License-Identifier: MIT
// Cuts a text into words before byte-level BPE, by the regular expressions of a model family.
// BPE never merges across a cut.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace ballast::tokenizer {

/// A list of expressions, applied one after the other: each cuts the fragments the one before left
/// into its matches and what lies between them. Immutable; any thread.
class Pretokenizer {
  public:
    enum class Matcher {
        kCompiled,     // to machine code where the system allows it, else interpreted
        kInterpreted,  // as under MemoryDenyWriteExecute=yes
    };

    /// In a pattern \s and \S mean Unicode's white space, which differs from PCRE's own \s.
    /// kInternal if one does not compile.
    static Result<Pretokenizer> create(std::span<const std::string_view> patterns,
                                       Matcher matcher = Matcher::kCompiled);

    Pretokenizer(Pretokenizer&&) noexcept;
    Pretokenizer& operator=(Pretokenizer&&) noexcept;
    ~Pretokenizer();

    /// The words, in order and without gaps: joined they are the text. A run of bytes that is not
    /// UTF-8 is one word.
    std::vector<std::string_view> split(std::string_view text) const;

  private:
    struct Pattern;
    explicit Pretokenizer(std::vector<std::unique_ptr<Pattern>> patterns);
    std::vector<std::unique_ptr<Pattern>> patterns_;
};

}  // namespace ballast::tokenizer
