// SPDX-License-Identifier: MIT
// What the engine did: latencies, tokens, running sequences, KV blocks, step times.
#pragma once

#include <memory>

#include "engine/runtime/ports.h"
#include "server/metrics/registry.h"

namespace ballast::metrics {

/// Called on the engine thread; every call is short and waits for no reader.
class EngineMetrics final : public runtime::EngineObserver {
  public:
    explicit EngineMetrics(Registry& registry);
    ~EngineMetrics() override;
    void on_step(int n_prefill_tokens, int n_decode_tokens, Nanoseconds duration) override;
    void on_job_started(Nanoseconds queued) override;
    void on_first_token(Nanoseconds since_created) override;
    void on_inter_token(Nanoseconds since_last) override;
    void on_job_ended(const char* outcome, const runtime::JobStats& stats) override;
    void on_load(int n_running, int kv_blocks_used, int kv_blocks_total) override;

  private:
    struct Families;
    std::unique_ptr<Families> families_;
};

}  // namespace ballast::metrics
