// SPDX-License-Identifier: MIT
// One reply, and its head as bytes. Written by hand instead of with Beast: it is a few lines, and
// the bytes of a stream are part of our contract.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/request.h"

namespace ballast::http {

/// What a handler returns. Plain data.
struct Reply {
    int status = 200;
    std::string content_type = "application/json";
    std::vector<Header> headers;  // besides those that every reply has
    std::string body;
    bool close = false;     // the connection ends after this reply
    bool streamed = false;  // the handler has written head and body itself

    /// For a handler that has streamed: whether its stream was ended properly.
    static Reply after_stream(bool complete) {
        Reply reply;
        reply.streamed = true;
        reply.close = !complete;
        return reply;
    }
};

/// Words a refusal of the transport (bad request, foreign host, unknown path, …) as a Reply. The
/// API gives it, so that this folder knows nothing of OpenAI.
using ErrorWriter = std::function<Reply(int status, const std::string& message)>;

/// What the head needs besides the reply itself.
struct HeadContext {
    std::string request_id;
    std::int64_t unix_seconds = 0;
    bool keep_alive = true;
    bool chunked = false;      // the length is not known yet
    bool until_close = false;  // nor is chunking understood: HTTP/1.0
};

/// Status line and headers with the empty line after them.
std::string serialize_head(const Reply& reply, const HeadContext& context);

/// "Not Found" for 404; unknown codes get a plain word.
std::string_view reason_phrase(int status);

/// IMF-fixdate of RFC 9110 §5.6.7: "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date(std::int64_t unix_seconds);

}  // namespace ballast::http
