// SPDX-License-Identifier: MIT
// A read-only mapping of a regular file that survives the file shrinking under it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/base/result.h"

namespace ballast {

/// What identifies a file's content without reading it.
struct FileIdentity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size_bytes = 0;
    std::int64_t modified_ns = 0;
    bool operator==(const FileIdentity&) const = default;
};

/// Owns the mapping and the open descriptor. The first mapping of a process installs a SIGBUS
/// handler: a fault inside a mapping gets a zero page and sets failed(); a fault anywhere else
/// takes the default action (or the handler that was there before).
class MappedFile {
  public:
    /// Opens (without blocking on a pipe or device) and maps the whole file.
    /// Errors: kNotFound, kIo (permission, not a regular file, …), kCorruptFile (empty file).
    static Result<std::unique_ptr<MappedFile>> open(const std::string& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return bytes_; }
    const std::string& path() const { return path_; }
    const FileIdentity& identity() const { return identity_; }

    /// Whether a page of the mapping could not be read since it was opened. Any thread.
    bool failed() const;
    /// kIo with a sentence if the file at the path is no longer the one that was mapped: compares
    /// device, inode, size and modification time.
    Status check_unchanged() const;

  private:
    MappedFile() = default;
    std::span<const std::byte> bytes_;
    std::string path_;
    FileIdentity identity_;
    int descriptor_ = -1;
    int guard_slot_ = -1;
};

}  // namespace ballast
