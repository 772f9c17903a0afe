// SPDX-License-Identifier: MIT
// Copies the process environment.
#include "config/environment.h"

#include <string_view>

// POSIX wants programs to declare it themselves.
extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace ballast::config {

Environment read_environment() {
    Environment environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::size_t equals = text.find('=');
        if (equals != std::string_view::npos) {
            environment.emplace(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    return environment;
}

std::string variable(const Environment& environment, const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? "" : found->second;
}

}  // namespace ballast::config
