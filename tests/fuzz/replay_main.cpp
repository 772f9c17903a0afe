// SPDX-License-Identifier: MIT
// Runs every file of the corpus folders named on the command line through the fuzz target, in the
// order of their names. It fails by crashing, as the fuzzer does, or when there is nothing to run.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void replay(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(in), {}};
    // Memory of exactly the input's size, so that AddressSanitizer sees a read past its end.
    const auto copy = std::make_unique<std::uint8_t[]>(content.size());
    std::copy(content.begin(), content.end(), copy.get());
    // Written first: after a crash the last line names the input.
    std::printf("%s (%zu bytes)\n", path.filename().c_str(), content.size());
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(copy.get(), content.size());
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::filesystem::path> inputs;
    for (int i = 1; i < argc; ++i) {
        for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
            if (entry.is_regular_file()) {
                inputs.push_back(entry.path());
            }
        }
    }
    std::sort(inputs.begin(), inputs.end());
    for (const auto& path : inputs) {
        replay(path);
    }
    std::printf("%zu inputs\n", inputs.size());
    return inputs.empty() ? 1 : 0;
}
