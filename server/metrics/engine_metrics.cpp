// SPDX-License-Identifier: MIT
// Families of the engine; each call updates them in place.
#include "server/metrics/engine_metrics.h"

#include "server/metrics/families.h"

namespace ballast::metrics {

struct EngineMetrics::Families {
    explicit Families(prometheus::Registry& registry)
        : first_token(add_histogram(registry,
                                    "ballast_time_to_first_token_seconds",
                                    "Time from a job's creation to its first token.",
                                    first_token_edges())),
          inter_token(add_histogram(registry,
                                    "ballast_inter_token_seconds",
                                    "Time between two tokens of one sequence.",
                                    inter_token_edges())),
          queued(add_histogram(registry,
                               "ballast_queue_seconds",
                               "Time a job waited for the engine.",
                               queue_edges())),
          step(add_histogram(
              registry, "ballast_step_seconds", "Duration of one forward pass.", step_edges())),
          prompt_length(add_histogram(registry,
                                      "ballast_job_prompt_tokens",
                                      "Prompt tokens of one finished job.",
                                      token_count_edges())),
          reply_length(add_histogram(registry,
                                     "ballast_job_generated_tokens",
                                     "Generated tokens of one finished job.",
                                     token_count_edges())),
          prompt_tokens(add_counter(
              registry, "ballast_prompt_tokens_total", "Prompt tokens run through the model.")),
          generated_tokens(
              add_counter(registry, "ballast_generated_tokens_total", "Tokens generated.")),
          cached_tokens(add_counter(registry,
                                    "ballast_prompt_tokens_cached_total",
                                    "Prompt tokens that were not run again.")),
          running(
              add_gauge(registry, "ballast_running_sequences", "Sequences the engine works on.")),
          kv_used(add_gauge(registry, "ballast_kv_blocks_used", "KV cache blocks in use.")),
          kv_total(add_gauge(registry, "ballast_kv_blocks", "KV cache blocks there are.")) {
        auto& family = prometheus::BuildCounter()
                           .Name("ballast_jobs_total")
                           .Help("Sequences by how they ended.")
                           .Register(registry);
        for (const char* outcome : {"stop", "length", "cancelled", "error"}) {
            family.Add({{"outcome", outcome}});
        }
        jobs = &family;
    }

    Histogram& first_token;
    Histogram& inter_token;
    Histogram& queued;
    Histogram& step;
    Histogram& prompt_length;
    Histogram& reply_length;
    Counter& prompt_tokens;
    Counter& generated_tokens;
    Counter& cached_tokens;
    Gauge& running;
    Gauge& kv_used;
    Gauge& kv_total;
    prometheus::Family<Counter>* jobs = nullptr;
};

EngineMetrics::EngineMetrics(Registry& registry)
    : families_(std::make_unique<Families>(registry.families())) {}

EngineMetrics::~EngineMetrics() = default;

void EngineMetrics::on_step(int n_prefill_tokens, int n_decode_tokens, Nanoseconds duration) {
    families_->step.Observe(to_seconds(duration));
    families_->prompt_tokens.Increment(n_prefill_tokens);
    static_cast<void>(n_decode_tokens);  // counted when a token has been chosen
}

void EngineMetrics::on_job_started(Nanoseconds queued) {
    families_->queued.Observe(to_seconds(queued));
}

void EngineMetrics::on_first_token(Nanoseconds since_created) {
    families_->first_token.Observe(to_seconds(since_created));
    families_->generated_tokens.Increment();
}

void EngineMetrics::on_inter_token(Nanoseconds since_last) {
    families_->inter_token.Observe(to_seconds(since_last));
    families_->generated_tokens.Increment();
}

void EngineMetrics::on_job_ended(const char* outcome, const runtime::JobStats& stats) {
    families_->jobs->Add({{"outcome", outcome}}).Increment();
    families_->prompt_length.Observe(stats.prompt_tokens);
    families_->reply_length.Observe(stats.completion_tokens);
    families_->cached_tokens.Increment(stats.cached_prompt_tokens);
}

void EngineMetrics::on_load(int n_running, int kv_blocks_used, int kv_blocks_total) {
    families_->running.Set(n_running);
    families_->kv_used.Set(kv_blocks_used);
    families_->kv_total.Set(kv_blocks_total);
}

}  // namespace ballast::metrics
