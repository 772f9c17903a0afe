// SPDX-License-Identifier: MIT
// The checks, in the order in which they are made.
#include "server/http/request_checks.h"

#include <string_view>

#include <fmt/format.h>

namespace ballast::http {

Verdict check_head(const Request& request, const HostCheck& host_check) {
    Verdict verdict;
    verdict.status = host_check.check(request.headers, verdict.message);
    if (verdict.status != 0) {
        return verdict;
    }
    const std::string* encoding = request.header("content-encoding");
    if (encoding != nullptr && !equal_ignoring_case(*encoding, "identity")) {
        return {415, "Send the body without Content-Encoding.", {}, false};
    }
    const std::string* expect = request.header("expect");
    if (expect != nullptr && !equal_ignoring_case(*expect, "100-continue")) {
        return {417, "The only expectation this server meets is 100-continue.", {}, false};
    }
    return verdict;
}

Verdict check_route(const Request& request, const RouteMatch& match) {
    if (request.method == "OPTIONS" && (request.path == "*" || !match.allow.empty())) {
        // No Access-Control header: pages of other origins get nothing.
        return {204, {}, match.allow.empty() ? "GET, HEAD, POST, OPTIONS" : match.allow, true};
    }
    if (match.allow.empty()) {
        return {404,
                fmt::format("Unknown request URL: {} {}. Please check the URL for typos.",
                            request.method,
                            request.path),
                {},
                true};
    }
    if (match.route == nullptr) {
        return {405,
                fmt::format("{} is not allowed here; use {}.", request.method, match.allow),
                match.allow,
                true};
    }
    if (match.bad_escape) {
        return {400, "The URL holds a broken % escape.", {}, true};
    }
    if (match.route->body == BodyKind::kJson) {
        const std::string* type = request.header("content-type");
        std::string_view media = type != nullptr ? std::string_view(*type) : std::string_view{};
        media = media.substr(0, media.find(';'));
        while (media.ends_with(' ') || media.ends_with('\t')) {
            media.remove_suffix(1);
        }
        if (!equal_ignoring_case(media, "application/json")) {
            return {415, "Send the body as JSON with 'Content-Type: application/json'.", {}, true};
        }
    }
    return {};
}

}  // namespace ballast::http
