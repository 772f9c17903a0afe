// SPDX-License-Identifier: MIT
// Ends a reply at the first stop string, wherever tokens cut it, and never lets a part of one out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::sampling {

/// One reply's matcher; not shared between threads. Text goes in by pieces; what comes out is the
/// same however it was cut. Work is linear in the text for each stop string (Knuth, Morris and
/// Pratt 1977).
class StopMatcher {
  public:
    /// Empty stop strings match nothing.
    explicit StopMatcher(std::vector<std::string> stops);

    /// Returns the text that can be sent now. The longest ending that may become a stop string is
    /// held back. Of several stop strings the one that is complete first counts; of those complete
    /// at the same place, the longest. After a match it returns "" for ever.
    std::string feed(std::string_view text);
    /// The held text, at the end of a reply without a match.
    std::string flush();

    bool stopped() const { return matched_ >= 0; }
    /// The stop string that matched; "" if none did.
    std::string_view matched() const;

  private:
    struct Stop {
        std::string text;
        std::vector<std::size_t> borders;  // by length: the longest proper prefix that is a suffix
        std::size_t state = 0;             // how much of it the text so far ends with
    };
    static std::size_t advance(const Stop& stop, std::size_t state, char next);

    std::vector<Stop> stops_;
    int matched_ = -1;
    std::string held_;
};

}  // namespace ballast::sampling
