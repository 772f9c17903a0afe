// SPDX-License-Identifier: MIT
// The handlers behind routes.cpp, one function an endpoint. Coroutines on the connection's strand;
// services and connection outlive them.
#pragma once

#include "server/api/services.h"
#include "server/http/connection.h"
#include "server/http/request.h"

namespace ballast::api {

http::Task<http::Reply> chat_completions(Services& services,
                                         http::Request request,
                                         http::Connection& connection);
http::Task<http::Reply> completions(Services& services,
                                    http::Request request,
                                    http::Connection& connection);

// These answer at once.
http::Reply list_models(Services& services, const http::Request& request);
http::Reply show_placement(Services& services, const http::Request& request);
http::Reply list_decisions(Services& services, const http::Request& request);
http::Reply pause(Services& services, const http::Request& request);
http::Reply resume(Services& services, const http::Request& request);
http::Reply get_model(Services& services, const http::Request& request);
http::Reply tokenize(Services& services, const http::Request& request);
http::Reply detokenize(Services& services, const http::Request& request);
http::Reply apply_template(Services& services, const http::Request& request);
http::Reply health(Services& services, const http::Request& request);
http::Reply metrics_text(Services& services, const http::Request& request);

}  // namespace ballast::api
