// SPDX-License-Identifier: MIT
// Recursion is bounded by the nesting limit, checked on the way down.
#include "engine/chat/template_json.h"

#include <nlohmann/json.hpp>

#include "engine/chat/template_operators.h"

namespace ballast::chat {

namespace {

using Json = nlohmann::ordered_json;

Result<Value> convert(const Values& values, const Json& json, std::uint32_t level) {
    if (level > values.heap().limits().value_depth_max) {
        return template_error("the variables of the chat template are nested too deeply");
    }
    switch (json.type()) {
        case Json::value_t::null:
            return Value::none();
        case Json::value_t::boolean:
            return Value::boolean(json.get<bool>());
        case Json::value_t::number_integer:
            return Value::integer(json.get<std::int64_t>());
        case Json::value_t::number_unsigned:
            return Value::integer(json.get<std::uint64_t>());
        case Json::value_t::number_float:
            return Value::real(json.get<double>());
        case Json::value_t::string:
            return values.string(json.get_ref<const std::string&>());
        case Json::value_t::array: {
            std::vector<Value> items;
            items.reserve(json.size());
            for (const Json& element : json) {
                BALLAST_TRY(auto item, convert(values, element, level + 1));
                items.push_back(std::move(item));
            }
            return values.list(std::move(items));
        }
        case Json::value_t::object: {
            Entries entries;
            entries.reserve(json.size());
            for (const auto& [key, element] : json.items()) {
                BALLAST_TRY(auto name, values.string(key));
                BALLAST_TRY(auto item, convert(values, element, level + 1));
                entries.emplace_back(std::move(name), std::move(item));
            }
            return values.dict(std::move(entries), true);
        }
        default:
            return template_error("the variables of the chat template hold binary data");
    }
}

}  // namespace

Result<Value> value_from_json(const Values& values, const Json& json) {
    return convert(values, json, 0);
}

}  // namespace ballast::chat
