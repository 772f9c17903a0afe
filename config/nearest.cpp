// SPDX-License-Identifier: MIT
// Optimal string alignment distance over three rows of its table.
#include "config/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

namespace ballast::config {

namespace {

// Longer input is not a mistyped name, and the table grows with its length.
constexpr std::size_t kNameLengthMax = 64;

std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before_last(b.size() + 1);
    std::vector<std::size_t> last(b.size() + 1);
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) {
        last[j] = j;
    }
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t changed = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({changed, last[j] + 1, row[j - 1] + 1});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = std::min(row[j], before_last[j - 2] + 1);
            }
        }
        before_last.swap(last);
        last.swap(row);
    }
    return last[b.size()];
}

}  // namespace

std::string nearest_name(std::span<const std::string> candidates, std::string_view name) {
    if (name.size() > kNameLengthMax) {
        return "";
    }
    std::size_t best = std::clamp<std::size_t>(name.size() / 3, 1, 3) + 1;
    std::string nearest;
    for (const std::string& candidate : candidates) {
        const std::size_t edits = distance(name, candidate);
        if (edits < best) {
            best = edits;
            nearest = candidate;
        }
    }
    return nearest;
}

std::string suggestion(std::span<const std::string> candidates, std::string_view name) {
    const std::string near = nearest_name(candidates, name);
    return near.empty() ? "." : fmt::format("; did you mean '{}'?", near);
}

}  // namespace ballast::config
