// SPDX-License-Identifier: MIT
// What a user may set about the OpenAI API; composed into the configuration by config/.
#pragma once

#include <string>

namespace ballast::api {

struct ApiOptions {
    std::string model_alias;     // a second name under which the model answers
    int default_max_tokens = 0;  // 0: up to the context
    int choices_max = 8;         // the largest n
};

}  // namespace ballast::api
