// SPDX-License-Identifier: MIT
// `ballast eval`: a text's perplexity, or the logits after given ids, in either arithmetic class.
// For comparing with other engines; the figure asked for is the last word printed.
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "config/load.h"
#include "engine/runtime/evaluator.h"
#include "engine/runtime/loaded_model.h"
#include "server/cli/commands.h"
#include "server/cli/read_text.h"
#include "server/cli/report.h"

namespace ballast::cli {

namespace {

// More text than anyone scores; it is held in memory.
constexpr std::size_t kTextBytesMax = 256U << 20;

static_assert(std::endian::native == std::endian::little, "the .npy header says little-endian");

Result<ArithmeticClass> parse_class(const std::string& name) {
    if (name == "prefill") {
        return ArithmeticClass::kPrefill;
    }
    if (name == "decode") {
        return ArithmeticClass::kDecode;
    }
    return fail(ErrorCode::kInvalidRequest,
                fmt::format("--class is '{}'; possible are prefill and decode.", name));
}

/// "1,2,3"; each must be an id of the vocabulary.
Result<std::vector<TokenId>> parse_ids(const std::string& text, int vocabulary) {
    std::vector<TokenId> ids;
    const char* const end = text.data() + text.size();
    for (const char* at = text.data();; ++at) {
        TokenId id = 0;
        const auto [rest, error] = std::from_chars(at, end, id);
        if (error != std::errc() || (rest != end && *rest != ',')) {
            return fail(ErrorCode::kInvalidRequest,
                        fmt::format("--ids takes whole numbers separated by commas, as in 1,2,3; "
                                    "number {} is not one.",
                                    ids.size() + 1));
        }
        if (id < 0 || id >= vocabulary) {
            return fail(
                ErrorCode::kInvalidRequest,
                fmt::format("--ids: {} is not an id of this vocabulary of {}.", id, vocabulary));
        }
        ids.push_back(id);
        at = rest;
        if (at == end) {
            return ids;
        }
    }
}

/// Writes rows of float32 in numpy's format 1.0
/// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
class NpyWriter {
  public:
    NpyWriter(const std::string& path, std::size_t n_rows, std::size_t n_columns)
        : path_(path), out_(path, std::ios::binary) {
        std::string header = fmt::format(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", n_rows, n_columns);
        // Magic, version and length take 10 bytes; the data begins at a multiple of 64.
        header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
        header += '\n';
        const auto length = static_cast<std::uint16_t>(header.size());
        out_ << "\x93NUMPY" << '\x01' << '\x00';
        out_ << static_cast<char>(length & 0xFF) << static_cast<char>(length >> 8) << header;
    }
    void add(std::span<const float> row) {
        const std::span<const std::byte> bytes = std::as_bytes(row);
        out_.write(static_cast<const char*>(static_cast<const void*>(bytes.data())),
                   static_cast<std::streamsize>(bytes.size()));
    }
    Status close() {
        errno = 0;
        out_.close();
        if (!out_) {
            return fail(ErrorCode::kIo,
                        errno == 0
                            ? fmt::format("Cannot write {}.", path_)
                            : fmt::format("Cannot write {}: {}.", path_, std::strerror(errno)));
        }
        return {};
    }

  private:
    std::string path_;
    std::ofstream out_;
};

Status write_logits(const EvalArgs& args,
                    const runtime::EngineOptions& engine,
                    const runtime::LoadedModel& loaded,
                    ArithmeticClass arithmetic) {
    const int vocabulary = loaded.model->config().vocabulary;
    BALLAST_TRY(const std::vector<TokenId> ids, parse_ids(args.ids, vocabulary));
    const int n_ids = static_cast<int>(ids.size());
    if (n_ids > loaded.model->config().context_length) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("--ids has {} ids, but the model's context is {}.",
                                n_ids,
                                loaded.model->config().context_length));
    }
    BALLAST_TRY(auto evaluator, runtime::Evaluator::create(*loaded.model, engine, 1, n_ids));
    const std::size_t n_rows = args.last_only ? 1 : ids.size();
    NpyWriter writer(args.logits_file, n_rows, static_cast<std::size_t>(vocabulary));
    const auto wanted = args.last_only ? runtime::Wanted::kLast : runtime::Wanted::kAll;
    BALLAST_TRY_STATUS(evaluator->feed(
        0, ids, arithmetic, wanted, [&](int, std::int64_t, std::span<const float> logits) {
            writer.add(logits);
        }));
    return writer.close();
}

Status run(const EvalArgs& args, const config::Environment& environment) {
    BALLAST_TRY(const ArithmeticClass arithmetic, parse_class(args.arithmetic));
    BALLAST_TRY(const config::Loaded settings, config::load({"", environment, args.overrides}));
    BALLAST_TRY(const runtime::LoadedModel loaded, runtime::load_model(args.model, ""));
    if (!args.ids.empty()) {
        return write_logits(args, settings.config.engine, loaded, arithmetic);
    }
    BALLAST_TRY(const std::string text, read_text_file(args.perplexity_file, kTextBytesMax));
    const auto show_progress = [](int chunk, double running) {
        fmt::print("chunk {} running perplexity {:.4f}\n", chunk + 1, running);
        std::fflush(stdout);
    };
    BALLAST_TRY(const double perplexity,
                runtime::perplexity(
                    loaded,
                    settings.config.engine,
                    text,
                    {.context = args.context, .chunks = args.chunks, .arithmetic = arithmetic},
                    show_progress));
    if (loaded.reader->file().failed()) {
        return fail(ErrorCode::kIo, fmt::format("{} was cut while it was read.", args.model));
    }
    fmt::print("perplexity {:.4f}\n", perplexity);
    return {};
}

}  // namespace

int eval(const EvalArgs& args, const config::Environment& environment) {
    const Status status = run(args, environment);
    return status ? kExitSuccess : report(status.error());
}

}  // namespace ballast::cli
