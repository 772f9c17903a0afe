// SPDX-License-Identifier: MIT
// GET /ballast/v1/placement and /ballast/v1/decisions: where every group of tensors is, what the
// plan promises, and every decision with its reason.
#include <utility>

#include <nlohmann/json.hpp>

#include "server/api/generation.h"
#include "server/api/handlers.h"
#include "server/api/load_json.h"
#include "server/api/response_json.h"

namespace ballast::api {

namespace {

/// Which side computes it in a decode step.
const char* device_name(const scheduler::TensorGroup& group, const runtime::GroupResidency& facts) {
    const int n = facts.division(runtime::StepKind::kDecode).on_device();
    return n == 0 ? "cpu" : n == group.parts ? "device" : "both";
}

Json groups_json(const scheduler::TensorCatalog& catalog, const runtime::Residency& residency) {
    Json groups = Json::array();
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const scheduler::TensorGroup& group = catalog.groups[i];
        const runtime::GroupResidency& facts = residency.groups[i];
        Json entry;
        if (group.layer >= 0) {
            entry["layer"] = group.layer;
        }
        entry["class"] = runtime::class_name(group.kind);
        entry["device"] = device_name(group, facts);
        entry["parts"] = group.parts;
        entry["resident_parts"] = facts.resident;
        entry["streamed_parts"] = facts.streamed;
        entry["prefill_streamed_parts"] = facts.prefill_streamed;
        entry["weight_bytes"] =
            group.weight_bytes +
            group.expert_bytes *
                static_cast<std::uint64_t>(
                    group.kind == scheduler::GroupKind::kExperts ? group.parts : 0);
        entry["device_weight_bytes"] = facts.device_weight_bytes;
        entry["device_kv_bytes"] = facts.device_kv_bytes;
        groups.push_back(std::move(entry));
    }
    return groups;
}

Json plan_json(const scheduler::SchedulerState& state) {
    const scheduler::Plan& plan = *state.plan;
    Json json;
    json["version"] = plan.version;
    json["reason"] = plan.reason;
    if (state.has_hardware) {
        json["predicted_decode_seconds"] = plan.forecast.decode_seconds;
        json["predicted_prefill_seconds"] = plan.forecast.prefill_seconds;
        json["depth"] = plan.forecast.depth;
        json["prefill_tokens"] = plan.forecast.prefill_tokens;
        json["predicted_limit"] = plan.forecast.limit_fraction();
        json["gap"] = plan.forecast.gap;
    }
    return json;
}

/// What recent decode steps of one sequence took beside forecast and limit; null before any.
Json measured_json(const scheduler::SchedulerState& state) {
    if (state.limit_fraction <= 0.0) {
        return nullptr;
    }
    return {{"decode_seconds", state.measured_seconds},
            {"predicted_seconds", state.predicted_seconds},
            {"limit_fraction", state.limit_fraction},
            {"plan_fraction", state.plan_fraction}};
}

http::Reply json_reply(const Json& json) {
    http::Reply reply;
    reply.body = to_line(json);
    return reply;
}

}  // namespace

http::Reply show_placement(Services& services, const http::Request& /*request*/) {
    const auto served = ready_model(services);
    if (!served) {
        return error_reply(served.error());
    }
    const ServedPlacement& placement = (*served)->placement;
    const scheduler::SchedulerState state = placement.state();
    const runtime::LoadReport load = placement.load();
    const runtime::Residency& residency = *load.residency;
    Json bytes = Json::array();
    for (const runtime::PlacedBytes& placed : placement.bytes()) {
        bytes.push_back(
            {{"device", placed.device}, {"class", placed.tensor_class}, {"bytes", placed.bytes}});
    }
    Json json;
    json["object"] = "ballast.placement";
    json["model"] = (*served)->id;
    json["plan"] = plan_json(state);
    json["measured"] = measured_json(state);
    json["degraded"] = residency.degraded.empty() ? Json(nullptr) : Json(residency.degraded);
    json["load"] = load_json(load);
    json["bytes"] = std::move(bytes);
    json["groups"] = groups_json(*placement.catalog, residency);
    return json_reply(json);
}

http::Reply list_decisions(Services& services, const http::Request& /*request*/) {
    const auto served = ready_model(services);
    if (!served) {
        return error_reply(served.error());
    }
    Json data = Json::array();
    for (const scheduler::Decision& decision : (*served)->placement.state().decisions) {
        data.push_back({{"number", decision.number},
                        {"created", decision.unix_seconds},
                        {"cause", decision.cause},
                        {"text", decision.text}});
    }
    Json json;
    json["object"] = "list";
    json["data"] = std::move(data);
    return json_reply(json);
}

}  // namespace ballast::api
