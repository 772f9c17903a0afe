// SPDX-License-Identifier: MIT
// The catalog of small files of several architectures, and of the real models.
#include "engine/model/tensor_catalog.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

namespace ballast::test {
namespace {

using quant::QuantType;
using scheduler::GroupKind;
using scheduler::TensorCatalog;
using scheduler::TensorGroup;

Result<TensorCatalog> catalog_of(const GgufWriter& writer, std::uint64_t kv_element_bytes = 2) {
    const TempDir dir;
    const std::string path = dir.path("model.gguf");
    writer.write(path);
    auto reader = gguf::Reader::open(path);
    EXPECT_TRUE(reader.has_value()) << reader.error().message;
    return model::catalog_of(**reader, kv_element_bytes);
}

TensorCatalog catalog(const GgufWriter& writer, std::uint64_t kv_element_bytes = 2) {
    auto result = catalog_of(writer, kv_element_bytes);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return std::move(*result);
}

/// A tensor of zeros.
void add(GgufWriter& writer,
         const std::string& name,
         const std::vector<std::uint64_t>& shape,
         QuantType type = QuantType::kF32) {
    std::uint64_t n = 1;
    for (const std::uint64_t extent : shape) {
        n *= extent;
    }
    writer.tensor(name, type, shape, std::string(quant::row_bytes(type, n), '\0'));
}

const TensorGroup& group_of(const TensorCatalog& catalog, GroupKind kind, int layer) {
    for (const TensorGroup& group : catalog.groups) {
        if (group.kind == kind && group.layer == layer) {
            return group;
        }
    }
    ADD_FAILURE() << "no such group in layer " << layer;
    return catalog.groups.front();
}

/// One layer of 4 query heads and 2 KV heads of 16 over a width of 64.
GgufWriter plain(const std::string& architecture, QuantType output_type = QuantType::kF32) {
    GgufWriter writer;
    writer.add("general.architecture", architecture)
        .add("general.name", "Plain")
        .add(architecture + ".block_count", 1U)
        .add(architecture + ".context_length", 10485760U)
        .add(architecture + ".embedding_length", 64U)
        .add(architecture + ".attention.head_count", 4U)
        .add(architecture + ".attention.head_count_kv", 2U)
        .add(architecture + ".attention.sliding_window", 128U);
    add(writer, "token_embd.weight", {64, 10});
    add(writer, "output_norm.weight", {64});
    add(writer, "blk.0.attn_norm.weight", {64});
    add(writer, "blk.0.attn_q.weight", {64, 64});
    add(writer, "blk.0.attn_k.weight", {64, 32});
    add(writer, "blk.0.attn_v.weight", {64, 32});
    add(writer, "blk.0.attn_output.weight", {64, 64}, output_type);
    add(writer, "blk.0.ffn_norm.weight", {64});
    add(writer, "blk.0.ffn_up.weight", {64, 96}, QuantType::kQ8_0);
    add(writer, "blk.0.ffn_down.weight", {96, 64}, QuantType::kQ8_0);
    return writer;
}

TEST(TensorCatalog, SortsTheTensorsOfALayer) {
    const TensorCatalog c = catalog(plain("anything"));
    EXPECT_EQ(c.name, "Plain");
    EXPECT_EQ(c.description, "anything, 1 layers");
    EXPECT_EQ(c.width, 64);
    EXPECT_EQ(c.n_layers, 1);
    EXPECT_EQ(c.context_length, 10485760);
    EXPECT_EQ(c.embedding_bytes, 0U) << "tied: the table counts with the head";
    ASSERT_EQ(c.groups.size(), 3U);
    const TensorGroup& attention = c.groups[0];
    EXPECT_EQ(attention.kind, GroupKind::kAttention);
    EXPECT_EQ(attention.layer, 0);
    EXPECT_EQ(attention.weights, 64U + 64 * 64 + 2 * 64 * 32 + 64 * 64);
    EXPECT_EQ(attention.weight_bytes, attention.weights * 4);
    EXPECT_EQ(attention.kv_bytes_per_token, 2U * (16 + 16) * 2);
    EXPECT_EQ(attention.attention_width, 64);
    EXPECT_EQ(attention.window, 0) << "which layers have the window is not known";
    EXPECT_EQ(attention.state_bytes, 0U);
    EXPECT_EQ(attention.parts, 2);
    const TensorGroup& feed_forward = c.groups[1];
    EXPECT_EQ(feed_forward.kind, GroupKind::kFeedForward);
    EXPECT_EQ(feed_forward.weight_bytes, 64U * 4 + 2 * 64 * 96 / 32 * 34);
    EXPECT_EQ(feed_forward.weights, 64U + 2 * 64 * 96);
    EXPECT_EQ(feed_forward.parts, 3);
    const TensorGroup& head = c.groups[2];
    EXPECT_EQ(head.kind, GroupKind::kHead);
    EXPECT_EQ(head.layer, -1);
    EXPECT_EQ(head.weight_bytes, 64U * 4 + 64 * 10 * 4) << "tied: the table counts here";
    EXPECT_EQ(head.parts, 10);
}

TEST(TensorCatalog, CutsAttentionOnlyAtWholeBlocks) {
    // Two KV heads of 2 · 16 columns each: whole blocks of 32, not of 256.
    EXPECT_EQ(catalog(plain("llama", QuantType::kQ8_0)).groups[0].parts, 2);
    GgufWriter odd = plain("llama");
    odd.add("llama.attention.value_length", 24U);
    EXPECT_EQ(catalog(odd).groups[0].parts, 1) << "the matrix has other columns than the heads";
}

TEST(TensorCatalog, CountsKeysAndValuesOfTheGivenSize) {
    GgufWriter writer = plain("llama");
    writer.add("llama.attention.key_length", 24U).add("llama.attention.value_length", 16U);
    EXPECT_EQ(catalog(writer, 4).groups[0].kv_bytes_per_token, 2U * (24 + 16) * 4);
    EXPECT_EQ(catalog(writer, 4).groups[0].attention_width, 4 * 24);
}

TEST(TensorCatalog, TakesTheHeadFromItsOwnTensor) {
    GgufWriter writer = plain("llama");
    add(writer, "output.weight", {64, 10}, QuantType::kQ8_0);
    add(writer, "rope_freqs.weight", {8});
    const TensorCatalog c = catalog(writer);
    EXPECT_EQ(c.groups.back().weight_bytes, 64U * 4 + 64 * 10 / 32 * 34);
    EXPECT_EQ(c.embedding_bytes, 64U * 10 * 4 + 8 * 4);
}

TEST(TensorCatalog, CountsExpertsApartFromWhatIsAlwaysRead) {
    GgufWriter writer;
    writer.add("general.architecture", "moe")
        .add("moe.block_count", 1U)
        .add("moe.expert_count", 6U)
        .add("moe.expert_used_count", 2U);
    add(writer, "blk.0.ffn_norm.weight", {64});
    add(writer, "blk.0.ffn_gate_inp.weight", {64, 6});
    add(writer, "blk.0.exp_probs_b.bias", {6});
    add(writer, "blk.0.ffn_gate_exps.weight", {64, 32, 6}, QuantType::kQ4_0);
    add(writer, "blk.0.ffn_up_exps.weight", {64, 32, 6}, QuantType::kQ4_0);
    add(writer, "blk.0.ffn_down_exps.weight", {32, 64, 6}, QuantType::kQ8_0);
    add(writer, "blk.0.ffn_up_shexp.weight", {64, 32});
    const TensorCatalog c = catalog(writer);
    ASSERT_EQ(c.groups.size(), 1U) << "no attention, no head";
    const TensorGroup& group = c.groups[0];
    EXPECT_EQ(group.kind, GroupKind::kExperts);
    EXPECT_EQ(group.parts, 6);
    EXPECT_EQ(group.experts_used, 2);
    EXPECT_EQ(group.expert_bytes, 64U * 32 / 32 * (18 + 18 + 34));
    EXPECT_EQ(group.expert_weights, 3U * 64 * 32);
    EXPECT_EQ(group.weights, 64U + 64 * 6 + 6 + 64 * 32);
    EXPECT_EQ(c.total_bytes(), group.weights * 4 + 6 * group.expert_bytes);
}

/// Layers of attention alone.
GgufWriter layers(const std::string& architecture, std::uint32_t n) {
    GgufWriter writer;
    writer.add("general.architecture", architecture)
        .add(architecture + ".block_count", n)
        .add(architecture + ".embedding_length", 64U)
        .add(architecture + ".attention.head_count", 4U)
        .add(architecture + ".attention.sliding_window", 128U);
    for (std::uint32_t layer = 0; layer < n; ++layer) {
        add(writer, "blk." + std::to_string(layer) + ".attn_k.weight", {64, 64});
    }
    return writer;
}

std::vector<int> windows(const TensorCatalog& catalog) {
    std::vector<int> result;
    for (const TensorGroup& group : catalog.groups) {
        result.push_back(group.window);
    }
    return result;
}

TEST(TensorCatalog, KnowsWhichLayersHaveAWindow) {
    EXPECT_EQ(windows(catalog(layers("gemma3", 7))),
              (std::vector<int>{128, 128, 128, 128, 128, 0, 128}));
    EXPECT_EQ(windows(catalog(layers("gpt-oss", 4))), (std::vector<int>{128, 0, 128, 0}));
    EXPECT_EQ(windows(catalog(layers("unheard-of", 2))), (std::vector<int>{0, 0}));
    GgufWriter flags = layers("unheard-of", 3);
    flags.add("unheard-of.attention.sliding_window_pattern", std::vector<bool>{false, true, true});
    EXPECT_EQ(windows(catalog(flags)), (std::vector<int>{0, 128, 128}));
    GgufWriter period = layers("gemma3", 3);
    period.add("gemma3.attention.sliding_window_pattern", 3U);
    EXPECT_EQ(windows(catalog(period)), (std::vector<int>{128, 128, 0}));
}

TEST(TensorCatalog, ReadsNumbersThatAreGivenByLayer) {
    GgufWriter writer;
    writer.add("general.architecture", "deci")
        .add("deci.embedding_length", 64U)
        .add("deci.attention.head_count", std::vector<std::int32_t>{4, 4, 2})
        .add("deci.attention.head_count_kv", std::vector<std::uint32_t>{2, 0, 1})
        .add("deci.attention.key_length", 16U)
        .add("deci.attention.value_length", 16U);
    for (const std::string layer : {"0", "1", "2"}) {
        add(writer, "blk." + layer + ".attn_k.weight", {64, 32});
    }
    const TensorCatalog c = catalog(writer);
    EXPECT_EQ(c.n_layers, 3) << "without block_count the layers are counted";
    EXPECT_EQ(c.groups[0].kv_bytes_per_token, 2U * 32 * 2);
    EXPECT_EQ(c.groups[1].kv_bytes_per_token, 0U);
    EXPECT_EQ(c.groups[2].kv_bytes_per_token, 32U * 2);
    EXPECT_EQ(c.groups[2].attention_width, 2 * 16);
}

TEST(TensorCatalog, GivesRecurrentLayersAState) {
    GgufWriter writer;
    writer.add("general.architecture", "qwen3next")
        .add("qwen3next.embedding_length", 64U)
        .add("qwen3next.attention.head_count", 4U)
        .add("qwen3next.ssm.inner_size", 128U)
        .add("qwen3next.ssm.state_size", 16U)
        .add("qwen3next.ssm.conv_kernel", 4U)
        .add("qwen3next.ssm.group_count", 2U);
    add(writer, "blk.0.attn_qkv.weight", {64, 64});
    add(writer, "blk.0.ssm_out.weight", {64, 64});
    add(writer, "blk.1.attn_qkv.weight", {64, 192});
    const TensorCatalog c = catalog(writer);
    EXPECT_EQ(c.groups[0].state_bytes, 4U * (128 * 16 + 3 * (128 + 2 * 2 * 16)));
    EXPECT_EQ(c.groups[0].kv_bytes_per_token, 0U);
    EXPECT_EQ(c.groups[0].parts, 1);
    EXPECT_EQ(c.groups[1].state_bytes, 0U);
    EXPECT_GT(c.groups[1].kv_bytes_per_token, 0U);
}

TEST(TensorCatalog, TakesUnknownTensorsAndNonsenseNumbers) {
    GgufWriter writer;
    writer.add("general.architecture", "odd")
        .add("odd.block_count", "three")
        .add("odd.embedding_length", 4000000000U)
        .add("odd.attention.head_count", -1)
        .add("odd.context_length", 1.5F);
    add(writer, "blk.0.time_mix.weight", {8, 8});
    add(writer, "blk.0.ffn_something.weight", {8, 4});
    add(writer, "blk.2147483647.attn_k.weight", {8});
    add(writer, "blk.99999999999.attn_k.weight", {8});
    add(writer, "blk.x.attn_k.weight", {8});
    const TensorCatalog c = catalog(writer);
    EXPECT_EQ(c.width, 0);
    EXPECT_EQ(c.context_length, 0);
    EXPECT_EQ(c.n_layers, 2);
    ASSERT_EQ(c.groups.size(), 3U);
    EXPECT_EQ(group_of(c, GroupKind::kAttention, 0).weight_bytes, 256U);
    EXPECT_EQ(group_of(c, GroupKind::kFeedForward, 0).weight_bytes, 128U);
    EXPECT_EQ(group_of(c, GroupKind::kAttention, 2147483647).weight_bytes, 32U);
    EXPECT_EQ(c.embedding_bytes, 64U) << "names that are no layer's";
}

TEST(TensorCatalog, NeedsTensorsOfLayers) {
    GgufWriter writer;
    writer.add("general.architecture", "llama");
    add(writer, "token_embd.weight", {8, 8});
    const auto result = catalog_of(writer);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(result.error().message.find("blk.N"), std::string::npos);
}

TEST(TensorCatalog, CountsEveryByteOfATinyModel) {
    for (const std::uint32_t n_experts : {0U, 4U}) {
        const GgufWriter writer = tiny_model({.n_experts = n_experts, .type = QuantType::kQ8_0});
        const TempDir dir;
        const std::string path = dir.path("tiny.gguf");
        writer.write(path);
        const auto reader = gguf::Reader::open(path);
        ASSERT_TRUE(reader.has_value());
        std::uint64_t bytes = 0;
        for (const gguf::TensorInfo& tensor : (*reader)->tensors()) {
            bytes += tensor.size_bytes;
        }
        const auto c = model::catalog_of(**reader);
        ASSERT_TRUE(c.has_value());
        EXPECT_EQ(c->total_bytes(), bytes);
        EXPECT_EQ(c->groups.size(), 2U * 2 + 1);
        EXPECT_EQ(c->has_experts(), n_experts > 0);
    }
}

TEST(TensorCatalog, CountsEveryByteOfEveryArchitecture) {
    BALLAST_REFDATA_OR_SKIP(folder, "tiny");
    int n_files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".gguf") {
            continue;
        }
        ++n_files;
        const auto reader = gguf::Reader::open(entry.path());
        ASSERT_TRUE(reader.has_value()) << reader.error().message;
        std::uint64_t bytes = 0;
        for (const gguf::TensorInfo& tensor : (*reader)->tensors()) {
            bytes += tensor.size_bytes;
        }
        const auto c = model::catalog_of(**reader);
        ASSERT_TRUE(c.has_value()) << c.error().message;
        EXPECT_EQ(c->total_bytes(), bytes) << entry.path();
        EXPECT_EQ(c->groups.size(), 2U * static_cast<std::size_t>(c->n_layers) + 1);
        for (const TensorGroup& group : c->groups) {
            EXPECT_GE(group.parts, 1) << entry.path();
            EXPECT_GT(group.weight_bytes, 0U) << entry.path();
            EXPECT_TRUE(group.kind != GroupKind::kAttention || group.kv_bytes_per_token > 0 ||
                        group.state_bytes > 0)
                << entry.path();
        }
    }
    EXPECT_GE(n_files, 10);
}

TEST(TensorCatalog, DescribesSmolLm2) {
    BALLAST_MODEL_OR_SKIP(path, "smollm2-135m-instruct-q4_1");
    const auto reader = gguf::Reader::open(path);
    ASSERT_TRUE(reader.has_value());
    const auto c = model::catalog_of(**reader);
    ASSERT_TRUE(c.has_value());
    EXPECT_EQ(c->n_layers, 30);
    EXPECT_EQ(c->groups.size(), 61U);
    EXPECT_EQ(c->width, 576);
    // Three KV heads of 64, of which each third of nine query heads makes 192 columns.
    EXPECT_EQ(c->groups[0].parts, 3);
    EXPECT_EQ(c->groups[0].kv_bytes_per_token, 3U * 128 * 2);
    EXPECT_EQ(c->groups[1].parts, 1536 / 32);
    EXPECT_EQ(c->groups[60].parts, 49152);
    EXPECT_EQ(c->groups[60].weight_bytes, 49152U * 576 / 32 * 34 + 576 * 4);
}

TEST(TensorCatalog, DescribesGemma3) {
    BALLAST_MODEL_OR_SKIP(path, "gemma-3-270m-q4_k_m");
    const auto reader = gguf::Reader::open(path);
    ASSERT_TRUE(reader.has_value());
    const auto c = model::catalog_of(**reader);
    ASSERT_TRUE(c.has_value());
    EXPECT_EQ(c->n_layers, 18);
    EXPECT_EQ(c->groups.size(), 37U);
    EXPECT_EQ(c->groups[0].window, 512);
    EXPECT_EQ(c->groups[10].window, 0);
    EXPECT_EQ(c->groups[0].parts, 1) << "one KV head";
    EXPECT_EQ(c->groups[0].attention_width, 1024);
    EXPECT_EQ(c->groups[36].parts, 262144);
}

}  // namespace
}  // namespace ballast::test
