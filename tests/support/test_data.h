// SPDX-License-Identifier: MIT
// Where tests find data that is not in the repository.
// BALLAST_REFDATA: the reference data (default: ../shared/refdata beside the source tree).
// BALLAST_TEST_MODELS: the real models (default: build/models), fetched by tests/models.sh.
// Absent data skips a test with a line that says so; BALLAST_REFDATA_REQUIRED=1 and
// BALLAST_MODELS_REQUIRED=1 make it a failure.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ballast::test {

/// Root of the source tree.
std::string source_dir();
/// tests/data/NAME; always there.
std::string data_path(const std::string& name);
/// Path of a file of the reference data, or "" if the reference data is absent.
std::string refdata_path(const std::string& name);
/// Path of a real model by its key in the reference data ("smollm2-135m-instruct-q4_1",
/// "gemma-3-270m-q4_k_m"), or "" if it was not fetched.
std::string model_path(const std::string& key);
bool refdata_required();
bool models_required();
/// Whether the long forms are wanted too (BALLAST_NIGHTLY=1); tests/nightly.sh says so.
bool nightly();

/// The objects of a JSON Lines file.
std::vector<nlohmann::json> read_json_lines(const std::string& path);
std::string read_file(const std::string& path);

}  // namespace ballast::test

/// Declares `path` or skips (or, where the data is required, fails) the test.
#define BALLAST_REFDATA_OR_SKIP(path, name)                                         \
    const std::string path = ::ballast::test::refdata_path(name);                   \
    if (path.empty()) {                                                             \
        if (::ballast::test::refdata_required()) {                                  \
            FAIL() << "BALLAST_REFDATA_REQUIRED is set but there is no " << (name); \
        }                                                                           \
        GTEST_SKIP() << "SKIPPED: no reference data (set BALLAST_REFDATA)";         \
    }                                                                               \
    static_cast<void>(0)

#define BALLAST_MODEL_OR_SKIP(path, key)                                                \
    const std::string path = ::ballast::test::model_path(key);                          \
    if (path.empty()) {                                                                 \
        if (::ballast::test::models_required()) {                                       \
            FAIL() << "BALLAST_MODELS_REQUIRED is set but there is no model " << (key); \
        }                                                                               \
        GTEST_SKIP() << "SKIPPED: no model " << (key) << " (run tests/models.sh)";      \
    }                                                                                   \
    static_cast<void>(0)
