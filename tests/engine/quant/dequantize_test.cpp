// SPDX-License-Identifier: MIT
// Blocks of random bits against what the gguf Python package expands them to, bit for bit
// (tests/data/make_quant_blocks.py).
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/quant/dequantize.h"
#include "engine/quant/type_traits.h"
#include "tests/support/test_data.h"

namespace ballast::quant {
namespace {

std::vector<std::byte> from_hex(const std::string& hex) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    return bytes;
}

TEST(Dequantize, EqualsThePythonPackageForEveryTypeBitForBit) {
    const auto cases = test::read_json_lines(test::data_path("quant_blocks.jsonl"));
    ASSERT_EQ(cases.size(), all_types().size());
    for (const auto& one : cases) {
        const auto name = one.at("type").get<std::string>();
        const TypeTraits* type = find_type(one.at("number").get<std::uint32_t>());
        ASSERT_NE(type, nullptr) << name;
        EXPECT_EQ(type->name, name);
        EXPECT_EQ(type->block_elements, one.at("block_elements").get<std::uint32_t>()) << name;
        EXPECT_EQ(type->block_bytes, one.at("block_bytes").get<std::uint32_t>()) << name;
        ASSERT_NE(type->dequantize, nullptr) << name;

        const std::vector<std::byte> blocks = from_hex(one.at("blocks").get<std::string>());
        const std::vector<std::byte> expected = from_hex(one.at("float32").get<std::string>());
        std::vector<float> values(expected.size() / sizeof(float));
        ASSERT_EQ(blocks.size(), row_bytes(type->type, values.size())) << name;
        // From an odd address: blocks need not be aligned.
        std::vector<std::byte> shifted(blocks.size() + 1);
        std::memcpy(shifted.data() + 1, blocks.data(), blocks.size());
        type->dequantize(shifted.data() + 1, values.size(), values.data());
        for (std::size_t i = 0; i < values.size(); ++i) {
            std::uint32_t bits = 0;
            std::memcpy(&bits, expected.data() + i * sizeof(float), sizeof(bits));
            ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), bits) << name << " weight " << i;
        }
    }
}

TEST(Dequantize, WritesNothingWhenThereAreNoWeights) {
    for (const TypeTraits& type : all_types()) {
        const std::byte nothing{};
        float untouched = 7.0F;
        type.dequantize(&nothing, 0, &untouched);
        EXPECT_EQ(untouched, 7.0F) << type.name;
    }
}

TEST(Dequantize, ScalesOfMxfp4ReachIntoTheSubnormals) {
    EXPECT_EQ(mxfp4_scale(0), 0x1p-128F);
    EXPECT_EQ(mxfp4_scale(1), 0x1p-127F);
    EXPECT_EQ(mxfp4_scale(2), 0x1p-126F);
    EXPECT_EQ(mxfp4_scale(128), 1.0F);
    EXPECT_EQ(mxfp4_scale(254), 0x1p126F);
}

}  // namespace
}  // namespace ballast::quant
