// SPDX-License-Identifier: MIT
// Finds data by environment variable, then by the default place.
#include "tests/support/test_data.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ballast::test {

namespace {

std::string environment(const char* name, const std::string& fallback) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' ? value : fallback;
}

std::string existing(const std::string& path) {
    return std::filesystem::exists(path) ? path : "";
}

}  // namespace

std::string source_dir() {
    return environment("BALLAST_SOURCE_DIR", ".");
}

std::string data_path(const std::string& name) {
    return source_dir() + "/tests/data/" + name;
}

std::string refdata_path(const std::string& name) {
    return existing(environment("BALLAST_REFDATA", source_dir() + "/../shared/refdata") + "/" +
                    name);
}

std::string model_path(const std::string& key) {
    return existing(environment("BALLAST_TEST_MODELS", source_dir() + "/build/models") + "/" + key +
                    ".gguf");
}

bool refdata_required() {
    return environment("BALLAST_REFDATA_REQUIRED", "") == "1";
}
bool models_required() {
    return environment("BALLAST_MODELS_REQUIRED", "") == "1";
}
bool nightly() {
    return environment("BALLAST_NIGHTLY", "") == "1";
}

std::vector<nlohmann::json> read_json_lines(const std::string& path) {
    std::vector<nlohmann::json> lines;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        if (!line.empty()) {
            lines.push_back(nlohmann::json::parse(line));
        }
    }
    return lines;
}

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

}  // namespace ballast::test
