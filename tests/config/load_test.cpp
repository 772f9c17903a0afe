// SPDX-License-Identifier: MIT
// Where settings come from, which source wins, and what is said about a wrong one.
#include "config/load.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/test_data.h"

namespace ballast::config {
namespace {

/// A folder of its own that goes away with the test.
class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string pattern = testing::TempDir() + "ballast-config-XXXXXX";
        path_ = ::mkdtemp(pattern.data());
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    std::string write(const std::string& name, const std::string& text) const {
        const std::filesystem::path file = std::filesystem::path(path_) / name;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
        return file.string();
    }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

/// Sources whose search finds nothing but what the test gives.
Sources with_file(const std::string& file) {
    return {.file = file, .environment = {}, .command_line = {}};
}

/// What load() says about a file with this text, with the file's path replaced by FILE.
std::string error_of_text(const std::string& text) {
    const TemporaryFolder folder;
    const std::string file = folder.write("ballast.toml", text);
    const auto loaded = load(with_file(file));
    if (loaded) {
        return "accepted";
    }
    std::string message = loaded.error().message;
    if (const auto at = message.find(file); at != std::string::npos) {
        message.replace(at, file.size(), "FILE");
    }
    return message;
}

std::string error_of_environment(const Environment& environment) {
    const TemporaryFolder folder;
    Sources sources = with_file(folder.write("ballast.toml", ""));
    sources.environment = environment;
    const auto loaded = load(sources);
    return loaded ? "accepted" : loaded.error().message;
}

std::string origin_of(const Loaded& loaded, const std::string& name) {
    for (std::size_t i = 0; i < keys().size(); ++i) {
        if (full_name(keys()[i]) == name) {
            return loaded.origins[i];
        }
    }
    return "no such key";
}

/// A value that differs from the default and that the key accepts.
std::string another_value(const Key& key) {
    Config config;
    const Field field = key.field(config);
    if (std::holds_alternative<bool*>(field)) {
        return format_value(config, key) == "true" ? "false" : "true";
    }
    if (std::holds_alternative<std::string*>(field)) {
        return key.choices.empty() ? "another"
                                   : std::string(key.choices.substr(key.choices.rfind('|') + 1));
    }
    if (std::holds_alternative<std::vector<std::string>*>(field)) {
        return "a.example,b.example";
    }
    return std::to_string(key.max);
}

TEST(Load, GivesTheDefaultsWhenThereIsNoFile) {
    const TemporaryFolder folder;
    Sources sources;
    sources.environment = {{"HOME", folder.path()}};
    const auto loaded = load(sources);
    ASSERT_TRUE(loaded) << loaded.error().message;
    if (!loaded->file.empty()) {
        GTEST_SKIP() << "SKIPPED: this machine has " << loaded->file;
    }
    EXPECT_EQ(loaded->config.server.port, 2255);
    EXPECT_EQ(origin_of(*loaded, "server.port"), "default");
}

TEST(Load, ReadsTheCommentedDefaultAndItEqualsTheDefaults) {
    const std::string file = test::source_dir() + "/config/ballast.toml";
    const auto loaded = load(with_file(file));
    ASSERT_TRUE(loaded) << loaded.error().message;
    const Config defaults;
    for (std::size_t i = 0; i < keys().size(); ++i) {
        const Key& key = keys()[i];
        EXPECT_EQ(format_value(loaded->config, key), format_value(defaults, key)) << full_name(key);
        EXPECT_TRUE(loaded->origins[i].starts_with(file + ":"))
            << full_name(key) << " is missing in config/ballast.toml";
    }
}

TEST(Load, ExplainsEveryKeyInTheCommentedDefaultAsTheTableDoes) {
    std::string text = test::read_file(test::source_dir() + "/config/ballast.toml");
    for (std::size_t at = 0; (at = text.find("\n# ", at)) != std::string::npos;) {
        text.replace(at, 3, " ");
    }
    for (const Key& key : keys()) {
        EXPECT_NE(text.find(std::string(key.doc) + "\n" + std::string(key.name) + " = "),
                  std::string::npos)
            << full_name(key);
    }
}

TEST(Load, TakesEveryKeyFromTheEnvironment) {
    for (std::size_t i = 0; i < keys().size(); ++i) {
        const Key& key = keys()[i];
        const TemporaryFolder folder;
        Sources sources = with_file(folder.write("ballast.toml", ""));
        sources.environment = {{environment_name(key), another_value(key)}};
        const auto loaded = load(sources);
        ASSERT_TRUE(loaded) << loaded.error().message;
        Config expected;
        ASSERT_TRUE(assign_text(expected, key, another_value(key)));
        EXPECT_NE(format_value(expected, key), format_value(Config{}, key)) << full_name(key);
        EXPECT_EQ(format_value(loaded->config, key), format_value(expected, key));
        EXPECT_EQ(loaded->origins[i], environment_name(key));
    }
}

TEST(Load, TakesEveryKeyFromTheFile) {
    for (std::size_t i = 0; i < keys().size(); ++i) {
        const Key& key = keys()[i];
        Config expected;
        ASSERT_TRUE(assign_text(expected, key, another_value(key)));
        const TemporaryFolder folder;
        const std::string file =
            folder.write("ballast.toml",
                         "[" + std::string(key.section) + "]\n" + std::string(key.name) + " = " +
                             format_value(expected, key) + "\n");
        const auto loaded = load(with_file(file));
        ASSERT_TRUE(loaded) << loaded.error().message;
        EXPECT_EQ(format_value(loaded->config, key), format_value(expected, key));
        EXPECT_EQ(loaded->origins[i], file + ":2");
    }
}

TEST(Load, PrefersCommandLineThenEnvironmentThenFile) {
    const TemporaryFolder folder;
    Sources sources = with_file(
        folder.write("ballast.toml", "[server]\nport = 1\nio_threads = 2\n[queue]\ndepth = 3\n"));
    sources.environment = {{"BALLAST_SERVER_PORT", "4"}, {"BALLAST_SERVER_IO_THREADS", "5"}};
    sources.command_line = {{"server.port", "6", "--port"}};
    const auto loaded = load(sources);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->config.server.port, 6);
    EXPECT_EQ(origin_of(*loaded, "server.port"), "--port");
    EXPECT_EQ(loaded->config.server.io_threads, 5);
    EXPECT_EQ(origin_of(*loaded, "server.io_threads"), "BALLAST_SERVER_IO_THREADS");
    EXPECT_EQ(loaded->config.queue.depth, 3);
    EXPECT_EQ(origin_of(*loaded, "queue.depth"), sources.file + ":5");
    EXPECT_EQ(loaded->config.engine.parallel, 4);
    EXPECT_EQ(origin_of(*loaded, "engine.parallel"), "default");
}

TEST(Load, NamesLineAndNearestKeyOfAnUnknownOne) {
    EXPECT_EQ(error_of_text("# a comment\n[server]\nhost = \"::1\"\nprot = 80\n"),
              "FILE:4: unknown key 'prot' in [server]; did you mean 'port'?");
    EXPECT_EQ(error_of_text("[server]\nthreads = 2\n"),
              "FILE:2: unknown key 'threads' in [server]; 'threads' belongs in [engine].");
    EXPECT_EQ(error_of_text("[server]\nwarp = 2\n"), "FILE:2: unknown key 'warp' in [server].");
}

TEST(Load, NamesLineAndNearestSectionOfAnUnknownOne) {
    EXPECT_EQ(error_of_text("\n[sever]\nport = 80\n"),
              "FILE:2: unknown section [sever]; did you mean 'server'?");
    EXPECT_EQ(error_of_text("port = 80\n"),
              "FILE:1: 'port' stands in no section; 'port' belongs in [server].");
    EXPECT_EQ(error_of_text("server = 80\n"), "FILE:1: 'server' is a section: write [server].");
}

TEST(Load, ReportsTheFirstOfSeveralFaults) {
    EXPECT_EQ(error_of_text("[server]\nzzz = 1\n[api]\naaa = 1\n"),
              "FILE:2: unknown key 'zzz' in [server].");
}

TEST(Load, NamesLineOfAWrongType) {
    EXPECT_EQ(error_of_text("[server]\nport = \"80\"\n"),
              "FILE:2: server.port must be a whole number from 0 to 65535, not \"80\".");
    EXPECT_EQ(error_of_text("[server]\nport = 80.5\n"),
              "FILE:2: server.port must be a whole number from 0 to 65535.");
    EXPECT_EQ(error_of_text("[server]\nhost = 1\n"), "FILE:2: server.host must be a text, not 1.");
    EXPECT_EQ(error_of_text("[server]\nsse_comments = 1\n"),
              "FILE:2: server.sse_comments must be true or false, not 1.");
    EXPECT_EQ(error_of_text("[server]\nallowed_hosts = [\"a\", 1]\n"),
              "FILE:2: server.allowed_hosts must be a list of texts.");
    EXPECT_EQ(error_of_text("[server.port]\nx = 1\n"),
              "FILE:1: server.port must be a whole number from 0 to 65535.");
}

TEST(Load, NamesLineOfAValueOutOfRange) {
    EXPECT_EQ(error_of_text("[server]\n\nport = 65536\n"),
              "FILE:3: server.port must be a whole number from 0 to 65535, not 65536.");
}

TEST(Load, NamesLineOfWhatIsNotToml) {
    const std::string message = error_of_text("[server]\nport = = 1\n");
    EXPECT_TRUE(message.starts_with("FILE:2: not TOML: ")) << message;
}

TEST(Load, RefusesSettingsOfTheEnvironmentThatAreNone) {
    EXPECT_EQ(error_of_environment({{"BALLAST_SERVER_PROT", "80"}}),
              "The environment sets BALLAST_SERVER_PROT, which is no setting; did you mean "
              "BALLAST_SERVER_PORT?");
    EXPECT_EQ(error_of_environment({{"BALLAST_PORT", "80"}}),
              "The environment sets BALLAST_PORT, which is no setting; did you mean "
              "BALLAST_SERVER_PORT?");
    EXPECT_EQ(error_of_environment({{"BALLAST_ENGINE_WARP", "80"}}),
              "The environment sets BALLAST_ENGINE_WARP, which is no setting.");
}

TEST(Load, NamesTheVariableWithAWrongValue) {
    EXPECT_EQ(error_of_environment({{"BALLAST_SERVER_PORT", "http"}}),
              "BALLAST_SERVER_PORT: server.port must be a whole number from 0 to 65535, not "
              "\"http\".");
}

TEST(Load, AcceptsTheOtherVariables) {
    const Environment environment = {{"BALLAST_REFDATA", "x"},
                                     {"BALLAST_REFDATA_REQUIRED", "1"},
                                     {"BALLAST_TEST_MODELS", "x"},
                                     {"BALLAST_MODELS_REQUIRED", "1"},
                                     {"BALLAST_SOURCE_DIR", "x"},
                                     {"BALLAST_SOMETHING_ELSE", "x"}};
    EXPECT_EQ(error_of_environment(environment), "accepted");
    EXPECT_EQ(unused_variables(environment), std::vector<std::string>{"BALLAST_SOMETHING_ELSE"});
}

TEST(Load, TakesTheInstructionSetFromItsShortVariableUnlessTheFullOneIsSet) {
    const TemporaryFolder folder;
    Sources sources = with_file(folder.write("ballast.toml", ""));
    sources.environment = {{"BALLAST_FORCE_ISA", "scalar"}};
    auto loaded = load(sources);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->config.engine.force_isa, "scalar");
    sources.environment["BALLAST_ENGINE_FORCE_ISA"] = "avx2";
    loaded = load(sources);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->config.engine.force_isa, "avx2");
    EXPECT_EQ(error_of_environment({{"BALLAST_FORCE_ISA", "mmx"}}),
              "BALLAST_FORCE_ISA: engine.force_isa must be \"\", \"scalar\", \"avx2\" or "
              "\"avx512\", not \"mmx\".");
}

TEST(Load, NamesTheFlagWithAWrongValue) {
    const TemporaryFolder folder;
    Sources sources = with_file(folder.write("ballast.toml", ""));
    sources.command_line = {{"engine.parallel", "0", "--parallel"}};
    const auto loaded = load(sources);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().message,
              "--parallel: engine.parallel must be a whole number from 1 to 64, not 0.");
}

TEST(Load, PutsTheHomeFolderForATilde) {
    const TemporaryFolder folder;
    Sources sources = with_file(folder.write("ballast.toml", "[model]\npath = \"~/m.gguf\"\n"));
    sources.environment = {{"HOME", "/home/someone"}};
    const auto loaded = load(sources);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->config.model.path, "/home/someone/m.gguf");
}

TEST(FindFile, LooksInTheUsersFoldersInOrder) {
    const TemporaryFolder xdg;
    const TemporaryFolder home;
    const Environment environment = {{"XDG_CONFIG_HOME", xdg.path()}, {"HOME", home.path()}};
    const std::string in_home = home.write(".config/ballast/ballast.toml", "");
    EXPECT_EQ(*find_file("", environment), in_home);
    const std::string in_xdg = xdg.write("ballast/ballast.toml", "");
    EXPECT_EQ(*find_file("", environment), in_xdg);
    Environment named = environment;
    named["BALLAST_CONFIG"] = "/named.toml";
    EXPECT_EQ(*find_file("", named), "/named.toml");
    EXPECT_EQ(*find_file("/given.toml", named), "/given.toml");
}

TEST(FindFile, DoesNotPassOverAFolderItMayNotEnter) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "SKIPPED: root may enter every folder";
    }
    const TemporaryFolder home;
    home.write(".config/ballast/ballast.toml", "");
    ::chmod((home.path() + "/.config").c_str(), 0);
    const auto found = find_file("", {{"HOME", home.path()}});
    ::chmod((home.path() + "/.config").c_str(), 0700);
    ASSERT_FALSE(found);
    EXPECT_TRUE(found.error().message.ends_with("Permission denied.")) << found.error().message;
}

TEST(ConfigFile, MustExistWhenItWasNamed) {
    const auto loaded = load(with_file("/nowhere/ballast.toml"));
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().message,
              "Cannot read the configuration file /nowhere/ballast.toml: No such file or "
              "directory.");
}

TEST(ConfigFile, MustBeARegularFile) {
    const TemporaryFolder folder;
    const auto as_folder = load(with_file(folder.path()));
    ASSERT_FALSE(as_folder);
    EXPECT_EQ(as_folder.error().message,
              "The configuration file " + folder.path() + " is not a regular file.");
    const std::string pipe = folder.path() + "/pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const auto as_pipe = load(with_file(pipe));
    ASSERT_FALSE(as_pipe);
    EXPECT_EQ(as_pipe.error().message,
              "The configuration file " + pipe + " is not a regular file.");
}

TEST(ConfigFile, MayHaveOneMebibyte) {
    EXPECT_EQ(error_of_text(std::string(1 << 20, '\n')), "accepted");
    EXPECT_EQ(error_of_text(std::string((1 << 20) + 1, '\n')),
              "The configuration file FILE is larger than 1 MiB.");
}

TEST(Load, KeepsProfilesInTheCacheFolder) {
    EXPECT_EQ(profile_folder({{"XDG_CACHE_HOME", "/c"}, {"HOME", "/h"}}), "/c/ballast/profile");
    EXPECT_EQ(profile_folder({{"HOME", "/h"}}), "/h/.cache/ballast/profile");
    EXPECT_EQ(profile_folder({{"XDG_CACHE_HOME", "c"}, {"HOME", "/h"}}),
              "/h/.cache/ballast/profile");
    EXPECT_EQ(profile_folder({}), "");
}

}  // namespace
}  // namespace ballast::config
