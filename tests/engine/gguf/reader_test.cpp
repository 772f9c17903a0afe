// SPDX-License-Identifier: MIT
// What a right file gives. tests/engine/gguf/malformed_test.cpp has the wrong ones.
#include "engine/gguf/reader.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace ballast::gguf {
namespace {

using test::GgufWriter;
using test::TempDir;

std::unique_ptr<Reader> open(const TempDir& dir, const GgufWriter& writer) {
    auto reader = Reader::open(dir.write("m.gguf", writer.bytes()));
    EXPECT_TRUE(reader) << reader.error().message;
    return reader ? std::move(*reader) : nullptr;
}

template <class T>
T value(const Reader& reader, std::string_view key) {
    const Value* found = reader.metadata().find(key);
    EXPECT_NE(found, nullptr) << key;
    const T* typed = found != nullptr ? std::get_if<T>(found) : nullptr;
    EXPECT_NE(typed, nullptr) << key << " has another type";
    return typed != nullptr ? *typed : T{};
}

TEST(GgufReader, WidensEveryScalarType) {
    const TempDir dir;
    const auto reader = open(dir,
                             GgufWriter()
                                 .add("u8", std::uint8_t{200})
                                 .add("i8", std::int8_t{-100})
                                 .add("u16", std::uint16_t{60000})
                                 .add("i16", std::int16_t{-30000})
                                 .add("u32", std::uint32_t{4000000000})
                                 .add("i32", std::int32_t{-2000000000})
                                 .add("u64", std::numeric_limits<std::uint64_t>::max())
                                 .add("i64", std::numeric_limits<std::int64_t>::min())
                                 .add("f32", 0.1F)
                                 .add("f64", 0.1)
                                 .add("yes", true)
                                 .add("no", false)
                                 .add("text", std::string_view("a\0b", 3))
                                 .add("nothing", ""));
    ASSERT_NE(reader, nullptr);
    EXPECT_EQ(value<std::uint64_t>(*reader, "u8"), 200U);
    EXPECT_EQ(value<std::int64_t>(*reader, "i8"), -100);
    EXPECT_EQ(value<std::uint64_t>(*reader, "u16"), 60000U);
    EXPECT_EQ(value<std::int64_t>(*reader, "i16"), -30000);
    EXPECT_EQ(value<std::uint64_t>(*reader, "u32"), 4000000000U);
    EXPECT_EQ(value<std::int64_t>(*reader, "i32"), -2000000000);
    EXPECT_EQ(value<std::uint64_t>(*reader, "u64"), std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(value<std::int64_t>(*reader, "i64"), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(value<double>(*reader, "f32"), static_cast<double>(0.1F));
    EXPECT_EQ(value<double>(*reader, "f64"), 0.1);
    EXPECT_TRUE(value<bool>(*reader, "yes"));
    EXPECT_FALSE(value<bool>(*reader, "no"));
    EXPECT_EQ(value<std::string_view>(*reader, "text"), std::string_view("a\0b", 3));
    EXPECT_EQ(value<std::string_view>(*reader, "nothing"), "");
    EXPECT_EQ(reader->metadata().pairs().size(), 14U);
}

TEST(GgufReader, WidensArrays) {
    const TempDir dir;
    const auto reader = open(dir,
                             GgufWriter()
                                 .add("u8", std::vector<std::uint8_t>{1, 255})
                                 .add("u32", std::vector<std::uint32_t>{7, 4000000000})
                                 .add("i32", std::vector<std::int32_t>{-7})
                                 .add("u64", std::vector<std::uint64_t>{})
                                 .add("i64", std::vector<std::int64_t>{-1, 1})
                                 .add("f32", std::vector<float>{1.5F, -2.0F})
                                 .add("f64", std::vector<double>{0.5, 1e300, -1e300})
                                 .add("bool", std::vector<bool>{true, false, true})
                                 .add("text", std::vector<std::string>{"", "b", "cc"}));
    ASSERT_NE(reader, nullptr);
    using Unsigned = std::vector<std::uint64_t>;
    using Signed = std::vector<std::int64_t>;
    EXPECT_EQ(value<Unsigned>(*reader, "u8"), (Unsigned{1, 255}));
    EXPECT_EQ(value<Unsigned>(*reader, "u32"), (Unsigned{7, 4000000000}));
    EXPECT_EQ(value<Signed>(*reader, "i32"), (Signed{-7}));
    EXPECT_TRUE(value<Unsigned>(*reader, "u64").empty());
    EXPECT_EQ(value<Signed>(*reader, "i64"), (Signed{-1, 1}));
    EXPECT_EQ(value<std::vector<float>>(*reader, "f32"), (std::vector<float>{1.5F, -2.0F}));
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(value<std::vector<float>>(*reader, "f64"),
              (std::vector<float>{0.5F, kInfinity, -kInfinity}));
    EXPECT_EQ(value<std::vector<bool>>(*reader, "bool"), (std::vector<bool>{true, false, true}));
    EXPECT_EQ(value<std::vector<std::string_view>>(*reader, "text"),
              (std::vector<std::string_view>{"", "b", "cc"}));
}

TEST(GgufReader, ListsTensorsInFileOrderAndFindsThemByName) {
    const TempDir dir;
    const std::string q8(3 * 34, '\x11');
    const auto reader = open(dir,
                             GgufWriter()
                                 .tensor_f32("z", {3, 2}, {1, 2, 3, 4, 5, 6})
                                 .tensor("a", quant::QuantType::kQ8_0, {32, 1, 3}, q8)
                                 .tensor_f32("m", {1, 1, 1, 1}, {9}));
    ASSERT_NE(reader, nullptr);
    ASSERT_EQ(reader->tensors().size(), 3U);
    const TensorInfo& z = reader->tensors()[0];
    EXPECT_EQ(z.name, "z");
    EXPECT_EQ(z.n_dims, 2U);
    EXPECT_EQ(z.n_elements(), 6U);
    EXPECT_EQ(z.size_bytes, 24U);
    EXPECT_EQ(z.shape[2], 1U);
    float values[6];
    std::memcpy(values, z.data, sizeof(values));
    EXPECT_EQ(values[5], 6.0F);
    const TensorInfo* a = reader->find_tensor("a");
    ASSERT_EQ(a, &reader->tensors()[1]);
    EXPECT_EQ(a->type, quant::QuantType::kQ8_0);
    EXPECT_EQ(a->size_bytes, q8.size());
    EXPECT_EQ(std::memcmp(a->data, q8.data(), q8.size()), 0);
    EXPECT_EQ(reader->find_tensor("m"), &reader->tensors()[2]);
    EXPECT_EQ(reader->find_tensor("b"), nullptr);
    EXPECT_EQ(reader->find_tensor(""), nullptr);
    EXPECT_EQ(reader->find_tensor("zz"), nullptr);
}

TEST(GgufReader, ReadsVersionsTwoAndThree) {
    const TempDir dir;
    for (const std::uint32_t version : {2U, 3U}) {
        const auto reader = open(dir, GgufWriter().version(version).add("k", true));
        ASSERT_NE(reader, nullptr);
        EXPECT_EQ(reader->version(), version);
    }
}

TEST(GgufReader, ObeysEveryAlignmentThatIsAllowed) {
    const TempDir dir;
    for (std::uint32_t alignment = 8; alignment <= 65536; alignment *= 2) {
        const auto reader = open(
            dir,
            GgufWriter().tensor_f32("a", {1}, {1}).tensor_f32("b", {1}, {2}).alignment(alignment));
        ASSERT_NE(reader, nullptr) << alignment;
        const auto at = reader->tensors()[1].data - reader->file().bytes().data();
        EXPECT_EQ(at % alignment, 0) << alignment;
        float second = 0;
        std::memcpy(&second, reader->tensors()[1].data, sizeof(second));
        EXPECT_EQ(second, 2.0F) << alignment;
    }
}

TEST(GgufReader, AcceptsTensorsInAnotherOrderThanTheirDataAndGapsBetweenThem) {
    const TempDir dir;
    GgufWriter writer;
    writer.tensor({.name = "late",
                   .type = 0,
                   .shape = {1},
                   .data = "AAAA",
                   .offset = 64,
                   .n_dims = std::nullopt});
    writer.tensor({.name = "early",
                   .type = 0,
                   .shape = {1},
                   .data = std::string(68, 'B'),
                   .offset = 0,
                   .n_dims = std::nullopt});
    const auto reader = open(dir, writer);
    ASSERT_NE(reader, nullptr);
    EXPECT_EQ(reader->tensors()[0].data - reader->tensors()[1].data, 64);
}

TEST(GgufReader, AcceptsAFileWithoutTensorsThatEndsBeforeThePadding) {
    const TempDir dir;
    const auto reader = open(dir, GgufWriter().add("general.architecture", "llama"));
    ASSERT_NE(reader, nullptr);
    EXPECT_TRUE(reader->tensors().empty());
    EXPECT_EQ(reader->find_tensor("a"), nullptr);
}

TEST(GgufReader, AcceptsTheLongestNames) {
    const TempDir dir;
    const auto reader = open(
        dir,
        GgufWriter().add(std::string(65535, 'k'), true).tensor_f32(std::string(64, 't'), {1}, {1}));
    ASSERT_NE(reader, nullptr);
    EXPECT_NE(reader->find_tensor(std::string(64, 't')), nullptr);
}

TEST(GgufReader, SaysWhichPathCannotBeOpened) {
    const TempDir dir;
    const auto absent = Reader::open(dir.path("absent.gguf"));
    ASSERT_FALSE(absent);
    EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
    EXPECT_NE(absent.error().message.find("absent.gguf"), std::string::npos);
    const auto folder = Reader::open(dir.path());
    ASSERT_FALSE(folder);
    EXPECT_EQ(folder.error().code, ErrorCode::kIo);
    const auto device = Reader::open("/dev/zero");
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, ErrorCode::kIo);
    const auto empty = Reader::open(dir.write("empty.gguf", ""));
    ASSERT_FALSE(empty);
    EXPECT_EQ(empty.error().code, ErrorCode::kCorruptFile);
}

// 200,000 tensors and 300,000 strings: with a quadratic step this would take minutes.
TEST(GgufReader, TakesTimeInProportionToTheFile) {
    const TempDir dir;
    GgufWriter writer;
    writer.alignment(8).add("tokens", std::vector<std::string>(300000, "token"));
    for (int i = 0; i < 200000; ++i) {
        writer.tensor_f32("t" + std::to_string(i), {1}, {1});
    }
    const std::string path = dir.write("many.gguf", writer.bytes());
    const auto start = std::chrono::steady_clock::now();
    const auto reader = Reader::open(path);
    const auto took = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(reader) << reader.error().message;
    EXPECT_EQ((*reader)->tensors().size(), 200000U);
    EXPECT_NE((*reader)->find_tensor("t199999"), nullptr);
    EXPECT_LT(took, std::chrono::seconds(20));
}

}  // namespace
}  // namespace ballast::gguf
