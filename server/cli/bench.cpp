// SPDX-License-Identifier: MIT
// `ballast bench`: prefill and decode speed of a model on this machine, on fixed tokens.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "config/load.h"
#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/runtime/evaluator.h"
#include "engine/runtime/loaded_model.h"
#include "server/cli/commands.h"
#include "server/cli/report.h"
#include "server/cli/trace_file.h"

namespace ballast::cli {

namespace {

constexpr int kRunsMax = 100;

/// Tokens per second of each repetition.
struct Speeds {
    std::vector<double> prefill;
    std::vector<double> decode;
};

double median(std::vector<double> values) {
    if (values.empty()) {
        return 0.0;
    }
    std::sort(values.begin(), values.end());
    const std::size_t upper = values.size() / 2;
    return values.size() % 2 == 1 ? values[upper] : (values[upper - 1] + values[upper]) / 2.0;
}

double rate(int n_tokens, Nanoseconds duration) {
    return n_tokens / to_seconds(duration);
}

/// The largest resident set of the process so far, in bytes.
std::uint64_t peak_memory_bytes() {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

Status check(const BenchArgs& args, int context) {
    if (args.prefill_tokens < 1 || args.decode_tokens < 1 || args.runs < 1 ||
        args.runs > kRunsMax) {
        return fail(
            ErrorCode::kInvalidRequest,
            fmt::format("--prefill and --decode must be at least 1, --runs between 1 and {}.",
                        kRunsMax));
    }
    if (args.prefill_tokens > context - args.decode_tokens) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("--prefill and --decode together exceed the model's context of {}.",
                                context));
    }
    return {};
}

Result<Speeds> measure(runtime::Evaluator& evaluator, const BenchArgs& args, int vocabulary) {
    const SystemClock clock;
    Rng rng(1);
    std::vector<TokenId> prompt;
    prompt.reserve(static_cast<std::size_t>(args.prefill_tokens));
    for (int i = 0; i < args.prefill_tokens; ++i) {
        prompt.push_back(static_cast<TokenId>(rng.below(static_cast<std::uint64_t>(vocabulary))));
    }
    Speeds speeds;
    // The first repetition reads the file into memory and does not count.
    for (int run = 0; run <= args.runs; ++run) {
        evaluator.reset(0);
        const auto ignore = [](int, std::int64_t, std::span<const float>) {};
        const Nanoseconds begin = clock.now();
        BALLAST_TRY_STATUS(
            evaluator.feed(0, prompt, ArithmeticClass::kPrefill, runtime::Wanted::kLast, ignore));
        const Nanoseconds middle = clock.now();
        for (int i = 0; i < args.decode_tokens; ++i) {
            const TokenId id = prompt[static_cast<std::size_t>(i) % prompt.size()];
            BALLAST_TRY_STATUS(evaluator.feed_decode({&id, 1}, ignore));
        }
        const Nanoseconds end = clock.now();
        if (run > 0) {
            speeds.prefill.push_back(rate(args.prefill_tokens, middle - begin));
            speeds.decode.push_back(rate(args.decode_tokens, end - middle));
        }
    }
    return speeds;
}

/// One more prompt and a few tokens after it, which do not count.
Status save_trace(runtime::Evaluator& evaluator, const BenchArgs& args) {
    constexpr int kTracedTokens = 4;
    runtime::LaneLog& log = evaluator.compute().lane_log();
    const auto ignore = [](int, std::int64_t, std::span<const float>) {};
    const std::vector<TokenId> prompt(static_cast<std::size_t>(args.prefill_tokens), 1);
    log.keep_spans();
    evaluator.reset(0);
    BALLAST_TRY_STATUS(
        evaluator.feed(0, prompt, ArithmeticClass::kPrefill, runtime::Wanted::kLast, ignore));
    for (int i = 0; i < std::min(kTracedTokens, args.decode_tokens); ++i) {
        BALLAST_TRY_STATUS(evaluator.feed_decode(std::span(prompt).first(1), ignore));
    }
    const scheduler::TensorCatalog& catalog = evaluator.compute().catalog();
    return write_trace(args.trace_file, engine_trace(catalog, log.spans(), catalog.name));
}

void print_result(const BenchArgs& args, const Speeds& speeds, runtime::Compute& compute) {
    const int n_threads = compute.pool().size();
    const char* isa = isa_name(compute.kernels().isa);
    if (args.json) {
        const nlohmann::ordered_json result = {
            {"prefill_tokens_per_second", median(speeds.prefill)},
            {"decode_tokens_per_second", median(speeds.decode)},
            {"prefill_tokens", args.prefill_tokens},
            {"decode_tokens", args.decode_tokens},
            {"runs", args.runs},
            {"threads", n_threads},
            {"kernels", isa},
            {"device", compute.device_summary()},
            {"peak_memory_bytes", peak_memory_bytes()}};
        fmt::print("{}\n", result.dump());
        return;
    }
    const auto line = [](const char* name, int n_tokens, const std::vector<double>& values) {
        const auto [low, high] = std::minmax_element(values.begin(), values.end());
        fmt::print("{:<8}{:>6} tokens {:>10.1f} tokens/s ({:.1f} to {:.1f})\n",
                   name,
                   n_tokens,
                   median(values),
                   *low,
                   *high);
    };
    line("prefill", args.prefill_tokens, speeds.prefill);
    line("decode", args.decode_tokens, speeds.decode);
    fmt::print("{} threads, {} kernels, peak memory {}\n",
               n_threads,
               isa,
               format_bytes(peak_memory_bytes()));
    if (const std::string device = compute.device_summary(); !device.empty()) {
        fmt::print("{}\n", device);
    }
}

Status run(const BenchArgs& args, const config::Environment& environment) {
    BALLAST_TRY(const config::Loaded settings, config::load({"", environment, args.overrides}));
    BALLAST_TRY(const runtime::LoadedModel loaded, runtime::load_model(args.model, ""));
    BALLAST_TRY_STATUS(check(args, loaded.model->config().context_length));
    BALLAST_TRY(
        auto evaluator,
        runtime::Evaluator::create(
            *loaded.model, settings.config.engine, 1, args.prefill_tokens + args.decode_tokens));
    BALLAST_TRY(const Speeds speeds, measure(*evaluator, args, loaded.model->config().vocabulary));
    if (loaded.reader->file().failed()) {
        return fail(ErrorCode::kIo, fmt::format("{} was cut while it was read.", args.model));
    }
    if (!args.trace_file.empty()) {
        BALLAST_TRY_STATUS(save_trace(*evaluator, args));
    }
    print_result(args, speeds, evaluator->compute());
    return {};
}

}  // namespace

int bench(const BenchArgs& args, const config::Environment& environment) {
    const Status status = run(args, environment);
    return status ? kExitSuccess : report(status.error());
}

}  // namespace ballast::cli
