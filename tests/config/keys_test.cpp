// SPDX-License-Identifier: MIT
// The table of settings: every row is complete, and values are checked and printed by it.
#include "config/keys.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace ballast::config {
namespace {

const Key& key(const std::string& name) {
    for (const Key& candidate : keys()) {
        if (full_name(candidate) == name) {
            return candidate;
        }
    }
    ADD_FAILURE() << "no key " << name;
    return keys().front();
}

std::string error_of(const std::string& name, const std::string& text) {
    Config config;
    const Status status = assign_text(config, key(name), text);
    return status ? "accepted" : status.error().message;
}

TEST(Keys, HaveNamesDocumentsAndTheirOwnField) {
    std::set<std::string> names;
    std::set<const void*> fields;
    Config config;
    for (const Key& row : keys()) {
        EXPECT_TRUE(names.insert(full_name(row)).second) << full_name(row);
        EXPECT_TRUE(row.doc.ends_with(".")) << full_name(row);
        const void* field = std::visit([](auto* f) -> const void* { return f; }, row.field(config));
        EXPECT_TRUE(fields.insert(field).second) << full_name(row);
    }
}

TEST(Keys, TakeTheirOwnDefaults) {
    for (const Key& row : keys()) {
        Config config;
        const Field field = row.field(config);
        if (const auto* number = std::get_if<int*>(&field)) {
            EXPECT_TRUE(assign(config, row, Value(std::int64_t{**number}))) << full_name(row);
        } else if (const auto* text = std::get_if<std::string*>(&field)) {
            EXPECT_TRUE(assign(config, row, Value(std::string(**text)))) << full_name(row);
        }
    }
}

TEST(Keys, NameTheirEnvironmentVariable) {
    EXPECT_EQ(environment_name(key("server.port")), "BALLAST_SERVER_PORT");
    EXPECT_EQ(environment_name(key("model.chat_template")), "BALLAST_MODEL_CHAT_TEMPLATE");
}

TEST(Keys, RefuseNumbersOutOfRangeAndText) {
    EXPECT_EQ(error_of("server.port", "65536"),
              "server.port must be a whole number from 0 to 65535, not 65536.");
    EXPECT_EQ(error_of("server.port", "-1"),
              "server.port must be a whole number from 0 to 65535, not -1.");
    EXPECT_EQ(error_of("server.port", "80x"),
              "server.port must be a whole number from 0 to 65535, not \"80x\".");
    EXPECT_EQ(error_of("server.port", ""),
              "server.port must be a whole number from 0 to 65535, not \"\".");
    EXPECT_EQ(error_of("engine.threads", "99999999999999999999"),
              "engine.threads must be a whole number from 0 to 1024, not "
              "\"99999999999999999999\".");
    EXPECT_EQ(error_of("engine.prefill_chunk", "100"),
              "engine.prefill_chunk must be a multiple of 64 from 64 to 4096, not 100.");
    EXPECT_EQ(error_of("engine.prefill_chunk", "128"), "accepted");
}

TEST(Keys, RefuseTextThatIsNoChoice) {
    EXPECT_EQ(error_of("engine.kv_type", "q8_0"),
              "engine.kv_type must be \"f16\" or \"f32\", not \"q8_0\".");
    EXPECT_EQ(error_of("log.level", "loud"),
              "log.level must be \"debug\", \"info\", \"warning\" or \"error\", not \"loud\".");
    EXPECT_EQ(error_of("engine.force_isa", ""), "accepted");
}

TEST(Keys, RefuseWordsThatAreNotTrueOrFalse) {
    EXPECT_EQ(error_of("server.sse_comments", "yes"),
              "server.sse_comments must be true or false, not \"yes\".");
}

TEST(Keys, RefuseTextWithANulByte) {
    EXPECT_NE(error_of("model.path", std::string("a\0b", 3)), "accepted");
}

TEST(Keys, ReadSizesWithAndWithoutAUnit) {
    const Key& budget = key("engine.vram_budget");
    Config config;
    ASSERT_TRUE(assign_text(config, budget, "40MiB"));
    EXPECT_EQ(config.engine.vram_budget, 40U << 20U);
    EXPECT_EQ(format_value(config, budget), "\"40MiB\"");
    ASSERT_TRUE(assign(config, budget, Value(std::string("1.5GB"))));
    EXPECT_EQ(config.engine.vram_budget, 1500000000U);
    ASSERT_TRUE(assign(config, budget, Value(std::int64_t{4097})));
    EXPECT_EQ(config.engine.vram_budget, 4097U);
    EXPECT_EQ(error_of("engine.vram_budget", "6G"),
              "engine.vram_budget must be a size like 512MiB, up to 1024TiB, not \"6G\".");
    EXPECT_NE(error_of("engine.vram_budget", "1025TiB"), "accepted");
    EXPECT_NE(error_of("engine.vram_budget", "-1"), "accepted");
    EXPECT_NE(error_of("server.body_bytes_max", "16MiB"), "accepted") << "this key has no units";
}

TEST(Keys, NameTheDevicesThereAre) {
    EXPECT_EQ(error_of("engine.device", "host"), "accepted");
    EXPECT_EQ(error_of("engine.device", "cuda"),
              "engine.device must be \"auto\" or \"host\", not \"cuda\".");
}

TEST(Keys, LeaveTheFieldAloneWhenTheyRefuse) {
    Config config;
    EXPECT_FALSE(assign_text(config, key("server.port"), "70000"));
    EXPECT_EQ(config.server.port, 2255);
}

TEST(Keys, ReadListsSeparatedByCommas) {
    Config config;
    ASSERT_TRUE(assign_text(config, key("server.allowed_hosts"), "a.example, b.example,"));
    EXPECT_EQ(config.server.allowed_hosts, (std::vector<std::string>{"a.example", "b.example"}));
}

TEST(Keys, PrintValuesInTomlsSpelling) {
    Config config;
    config.model.path = "a\"b\\c\n";
    config.server.allowed_hosts = {"x", "y"};
    EXPECT_EQ(format_value(config, key("model.path")), "\"a\\\"b\\\\c\\u000A\"");
    EXPECT_EQ(format_value(config, key("server.allowed_hosts")), "[\"x\", \"y\"]");
    EXPECT_EQ(format_value(config, key("server.sse_comments")), "true");
    EXPECT_EQ(format_value(config, key("server.body_bytes_max")), "16777216");
}

}  // namespace
}  // namespace ballast::config
