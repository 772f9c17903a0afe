// SPDX-License-Identifier: MIT
// Queue, wait, answer.
#include "server/api/generation.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "server/http/sse_writer.h"
#include "server/queue/token_stream.h"

namespace ballast::api {

namespace {

using metrics::Outcome;
using queue::StreamEvent;
using queue::TokenStream;

// How often a silent stream shows that it lives.
constexpr auto kCommentInterval = std::chrono::seconds(1);

/// However the handler ends, the engine must not go on for nobody.
class CancelOnExit {
  public:
    explicit CancelOnExit(TokenStream& stream) : stream_(stream) {}
    CancelOnExit(const CancelOnExit&) = delete;
    CancelOnExit& operator=(const CancelOnExit&) = delete;
    ~CancelOnExit() { stream_.cancel({ErrorCode::kCancelled, "The reply has ended."}); }

  private:
    TokenStream& stream_;
};

/// What the choices of one request have come to.
struct Tally {
    explicit Tally(std::size_t n_choices)
        : choices(n_choices), stats(n_choices), n_open(n_choices) {}

    void finish(const StreamEvent& event) {
        const auto index = static_cast<std::size_t>(event.choice);
        choices[index].reason = event.reason;
        stats[index] = event.stats;
        --n_open;
    }

    /// Choices of one prompt share it: it counts once.
    Usage usage(std::size_t choices_per_prompt) const {
        Usage usage;
        for (std::size_t i = 0; i < stats.size(); ++i) {
            usage.completion_tokens += stats[i].completion_tokens;
            if (i % choices_per_prompt == 0) {
                usage.prompt_tokens += stats[i].prompt_tokens;
                usage.cached_tokens += stats[i].cached_prompt_tokens;
            }
        }
        return usage;
    }

    Outcome outcome() const {
        const bool stopped = std::all_of(choices.begin(), choices.end(), [](const auto& choice) {
            return choice.reason == runtime::FinishReason::kStop;
        });
        return stopped ? Outcome::kStop : Outcome::kLength;
    }

    std::vector<FinishedChoice> choices;
    std::vector<runtime::JobStats> stats;
    std::size_t n_open;
};

/// A reply and how the request ended.
struct Answer {
    http::Reply reply;
    Outcome outcome = Outcome::kError;
};

bool is_end(const StreamEvent& event) {
    return event.kind == StreamEvent::Kind::kFailed || event.kind == StreamEvent::Kind::kCancelled;
}

Outcome outcome_of(const StreamEvent& event) {
    return event.kind == StreamEvent::Kind::kCancelled || event.error.code == ErrorCode::kCancelled
               ? Outcome::kCancelled
               : Outcome::kError;
}

std::vector<std::shared_ptr<runtime::Job>> make_jobs(Services& services,
                                                     const Generation& generation,
                                                     TokenStream& stream) {
    std::vector<std::shared_ptr<runtime::Job>> jobs;
    const GenerationRequest& request = generation.request;
    const std::uint64_t seed =
        request.has_seed ? request.sampling.seed : services.ids.next_number();
    for (std::size_t p = 0; p < generation.prompts.size(); ++p) {
        for (int c = 0; c < request.n; ++c) {
            auto job = std::make_shared<runtime::Job>();
            job->id = services.ids.next_number();
            job->prompt = generation.prompts[p];
            job->max_tokens = generation.max_tokens[p];
            job->sampling = request.sampling;
            // Choices differ, and each can be repeated: choice c of seed s is choice 0 of s + c.
            job->sampling.seed = seed + static_cast<std::uint64_t>(c);
            job->stop = request.stop;
            job->ignore_eos = request.ignore_eos;
            job->created = services.clock.now();
            job->sink = stream.sink(static_cast<int>(jobs.size()));
            jobs.push_back(std::move(job));
        }
    }
    return jobs;
}

/// The whole reply at once.
http::Task<Answer> collect(std::shared_ptr<TokenStream> stream, Generation& generation) {
    Tally tally(generation.prompts.size() * static_cast<std::size_t>(generation.request.n));
    while (tally.n_open > 0) {
        std::optional<StreamEvent> event = co_await stream->next(kCommentInterval);
        if (!event) {
            continue;
        }
        if (is_end(*event)) {
            co_return Answer{error_reply(from_error(event->error)), outcome_of(*event)};
        }
        FinishedChoice& choice = tally.choices[static_cast<std::size_t>(event->choice)];
        if (event->kind == StreamEvent::Kind::kText) {
            choice.text += event->delta.text;
            std::move(event->delta.logprobs.begin(),
                      event->delta.logprobs.end(),
                      std::back_inserter(choice.logprobs));
        } else if (event->kind == StreamEvent::Kind::kFinished) {
            tally.finish(*event);
        }
    }
    Answer answer;
    answer.reply.body =
        generation.format->whole(tally.choices,
                                 tally.usage(static_cast<std::size_t>(generation.request.n)),
                                 tally.stats.front());
    answer.outcome = tally.outcome();
    co_return answer;
}

/// The JSON line of an ordinary event, or "".
std::string line_of(const StreamEvent& event, ReplyFormat& format) {
    switch (event.kind) {
        case StreamEvent::Kind::kStarted:
            return format.start(event.choice);
        case StreamEvent::Kind::kText:
            return format.delta(event.choice, event.delta);
        case StreamEvent::Kind::kFinished:
            return format.finish(event.choice, event.reason);
        default:
            return {};
    }
}

/// Events as they come. The head waits for the first one, so that an error before it is still a
/// proper status.
http::Task<Answer> stream_out(std::shared_ptr<TokenStream> stream,
                              Generation& generation,
                              http::Connection& connection,
                              bool comments) {
    Tally tally(generation.prompts.size() * static_cast<std::size_t>(generation.request.n));
    http::SseWriter writer(connection);
    const Answer cut{http::Reply::after_stream(false), Outcome::kCancelled};
    while (tally.n_open > 0) {
        std::optional<StreamEvent> event = co_await stream->next(kCommentInterval);
        Status sent;
        if (!event) {
            if (writer.started() && comments) {
                sent = co_await writer.comment("waiting");
            }
            if (!sent) {
                co_return cut;
            }
            continue;
        }
        if (is_end(*event)) {
            const ApiError error = from_error(event->error);
            if (!writer.started()) {
                co_return Answer{error_reply(error), outcome_of(*event)};
            }
            sent = co_await writer.event(error_json(error));
            if (sent) {
                sent = co_await writer.end();
            }
            co_return Answer{http::Reply::after_stream(false), outcome_of(*event)};
        }
        if (!writer.started()) {
            sent = co_await writer.start();
        }
        std::string line = line_of(*event, *generation.format);
        if (sent && !line.empty()) {
            sent = co_await writer.event(std::move(line));
        }
        if (!sent) {
            co_return cut;
        }
        if (event->kind == StreamEvent::Kind::kFinished) {
            tally.finish(*event);
        }
    }
    Status sent;
    if (generation.request.include_usage) {
        std::string line = generation.format->usage(
            tally.usage(static_cast<std::size_t>(generation.request.n)), tally.stats.front());
        sent = co_await writer.event(std::move(line));
    }
    if (sent) {
        sent = co_await writer.done();
    }
    co_return Answer{http::Reply::after_stream(sent.has_value()), tally.outcome()};
}

}  // namespace

ApiResult<std::shared_ptr<const ServedModel>> ready_model(const Services& services) {
    if (services.admission.stopping()) {
        return refuse(from_error({ErrorCode::kCancelled, "The server is stopping."}));
    }
    const ModelState::Phase phase = services.model.phase();
    if (phase == ModelState::Phase::kFailed) {
        return refuse(model_failed(services.model.message()));
    }
    std::shared_ptr<const ServedModel> served = services.model.model();
    if (phase == ModelState::Phase::kLoading || served == nullptr) {
        return refuse(model_loading());
    }
    const std::string failure = served->engine_failure ? served->engine_failure() : std::string{};
    if (!failure.empty()) {
        return refuse(model_failed(failure));
    }
    const Status unchanged = served->check_file ? served->check_file() : Status{};
    if (!unchanged) {
        return refuse(model_file_changed(unchanged.error().message));
    }
    return served;
}

ApiResult<int> reply_room(const Services& services,
                          const ServedModel& served,
                          const GenerationRequest& request,
                          std::size_t n_prompt,
                          const char* param) {
    using Kind = queue::ContextVerdict::Kind;
    const int n_prompt_tokens = static_cast<int>(n_prompt);
    const queue::ContextVerdict verdict = queue::Admission::check_context(
        {n_prompt_tokens, request.max_tokens, served.context}, services.options.default_max_tokens);
    if (verdict.kind == Kind::kPromptTooLong) {
        return refuse(prompt_too_long(param, n_prompt_tokens, false, served.context));
    }
    if (verdict.kind == Kind::kSumTooLong) {
        return refuse(sum_too_long(param, n_prompt_tokens, request.max_tokens, served.context));
    }
    return verdict.max_tokens;
}

http::Reply refuse_generation(Services& services,
                              metrics::Endpoint endpoint,
                              const ApiError& error) {
    const bool busy = error.status == 429 || error.status == 503;
    services.request_metrics.count(endpoint,
                                   error.status >= 500 && !busy ? Outcome::kError
                                   : busy                       ? Outcome::kRejected
                                                                : Outcome::kInvalid);
    return error_reply(error);
}

http::Task<http::Reply> generate(Services& services,
                                 http::Connection& connection,
                                 Generation generation) {
    const std::size_t n_jobs =
        generation.prompts.size() * static_cast<std::size_t>(generation.request.n);
    if (n_jobs > services.admission.depth()) {
        // Not a 429: trying again would never help.
        co_return refuse_generation(
            services,
            generation.endpoint,
            invalid_value("n",
                          fmt::format("at most {} replies at a time, over all prompts.",
                                      services.admission.depth()),
                          "integer_above_max_value"));
    }
    const std::shared_ptr<TokenStream> stream =
        TokenStream::create(static_cast<int>(n_jobs), services.admission.stream_bytes_max());
    const CancelOnExit cancel_on_exit(*stream);
    const Status admitted = services.admission.submit(make_jobs(services, generation, *stream));
    if (!admitted) {
        co_return refuse_generation(services, generation.endpoint, from_error(admitted.error()));
    }
    connection.on_cancel([stream] {
        stream->cancel({ErrorCode::kCancelled, "The server is stopping."});
    });
    Answer answer;
    if (generation.request.stream) {
        answer = co_await stream_out(stream, generation, connection, services.sse_comments);
    } else {
        answer = co_await collect(stream, generation);
    }
    services.request_metrics.count(generation.endpoint, answer.outcome);
    co_return std::move(answer.reply);
}

}  // namespace ballast::api
