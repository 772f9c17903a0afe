// SPDX-License-Identifier: MIT
// Formats: numpy.lib.format (version 1 to 3) and PKWARE's ZIP without its 64-bit extensions.
#include "tests/support/npy.h"

#include <cstdint>
#include <cstring>
#include <string_view>

#include "tests/support/inflate.h"
#include "tests/support/test_data.h"

namespace ballast::test {

namespace {

tl::unexpected<Error> bad(const std::string& what) {
    return fail(ErrorCode::kCorruptFile, what);
}

template <class T>
T load(std::string_view bytes, std::size_t at) {
    T value{};
    if (at + sizeof(T) <= bytes.size()) {
        std::memcpy(&value, bytes.data() + at, sizeof(T));
    }
    return value;
}

// The numbers of the tuple after 'shape': in the header.
std::vector<std::size_t> parse_shape(std::string_view header) {
    std::vector<std::size_t> shape;
    const std::size_t start = header.find('(', header.find("'shape'"));
    const std::string_view tuple = header.substr(start, header.find(')', start) - start);
    for (std::size_t i = 0; i < tuple.size(); ++i) {
        if (tuple[i] >= '0' && tuple[i] <= '9') {
            std::size_t number = 0;
            for (; i < tuple.size() && tuple[i] >= '0' && tuple[i] <= '9'; ++i) {
                number = number * 10 + static_cast<std::size_t>(tuple[i] - '0');
            }
            shape.push_back(number);
        }
    }
    return shape;
}

Result<NpyArray> parse_npy(std::string_view bytes, const std::string& name) {
    if (!bytes.starts_with("\x93NUMPY")) {
        return bad(name + " is not an .npy array");
    }
    const bool short_header = load<std::uint8_t>(bytes, 6) == 1;
    const std::size_t header_at = short_header ? 10 : 12;
    const std::size_t header_bytes =
        short_header ? load<std::uint16_t>(bytes, 8) : load<std::uint32_t>(bytes, 8);
    if (header_at + header_bytes > bytes.size()) {
        return bad(name + " ends inside its header");
    }
    const std::string_view header = bytes.substr(header_at, header_bytes);
    const bool wide = header.find("'<f8'") != std::string_view::npos;
    if ((!wide && header.find("'<f4'") == std::string_view::npos) ||
        header.find("'fortran_order': False") == std::string_view::npos) {
        return bad(name + " is not a float array in C order");
    }
    NpyArray array;
    array.shape = parse_shape(header);
    std::size_t count = 1;
    for (const std::size_t extent : array.shape) {
        count *= extent;
    }
    const std::string_view data = bytes.substr(header_at + header_bytes);
    const std::size_t element_bytes = wide ? sizeof(double) : sizeof(float);
    if (data.size() != count * element_bytes) {
        return bad(name + " has another size than its shape says");
    }
    array.values.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        array.values[i] = wide ? static_cast<float>(load<double>(data, i * element_bytes))
                               : load<float>(data, i * element_bytes);
    }
    return array;
}

/// One entry of a ZIP file's central directory.
struct ZipMember {
    std::uint16_t method = 0;
    std::size_t packed_bytes = 0;
    std::size_t unpacked_bytes = 0;
    std::size_t header_at = 0;
};

Result<ZipMember> find_member(std::string_view zip, std::string_view name) {
    const std::size_t end = zip.rfind("PK\x05\x06");
    if (end == std::string_view::npos) {
        return bad("it is not a ZIP file");
    }
    std::size_t at = load<std::uint32_t>(zip, end + 16);
    for (int left = load<std::uint16_t>(zip, end + 10); left > 0; --left) {
        const std::size_t name_bytes = load<std::uint16_t>(zip, at + 28);
        if (at + 46 + name_bytes > zip.size()) {
            return bad("the ZIP directory is damaged");
        }
        if (zip.substr(at + 46, name_bytes) == name) {
            return ZipMember{.method = load<std::uint16_t>(zip, at + 10),
                             .packed_bytes = load<std::uint32_t>(zip, at + 20),
                             .unpacked_bytes = load<std::uint32_t>(zip, at + 24),
                             .header_at = load<std::uint32_t>(zip, at + 42)};
        }
        at +=
            46 + name_bytes + load<std::uint16_t>(zip, at + 30) + load<std::uint16_t>(zip, at + 32);
    }
    return bad("it has no member " + std::string(name));
}

}  // namespace

Result<NpyArray> read_npy(const std::string& path) {
    return parse_npy(read_file(path), path);
}

Result<NpyArray> read_npz(const std::string& path, const std::string& name) {
    const std::string zip = read_file(path);
    Result<ZipMember> member = find_member(zip, name + ".npy");
    if (!member) {
        return fail_with_context(path, std::move(member).error());
    }
    const std::size_t data_at = member->header_at + 30 +
                                load<std::uint16_t>(zip, member->header_at + 26) +
                                load<std::uint16_t>(zip, member->header_at + 28);
    if (data_at + member->packed_bytes > zip.size()) {
        return bad(path + " ends inside " + name);
    }
    const std::string_view packed = std::string_view(zip).substr(data_at, member->packed_bytes);
    if (member->method == 0) {
        return parse_npy(packed, path);
    }
    if (member->method != 8) {
        return bad(path + " is compressed with an unknown method");
    }
    Result<std::string> unpacked = inflate(packed, member->unpacked_bytes);
    if (!unpacked) {
        return fail_with_context(path, std::move(unpacked).error());
    }
    return parse_npy(*unpacked, path);
}

}  // namespace ballast::test
