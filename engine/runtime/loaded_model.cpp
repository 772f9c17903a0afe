// SPDX-License-Identifier: MIT
// Opens the file, then builds tokenizer, model and chat template from it, in that order, so that a
// broken file is named by its first fault.
#include "engine/runtime/loaded_model.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

namespace ballast::runtime {

namespace {

// Templates in use have at most 20 KiB.
constexpr std::uintmax_t kTemplateBytesMax = 1 << 20;

Result<std::string> read_template_file(const std::string& path) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (error) {
        return fail(ErrorCode::kNotFound,
                    fmt::format("cannot read the chat template {}: {}", path, error.message()));
    }
    if (size > kTemplateBytesMax) {
        return fail(ErrorCode::kTooLarge,
                    fmt::format("the chat template {} has {} bytes; {} are allowed",
                                path,
                                size,
                                kTemplateBytesMax));
    }
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        return fail(ErrorCode::kIo,
                    fmt::format("cannot read the chat template {}: permission denied", path));
    }
    return std::string(std::istreambuf_iterator<char>(in), {});
}

Status load_chat_template(LoadedModel& loaded, const std::string& chat_template_file) {
    if (!chat_template_file.empty()) {
        BALLAST_TRY(const std::string source, read_template_file(chat_template_file));
        auto parsed = chat::ChatTemplate::parse(source);
        if (!parsed) {
            return fail_with_context("chat template " + chat_template_file, parsed.error());
        }
        loaded.chat_template = std::move(*parsed);
        loaded.chat_template_origin = chat_template_file;
        return {};
    }
    BALLAST_TRY(const std::string_view source,
                loaded.reader->metadata().string_or("tokenizer.chat_template", ""));
    if (source.empty()) {
        return {};
    }
    auto parsed = chat::ChatTemplate::parse(source);
    if (parsed) {
        loaded.chat_template = std::move(*parsed);
        loaded.chat_template_origin = "the model file";
    } else {
        loaded.chat_template_error = parsed.error().message;
    }
    return {};
}

}  // namespace

Result<LoadedModel> load_model(const std::string& path, const std::string& chat_template_file) {
    LoadedModel loaded;
    BALLAST_TRY(loaded.reader, gguf::Reader::open(path));
    auto model = model::load_model(*loaded.reader);
    if (!model) {
        return fail_with_context(path, model.error());
    }
    loaded.model = std::move(*model);
    auto tokenizer = tokenizer::Tokenizer::load(loaded.reader->metadata());
    if (!tokenizer) {
        return fail_with_context(path, tokenizer.error());
    }
    loaded.tokenizer = std::move(*tokenizer);
    BALLAST_TRY_STATUS(load_chat_template(loaded, chat_template_file));
    std::string id = std::filesystem::path(path).filename().string();
    if (id.ends_with(".gguf") && id.size() > 5) {
        id.resize(id.size() - 5);
    }
    loaded.id = std::move(id);
    return loaded;
}

}  // namespace ballast::runtime
