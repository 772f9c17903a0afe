// SPDX-License-Identifier: MIT
// Small text files of /proc and /sys.
#include "engine/base/system_info.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>

#include "engine/base/units.h"

namespace ballast {

namespace {

std::string first_line(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

/// "512K" or "32M" in bytes.
std::uint64_t parse_size(const std::string& text) {
    const std::uint64_t number = std::strtoull(text.c_str(), nullptr, 10);
    const char unit = text.empty() ? ' ' : text.back();
    return number * (unit == 'K' ? kKiB : unit == 'M' ? kMiB : 1);
}

/// "cpu0", but not "cpufreq".
bool is_processor(const std::string& name) {
    return name.size() > 3 && name.starts_with("cpu") &&
           std::all_of(
               name.begin() + 3, name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

MemoryInfo read_memory_info(const std::string& file) {
    MemoryInfo info;
    std::ifstream meminfo(file);
    for (std::string line; std::getline(meminfo, line);) {
        const auto read = [&](std::string_view name, std::uint64_t& bytes) {
            if (line.starts_with(name)) {
                bytes = std::strtoull(line.c_str() + name.size(), nullptr, 10) * kKiB;
            }
        };
        read("MemTotal:", info.total_bytes);
        read("MemAvailable:", info.available_bytes);
    }
    return info;
}

std::uint64_t last_level_cache_bytes(const std::string& folder) {
    namespace fs = std::filesystem;
    int highest = 0;
    // A cache is known by the processors that share it.
    std::map<std::string, std::uint64_t> caches;
    std::error_code error;
    for (const fs::directory_entry& processor : fs::directory_iterator(folder, error)) {
        if (!is_processor(processor.path().filename().string())) {
            continue;
        }
        for (const fs::directory_entry& cache :
             fs::directory_iterator(processor.path() / "cache", error)) {
            const int level = std::atoi(first_line(cache.path() / "level").c_str());
            const std::uint64_t size = parse_size(first_line(cache.path() / "size"));
            if (level < highest || size == 0) {
                continue;
            }
            if (level > highest) {
                highest = level;
                caches.clear();
            }
            caches[first_line(cache.path() / "shared_cpu_list")] = size;
        }
    }
    std::uint64_t sum = 0;
    for (const auto& [processors, size] : caches) {
        sum += size;
    }
    return sum;
}

}  // namespace ballast
