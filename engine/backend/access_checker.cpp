// SPDX-License-Identifier: MIT
// Vector clocks (Lamport 1978; Flanagan and Freund 2009, FastTrack) with one entry a queue. The
// host needs none: a call on a queue comes after all that the host did before it, and what the
// host itself did is over when its call returns.
#include "engine/backend/access_checker.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/base/units.h"

namespace ballast::backend {

namespace {

constexpr const char* kFree = "free";

std::uintptr_t address_of(const std::byte* data) {
    return reinterpret_cast<std::uintptr_t>(data);
}

bool overlap(const ByteRows& a, const ByteRows& b) {
    return address_of(a.data) < address_of(b.data) + b.extent() &&
           address_of(b.data) < address_of(a.data) + a.extent();
}

std::uint64_t mix(std::uint64_t hash, const std::byte* data, std::size_t n) {
    for (std::size_t i = 0; i < n; i += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, data + i, std::min(sizeof(word), n - i));
        hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
        hash ^= hash >> 32U;
    }
    return hash;
}

}  // namespace

template <class Visit>
void AccessChecker::each_row(const ByteRows& bytes, const Visit& visit) {
    const Address begin = address_of(bytes.data);
    if (bytes.contiguous()) {
        visit(begin, begin + bytes.extent());
        return;
    }
    for (std::size_t row = 0; row < bytes.n_rows; ++row) {
        visit(begin + row * bytes.stride, begin + row * bytes.stride + bytes.row_bytes);
    }
}

void AccessChecker::allocated(Side side, Chunk chunk) {
    const Address begin = address_of(chunk.data);
    chunks_[static_cast<std::size_t>(side)][begin] = {.end = begin + chunk.size_bytes,
                                                      .serial = ++n_chunks_};
}

void AccessChecker::freeing(Side side, Chunk chunk) {
    auto& chunks = chunks_[static_cast<std::size_t>(side)];
    const Address begin = address_of(chunk.data);
    const auto found = chunks.find(begin);
    if (found == chunks.end()) {
        report(fmt::format("the host frees {}, where no chunk in use begins",
                           name_bytes(side, begin, begin + chunk.size_bytes)));
        return;
    }
    const std::size_t size_bytes = found->second.end - begin;
    lane_ = Lane::kHost;
    const ByteRows all{.data = chunk.data, .row_bytes = size_bytes};
    check_order({.side = side, .touch = {.bytes = all, .writes = true}, .label = {.what = kFree}},
                host_);
    uses_[static_cast<std::size_t>(side)].erase(begin, found->second.end);
    if (side == Side::kDevice) {
        written_.erase(begin, found->second.end);
        freed_.push_back({.begin = begin, .chunk = found->second});
        if (freed_.size() > kFreedMax) {
            freed_.pop_front();
        }
    } else {
        std::erase_if(sources_, [&](const Source& source) { return overlap(source.bytes, all); });
    }
    chunks.erase(found);
}

void AccessChecker::device_gone() {
    host_ = n_put_;
    sources_.clear();
    bindings_.clear();
    forget_what_the_host_comes_after();
    const auto device = static_cast<std::size_t>(Side::kDevice);
    uses_[device] = {};
    chunks_[device].clear();
    written_ = {};
}

void AccessChecker::begin(Lane lane) {
    lane_ = lane;
    touches_.clear();
    bound_.clear();
}

void AccessChecker::touch(Side side, const Touch& touch, WorkLabel label) {
    if (!touch.bytes.empty()) {
        touches_.push_back({.side = side, .touch = touch, .label = label});
    }
}

void AccessChecker::bind(std::span<const std::byte> bytes, WorkLabel label) {
    if (!bytes.empty()) {
        bound_.push_back(
            {.bytes = {.data = bytes.data(), .row_bytes = bytes.size()}, .label = label});
    }
}

AccessChecker::Clock AccessChecker::clock_of_work() const {
    if (!on_queue()) {
        return host_;
    }
    Clock clock = queues_[index_of(queue())];
    for (std::size_t i = 0; i < kQueues; ++i) {
        clock[i] = std::max(clock[i], host_[i]);
    }
    clock[index_of(queue())] = n_put_[index_of(queue())] + 1;
    return clock;
}

void AccessChecker::check() {
    ++n_checked_;
    const Clock clock = clock_of_work();
    bool fine = true;
    for (const LabelledTouch& each : touches_) {
        // One sentence for one piece of work; the rest would mostly say the same again.
        fine = fine && check_alive(each) && check_order(each, clock);
        if (options_.unwritten && each.side == Side::kDevice) {
            fine = check_written(each) && fine;
        }
        if (!on_queue() && each.side == Side::kHost && each.touch.writes) {
            std::erase_if(sources_, [&](const Source& source) {
                return overlap(source.bytes, each.touch.bytes);
            });
        }
    }
}

void AccessChecker::put(Event event) {
    BALLAST_CHECK(on_queue());
    const PutWork work{
        .queue = queue(), .number = n_put_[index_of(queue())] + 1, .clock = clock_of_work()};
    n_put_[index_of(queue())] = work.number;
    queues_[index_of(queue())] = work.clock;
    events_[static_cast<std::uint64_t>(event)] = work;
    note_sources(work);
    for (Source& binding : bound_) {
        binding.work = work;
        binding.fingerprint = fingerprint(binding.bytes);
        bindings_.push_back(binding);
    }
    for (const LabelledTouch& each : touches_) {
        note(each, work.number);
    }
}

void AccessChecker::note(const LabelledTouch& each, std::uint64_t number) {
    const Use use{.number = number, .label = each.label};
    ByteMap<Uses>& uses = uses_[static_cast<std::size_t>(each.side)];
    each_row(each.touch.bytes, [&](Address begin, Address end) {
        uses.update(begin, end, [&](Uses& known) {
            if (each.touch.writes) {
                // What was before it came before it, so that it stands for all of that.
                known = {.write = use, .writer = queue()};
            } else {
                known.reads[index_of(queue())] = use;
            }
        });
    });
}

void AccessChecker::note_sources(const PutWork& work) {
    for (const LabelledTouch& each : touches_) {
        if (each.side != Side::kHost) {
            continue;
        }
        if (each.touch.writes) {
            std::erase_if(sources_, [&](const Source& source) {
                return overlap(source.bytes, each.touch.bytes);
            });
            continue;
        }
        bool still_written = false;
        each_row(each.touch.bytes, [&](Address begin, Address end) {
            uses_[static_cast<std::size_t>(Side::kHost)].each(
                begin, end, [&](Address, Address, const Uses& known) {
                    still_written =
                        still_written || known.write.number > host_[index_of(known.writer)];
                });
        });
        if (!still_written) {
            sources_.push_back({.bytes = each.touch.bytes,
                                .fingerprint = fingerprint(each.touch.bytes),
                                .work = work,
                                .label = each.label});
        }
    }
}

void AccessChecker::order_after(Queue queue, Event event) {
    const auto found = events_.find(static_cast<std::uint64_t>(event));
    if (found == events_.end()) {
        return;  // The host comes after it already, and so does all that it puts.
    }
    Clock& clock = queues_[index_of(queue)];
    for (std::size_t i = 0; i < kQueues; ++i) {
        clock[i] = std::max(clock[i], found->second.clock[i]);
    }
}

void AccessChecker::happened(Event event) {
    const auto found = events_.find(static_cast<std::uint64_t>(event));
    if (found == events_.end()) {
        return;
    }
    for (std::size_t i = 0; i < kQueues; ++i) {
        host_[i] = std::max(host_[i], found->second.clock[i]);
    }
    check_sources(sources_);
    check_sources(bindings_);
    forget_what_the_host_comes_after();
}

void AccessChecker::forget_what_the_host_comes_after() {
    std::erase_if(events_, [&](const auto& event) {
        return event.second.number <= host_[index_of(event.second.queue)];
    });
    for (ByteMap<Uses>& uses : uses_) {
        uses.erase_if([&](const Uses& known) {
            bool over = known.write.number <= host_[index_of(known.writer)];
            for (std::size_t i = 0; i < kQueues; ++i) {
                over = over && known.reads[i].number <= host_[i];
            }
            return over;
        });
    }
}

void AccessChecker::check_sources(std::vector<Source>& sources) {
    Clock reported = {};  // one sentence for one piece of work
    std::erase_if(sources, [&](const Source& source) {
        const std::size_t of = index_of(source.work.queue);
        if (source.work.number > host_[of]) {
            return false;
        }
        if (source.work.number != reported[of] && fingerprint(source.bytes) != source.fingerprint) {
            reported[of] = source.work.number;
            const Address begin = address_of(source.bytes.data);
            report(fmt::format(
                "the host changed {} while {} may still have been reading it",
                name_bytes(Side::kHost, begin, begin + source.bytes.extent()),
                name_work(static_cast<Lane>(source.work.queue), source.work.number, source.label)));
        }
        return true;
    });
}

void AccessChecker::host_uses(const ByteRows& bytes, bool writes, const char* what) {
    begin(Lane::kHost);
    touch(Side::kHost, {.bytes = bytes, .writes = writes}, {.what = what});
    check();
}

bool AccessChecker::check_alive(const LabelledTouch& each) {
    if (each.side == Side::kHost) {
        return true;
    }
    const auto& chunks = chunks_[static_cast<std::size_t>(each.side)];
    const Address begin = address_of(each.touch.bytes.data);
    const Address end = begin + each.touch.bytes.extent();
    const auto after = chunks.upper_bound(begin);
    if (after != chunks.begin() && std::prev(after)->second.end >= end) {
        return true;
    }
    report(fmt::format("{} {} {}, which is not within a chunk in use",
                       name_begun(each.label),
                       each.touch.writes ? "writes" : "reads",
                       name_bytes(each.side, begin, end)));
    return false;
}

bool AccessChecker::check_written(const LabelledTouch& each) {
    std::optional<std::pair<Address, Address>> gap;
    each_row(each.touch.bytes, [&](Address begin, Address end) {
        if (each.touch.writes) {
            written_.set(begin, end, true);
            return;
        }
        Address at = begin;
        written_.each(begin, end, [&](Address from, Address to, bool) {
            if (from > at && !gap) {
                gap.emplace(at, from);
            }
            at = to;
        });
        if (at < end && !gap) {
            gap.emplace(at, end);
        }
    });
    if (gap) {
        report(fmt::format("{} reads {}, which nothing has written",
                           name_begun(each.label),
                           name_bytes(each.side, gap->first, gap->second)));
        // Said once.
        written_.set(gap->first, gap->second, true);
    }
    return !gap;
}

bool AccessChecker::check_order(const LabelledTouch& each, const Clock& clock) {
    struct Collision {
        Address begin = 0;
        Address end = 0;
        Queue queue = Queue::kCompute;
        Use use = {};
        bool was_write = false;
    };
    std::optional<Collision> first;
    const auto look = [&](Address begin, Address end, Queue of, const Use& use, bool was_write) {
        if (use.number > clock[index_of(of)] && !first) {
            first = {begin, end, of, use, was_write};
        }
    };
    each_row(each.touch.bytes, [&](Address from, Address until) {
        uses_[static_cast<std::size_t>(each.side)].each(
            from, until, [&](Address begin, Address end, const Uses& known) {
                look(begin, end, known.writer, known.write, true);
                for (const Queue of : {Queue::kCompute, Queue::kCopy}) {
                    if (each.touch.writes) {
                        look(begin, end, of, known.reads[index_of(of)], false);
                    }
                }
            });
    });
    if (!first) {
        return true;
    }
    const bool frees = each.label.what == kFree;
    report(
        fmt::format("{} {} {}, which {} {}, and nothing orders the first after the second",
                    frees ? "the host" : name_begun(each.label),
                    frees ? "frees" : (each.touch.writes ? "writes" : "reads"),
                    name_bytes(each.side, first->begin, first->end),
                    name_work(static_cast<Lane>(first->queue), first->use.number, first->use.label),
                    first->was_write ? "writes" : "reads"));
    return false;
}

void AccessChecker::report(const std::string& sentence) {
    ++n_violations_;
    if (options_.handler) {
        options_.handler(sentence);
    } else {
        check_failed(sentence.c_str(), __FILE__, __LINE__);
    }
}

std::string AccessChecker::name_work(Lane lane,
                                     std::uint64_t number,
                                     const WorkLabel& label) const {
    const std::string what =
        label.layer >= 0 ? fmt::format("{} of layer {}", label.what, label.layer) : label.what;
    if (lane == Lane::kHost) {
        return fmt::format("the host ({})", what);
    }
    return fmt::format(
        "work {} of the {} queue ({})", number, lane == Lane::kCopy ? "copy" : "compute", what);
}

std::string AccessChecker::name_begun(const WorkLabel& label) const {
    return name_work(lane_, on_queue() ? n_put_[index_of(queue())] + 1 : 0, label);
}

std::string AccessChecker::name_bytes(Side side, Address begin, Address end) const {
    const char* name = side == Side::kDevice ? "device" : "host";
    const auto& chunks = chunks_[static_cast<std::size_t>(side)];
    const auto after = chunks.upper_bound(begin);
    if (after != chunks.begin() && std::prev(after)->second.end > begin) {
        const auto& [first, chunk] = *std::prev(after);
        return fmt::format(
            "bytes [{}, {}) of {} chunk {}", begin - first, end - first, name, chunk.serial);
    }
    for (auto it = freed_.rbegin(); side == Side::kDevice && it != freed_.rend(); ++it) {
        if (begin >= it->begin && begin < it->chunk.end) {
            return fmt::format("bytes [{}, {}) of the freed device chunk {}",
                               begin - it->begin,
                               end - it->begin,
                               it->chunk.serial);
        }
    }
    return fmt::format("{} bytes of {} memory at {:#x}", end - begin, name, begin);
}

std::uint64_t AccessChecker::fingerprint(const ByteRows& bytes) {
    // Of what is long, a line in every page: a buffer that is filled anew differs everywhere.
    constexpr std::size_t kWhole = 64 * kKiB;
    constexpr std::size_t kPage = 4 * kKiB;
    constexpr std::size_t kLine = 64;
    std::uint64_t hash = 0;
    const std::size_t step = bytes.row_bytes * bytes.n_rows <= kWhole ? kLine : kPage;
    for (std::size_t row = 0; row < bytes.n_rows; ++row) {
        const std::byte* data = bytes.data + row * bytes.stride;
        for (std::size_t at = 0; at < bytes.row_bytes; at += step) {
            hash = mix(hash, data + at, std::min(kLine, bytes.row_bytes - at));
        }
    }
    return hash;
}

std::size_t AccessChecker::n_remembered() const {
    std::size_t n = events_.size() + sources_.size() + bindings_.size();
    for (const ByteMap<Uses>& uses : uses_) {
        n += uses.n_runs();
    }
    return n;
}

}  // namespace ballast::backend
