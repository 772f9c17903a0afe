// SPDX-License-Identifier: MIT
#include "server/api/json_reader.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/rng.h"

namespace ballast::api {
namespace {

using OrderedJson = nlohmann::ordered_json;

TEST(JsonReader, ReadsWhatTheLibraryReads) {
    for (const char* text : {"{}",
                             "[]",
                             "1",
                             "-0.5e3",
                             "\"a\\u00e9\\n\"",
                             "null",
                             "true",
                             " [1 , {\"b\":[[],{}]}] ",
                             R"({"z":1,"a":{"y":[1,2,{"x":null}],"b":false}})",
                             "18446744073709551615"}) {
        const auto read = parse_json(text);
        ASSERT_TRUE(read.has_value()) << text;
        EXPECT_EQ(*read, OrderedJson::parse(text)) << text;
        EXPECT_EQ(read->dump(), OrderedJson::parse(text).dump()) << text;
    }
}

TEST(JsonReader, RefusesWhatIsNotJson) {
    for (const std::string text : {"",
                                   " ",
                                   "{",
                                   "[1,]",
                                   "{\"a\"}",
                                   "{\"a\":}",
                                   "nul",
                                   "1 2",
                                   "\"\xC3\"",
                                   "\"\xED\xA0\x80\"",
                                   "\"\\ud800\"",
                                   "\"a",
                                   "{a:1}",
                                   "[1}",
                                   "\"\x01\"",
                                   "1e999"}) {
        const auto read = parse_json(text);
        ASSERT_FALSE(read.has_value()) << text;
        EXPECT_EQ(read.error().code, "invalid_json");
        EXPECT_FALSE(read.error().message.empty());
    }
}

TEST(JsonReader, LimitsTheDepth) {
    const auto nested = [](int depth) {
        return std::string(static_cast<std::size_t>(depth), '[') +
               std::string(static_cast<std::size_t>(depth), ']');
    };
    EXPECT_TRUE(parse_json(nested(64)).has_value());
    EXPECT_FALSE(parse_json(nested(65)).has_value());
    EXPECT_FALSE(parse_json(nested(5'000'000)).has_value());
    std::string objects;
    for (int i = 0; i < 1'000'000; ++i) {
        objects += "{\"a\":";
    }
    EXPECT_FALSE(parse_json(objects).has_value());
}

TEST(JsonReader, LimitsTheNumberOfValues) {
    EXPECT_TRUE(parse_json("[1,2,3]", {.values_max = 4}).has_value());
    EXPECT_FALSE(parse_json("[1,2,3,4]", {.values_max = 4}).has_value());
}

TEST(JsonReader, RefusesAMemberThatOccursTwice) {
    const auto read = parse_json(R"({"a":1,"b":2,"a":3})");
    ASSERT_FALSE(read.has_value());
    EXPECT_NE(read.error().message.find("'a'"), std::string::npos);
    EXPECT_TRUE(parse_json(R"([{"a":1},{"a":1}])").has_value());
}

TEST(JsonReader, LargeObjectsTakeLinearTime) {
    std::string text = "{\"x\":0";
    for (int i = 0; i < 300'000; ++i) {
        text += ",\"key" + std::to_string(i) + "\":" + std::to_string(i);
    }
    text += "}";
    const auto read = parse_json(text);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->size(), 300'001U);
}

TEST(JsonReader, SurvivesRandomChanges) {
    Rng rng(7);
    const std::string good = R"({"model":"m","messages":[{"role":"user","content":["é\n",1.5]}]})";
    for (int round = 0; round < 20'000; ++round) {
        std::string text = good;
        for (std::uint64_t i = 0; i <= rng.below(3); ++i) {
            text[rng.below(text.size())] = static_cast<char>(rng.below(256));
        }
        const auto read = parse_json(text);
        const OrderedJson expected = OrderedJson::parse(text, nullptr, false);
        if (read) {
            EXPECT_EQ(*read, expected) << text;
        }
    }
}

TEST(JsonReader, WantsAnObjectForABody) {
    EXPECT_TRUE(parse_json_object("{}").has_value());
    EXPECT_FALSE(parse_json_object("[]").has_value());
}

}  // namespace
}  // namespace ballast::api
