// SPDX-License-Identifier: MIT
// A value for each byte of an address space, kept by runs of bytes that have the same one. Bytes
// without a value take no room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace ballast::backend {

template <class Value>
class ByteMap {
  public:
    using Address = std::uintptr_t;

    /// Calls visit(run begin, run end, value) for each run with a value, cut to [begin, end).
    template <class Visit>
    void each(Address begin, Address end, const Visit& visit) const {
        if (begin >= end) {
            return;
        }
        for (auto it = first_after(begin); it != runs_.end() && it->first < end; ++it) {
            visit(std::max(begin, it->first), std::min(end, it->second.end), it->second.value);
        }
    }
    /// Calls change(value) for each run of [begin, end); bytes without a value get a new one first.
    template <class Change>
    void update(Address begin, Address end, const Change& change) {
        if (begin >= end) {
            return;
        }
        cut(begin);
        cut(end);
        auto it = runs_.lower_bound(begin);
        while (begin < end) {
            if (it == runs_.end() || it->first > begin) {
                const Address until = it == runs_.end() ? end : std::min(end, it->first);
                it = runs_.emplace_hint(it, begin, Run{.end = until});
            }
            change(it->second.value);
            begin = it->second.end;
            ++it;
        }
    }
    /// The same value for all of them, as one run with its equal neighbours.
    void set(Address begin, Address end, const Value& value) {
        if (begin >= end) {
            return;
        }
        erase(begin, end);
        const auto after = runs_.lower_bound(end);
        if (after != runs_.end() && after->first == end && after->second.value == value) {
            end = after->second.end;
            runs_.erase(after);
        }
        const auto next = runs_.lower_bound(begin);
        if (next != runs_.begin()) {
            Run& before = std::prev(next)->second;
            if (before.end == begin && before.value == value) {
                before.end = end;
                return;
            }
        }
        runs_.emplace_hint(next, begin, Run{.end = end, .value = value});
    }
    void erase(Address begin, Address end) {
        cut(begin);
        cut(end);
        runs_.erase(runs_.lower_bound(begin), runs_.lower_bound(end));
    }
    /// Forgets the values for which that holds.
    template <class Predicate>
    void erase_if(const Predicate& predicate) {
        std::erase_if(runs_, [&](const auto& run) { return predicate(run.second.value); });
    }
    std::size_t n_runs() const { return runs_.size(); }

  private:
    struct Run {
        Address end = 0;
        Value value = {};
    };
    /// The first run that ends after this byte.
    auto first_after(Address at) const {
        auto it = runs_.upper_bound(at);
        if (it != runs_.begin() && std::prev(it)->second.end > at) {
            --it;
        }
        return it;
    }
    /// No run crosses this border afterwards.
    void cut(Address at) {
        const auto it = runs_.lower_bound(at);
        if (it == runs_.begin()) {
            return;
        }
        Run& before = std::prev(it)->second;
        if (before.end > at) {
            runs_.emplace_hint(it, at, Run{.end = before.end, .value = before.value});
            before.end = at;
        }
    }

    std::map<Address, Run> runs_;
};

}  // namespace ballast::backend
