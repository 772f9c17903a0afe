// SPDX-License-Identifier: MIT
// GET /v1/models and /v1/models/{id}.
#include <utility>

#include <nlohmann/json.hpp>

#include "server/api/generation.h"
#include "server/api/handlers.h"
#include "server/api/response_json.h"

namespace ballast::api {

namespace {

Json model_json(const ServedModel& served, const std::string& id) {
    Json json;
    json["id"] = id;
    json["object"] = "model";
    json["created"] = served.created;
    json["owned_by"] = "ballast";
    json["meta"] = {{"architecture", served.architecture},
                    {"n_ctx", served.context},
                    {"n_ctx_train", served.context_trained},
                    {"n_vocab", served.tokenizer->vocabulary_size()},
                    {"size", served.size_bytes}};
    return json;
}

http::Reply json_reply(const Json& json) {
    http::Reply reply;
    reply.body = to_line(json);
    return reply;
}

}  // namespace

http::Reply list_models(Services& services, const http::Request& /*request*/) {
    const auto served = ready_model(services);
    if (!served) {
        return error_reply(served.error());
    }
    Json data = Json::array();
    data.push_back(model_json(**served, (*served)->id));
    if (!(*served)->alias.empty() && (*served)->alias != (*served)->id) {
        data.push_back(model_json(**served, (*served)->alias));
    }
    Json json;
    json["object"] = "list";
    json["data"] = std::move(data);
    return json_reply(json);
}

http::Reply get_model(Services& services, const http::Request& request) {
    const auto served = ready_model(services);
    if (!served) {
        return error_reply(served.error());
    }
    if (!(*served)->answers_to(request.rest)) {
        return error_reply(unknown_model(request.rest, **served));
    }
    return json_reply(model_json(**served, (*served)->id));
}

}  // namespace ballast::api
