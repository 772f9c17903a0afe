// SPDX-License-Identifier: MIT
// Wrong files made here, one family of faults a test. Each is parsed from memory of exactly its
// size, so that AddressSanitizer sees any read past its end.
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/gguf/parse.h"
#include "tests/support/gguf_writer.h"

namespace ballast::gguf {
namespace {

using test::gguf_string;
using test::GgufTensor;
using test::GgufWriter;
using test::le_bytes;

constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kMax32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;
using Numbers = std::vector<std::uint64_t>;

/// Whether the bytes are refused with this code and a message that names the path and the fault.
::testing::AssertionResult refused(const std::string& bytes,
                                   const std::string& fault,
                                   ErrorCode code = ErrorCode::kCorruptFile) {
    const auto copy = std::make_unique<std::byte[]>(bytes.size());
    std::memcpy(copy.get(), bytes.data(), bytes.size());
    const auto contents = parse({copy.get(), bytes.size()}, "/models/bad.gguf");
    if (contents) {
        return ::testing::AssertionFailure() << "it was accepted";
    }
    const std::string& message = contents.error().message;
    if (contents.error().code != code || !message.starts_with("cannot load /models/bad.gguf: ") ||
        message.find(fault) == std::string::npos) {
        return ::testing::AssertionFailure() << message << " (wanted: " << fault << ")";
    }
    return ::testing::AssertionSuccess();
}

::testing::AssertionResult refused(const GgufWriter& writer,
                                   const std::string& fault,
                                   ErrorCode code = ErrorCode::kCorruptFile) {
    return refused(writer.bytes(), fault, code);
}

GgufTensor tensor(std::vector<std::uint64_t> shape, std::uint32_t type = 0) {
    return {.name = "w",
            .type = type,
            .shape = std::move(shape),
            .data = std::string(64, 'd'),
            .offset = std::nullopt,
            .n_dims = std::nullopt};
}

TEST(GgufMalformed, RefusesAnotherMagic) {
    EXPECT_TRUE(refused(GgufWriter().magic("GGML"), "not a GGUF file"));
    EXPECT_TRUE(refused(GgufWriter().magic("gguf"), "not a GGUF file"));
    EXPECT_TRUE(refused(std::string("GG"), "not a GGUF file"));
    EXPECT_TRUE(refused(std::string(), "not a GGUF file"));
    EXPECT_TRUE(refused(std::string("GGUF"), "ends inside the header"));
}

TEST(GgufMalformed, HasASentenceOfItsOwnForVersionsThatExist) {
    constexpr ErrorCode kCode = ErrorCode::kUnsupported;
    EXPECT_TRUE(refused(GgufWriter().version(1), "version 1, which is no longer in use", kCode));
    EXPECT_TRUE(refused(GgufWriter().version(0x02000000), "big-endian", kCode));
    EXPECT_TRUE(refused(GgufWriter().version(0x03000000), "big-endian", kCode));
    EXPECT_TRUE(refused(GgufWriter().version(0), "GGUF version 0;", kCode));
    EXPECT_TRUE(refused(GgufWriter().version(4), "GGUF version 4;", kCode));
    EXPECT_TRUE(refused(GgufWriter().version(kMax32), "GGUF version 4294967295;", kCode));
}

TEST(GgufMalformed, RefusesCountsThatTheFileHasNoRoomFor) {
    for (const std::uint64_t count : Numbers{3, 1ULL << 31, 1ULL << 59, 1ULL << 61, kMax64}) {
        EXPECT_TRUE(refused(GgufWriter().add("k", true).key_count(count),
                            "claims " + std::to_string(count) + " keys"));
        EXPECT_TRUE(refused(GgufWriter().add("k", true).tensor_count(count),
                            std::to_string(count) + " tensors"));
    }
    // Room for the count, but not for what it counts.
    EXPECT_TRUE(refused(GgufWriter().add("a.key.of.some.length", "v").key_count(2),
                        "the file ends inside the name of key 2 of 2"));
    EXPECT_TRUE(
        refused(GgufWriter().tensor(tensor({16})).tensor_count(2), "name of tensor 2 of 2"));
}

TEST(GgufMalformed, RefusesStringsLongerThanTheFile) {
    for (const std::uint64_t length : Numbers{100, 1ULL << 31, 1ULL << 63, kMax64 - 7, kMax64}) {
        const std::string claims = "claims " + std::to_string(length) + " bytes";
        EXPECT_TRUE(refused(GgufWriter().add_raw("key", 7, "\x01", length),
                            "the name of key 1 of 1 at byte 24 " + claims));
        EXPECT_TRUE(refused(GgufWriter().add_raw("a.b", kString, le_bytes(length) + "text"),
                            "the string of key \"a.b\" at byte 39 " + claims));
        const std::string array = le_bytes(kString) + le_bytes(std::uint64_t{2}) +
                                  gguf_string("x") + le_bytes(length) + "yz";
        EXPECT_TRUE(refused(GgufWriter().add_raw("a.b", kArray, array),
                            "string 1 of key \"a.b\" at byte 60 " + claims));
    }
}

TEST(GgufMalformed, RefusesArraysLongerThanTheFileForEveryElementType) {
    for (const std::uint32_t type : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 10U, 11U, 12U}) {
        for (const std::uint64_t count :
             Numbers{65, 1ULL << 32, 1ULL << 61, 1ULL << 62, 1ULL << 63, kMax64}) {
            std::string value = le_bytes(type) + le_bytes(count);
            value.resize(value.size() + 64);
            EXPECT_TRUE(refused(GgufWriter().add_raw("a.b", kArray, value),
                                "the array of key \"a.b\" at byte 24 claims " +
                                    std::to_string(count) + " elements"))
                << type;
        }
    }
}

TEST(GgufMalformed, RefusesArraysThatWouldTakeMoreMemoryThanAnyModelNeeds) {
    // 34 million bytes would become as many 64-bit numbers.
    EXPECT_TRUE(refused(GgufWriter().add("a.b", std::vector<std::uint8_t>(34'000'000, 1)),
                        "the array of key \"a.b\" would take the memory",
                        ErrorCode::kUnsupported));
    GgufWriter many;
    for (int i = 0; i < 40; ++i) {
        many.add("a" + std::to_string(i), std::vector<std::uint8_t>(1'000'000, 1));
    }
    EXPECT_TRUE(refused(many, "the array of key \"a33\" would take", ErrorCode::kUnsupported));
}

TEST(GgufMalformed, RefusesValueTypesThatDoNotExist) {
    for (const std::uint32_t type : {13U, 77U, kMax32}) {
        const std::string fault =
            "key \"a.b\" at byte 24 has the unknown value type " + std::to_string(type);
        EXPECT_TRUE(refused(GgufWriter().add_raw("a.b", type, std::string(16, '\0')), fault));
        const std::string array = le_bytes(type) + le_bytes(std::uint64_t{0});
        EXPECT_TRUE(refused(GgufWriter().add_raw("a.b", kArray, array), fault));
    }
}

TEST(GgufMalformed, RefusesArraysOfArrays) {
    const std::string inner = le_bytes(kArray) + le_bytes(std::uint64_t{0});
    const std::string outer = le_bytes(kArray) + le_bytes(std::uint64_t{1}) + inner;
    EXPECT_TRUE(refused(GgufWriter().add_raw("a.b", kArray, outer),
                        "key \"a.b\" at byte 24 is an array of arrays",
                        ErrorCode::kUnsupported));
}

TEST(GgufMalformed, RefusesBooleansThatAreNeitherTrueNorFalse) {
    EXPECT_TRUE(refused(GgufWriter().add_raw("a.b", 7, "\x02"),
                        "key \"a.b\" at byte 24 has a boolean of 2"));
    const std::string array = le_bytes(std::uint32_t{7}) + le_bytes(std::uint64_t{2}) + "\x01\xff";
    EXPECT_TRUE(refused(GgufWriter().add_raw("a.b", kArray, array), "has a boolean of 255"));
}

TEST(GgufMalformed, RefusesKeysThatAreEmptyTooLongOrThereTwice) {
    EXPECT_TRUE(refused(GgufWriter().add("", true), "the name of key 1 of 1 at byte 24 is empty"));
    EXPECT_TRUE(refused(GgufWriter().add(std::string(65536, 'k'), true), "has 65536 bytes"));
    EXPECT_TRUE(refused(GgufWriter().add("a.b", true).add("c", true).add("a.b", 1.0F),
                        "key \"a.b\" at byte 54 is there twice"));
}

TEST(GgufMalformed, RefusesAlignmentsThatAreNoPowerOfTwoFrom8To65536) {
    for (const std::uint32_t bytes :
         {0U, 1U, 3U, 4U, 12U, 13U, 24U, 48U, 131072U, 1U << 30, 1U << 31, kMax32}) {
        EXPECT_TRUE(refused(GgufWriter().add("general.alignment", bytes).tensor(tensor({16})),
                            "key \"general.alignment\" at byte 24 is " + std::to_string(bytes)));
    }
}

TEST(GgufMalformed, RefusesAlignmentsOfAnotherType) {
    const std::string fault =
        "key \"general.alignment\" at byte 24 is not a 32-bit unsigned integer";
    const char* key = "general.alignment";
    EXPECT_TRUE(refused(GgufWriter().add(key, std::uint64_t{32}), fault));
    EXPECT_TRUE(refused(GgufWriter().add(key, std::uint16_t{32}), fault));
    EXPECT_TRUE(refused(GgufWriter().add(key, std::int32_t{32}), fault));
    EXPECT_TRUE(refused(GgufWriter().add(key, 32.0F), fault));
    EXPECT_TRUE(refused(GgufWriter().add(key, true), fault));
    EXPECT_TRUE(refused(GgufWriter().add(key, "32"), fault));
    EXPECT_TRUE(refused(GgufWriter().add(key, std::vector<std::uint32_t>{32}), fault));
}

TEST(GgufMalformed, RefusesNumbersOfDimensionsThatDoNotExist) {
    for (const std::uint32_t n_dims : {0U, 5U, 1000U, 1U << 31, kMax32}) {
        GgufTensor bad = tensor({16});
        bad.n_dims = n_dims;
        EXPECT_TRUE(
            refused(GgufWriter().tensor(bad),
                    "tensor \"w\" at byte 33 has " + std::to_string(n_dims) + " dimensions"));
    }
}

TEST(GgufMalformed, RefusesAZeroInEachDimensionForEachType) {
    for (const quant::TypeTraits& type : quant::all_types()) {
        for (std::size_t zero = 0; zero < 4; ++zero) {
            std::vector<std::uint64_t> shape = {256, 2, 2, 2};
            shape[zero] = 0;
            EXPECT_TRUE(
                refused(GgufWriter().tensor(tensor(shape, static_cast<std::uint32_t>(type.type))),
                        "dimension " + std::to_string(zero) + " of tensor \"w\""));
        }
    }
}

TEST(GgufMalformed, RefusesShapesWhoseProductWraps) {
    const std::vector<std::vector<std::uint64_t>> shapes = {
        {1ULL << 63},
        {kMax64},
        {1ULL << 32, 1ULL << 32},
        {(1ULL << 42) + 1, 1ULL << 22},
        {1ULL << 32, 1, 1ULL << 32},
        {1ULL << 22, 1ULL << 21, 1ULL << 21},
        {1ULL << 16, 1ULL << 16, 1ULL << 16, 1ULL << 16},
        {4, 1073741823, 1073741825, 3},
        {3, 6148914691236517206},  // 3 times it is 2^64 + 2
    };
    for (const auto& shape : shapes) {
        EXPECT_TRUE(refused(GgufWriter().tensor(tensor(shape)), "the shape of tensor \"w\""));
    }
}

TEST(GgufMalformed, RefusesTensorsWhoseBytesWrapOrAreNotInTheFile) {
    // 2^62 elements fit, their 2^64 bytes do not.
    EXPECT_TRUE(refused(GgufWriter().tensor(tensor({1ULL << 62})), "the size of tensor \"w\""));
    EXPECT_TRUE(refused(GgufWriter().tensor(tensor({4, 1073741823, 1073741825, 2})),
                        "the size of tensor \"w\""));
    // 2^64 - 16 bytes fit; rounded up to the alignment they would be 0.
    EXPECT_TRUE(refused(GgufWriter().tensor(tensor({4, 1073741823, 1073741825, 1})),
                        "tensor \"w\" needs 18446744073709551600 bytes"));
    EXPECT_TRUE(refused(GgufWriter().tensor(tensor({1ULL << 42})), "tensor \"w\" needs"));
    EXPECT_TRUE(refused(GgufWriter().tensor(tensor({17})), "tensor \"w\" needs 68 bytes"));
    // Two whose sizes add up to a small number when they wrap.
    GgufTensor second = tensor({0x3FFFFFFFFFFFFFE0});
    second.name = "v";
    EXPECT_TRUE(
        refused(GgufWriter().tensor(tensor({0x3FFFFFFFFFFFFFE0})).tensor(second), "\"w\" needs"));
}

TEST(GgufMalformed, RefusesRowsThatAreNotWholeBlocks) {
    for (const quant::TypeTraits& type : quant::all_types()) {
        if (type.block_elements == 1) {
            continue;
        }
        for (const std::uint64_t row : {std::uint64_t{1}, std::uint64_t{type.block_elements} + 8}) {
            // As many elements as whole blocks: only the row is wrong.
            const std::vector<std::uint64_t> shape = {row, type.block_elements};
            EXPECT_TRUE(
                refused(GgufWriter().tensor(tensor(shape, static_cast<std::uint32_t>(type.type))),
                        "has rows of " + std::to_string(row) + " elements"))
                << type.name;
        }
    }
}

TEST(GgufMalformed, NamesTypesThatCannotBeRead) {
    constexpr ErrorCode kCode = ErrorCode::kUnsupported;
    EXPECT_TRUE(refused(GgufWriter().tensor(tensor({256}, 16)),
                        "tensor \"w\" at byte 45 has type 16 (IQ2_XXS), which cannot be read",
                        kCode));
    for (const std::uint32_t type : {4U, 5U, 31U, 999U, kMax32}) {
        EXPECT_TRUE(refused(GgufWriter().tensor(tensor({256}, type)),
                            "has type " + std::to_string(type) + " (unknown",
                            kCode));
    }
}

TEST(GgufMalformed, RefusesOffsetsOutsideTheDataOrNotAligned) {
    for (const std::uint64_t offset : Numbers{1, 3, 16, kMax64}) {
        GgufTensor bad = tensor({1});
        bad.offset = offset;
        EXPECT_TRUE(refused(GgufWriter().tensor(bad),
                            "the offset " + std::to_string(offset) + " of tensor \"w\" is not"));
    }
    for (const std::uint64_t offset : Numbers{64, 96, 1ULL << 40, 1ULL << 63, kMax64 - 31}) {
        GgufTensor bad = tensor({1});
        bad.offset = offset;
        EXPECT_TRUE(refused(GgufWriter().tensor(bad),
                            "tensor \"w\" needs 4 bytes at offset " + std::to_string(offset)));
    }
}

TEST(GgufMalformed, RefusesTensorsThatOverlap) {
    GgufTensor second = tensor({16});
    second.name = "v";
    for (const std::uint64_t offset : Numbers{0, 32}) {
        second.offset = offset;
        EXPECT_TRUE(
            refused(GgufWriter().tensor(tensor({16})).tensor(second), " overlap at offset"));
    }
    second.offset = 64;
    GgufTensor between = tensor({16});
    between.name = "u";
    between.offset = 32;
    EXPECT_TRUE(refused(GgufWriter().tensor(tensor({8})).tensor(second).tensor(between),
                        "tensors \"u\" and \"v\" overlap at offset 64"));
}

TEST(GgufMalformed, RefusesDataLaidOutByAnotherAlignmentThanStated) {
    GgufTensor second = tensor({16});
    second.name = "v";
    GgufTensor first = tensor({8});
    first.data = std::string(32, 'd');
    EXPECT_TRUE(refused(GgufWriter()
                            .add("general.alignment", std::uint32_t{64})
                            .layout_alignment(32)
                            .tensor(first)
                            .tensor(second),
                        "the offset 32 of tensor \"v\" is not a multiple of 64"));
}

TEST(GgufMalformed, RefusesTensorNamesThatAreEmptyTooLongOrThereTwice) {
    GgufTensor bad = tensor({16});
    bad.name = "";
    EXPECT_TRUE(refused(GgufWriter().tensor(bad), "the name of tensor 1 of 1 at byte 24 is empty"));
    bad.name = std::string(65, 'n');
    EXPECT_TRUE(refused(GgufWriter().tensor(bad), "has 65 bytes; 64 are allowed"));
    EXPECT_TRUE(refused(GgufWriter().tensor(tensor({16})).tensor(tensor({16})),
                        "there are two tensors named \"w\""));
}

TEST(GgufMalformed, PutsNoControlCharactersOfTheFileIntoMessages) {
    const std::string key = "a\n\x1b[2J\"\\" + std::string(200, 'x');
    const std::string bytes = GgufWriter().add_raw(key, 99, "").bytes();
    const auto contents = parse(std::as_bytes(std::span(bytes)), "p");
    ASSERT_FALSE(contents);
    const std::string& message = contents.error().message;
    EXPECT_NE(message.find("key \"a\\x0a\\x1b[2J\\x22\\x5cxxx"), std::string::npos) << message;
    EXPECT_LT(message.size(), 200U);
    for (const char c : message) {
        EXPECT_TRUE(c >= ' ' && c <= '~');
    }
}

}  // namespace
}  // namespace ballast::gguf
