// SPDX-License-Identifier: MIT
// `ballast config show` and `ballast config check`.
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "config/keys.h"
#include "config/load.h"
#include "server/cli/address.h"
#include "server/cli/commands.h"
#include "server/cli/report.h"

namespace ballast::cli {

int config_show(const ConfigShowArgs& args, const config::Environment& environment) {
    const auto loaded = config::load({args.config_file, environment, {}});
    if (!loaded) {
        return report(loaded.error());
    }
    // The output is itself a configuration file.
    fmt::print("# File: {}\n", loaded->file.empty() ? "none" : loaded->file);
    std::string_view section;
    for (std::size_t i = 0; i < config::keys().size(); ++i) {
        const config::Key& key = config::keys()[i];
        if (key.section != section) {
            section = key.section;
            fmt::print("\n[{}]\n", section);
        }
        const std::string line =
            fmt::format("{} = {}", key.name, config::format_value(loaded->config, key));
        fmt::print("{:<40} # {}\n", line, loaded->origins[i]);
    }
    return kExitSuccess;
}

int config_check(const ConfigCheckArgs& args, const config::Environment& environment) {
    const auto loaded = config::load({args.config_file, environment, {}});
    if (!loaded) {
        return report(loaded.error());
    }
    if (const Status allowed = check_loopback(loaded->config.server.host); !allowed) {
        return report(allowed.error());
    }
    fmt::print("{}\n",
               loaded->file.empty() ? "There is no configuration file; the environment is right."
                                    : loaded->file + " is right.");
    return kExitSuccess;
}

}  // namespace ballast::cli
