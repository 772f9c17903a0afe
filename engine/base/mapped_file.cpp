// SPDX-License-Identifier: MIT
// Mapping a file, and the SIGBUS guard. The kernel raises SIGBUS when a mapped page lies past the
// end of a file that was cut, or cannot be read. The handler looks the address up in a fixed table
// of our mappings (atomics only: nothing else is safe in a handler), puts a zero page there and
// notes the failure; the reader then computes with zeros until its owner asks failed().
#include "engine/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

namespace ballast {

namespace {

// One process maps a handful of model shards; a mapping beyond the table is refused.
constexpr int kGuardSlots = 64;

struct GuardSlot {
    std::atomic<bool> taken{false};
    std::atomic<std::uintptr_t> begin{0};
    std::atomic<std::uintptr_t> end{0};
    std::atomic<bool> failed{false};
};

// A signal handler can reach nothing but globals.
std::array<GuardSlot, kGuardSlots> guard_slots;
std::atomic<std::uintptr_t> guard_page_bytes{4096};
struct sigaction previous_action;
std::once_flag handler_installed;

void pass_on(int signal, siginfo_t* info, void* context) {
    if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != nullptr) {
        previous_action.sa_sigaction(signal, info, context);
        return;
    }
    if ((previous_action.sa_flags & SA_SIGINFO) == 0 && previous_action.sa_handler != SIG_DFL &&
        previous_action.sa_handler != SIG_IGN) {
        previous_action.sa_handler(signal);
        return;
    }
    // The default action, taken when the faulting instruction runs again.
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(SIGBUS, &standard, nullptr);
}

void handle_bus_error(int signal, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    for (GuardSlot& slot : guard_slots) {
        if (address < slot.begin.load() || address >= slot.end.load()) {
            continue;
        }
        const std::uintptr_t page_bytes = guard_page_bytes.load();
        void* page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
        if (mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            MAP_FAILED) {
            break;
        }
        slot.failed.store(true);
        errno = saved_errno;
        return;
    }
    errno = saved_errno;
    pass_on(signal, info, context);
}

void install_handler() {
    guard_page_bytes.store(static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)));
    struct sigaction action = {};
    action.sa_sigaction = handle_bus_error;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous_action);
}

int take_guard_slot(const void* data, std::size_t size) {
    std::call_once(handler_installed, install_handler);
    for (int i = 0; i < kGuardSlots; ++i) {
        GuardSlot& slot = guard_slots[static_cast<std::size_t>(i)];
        bool free = false;
        if (slot.taken.compare_exchange_strong(free, true)) {
            const auto begin = reinterpret_cast<std::uintptr_t>(data);
            slot.failed.store(false);
            slot.begin.store(begin);
            slot.end.store(begin + size);
            return i;
        }
    }
    return -1;
}

void release_guard_slot(int index) {
    GuardSlot& slot = guard_slots[static_cast<std::size_t>(index)];
    slot.end.store(0);
    slot.begin.store(0);
    slot.taken.store(false);
}

FileIdentity identity_of(const struct stat& info) {
#if defined(__APPLE__)
    const timespec modified = info.st_mtimespec;
#else
    const timespec modified = info.st_mtim;
#endif
    return {.device = static_cast<std::uint64_t>(info.st_dev),
            .inode = static_cast<std::uint64_t>(info.st_ino),
            .size_bytes = static_cast<std::uint64_t>(info.st_size),
            .modified_ns = static_cast<std::int64_t>(modified.tv_sec) * 1'000'000'000 +
                           static_cast<std::int64_t>(modified.tv_nsec)};
}

std::string reason(int error) {
    return std::strerror(error);
}

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path) {
    std::unique_ptr<MappedFile> file(new MappedFile());
    file->path_ = path;
    file->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->descriptor_ < 0) {
        const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
        return fail(code, fmt::format("cannot open {}: {}", path, reason(errno)));
    }
    struct stat info = {};
    if (fstat(file->descriptor_, &info) != 0) {
        return fail(ErrorCode::kIo, fmt::format("cannot examine {}: {}", path, reason(errno)));
    }
    if (!S_ISREG(info.st_mode)) {
        return fail(ErrorCode::kIo, fmt::format("{} is not a regular file", path));
    }
    if (info.st_size == 0) {
        return fail(ErrorCode::kCorruptFile, fmt::format("{} is empty", path));
    }
    file->identity_ = identity_of(info);
    const auto size = static_cast<std::size_t>(info.st_size);
    void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, file->descriptor_, 0);
    if (data == MAP_FAILED) {
        return fail(ErrorCode::kIo, fmt::format("cannot map {}: {}", path, reason(errno)));
    }
    file->bytes_ = {static_cast<const std::byte*>(data), size};
    file->guard_slot_ = take_guard_slot(data, size);
    if (file->guard_slot_ < 0) {
        return fail(ErrorCode::kIo,
                    fmt::format("cannot map {}: {} files are mapped already", path, kGuardSlots));
    }
    return file;
}

MappedFile::~MappedFile() {
    if (guard_slot_ >= 0) {
        release_guard_slot(guard_slot_);
    }
    if (bytes_.data() != nullptr) {
        munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    }
    if (descriptor_ >= 0) {
        close(descriptor_);
    }
}

bool MappedFile::failed() const {
    return guard_slots[static_cast<std::size_t>(guard_slot_)].failed.load();
}

Status MappedFile::check_unchanged() const {
    struct stat info = {};
    if (stat(path_.c_str(), &info) != 0) {
        return fail(ErrorCode::kIo, fmt::format("the model file is gone ({})", reason(errno)));
    }
    if (identity_of(info) != identity_) {
        return fail(ErrorCode::kIo, "the model file was changed or replaced while in use");
    }
    return {};
}

}  // namespace ballast
