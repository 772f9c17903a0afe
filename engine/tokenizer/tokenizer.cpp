// SPDX-License-Identifier: MIT
// Chooses the tokenizer family that the file names.
#include "engine/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/spm.h"

namespace ballast::tokenizer {

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const gguf::Metadata& metadata) {
    BALLAST_TRY(const auto model, metadata.string("tokenizer.ggml.model"));
    if (model == "gpt2") {
        return BpeTokenizer::load(metadata);
    }
    if (model == "llama") {
        return SpmTokenizer::load(metadata);
    }
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("tokenizer.ggml.model is '{}'; Ballast knows 'gpt2' and 'llama'.", model));
}

}  // namespace ballast::tokenizer
