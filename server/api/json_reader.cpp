// SPDX-License-Identifier: MIT
// A SAX handler that builds the document on an explicit stack. nlohmann's own builder searches each
// ordered object for each new member, which is quadratic in what a client may send.
#include "server/api/json_reader.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ballast::api {

namespace {

using Json = nlohmann::ordered_json;

class DocumentBuilder final : public nlohmann::json_sax<Json> {
  public:
    explicit DocumentBuilder(const JsonLimits& limits) : limits_(limits) {}

    Json take() { return std::move(root_); }
    const std::string& failure() const { return failure_; }

    bool null() override { return add(Json(nullptr)); }
    bool boolean(bool value) override { return add(Json(value)); }
    bool number_integer(number_integer_t value) override { return add(Json(value)); }
    bool number_unsigned(number_unsigned_t value) override { return add(Json(value)); }
    bool number_float(number_float_t value, const string_t& /*text*/) override {
        return add(Json(value));
    }
    bool string(string_t& value) override { return add(Json(std::move(value))); }
    bool binary(binary_t& /*value*/) override { return false; }
    bool start_object(std::size_t /*size*/) override { return open(); }
    bool start_array(std::size_t /*size*/) override { return open(); }
    bool key(string_t& name) override {
        stack_.back().names.push_back(std::move(name));
        return true;
    }
    bool end_object() override {
        Frame frame = std::move(stack_.back());
        stack_.pop_back();
        if (!unique_names(frame.names)) {
            return false;
        }
        Json object = Json::object();
        // The base class appends without a search.
        std::vector<std::pair<const std::string, Json>>& members =
            object.get_ref<Json::object_t&>();
        members.reserve(frame.names.size());
        for (std::size_t i = 0; i < frame.names.size(); ++i) {
            members.emplace_back(std::move(frame.names[i]), std::move(frame.values[i]));
        }
        attach(std::move(object));
        return true;
    }
    bool end_array() override {
        Json array(std::move(stack_.back().values));
        stack_.pop_back();
        attach(std::move(array));
        return true;
    }
    bool parse_error(std::size_t position,
                     const std::string& /*token*/,
                     const nlohmann::detail::exception& error) override {
        constexpr int kNumberOverflow = 406;
        failure_ = error.id == kNumberOverflow
                       ? fmt::format("the number at byte {} is too large.", position)
                       : fmt::format("syntax error or invalid UTF-8 at byte {}.", position);
        return false;
    }

  private:
    /// An open array or object. Names and values apart, because members of nlohmann's object are
    /// copied, not moved, when it grows.
    struct Frame {
        std::vector<std::string> names;  // of an object's members
        Json::array_t values;
    };

    bool count() {
        if (++n_values_ > limits_.values_max) {
            failure_ = fmt::format("it has more than {} values.", limits_.values_max);
            return false;
        }
        return true;
    }

    bool add(Json value) {
        if (!count()) {
            return false;
        }
        attach(std::move(value));
        return true;
    }

    void attach(Json value) {
        if (stack_.empty()) {
            root_ = std::move(value);
        } else {
            stack_.back().values.push_back(std::move(value));
        }
    }

    bool open() {
        if (!count()) {
            return false;
        }
        if (stack_.size() >= limits_.depth_max) {
            failure_ = fmt::format("it is nested deeper than {} levels.", limits_.depth_max);
            return false;
        }
        stack_.push_back(Frame{});
        return true;
    }

    bool unique_names(const std::vector<std::string>& names) {
        std::unordered_set<std::string_view> seen;
        for (const std::string& name : names) {
            if (!seen.insert(name).second) {
                failure_ = fmt::format("the member '{}' occurs twice.", name.substr(0, 64));
                return false;
            }
        }
        return true;
    }

    const JsonLimits limits_;
    Json root_;
    std::vector<Frame> stack_;  // outermost first
    std::size_t n_values_ = 0;
    std::string failure_;
};

}  // namespace

Result<Json> read_json(std::string_view text, const JsonLimits& limits) {
    DocumentBuilder builder(limits);
    if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
        return fail(ErrorCode::kInvalidRequest, builder.failure());
    }
    return builder.take();
}

ApiResult<Json> parse_json(std::string_view text, const JsonLimits& limits) {
    Result<Json> document = read_json(text, limits);
    if (!document) {
        return refuse(invalid_json(document.error().message));
    }
    return std::move(*document);
}

ApiResult<Json> parse_json_object(std::string_view text) {
    BALLAST_TRY(Json document, parse_json(text));
    if (!document.is_object()) {
        return refuse(invalid_json("it must be an object."));
    }
    return document;
}

}  // namespace ballast::api
