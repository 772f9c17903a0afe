// SPDX-License-Identifier: MIT
// Everything that comes out of one model file, loaded and checked: the entry point for the server
// and for the command line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/base/result.h"
#include "engine/chat/chat_template.h"
#include "engine/gguf/reader.h"
#include "engine/model/model.h"
#include "engine/tokenizer/tokenizer.h"

namespace ballast::runtime {

/// The parts of one model. Immutable; the reader owns the mapping that the model's weights view,
/// so it comes first and goes last.
struct LoadedModel {
    std::unique_ptr<gguf::Reader> reader;
    std::unique_ptr<tokenizer::Tokenizer> tokenizer;
    std::unique_ptr<model::Model> model;
    /// Absent where the file has none and none was given.
    std::optional<chat::ChatTemplate> chat_template;
    std::string chat_template_origin;  // for the log: "the model file" or a path
    /// Why the file's own template cannot be used, if it has one that does not parse.
    std::string chat_template_error;
    std::string id;  // how the API names it: the file's name without .gguf
};

/// Opens a model file. chat_template_file, if not empty, replaces the file's own template; then a
/// template that does not parse is an error, while one inside the model file is only noted.
/// Errors: one sentence naming the path and the key or tensor at fault.
Result<LoadedModel> load_model(const std::string& path, const std::string& chat_template_file);

}  // namespace ballast::runtime
