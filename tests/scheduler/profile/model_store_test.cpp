// SPDX-License-Identifier: MIT
#include "scheduler/profile/model_store.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ballast::scheduler {
namespace {

nlohmann::json good() {
    return {{"name", "mine"},
            {"description", "a model"},
            {"source", "made up"},
            {"architecture", "llama"},
            {"parameters_b", 1},
            {"layers", 4},
            {"embedding_length", 512},
            {"vocabulary", 1000},
            {"tied_embeddings", false},
            {"context_length", 2048},
            {"default_quant", "Q4_K_M"},
            {"norms_per_layer", 2},
            {"attention", {{"heads", 8}, {"kv_heads", 2}, {"head_length", 64}}},
            {"ffn", {{"length", 1024}}}};
}

/// good(), with one value changed.
nlohmann::json changed(const char* pointer, const nlohmann::json& value) {
    nlohmann::json json = good();
    json[nlohmann::json::json_pointer(pointer)] = value;
    return json;
}

std::string error_of(const nlohmann::json& json) {
    const auto shape = parse_model(json.dump(), "mine.json");
    return shape ? "" : shape.error().message;
}

double gb(std::uint64_t bytes) {
    return static_cast<double>(bytes) / 1e9;
}

TEST(ModelStore, HasTheModelsPeopleAskFor) {
    for (const char* name : {"llama-3.1-8b",
                             "qwen3-14b",
                             "qwen3-32b",
                             "llama-3.3-70b",
                             "qwen3-30b-a3b",
                             "gpt-oss-20b",
                             "gpt-oss-120b",
                             "llama-4-scout",
                             "llama-4-maverick",
                             "glm-z1-9b",
                             "llama-3.1-70b",
                             "qwen3-next-80b-a3b",
                             "qwen3.5-122b-a10b"}) {
        const auto shape = stored_model(name);
        ASSERT_TRUE(shape) << shape.error().message;
        EXPECT_EQ(shape->name, name);
        EXPECT_TRUE(catalog_of(*shape, ""));
    }
    EXPECT_EQ(stored_model_names().size(), 13U);
    EXPECT_EQ(stored_model("gpt").error().code, ErrorCode::kNotFound);
}

// Published file sizes: bartowski's and unsloth's Q4_K_M on Hugging Face, openai's MXFP4.
TEST(ShapeCatalog, WeighsWhatThePublishedFilesWeigh) {
    const std::pair<const char*, double> files[] = {{"llama-3.1-8b", 4.92},
                                                    {"qwen3-14b", 9.00},
                                                    {"qwen3-32b", 19.8},
                                                    {"llama-3.1-70b", 42.5},
                                                    {"qwen3-30b-a3b", 18.6},
                                                    {"qwen3-next-80b-a3b", 48.4},
                                                    {"llama-4-maverick", 243.0},
                                                    {"gpt-oss-20b", 12.1},
                                                    {"gpt-oss-120b", 63.4}};
    for (const auto& [name, published] : files) {
        const TensorCatalog catalog = *catalog_of(*stored_model(name), "");
        EXPECT_NEAR(gb(catalog.total_bytes()) / published, 1.0, 0.004) << name;
    }
}

TEST(ShapeCatalog, ListsGroupsInOrderOfUse) {
    const TensorCatalog catalog = *catalog_of(*stored_model("llama-3.1-8b"), "");
    ASSERT_EQ(catalog.groups.size(), 65U);
    EXPECT_EQ(catalog.groups[0].kind, GroupKind::kAttention);
    EXPECT_EQ(catalog.groups[0].parts, 8);  // KV heads: 512 columns each, two blocks of 256
    EXPECT_EQ(catalog.groups[1].kind, GroupKind::kFeedForward);
    EXPECT_EQ(catalog.groups[1].parts, 56);  // 14336 / 256
    EXPECT_EQ(catalog.groups[64].kind, GroupKind::kHead);
    EXPECT_EQ(catalog.groups[64].layer, -1);
    // 2 · 8 heads · 128 · 2 bytes · 32 layers.
    EXPECT_EQ(catalog.kv_bytes_per_token(), 131072U);
    // q, k, o of Q4_K and v of Q6_K in the first layer, and a norm: 4096 · (4096 · 2 + 1024) · 4.5
    // + 4096 · 1024 · 6.5625 bits, and 4096 floats.
    EXPECT_EQ(catalog.groups[0].weight_bytes,
              4096ULL * 9216 * 45 / 80 + 4096ULL * 1024 * 65625 / 80000 + 4096 * 4);
}

TEST(ShapeCatalog, CutsAttentionOnlyWhereBlocksEnd) {
    // 40 heads in 8 groups: 640 columns a KV head; two heads together are five blocks of 256.
    EXPECT_EQ(catalog_of(*stored_model("qwen3-14b"), "")->groups[0].parts, 4);
    EXPECT_EQ(catalog_of(*stored_model("qwen3-14b"), "Q8_0")->groups[0].parts, 8);
}

TEST(ShapeCatalog, KnowsOtherQuantisations) {
    const ModelShape shape = *stored_model("llama-3.1-8b");
    // 8.03 B parameters.
    EXPECT_NEAR(gb(catalog_of(shape, "F16")->total_bytes()), 16.06, 0.02);
    EXPECT_NEAR(gb(catalog_of(shape, "Q8_0")->total_bytes()), 8.53, 0.02);
    const auto unknown = catalog_of(shape, "Q9_X");
    ASSERT_FALSE(unknown);
    EXPECT_NE(unknown.error().message.find("Q9_X"), std::string::npos);
    EXPECT_NE(unknown.error().message.find("Q4_K_M"), std::string::npos);
}

TEST(ModelStore, RefusesWhatItDoesNotUnderstandNamingTheKey) {
    EXPECT_EQ(error_of(good()), "");
    const auto with = [](const char* pointer, const nlohmann::json& value) {
        return error_of(changed(pointer, value));
    };
    EXPECT_EQ(with("/layerz", 3), "mine.json: layerz is not known.");
    EXPECT_EQ(with("/attention/colour", 3), "mine.json: attention.colour is not known.");
    EXPECT_EQ(with("/layers", "many"), "mine.json: layers must be a whole number.");
    EXPECT_EQ(with("/layers", 1e300), "mine.json: layers must be a whole number.");
    EXPECT_EQ(with("/layers", 100000), "mine.json: layers must be at most 1000.");
    EXPECT_EQ(with("/layers", 18446744073709551615ULL),
              "mine.json: layers must be between 1 and 1000000000.");
    EXPECT_EQ(with("/attention/kv_heads", 3),
              "mine.json: attention.heads must be a multiple of attention.kv_heads.");
    EXPECT_EQ(with("/ffn", nullptr), "mine.json: ffn must be an object.");
    EXPECT_EQ(with("/tied_embeddings", 1), "mine.json: tied_embeddings must be true or false.");
    const nlohmann::json experts = {
        {"count", 8}, {"used", 2}, {"length", 256}, {"shared_length", 0}, {"layers", "all"}};
    EXPECT_EQ(with("/experts", experts), "");
    for (const auto& rule : {nlohmann::json(7),
                             nlohmann::json("some"),
                             nlohmann::json{0, 4},
                             nlohmann::json{{"first", 0}, {"step", 0}},
                             nlohmann::json{{"first", 9}, {"step", 1}},
                             nlohmann::json{{"period", 2}, {"offsets", {4}}}}) {
        nlohmann::json wrong = experts;
        wrong["layers"] = rule;
        EXPECT_NE(with("/experts", wrong).find("experts.layers must be"), std::string::npos)
            << rule;
    }
    nlohmann::json no_ffn = good();
    no_ffn.erase("ffn");
    EXPECT_EQ(error_of(no_ffn), "mine.json: ffn.length is needed for the layers without experts.");
    EXPECT_FALSE(parse_model("[]", "x"));
    EXPECT_FALSE(parse_model("{", "x"));
}

TEST(ModelStore, ResolvesRulesOfLayers) {
    nlohmann::json json = good();
    json["attention"]["window"] = 128;
    const auto windowed = [&](const nlohmann::json& rule) {
        json["attention"]["window_layers"] = rule;
        return parse_model(json.dump(), "x")->attention.windowed;
    };
    using Flags = std::vector<bool>;
    EXPECT_EQ(windowed("even"), (Flags{true, false, true, false}));
    EXPECT_EQ(windowed("odd"), (Flags{false, true, false, true}));
    EXPECT_EQ(windowed(nlohmann::json{1, 2}), (Flags{false, true, true, false}));
    EXPECT_EQ(windowed({{"first", 1}, {"step", 2}}), (Flags{false, true, false, true}));
    EXPECT_EQ(windowed({{"period", 3}, {"offsets", {0, 1}}}), (Flags{true, true, false, true}));
}

}  // namespace
}  // namespace ballast::scheduler
