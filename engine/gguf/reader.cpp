// SPDX-License-Identifier: MIT
// Opens the file once and parses the mapping.
#include "engine/gguf/reader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/gguf/parse.h"

namespace ballast::gguf {

Result<std::unique_ptr<Reader>> Reader::open(const std::string& path) {
    std::unique_ptr<Reader> reader(new Reader());
    BALLAST_TRY(reader->file_, MappedFile::open(path));
    Result<Contents> contents = parse(reader->file_->bytes(), path);
    // Pages that could not be read look like zeros, so this is the truer message.
    if (reader->file_->failed()) {
        return fail(ErrorCode::kIo,
                    fmt::format("cannot load {}: it was cut short or could not be read while it "
                                "was opened",
                                path));
    }
    if (!contents) {
        return tl::unexpected(std::move(contents).error());
    }
    reader->version_ = contents->version;
    reader->metadata_ = std::move(contents->metadata);
    reader->tensors_ = std::move(contents->tensors);
    reader->by_name_ = std::move(contents->by_name);
    return reader;
}

const TensorInfo* Reader::find_tensor(std::string_view name) const {
    const auto found = std::lower_bound(
        by_name_.begin(), by_name_.end(), name, [this](std::uint32_t index, std::string_view key) {
            return tensors_[index].name < key;
        });
    if (found == by_name_.end() || tensors_[*found].name != name) {
        return nullptr;
    }
    return &tensors_[*found];
}

}  // namespace ballast::gguf
