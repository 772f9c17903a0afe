// SPDX-License-Identifier: MIT
// A linear search: there are about a dozen routes.
#include "server/http/router.h"

#include <utility>

namespace ballast::http {

namespace {

constexpr std::string_view kRest = "{id}";

/// Whether the path has the pattern's form; `rest` becomes the raw text of `{id}`.
bool matches(std::string_view pattern, std::string_view path, std::string_view& rest) {
    if (!pattern.ends_with(kRest)) {
        return pattern == path;
    }
    const std::string_view prefix = pattern.substr(0, pattern.size() - kRest.size());
    if (!path.starts_with(prefix) || path.size() == prefix.size()) {
        return false;
    }
    rest = path.substr(prefix.size());
    return true;
}

}  // namespace

void Router::add(Route route) {
    routes_.push_back(std::move(route));
}

RouteMatch Router::match(std::string_view method, std::string_view path) const {
    RouteMatch result;
    for (const Route& route : routes_) {
        std::string_view rest;
        if (!matches(route.pattern, path, rest)) {
            continue;
        }
        result.allow += (result.allow.empty() ? "" : ", ") + route.method;
        const bool get = route.method == "GET";
        if (get) {
            result.allow += ", HEAD";
        }
        if (route.method == method || (get && method == "HEAD")) {
            result.route = &route;
            result.bad_escape = !percent_decode(rest, result.rest);
        }
    }
    if (!result.allow.empty()) {
        result.allow += ", OPTIONS";
    }
    return result;
}

}  // namespace ballast::http
