// SPDX-License-Identifier: MIT
// The HTTP request parser on any bytes. The first byte says in which steps the rest arrives, which
// must not change the result.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/check.h"
#include "server/http/request_parser.h"

namespace {

using ballast::http::RequestParser;

constexpr std::uint64_t kBodyMax = 4096;

/// Feeds everything; the parser stops by itself at the end of one request.
void feed_all(RequestParser& parser, const std::string& bytes, std::size_t step) {
    std::string buffer;
    for (std::size_t i = 0; i < bytes.size(); i += step) {
        buffer += bytes.substr(i, step);
        while (true) {
            const auto before = parser.state();
            const std::size_t used = parser.feed(buffer);
            BALLAST_CHECK(used <= buffer.size());
            buffer.erase(0, used);
            if (used == 0 && parser.state() == before) {
                break;
            }
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) {
        return 0;
    }
    const void* raw = data + 1;
    const std::string bytes(static_cast<const char*>(raw), size - 1);
    RequestParser parser(kBodyMax);
    feed_all(parser, bytes, std::max<std::size_t>(data[0], 1));
    RequestParser whole(kBodyMax);
    feed_all(whole, bytes, bytes.size());
    BALLAST_CHECK(parser.state() == whole.state());
    if (parser.state() == RequestParser::State::kDone) {
        BALLAST_CHECK(parser.request().body == whole.request().body);
        BALLAST_CHECK(parser.request().body.size() <= kBodyMax);
        BALLAST_CHECK(parser.request().path.starts_with('/') || parser.request().path == "*");
    }
    return 0;
}
