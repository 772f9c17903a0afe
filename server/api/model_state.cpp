// SPDX-License-Identifier: MIT
// The model's description and its hand-over to the io threads.
#include "server/api/model_state.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "engine/base/log.h"
#include "server/http/request.h"

namespace ballast::api {

bool ServedModel::answers_to(std::string_view name) const {
    return http::equal_ignoring_case(name, id) ||
           (!alias.empty() && http::equal_ignoring_case(name, alias));
}

void describe_vocabulary(ServedModel& served) {
    const tokenizer::Tokenizer& tokenizer = *served.tokenizer;
    std::vector<std::string> control;
    served.longest_piece_bytes = 1;
    for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
        const std::string_view piece = tokenizer.piece(id);
        served.longest_piece_bytes = std::max(served.longest_piece_bytes, piece.size());
        const tokenizer::TokenKind kind = tokenizer.kind(id);
        if (kind == tokenizer::TokenKind::kControl || kind == tokenizer::TokenKind::kUnknown) {
            control.emplace_back(piece);
        }
    }
    served.special_text = SpecialText(std::move(control));
}

ServedModel describe_model(const runtime::LoadedModel& loaded, ServedModelOptions options) {
    ServedModel served;
    served.id = loaded.id;
    served.alias = std::move(options.alias);
    served.created = options.created;
    served.tokenizer = loaded.tokenizer.get();
    served.chat_template = loaded.chat_template ? &*loaded.chat_template : nullptr;
    served.chat_template_error = loaded.chat_template_error;
    served.context = options.context;
    served.parallel = options.parallel;
    served.context_trained = loaded.model->config().context_length;
    served.architecture = loaded.model->config().architecture;
    const gguf::Reader* reader = loaded.reader.get();
    served.size_bytes = reader->file().identity().size_bytes;
    // The path is for the log, once; clients are told without it.
    served.check_file = [reader, logged = std::make_shared<std::atomic<bool>>(false)] {
        Status unchanged = reader->file().check_unchanged();
        if (!unchanged && !logged->exchange(true)) {
            log_error("{}: {}", reader->file().path(), unchanged.error().message);
        }
        return unchanged;
    };
    served.engine_failure = std::move(options.engine_failure);
    served.placement = std::move(options.placement);
    describe_vocabulary(served);
    return served;
}

void ModelState::set_ready(ServedModel served) {
    auto model = std::make_shared<const ServedModel>(std::move(served));
    const std::lock_guard lock(mutex_);
    phase_ = Phase::kReady;
    model_ = std::move(model);
}

void ModelState::set_failed(std::string message) {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::kFailed;
    model_ = nullptr;
    message_ = std::move(message);
}

ModelState::Phase ModelState::phase() const {
    const std::lock_guard lock(mutex_);
    return phase_;
}

std::shared_ptr<const ServedModel> ModelState::model() const {
    const std::lock_guard lock(mutex_);
    return model_;
}

std::string ModelState::message() const {
    const std::lock_guard lock(mutex_);
    return message_;
}

}  // namespace ballast::api
