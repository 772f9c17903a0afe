// SPDX-License-Identifier: MIT
// One file a key, named by the key's hash; the key inside the file is what counts.
#include "engine/runtime/profile_file.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "engine/base/cpu_features.h"
#include "engine/base/system_info.h"
#include "scheduler/profile/profile_store.h"

namespace ballast::runtime {

namespace {

namespace fs = std::filesystem;

// Raised whenever figures of an older version would mislead.
constexpr int kFormatVersion = 1;
// A profile has some kilobytes; a file that is larger is none.
constexpr std::uintmax_t kFileBytesMax = 1 << 20;
// Profiles of other hardware that are looked at for the reason.
constexpr int kOthersMax = 64;

/// FNV-1a (Fowler, Noll, Vo): short, and the same in every build.
std::uint64_t hash(const std::string& text) {
    std::uint64_t value = 0xCBF29CE484222325ULL;
    for (const char c : text) {
        value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
    }
    return value;
}

/// Without what separates the key's parts, and without control characters.
std::string clean(const std::string& text) {
    std::string out = text;
    std::replace_if(
        out.begin(), out.end(), [](unsigned char c) { return c == ';' || c < 0x20; }, ' ');
    return out;
}

std::vector<std::string> parts_of(const std::string& key) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin < key.size();) {
        const std::size_t end = std::min(key.find("; ", begin), key.size());
        parts.push_back(key.substr(begin, end - begin));
        begin = end + 2;
    }
    return parts;
}

/// "threads" of "threads 2".
std::string name_of(const std::string& part) {
    return part.substr(0, part.find(' '));
}

Result<scheduler::HardwareProfile> read_profile(const fs::path& path) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(path, error);
    if (error || size > kFileBytesMax) {
        return fail(ErrorCode::kIo, fmt::format("{} cannot be read", path.string()));
    }
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file.good() && !file.eof()) {
        return fail(ErrorCode::kIo, fmt::format("{} cannot be read", path.string()));
    }
    return scheduler::parse_hardware(text, path.string());
}

/// The key of the profile in the folder that was measured last; "" if there is none.
std::string latest_key(const std::string& folder) {
    std::string key;
    std::string day;
    int n_seen = 0;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
        if (entry.path().extension() != ".json" || ++n_seen > kOthersMax) {
            continue;
        }
        const auto profile = read_profile(entry.path());
        if (profile && !profile->key.empty() && profile->measured_at >= day) {
            key = profile->key;
            day = profile->measured_at;
        }
    }
    return key;
}

}  // namespace

HardwareFacts detect_hardware(const kernels::KernelTable& kernels, int threads) {
    const CpuFeatures features = detect_cpu_features();
    return {.cpu = features.model_name,
            .cores = features.logical_cores,
            .isa = features.avx512 ? Isa::kAvx512
                   : features.avx2 ? Isa::kAvx2
                                   : Isa::kScalar,
            .ram_bytes = read_memory_info().total_bytes,
            .kernels = isa_name(kernels.isa),
            .threads = threads};
}

std::string hardware_key(const HardwareFacts& facts) {
    // The system keeps a part that differs from kernel to kernel, so that only whole GiB count.
    constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
    std::string devices;
    for (const std::string& device : facts.devices) {
        devices += (devices.empty() ? "" : ", ") + clean(device);
    }
    return fmt::format(
        "format {}; cpu {}; cores {}; isa {}; ram {} GiB; kernels {}; threads {}; devices {}",
        kFormatVersion,
        facts.cpu.empty() ? "unknown" : clean(facts.cpu),
        facts.cores,
        isa_name(facts.isa),
        (facts.ram_bytes + kGiB / 2) / kGiB,
        clean(facts.kernels),
        facts.threads,
        devices.empty() ? "none" : devices);
}

std::string key_difference(const std::string& stored, const std::string& current) {
    const std::vector<std::string> old_parts = parts_of(stored);
    std::string text;
    for (const std::string& part : parts_of(current)) {
        const std::string name = name_of(part);
        const auto old = std::find_if(old_parts.begin(), old_parts.end(), [&](const auto& other) {
            return name_of(other) == name;
        });
        if (old == old_parts.end()) {
            text += fmt::format("{}{}", text.empty() ? "" : "; ", part);
        } else if (*old != part) {
            text += fmt::format("{}{}, was {}",
                                text.empty() ? "" : "; ",
                                part,
                                old->substr(std::min(name.size() + 1, old->size())));
        }
    }
    return text;
}

std::string profile_path(const std::string& folder, const std::string& key) {
    return fmt::format("{}/{:016x}.json", folder, hash(key));
}

StoredProfile load_profile(const std::string& folder, const std::string& key) {
    if (folder.empty()) {
        return {.reason = "there is no place where one could be stored"};
    }
    const std::string path = profile_path(folder, key);
    std::error_code error;
    if (!fs::exists(path, error)) {
        const std::string other = latest_key(folder);
        if (other.empty()) {
            return {.reason = "none has been measured yet"};
        }
        return {.reason = "the hardware has changed: " + key_difference(other, key)};
    }
    auto profile = read_profile(path);
    if (!profile) {
        return {.reason = profile.error().message};
    }
    if (profile->key != key) {
        return {.reason = fmt::format(
                    "{} is of other hardware: {}", path, key_difference(profile->key, key))};
    }
    return {.profile = std::move(*profile)};
}

Status store_profile(const std::string& folder, const scheduler::HardwareProfile& profile) {
    const std::string path = profile_path(folder, profile.key);
    if (folder.empty()) {
        return fail(ErrorCode::kIo, "there is no folder for it: HOME is not set");
    }
    std::error_code error;
    fs::create_directories(folder, error);
    // Whoever reads meanwhile sees the old file or the new one, and never a part.
    const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << scheduler::write_hardware(profile);
    file.close();
    bool written = file.good();
    if (written) {
        fs::rename(temporary, path, error);
        written = !error;
    }
    if (!written) {
        fs::remove(temporary, error);
        return fail(ErrorCode::kIo, fmt::format("{} cannot be written", path));
    }
    return {};
}

scheduler::HardwareProfile empty_profile(const HardwareFacts& facts, std::int64_t unix_seconds) {
    scheduler::HardwareProfile profile;
    profile.name = "this-machine";
    profile.description = fmt::format("{}, {} cores, {} threads, {} kernels",
                                      facts.cpu.empty() ? "unknown processor" : clean(facts.cpu),
                                      facts.cores,
                                      facts.threads,
                                      facts.kernels);
    for (const std::string& device : facts.devices) {
        profile.description += "; " + clean(device);
    }
    profile.source = "measured by ballast profile";
    profile.has_device = false;  // until its figures are there
    profile.ram_gb = static_cast<double>(facts.ram_bytes) * 1e-9;
    profile.key = hardware_key(facts);
    profile.measured_at = utc_date(unix_seconds);
    return profile;
}

std::string utc_date(std::int64_t unix_seconds) {
    const std::chrono::sys_days day = std::chrono::floor<std::chrono::days>(
        std::chrono::sys_seconds(std::chrono::seconds(unix_seconds)));
    const std::chrono::year_month_day date(day);
    return fmt::format("{:04}-{:02}-{:02}",
                       static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()),
                       static_cast<unsigned>(date.day()));
}

}  // namespace ballast::runtime
