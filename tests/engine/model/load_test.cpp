// SPDX-License-Identifier: MIT
// Loading a model: each hyper-parameter and tensor that is missing, of the wrong type or out of
// range is named in one sentence.
#include <functional>
#include <limits>

#include "engine/runtime/loaded_model.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

namespace ballast::test {
namespace {

/// The error of loading what the writer writes, or "" if it loads.
std::string error_of(const GgufWriter& writer) {
    const TempDir dir;
    const std::string path = dir.path() + "/model.gguf";
    writer.write(path);
    const auto loaded = runtime::load_model(path, "");
    return loaded ? std::string() : loaded.error().message;
}

void expect_error(const TinyModelOptions& options, const std::string& part) {
    const std::string error = error_of(tiny_model(options));
    EXPECT_NE(error.find(part), std::string::npos) << "wanted: " << part << "\ngot: " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(LoadModel, TakesEveryKindOfTinyModel) {
    EXPECT_EQ(error_of(tiny_model({})), "");
    EXPECT_EQ(error_of(tiny_model({.n_experts = 4})), "");
    EXPECT_EQ(error_of(tiny_model({.architecture = "gemma3", .n_layers = 6, .n_kv_heads = 1})), "");
    EXPECT_EQ(error_of(tiny_model({.type = quant::QuantType::kQ4_1})), "");
}

TEST(LoadModel, NamesAHyperParameterThatIsOutOfRange) {
    expect_error({.architecture = "gpt5"}, "general.architecture is \"gpt5\"");
    expect_error({.n_layers = 0}, "llama.block_count is 0");
    expect_error({.n_kv_heads = 3}, "llama.attention.head_count_kv is 3");
    expect_error({.head_dim = 12}, "head width of 12");
    expect_error({.head_dim = 512}, "llama.attention.key_length is 512");
    expect_error({.context_length = 0}, "llama.context_length is 0");
    expect_error({.n_experts = 4, .n_experts_used = 5}, "llama.expert_used_count is 5");
    expect_error({.n_experts = 4, .n_experts_used = 0}, "llama.expert_used_count is 0");
    expect_error({.architecture = "gemma3", .n_experts = 4}, "gemma3.expert_count");
}

TEST(LoadModel, NamesAHyperParameterThatIsZero) {
    const std::vector<std::string> keys = {"block_count",
                                           "embedding_length",
                                           "feed_forward_length",
                                           "context_length",
                                           "attention.head_count",
                                           "attention.head_count_kv"};
    for (const std::string& zero : keys) {
        GgufWriter writer;
        writer.add("general.architecture", "llama")
            .add("llama.attention.layer_norm_rms_epsilon", 1e-5F);
        for (const std::string& key : keys) {
            writer.add("llama." + key, key == zero ? 0U : 4U);
        }
        const std::string error = error_of(writer);
        EXPECT_NE(error.find("llama." + zero + " is 0"), std::string::npos) << error;
    }
}

TEST(LoadModel, NamesATensorThatDoesNotFitTheHyperParameters) {
    GgufWriter extra = tiny_model({});
    extra.tensor_f32("blk.7.attn_norm.weight", {64}, std::vector<float>(64, 1.0F));
    EXPECT_NE(error_of(extra).find("tensor blk.7.attn_norm.weight belongs to no layer"),
              std::string::npos);
    GgufWriter output = tiny_model({});
    output.tensor_f32("output.weight", {64, 7}, std::vector<float>(64 * 7, 1.0F));
    EXPECT_NE(error_of(output).find("tensor output.weight has the shape [64, 7, 1, 1]"),
              std::string::npos);
    GgufWriter divisors = tiny_model({});
    divisors.tensor_f32("rope_freqs.weight", {8}, std::vector<float>(8, 0.0F));
    EXPECT_NE(error_of(divisors).find("rope_freqs.weight has the value 0"), std::string::npos);
}

TEST(LoadModel, NamesAnAbsentKeyAndAnAbsentTensor) {
    GgufWriter empty;
    empty.add("general.architecture", "llama");
    EXPECT_NE(error_of(empty).find("llama.block_count"), std::string::npos);
    GgufWriter no_tensors;
    no_tensors.add("general.architecture", "llama")
        .add("llama.block_count", 1U)
        .add("llama.embedding_length", 64U)
        .add("llama.feed_forward_length", 64U)
        .add("llama.context_length", 64U)
        .add("llama.attention.head_count", 4U)
        .add("llama.attention.layer_norm_rms_epsilon", 1e-5F)
        .add("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
    EXPECT_NE(error_of(no_tensors).find("tensor token_embd.weight is missing"), std::string::npos);
}

TEST(LoadModel, NamesATensorThatNoOpUses) {
    GgufWriter biased = tiny_model({});
    biased.tensor_f32("blk.0.attn_q.bias", {64}, std::vector<float>(64, 1.0F));
    EXPECT_NE(error_of(biased).find("tensor blk.0.attn_q.bias is not used"), std::string::npos);
}

TEST(LoadModel, RefusesNumbersThatAreNotFinite) {
    for (const float epsilon : {0.0F,
                                -1.0F,
                                std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()}) {
        GgufWriter writer;
        writer.add("general.architecture", "llama")
            .add("llama.block_count", 1U)
            .add("llama.embedding_length", 64U)
            .add("llama.feed_forward_length", 64U)
            .add("llama.context_length", 64U)
            .add("llama.attention.head_count", 4U)
            .add("llama.attention.layer_norm_rms_epsilon", epsilon);
        EXPECT_NE(error_of(writer).find("llama.attention.layer_norm_rms_epsilon"),
                  std::string::npos)
            << epsilon;
    }
}

TEST(LoadModel, RefusesEveryMalformedReferenceFileInOneSentence) {
    BALLAST_REFDATA_OR_SKIP(index, "malformed/index.jsonl");
    int n_files = 0;
    for (const auto& line : read_json_lines(index)) {
        const std::string path = refdata_path("malformed/" + line["file"].get<std::string>());
        const auto loaded = runtime::load_model(path, "");
        ++n_files;
        ASSERT_FALSE(loaded.has_value()) << path << ": " << line["fault"];
        EXPECT_NE(loaded.error().message.find(path), std::string::npos) << loaded.error().message;
        EXPECT_EQ(loaded.error().message.find('\n'), std::string::npos) << loaded.error().message;
    }
    EXPECT_EQ(n_files, 44);
}

TEST(LoadModel, SaysWhereTheChatTemplateComesFrom) {
    const TempDir dir;
    const std::string path = dir.path() + "/model.gguf";
    tiny_model({.chat_template = "{{ messages[0].content }}"}).write(path);
    const auto own = runtime::load_model(path, "");
    ASSERT_TRUE(own.has_value()) << own.error().message;
    EXPECT_TRUE(own->chat_template.has_value());
    EXPECT_EQ(own->chat_template_origin, "the model file");
    EXPECT_EQ(own->id, "model");

    const auto missing = runtime::load_model(path, dir.path() + "/none.jinja");
    ASSERT_FALSE(missing.has_value());
    EXPECT_NE(missing.error().message.find("none.jinja"), std::string::npos);

    tiny_model({.chat_template = "{% if %}"}).write(path);
    const auto broken = runtime::load_model(path, "");
    ASSERT_TRUE(broken.has_value()) << "a broken template must not keep the model from loading";
    EXPECT_FALSE(broken->chat_template.has_value());
    EXPECT_NE(broken->chat_template_error, "");
}

}  // namespace
}  // namespace ballast::test
