// SPDX-License-Identifier: MIT
// The malformed files of the reference data: those that break the format are refused here, with
// the key or tensor named; those that only break a model are opened, and refused when the model or
// tokenizer is made from them. And every right file of the reference data opens.
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "engine/gguf/reader.h"
#include "tests/support/test_data.h"

namespace ballast::gguf {
namespace {

// File → what the message must contain beside the path.
const std::map<std::string, std::string> kRefused = {
    {"empty.gguf", "is empty"},
    {"short-magic.gguf", "not a GGUF file"},
    {"bad-magic.gguf", "not a GGUF file"},
    {"version-0.gguf", "GGUF version 0"},
    {"version-1.gguf", "GGUF version 1, which is no longer in use"},
    {"version-99.gguf", "GGUF version 99"},
    {"bigendian-version.gguf", "big-endian"},
    {"header-only.gguf", "claims 24 keys and"},
    {"trunc-kv.gguf", "claims 24 keys and"},
    {"trunc-vocab.gguf", "string 448 of key \"tokenizer.ggml.tokens\""},
    {"huge-kv-count.gguf", "1152921504606846976 keys"},
    {"huge-tensor-count.gguf", "1152921504606846976 tensors"},
    {"huge-key-len.gguf", "the name of key 1 of 1 at byte 24 claims 4611686018427387904 bytes"},
    {"huge-string-len.gguf", "the string of key \"general.architecture\""},
    {"huge-array-len.gguf", "key \"tokenizer.ggml.tokens\" at byte 24 claims 2305843009213693952"},
    {"nested-array.gguf", "key \"x.y\" at byte 24 is an array of arrays"},
    {"bad-value-type.gguf", "key \"x.y\" at byte 24 has the unknown value type 77"},
    {"dup-key.gguf", "key \"general.architecture\" at byte 69 is there twice"},
    {"tensor-type-999.gguf", "tensor \"token_embd.weight\" at byte 114 has type 999"},
    {"tensor-5-dims.gguf", "tensor \"token_embd.weight\" at byte 94 has 5 dimensions"},
    {"tensor-dim-overflow.gguf", "the shape of tensor \"token_embd.weight\""},
    {"tensor-dim-zero.gguf", "dimension 0 of tensor \"token_embd.weight\""},
    {"tensor-offset-out.gguf", "tensor \"token_embd.weight\" needs 4096 bytes at offset"},
    {"tensor-offset-unaligned.gguf", "the offset 3 of tensor \"token_embd.weight\""},
    {"tensor-row-not-block.gguf", "tensor \"token_embd.weight\" at byte 114 has rows of 40"},
    {"tensor-data-short.gguf", "tensor \"token_embd.weight\" needs 16384 bytes"},
    {"dup-tensor.gguf", "two tensors named \"token_embd.weight\""},
    {"alignment-24.gguf", "key \"general.alignment\" at byte 69 is 24"},
    {"alignment-0.gguf", "key \"general.alignment\" at byte 69 is 0"},
    {"model-data-cut.gguf", "tensor \"blk."},
};

// Right as files; the model or the tokenizer refuses them.
const std::set<std::string> kLeftToTheModel = {
    "no-arch.gguf",
    "unknown-arch.gguf",
    "arch-wrong-type.gguf",
    "arch-only.gguf",
    "missing-tensor.gguf",
    "wrong-shape.gguf",
    "missing-blockcount.gguf",
    "zero-heads.gguf",
    "head-not-dividing.gguf",
    "huge-blockcount.gguf",
    "no-tokens.gguf",
    "bos-out-of-range.gguf",
    "unknown-tokenizer.gguf",
    "kv-heads-not-dividing.gguf",
};

TEST(GgufReference, EveryMalformedFileIsRefusedHereOrLeftToTheModel) {
    BALLAST_REFDATA_OR_SKIP(index, "malformed/index.jsonl");
    std::size_t n_files = 0;
    for (const auto& line : test::read_json_lines(index)) {
        ++n_files;
        const auto file = line.at("file").get<std::string>();
        const auto reader = Reader::open(test::refdata_path("malformed/" + file));
        if (kLeftToTheModel.count(file) != 0) {
            EXPECT_TRUE(reader) << reader.error().message;
            continue;
        }
        const auto expected = kRefused.find(file);
        ASSERT_NE(expected, kRefused.end()) << file << " is in neither list";
        ASSERT_FALSE(reader) << file;
        const std::string& message = reader.error().message;
        EXPECT_TRUE(reader.error().code == ErrorCode::kCorruptFile ||
                    reader.error().code == ErrorCode::kUnsupported)
            << message;
        EXPECT_NE(message.find(file), std::string::npos) << message;
        EXPECT_NE(message.find(expected->second), std::string::npos) << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
    EXPECT_EQ(n_files, kRefused.size() + kLeftToTheModel.size());
}

TEST(GgufReference, EveryRightFileOpensUnlessATypeIsNotBuilt) {
    BALLAST_REFDATA_OR_SKIP(root, "quant/index.jsonl");
    const std::filesystem::path refdata = std::filesystem::path(root).parent_path().parent_path();
    int n_opened = 0;
    for (const char* folder : {"quant", "tiny", "split", "vocab"}) {
        for (const auto& entry : std::filesystem::directory_iterator(refdata / folder)) {
            if (entry.path().extension() != ".gguf") {
                continue;
            }
            const auto reader = Reader::open(entry.path().string());
            if (reader) {
                ++n_opened;
                continue;
            }
            EXPECT_EQ(reader.error().code, ErrorCode::kUnsupported) << reader.error().message;
            EXPECT_NE(reader.error().message.find(" has type "), std::string::npos)
                << reader.error().message;
        }
    }
    EXPECT_GE(n_opened, 60);
}

TEST(GgufReference, RealModelsOpen) {
    BALLAST_MODEL_OR_SKIP(path, "smollm2-135m-instruct-q4_1");
    const auto reader = Reader::open(path);
    ASSERT_TRUE(reader) << reader.error().message;
    EXPECT_EQ((*reader)->tensors().size(), 272U);
    EXPECT_EQ((*reader)->metadata().string("general.architecture").value(), "llama");
    EXPECT_EQ((*reader)->metadata().strings("tokenizer.ggml.tokens").value().size(), 49152U);
}

}  // namespace
}  // namespace ballast::gguf
