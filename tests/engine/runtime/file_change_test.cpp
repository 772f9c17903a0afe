// SPDX-License-Identifier: MIT
// A model file that is cut or overwritten while it is served: the request fails with a sentence,
// the process lives, and every later request fails too.
#include <filesystem>
#include <fstream>

#include "tests/engine/runtime/harness.h"

namespace ballast::test {
namespace {

std::vector<TokenId> prompt() {
    return {1, 100, 101, 102};
}

/// Large enough that the weights of later layers lie on pages of their own.
TinyModelOptions large() {
    return {.n_layers = 8,
            .width = 256,
            .n_heads = 4,
            .n_kv_heads = 2,
            .head_dim = 64,
            .ffn_width = 512,
            .context_length = 4096};
}

TEST(ModelFile, CutDuringGenerationFailsTheRequestAndNothingElse) {
    const TinyFixture fixture(large());
    Running running(fixture.model(), {.threads = 2});
    const auto sink = running.submit(make_job(prompt(), 4000));
    ASSERT_TRUE(sink->wait_for_tokens(2));
    std::filesystem::resize_file(fixture.path(), 8192);
    ASSERT_TRUE(sink->wait_for_end());
    ASSERT_TRUE(sink->error().has_value());
    EXPECT_EQ(sink->error()->code, ErrorCode::kInternal);
    EXPECT_NE(sink->error()->message.find("the model file was cut"), std::string::npos);
    EXPECT_EQ(sink->error()->message.find(fixture.path()), std::string::npos);
    EXPECT_NE(running.engine->failure(), "");

    const auto later = running.submit(make_job(prompt(), 5));
    ASSERT_TRUE(later->wait_for_end());
    ASSERT_TRUE(later->error().has_value());
    EXPECT_EQ(later->error()->code, ErrorCode::kInternal);
    EXPECT_FALSE(fixture.model().reader->file().check_unchanged().has_value());
}

TEST(ModelFile, OverwrittenDuringGenerationIsNoticed) {
    const TinyFixture fixture(large());
    Running running(fixture.model(), {.threads = 2});
    EXPECT_TRUE(fixture.model().reader->file().check_unchanged().has_value());
    const auto sink = running.submit(make_job(prompt(), 600));
    ASSERT_TRUE(sink->wait_for_tokens(2));
    const auto size = std::filesystem::file_size(fixture.path());
    {
        std::ofstream out(fixture.path(), std::ios::binary | std::ios::in);
        out.seekp(8192);
        const std::string zeros(static_cast<std::size_t>(size) - 8192, '\0');
        out.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
    }
    // The running reply goes on with whatever the file holds now and ends one way or the other.
    ASSERT_TRUE(sink->wait_for_end());
    EXPECT_EQ(sink->n_ends(), 1);
    const Status status = fixture.model().reader->file().check_unchanged();
    ASSERT_FALSE(status.has_value());
    EXPECT_NE(status.error().message.find("changed"), std::string::npos);
}

}  // namespace
}  // namespace ballast::test
