// SPDX-License-Identifier: MIT
// POST /ballast/v1/pause and /ballast/v1/resume: the device is given back and taken again. The body
// may name a holder, whose pause ends by itself unless it is asked for again and again.
#include <nlohmann/json.hpp>

#include "server/api/field_reader.h"
#include "server/api/handlers.h"
#include "server/api/json_reader.h"
#include "server/api/load_json.h"
#include "server/api/response_json.h"

namespace ballast::api {

Json load_json(const runtime::LoadReport& report) {
    Json json;
    json["level"] = scheduler::load_level_name(report.level);
    json["reason"] = report.reason.empty() ? Json(nullptr) : Json(report.reason);
    json["degraded"] = nullptr;
    if (report.degraded) {
        json["degraded"] = {{"reason", runtime::load_cause_name(*report.degraded)},
                            {"text", report.degraded_text}};
    }
    if (report.has_device) {
        json["device_bytes"] = report.self_bytes;
        json["others_bytes"] = report.others_bytes;
        json["total_bytes"] = report.total_bytes;
    }
    return json;
}

namespace {

constexpr IntegerRange kHoldSeconds = {1, 300};
constexpr std::size_t kHolderBytesMax = 64;

struct PauseRequest {
    std::string holder;  // "" for a person
    std::int64_t seconds = 0;
};

ApiResult<PauseRequest> read_request(const std::string& body, bool with_seconds) {
    PauseRequest request;
    if (body.empty()) {
        return request;
    }
    BALLAST_TRY(const Json document, parse_json_object(body));
    const FieldReader fields(document);
    BALLAST_TRY(const auto holder, fields.string("holder"));
    if (!holder) {
        return request;
    }
    if (holder->empty() || holder->size() > kHolderBytesMax) {
        return refuse(invalid_value("holder", "it must have 1 to 64 bytes.", "invalid_value"));
    }
    request.holder = *holder;
    if (with_seconds) {
        BALLAST_TRY(const auto seconds, fields.integer("seconds", kHoldSeconds));
        if (!seconds) {
            return refuse(missing_parameter("seconds"));
        }
        request.seconds = *seconds;
    }
    return request;
}

http::Reply state_reply(const Services& services) {
    Json json;
    json["object"] = "ballast.load";
    json["paused"] = services.pauses.paused(services.clock.now());
    const auto model = services.model.model();
    json["load"] = nullptr;
    if (model != nullptr && model->placement.load) {
        json["load"] = load_json(model->placement.load());
    }
    http::Reply reply;
    reply.body = to_line(json);
    return reply;
}

}  // namespace

http::Reply pause(Services& services, const http::Request& request) {
    const auto asked = read_request(request.body, true);
    if (!asked) {
        return error_reply(asked.error());
    }
    if (asked->holder.empty()) {
        services.pauses.pause();
        return state_reply(services);
    }
    const Nanoseconds now = services.clock.now();
    const auto held =
        services.pauses.hold(asked->holder, now, now + std::chrono::seconds(asked->seconds));
    if (!held) {
        return error_reply(from_error(held.error()));
    }
    if (!*held) {
        return error_reply({.status = 409,
                            .message = "Somebody has resumed since this holder asked for a pause.",
                            .param = "holder",
                            .code = "resumed"});
    }
    return state_reply(services);
}

http::Reply resume(Services& services, const http::Request& request) {
    const auto asked = read_request(request.body, false);
    if (!asked) {
        return error_reply(asked.error());
    }
    if (asked->holder.empty()) {
        services.pauses.resume();
    } else {
        services.pauses.let_go(asked->holder);
    }
    return state_reply(services);
}

}  // namespace ballast::api
