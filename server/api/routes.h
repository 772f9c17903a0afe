// SPDX-License-Identifier: MIT
// The API's table of contents: which path leads to which handler.
#pragma once

#include "server/api/services.h"
#include "server/http/router.h"

namespace ballast::api {

/// Adds every route. The services outlive the router.
void add_routes(http::Router& router, Services& services);

/// How the transport's own refusals are worded.
http::ErrorWriter transport_errors();

}  // namespace ballast::api
