// SPDX-License-Identifier: MIT
// One table of units, read in both directions.
#include "engine/base/byte_size.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "engine/base/units.h"

namespace ballast {

namespace {

struct Unit {
    std::string_view name;
    std::uint64_t bytes = 1;
};

// Larger ones first: the first that divides a number spells it.
constexpr std::array<Unit, 9> kUnits = {{{"TiB", kMiB* kMiB},
                                         {"TB", 1'000'000'000'000},
                                         {"GiB", kMiB* kKiB},
                                         {"GB", 1'000'000'000},
                                         {"MiB", kMiB},
                                         {"MB", 1'000'000},
                                         {"KiB", kKiB},
                                         {"KB", 1'000},
                                         {"B", 1}}};
constexpr std::size_t kDecimalsMax = 9;

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_word(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
        return lower(x) == lower(y);
    });
}

std::optional<std::uint64_t> unit_bytes(std::string_view name) {
    if (name.empty()) {
        return 1;
    }
    const auto* found = std::find_if(
        kUnits.begin(), kUnits.end(), [&](const Unit& unit) { return same_word(unit.name, name); });
    if (found == kUnits.end()) {
        return std::nullopt;
    }
    return found->bytes;
}

/// Takes the digits at the front of the text; nothing if there are none or too many.
std::optional<std::uint64_t> take_digits(std::string_view& text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) {
        return std::nullopt;
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

/// The part of a unit that decimals like "25" stand for.
std::optional<std::uint64_t> fraction_of(std::string_view& text, std::uint64_t unit) {
    const std::size_t before = text.size();
    const auto digits = take_digits(text);
    const std::size_t n_digits = before - text.size();
    if (!digits || n_digits > kDecimalsMax) {
        return std::nullopt;
    }
    // Piece by piece, because 10^9 TiB do not fit 64 bits.
    std::uint64_t scale = 1;
    for (std::size_t i = 0; i < n_digits; ++i) {
        scale *= 10;
    }
    return unit / scale * *digits + unit % scale * *digits / scale;
}

std::optional<std::uint64_t> parse(std::string_view text) {
    const auto whole = take_digits(text);
    if (!whole) {
        return std::nullopt;
    }
    std::string_view decimals;
    if (text.starts_with('.')) {
        text.remove_prefix(1);
        const std::size_t n = std::min(text.find_first_not_of("0123456789"), text.size());
        decimals = text.substr(0, n);
        text.remove_prefix(n);
        if (decimals.empty()) {
            return std::nullopt;
        }
    }
    if (text.starts_with(' ')) {
        text.remove_prefix(1);
        if (text.empty()) {
            return std::nullopt;
        }
    }
    const auto unit = unit_bytes(text);
    const auto bytes = unit ? checked_multiply(*whole, *unit) : std::nullopt;
    const auto fraction =
        unit && !decimals.empty() ? fraction_of(decimals, *unit) : std::optional<std::uint64_t>(0);
    if (!bytes || !fraction || *bytes > std::numeric_limits<std::uint64_t>::max() - *fraction) {
        return std::nullopt;
    }
    return *bytes + *fraction;
}

}  // namespace

Result<std::uint64_t> parse_byte_size(std::string_view text) {
    if (const auto bytes = parse(text)) {
        return *bytes;
    }
    return fail(ErrorCode::kInvalidRequest,
                fmt::format("a size is written like 512MiB, 1.5GB or 4096, not \"{}\"", text));
}

std::string format_byte_size(std::uint64_t bytes) {
    for (const Unit& unit : kUnits) {
        if (bytes != 0 && unit.bytes != 1 && bytes % unit.bytes == 0) {
            return fmt::format("{}{}", bytes / unit.bytes, unit.name);
        }
    }
    return fmt::format("{}", bytes);
}

}  // namespace ballast
