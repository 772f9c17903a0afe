// SPDX-License-Identifier: MIT
// One request as a handler sees it: already read, within the limits, with a checked Host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ballast::http {

struct Header {
    std::string name;
    std::string value;
};

/// Plain data, owned by whoever handles it.
struct Request {
    std::string method;
    std::string path;   // as sent, without the query
    std::string query;  // without '?'
    std::string rest;   // what `{id}` of the route matched, percent-decoded
    std::vector<Header> headers;
    std::string body;
    std::string id;  // the x-request-id of the reply

    /// The first header of that name (any case), or null.
    const std::string* header(std::string_view name) const;
};

/// Whether two header names or host names are equal; ASCII letters match in any case.
bool equal_ignoring_case(std::string_view a, std::string_view b);

/// A request id that a client sent may be echoed: 1 to 128 letters, digits or `-_.`.
bool is_sane_request_id(std::string_view id);

/// Undoes %XX. False if an escape is broken or stands for a NUL byte.
bool percent_decode(std::string_view text, std::string& out);

}  // namespace ballast::http
