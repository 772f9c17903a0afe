// SPDX-License-Identifier: MIT
// The command line's grammar. The only user of CLI11, which is slow to compile. CLI11 collects
// what it does not know instead of refusing it, so that the messages here can name the near ones.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "config/keys.h"
#include "config/nearest.h"
#include "engine/base/byte_size.h"
#include "server/cli/invocation.h"
#include "server/cli/version.h"

namespace ballast::cli {

namespace {

/// One subcommand: its grammar, and what makes an Invocation of the values it collected.
struct Command {
    CLI::App* app = nullptr;
    std::function<Result<Invocation>()> finish;
};

tl::unexpected<Error> usage(std::string message) {
    return fail(ErrorCode::kInvalidRequest, std::move(message));
}

/// "ballast config show" for the subcommand of that name.
std::string full_name(const CLI::App& app) {
    const CLI::App* parent = app.get_parent();
    return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

tl::unexpected<Error> missing(const CLI::App& app, std::string_view what) {
    return usage(fmt::format("{0} needs {1}; `{0} --help` explains.", full_name(app), what));
}

void add_config_option(CLI::App& app, std::string& file) {
    app.add_option("--config", file, "Read this configuration file instead of searching for one.")
        ->type_name("FILE");
}

/// An option for each setting that has a flag (only those named, unless the list is empty).
void add_setting_options(CLI::App& app,
                         std::vector<config::Override>& overrides,
                         const std::vector<std::string>& only = {}) {
    const config::Config defaults;
    for (const config::Key& key : config::keys()) {
        const std::string flag(key.flag);
        const std::string name = config::full_name(key);
        if (flag.empty() ||
            (!only.empty() && std::find(only.begin(), only.end(), flag) == only.end())) {
            continue;
        }
        const std::string doc =
            fmt::format("{} Default: {}.", key.doc, config::format_value(defaults, key));
        app.add_option_function<std::string>(
               flag,
               [&overrides, name, flag](const std::string& text) {
                   overrides.push_back({name, text, flag});
               },
               doc)
            ->type_name(key.is_path ? "FILE" : "VALUE");
    }
}

Command add_serve(CLI::App& root) {
    struct Values {
        std::string model;
        ServeArgs args;
    };
    auto values = std::make_shared<Values>();
    CLI::App* app = root.add_subcommand(
        "serve", "Serve a model over the OpenAI API until the process is told to stop.");
    app->add_option("MODEL", values->model, "A GGUF file; without it, [model] path is served.");
    add_config_option(*app, values->args.config_file);
    add_setting_options(*app, values->args.overrides);
    return {app, [values]() -> Result<Invocation> {
                if (!values->model.empty()) {
                    values->args.overrides.push_back({"model.path", values->model, "MODEL"});
                }
                return values->args;
            }};
}

Command add_show(CLI::App& root) {
    auto args = std::make_shared<ShowArgs>();
    CLI::App* app = root.add_subcommand("show", "Print what a model file holds.");
    app->add_option("MODEL", args->model, "A GGUF file.");
    return {app, [app, args]() -> Result<Invocation> {
                if (args->model.empty()) {
                    return missing(*app, "a model file");
                }
                return *args;
            }};
}

Command add_template(CLI::App& root) {
    auto args = std::make_shared<TemplateArgs>();
    CLI::App* app = root.add_subcommand(
        "template", "Render a chat template with the messages in a JSON object on standard input.");
    app->add_option("FILE", args->file, "A chat template in Jinja.");
    app->add_option(
           "--now", args->unix_seconds, "The time the template sees, in seconds since 1970 UTC.")
        ->type_name("SECONDS");
    return {app, [app, args]() -> Result<Invocation> {
                if (args->file.empty()) {
                    return missing(*app, "a template file");
                }
                return *args;
            }};
}

Command add_eval(CLI::App& root) {
    auto args = std::make_shared<EvalArgs>();
    CLI::App* app = root.add_subcommand(
        "eval", "Compute a text's perplexity, or the logits after given token ids.");
    app->add_option("MODEL", args->model, "A GGUF file.");
    app->add_option("--perplexity", args->perplexity_file, "The text to score.")->type_name("FILE");
    app->add_option("--context", args->context, "Ids of one window of the text. Default: 512.");
    app->add_option("--chunks", args->chunks, "Windows to score. Default: all.");
    app->add_option("--ids", args->ids, "Token ids, separated by commas.")->type_name("1,2,3");
    app->add_option("--logits", args->logits_file, "Where the logits go, in numpy's format.")
        ->type_name("OUT.npy");
    app->add_flag("--last", args->last_only, "Only the logits of the last position.");
    app->add_option("--class", args->arithmetic, "Arithmetic: prefill (the default) or decode.");
    add_setting_options(
        *app, args->overrides, {"--threads", "--kv-type", "--device", "--vram-budget"});
    return {app, [app, args]() -> Result<Invocation> {
                if (args->model.empty()) {
                    return missing(*app, "a model file");
                }
                if (args->perplexity_file.empty() == args->ids.empty()) {
                    return missing(*app, "either --perplexity FILE or --ids with --logits");
                }
                if (args->ids.empty() != args->logits_file.empty()) {
                    return missing(*app, "--ids and --logits together");
                }
                if (app->count("--chunks") != 0 && args->chunks < 1) {
                    return usage("--chunks must be at least 1.");
                }
                if (args->ids.empty() && args->last_only) {
                    return missing(*app, "--ids with --last");
                }
                if (!args->ids.empty() && (app->count("--chunks") + app->count("--context") != 0)) {
                    return missing(*app, "--perplexity with --chunks or --context");
                }
                return *args;
            }};
}

Command add_bench(CLI::App& root) {
    auto args = std::make_shared<BenchArgs>();
    CLI::App* app = root.add_subcommand("bench", "Measure how fast a model runs on this machine.");
    app->add_option("MODEL", args->model, "A GGUF file.");
    app->add_option("--prefill", args->prefill_tokens, "Prompt tokens. Default: 512.");
    app->add_option("--decode", args->decode_tokens, "Generated tokens. Default: 128.");
    app->add_option("--runs", args->runs, "Repetitions; the median counts. Default: 3.");
    app->add_option(
        "--save-trace",
        args->trace_file,
        "Write what each lane did in one prompt and four tokens, for chrome://tracing.");
    app->add_flag("--json", args->json, "Print one JSON object.");
    add_setting_options(*app,
                        args->overrides,
                        {"--threads", "--kv-type", "--device", "--vram-budget", "--divide-groups"});
    return {app, [app, args]() -> Result<Invocation> {
                if (args->model.empty()) {
                    return missing(*app, "a model file");
                }
                return *args;
            }};
}

/// The size that an option of this name was given, if it was.
Result<std::optional<std::uint64_t>> size_of(const CLI::App& app,
                                             const std::string& option,
                                             const std::string& text) {
    if (app.count(option) == 0) {
        return std::optional<std::uint64_t>();
    }
    const auto bytes = parse_byte_size(text);
    if (!bytes) {
        return usage(fmt::format("{}: {}", option, bytes.error().message));
    }
    return std::optional<std::uint64_t>(*bytes);
}

/// What `plan` and `simulate` have in common, and the texts that become figures.
struct PlanValues {
    std::string vram_budget;
    std::string ram;
    double link_gbps = 0.0;
};

void add_plan_options(CLI::App& app, PlanValues& values, PlanArgs& named) {
    app.add_option("--hardware", named.hardware, "A machine. Default: the profile of this one.")
        ->type_name("NAME|FILE");
    app.add_option("--vram-budget", values.vram_budget, "Most of the GPU's memory to use.")
        ->type_name("SIZE");
    app.add_option("--ram", values.ram, "RAM, in place of the profile's.")->type_name("SIZE");
    app.add_option("--link-gbps", values.link_gbps, "GB/s to the GPU, for the profile's.");
    app.add_option(
        "--context", named.context, "Tokens to reserve the KV cache for. Default: 4096.");
    app.add_option("--mix", named.mix, "Prompt tokens for each generated one. Default: 4:1.")
        ->type_name("PREFILL:DECODE");
    app.add_option("--locality",
                   named.locality,
                   "How often the same experts are asked for: uniform (the default), weak, "
                   "strong.");
    app.add_flag("--json", named.json, "Print one JSON object.");
}

Status read_plan_values(const CLI::App& app, const PlanValues& values, PlanArgs& args) {
    BALLAST_TRY(args.vram_budget, size_of(app, "--vram-budget", values.vram_budget));
    BALLAST_TRY(args.ram, size_of(app, "--ram", values.ram));
    if (app.count("--link-gbps") != 0) {
        args.link_gbps = values.link_gbps;
    }
    return {};
}

Command add_plan(CLI::App& root) {
    auto values = std::make_shared<PlanValues>();
    auto args = std::make_shared<PlanArgs>();
    CLI::App* app = root.add_subcommand(
        "plan", "Say how a model would run on a machine, and what the hardware allows.");
    app->add_option("MODEL", args->model, "A GGUF file, or a shape: NAME or NAME:QUANT.");
    app->add_flag("--list", args->list, "Print the machines and the shapes there are.");
    add_plan_options(*app, *values, *args);
    return {app, [app, values, args]() -> Result<Invocation> {
                if (args->model.empty() != args->list) {
                    return args->list ? usage("--list goes without a model.")
                                      : Result<Invocation>(missing(*app, "a model, or --list"));
                }
                BALLAST_TRY_STATUS(read_plan_values(*app, *values, *args));
                return *args;
            }};
}

Command add_simulate(CLI::App& root) {
    auto values = std::make_shared<PlanValues>();
    auto args = std::make_shared<SimulateArgs>();
    CLI::App* app = root.add_subcommand(
        "simulate", "Play a model's steps on a machine that need not be there, under each policy.");
    app->add_option("--model", args->asked.model, "A GGUF file, or a shape: NAME or NAME:QUANT.")
        ->type_name("MODEL");
    app->add_option("--policy", args->policy, "One policy's key, or all (the default).");
    app->add_option("--hops",
                    args->hops,
                    "Whether a side computes while it waits for the other: overlapped (the "
                    "default), blocking.");
    app->add_option("--save-trace",
                    args->trace_file,
                    "Where a trace of a few decode steps of one policy goes, for chrome://tracing.")
        ->type_name("FILE");
    app->add_option("--load-trace",
                    args->load_trace,
                    "What other programs take meanwhile, as samples in JSON lines; --policy is "
                    "then a rule of reaction.")
        ->type_name("FILE");
    app->add_option("--seed",
                    args->seed,
                    "Draw machine, model, faults and requests, and check what must always hold; "
                    "goes without --model.")
        ->type_name("N");
    add_plan_options(*app, *values, args->asked);
    return {app, [app, values, args]() -> Result<Invocation> {
                for (const auto& [name, value] : {std::pair{"--save-trace", &args->trace_file},
                                                  std::pair{"--load-trace", &args->load_trace}}) {
                    if (app->count(name) > 0 && value->empty()) {
                        return usage(fmt::format("{} needs the name of a file.", name));
                    }
                }
                if (args->seed) {
                    const bool alone = app->count_all() == (args->asked.json ? 3U : 2U);
                    return alone ? Result<Invocation>(*args)
                                 : usage("--seed draws all else; it goes with --json only.");
                }
                if (args->asked.model.empty()) {
                    return missing(*app, "--model");
                }
                BALLAST_TRY_STATUS(read_plan_values(*app, *values, args->asked));
                return *args;
            }};
}

Command add_profile(CLI::App& root) {
    auto args = std::make_shared<ProfileArgs>();
    CLI::App* app = root.add_subcommand(
        "profile", "Measure this machine for the planner (seconds), and keep the result.");
    app->add_option("MODEL", args->model, "A GGUF file whose weight types are measured.");
    app->add_option("--out", args->out, "Where a copy of the profile goes.")->type_name("FILE");
    app->add_flag("--json", args->json, "Print the profile as it is stored.");
    add_setting_options(*app, args->overrides, {"--threads", "--device", "--vram-budget"});
    return {app, [args]() -> Result<Invocation> { return *args; }};
}

std::vector<Command> add_config(CLI::App& root) {
    CLI::App* app = root.add_subcommand("config", "Show or check the configuration.");
    app->allow_extras();
    auto show = std::make_shared<ConfigShowArgs>();
    CLI::App* show_app = app->add_subcommand(
        "show", "Print every setting, its value and where the value comes from.");
    add_config_option(*show_app, show->config_file);
    auto check = std::make_shared<ConfigCheckArgs>();
    CLI::App* check_app =
        app->add_subcommand("check", "Check the configuration; exit non-zero if it is wrong.");
    check_app->add_option(
        "FILE", check->config_file, "The file to check; without it, the one that would be used.");
    return {
        {show_app, [show]() -> Result<Invocation> { return *show; }},
        {check_app, [check]() -> Result<Invocation> { return *check; }},
        {app, [app]() -> Result<Invocation> { return missing(*app, "'show' or 'check'"); }},
    };
}

Command add_doctor(CLI::App& root) {
    struct Values {
        std::string model;
        DoctorArgs args;
    };
    auto values = std::make_shared<Values>();
    CLI::App* app =
        root.add_subcommand("doctor", "Say what this machine offers and what would stop `serve`.");
    app->add_option("MODEL", values->model, "A GGUF file to look at; without it, [model] path.");
    add_config_option(*app, values->args.config_file);
    add_setting_options(*app, values->args.overrides, {"--host", "--port"});
    return {app, [values]() -> Result<Invocation> {
                if (!values->model.empty()) {
                    values->args.overrides.push_back({"model.path", values->model, "MODEL"});
                }
                return values->args;
            }};
}

std::vector<Command> add_pause(CLI::App& root) {
    struct Values {
        PauseArgs args;
        bool is_while = false;
    };
    auto values = std::make_shared<Values>();
    CLI::App* app = root.add_subcommand(
        "pause", "Make the running server give the GPU back; the CPU goes on answering.");
    app->add_flag("--while", values->is_while, "Until the command that follows -- has ended.");
    app->add_option("COMMAND", values->args.command, "What to run, after --while --.")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    add_config_option(*app, values->args.config_file);
    add_setting_options(*app, values->args.overrides, {"--host", "--port"});
    auto args = std::make_shared<PauseArgs>();
    args->is_resume = true;
    CLI::App* resume = root.add_subcommand("resume", "Let the running server use the GPU again.");
    add_config_option(*resume, args->config_file);
    add_setting_options(*resume, args->overrides, {"--host", "--port"});
    return {{app,
             [app, values]() -> Result<Invocation> {
                 if (values->is_while == values->args.command.empty()) {
                     return missing(*app, "--while and a command together: --while -- COMMAND");
                 }
                 return values->args;
             }},
            {resume, [args]() -> Result<Invocation> { return *args; }}};
}

Command add_ps(CLI::App& root) {
    auto args = std::make_shared<PsArgs>();
    CLI::App* app =
        root.add_subcommand("ps", "Say what the running server holds where, how much, and why.");
    app->add_flag("--json", args->json, "Print what the server answers.");
    add_config_option(*app, args->config_file);
    add_setting_options(*app, args->overrides, {"--host", "--port"});
    return {app, [args]() -> Result<Invocation> { return *args; }};
}

std::vector<Command> add_commands(CLI::App& root) {
    std::vector<Command> commands = {add_serve(root),
                                     add_show(root),
                                     add_template(root),
                                     add_eval(root),
                                     add_bench(root),
                                     add_plan(root),
                                     add_simulate(root),
                                     add_profile(root),
                                     add_doctor(root),
                                     add_ps(root)};
    for (const auto& more : {add_pause(root), add_config(root)}) {
        commands.insert(commands.end(), more.begin(), more.end());
    }
    for (const Command& command : commands) {
        command.app->allow_extras();
    }
    return commands;
}

/// The sentence about an argument that the app does not take.
tl::unexpected<Error> unexpected_argument(const CLI::App& app, const std::string& argument) {
    const bool is_option = argument.size() > 1 && argument.front() == '-';
    if (is_option) {
        const std::string name = argument.substr(0, argument.find('='));
        std::vector<std::string> names;
        for (const CLI::Option* option : app.get_options()) {
            for (const std::string& long_name : option->get_lnames()) {
                names.push_back("--" + long_name);
            }
        }
        return usage(fmt::format(
            "{} has no option '{}'{}", full_name(app), name, config::suggestion(names, name)));
    }
    std::vector<std::string> names;
    for (const CLI::App* sub : app.get_subcommands({})) {
        names.push_back(sub->get_name());
    }
    if (names.empty()) {
        return usage(fmt::format("{} takes no further argument '{}'.", full_name(app), argument));
    }
    return usage(fmt::format("{} has no subcommand '{}'{}",
                             full_name(app),
                             argument,
                             config::suggestion(names, argument)));
}

/// CLI11's refusals in our words; its own message names the option before a colon.
tl::unexpected<Error> refusal(const CLI::ParseError& error) {
    const std::string text = error.what();
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
        return usage(fmt::format("The option {} needs a value.", text.substr(0, text.find(':'))));
    }
    if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
        return usage(fmt::format("The value is not understood: {}.", text));
    }
    return usage(text + ".");
}

/// What the app did not take, but for the mark before a command's own arguments.
std::optional<std::string> first_extra(const CLI::App& app) {
    const std::vector<std::string> extras = app.remaining();
    const auto extra = std::find_if(
        extras.begin(), extras.end(), [](const std::string& text) { return text != "--"; });
    return extra == extras.end() ? std::nullopt : std::optional(*extra);
}

Result<Invocation> finish(const CLI::App& root, const std::vector<Command>& commands) {
    if (const auto extra = first_extra(root)) {
        return unexpected_argument(root, *extra);
    }
    for (const Command& command : commands) {
        if (const auto extra = first_extra(*command.app); extra && command.app->parsed()) {
            return unexpected_argument(*command.app, *extra);
        }
    }
    // A nested subcommand stands before its parent, which counts as given too.
    for (const Command& command : commands) {
        if (command.app->parsed()) {
            return command.finish();
        }
    }
    return usage("ballast needs a subcommand; `ballast --help` lists them.");
}

}  // namespace

Result<Invocation> parse(int argc, const char* const* argv) {
    CLI::App root("An OpenAI-compatible inference server for your own computer.", "ballast");
    root.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    root.set_help_flag("-h,--help", "Print this and exit.");
    root.set_version_flag("--version", std::string("ballast ") + version(), "Print the version.");
    root.allow_extras();
    root.require_subcommand(0, 1);
    const std::vector<Command> commands = add_commands(root);
    try {
        root.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        return PrintArgs{root.help()};
    } catch (const CLI::CallForVersion&) {
        return PrintArgs{std::string("ballast ") + version() + "\n"};
    } catch (const CLI::ParseError& error) {
        return refusal(error);
    }
    return finish(root, commands);
}

}  // namespace ballast::cli
