// SPDX-License-Identifier: MIT
// What the runtime's tests share: a tiny model on disk, and an engine that runs it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/runtime/engine.h"
#include "engine/runtime/loaded_model.h"
#include "engine/runtime/ports.h"
#include "tests/engine/runtime/recording.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ballast::test {

/// A tiny model, written and loaded.
class TinyFixture {
  public:
    explicit TinyFixture(const TinyModelOptions& options = {}) : path_(dir_.path() + "/tiny.gguf") {
        tiny_model(options).write(path_);
        auto loaded = runtime::load_model(path_, "");
        EXPECT_TRUE(loaded.has_value()) << loaded.error().message;
        model_.emplace(std::move(*loaded));
    }
    const runtime::LoadedModel& model() const { return *model_; }
    const std::string& path() const { return path_; }

  private:
    TempDir dir_;
    std::string path_;
    std::optional<runtime::LoadedModel> model_;
};

/// A running engine over one model.
struct Running {
    Running(const runtime::LoadedModel& model,
            const runtime::EngineOptions& options,
            runtime::EngineParts parts = {}) {
        auto created =
            runtime::Engine::create(model, options, source, observer, clock, std::move(parts));
        EXPECT_TRUE(created.has_value()) << created.error().message;
        engine = std::move(*created);
        engine->start();
    }
    ~Running() {
        source.close();
        engine->stop();
    }

    std::shared_ptr<RecordingSink> submit(runtime::Job job) {
        auto sink = std::make_shared<RecordingSink>();
        submit_to(std::move(job), sink);
        return sink;
    }
    void submit_to(runtime::Job job, std::shared_ptr<runtime::TokenSink> sink) {
        job.sink = std::move(sink);
        job.created = clock.now();
        source.push(std::make_shared<runtime::Job>(std::move(job)));
    }

    SystemClock clock;
    ListSource source;
    CountingObserver observer;
    std::unique_ptr<runtime::Engine> engine;
};

inline runtime::Job make_job(std::vector<TokenId> prompt, int max_tokens, std::uint64_t seed = 7) {
    runtime::Job job;
    job.prompt = std::move(prompt);
    job.max_tokens = max_tokens;
    job.sampling.seed = seed;
    job.sampling.top_logprobs = 5;
    job.ignore_eos = true;
    return job;
}

}  // namespace ballast::test
