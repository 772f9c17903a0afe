// SPDX-License-Identifier: MIT
// What the tests against reference numbers share: opening a model without its tokenizer, and the
// instruction sets to try.
#pragma once

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/gguf/reader.h"
#include "engine/kernels/cpu/kernel_table.h"
#include "engine/model/model.h"
#include "engine/runtime/evaluator.h"

namespace ballast::test {

/// A model and the mapping it views.
struct OpenModel {
    std::unique_ptr<gguf::Reader> reader;
    std::unique_ptr<model::Model> model;
};

inline OpenModel open_model(const std::string& path) {
    OpenModel open;
    auto reader = gguf::Reader::open(path);
    EXPECT_TRUE(reader.has_value()) << reader.error().message;
    open.reader = std::move(*reader);
    auto model = model::load_model(*open.reader);
    EXPECT_TRUE(model.has_value()) << model.error().message;
    open.model = std::move(*model);
    return open;
}

/// Names of the instruction sets that this build and processor have.
inline std::vector<std::string> available_isas() {
    std::vector<std::string> names;
    for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
        if (kernels::find_kernels(isa) != nullptr) {
            names.emplace_back(isa_name(isa));
        }
    }
    return names;
}

/// One thread: ctest runs as many tests at once as there are cores, and that the number of threads
/// changes nothing is another test's matter (tests/engine/runtime/neighbours_test.cpp).
inline std::unique_ptr<runtime::Evaluator> make_evaluator(const OpenModel& open,
                                                          const std::string& isa,
                                                          const std::string& kv_type,
                                                          int n_sequences,
                                                          int context) {
    auto evaluator = runtime::Evaluator::create(
        *open.model, {.threads = 1, .kv_type = kv_type, .force_isa = isa}, n_sequences, context);
    EXPECT_TRUE(evaluator.has_value()) << evaluator.error().message;
    return std::move(*evaluator);
}

inline TokenId arg_max(std::span<const float> logits) {
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Parameter names for gtest may hold letters, digits and underscores only.
inline std::string test_name(std::string text) {
    for (char& c : text) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
            c = '_';
        }
    }
    return text;
}

}  // namespace ballast::test
