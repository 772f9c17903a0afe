// SPDX-License-Identifier: MIT
// The one place where strings and containers are made, so that none escapes the limits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/chat/template_heap.h"
#include "engine/chat/template_value.h"

namespace ballast::chat {

/// Makes values and accounts for them. Each function fails when the limits would be exceeded.
class Values {
  public:
    explicit Values(Heap& heap) : heap_(heap) {}

    Heap& heap() const { return heap_; }

    Result<Value> string(std::string text) const { return make_string(std::move(text), false); }
    Result<Value> string(std::string_view text) const { return string(std::string(text)); }
    Result<Value> string(const char* text) const { return string(std::string(text)); }
    Result<Value> markup(std::string text) const { return make_string(std::move(text), true); }
    Result<Value> list(std::vector<Value> items) const;
    Result<Value> tuple(std::vector<Value> items) const;
    Result<Value> pair(Value first, Value second) const;
    /// Later entries replace earlier ones with an equal key, which must be hashable.
    Result<Value> dict(std::vector<std::pair<Value, Value>> entries,
                       bool keys_distinct = false) const;
    Result<Value> iterator(std::vector<Value> items, std::string type_name = "generator") const;
    Value undefined(std::string why) const;

  private:
    Result<Value> make_string(std::string text, bool markup) const;
    Result<std::uint32_t> depth_over(std::uint32_t inner) const;
    Result<std::shared_ptr<const SequenceObject>> sequence(std::vector<Value> items) const;

    Heap& heap_;
};

}  // namespace ballast::chat
