// SPDX-License-Identifier: MIT
// GET /metrics.
#include "server/api/handlers.h"

namespace ballast::api {

http::Reply metrics_text(Services& services, const http::Request& /*request*/) {
    http::Reply reply;
    reply.content_type = metrics::kContentType;
    reply.body = services.registry.scrape();
    return reply;
}

}  // namespace ballast::api
