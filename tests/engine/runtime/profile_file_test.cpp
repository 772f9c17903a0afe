// SPDX-License-Identifier: MIT
#include "engine/runtime/profile_file.h"

#include <filesystem>
#include <iterator>

#include <gtest/gtest.h>

#include "scheduler/profile/profile_store.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_data.h"

namespace ballast::runtime {
namespace {

HardwareFacts facts() {
    return {.cpu = "Some Processor",
            .cores = 8,
            .isa = Isa::kAvx2,
            .ram_bytes = (std::uint64_t{32} << 30U) - 400'000'000,
            .kernels = "avx2",
            .threads = 8};
}

scheduler::HardwareProfile profile(const HardwareFacts& of, std::int64_t unix_seconds = 0) {
    scheduler::HardwareProfile made = empty_profile(of, unix_seconds);
    made.cpu_read_gbps = 40.0;
    made.dram_gbps = 40.0;
    made.cpu_tflops = 0.5;
    return made;
}

TEST(ProfileFile, KeyNamesAllThatAProfileDependsOn) {
    EXPECT_EQ(hardware_key(facts()),
              "format 1; cpu Some Processor; cores 8; isa avx2; ram 32 GiB; kernels avx2; "
              "threads 8; devices none");
    HardwareFacts odd = facts();
    odd.cpu = "a; b\n";
    odd.devices = {"GPU; x", "other"};
    EXPECT_EQ(hardware_key(odd),
              "format 1; cpu a  b ; cores 8; isa avx2; ram 32 GiB; kernels avx2; threads 8; "
              "devices GPU  x, other");
    // What the system keeps for itself changes from one kernel to the next.
    HardwareFacts other = facts();
    other.ram_bytes += 50'000'000;
    EXPECT_EQ(hardware_key(other), hardware_key(facts()));
}

TEST(ProfileFile, SaysWhatDiffers) {
    HardwareFacts other = facts();
    EXPECT_EQ(key_difference(hardware_key(other), hardware_key(facts())), "");
    other.threads = 2;
    other.devices = {"card"};
    EXPECT_EQ(key_difference(hardware_key(other), hardware_key(facts())),
              "threads 8, was 2; devices none, was card");
    EXPECT_EQ(key_difference("format 0", "format 1; cpu x"), "format 1, was 0; cpu x");
    EXPECT_EQ(key_difference("", "format 1"), "format 1");
    EXPECT_EQ(key_difference("format", "format 1"), "format 1, was ");
}

TEST(ProfileFile, KeepsAProfileUnderItsKey) {
    const test::TempDir folder;
    const std::string place = folder.path("a/b");
    const std::string key = hardware_key(facts());
    EXPECT_EQ(load_profile(place, key).reason, "none has been measured yet");
    ASSERT_TRUE(store_profile(place, profile(facts())));
    const StoredProfile stored = load_profile(place, key);
    ASSERT_TRUE(stored.profile) << stored.reason;
    EXPECT_EQ(stored.reason, "");
    EXPECT_EQ(*stored.profile, profile(facts()));
    // Nothing else is left in the folder, and a second one takes the first one's place.
    ASSERT_TRUE(store_profile(place, profile(facts(), 86'400)));
    EXPECT_EQ(load_profile(place, key).profile->measured_at, "1970-01-02");
    const std::filesystem::directory_iterator files(place);
    EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(ProfileFile, NoticesThatTheHardwareHasChanged) {
    const test::TempDir folder;
    HardwareFacts before = facts();
    before.ram_bytes /= 2;
    ASSERT_TRUE(store_profile(folder.path(), profile(before, 86'400)));
    before.threads = 1;
    ASSERT_TRUE(store_profile(folder.path(), profile(before, 0)));
    const StoredProfile now = load_profile(folder.path(), hardware_key(facts()));
    EXPECT_FALSE(now.profile);
    // Compared with the one that was measured last.
    EXPECT_EQ(now.reason, "the hardware has changed: ram 32 GiB, was 16 GiB");
    // Both are kept, so that the old machine is known when it comes back.
    ASSERT_TRUE(store_profile(folder.path(), profile(facts())));
    EXPECT_TRUE(load_profile(folder.path(), hardware_key(before)).profile);
    EXPECT_TRUE(load_profile(folder.path(), hardware_key(facts())).profile);
}

TEST(ProfileFile, KeepsAMachineWithADeviceApartFromTheSameWithout) {
    const test::TempDir folder;
    HardwareFacts with = facts();
    with.devices = {"host (cpu (avx2, 8 threads), 256MiB)"};
    scheduler::HardwareProfile measured = profile(with);
    measured.has_device = true;
    measured.link_gbps = 3.0;
    measured.device_read_gbps = 20.0;
    measured.device_tflops = 0.25;
    measured.hop_us = 8.0;
    ASSERT_TRUE(store_profile(folder.path(), measured));
    EXPECT_NE(measured.description.find("; host (cpu"), std::string::npos);
    const StoredProfile without = load_profile(folder.path(), hardware_key(facts()));
    EXPECT_FALSE(without.profile);
    EXPECT_EQ(without.reason,
              "the hardware has changed: devices none, was host (cpu (avx2, 8 threads), 256MiB)");
    const StoredProfile found = load_profile(folder.path(), hardware_key(with));
    ASSERT_TRUE(found.profile) << found.reason;
    EXPECT_EQ(*found.profile, measured);
    ASSERT_TRUE(store_profile(folder.path(), profile(facts())));
    EXPECT_FALSE(load_profile(folder.path(), hardware_key(facts())).profile->has_device);
    EXPECT_TRUE(load_profile(folder.path(), hardware_key(with)).profile->has_device);
}

TEST(ProfileFile, IsMeasuredAgainWhereItIsDamaged) {
    const test::TempDir folder;
    const std::string key = hardware_key(facts());
    ASSERT_TRUE(store_profile(folder.path(), profile(facts())));
    const std::string path = profile_path(folder.path(), key);
    const std::string whole = test::read_file(path);
    const std::string name = std::filesystem::path(path).filename().string();
    for (const std::size_t length : {std::size_t{0}, whole.size() / 2, whole.size() - 3}) {
        folder.write(name, whole.substr(0, length));
        const StoredProfile cut = load_profile(folder.path(), key);
        EXPECT_FALSE(cut.profile);
        EXPECT_NE(cut.reason.find(path), std::string::npos) << cut.reason;
    }
    folder.write(name, std::string(2 << 20, ' '));
    EXPECT_NE(load_profile(folder.path(), key).reason.find("cannot be read"), std::string::npos);
    // The file's name is only a hash: what is inside counts.
    HardwareFacts other = facts();
    other.threads = 3;
    folder.write(name, scheduler::write_hardware(profile(other)));
    EXPECT_NE(load_profile(folder.path(), key).reason.find("threads 8, was 3"), std::string::npos);
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    EXPECT_FALSE(load_profile(folder.path(), key).profile);
}

TEST(ProfileFile, SaysWhereItCannotBeWritten) {
    const test::TempDir folder;
    const std::string file = folder.write("file", "x");
    const Status status = store_profile(file + "/profile", profile(facts()));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_NE(status.error().message.find(file), std::string::npos);
    EXPECT_FALSE(store_profile("", profile(facts())));
    EXPECT_FALSE(load_profile("", hardware_key(facts())).profile);
    // A folder in the file's place: nothing is left behind.
    const std::string path = profile_path(folder.path(), hardware_key(facts()));
    std::filesystem::create_directories(path + "/x");
    EXPECT_FALSE(store_profile(folder.path(), profile(facts())));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        EXPECT_NE(entry.path().extension(), ".tmp");
    }
}

TEST(ProfileFile, WritesDaysAsTheCalendarHasThem) {
    EXPECT_EQ(utc_date(0), "1970-01-01");
    EXPECT_EQ(utc_date(951'782'399), "2000-02-28");
    EXPECT_EQ(utc_date(951'782'400), "2000-02-29");
    EXPECT_EQ(utc_date(-1), "1969-12-31");
}

TEST(ProfileFile, DetectsThisMachine) {
    const kernels::KernelTable& table = **kernels::choose_kernels("scalar");
    const HardwareFacts here = detect_hardware(table, 3);
    EXPECT_EQ(here.threads, 3);
    EXPECT_EQ(here.kernels, "scalar");
    EXPECT_GE(here.cores, 1);
    EXPECT_TRUE(here.devices.empty());
}

}  // namespace
}  // namespace ballast::runtime
