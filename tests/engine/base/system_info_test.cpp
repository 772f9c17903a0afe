// SPDX-License-Identifier: MIT
#include "engine/base/system_info.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "engine/base/units.h"
#include "tests/support/temp_dir.h"

namespace ballast {
namespace {

TEST(SystemInfo, ReadsTheTwoLinesOfMeminfo) {
    const test::TempDir folder;
    const std::string file =
        folder.write("meminfo", "MemTotal:       24691028 kB\nMemFree: 1 kB\nMemAvailable: 7 kB\n");
    EXPECT_EQ(read_memory_info(file).total_bytes, 24691028 * kKiB);
    EXPECT_EQ(read_memory_info(file).available_bytes, 7 * kKiB);
    EXPECT_EQ(read_memory_info(folder.path("none")).total_bytes, 0U);
}

TEST(SystemInfo, AddsUpEachCacheOfTheLastLevelOnce) {
    const test::TempDir folder;
    const auto add = [&](const std::string& index,
                         const std::string& level,
                         const std::string& size,
                         const std::string& shared) {
        std::filesystem::create_directories(folder.path(index));
        folder.write(index + "/level", level + "\n");
        folder.write(index + "/size", size + "\n");
        folder.write(index + "/shared_cpu_list", shared + "\n");
    };
    EXPECT_EQ(last_level_cache_bytes(folder.path()), 0U);
    EXPECT_EQ(last_level_cache_bytes(folder.path("none")), 0U);
    // Two chiplets of two processors each.
    for (const int cpu : {0, 1, 2, 3}) {
        const std::string cache = "cpu" + std::to_string(cpu) + "/cache/";
        add(cache + "index2", "2", "1024K", std::to_string(cpu));
        add(cache + "index3", "3", "32M", cpu < 2 ? "0-1" : "2-3");
    }
    std::filesystem::create_directories(folder.path("cpufreq"));
    EXPECT_EQ(last_level_cache_bytes(folder.path()), 64 * kMiB);
}

}  // namespace
}  // namespace ballast
