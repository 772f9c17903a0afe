// SPDX-License-Identifier: MIT
// Files that are cut, changed or replaced while they are mapped. A fault in a mapping of ours is
// survived and noted; a fault anywhere else still ends the process.
#include "engine/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/sanitizer.h"
#include "tests/support/temp_dir.h"

namespace ballast {
namespace {

using test::TempDir;

const std::size_t kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

unsigned byte_at(const MappedFile& file, std::size_t at) {
    return static_cast<unsigned>(*static_cast<const volatile std::byte*>(file.bytes().data() + at));
}

void expect_error(const Result<std::unique_ptr<MappedFile>>& file,
                  ErrorCode code,
                  const std::string& words) {
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, code) << file.error().message;
    EXPECT_NE(file.error().message.find(words), std::string::npos) << file.error().message;
}

TEST(MappedFile, ShowsTheBytesOfAFile) {
    const TempDir dir;
    const std::string path = dir.write("f", "hello");
    const auto file = MappedFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ((*file)->bytes().size(), 5U);
    EXPECT_EQ(std::memcmp((*file)->bytes().data(), "hello", 5), 0);
    EXPECT_EQ((*file)->path(), path);
    EXPECT_EQ((*file)->identity().size_bytes, 5U);
    EXPECT_FALSE((*file)->failed());
    EXPECT_TRUE((*file)->check_unchanged());
}

TEST(MappedFile, RefusesWhatIsNoRegularFileWithoutBlocking) {
    const TempDir dir;
    const std::string pipe = dir.path("pipe");
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    expect_error(MappedFile::open(pipe), ErrorCode::kIo, "is not a regular file");
    expect_error(MappedFile::open(dir.path()), ErrorCode::kIo, "is not a regular file");
    expect_error(MappedFile::open("/dev/zero"), ErrorCode::kIo, "is not a regular file");
    expect_error(MappedFile::open(dir.write("empty", "")), ErrorCode::kCorruptFile, "is empty");
    expect_error(MappedFile::open(dir.path("absent")), ErrorCode::kNotFound, "absent");
    expect_error(MappedFile::open(dir.write("file", "x") + "/below"), ErrorCode::kIo, "below");
}

// Exits with 0 if opening the file fails for want of permission, also when started by root.
void open_without_permission(const std::string& path) {
    if (geteuid() == 0 && seteuid(65534) != 0) {
        _exit(1);
    }
    const auto file = MappedFile::open(path);
    const bool denied = !file && file.error().code == ErrorCode::kIo &&
                        file.error().message.find(path) != std::string::npos &&
                        file.error().message.find("Permission denied") != std::string::npos;
    _exit(denied ? 0 : 2);
}

TEST(MappedFileDeathTest, SaysThatPermissionIsMissing) {
    const TempDir dir;
    const std::string path = dir.write("secret", "x");
    ASSERT_EQ(chmod(path.c_str(), 0), 0);
    EXPECT_EXIT(open_without_permission(path), ::testing::ExitedWithCode(0), "");
}

TEST(MappedFile, ReadsZerosWhereTheFileWasCutAndNotesIt) {
    const TempDir dir;
    const std::string path = dir.write("f", std::string(4 * kPage, 'a'));
    const auto cut = MappedFile::open(path);
    const auto other = MappedFile::open(dir.write("g", std::string(kPage, 'b')));
    ASSERT_TRUE(cut && other);
    ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(kPage)), 0);
    EXPECT_EQ(byte_at(**cut, 0), unsigned{'a'});
    EXPECT_FALSE((*cut)->failed());
    EXPECT_EQ(byte_at(**cut, 2 * kPage + 17), 0U);
    EXPECT_TRUE((*cut)->failed());
    EXPECT_EQ(byte_at(**cut, 4 * kPage - 1), 0U);
    EXPECT_EQ(byte_at(**cut, 0), unsigned{'a'});
    EXPECT_FALSE((*other)->failed());
    EXPECT_FALSE((*cut)->check_unchanged());
}

TEST(MappedFile, SurvivesTheCutFromSeveralThreads) {
    const TempDir dir;
    constexpr std::size_t kPages = 256;
    const std::string path = dir.write("f", std::string(kPages * kPage, 'a'));
    const auto file = MappedFile::open(path);
    ASSERT_TRUE(file);
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 4; ++t) {
        readers.emplace_back([&] {
            for (int round = 0; round < 20; ++round) {
                for (std::size_t page = 0; page < kPages; ++page) {
                    const unsigned byte = byte_at(**file, page * kPage);
                    if (byte != 'a' && byte != 0) {
                        ++wrong;
                    }
                }
            }
        });
    }
    ASSERT_EQ(truncate(path.c_str(), 1), 0);
    for (auto& reader : readers) {
        reader.join();
    }
    EXPECT_EQ(wrong.load(), 0);
    EXPECT_EQ(byte_at(**file, (kPages - 1) * kPage), 0U);
    EXPECT_TRUE((*file)->failed());
}

TEST(MappedFile, NotesAFailureAnewForEachMapping) {
    const TempDir dir;
    const std::string path = dir.write("f", std::string(2 * kPage, 'a'));
    {
        const auto file = MappedFile::open(path);
        ASSERT_TRUE(file);
        ASSERT_EQ(truncate(path.c_str(), 1), 0);
        EXPECT_EQ(byte_at(**file, kPage), 0U);
        ASSERT_TRUE((*file)->failed());
    }
    const auto again = MappedFile::open(path);
    ASSERT_TRUE(again);
    EXPECT_FALSE((*again)->failed());
}

TEST(MappedFile, NoticesThatTheFileWasChangedReplacedOrRemoved) {
    const TempDir dir;
    const auto opened = [&](const std::string& name) {
        auto file = MappedFile::open(dir.write(name, "first content"));
        EXPECT_TRUE(file);
        return std::move(*file);
    };
    const auto grown = opened("grown");
    dir.write("grown", "some longer content");
    const auto replaced = opened("replaced");
    std::filesystem::rename(dir.write("new", "other content"), dir.path("replaced"));
    const auto removed = opened("removed");
    std::filesystem::remove(dir.path("removed"));
    const auto touched = opened("touched");
    const timespec times[2] = {{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 1}};
    ASSERT_EQ(utimensat(AT_FDCWD, dir.path("touched").c_str(), times, 0), 0);
    for (const MappedFile* file : {grown.get(), replaced.get(), removed.get(), touched.get()}) {
        const Status status = file->check_unchanged();
        ASSERT_FALSE(status) << file->path();
        EXPECT_EQ(status.error().code, ErrorCode::kIo);
        EXPECT_NE(status.error().message.find("the model file"), std::string::npos);
        // Clients are shown this.
        EXPECT_EQ(status.error().message.find('/'), std::string::npos);
    }
    // What was mapped stays readable when only the name went to another file.
    EXPECT_EQ(byte_at(*replaced, 0), unsigned{'f'});
    EXPECT_EQ(byte_at(*removed, 0), unsigned{'f'});
}

TEST(MappedFile, RefusesMoreMappingsThanItCanGuardAndFreesThem) {
    const TempDir dir;
    const std::string path = dir.write("f", "x");
    for (int round = 0; round < 2; ++round) {
        std::vector<std::unique_ptr<MappedFile>> files;
        Result<std::unique_ptr<MappedFile>> next = MappedFile::open(path);
        while (next && files.size() < 1000) {
            files.push_back(std::move(*next));
            next = MappedFile::open(path);
        }
        EXPECT_EQ(files.size(), 64U);
        expect_error(next, ErrorCode::kIo, "64 files are mapped already");
    }
}

// Reads a page that lies past the end of a file mapped without the guard.
void fault_outside_every_guarded_mapping(const std::string& guarded, const std::string& bare) {
    const auto file = MappedFile::open(guarded);
    const int descriptor = open(bare.c_str(), O_RDWR);
    const void* data = mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, descriptor, 0);
    if (!file || descriptor < 0 || data == MAP_FAILED || ftruncate(descriptor, 1) != 0) {
        _exit(0);  // a death test that cannot be set up fails
    }
    static_cast<void>(*(static_cast<const volatile char*>(data) + kPage));
    _exit(0);
}

TEST(MappedFileDeathTest, AFaultElsewhereStillEndsTheProcess) {
    const TempDir dir;
    const std::string guarded = dir.write("guarded", std::string(2 * kPage, 'a'));
    const std::string bare = dir.write("bare", std::string(2 * kPage, 'b'));
    if (test::kSanitized) {
        // The handler that was there before is the sanitizer's, which reports and exits.
        EXPECT_DEATH(fault_outside_every_guarded_mapping(guarded, bare), "");
    } else {
        EXPECT_EXIT(fault_outside_every_guarded_mapping(guarded, bare),
                    ::testing::KilledBySignal(SIGBUS),
                    "");
    }
}

}  // namespace
}  // namespace ballast
