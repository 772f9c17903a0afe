// SPDX-License-Identifier: MIT
// A file of its own: beside its callers g++ would inline one half of a pair and warn that malloc()
// and operator delete do not match.
#include "tests/engine/sampling/counting_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int> count{0};
}  // namespace

void* operator new(std::size_t size) {
    ++count;
    void* memory = std::malloc(size == 0 ? 1 : size);
    if (memory == nullptr) {
        std::abort();
    }
    return memory;
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace ballast::test {

int n_allocations() {
    return count;
}

}  // namespace ballast::test
