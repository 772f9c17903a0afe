// SPDX-License-Identifier: MIT
// The command line's grammar and its messages.
#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "server/cli/invocation.h"

namespace ballast::cli {
namespace {

Result<Invocation> parse_words(std::vector<const char*> words) {
    words.insert(words.begin(), "ballast");
    return parse(static_cast<int>(words.size()), words.data());
}

std::string error_of(const std::vector<const char*>& words) {
    const auto invocation = parse_words(words);
    return invocation ? "accepted" : invocation.error().message;
}

template <class Args>
Args parsed(const std::vector<const char*>& words) {
    const auto invocation = parse_words(words);
    EXPECT_TRUE(invocation) << invocation.error().message;
    EXPECT_TRUE(std::holds_alternative<Args>(*invocation));
    return std::get<Args>(*invocation);
}

TEST(Parse, ReadsServeWithEveryOption) {
    const auto args = parsed<ServeArgs>({"serve",
                                         "m.gguf",
                                         "--host",
                                         "::1",
                                         "--port",
                                         "80",
                                         "--threads",
                                         "2",
                                         "--context",
                                         "512",
                                         "--parallel",
                                         "3",
                                         "--chat-template",
                                         "t.jinja",
                                         "--config",
                                         "c.toml",
                                         "--kv-type",
                                         "f32"});
    EXPECT_EQ(args.config_file, "c.toml");
    std::vector<std::string> seen;
    for (const config::Override& override : args.overrides) {
        seen.push_back(override.key + "=" + override.text + " by " + override.name);
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen,
              (std::vector<std::string>{"engine.context=512 by --context",
                                        "engine.kv_type=f32 by --kv-type",
                                        "engine.parallel=3 by --parallel",
                                        "engine.threads=2 by --threads",
                                        "model.chat_template=t.jinja by --chat-template",
                                        "model.path=m.gguf by MODEL",
                                        "server.host=::1 by --host",
                                        "server.port=80 by --port"}));
}

TEST(Parse, LetsTheModelComeFromTheConfiguration) {
    EXPECT_TRUE(parsed<ServeArgs>({"serve"}).overrides.empty());
}

TEST(Parse, TakesTheLastOfARepeatedOption) {
    const auto args = parsed<ServeArgs>({"serve", "--port", "1", "--port", "2"});
    ASSERT_FALSE(args.overrides.empty());
    EXPECT_EQ(args.overrides.back().text, "2");
}

TEST(Parse, ReadsTheOtherSubcommands) {
    EXPECT_EQ(parsed<ShowArgs>({"show", "m.gguf"}).model, "m.gguf");
    EXPECT_EQ(parsed<TemplateArgs>({"template", "t.jinja"}).file, "t.jinja");
    EXPECT_EQ(parsed<TemplateArgs>({"template", "t.jinja", "--now", "5"}).unix_seconds, 5);
    EXPECT_EQ(parsed<ConfigShowArgs>({"config", "show", "--config", "c"}).config_file, "c");
    EXPECT_EQ(parsed<ConfigCheckArgs>({"config", "check", "c"}).config_file, "c");
    EXPECT_EQ(parsed<DoctorArgs>({"doctor", "m.gguf", "--port", "1"}).overrides.size(), 2U);
}

TEST(Parse, NamesTheNearOption) {
    EXPECT_EQ(error_of({"serve", "m.gguf", "--prot", "80"}),
              "ballast serve has no option '--prot'; did you mean '--port'?");
    EXPECT_EQ(error_of({"serve", "m.gguf", "--thread=2"}),
              "ballast serve has no option '--thread'; did you mean '--threads'?");
    EXPECT_EQ(error_of({"serve", "m.gguf", "--gpu-layers", "80"}),
              "ballast serve has no option '--gpu-layers'.");
    EXPECT_EQ(error_of({"--versoin"}),
              "ballast has no option '--versoin'; did you mean '--version'?");
}

TEST(Parse, NamesTheNearSubcommand) {
    EXPECT_EQ(error_of({"sreve", "m.gguf"}),
              "ballast has no subcommand 'sreve'; did you mean 'serve'?");
    EXPECT_EQ(error_of({"chat"}), "ballast has no subcommand 'chat'.");
    EXPECT_EQ(error_of({"config", "shwo"}),
              "ballast config has no subcommand 'shwo'; did you mean 'show'?");
}

TEST(Parse, NamesWhatIsMissing) {
    EXPECT_EQ(error_of({}), "ballast needs a subcommand; `ballast --help` lists them.");
    EXPECT_EQ(error_of({"show"}),
              "ballast show needs a model file; `ballast show --help` explains.");
    EXPECT_EQ(error_of({"template"}),
              "ballast template needs a template file; `ballast template --help` explains.");
    EXPECT_EQ(error_of({"config"}),
              "ballast config needs 'show' or 'check'; `ballast config --help` explains.");
    EXPECT_EQ(error_of({"serve", "m.gguf", "--port"}), "The option --port needs a value.");
}

TEST(Parse, NamesWhatIsTooMuch) {
    EXPECT_EQ(error_of({"show", "a.gguf", "b.gguf"}),
              "ballast show takes no further argument 'b.gguf'.");
    EXPECT_EQ(error_of({"config", "show", "x"}),
              "ballast config show takes no further argument 'x'.");
}

TEST(Parse, NamesTheValueThatIsNoNumber) {
    const std::string message = error_of({"template", "t", "--now", "noon"});
    EXPECT_NE(message.find("--now"), std::string::npos) << message;
    EXPECT_NE(message.find("noon"), std::string::npos) << message;
}

TEST(Parse, PrintsHelpOfTheProgramAndOfEachSubcommand) {
    const std::string all = parsed<PrintArgs>({"--help"}).text;
    for (const char* name :
         {"serve", "show", "template", "config", "doctor", "profile", "--version"}) {
        EXPECT_NE(all.find(name), std::string::npos) << name;
    }
    const std::string serve = parsed<PrintArgs>({"serve", "--help"}).text;
    for (const char* name : {"--host",
                             "--port",
                             "--threads",
                             "--context",
                             "--parallel",
                             "--chat-template",
                             "--config",
                             "--kv-type",
                             "MODEL"}) {
        EXPECT_NE(serve.find(name), std::string::npos) << name;
    }
}

TEST(Parse, ProfileNeedsNoModel) {
    const auto bare = parsed<ProfileArgs>({"profile"});
    EXPECT_EQ(bare.model, "");
    EXPECT_EQ(bare.out, "");
    EXPECT_FALSE(bare.json);
    const auto all =
        parsed<ProfileArgs>({"profile", "m.gguf", "--out", "p.json", "--json", "--threads", "3"});
    EXPECT_EQ(all.model, "m.gguf");
    EXPECT_EQ(all.out, "p.json");
    EXPECT_TRUE(all.json);
    ASSERT_EQ(all.overrides.size(), 1U);
    EXPECT_EQ(all.overrides[0].key, "engine.threads");
    const auto device =
        parsed<ProfileArgs>({"profile", "--device", "host", "--vram-budget", "128MiB"});
    ASSERT_EQ(device.overrides.size(), 2U);
    EXPECT_EQ(device.overrides[0].key, "engine.device");
    EXPECT_EQ(device.overrides[0].text, "host");
    EXPECT_EQ(device.overrides[1].key, "engine.vram_budget");
    EXPECT_EQ(error_of({"profile", "--device"}), "The option --device needs a value.");
    EXPECT_EQ(error_of({"profile", "a", "b"}), "ballast profile takes no further argument 'b'.");
}

TEST(Parse, PrintsTheVersion) {
    const std::string text = parsed<PrintArgs>({"--version"}).text;
    EXPECT_TRUE(text.starts_with("ballast 0.")) << text;
    EXPECT_TRUE(text.ends_with("\n")) << text;
}

TEST(Parse, ReadsPlanWithEveryOption) {
    const auto args = parsed<PlanArgs>({"plan",
                                        "qwen3-14b",
                                        "--hardware",
                                        "egpu",
                                        "--vram-budget",
                                        "6GiB",
                                        "--ram",
                                        "128GiB",
                                        "--link-gbps",
                                        "3.5",
                                        "--context",
                                        "8192",
                                        "--mix",
                                        "1:2",
                                        "--locality",
                                        "weak",
                                        "--json"});
    EXPECT_EQ(args.model, "qwen3-14b");
    EXPECT_EQ(args.hardware, "egpu");
    EXPECT_EQ(args.vram_budget, 6ULL << 30U);
    EXPECT_EQ(args.ram, 128ULL << 30U);
    EXPECT_EQ(args.link_gbps, 3.5);
    EXPECT_EQ(args.context, 8192);
    EXPECT_EQ(args.mix, "1:2");
    EXPECT_EQ(args.locality, "weak");
    EXPECT_TRUE(args.json);
    EXPECT_FALSE(args.list);
}

TEST(Parse, PlanHasDefaults) {
    const auto args = parsed<PlanArgs>({"plan", "m"});
    EXPECT_EQ(args.hardware, "");
    EXPECT_FALSE(args.vram_budget);
    EXPECT_FALSE(args.ram);
    EXPECT_FALSE(args.link_gbps);
    EXPECT_EQ(args.context, 4096);
    EXPECT_EQ(args.mix, "4:1");
    EXPECT_EQ(args.locality, "uniform");
    EXPECT_FALSE(args.json);
    // Nothing of a GPU's memory is a budget, no budget is not.
    EXPECT_EQ(parsed<PlanArgs>({"plan", "m", "--vram-budget", "0B"}).vram_budget, 0U);
    EXPECT_TRUE(parsed<PlanArgs>({"plan", "--list"}).list);
}

TEST(Parse, SimulateTakesAModelAMachineAndAPolicy) {
    const auto args = parsed<SimulateArgs>({"simulate",
                                            "--model",
                                            "qwen3-14b",
                                            "--hardware",
                                            "egpu",
                                            "--policy",
                                            "ours",
                                            "--hops",
                                            "blocking",
                                            "--vram-budget",
                                            "6GiB",
                                            "--load-trace",
                                            "game.jsonl",
                                            "--json"});
    EXPECT_EQ(args.asked.model, "qwen3-14b");
    EXPECT_EQ(args.load_trace, "game.jsonl");
    EXPECT_EQ(args.asked.hardware, "egpu");
    EXPECT_EQ(args.asked.vram_budget, 6ULL << 30U);
    EXPECT_TRUE(args.asked.json);
    EXPECT_EQ(args.policy, "ours");
    EXPECT_EQ(args.hops, "blocking");
    EXPECT_EQ(parsed<SimulateArgs>({"simulate", "--model", "m"}).policy, "all");
    EXPECT_EQ(error_of({"simulate"}),
              "ballast simulate needs --model; `ballast simulate --help` explains.");
    EXPECT_EQ(error_of({"simulate", "m"}), "ballast simulate takes no further argument 'm'.");
}

TEST(Parse, PlanRefusesWhatItCannotUse) {
    EXPECT_EQ(error_of({"plan"}),
              "ballast plan needs a model, or --list; `ballast plan --help` explains.");
    EXPECT_EQ(error_of({"plan", "m", "--list"}), "--list goes without a model.");
    EXPECT_EQ(error_of({"plan", "a", "b"}), "ballast plan takes no further argument 'b'.");
    EXPECT_EQ(error_of({"plan", "m", "--hardwear", "x"}),
              "ballast plan has no option '--hardwear'; did you mean '--hardware'?");
    EXPECT_EQ(error_of({"plan", "m", "--mix"}), "The option --mix needs a value.");
    for (const char* option : {"--context", "--link-gbps"}) {
        const std::string message = error_of({"plan", "m", option, "much"});
        EXPECT_TRUE(message.starts_with("The value is not understood: ")) << message;
        EXPECT_NE(message.find(option), std::string::npos) << message;
    }
    for (const char* option : {"--vram-budget", "--ram"}) {
        for (const char* wrong : {"6G", "-1GiB", "GiB", "1e3 GiB", "99999999999TiB"}) {
            const std::string message = error_of({"plan", "m", option, wrong});
            EXPECT_TRUE(message.starts_with(std::string(option) + ": ")) << message;
        }
        EXPECT_NE(error_of({"plan", "m", option, ""}), "accepted") << option;
    }
}

TEST(Parse, ReadsPauseWithACommandAndItsOptions) {
    const auto args = parsed<PauseArgs>(
        {"pause", "--port", "80", "--while", "--", "game", "--port", "1", "--while", "x"});
    EXPECT_EQ(args.command, (std::vector<std::string>{"game", "--port", "1", "--while", "x"}));
    ASSERT_EQ(args.overrides.size(), 1U);
    EXPECT_EQ(args.overrides[0].text, "80");
    EXPECT_FALSE(args.is_resume);
    EXPECT_TRUE(parsed<PauseArgs>({"pause"}).command.empty());
    EXPECT_TRUE(parsed<PauseArgs>({"resume"}).is_resume);
}

TEST(Parse, ReadsPsAndItsOptions) {
    EXPECT_FALSE(parsed<PsArgs>({"ps"}).json);
    const auto args = parsed<PsArgs>({"ps", "--json", "--port", "80"});
    EXPECT_TRUE(args.json);
    ASSERT_EQ(args.overrides.size(), 1U);
    EXPECT_EQ(args.overrides[0].key, "server.port");
    EXPECT_EQ(error_of({"ps", "model"}), "ballast ps takes no further argument 'model'.");
}

TEST(Parse, RefusesPauseWithHalfOfACommand) {
    const std::string message =
        "ballast pause needs --while and a command together: --while -- COMMAND; "
        "`ballast pause --help` explains.";
    EXPECT_EQ(error_of({"pause", "--while"}), message);
    EXPECT_EQ(error_of({"pause", "game"}), message);
    EXPECT_EQ(error_of({"resume", "game"}), "ballast resume takes no further argument 'game'.");
    EXPECT_EQ(error_of({"show", "m", "--", "n"}), "ballast has no subcommand 'n'.");
}

}  // namespace
}  // namespace ballast::cli
