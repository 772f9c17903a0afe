// SPDX-License-Identifier: MIT
// Finds the model's catalog and the machine's profile, and checks every figure.
#include "server/cli/plan_question.h"

#include <charconv>
#include <filesystem>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "config/load.h"
#include "engine/gguf/reader.h"
#include "engine/model/tensor_catalog.h"
#include "engine/runtime/compute.h"
#include "scheduler/profile/model_store.h"
#include "scheduler/profile/profile_store.h"
#include "server/cli/read_text.h"
#include "server/cli/report.h"

namespace ballast::cli {

namespace {

constexpr std::size_t kTextFileBytesMax = 1U << 20U;
constexpr double kGiga = 1e9;
constexpr double kFigureMax = 1e6;

bool exists(const std::string& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
}

Result<std::string> read_description(const std::string& path) {
    auto text = read_text_file(path, kTextFileBytesMax);
    if (!text && text.error().code == ErrorCode::kTooLarge) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("{} has more than 1 MiB and so is no description.", path));
    }
    if (!text || text->empty()) {
        return fail(ErrorCode::kIo, fmt::format("Cannot read {}.", path));
    }
    return text;
}

/// A GGUF file's catalog, a JSON file's, or that of a stored shape.
Result<scheduler::TensorCatalog> find_model(const std::string& model) {
    if (exists(model)) {
        if (std::filesystem::path(model).extension() == ".json") {
            BALLAST_TRY(const std::string text, read_description(model));
            BALLAST_TRY(const scheduler::ModelShape shape, scheduler::parse_model(text, model));
            return scheduler::catalog_of(shape, "");
        }
        BALLAST_TRY(const auto reader, gguf::Reader::open(model));
        return model::catalog_of(*reader);
    }
    const std::size_t colon = model.find(':');
    const std::string name = model.substr(0, colon);
    const auto shape = scheduler::stored_model(name);
    if (!shape) {
        return fail(ErrorCode::kNotFound,
                    fmt::format("{} is neither a file nor a shape. {}",
                                printable(model, 256),
                                shape.error().message));
    }
    return scheduler::catalog_of(*shape, colon == std::string::npos ? "" : model.substr(colon + 1));
}

/// What `ballast profile` has stored for this machine.
Result<scheduler::HardwareProfile> own_profile(const config::Environment& environment) {
    BALLAST_TRY(const config::Loaded settings, config::load({"", environment, {}}));
    BALLAST_TRY(
        runtime::StoredProfile stored,
        runtime::stored_profile(settings.config.engine, config::profile_folder(environment)));
    if (!stored.profile) {
        return fail(ErrorCode::kNotFound,
                    fmt::format("This machine has no profile yet ({}); run `ballast profile`, or "
                                "name a machine with --hardware (`ballast plan --list`).",
                                stored.reason));
    }
    return std::move(*stored.profile);
}

Result<scheduler::HardwareProfile> find_hardware(const PlanArgs& args,
                                                 const config::Environment& environment) {
    if (args.hardware.empty()) {
        return own_profile(environment);
    }
    if (exists(args.hardware)) {
        BALLAST_TRY(const std::string text, read_description(args.hardware));
        return scheduler::parse_hardware(text, args.hardware);
    }
    return scheduler::stored_hardware(args.hardware);
}

Result<double> weight(std::string_view text, const std::string& mix) {
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0.0) ||
        value > kFigureMax) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("--mix is \"{}\", but must be PREFILL:DECODE, two numbers from 0 "
                                "to 1000000 such as 4:1.",
                                printable(mix, 64)));
    }
    return value;
}

Status set_mix(const std::string& mix, scheduler::PlanQuestion& question) {
    const std::size_t colon = mix.find(':');
    const std::string_view text = mix;
    BALLAST_TRY(question.prefill_weight, weight(text.substr(0, colon), mix));
    BALLAST_TRY(question.decode_weight,
                weight(colon == std::string::npos ? "" : text.substr(colon + 1), mix));
    if (question.prefill_weight + question.decode_weight <= 0.0) {
        return fail(ErrorCode::kInvalidRequest, "--mix is 0:0; one of the two must be above 0.");
    }
    return {};
}

Result<scheduler::Locality> locality_of(const std::string& name) {
    if (name == "uniform") {
        return scheduler::Locality::kUniform;
    }
    if (name == "weak") {
        return scheduler::Locality::kWeak;
    }
    if (name == "strong") {
        return scheduler::Locality::kStrong;
    }
    return fail(ErrorCode::kInvalidRequest,
                fmt::format("--locality is \"{}\"; possible are uniform, weak and strong.",
                            printable(name, 64)));
}

Status set_context(const PlanArgs& args, scheduler::PlanQuestion& question) {
    constexpr int kContextMin = 4;
    const int trained = question.catalog->context_length;
    const int most = trained > 0 ? trained : std::numeric_limits<int>::max() / 2;
    if (args.context < kContextMin || args.context > most) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("--context is {}, but must be between {} and {}, for which {} was "
                                "trained.",
                                args.context,
                                kContextMin,
                                most,
                                printable(question.catalog->name, 80)));
    }
    question.context = args.context;
    return {};
}

Status override_figures(const PlanArgs& args, scheduler::PlanQuestion& question) {
    if (args.vram_budget) {
        question.device_budget_bytes = static_cast<double>(*args.vram_budget);
    }
    if (args.ram) {
        question.hardware.ram_gb = static_cast<double>(*args.ram) / kGiga;
    }
    if (args.link_gbps) {
        if (question.hardware.unified_memory || !question.hardware.has_device) {
            return fail(
                ErrorCode::kInvalidRequest,
                fmt::format("--link-gbps: {} has no link.", printable(question.hardware.name, 80)));
        }
        if (!(*args.link_gbps > 0.0) || *args.link_gbps > kFigureMax) {
            return fail(ErrorCode::kInvalidRequest,
                        fmt::format("--link-gbps is {}, but must be above 0 and at most {}.",
                                    *args.link_gbps,
                                    kFigureMax));
        }
        question.hardware.link_gbps = *args.link_gbps;
    }
    return {};
}

}  // namespace

Result<AskedPlan> ask_plan(const PlanArgs& args, const config::Environment& environment) {
    AskedPlan asked;
    BALLAST_TRY(scheduler::TensorCatalog catalog, find_model(args.model));
    asked.catalog = std::make_unique<const scheduler::TensorCatalog>(std::move(catalog));
    scheduler::PlanQuestion& question = asked.question;
    question.catalog = asked.catalog.get();
    BALLAST_TRY(question.hardware, find_hardware(args, environment));
    BALLAST_TRY(question.locality, locality_of(args.locality));
    BALLAST_TRY_STATUS(set_mix(args.mix, question));
    BALLAST_TRY_STATUS(set_context(args, question));
    BALLAST_TRY_STATUS(override_figures(args, question));
    return asked;
}

}  // namespace ballast::cli
