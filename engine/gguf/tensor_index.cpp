// SPDX-License-Identifier: MIT
// All arithmetic on numbers of the file is checked; a tensor whose size wraps would otherwise pass
// as a small one.
#include "engine/gguf/tensor_index.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/base/units.h"

namespace ballast::gguf {

namespace {

constexpr std::uint64_t kElementsMax =
    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

/// A tensor and its offset in the data section.
struct Entry {
    TensorInfo info;
    std::uint64_t offset = 0;
};

// Types of the format that we cannot read, so that the message can name them.
std::string_view foreign_type_name(std::uint32_t type) {
    constexpr std::pair<std::uint32_t, std::string_view> kNames[] = {
        {9, "Q8_1"},
        {15, "Q8_K"},
        {16, "IQ2_XXS"},
        {17, "IQ2_XS"},
        {18, "IQ3_XXS"},
        {19, "IQ1_S"},
        {21, "IQ3_S"},
        {22, "IQ2_S"},
        {24, "I8"},
        {25, "I16"},
        {26, "I32"},
        {27, "I64"},
        {28, "F64"},
        {29, "IQ1_M"},
        {34, "TQ1_0"},
        {35, "TQ2_0"},
        {40, "NVFP4"},
    };
    for (const auto& [number, name] : kNames) {
        if (number == type) {
            return name;
        }
    }
    return "unknown to this version";
}

Result<std::string_view> parse_name(Cursor& cursor, std::uint64_t index, std::uint64_t n_tensors) {
    const std::uint64_t start = cursor.offset();
    const std::string what = fmt::format("the name of tensor {} of {}", index + 1, n_tensors);
    BALLAST_TRY(const std::string_view name, cursor.take_string(what));
    if (name.empty()) {
        return cursor.corrupt(fmt::format("{} at byte {} is empty", what, start));
    }
    if (name.size() > kTensorNameBytesMax) {
        return cursor.corrupt(fmt::format("{} at byte {} has {} bytes; {} are allowed",
                                          what,
                                          start,
                                          name.size(),
                                          kTensorNameBytesMax));
    }
    return name;
}

// Reads n_dims and the shape, and checks that the number of elements fits.
Status parse_shape(Cursor& cursor, TensorInfo& tensor, const std::string& what) {
    const std::uint64_t start = cursor.offset();
    const auto n_dims = cursor.take<std::uint32_t>();
    if (!n_dims) {
        return cursor.ends_inside(what, start);
    }
    if (*n_dims < 1 || *n_dims > 4) {
        return cursor.corrupt(fmt::format(
            "{} at byte {} has {} dimensions (1 to 4 are allowed)", what, start, *n_dims));
    }
    tensor.n_dims = *n_dims;
    std::uint64_t n_elements = 1;
    for (std::uint32_t i = 0; i < *n_dims; ++i) {
        const auto extent = cursor.take<std::uint64_t>();
        if (!extent) {
            return cursor.ends_inside(what, start);
        }
        if (*extent == 0) {
            return cursor.corrupt(
                fmt::format("dimension {} of {} at byte {} is 0", i, what, start));
        }
        const auto product = checked_multiply(n_elements, *extent);
        if (!product || *product > kElementsMax) {
            return cursor.corrupt(
                fmt::format("the shape of {} at byte {} has 2^63 elements or more", what, start));
        }
        n_elements = *product;
        tensor.shape[i] = *extent;
    }
    return {};
}

Status parse_type(Cursor& cursor, TensorInfo& tensor, const std::string& what) {
    const std::uint64_t start = cursor.offset();
    const auto type = cursor.take<std::uint32_t>();
    if (!type) {
        return cursor.ends_inside(what, start);
    }
    const quant::TypeTraits* traits = quant::find_type(*type);
    if (traits == nullptr) {
        return cursor.unsupported(
            fmt::format("{} at byte {} has type {} ({}), which cannot be read",
                        what,
                        start,
                        *type,
                        foreign_type_name(*type)));
    }
    tensor.type = traits->type;
    if (tensor.shape[0] % traits->block_elements != 0) {
        return cursor.corrupt(
            fmt::format("{} at byte {} has rows of {} elements, not a multiple of the {} of a {} "
                        "block",
                        what,
                        start,
                        tensor.shape[0],
                        traits->block_elements,
                        traits->name));
    }
    const std::uint64_t n_blocks = tensor.n_elements() / traits->block_elements;
    const auto size_bytes = checked_multiply(n_blocks, traits->block_bytes);
    if (!size_bytes) {
        return cursor.corrupt(
            fmt::format("the size of {} at byte {} does not fit 64 bits", what, start));
    }
    tensor.size_bytes = *size_bytes;
    return {};
}

Result<Entry> parse_entry(Cursor& cursor, std::uint64_t index, std::uint64_t n_tensors) {
    BALLAST_TRY(const std::string_view name, parse_name(cursor, index, n_tensors));
    const std::string what = "tensor " + quoted(name);
    BALLAST_TRY_STATUS(cursor.charge(sizeof(Entry) + sizeof(TensorInfo) + name.size(), what));
    Entry entry;
    entry.info.name = std::string(name);
    BALLAST_TRY_STATUS(parse_shape(cursor, entry.info, what));
    BALLAST_TRY_STATUS(parse_type(cursor, entry.info, what));
    const std::uint64_t start = cursor.offset();
    const auto offset = cursor.take<std::uint64_t>();
    if (!offset) {
        return cursor.ends_inside(what, start);
    }
    entry.offset = *offset;
    return entry;
}

// Sets the data pointer of an entry whose bytes are all in the file.
Status place(const Cursor& cursor,
             Entry& entry,
             std::uint64_t data_start,
             std::uint64_t data_bytes,
             std::uint64_t alignment) {
    TensorInfo& tensor = entry.info;
    if (entry.offset % alignment != 0) {
        return cursor.corrupt(fmt::format("the offset {} of tensor {} is not a multiple of {}",
                                          entry.offset,
                                          quoted(tensor.name),
                                          alignment));
    }
    if (entry.offset > data_bytes || tensor.size_bytes > data_bytes - entry.offset) {
        return cursor.corrupt(fmt::format(
            "tensor {} needs {} bytes at offset {} of the data but the file has only {} bytes of "
            "data",
            quoted(tensor.name),
            tensor.size_bytes,
            entry.offset,
            data_bytes));
    }
    tensor.data = cursor.bytes().data() + data_start + entry.offset;
    return {};
}

Status check_no_overlap(const Cursor& cursor, const std::vector<Entry>& entries) {
    std::vector<std::uint32_t> by_offset(entries.size());
    std::iota(by_offset.begin(), by_offset.end(), 0U);
    std::sort(by_offset.begin(), by_offset.end(), [&](std::uint32_t a, std::uint32_t b) {
        return entries[a].offset < entries[b].offset;
    });
    for (std::size_t i = 1; i < by_offset.size(); ++i) {
        const Entry& before = entries[by_offset[i - 1]];
        const Entry& after = entries[by_offset[i]];
        if (before.offset + before.info.size_bytes > after.offset) {
            return cursor.corrupt(fmt::format("tensors {} and {} overlap at offset {} of the data",
                                              quoted(before.info.name),
                                              quoted(after.info.name),
                                              after.offset));
        }
    }
    return {};
}

Result<std::vector<std::uint32_t>> sort_by_name(const Cursor& cursor,
                                                const std::vector<TensorInfo>& tensors) {
    std::vector<std::uint32_t> by_name(tensors.size());
    std::iota(by_name.begin(), by_name.end(), 0U);
    std::sort(by_name.begin(), by_name.end(), [&](std::uint32_t a, std::uint32_t b) {
        return tensors[a].name < tensors[b].name;
    });
    for (std::size_t i = 1; i < by_name.size(); ++i) {
        const std::string& name = tensors[by_name[i]].name;
        if (name == tensors[by_name[i - 1]].name) {
            return cursor.corrupt(fmt::format("there are two tensors named {}", quoted(name)));
        }
    }
    return by_name;
}

}  // namespace

Result<TensorIndex> parse_tensors(Cursor& cursor,
                                  std::uint64_t n_tensors,
                                  std::uint64_t alignment) {
    std::vector<Entry> entries;
    for (std::uint64_t i = 0; i < n_tensors; ++i) {
        BALLAST_TRY(Entry entry, parse_entry(cursor, i, n_tensors));
        entries.push_back(std::move(entry));
    }
    const std::uint64_t file_bytes = cursor.bytes().size();
    // The offset is at most the size of a mapping, so rounding it up does not wrap. A file without
    // tensors may end before the padding.
    const std::uint64_t data_start = std::min(round_up(cursor.offset(), alignment), file_bytes);
    for (Entry& entry : entries) {
        BALLAST_TRY_STATUS(place(cursor, entry, data_start, file_bytes - data_start, alignment));
    }
    BALLAST_TRY_STATUS(check_no_overlap(cursor, entries));

    TensorIndex index;
    index.tensors.reserve(entries.size());
    for (Entry& entry : entries) {
        index.tensors.push_back(std::move(entry.info));
    }
    BALLAST_TRY(index.by_name, sort_by_name(cursor, index.tensors));
    return index;
}

}  // namespace ballast::gguf
