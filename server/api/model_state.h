// SPDX-License-Identifier: MIT
// Which model the API serves, and whether it can yet: the server listens before the model is
// loaded and answers 503 until then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/chat/chat_template.h"
#include "engine/runtime/load_report.h"
#include "engine/runtime/loaded_model.h"
#include "engine/tokenizer/tokenizer.h"
#include "scheduler/tensor_scheduler.h"
#include "server/api/special_text.h"

namespace ballast::api {

/// Where a model's tensors are and what the scheduler says of it. What is pointed to outlives the
/// HTTP server.
struct ServedPlacement {
    const scheduler::TensorCatalog* catalog = nullptr;
    /// With what is where; asked from the thread that answers.
    std::function<runtime::LoadReport()> load;
    std::function<std::vector<runtime::PlacedBytes>()> bytes;
    std::function<scheduler::SchedulerState()> state;
};

/// What handlers need of a loaded model. Borrows its parts, which outlive the HTTP server.
struct ServedModel {
    std::string id;
    std::string alias;         // may be empty
    std::int64_t created = 0;  // Unix seconds when it was loaded
    const tokenizer::Tokenizer* tokenizer = nullptr;
    const chat::ChatTemplate* chat_template = nullptr;  // null: chat is refused
    std::string chat_template_error;                    // why the file's own cannot be used
    int context = 0;                                    // tokens of one request
    int parallel = 1;
    int context_trained = 0;
    std::string architecture;
    std::uint64_t size_bytes = 0;
    std::size_t longest_piece_bytes = 1;          // of the vocabulary
    SpecialText special_text;                     // control tokens as text
    std::function<Status()> check_file;           // empty: nothing to check
    std::function<std::string()> engine_failure;  // empty, or why the engine cannot go on
    ServedPlacement placement;

    /// Whether the API's `model` field means this model; letters match in any case.
    bool answers_to(std::string_view name) const;
};

/// The parts that the engine does not say about itself.
struct ServedModelOptions {
    std::string alias;
    std::int64_t created = 0;
    int context = 0;   // Engine::context()
    int parallel = 1;  // Engine::parallel()
    std::function<std::string()> engine_failure;
    ServedPlacement placement;
};

/// Describes a loaded model; `loaded` outlives the result.
ServedModel describe_model(const runtime::LoadedModel& loaded, ServedModelOptions options);

/// Fills in what is derived from the vocabulary.
void describe_vocabulary(ServedModel& served);

/// Set by the daemon's thread, read by io threads.
class ModelState {
  public:
    enum class Phase { kLoading, kReady, kFailed };

    void set_ready(ServedModel served);
    /// The model cannot be served; the sentence goes to /health and to every request.
    void set_failed(std::string message);
    Phase phase() const;
    /// Null unless ready.
    std::shared_ptr<const ServedModel> model() const;
    /// Why it failed.
    std::string message() const;

  private:
    mutable std::mutex mutex_;
    Phase phase_ = Phase::kLoading;
    std::shared_ptr<const ServedModel> model_;
    std::string message_;
};

}  // namespace ballast::api
