// SPDX-License-Identifier: MIT
// Finds and reads the file, then lays environment and command line over it. The only user of
// toml++.
#include "config/load.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "config/nearest.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace ballast::config {

namespace {

// A configuration is a few kilobytes; more is the wrong file.
constexpr std::int64_t kFileBytesMax = 1 << 20;

constexpr std::string_view kPrefix = "BALLAST_";
// Variables of the program and its tests that are no settings.
constexpr std::array<std::string_view, 12> kOtherVariables = {"BALLAST_CONFIG",
                                                              "BALLAST_BINARY",
                                                              "BALLAST_FUZZ_SECONDS",
                                                              "BALLAST_JOBS",
                                                              "BALLAST_LOG_LINES",
                                                              "BALLAST_NIGHTLY",
                                                              "BALLAST_PYTHON",
                                                              "BALLAST_REFDATA",
                                                              "BALLAST_REFDATA_REQUIRED",
                                                              "BALLAST_TEST_MODELS",
                                                              "BALLAST_MODELS_REQUIRED",
                                                              "BALLAST_SOURCE_DIR"};

tl::unexpected<Error> cannot_read(const std::string& path, int error) {
    return fail(
        error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
        fmt::format("Cannot read the configuration file {}: {}.", path, std::strerror(error)));
}

Result<std::string> read_file(const std::string& path) {
    // Without O_NONBLOCK the open of a named pipe waits for a writer.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        return cannot_read(path, errno);
    }
    struct Closer {
        int descriptor;
        ~Closer() { ::close(descriptor); }
    } const closer{descriptor};
    struct stat facts {};
    if (::fstat(descriptor, &facts) != 0) {
        return cannot_read(path, errno);
    }
    if (!S_ISREG(facts.st_mode)) {
        return fail(ErrorCode::kIo,
                    fmt::format("The configuration file {} is not a regular file.", path));
    }
    std::string text;
    std::array<char, 4096> piece{};
    while (true) {
        const ssize_t n = ::read(descriptor, piece.data(), piece.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return cannot_read(path, errno);
        }
        if (n == 0) {
            return text;
        }
        text.append(piece.data(), static_cast<std::size_t>(n));
        if (text.size() > static_cast<std::size_t>(kFileBytesMax)) {
            return fail(ErrorCode::kTooLarge,
                        fmt::format("The configuration file {} is larger than 1 MiB.", path));
        }
    }
}

std::vector<std::string> section_names() {
    std::vector<std::string> names;
    for (const Key& key : keys()) {
        if (names.empty() || names.back() != key.section) {
            names.emplace_back(key.section);
        }
    }
    return names;
}

std::vector<std::string> key_names(std::string_view section) {
    std::vector<std::string> names;
    for (const Key& key : keys()) {
        if (key.section == section) {
            names.emplace_back(key.name);
        }
    }
    return names;
}

std::optional<std::size_t> find_key(std::string_view section, std::string_view name) {
    for (std::size_t i = 0; i < keys().size(); ++i) {
        if (keys()[i].section == section && keys()[i].name == name) {
            return i;
        }
    }
    return std::nullopt;
}

/// "; did you mean …?" for a name that is no key of the section: a near one, or the section where
/// a key of that name stands.
std::string key_suggestion(std::string_view section, std::string_view name) {
    std::string near = suggestion(key_names(section), name);
    if (near != ".") {
        return near;
    }
    for (const Key& key : keys()) {
        if (key.name == name) {
            return fmt::format("; '{}' belongs in [{}].", name, key.section);
        }
    }
    return near;
}

/// "~/x" under the home folder: nobody expands it for us in a file.
std::string expand_home(const std::string& path, const Environment& environment) {
    const std::string home = variable(environment, "HOME");
    return path.starts_with("~/") && !home.empty() ? home + path.substr(1) : path;
}

void expand_path(Config& config, const Key& key, const Environment& environment) {
    if (key.is_path) {
        auto* path = std::get<std::string*>(key.field(config));
        *path = expand_home(*path, environment);
    }
}

std::optional<Value> to_value(const toml::node& node) {
    if (const auto* integer = node.as_integer()) {
        return Value(integer->get());
    }
    if (const auto* boolean = node.as_boolean()) {
        return Value(boolean->get());
    }
    if (const auto* text = node.as_string()) {
        return Value(text->get());
    }
    if (const auto* array = node.as_array()) {
        std::vector<std::string> items;
        for (const toml::node& item : *array) {
            if (!item.is_string()) {
                return std::nullopt;
            }
            items.push_back(item.as_string()->get());
        }
        return Value(std::move(items));
    }
    return std::nullopt;
}

/// Applies a parsed file. Tables iterate by name, so all faults are collected and the one that
/// stands first in the file is reported.
class FileApplier {
  public:
    FileApplier(Loaded& loaded, const Environment& environment)
        : loaded_(loaded), environment_(environment) {}

    Status apply(const toml::table& root) {
        for (const auto& [name, node] : root) {
            apply_section(name, node);
        }
        if (first_fault_) {
            return tl::unexpected<Error>(std::move(*first_fault_));
        }
        return {};
    }

  private:
    void apply_section(const toml::key& name, const toml::node& node) {
        const std::vector<std::string> sections = section_names();
        const bool known =
            std::find(sections.begin(), sections.end(), name.str()) != sections.end();
        if (!known && !node.is_table()) {
            report(name,
                   fmt::format(
                       "'{}' stands in no section{}", name.str(), key_suggestion("", name.str())));
        } else if (!known) {
            report(name,
                   fmt::format(
                       "unknown section [{}]{}", name.str(), suggestion(sections, name.str())));
        } else if (!node.is_table()) {
            report(name, fmt::format("'{0}' is a section: write [{0}].", name.str()));
        } else {
            for (const auto& [key_name, value] : *node.as_table()) {
                apply_key(name.str(), key_name, value);
            }
        }
    }

    void apply_key(std::string_view section, const toml::key& name, const toml::node& node) {
        const auto index = find_key(section, name.str());
        if (!index) {
            report(name,
                   fmt::format("unknown key '{}' in [{}]{}",
                               name.str(),
                               section,
                               key_suggestion(section, name.str())));
            return;
        }
        const Key& key = keys()[*index];
        const auto value = to_value(node);
        if (!value) {
            report(name, fmt::format("{} must be {}.", full_name(key), describe_type(key)));
            return;
        }
        if (Status status = assign(loaded_.config, key, *value); !status) {
            report(name, status.error().message);
            return;
        }
        expand_path(loaded_.config, key, environment_);
        loaded_.origins[*index] = fmt::format("{}:{}", loaded_.file, name.source().begin.line);
    }

    void report(const toml::key& where, const std::string& what) {
        const std::uint32_t line = where.source().begin.line;
        if (!first_fault_ || line < first_line_) {
            first_line_ = line;
            first_fault_ = Error{ErrorCode::kInvalidRequest,
                                 fmt::format("{}:{}: {}", loaded_.file, line, what)};
        }
    }

    Loaded& loaded_;
    const Environment& environment_;
    std::uint32_t first_line_ = 0;
    std::optional<Error> first_fault_;
};

Status apply_file(Loaded& loaded, const Environment& environment) {
    BALLAST_TRY(const std::string text, read_file(loaded.file));
    const toml::parse_result parsed = toml::parse(text, loaded.file);
    if (!parsed) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("{}:{}: not TOML: {}.",
                                loaded.file,
                                parsed.error().source().begin.line,
                                parsed.error().description()));
    }
    return FileApplier(loaded, environment).apply(parsed.table());
}

/// What a variable that is no setting was meant to be; "" if it does not look like one: it starts
/// with a section's name, is a key's name alone, or is nearly a setting's variable.
std::optional<std::string> look_alike(const std::string& name) {
    std::vector<std::string> known;
    for (const Key& key : keys()) {
        known.push_back(environment_name(key));
    }
    const std::string near = nearest_name(known, name);
    if (!near.empty()) {
        return near;
    }
    const std::string rest = name.substr(kPrefix.size());
    for (const Key& key : keys()) {
        const std::string full = environment_name(key);
        if (full.size() > rest.size() && full.ends_with("_" + rest)) {
            return full;
        }
    }
    for (const Key& key : keys()) {
        const std::string full = environment_name(key);
        const std::string section = full.substr(0, full.size() - key.name.size());
        if (name.starts_with(section)) {
            return "";
        }
    }
    return std::nullopt;
}

/// Whether it is a setting's variable, an alias or one of the others.
bool known_variable(const std::string& name) {
    return std::find(kOtherVariables.begin(), kOtherVariables.end(), name) !=
               kOtherVariables.end() ||
           std::any_of(keys().begin(), keys().end(), [&](const Key& key) {
               return environment_name(key) == name || key.environment_alias == name;
           });
}

Status apply_environment(Loaded& loaded, const Environment& environment) {
    for (const auto& [name, value] : environment) {
        if (!name.starts_with(kPrefix) || known_variable(name)) {
            continue;
        }
        if (const auto meant = look_alike(name)) {
            return fail(
                ErrorCode::kInvalidRequest,
                fmt::format("The environment sets {}, which is no setting{}",
                            name,
                            meant->empty() ? "." : fmt::format("; did you mean {}?", *meant)));
        }
    }
    for (std::size_t i = 0; i < keys().size(); ++i) {
        const Key& key = keys()[i];
        // The full name comes last, so that it wins over the alias.
        for (const std::string& name :
             {std::string(key.environment_alias), environment_name(key)}) {
            const auto found = environment.find(name);
            if (name.empty() || found == environment.end()) {
                continue;
            }
            if (Status status = assign_text(loaded.config, key, found->second); !status) {
                return fail_with_context(name, status.error());
            }
            expand_path(loaded.config, key, environment);
            loaded.origins[i] = name;
        }
    }
    return {};
}

Status apply_command_line(Loaded& loaded,
                          const std::vector<Override>& overrides,
                          const Environment& environment) {
    for (const Override& override : overrides) {
        const std::size_t dot = override.key.find('.');
        const auto index = find_key(std::string_view(override.key).substr(0, dot),
                                    std::string_view(override.key).substr(dot + 1));
        if (!index) {
            return fail(ErrorCode::kInternal,
                        fmt::format("{} sets {}, which is no key.", override.name, override.key));
        }
        if (Status status = assign_text(loaded.config, keys()[*index], override.text); !status) {
            return fail_with_context(override.name, status.error());
        }
        expand_path(loaded.config, keys()[*index], environment);
        loaded.origins[*index] = override.name;
    }
    return {};
}

}  // namespace

Result<std::string> find_file(const std::string& given, const Environment& environment) {
    if (!given.empty()) {
        return given;
    }
    if (std::string named = variable(environment, "BALLAST_CONFIG"); !named.empty()) {
        return named;
    }
    std::vector<std::string> places;
    if (const std::string folder = variable(environment, "XDG_CONFIG_HOME"); !folder.empty()) {
        places.push_back(folder + "/ballast/ballast.toml");
    }
    if (const std::string home = variable(environment, "HOME"); !home.empty()) {
        places.push_back(home + "/.config/ballast/ballast.toml");
    }
    places.emplace_back("/etc/ballast/ballast.toml");
    for (const std::string& place : places) {
        struct stat facts {};
        if (::stat(place.c_str(), &facts) == 0) {
            return place;
        }
        // Passing over a file that may be there but cannot be seen would run with other settings
        // than the user wrote.
        if (errno != ENOENT && errno != ENOTDIR) {
            return cannot_read(place, errno);
        }
    }
    return std::string();
}

std::string profile_folder(const Environment& environment) {
    // A relative path there is to be ignored (XDG Base Directory Specification).
    if (const std::string cache = variable(environment, "XDG_CACHE_HOME"); cache.starts_with('/')) {
        return cache + "/ballast/profile";
    }
    const std::string home = variable(environment, "HOME");
    return home.empty() ? "" : home + "/.cache/ballast/profile";
}

Result<Loaded> load(const Sources& sources) {
    Loaded loaded;
    loaded.origins.assign(keys().size(), "default");
    BALLAST_TRY(loaded.file, find_file(sources.file, sources.environment));
    if (!loaded.file.empty()) {
        BALLAST_TRY_STATUS(apply_file(loaded, sources.environment));
    }
    BALLAST_TRY_STATUS(apply_environment(loaded, sources.environment));
    BALLAST_TRY_STATUS(apply_command_line(loaded, sources.command_line, sources.environment));
    return loaded;
}

std::vector<std::string> unused_variables(const Environment& environment) {
    std::vector<std::string> unused;
    for (const auto& [name, value] : environment) {
        if (name.starts_with(kPrefix) && !known_variable(name) && !look_alike(name)) {
            unused.push_back(name);
        }
    }
    return unused;
}

}  // namespace ballast::config
