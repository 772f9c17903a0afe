// SPDX-License-Identifier: MIT
// Whole tensors of the reference data against the digests of their expanded arrays.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/gguf/reader.h"
#include "engine/quant/type_traits.h"
#include "tests/support/npy.h"
#include "tests/support/sha256.h"
#include "tests/support/test_data.h"

namespace ballast::quant {
namespace {

std::vector<float> expand(const gguf::TensorInfo& tensor) {
    std::vector<float> values(tensor.n_elements());
    traits(tensor.type).dequantize(tensor.data, values.size(), values.data());
    return values;
}

bool is_built(const std::string& name) {
    return std::any_of(all_types().begin(), all_types().end(), [&](const TypeTraits& type) {
        return type.name == name;
    });
}

TEST(Sha256, GivesTheDigestsOfTheStandard) {
    const std::string abc = "abc";
    EXPECT_EQ(test::sha256(std::as_bytes(std::span(abc))),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const std::string two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    EXPECT_EQ(test::sha256(std::as_bytes(std::span(two_blocks))),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(QuantReference, ExpandsWholeTensorsToTheReferenceDigest) {
    BALLAST_REFDATA_OR_SKIP(index, "quant/index.jsonl");
    int n_types = 0;
    for (const auto& line : test::read_json_lines(index)) {
        const auto type = line.at("type").get<std::string>();
        if (!is_built(type)) {
            continue;
        }
        ++n_types;
        auto reader =
            gguf::Reader::open(test::refdata_path("quant/" + line.at("file").get<std::string>()));
        ASSERT_TRUE(reader) << reader.error().message;
        for (const auto& [name, expected] : line.at("tensors").items()) {
            const gguf::TensorInfo* tensor = (*reader)->find_tensor(name);
            ASSERT_NE(tensor, nullptr) << type << " " << name;
            EXPECT_EQ(traits(tensor->type).name, expected.at("ggml_type").get<std::string>());
            const std::vector<float> values = expand(*tensor);
            EXPECT_EQ(test::sha256(std::as_bytes(std::span(values))),
                      expected.at("sha256_f32le").get<std::string>())
                << type << " " << name;
        }
    }
    EXPECT_EQ(n_types, 16);
}

TEST(QuantReference, ExpandsTheRowsStoredAsArrays) {
    BALLAST_REFDATA_OR_SKIP(index, "quant/index.jsonl");
    for (const TypeTraits& type : all_types()) {
        std::string stem(type.name);
        std::transform(stem.begin(), stem.end(), stem.begin(), [](char c) {
            return static_cast<char>(std::tolower(c));
        });
        const auto rows = test::read_npz(test::refdata_path("quant/" + stem + ".npz"),
                                         "blk.0.ffn_up.weight[0:32]");
        ASSERT_TRUE(rows) << rows.error().message;
        auto reader = gguf::Reader::open(test::refdata_path("quant/" + stem + ".gguf"));
        ASSERT_TRUE(reader) << reader.error().message;
        const std::vector<float> all = expand(*(*reader)->find_tensor("blk.0.ffn_up.weight"));
        ASSERT_EQ(rows->shape, (std::vector<std::size_t>{32, 256}));
        EXPECT_TRUE(std::equal(rows->values.begin(), rows->values.end(), all.begin())) << stem;
    }
}

}  // namespace
}  // namespace ballast::quant
