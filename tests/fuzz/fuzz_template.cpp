// SPDX-License-Identifier: MIT
// The template interpreter on any source, with small limits: it must end, keep to them, and give
// the same result twice.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/base/check.h"
#include "engine/chat/chat_template.h"

namespace {

using Json = nlohmann::ordered_json;

const Json& variables() {
    // The names that tests/data/make_jinja_cases.py uses, as the corpus is made of its templates.
    static const Json kVariables = Json::parse(R"({
        "s": "Hello, World", "u": "Grüße, 世界 😀!", "e": "", "sp": "  two  words \n", "n": null,
        "t": true, "f": false, "i": 7, "neg": -3, "x": 2.5, "big": 12345678901234567890,
        "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "nested": [[1, 2], [3, [4, null]]],
        "d": {"b": 1, "a": "two", "C": [1.0, null, true], "items": "shadowed"},
        "ms": [{"role": "user", "content": "hi", "n": 2},
               {"role": "assistant", "content": "yo", "n": 1}],
        "empty": [], "ed": {}, "quote": "it's \"q\" \\ \n\t é"})");
    return kVariables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string source(data, data + size);
    const auto parsed = ballast::chat::ChatTemplate::parse(source);
    if (!parsed) {
        BALLAST_CHECK(parsed.error().code == ballast::ErrorCode::kInvalidRequest);
        return 0;
    }
    const ballast::chat::RenderLimits limits{.steps_max = 50'000,
                                             .depth_max = 50,
                                             .output_bytes_max = 1U << 18,
                                             .memory_bytes_max = 4U << 20};
    const auto first = parsed->render(variables(), 1768480496, limits);
    const auto second = parsed->render(variables(), 1768480496, limits);
    BALLAST_CHECK(first.has_value() == second.has_value());
    if (first) {
        BALLAST_CHECK(first->size() <= limits.output_bytes_max && *first == *second);
    } else {
        BALLAST_CHECK(first.error().code == ballast::ErrorCode::kInvalidRequest);
        BALLAST_CHECK(first.error().message == second.error().message);
    }
    return 0;
}
