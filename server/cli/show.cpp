// SPDX-License-Identifier: MIT
// `ballast show MODEL`: what a GGUF file holds, and whether this build can serve it.
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include <fmt/format.h>

#include "engine/chat/chat_template.h"
#include "engine/gguf/reader.h"
#include "engine/model/model.h"
#include "engine/model/model_config.h"
#include "engine/quant/type_traits.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/cli/commands.h"
#include "server/cli/report.h"

namespace ballast::cli {

namespace {

constexpr std::size_t kTextBytesMax = 60;
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

void line(std::string_view name, const std::string& text) {
    fmt::print("{:<15} {}\n", name, text);
}

/// One line for a metadata value: scalars as they are, arrays by their length.
std::string describe(const gguf::Value& value) {
    return std::visit(
        [](const auto& held) -> std::string {
            using T = std::decay_t<decltype(held)>;
            if constexpr (std::is_same_v<T, bool>) {
                return held ? "true" : "false";
            } else if constexpr (std::is_same_v<T, std::string_view>) {
                return held.size() > kTextBytesMax
                           ? fmt::format(
                                 "\"{}\" ({} bytes)", printable(held, kTextBytesMax), held.size())
                           : fmt::format("\"{}\"", printable(held, kTextBytesMax));
            } else if constexpr (std::is_arithmetic_v<T>) {
                return fmt::format("{}", held);
            } else if constexpr (std::is_same_v<T, std::vector<std::string_view>>) {
                return fmt::format("[{} texts]", held.size());
            } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
                return fmt::format("[{} booleans]", held.size());
            } else {
                return fmt::format("[{} numbers]", held.size());
            }
        },
        value);
}

void print_header(const gguf::Reader& reader) {
    line("File", printable(reader.file().path(), 4096));
    line("Size", format_bytes(reader.file().bytes().size()));
    line("Format", fmt::format("GGUF version {}", reader.version()));
    std::uint64_t parameters = 0;
    for (const gguf::TensorInfo& tensor : reader.tensors()) {
        parameters += tensor.n_elements();
    }
    line("Parameters", fmt::format("{:.1f} million", static_cast<double>(parameters) / 1e6));
}

void print_config(const model::ModelConfig& config) {
    line("Name", printable(config.name, kTextBytesMax));
    line("Architecture", printable(config.architecture, kTextBytesMax));
    line("Layers", fmt::format("{}", config.n_layers));
    line("Width", fmt::format("{}, feed-forward {}", config.width, config.ffn_width));
    line("Heads",
         fmt::format("{} of {}, {} for keys and values",
                     config.n_heads,
                     config.head_dim,
                     config.n_kv_heads));
    if (config.n_experts > 0) {
        line("Experts",
             fmt::format("{}, {} used per token", config.n_experts, config.n_experts_used));
    }
    line("Context", fmt::format("{} tokens", config.context_length));
    if (config.window > 0) {
        line("Window",
             fmt::format("{} tokens in {} of {} layers",
                         config.window,
                         config.window_period - 1,
                         config.window_period));
    }
}

std::string describe_token(const tokenizer::Tokenizer& tokenizer, TokenId id) {
    return id < 0 ? "none"
                  : fmt::format("{} \"{}\"", id, printable(tokenizer.piece(id), kTextBytesMax));
}

void print_tokenizer(const gguf::Metadata& metadata, const tokenizer::Tokenizer& tokenizer) {
    const std::string kind(metadata.string_or("tokenizer.ggml.model", "").value_or(""));
    const std::string pre(metadata.string_or("tokenizer.ggml.pre", "").value_or(""));
    line("Tokenizer",
         fmt::format("{}{}, {} tokens",
                     printable(kind, kTextBytesMax),
                     pre.empty() ? "" : " (" + printable(pre, kTextBytesMax) + ")",
                     tokenizer.vocabulary_size()));
    line("Begins with",
         describe_token(tokenizer, tokenizer.bos()) +
             (tokenizer.bos() >= 0 && !tokenizer.adds_bos() ? ", not added by itself" : ""));
    line("Ends with", describe_token(tokenizer, tokenizer.eos()));
}

void print_chat_template(const gguf::Metadata& metadata) {
    if (metadata.find(kTemplateKey) == nullptr) {
        line("Chat template", "none; chat needs `ballast serve --chat-template FILE`");
        return;
    }
    const auto source = metadata.string(kTemplateKey);
    if (!source) {
        line("Chat template", "unusable: " + printable(source.error().message, 200));
        return;
    }
    const auto parsed = chat::ChatTemplate::parse(*source);
    line("Chat template",
         parsed ? fmt::format("in the file, {} bytes", source->size())
                : "unusable: " + printable(parsed.error().message, 200));
}

void print_metadata(const gguf::Metadata& metadata) {
    fmt::print("\nMetadata ({})\n", metadata.pairs().size());
    for (const auto& [key, value] : metadata.pairs()) {
        fmt::print("  {:<45} {}\n", printable(key, kTextBytesMax), describe(value));
    }
}

void print_tensors(const gguf::Reader& reader) {
    struct Sum {
        std::uint64_t n_tensors = 0;
        std::uint64_t n_elements = 0;
        std::uint64_t bytes = 0;
    };
    std::map<std::string_view, Sum> by_type;
    Sum all;
    for (const gguf::TensorInfo& tensor : reader.tensors()) {
        Sum& sum = by_type[quant::traits(tensor.type).name];
        for (Sum* target : {&sum, &all}) {
            target->n_tensors += 1;
            target->n_elements += tensor.n_elements();
            target->bytes += tensor.size_bytes;
        }
    }
    fmt::print("\nTensors ({})\n", all.n_tensors);
    fmt::print("  {:<8} {:>8} {:>16} {:>12} {:>16}\n",
               "type",
               "tensors",
               "elements",
               "size",
               "bits per weight");
    for (const auto& [type, sum] : by_type) {
        fmt::print("  {:<8} {:>8} {:>16} {:>12} {:>16.2f}\n",
                   type,
                   sum.n_tensors,
                   sum.n_elements,
                   format_bytes(sum.bytes),
                   8.0 * static_cast<double>(sum.bytes) / static_cast<double>(sum.n_elements));
    }
}

/// Prints what the file has and returns why it cannot be served, if it cannot.
Status print_all(const gguf::Reader& reader) {
    const gguf::Metadata& metadata = reader.metadata();
    std::optional<Error> fault;
    const auto note = [&fault](const Error& error) {
        if (!fault) {
            fault = error;
        }
    };
    print_header(reader);
    if (const auto config = model::read_model_config(metadata)) {
        print_config(*config);
    } else {
        note(config.error());
    }
    if (const auto tokenizer = tokenizer::Tokenizer::load(metadata)) {
        print_tokenizer(metadata, **tokenizer);
    } else {
        note(tokenizer.error());
    }
    print_chat_template(metadata);
    print_metadata(metadata);
    print_tensors(reader);
    if (const auto loaded = model::load_model(reader); !loaded) {
        note(loaded.error());
    }
    if (fault) {
        return fail(
            fault->code,
            fmt::format("This build cannot serve {}: {}", reader.file().path(), fault->message));
    }
    return {};
}

}  // namespace

int show(const ShowArgs& args) {
    const auto reader = gguf::Reader::open(args.model);
    if (!reader) {
        return report(reader.error());
    }
    if (const Status status = print_all(**reader); !status) {
        std::fflush(stdout);
        return report(status.error());
    }
    return kExitSuccess;
}

}  // namespace ballast::cli
