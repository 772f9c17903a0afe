// SPDX-License-Identifier: MIT
// Header, pairs, tensor list, padding, data; the type numbers are those of the GGUF specification.
#include "tests/support/gguf_writer.h"

#include <fstream>
#include <utility>

#include <gtest/gtest.h>

#include "engine/base/units.h"

namespace ballast::test {

namespace {

constexpr std::uint32_t kArrayType = 9;

}  // namespace

std::string gguf_string(std::string_view text) {
    return le_bytes(static_cast<std::uint64_t>(text.size())) + std::string(text);
}

template <class T>
GgufWriter& GgufWriter::add_scalar(std::string_view key, std::uint32_t type, T value) {
    return add_raw(key, type, le_bytes(value));
}

template <class T>
GgufWriter& GgufWriter::add_array(std::string_view key,
                                  std::uint32_t type,
                                  const std::vector<T>& values) {
    std::string raw = le_bytes(type) + le_bytes(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) {
        raw += le_bytes(value);
    }
    return add_raw(key, kArrayType, raw);
}

GgufWriter& GgufWriter::add(std::string_view key, std::uint8_t value) {
    return add_scalar(key, 0, value);
}
GgufWriter& GgufWriter::add(std::string_view key, std::int8_t value) {
    return add_scalar(key, 1, value);
}
GgufWriter& GgufWriter::add(std::string_view key, std::uint16_t value) {
    return add_scalar(key, 2, value);
}
GgufWriter& GgufWriter::add(std::string_view key, std::int16_t value) {
    return add_scalar(key, 3, value);
}
GgufWriter& GgufWriter::add(std::string_view key, std::uint32_t value) {
    return add_scalar(key, 4, value);
}
GgufWriter& GgufWriter::add(std::string_view key, std::int32_t value) {
    return add_scalar(key, 5, value);
}
GgufWriter& GgufWriter::add(std::string_view key, float value) {
    return add_scalar(key, 6, value);
}
GgufWriter& GgufWriter::add(std::string_view key, bool value) {
    return add_scalar(key, 7, static_cast<std::uint8_t>(value ? 1 : 0));
}
GgufWriter& GgufWriter::add(std::string_view key, std::string_view value) {
    return add_raw(key, 8, gguf_string(value));
}
GgufWriter& GgufWriter::add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
}
GgufWriter& GgufWriter::add(std::string_view key, std::uint64_t value) {
    return add_scalar(key, 10, value);
}
GgufWriter& GgufWriter::add(std::string_view key, std::int64_t value) {
    return add_scalar(key, 11, value);
}
GgufWriter& GgufWriter::add(std::string_view key, double value) {
    return add_scalar(key, 12, value);
}

GgufWriter& GgufWriter::add(std::string_view key, const std::vector<std::uint8_t>& values) {
    return add_array(key, 0, values);
}
GgufWriter& GgufWriter::add(std::string_view key, const std::vector<std::uint32_t>& values) {
    return add_array(key, 4, values);
}
GgufWriter& GgufWriter::add(std::string_view key, const std::vector<std::int32_t>& values) {
    return add_array(key, 5, values);
}
GgufWriter& GgufWriter::add(std::string_view key, const std::vector<float>& values) {
    return add_array(key, 6, values);
}
GgufWriter& GgufWriter::add(std::string_view key, const std::vector<bool>& values) {
    return add_array(key, 7, std::vector<std::uint8_t>(values.begin(), values.end()));
}
GgufWriter& GgufWriter::add(std::string_view key, const std::vector<std::uint64_t>& values) {
    return add_array(key, 10, values);
}
GgufWriter& GgufWriter::add(std::string_view key, const std::vector<std::int64_t>& values) {
    return add_array(key, 11, values);
}
GgufWriter& GgufWriter::add(std::string_view key, const std::vector<double>& values) {
    return add_array(key, 12, values);
}
GgufWriter& GgufWriter::add(std::string_view key, const std::vector<std::string>& values) {
    std::string raw = le_bytes(std::uint32_t{8}) + le_bytes(std::uint64_t{values.size()});
    for (const std::string& value : values) {
        raw += gguf_string(value);
    }
    return add_raw(key, kArrayType, raw);
}

GgufWriter& GgufWriter::add_raw(std::string_view key,
                                std::uint32_t type,
                                std::string_view value_bytes,
                                std::optional<std::uint64_t> key_length) {
    pairs_ += le_bytes(key_length.value_or(key.size()));
    pairs_ += key;
    pairs_ += le_bytes(type);
    pairs_ += value_bytes;
    ++n_pairs_;
    return *this;
}

GgufWriter& GgufWriter::tensor(std::string_view name,
                               quant::QuantType type,
                               const std::vector<std::uint64_t>& shape,
                               std::string_view data) {
    return tensor({.name = std::string(name),
                   .type = static_cast<std::uint32_t>(type),
                   .shape = shape,
                   .data = std::string(data),
                   .offset = std::nullopt,
                   .n_dims = std::nullopt});
}

GgufWriter& GgufWriter::tensor_f32(std::string_view name,
                                   const std::vector<std::uint64_t>& shape,
                                   const std::vector<float>& values) {
    std::string data;
    for (const float value : values) {
        data += le_bytes(value);
    }
    return tensor(name, quant::QuantType::kF32, shape, data);
}

GgufWriter& GgufWriter::tensor(GgufTensor tensor) {
    tensors_.push_back(std::move(tensor));
    return *this;
}

GgufWriter& GgufWriter::alignment(std::uint32_t bytes) {
    return layout_alignment(bytes).add("general.alignment", bytes);
}
GgufWriter& GgufWriter::layout_alignment(std::uint32_t bytes) {
    alignment_ = bytes;
    return *this;
}
GgufWriter& GgufWriter::version(std::uint32_t version) {
    version_ = version;
    return *this;
}
GgufWriter& GgufWriter::magic(std::string_view magic) {
    magic_ = magic;
    return *this;
}
GgufWriter& GgufWriter::key_count(std::uint64_t count) {
    key_count_ = count;
    return *this;
}
GgufWriter& GgufWriter::tensor_count(std::uint64_t count) {
    tensor_count_ = count;
    return *this;
}

std::string GgufWriter::bytes() const {
    std::string out = magic_ + le_bytes(version_);
    out += le_bytes(tensor_count_.value_or(tensors_.size()));
    out += le_bytes(key_count_.value_or(n_pairs_));
    out += pairs_;
    std::string data;
    for (const GgufTensor& tensor : tensors_) {
        data.resize(round_up(data.size(), alignment_));
        out += gguf_string(tensor.name);
        out += le_bytes(tensor.n_dims.value_or(static_cast<std::uint32_t>(tensor.shape.size())));
        for (const std::uint64_t extent : tensor.shape) {
            out += le_bytes(extent);
        }
        out += le_bytes(tensor.type);
        out += le_bytes(tensor.offset.value_or(data.size()));
        data += tensor.data;
    }
    if (!tensors_.empty()) {
        out.resize(round_up(out.size(), alignment_));
    }
    return out + data;
}

void GgufWriter::write(const std::string& path) const {
    const std::string content = bytes();
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.close();
    EXPECT_TRUE(out.good()) << "cannot write " << path;
}

}  // namespace ballast::test
