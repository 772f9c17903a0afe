// SPDX-License-Identifier: MIT
// Things a template can call: its own macros, the built-in functions, methods bound to a value, and
// the loop. The interpreter makes and runs them; elsewhere they are opaque.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/chat/template_value.h"

namespace ballast::chat {

struct LoopState;
struct MacroNode;
struct Scope;

enum class CallableKind { kMacro, kFunction, kMethod, kLoop, kCycler, kJoiner };

struct CallableObject {
    Charge charge;
    CallableKind kind = CallableKind::kFunction;
    std::uint32_t depth = 1;
    /// Of a function or method; of a macro for messages.
    std::string name;
    /// kMethod: the value it belongs to.
    Value self;
    /// kMacro: both belong to the program and the interpreter, which outlive this.
    const MacroNode* macro = nullptr;
    Scope* scope = nullptr;
    /// kLoop.
    std::shared_ptr<LoopState> loop;
    /// kCycler: its items; kJoiner: the separator, first used at the second call.
    std::vector<Value> items;
    std::size_t position = 0;
};

/// Arguments of a call, evaluated.
struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;

    const Value* find(std::string_view name) const {
        for (const auto& [key, value] : named) {
            if (key == name) {
                return &value;
            }
        }
        return nullptr;
    }
};

}  // namespace ballast::chat
