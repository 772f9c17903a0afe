// SPDX-License-Identifier: MIT
// What the transport refuses before a handler sees a request.
#pragma once

#include <string>

#include "server/http/host_check.h"
#include "server/http/request.h"
#include "server/http/router.h"

namespace ballast::http {

/// Why a request is refused, if it is.
struct Verdict {
    int status = 0;  // 0: go on
    std::string message;
    std::string allow;     // for 405 and OPTIONS
    bool reusable = true;  // the connection can take another request
};

/// Host, Origin, Content-Encoding, Expect: before the body is read.
Verdict check_head(const Request& request, const HostCheck& host_check);

/// Path, method and content type; 204 answers OPTIONS.
Verdict check_route(const Request& request, const RouteMatch& match);

}  // namespace ballast::http
