// SPDX-License-Identifier: MIT
#include "tests/server/api/api_fixture.h"

#include <utility>

#include <gtest/gtest.h>

namespace ballast::test {

const char* const kChatTemplate =
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + "
    "'\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

ApiSetup chat_setup() {
    ApiSetup setup;
    setup.chat_template = kChatTemplate;
    return setup;
}

ApiServer::ApiServer(Script script, ApiSetup wanted)
    : setup(std::move(wanted)),
      tokenizer(setup.adds_bos),
      registry(clock),
      http_metrics(registry),
      request_metrics(registry),
      queue(setup.queue.depth),
      admission(queue, setup.queue),
      services{setup.api,
               setup.http.sse_comments,
               model,
               admission,
               registry,
               request_metrics,
               pauses,
               clock,
               ids} {
    if (!setup.chat_template.empty()) {
        auto parsed = chat::ChatTemplate::parse(setup.chat_template);
        EXPECT_TRUE(parsed.has_value()) << (parsed ? "" : parsed.error().message);
        chat_template.emplace(std::move(*parsed));
    }
    if (setup.loaded) {
        set_ready();
    }
    registry.set_queue_depth_source([this] { return static_cast<double>(queue.size()); });
    api::add_routes(router, services);
    setup.http.port = 0;
    auto made =
        http::Server::create({setup.http, router, api::transport_errors(), http_metrics, clock});
    EXPECT_TRUE(made.has_value());
    server = std::move(*made);
    server->start();
    engine = std::make_unique<FakeEngine>(
        queue, [this, script = std::move(script)](const runtime::Job& job) {
            {
                const std::lock_guard lock(mutex_);
                last_job_ = job;
                last_job_.sink = nullptr;
            }
            script(job);
        });
}

ApiServer::~ApiServer() {
    server->stop(Nanoseconds{0});
    queue.close();
    engine = nullptr;
}

void ApiServer::set_ready() {
    api::ServedModel served;
    served.id = "tiny";
    served.alias = setup.api.model_alias;
    served.created = 1'600'000'000;
    served.tokenizer = &tokenizer;
    served.chat_template = chat_template ? &*chat_template : nullptr;
    served.context = setup.context;
    served.context_trained = 4096;
    served.parallel = 4;
    served.architecture = "llama";
    served.check_file = setup.check_file;
    served.engine_failure = setup.engine_failure;
    served.placement = setup.placement;
    api::describe_vocabulary(served);
    model.set_ready(std::move(served));
}

runtime::Job ApiServer::last_job() const {
    const std::lock_guard lock(mutex_);
    return last_job_;
}

ClientReply ApiServer::post(const std::string& path, const OrderedJson& body) const {
    return fetch(port(), post_json(path, body.dump()));
}

std::string ApiServer::metrics() const {
    return fetch(port(), get("/metrics")).body;
}

OrderedJson chat_body(const OrderedJson& more) {
    OrderedJson body = {{"model", "tiny"}, {"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
    body.update(more);
    return body;
}

OrderedJson completion_body(const OrderedJson& more) {
    OrderedJson body = {{"model", "tiny"}, {"prompt", "Once"}};
    body.update(more);
    return body;
}

ErrorBody error_of(const ClientReply& reply) {
    const auto json = OrderedJson::parse(reply.body, nullptr, false);
    if (!json.is_object() || !json.contains("error")) {
        ADD_FAILURE() << "no error body: " << reply.body;
        return {};
    }
    const auto& error = json["error"];
    const auto text = [&](const char* name) -> std::string {
        if (!error.contains(name)) {
            ADD_FAILURE() << "no member " << name << ": " << reply.body;
            return {};
        }
        return error[name].is_null() ? "null" : error[name].get<std::string>();
    };
    return {text("message"), text("type"), text("param"), text("code")};
}

std::string with_plain_ids(std::string text) {
    for (const std::string prefix : {"\"chatcmpl-", "\"cmpl-"}) {
        for (std::size_t at = text.find(prefix); at != std::string::npos;
             at = text.find(prefix, at + 1)) {
            text.replace(at + prefix.size(), 24, "ID");
        }
    }
    return text;
}

}  // namespace ballast::test
