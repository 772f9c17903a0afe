// SPDX-License-Identifier: MIT
// A valid file cut at every byte. Each cut is copied to memory of exactly its size, so that
// AddressSanitizer sees any read past its end; some are also opened as files.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/gguf/parse.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace ballast::gguf {
namespace {

using test::GgufWriter;
using test::TempDir;

// Some 12 KiB with every kind of value and tensors of several types; the last tensor ends the file.
std::string valid_file() {
    std::vector<std::string> tokens;
    for (int i = 0; i < 300; ++i) {
        tokens.push_back("token" + std::to_string(i));
    }
    return GgufWriter()
        .add("general.architecture", "llama")
        .add("general.name", "cut me")
        .add("llama.block_count", std::uint32_t{2})
        .add("llama.rope.freq_base", 10000.0F)
        .add("wide", 1.0)
        .add("flag", true)
        .add("tokenizer.ggml.tokens", tokens)
        .add("tokenizer.ggml.scores", std::vector<float>(300, -1.0F))
        .add("tokenizer.ggml.token_type", std::vector<std::int32_t>(300, 1))
        .add("bits", std::vector<bool>(20, true))
        .alignment(64)
        .tensor_f32("token_embd.weight", {4, 8}, std::vector<float>(32, 0.5F))
        .tensor("blk.0.attn_q.weight", quant::QuantType::kQ4_K, {256, 4}, std::string(576, 'q'))
        .tensor("output.weight", quant::QuantType::kQ8_0, {32, 3, 1, 2}, std::string(204, 'o'))
        .bytes();
}

TEST(GgufTruncation, EveryCutIsRefusedWithASentence) {
    const std::string whole = valid_file();
    ASSERT_LE(whole.size(), 20U * 1024);
    ASSERT_GE(whole.size(), 8U * 1024);
    for (std::size_t size = 0; size < whole.size(); ++size) {
        const auto copy = std::make_unique<std::byte[]>(size);
        std::memcpy(copy.get(), whole.data(), size);
        const auto contents = parse({copy.get(), size}, "cut.gguf");
        ASSERT_FALSE(contents) << "cut at " << size;
        ASSERT_EQ(contents.error().code, ErrorCode::kCorruptFile) << "cut at " << size;
        ASSERT_NE(contents.error().message.find("cut.gguf: "), std::string::npos) << size;
    }
    const auto contents = parse(std::as_bytes(std::span(whole)), "whole.gguf");
    ASSERT_TRUE(contents) << contents.error().message;
    EXPECT_EQ(contents->tensors.size(), 3U);
}

TEST(GgufTruncation, EveryShortPrefixIsRefusedAsAFileToo) {
    const std::string whole = valid_file();
    const TempDir dir;
    for (std::size_t size = 0; size <= 64; ++size) {
        const auto reader = Reader::open(dir.write("cut.gguf", whole.substr(0, size)));
        ASSERT_FALSE(reader) << size;
        EXPECT_EQ(reader.error().code, ErrorCode::kCorruptFile) << size;
    }
    for (std::size_t size = 65; size < whole.size(); size += 97) {
        ASSERT_FALSE(Reader::open(dir.write("cut.gguf", whole.substr(0, size)))) << size;
    }
    EXPECT_TRUE(Reader::open(dir.write("whole.gguf", whole)));
}

// Not every change makes a file wrong; none may make the parser misbehave, and a tensor that is
// accepted must lie inside the bytes.
TEST(GgufTruncation, NoChangeOfOneByteMisleadsTheParser) {
    const std::string whole = valid_file();
    int refused = 0;
    for (std::size_t at = 0; at < whole.size(); at += (at < 4096 ? 1 : 7)) {
        for (const int bit : {0, 7}) {
            std::string changed = whole;
            changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
            const auto contents = parse(std::as_bytes(std::span(changed)), "changed.gguf");
            if (!contents) {
                ++refused;
                continue;
            }
            for (const TensorInfo& tensor : contents->tensors) {
                const auto* begin = reinterpret_cast<const std::byte*>(changed.data());
                ASSERT_GE(tensor.data, begin);
                ASSERT_LE(tensor.data + tensor.size_bytes, begin + changed.size());
            }
        }
    }
    EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace ballast::gguf
