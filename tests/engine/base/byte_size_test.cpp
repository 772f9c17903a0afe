// SPDX-License-Identifier: MIT
#include "engine/base/byte_size.h"

#include <limits>

#include <gtest/gtest.h>

#include "engine/base/rng.h"

namespace ballast {
namespace {

std::uint64_t read(std::string_view text) {
    const auto bytes = parse_byte_size(text);
    EXPECT_TRUE(bytes.has_value()) << text;
    return bytes.value_or(0);
}

TEST(ByteSize, ReadsPlainBytesAndUnits) {
    EXPECT_EQ(read("0"), 0U);
    EXPECT_EQ(read("4096"), 4096U);
    EXPECT_EQ(read("7B"), 7U);
    EXPECT_EQ(read("3KiB"), 3072U);
    EXPECT_EQ(read("3KB"), 3000U);
    EXPECT_EQ(read("40MiB"), 41943040U);
    EXPECT_EQ(read("40MB"), 40000000U);
    EXPECT_EQ(read("6GiB"), 6442450944U);
    EXPECT_EQ(read("6GB"), 6000000000U);
    EXPECT_EQ(read("2TiB"), 2199023255552U);
    EXPECT_EQ(read("2TB"), 2000000000000U);
}

TEST(ByteSize, ReadsDecimalsASpaceAndAnyCase) {
    EXPECT_EQ(read("1.5GiB"), 1610612736U);
    EXPECT_EQ(read("0.25 mib"), 262144U);
    EXPECT_EQ(read("1.000000001TB"), 1000000001000U);
    EXPECT_EQ(read("1.999999999TiB"), 2199023254452U);
    EXPECT_EQ(read("1.9"), 1U);
    EXPECT_EQ(read("16 gb"), 16000000000U);
}

TEST(ByteSize, RefusesWhatIsNoSizeAndSaysHowOneIsWritten) {
    for (const std::string_view text : {"",
                                        " 1MiB",
                                        "MiB",
                                        "-1",
                                        "+1",
                                        "1M",
                                        "6G",
                                        "1 ",
                                        "1.",
                                        ".5GiB",
                                        "1.5.5GiB",
                                        "1e9",
                                        "1MiBs",
                                        "0x10",
                                        "1.0000000001GiB",
                                        "18446744073709551616",
                                        "16777216TiB",
                                        "17179869184GiB"}) {
        EXPECT_FALSE(parse_byte_size(text).has_value()) << text;
    }
    EXPECT_EQ(parse_byte_size("6G").error().message,
              "a size is written like 512MiB, 1.5GB or 4096, not \"6G\"");
}

TEST(ByteSize, WritesAWholeNumberThatReadsBack) {
    EXPECT_EQ(format_byte_size(0), "0");
    EXPECT_EQ(format_byte_size(41943040), "40MiB");
    EXPECT_EQ(format_byte_size(1500000000), "1500MB");
    EXPECT_EQ(format_byte_size(4097), "4097");
    EXPECT_EQ(format_byte_size(1024), "1KiB");
    Rng rng(5);
    for (int i = 0; i < 1000; ++i) {
        const std::uint64_t bytes = rng.next() >> rng.below(64) << rng.below(20);
        EXPECT_EQ(read(format_byte_size(bytes)), bytes);
    }
    const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
    EXPECT_EQ(read(format_byte_size(largest)), largest);
}

}  // namespace
}  // namespace ballast
