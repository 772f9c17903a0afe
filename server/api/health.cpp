// SPDX-License-Identifier: MIT
// GET /health: 200 if a model is served and the server is not stopping. Never waits for the engine.
#include <nlohmann/json.hpp>

#include "server/api/generation.h"
#include "server/api/handlers.h"
#include "server/api/load_json.h"
#include "server/api/response_json.h"

namespace ballast::api {

namespace {

http::Reply not_well(const ApiError& error, const char* status) {
    // The error's members too, so that a client of llama-server finds what it looks for.
    http::Reply reply = error_reply(error);
    Json json = Json::parse(reply.body, nullptr, false);
    Json whole;
    whole["status"] = status;
    whole["error"] = json["error"];
    reply.body = to_line(whole);
    return reply;
}

}  // namespace

http::Reply health(Services& services, const http::Request& /*request*/) {
    const auto served = ready_model(services);
    if (!served) {
        const char* status = services.admission.stopping()                           ? "stopping"
                             : services.model.phase() == ModelState::Phase::kLoading ? "loading"
                                                                                     : "failed";
        return not_well(served.error(), status);
    }
    Json json;
    json["status"] = "ok";
    json["model"] = (*served)->id;
    json["context"] = (*served)->context;
    json["parallel"] = (*served)->parallel;
    json["version"] = BALLAST_VERSION;
    if ((*served)->placement.load) {
        json["load"] = load_json((*served)->placement.load());
    }
    http::Reply reply;
    reply.body = to_line(json);
    return reply;
}

}  // namespace ballast::api
