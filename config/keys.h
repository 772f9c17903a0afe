// SPDX-License-Identifier: MIT
// The table of settings: one row a key. The file's sections, the environment's names, the command
// line's flags, ranges, messages and `ballast config show` all derive from it, so a setting that
// is in the table works everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"
#include "engine/base/result.h"

namespace ballast::config {

/// The variable of a Config that a key sets.
using Field = std::variant<int*, std::uint64_t*, bool*, std::string*, std::vector<std::string>*>;

/// A value as it was given, before it is checked against its key.
using Value = std::variant<std::int64_t, bool, std::string, std::vector<std::string>>;

/// One setting. The range and step hold for integers, the choices (separated by '|') for text.
struct Key {
    std::string_view section;
    std::string_view name;
    std::string_view doc;
    Field (*field)(Config&) = nullptr;
    std::int64_t min = 0;
    std::int64_t max = 0;
    std::int64_t multiple_of = 1;
    std::string_view choices = {};
    /// The option of `ballast serve` that sets it; "" for none.
    std::string_view flag = {};
    /// A second environment variable that sets it; "" for none.
    std::string_view environment_alias = {};
    /// Text names a file: a leading "~/" is the home folder.
    bool is_path = false;
    /// A number of bytes, which text may give with a unit: "40MiB".
    bool is_byte_size = false;
};

/// All keys, section by section in the order in which they are shown.
std::span<const Key> keys();

/// "server.port".
std::string full_name(const Key& key);
/// "BALLAST_SERVER_PORT".
std::string environment_name(const Key& key);
/// What the key accepts, for messages: "a whole number from 0 to 65535".
std::string describe_type(const Key& key);

/// Checks type and range and sets the field. The error says what is accepted and what was given.
Status assign(Config& config, const Key& key, const Value& value);
/// The same from text, as the environment and the command line give it. Lists are separated by
/// commas; booleans are true or false.
Status assign_text(Config& config, const Key& key, std::string_view text);

/// The value in TOML's spelling.
std::string format_value(const Config& config, const Key& key);

}  // namespace ballast::config
