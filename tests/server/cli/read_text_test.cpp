// SPDX-License-Identifier: MIT
// Reading bounded files, and naming the part of a path that stops it.
#include "server/cli/read_text.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace ballast::cli {
namespace {

class ReadText : public testing::Test {
  protected:
    ReadText() {
        std::string pattern = testing::TempDir() + "ballast-read-XXXXXX";
        folder_ = ::mkdtemp(pattern.data());
        std::ofstream(folder_ + "/file") << "12345";
    }
    ~ReadText() override {
        std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
        std::filesystem::remove_all(folder_);
    }
    std::string folder_;
};

TEST_F(ReadText, GivesTheWholeFileUpToTheLimit) {
    EXPECT_EQ(read_text_file(folder_ + "/file", 5).value_or("none"), "12345");
    EXPECT_FALSE(read_text_file(folder_ + "/file", 4));
}

TEST_F(ReadText, SaysNothingAboutAReadableFile) {
    EXPECT_EQ(explain_unreadable(folder_ + "/file"), "");
    EXPECT_EQ(
        explain_unreadable(folder_ + "/../" + folder_.substr(folder_.rfind('/') + 1) + "/file"),
        "");
}

TEST_F(ReadText, NamesTheFolderThatIsNotThere) {
    const std::string path = folder_ + "/a/b/file";
    EXPECT_EQ(explain_unreadable(path),
              "Cannot read " + path + ": " + folder_ + "/a: No such file or directory.");
}

TEST_F(ReadText, NamesTheFileThatStandsWhereAFolderShould) {
    const std::string path = folder_ + "/file/x";
    EXPECT_EQ(explain_unreadable(path),
              "Cannot read " + path + ": " + folder_ + "/file is not a folder.");
}

TEST_F(ReadText, RefusesWhatIsNoRegularFile) {
    EXPECT_EQ(explain_unreadable(folder_),
              "Cannot read " + folder_ + ": it is not a regular file.");
    ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
    EXPECT_FALSE(read_text_file(folder_ + "/pipe", 100));
    EXPECT_EQ(explain_unreadable(""), "The path is empty.");
}

TEST_F(ReadText, NamesTheFolderThatMayNotBeEntered) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "SKIPPED: root may enter every folder";
    }
    ::chmod(folder_.c_str(), 0600);
    const std::string message = explain_unreadable(folder_ + "/file");
    EXPECT_NE(message.find("may not enter the folder " + folder_), std::string::npos) << message;
}

}  // namespace
}  // namespace ballast::cli
