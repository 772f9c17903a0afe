// SPDX-License-Identifier: MIT
// Calls: macros, methods, the built-in functions and the loop.
#include <algorithm>
#include <limits>

#include "engine/chat/template_arguments.h"
#include "engine/chat/template_eval.h"
#include "engine/chat/template_frames.h"
#include "engine/chat/template_methods.h"
#include "engine/chat/template_print.h"
#include "engine/chat/template_time.h"

namespace ballast::chat {

namespace {

/// Jinja's sandbox refuses longer ranges.
constexpr std::int64_t kRangeMax = 100'000;

constexpr std::string_view kFunctions[] = {
    "range", "dict", "namespace", "cycler", "joiner", "raise_exception", "strftime_now"};

}  // namespace

Result<Arguments> TemplateRenderer::evaluate_arguments(const ArgumentNodes& nodes) {
    Arguments arguments;
    arguments.positional.reserve(nodes.positional.size());
    for (const auto& node : nodes.positional) {
        BALLAST_TRY(auto value, evaluate(*node));
        arguments.positional.push_back(std::move(value));
    }
    for (const auto& [name, node] : nodes.named) {
        BALLAST_TRY(auto value, evaluate(*node));
        arguments.named.emplace_back(name, std::move(value));
    }
    if (nodes.spread) {
        BALLAST_TRY(const auto sequence, evaluate(*nodes.spread));
        BALLAST_TRY(const auto items, collect(values_, sequence));
        arguments.positional.insert(arguments.positional.end(), items.begin(), items.end());
    }
    if (nodes.spread_named) {
        BALLAST_TRY(const auto mapping, evaluate(*nodes.spread_named));
        if (!mapping.is(Kind::kDict)) {
            return template_error("argument after ** must be a mapping, not " + type_name(mapping));
        }
        for (const auto& [key, value] : mapping.dict().entries) {
            if (!key.is(Kind::kString)) {
                return template_error("keywords must be strings");
            }
            arguments.named.emplace_back(key.text(), value);
        }
    }
    return arguments;
}

/// `caller` is what a call block adds to the arguments, or null.
Result<Value> TemplateRenderer::evaluate_call(const Expression& node, const Value* caller) {
    const Expression& target = *node.operands[0];
    Value callee;
    Value self;
    bool is_method = false;
    if (target.kind == ExpressionKind::kAttribute) {
        BALLAST_TRY(self, evaluate(*target.operands[0]));
        is_method = method_access(self, target.text) == MethodAccess::kAllowed;
        if (!is_method) {
            BALLAST_TRY(callee, attribute(self, target.text));
        }
    } else {
        BALLAST_TRY(callee, evaluate(target));
    }
    BALLAST_TRY(auto arguments, evaluate_arguments(node.arguments));
    if (caller != nullptr) {
        arguments.named.emplace_back("caller", *caller);
    }
    return is_method ? call_method(values_, self, target.text, arguments)
                     : call_value(callee, arguments);
}

Result<Value> TemplateRenderer::call_value(const Value& callee, const Arguments& arguments) {
    BALLAST_TRY_STATUS(heap_.spend(1));
    if (callee.is(Kind::kUndefined)) {
        return undefined_error(callee);
    }
    if (!callee.is(Kind::kCallable)) {
        return template_error("'" + type_name(callee) + "' object is not callable");
    }
    CallableObject& object = callee.callable();
    switch (object.kind) {
        case CallableKind::kMacro:
            return call_macro(object, arguments);
        case CallableKind::kFunction:
            return call_function(object.name, arguments);
        case CallableKind::kMethod:
            return call_bound(object, arguments);
        case CallableKind::kLoop:
            return call_loop(object, arguments);
        case CallableKind::kJoiner:
            return object.position++ == 0 ? values_.string("") : Result<Value>(object.items[0]);
        case CallableKind::kCycler:
            break;
    }
    return template_error("'" + type_name(callee) + "' object is not callable");
}

Result<std::shared_ptr<CallableObject>> TemplateRenderer::make_callable(CallableKind kind,
                                                                        std::string_view name) {
    BALLAST_TRY(auto charge, heap_.charge(sizeof(CallableObject)));
    auto object = std::make_shared<CallableObject>();
    object->charge = std::move(charge);
    object->kind = kind;
    object->name = name;
    return object;
}

Result<Value> TemplateRenderer::make_macro(const MacroNode& macro) {
    BALLAST_TRY(auto object, make_callable(CallableKind::kMacro, macro.name));
    object->macro = &macro;
    object->scope = scope_;
    for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) {
        scope->captured = true;
        BALLAST_TRY(scope->charge, heap_.charge(sizeof(Scope)));
    }
    return Value::of(std::move(object));
}

Result<Value> TemplateRenderer::call_macro(const CallableObject& macro,
                                           const Arguments& arguments) {
    const Depth depth(call_depth_);
    BALLAST_TRY_STATUS(depth.check(limits_.depth_max));
    const MacroNode& node = *macro.macro;
    Capture capture(*this);
    {
        const ScopeFrame frame(*this, macro.scope);
        BALLAST_TRY_STATUS(bind_surplus(node, arguments));
        BALLAST_TRY_STATUS(bind_macro_arguments(node, arguments));
        BALLAST_TRY_STATUS(run_block(node.body).map([](Flow) {}));
    }
    return values_.string(capture.take());
}

Status TemplateRenderer::bind_macro_arguments(const MacroNode& macro, const Arguments& arguments) {
    for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
        const auto& parameter = macro.parameters[i];
        const Value* named = arguments.find(parameter.name);
        if (i < arguments.positional.size()) {
            if (named != nullptr) {
                return template_error("macro '" + macro.name + "' got the argument '" +
                                      parameter.name + "' twice");
            }
            bind(parameter.symbol, arguments.positional[i]);
        } else if (named != nullptr) {
            bind(parameter.symbol, *named);
        } else if (parameter.fallback) {
            BALLAST_TRY(auto value, evaluate(*parameter.fallback));
            bind(parameter.symbol, std::move(value));
        } else {
            bind(parameter.symbol,
                 values_.undefined("parameter '" + parameter.name + "' was not provided"));
        }
    }
    return {};
}

/// Arguments that no parameter takes: for varargs, kwargs and caller, or an error.
Status TemplateRenderer::bind_surplus(const MacroNode& macro, const Arguments& arguments) {
    const std::size_t n = macro.parameters.size();
    if (arguments.positional.size() > n && !macro.uses_varargs) {
        return template_error("macro '" + macro.name + "' takes not more than " +
                              std::to_string(n) + " argument(s)");
    }
    if (macro.uses_varargs) {
        std::vector<Value> surplus;
        for (std::size_t i = n; i < arguments.positional.size(); ++i) {
            surplus.push_back(arguments.positional[i]);
        }
        BALLAST_TRY(auto tuple, values_.tuple(std::move(surplus)));
        bind(kSymbolVarargs, std::move(tuple));
    }
    Entries extra;
    Value caller = values_.undefined("No caller defined");
    for (const auto& [name, value] : arguments.named) {
        const auto takes = [&name = name](const auto& p) { return p.name == name; };
        if (std::any_of(macro.parameters.begin(), macro.parameters.end(), takes)) {
            continue;
        }
        if (name == "caller" && macro.uses_caller) {
            caller = value;
        } else if (macro.uses_kwargs) {
            BALLAST_TRY(auto key, values_.string(name));
            extra.emplace_back(std::move(key), value);
        } else {
            return template_error("macro '" + macro.name + "' takes no keyword argument '" +
                                  name.substr(0, 80) + "'");
        }
    }
    if (macro.uses_kwargs) {
        BALLAST_TRY(auto dict, values_.dict(std::move(extra)));
        bind(kSymbolKwargs, std::move(dict));
    }
    if (macro.uses_caller) {
        bind(kSymbolCaller, std::move(caller));
    }
    return {};
}

Result<std::optional<Value>> TemplateRenderer::builtin_function(std::string_view name) {
    if (std::find(std::begin(kFunctions), std::end(kFunctions), name) == std::end(kFunctions)) {
        return std::optional<Value>();
    }
    BALLAST_TRY(auto object, make_callable(CallableKind::kFunction, name));
    return std::optional<Value>(Value::of(std::move(object)));
}

Result<Value> TemplateRenderer::call_function(std::string_view name, const Arguments& arguments) {
    if (name == "range") {
        return call_range(arguments);
    }
    if (name == "dict") {
        return call_dict(arguments);
    }
    if (name == "namespace") {
        return call_namespace(arguments);
    }
    if (name == "raise_exception") {
        return call_raise(arguments);
    }
    if (name == "strftime_now") {
        return call_strftime(arguments);
    }
    const bool cycler = name == "cycler";
    BALLAST_TRY(auto object,
                make_callable(cycler ? CallableKind::kCycler : CallableKind::kJoiner, name));
    if (cycler) {
        if (arguments.positional.empty() || !arguments.named.empty()) {
            return template_error("at least one item has to be provided");
        }
        object->items = arguments.positional;
    } else {
        BALLAST_TRY(const auto bound, BoundArguments::bind(name, arguments, {"sep"}));
        BALLAST_TRY(auto separator, values_.string(", "));
        object->items.push_back(bound.given(0) ? bound.value(0) : separator);
    }
    for (const Value& item : object->items) {
        object->depth = std::max(object->depth, item.depth() + 1);
    }
    if (object->depth > limits_.depth_max) {
        return template_error("the chat template's data is nested too deeply");
    }
    return Value::of(std::move(object));
}

Result<Value> TemplateRenderer::call_range(const Arguments& arguments) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind("range", arguments, {"start", "stop", "step"}, 1));
    for (std::size_t i = 0; i < 3; ++i) {
        if (bound.given(i) && !bound.value(i).is_integral()) {
            return bound.value(i).is(Kind::kUndefined)
                       ? Result<Value>(undefined_error(bound.value(i)))
                       : template_error("'" + type_name(bound.value(i)) +
                                        "' object cannot be interpreted as an integer");
        }
    }
    RangeValue range;
    BALLAST_TRY(range.stop, bound.integer(0, 0));
    if (bound.given(1)) {
        range.start = range.stop;
        BALLAST_TRY(range.stop, bound.integer(1, 0));
    }
    BALLAST_TRY(range.step, bound.integer(2, 1));
    // Ends far outside what a template counts would overflow in slices of slices.
    constexpr std::int64_t kEndMax = std::int64_t{1} << 40;
    for (const std::int64_t end : {range.start, range.stop, range.step}) {
        if (end > kEndMax || end < -kEndMax) {
            return template_error("range() has an end that is too large");
        }
    }
    if (range.step == 0) {
        return template_error("range() arg 3 must not be zero");
    }
    if (range.size() > kRangeMax) {
        return template_error("Range too big. The sandbox blocks ranges larger than " +
                              std::to_string(kRangeMax) + ".");
    }
    return Value::of(range);
}

Result<Value> TemplateRenderer::call_dict(const Arguments& arguments) {
    Entries entries;
    if (arguments.positional.size() > 1) {
        return template_error("dict expected at most 1 argument");
    }
    if (!arguments.positional.empty()) {
        const Value& source = arguments.positional[0];
        if (source.is(Kind::kDict)) {
            entries = source.dict().entries;
        } else {
            BALLAST_TRY(const auto pairs, collect(values_, source));
            for (const Value& pair : pairs) {
                BALLAST_TRY(auto both, collect(values_, pair));
                if (both.size() != 2) {
                    return template_error("dict() needs pairs");
                }
                entries.emplace_back(std::move(both[0]), std::move(both[1]));
            }
        }
    }
    for (const auto& [name, value] : arguments.named) {
        BALLAST_TRY(auto key, values_.string(name));
        entries.emplace_back(std::move(key), value);
    }
    return values_.dict(std::move(entries));
}

Result<Value> TemplateRenderer::call_namespace(const Arguments& arguments) {
    BALLAST_TRY(const auto initial, call_dict(arguments));
    auto space = std::make_unique<NamespaceObject>();
    std::uint64_t bytes = sizeof(NamespaceObject);
    for (const auto& [key, value] : initial.dict().entries) {
        if (!key.is(Kind::kString)) {
            return template_error("namespace() needs strings as names");
        }
        bytes += key.text().size() + sizeof(std::pair<std::string, Value>);
        space->attributes.emplace_back(key.text(), value);
    }
    BALLAST_TRY(space->charge, heap_.charge(bytes));
    namespaces_.push_back(std::move(space));
    return Value::of(namespaces_.back().get());
}

Result<Value> TemplateRenderer::call_raise(const Arguments& arguments) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind("raise_exception", arguments, {"message"}, 1));
    BALLAST_TRY(auto message, to_str(values_, bound.value(0)));
    // The author's words, without a line.
    error_located_ = true;
    return template_error(std::move(message));
}

Result<Value> TemplateRenderer::call_strftime(const Arguments& arguments) {
    BALLAST_TRY(const auto bound, BoundArguments::bind("strftime_now", arguments, {"format"}, 1));
    BALLAST_TRY(const auto format, bound.text(0, ""));
    BALLAST_TRY(auto text, format_time(unix_seconds_, format));
    return values_.string(std::move(text));
}

Result<Value> TemplateRenderer::call_loop(const CallableObject& loop, const Arguments& arguments) {
    const Depth depth(call_depth_);
    BALLAST_TRY_STATUS(depth.check(limits_.depth_max));
    BALLAST_TRY(const auto bound, BoundArguments::bind("loop", arguments, {"iterable"}, 1));
    if (!loop.loop->node->recursive) {
        return template_error("The loop must have the 'recursive' marker to be called recursively");
    }
    if (!loop.loop->active) {
        return template_error("a loop is called after it has ended");
    }
    // The inner loop runs where the outer one stands, not inside its body.
    Capture capture(*this);
    Scope* const outer = std::exchange(scope_, loop.loop->scope);
    const Status status = run_loop(*loop.loop->node, bound.value(0), loop.loop->depth0 + 1);
    scope_ = outer;
    BALLAST_TRY_STATUS(status);
    return values_.string(capture.take());
}

Result<Value> TemplateRenderer::call_bound(const CallableObject& method,
                                           const Arguments& arguments) {
    if (!method.self.is(Kind::kCallable)) {
        return call_method(values_, method.self, method.name, arguments);
    }
    CallableObject& self = method.self.callable();
    if (self.kind == CallableKind::kCycler) {
        BALLAST_TRY_STATUS(expect_no_arguments(method.name, arguments));
        if (method.name == "reset") {
            self.position = 0;
            return Value::none();
        }
        const Value item = self.items[self.position];
        self.position = (self.position + 1) % self.items.size();
        return item;
    }
    LoopState& loop = *self.loop;
    if (method.name == "cycle") {
        if (arguments.positional.empty()) {
            return template_error("no items for cycling given");
        }
        const auto n = static_cast<std::int64_t>(arguments.positional.size());
        const std::int64_t at = std::max<std::int64_t>(loop.index0, 0) % n;
        return arguments.positional[static_cast<std::size_t>(at)];
    }
    bool changed = !loop.last_changed || loop.last_changed->size() != arguments.positional.size();
    for (std::size_t i = 0; !changed && i < arguments.positional.size(); ++i) {
        BALLAST_TRY(const bool same,
                    equal(heap_, (*loop.last_changed)[i], arguments.positional[i]));
        changed = !same;
    }
    if (changed && loop.active) {
        loop.last_changed = arguments.positional;
    }
    return Value::boolean(changed);
}

Result<Value> TemplateRenderer::callable_attribute(const Value& object, std::string_view name) {
    const CallableObject& callable = object.callable();
    const bool cycler = callable.kind == CallableKind::kCycler;
    const bool loop = callable.kind == CallableKind::kLoop;
    if ((cycler && (name == "next" || name == "reset")) ||
        (loop && (name == "cycle" || name == "changed"))) {
        BALLAST_TRY(auto method, make_callable(CallableKind::kMethod, name));
        method->self = object;
        method->depth = callable.depth + 1;
        return Value::of(std::move(method));
    }
    if (cycler && name == "current") {
        return callable.items[callable.position];
    }
    if (callable.kind == CallableKind::kMacro && name == "name") {
        return values_.string(callable.name);
    }
    return loop ? loop_attribute(object, name) : get_attribute(values_, object, name);
}

Result<Value> TemplateRenderer::loop_attribute(const Value& object, std::string_view name) {
    LoopState& loop = *object.callable().loop;
    const Integer left = loop.remaining();
    if (name == "index") {
        return Value::integer(loop.index0 + 1);
    }
    if (name == "index0") {
        return Value::integer(loop.index0);
    }
    if (name == "revindex") {
        return Value::integer(left + 1);
    }
    if (name == "revindex0") {
        return Value::integer(left);
    }
    if (name == "length") {
        return Value::integer(loop.index0 + 1 + left);
    }
    if (name == "first" || name == "last") {
        return Value::boolean(name == "first" ? loop.index0 == 0 : left == 0);
    }
    if (name == "depth" || name == "depth0") {
        return Value::integer(loop.depth0 + (name == "depth" ? 1 : 0));
    }
    if (name == "previtem") {
        return loop.previous ? *loop.previous : values_.undefined("there is no previous item");
    }
    if (name == "nextitem") {
        if (!loop.peeked) {
            BALLAST_TRY(loop.peeked, loop.cursor.next());
        }
        return loop.peeked ? *loop.peeked : values_.undefined("there is no next item");
    }
    return get_attribute(values_, object, name);
}

}  // namespace ballast::chat
