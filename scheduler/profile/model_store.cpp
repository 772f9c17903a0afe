// SPDX-License-Identifier: MIT
// One reader a nested object; every key that no reader asked for is an error.
#include "scheduler/profile/model_store.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scheduler/profile/stored_texts.h"

namespace ballast::scheduler {

namespace {

using Json = nlohmann::json;

// Beyond any model that is published; larger figures would overflow sums of bytes.
constexpr std::int64_t kFigureMax = 1'000'000'000;
constexpr int kLayersMax = 1000;

/// Reads keys of one JSON object and remembers the first fault and which keys were asked for.
class ObjectReader {
  public:
    ObjectReader(const Json& json, std::string prefix) : json_(json), prefix_(std::move(prefix)) {}

    bool has(const std::string& key) {
        known_.insert(key);
        return json_.contains(key);
    }
    /// A whole number in [least, kFigureMax].
    std::int64_t number(const std::string& key, std::int64_t least) {
        const Json* value = find(key);
        if (value == nullptr || !value->is_number_integer()) {
            return fault(key, "must be a whole number");
        }
        const auto figure = value->is_number_unsigned() && value->get<std::uint64_t>() > kFigureMax
                                ? kFigureMax + 1
                                : value->get<std::int64_t>();
        if (figure < least || figure > kFigureMax) {
            return fault(key, fmt::format("must be between {} and {}", least, kFigureMax));
        }
        return figure;
    }
    int whole(const std::string& key, int least = 1) {
        return static_cast<int>(number(key, least));
    }
    std::string text(const std::string& key) {
        const Json* value = find(key);
        if (value == nullptr || !value->is_string()) {
            fault(key, "must be a text");
            return {};
        }
        return value->get<std::string>();
    }
    bool flag(const std::string& key, bool otherwise) {
        if (!has(key)) {
            return otherwise;
        }
        const Json* value = find(key);
        if (!value->is_boolean()) {
            fault(key, "must be true or false");
            return otherwise;
        }
        return value->get<bool>();
    }
    /// The layers a rule names, as one flag a layer.
    std::vector<bool> layers(const std::string& key, int n_layers);
    /// Keys that this program does not compute with.
    void ignore(std::initializer_list<const char*> keys) {
        for (const char* key : keys) {
            known_.insert(key);
        }
    }
    const Json* object(const std::string& key) {
        const Json* value = find(key);
        if (value == nullptr || !value->is_object()) {
            fault(key, "must be an object");
            return nullptr;
        }
        return value;
    }
    /// The first fault of what was read so far; "" if there is none.
    const std::string& fault_so_far() const { return fault_; }
    /// The same when all has been read, an unknown key among them.
    std::string first_fault() {
        for (const auto& [key, value] : json_.items()) {
            if (!known_.contains(key)) {
                fault(key.substr(0, 64), "is not known");
            }
        }
        return fault_;
    }

  private:
    const Json* find(const std::string& key) {
        known_.insert(key);
        const auto found = json_.find(key);
        return found == json_.end() ? nullptr : &*found;
    }
    int fault(const std::string& key, std::string_view what) {
        if (fault_.empty()) {
            fault_ = fmt::format("{}{} {}", prefix_, key, what);
        }
        return 0;
    }
    bool in_range(const Json& value, int n_layers) {
        return value.is_number_integer() && value >= 0 && value < n_layers;
    }

    const Json& json_;
    std::string prefix_;
    std::set<std::string> known_;
    std::string fault_;
};

std::vector<bool> ObjectReader::layers(const std::string& key, int n_layers) {
    std::vector<bool> flags(static_cast<std::size_t>(n_layers), false);
    const Json* rule = find(key);
    const auto every = [&](int first, int step) {
        for (int i = first; i < n_layers; i += step) {
            flags[static_cast<std::size_t>(i)] = true;
        }
    };
    constexpr const char* kWhat =
        R"(must be "all", "even", "odd", a list, {"first", "step"} or {"period", "offsets"})";
    const auto all_in_range = [&](const Json& list) {
        return list.is_array() && std::all_of(list.begin(), list.end(), [&](const Json& value) {
                   return in_range(value, n_layers);
               });
    };
    if (rule != nullptr && (*rule == "all" || *rule == "even" || *rule == "odd")) {
        every(*rule == "odd" ? 1 : 0, *rule == "all" ? 1 : 2);
    } else if (rule != nullptr && all_in_range(*rule)) {
        for (const Json& layer : *rule) {
            flags[layer.get<std::size_t>()] = true;
        }
    } else if (rule != nullptr && rule->is_object() && rule->size() == 2 &&
               in_range(rule->value("first", Json(-1)), n_layers) &&
               rule->value("step", Json(0)).is_number_integer() &&
               rule->value("step", Json(0)) > 0 && rule->value("step", Json(0)) <= n_layers) {
        every((*rule)["first"].get<int>(), (*rule)["step"].get<int>());
    } else if (rule != nullptr && rule->is_object() && rule->size() == 2 &&
               rule->value("period", Json(0)).is_number_integer() &&
               rule->value("period", Json(0)) > 0 && rule->value("period", Json(0)) <= n_layers &&
               all_in_range(rule->value("offsets", Json()))) {
        for (const Json& offset : (*rule)["offsets"]) {
            every(offset.get<int>(), (*rule)["period"].get<int>());
        }
    } else {
        fault(key, kWhat);
    }
    return flags;
}

std::string read_attention(const Json& json, ModelShape& shape) {
    ObjectReader reader(json, "attention.");
    ModelShape::Attention& attention = shape.attention;
    attention.heads = reader.whole("heads");
    attention.kv_heads = reader.whole("kv_heads");
    attention.head_length = reader.whole("head_length");
    attention.output_gate = reader.flag("output_gate", false);
    attention.windowed.assign(static_cast<std::size_t>(shape.layers), false);
    if (reader.has("window")) {
        attention.window = reader.whole("window");
        attention.windowed = reader.layers("window_layers", shape.layers);
    }
    reader.ignore({"window_kind", "qk_norm", "bias", "sinks"});
    std::string fault = reader.first_fault();
    if (fault.empty() && attention.heads % attention.kv_heads != 0) {
        fault = "attention.heads must be a multiple of attention.kv_heads";
    }
    return fault;
}

std::string read_experts(const Json& json, ModelShape& shape) {
    ObjectReader reader(json, "experts.");
    ModelShape::Experts experts;
    experts.count = reader.whole("count");
    experts.used = reader.whole("used");
    experts.length = reader.whole("length");
    experts.shared_length = reader.whole("shared_length", 0);
    experts.bias = reader.flag("bias", false);
    experts.in_layer = reader.layers("layers", shape.layers);
    reader.ignore({"shared_gate"});
    std::string fault = reader.first_fault();
    if (fault.empty() && experts.used > experts.count) {
        fault = "experts.used must be at most experts.count";
    }
    shape.experts = std::move(experts);
    return fault;
}

std::string read_linear_attention(const Json& json, ModelShape& shape) {
    ObjectReader reader(json, "linear_attention.");
    ModelShape::LinearAttention linear;
    linear.key_heads = reader.whole("key_heads");
    linear.value_heads = reader.whole("value_heads");
    linear.key_length = reader.whole("key_length");
    linear.value_length = reader.whole("value_length");
    linear.conv_kernel = reader.whole("conv_kernel");
    linear.state_elements = reader.number("state_elements", 1);
    linear.conv_state_elements = reader.number("conv_state_elements", 1);
    linear.in_layer = reader.layers("layers", shape.layers);
    reader.ignore({"state_type"});
    shape.linear_attention = std::move(linear);
    return reader.first_fault();
}

/// The nested objects, each if it is there. "" or the first fault.
std::string read_parts(ObjectReader& reader, ModelShape& shape) {
    using Read = std::string (*)(const Json&, ModelShape&);
    const std::pair<const char*, Read> parts[] = {{"attention", read_attention},
                                                  {"experts", read_experts},
                                                  {"linear_attention", read_linear_attention}};
    for (const auto& [key, read] : parts) {
        const bool required = read == read_attention;
        if (!reader.has(key) && !required) {
            continue;
        }
        const Json* json = reader.object(key);
        if (json == nullptr) {
            return {};  // the reader has the fault
        }
        if (std::string fault = read(*json, shape); !fault.empty()) {
            return fault;
        }
    }
    if (!reader.has("ffn")) {
        return {};
    }
    if (const Json* json = reader.object("ffn"); json != nullptr) {
        ObjectReader ffn(*json, "ffn.");
        shape.ffn_length = ffn.whole("length");
        ffn.ignore({"fused_gate_up"});
        return ffn.first_fault();
    }
    return {};
}

/// Says what is wrong between the parts, or "".
std::string check_layers(const ModelShape& shape) {
    const bool all_have_experts =
        shape.experts &&
        std::find(shape.experts->in_layer.begin(), shape.experts->in_layer.end(), false) ==
            shape.experts->in_layer.end();
    if (shape.ffn_length == 0 && !all_have_experts) {
        return "ffn.length is needed for the layers without experts";
    }
    return {};
}

}  // namespace

Result<ModelShape> parse_model(std::string_view text, const std::string& origin) {
    const auto fault = [&](const std::string& what) {
        return fail(ErrorCode::kInvalidRequest, fmt::format("{}: {}.", origin, what));
    };
    const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
    if (json.is_discarded() || !json.is_object()) {
        return fault("this is not a JSON object");
    }
    ObjectReader reader(json, "");
    ModelShape shape;
    shape.name = reader.text("name");
    shape.description = reader.text("description");
    shape.architecture = reader.text("architecture");
    shape.layers = reader.whole("layers");
    shape.embedding_length = reader.whole("embedding_length");
    shape.vocabulary = reader.whole("vocabulary");
    shape.tied_embeddings = reader.flag("tied_embeddings", false);
    shape.context_length = reader.whole("context_length");
    shape.norms_per_layer = reader.whole("norms_per_layer");
    shape.default_quant = reader.text("default_quant");
    reader.ignore({"source",
                   "parameters_b",
                   "active_parameters_b",
                   "active_excludes",
                   "rounded_to_whole",
                   "unverified",
                   "assumed"});
    if (shape.layers > kLayersMax) {
        return fault(fmt::format("layers must be at most {}", kLayersMax));
    }
    if (!reader.fault_so_far().empty()) {
        return fault(reader.fault_so_far());
    }
    if (const std::string in_part = read_parts(reader, shape); !in_part.empty()) {
        return fault(in_part);
    }
    if (const std::string first = reader.first_fault(); !first.empty()) {
        return fault(first);
    }
    if (const std::string between = check_layers(shape); !between.empty()) {
        return fault(between);
    }
    return shape;
}

std::vector<std::string> stored_model_names() {
    std::vector<std::string> names;
    for (const StoredText& stored : stored_model_texts()) {
        names.emplace_back(stored.name);
    }
    return names;
}

Result<ModelShape> stored_model(const std::string& name) {
    for (const StoredText& stored : stored_model_texts()) {
        if (stored.name == name) {
            return parse_model(stored.text, name);
        }
    }
    return fail(ErrorCode::kNotFound,
                fmt::format("There is no model shape '{}'; there are {}.",
                            name.substr(0, 64),
                            fmt::join(stored_model_names(), ", ")));
}

}  // namespace ballast::scheduler
