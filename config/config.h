// SPDX-License-Identifier: MIT
// Everything a user may set, composed of the modules' own options. How it is filled: load.h.
#pragma once

#include <string>

#include "engine/runtime/options.h"
#include "server/api/options.h"
#include "server/http/options.h"
#include "server/queue/options.h"

namespace ballast::config {

/// Which model is served.
struct ModelOptions {
    std::string path;           // a GGUF file
    std::string chat_template;  // a file that replaces the model's own template; "" for none
};

struct LogOptions {
    std::string level = "info";  // debug, info, warning or error
};

/// One member a section of the configuration file.
struct Config {
    ModelOptions model;
    http::HttpOptions server;
    runtime::EngineOptions engine;
    queue::QueueOptions queue;
    api::ApiOptions api;
    LogOptions log;
};

}  // namespace ballast::config
