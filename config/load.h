// SPDX-License-Identifier: MIT
// Fills a Config: command line over environment over file over defaults. Whatever is unknown, of
// the wrong type or out of range is an error that names its place; nothing is ignored.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "config/environment.h"
#include "config/keys.h"
#include "engine/base/result.h"

namespace ballast::config {

/// A setting from the command line.
struct Override {
    std::string key;   // "server.port"
    std::string text;  // as given
    std::string name;  // how the user gave it, for messages: "--port"
};

/// Where to look.
struct Sources {
    std::string file;  // given with --config; "" to search
    Environment environment;
    std::vector<Override> command_line;
};

/// A configuration and where each value came from.
struct Loaded {
    Config config;
    std::string file;                  // the file that was read; "" if there is none
    std::vector<std::string> origins;  // one a row of keys(): "default", "--port", "FILE:12", …
};

/// The file to read, or "" if there is none: --config, BALLAST_CONFIG, then ballast.toml in
/// $XDG_CONFIG_HOME/ballast, ~/.config/ballast and /etc/ballast, the first that exists.
/// Errors: a file that was named does not exist; a place cannot be looked at.
Result<std::string> find_file(const std::string& given, const Environment& environment);

/// Where measured profiles are kept: profile in $XDG_CACHE_HOME/ballast or ~/.cache/ballast; "" if
/// neither variable is set.
std::string profile_folder(const Environment& environment);

/// Reads everything. Errors: one sentence with the file and line, the variable or the flag.
Result<Loaded> load(const Sources& sources);

/// BALLAST_ variables that are neither settings nor anything else known, and do not look like a
/// mistyped setting either (those are errors of load()). For `ballast doctor`.
std::vector<std::string> unused_variables(const Environment& environment);

}  // namespace ballast::config
