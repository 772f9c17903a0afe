// SPDX-License-Identifier: MIT
// The whole API over a real socket, with a scripted engine behind the real queue.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "server/api/routes.h"
#include "server/api/services.h"
#include "server/http/server.h"
#include "server/metrics/http_metrics.h"
#include "tests/server/support/fake_engine.h"
#include "tests/server/support/fake_tokenizer.h"
#include "tests/server/support/http_client.h"

namespace ballast::test {

using OrderedJson = nlohmann::ordered_json;

/// Real durations, one moment in the calendar.
class FixedDayClock final : public Clock {
  public:
    Nanoseconds now() const override { return clock_.now(); }
    std::int64_t unix_seconds() const override { return 1'700'000'000; }

  private:
    SystemClock clock_;
};

/// What a test may change before the server starts.
struct ApiSetup {
    http::HttpOptions http;
    queue::QueueOptions queue;
    api::ApiOptions api;
    bool loaded = true;
    bool adds_bos = true;
    int context = 200;
    std::string chat_template;  // empty: none
    std::function<Status()> check_file;
    std::function<std::string()> engine_failure;
    api::ServedPlacement placement;
};

/// ChatML, the form most small models use.
extern const char* const kChatTemplate;
ApiSetup chat_setup();

/// A running server with the model "tiny" and the given script. Stops on destruction.
class ApiServer {
  public:
    explicit ApiServer(Script script, ApiSetup setup = chat_setup());
    ~ApiServer();

    int port() const { return server->port(); }
    void set_ready();
    /// The job the engine saw last.
    runtime::Job last_job() const;
    ClientReply post(const std::string& path, const OrderedJson& body) const;
    std::string metrics() const;

    ApiSetup setup;
    FakeTokenizer tokenizer;
    std::optional<chat::ChatTemplate> chat_template;
    FixedDayClock clock;
    metrics::Registry registry;
    metrics::HttpMetrics http_metrics;
    metrics::RequestMetrics request_metrics;
    queue::RequestQueue queue;
    queue::Admission admission;
    api::ModelState model;
    scheduler::Pauses pauses;
    api::IdSource ids{1};
    api::Services services;
    http::Router router;
    std::unique_ptr<http::Server> server;
    std::unique_ptr<FakeEngine> engine;

  private:
    mutable std::mutex mutex_;
    runtime::Job last_job_;
};

/// {"model": "tiny", "messages": [one user message]} with more members.
OrderedJson chat_body(const OrderedJson& more = OrderedJson::object());
OrderedJson completion_body(const OrderedJson& more = OrderedJson::object());

/// The four members of an error body; fails the test if there are not these four.
struct ErrorBody {
    std::string message;
    std::string type;
    std::string param;  // "null" if null
    std::string code;
};
ErrorBody error_of(const ClientReply& reply);

/// Random parts of a reply, made equal: ids become "ID".
std::string with_plain_ids(std::string text);

}  // namespace ballast::test
