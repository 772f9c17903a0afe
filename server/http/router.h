// SPDX-License-Identifier: MIT
// From (method, path) to the handler. Immutable once the server has started.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/connection.h"
#include "server/http/reply.h"
#include "server/http/request.h"
#include "server/http/task.h"

namespace ballast::http {

using Handler = std::function<Task<Reply>(Request request, Connection& connection)>;

/// Whether a route takes a body, which then must say that it is JSON.
enum class BodyKind { kNone, kJson };

struct Route {
    std::string method;   // GET also answers HEAD
    std::string pattern;  // a path; a last segment `{id}` matches any rest that is not empty
    BodyKind body = BodyKind::kNone;
    Handler handler;
};

/// What a request's path and method lead to.
struct RouteMatch {
    const Route* route = nullptr;
    std::string rest;         // decoded text of `{id}`
    std::string allow;        // methods of this path, for 405 and OPTIONS; empty: unknown path
    bool bad_escape = false;  // the path holds a broken %XX
};

class Router {
  public:
    void add(Route route);
    RouteMatch match(std::string_view method, std::string_view path) const;

  private:
    std::vector<Route> routes_;
};

}  // namespace ballast::http
