// SPDX-License-Identifier: MIT
// Every path of the API.
#include "server/api/routes.h"

#include <utility>

#include "engine/base/rng.h"
#include "server/api/error_reply.h"
#include "server/api/handlers.h"

namespace ballast::api {

namespace {

using http::BodyKind;

/// A handler that answers at once.
using Answer = http::Reply (*)(Services&, const http::Request&);

http::Task<http::Reply> answer_now(Services& services, Answer answer, http::Request request) {
    co_return answer(services, request);
}

http::Handler at_once(Services& services, Answer answer) {
    // Not a coroutine itself: its captures may go before the coroutine that it starts has ended.
    return [&services, answer](http::Request request, http::Connection& /*connection*/) {
        return answer_now(services, answer, std::move(request));
    };
}

}  // namespace

void add_routes(http::Router& router, Services& services) {
    router.add({"POST",
                "/v1/chat/completions",
                BodyKind::kJson,
                [&services](http::Request request, http::Connection& connection) {
                    return chat_completions(services, std::move(request), connection);
                }});
    router.add({"POST",
                "/v1/completions",
                BodyKind::kJson,
                [&services](http::Request request, http::Connection& connection) {
                    return completions(services, std::move(request), connection);
                }});
    router.add({"GET", "/v1/models", BodyKind::kNone, at_once(services, list_models)});
    router.add({"GET", "/v1/models/{id}", BodyKind::kNone, at_once(services, get_model)});
    router.add({"POST", "/tokenize", BodyKind::kJson, at_once(services, tokenize)});
    router.add({"POST", "/detokenize", BodyKind::kJson, at_once(services, detokenize)});
    router.add({"POST", "/apply-template", BodyKind::kJson, at_once(services, apply_template)});
    router.add({"GET", "/health", BodyKind::kNone, at_once(services, health)});
    router.add(
        {"GET", "/ballast/v1/placement", BodyKind::kNone, at_once(services, show_placement)});
    router.add(
        {"GET", "/ballast/v1/decisions", BodyKind::kNone, at_once(services, list_decisions)});
    router.add({"POST", "/ballast/v1/pause", BodyKind::kJson, at_once(services, pause)});
    router.add({"POST", "/ballast/v1/resume", BodyKind::kJson, at_once(services, resume)});
    router.add({"GET", "/metrics", BodyKind::kNone, at_once(services, metrics_text)});
}

http::ErrorWriter transport_errors() {
    return [](int status, const std::string& message) {
        return transport_error_reply(status, message);
    };
}

std::uint64_t IdSource::next_number() {
    // Consecutive seeds of the generator are made independent by its own mixing.
    return Rng(seed_ + counter_.fetch_add(1, std::memory_order_relaxed)).next();
}

std::string IdSource::next_text() {
    static constexpr char kAlphabet[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    Rng rng(seed_ + counter_.fetch_add(1, std::memory_order_relaxed));
    std::string text;
    for (int i = 0; i < 24; ++i) {
        text += kAlphabet[rng.below(sizeof(kAlphabet) - 1)];
    }
    return text;
}

}  // namespace ballast::api
