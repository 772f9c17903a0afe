// SPDX-License-Identifier: MIT
// A table of keys, and what each must be.
#include "scheduler/profile/profile_store.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scheduler/profile/stored_texts.h"

namespace ballast::scheduler {

namespace {

using Json = nlohmann::json;

// Figures far beyond any machine are a wrong unit.
constexpr double kFigureMax = 1e6;

/// Whom a figure is about, and so when it must be there.
enum class Of {
    kMachine,   // always
    kDevice,    // with a device
    kLink,      // with a device that has its own memory
    kMeasured,  // never a must
    kMeasuredLink,
};

struct NumberKey {
    const char* name;
    double HardwareProfile::*field;
    Of of;
};
constexpr std::array<NumberKey, 13> kNumbers = {{
    {"device_read_gbps", &HardwareProfile::device_read_gbps, Of::kDevice},
    {"cpu_read_gbps", &HardwareProfile::cpu_read_gbps, Of::kMachine},
    {"link_gbps", &HardwareProfile::link_gbps, Of::kLink},
    {"dram_gbps", &HardwareProfile::dram_gbps, Of::kMachine},
    {"device_memory_gb", &HardwareProfile::device_memory_gb, Of::kDevice},
    {"hop_us", &HardwareProfile::hop_us, Of::kDevice},
    {"device_tflops", &HardwareProfile::device_tflops, Of::kDevice},
    {"cpu_tflops", &HardwareProfile::cpu_tflops, Of::kMachine},
    {"expert_prefill_factor", &HardwareProfile::expert_prefill_factor, Of::kDevice},
    {"ram_gb", &HardwareProfile::ram_gb, Of::kMachine},
    {"cpu_read_one_thread_gbps", &HardwareProfile::cpu_read_one_thread_gbps, Of::kMeasured},
    {"copy_gbps", &HardwareProfile::copy_gbps, Of::kMeasured},
    {"link_staged_gbps", &HardwareProfile::link_staged_gbps, Of::kMeasuredLink},
}};

struct TextKey {
    const char* name;
    std::string HardwareProfile::*field;
    bool measured = false;  // never a must
};
constexpr std::array<TextKey, 5> kTexts = {{
    {"name", &HardwareProfile::name},
    {"description", &HardwareProfile::description},
    {"source", &HardwareProfile::source},
    {"key", &HardwareProfile::key, true},
    {"measured_at", &HardwareProfile::measured_at, true},
}};

constexpr const char* kDevice = "device";
constexpr const char* kUnified = "unified_memory";
constexpr const char* kOps = "ops";
// Ops times formats times batches of any model are far fewer.
constexpr std::size_t kOpsMax = 1024;
constexpr int kTokensMax = 1 << 20;

bool is_known(const std::string& key) {
    const auto is_it = [&](const auto& entry) { return key == entry.name; };
    return key == kDevice || key == kUnified || key == kOps ||
           std::any_of(kNumbers.begin(), kNumbers.end(), is_it) ||
           std::any_of(kTexts.begin(), kTexts.end(), is_it);
}

/// Why a profile of this machine must not have the figure; "" if it may.
std::string_view why_absent(Of of, const HardwareProfile& hardware) {
    if (of == Of::kMachine || of == Of::kMeasured) {
        return "";
    }
    if (!hardware.has_device) {
        return "must be absent where there is no device";
    }
    const bool is_link = of == Of::kLink || of == Of::kMeasuredLink;
    return is_link && hardware.unified_memory ? "must be absent where memory is unified" : "";
}

/// One profile on its way from JSON; the first fault is kept.
class ProfileReader {
  public:
    ProfileReader(const Json& json, const std::string& origin) : json_(json), origin_(origin) {}

    Result<HardwareProfile> read() {
        for (const auto& [key, value] : json_.items()) {
            if (!is_known(key)) {
                return fault(key, "is not known");
            }
        }
        BALLAST_TRY_STATUS(read_texts());
        BALLAST_TRY_STATUS(read_kind());
        BALLAST_TRY_STATUS(read_numbers());
        BALLAST_TRY_STATUS(read_ops());
        return std::move(profile_);
    }

  private:
    tl::unexpected<Error> fault(const std::string& key, std::string_view what) const {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("{}: {} {}.", origin_, key.substr(0, 64), what));
    }

    Status read_texts() {
        for (const TextKey& key : kTexts) {
            const auto found = json_.find(key.name);
            if (found == json_.end() && key.measured) {
                continue;
            }
            if (found == json_.end() || !found->is_string()) {
                return fault(key.name, "must be a text");
            }
            profile_.*key.field = found->get<std::string>();
        }
        return {};
    }

    /// Whether there is a device, and whose memory it has.
    Status read_kind() {
        const auto device = json_.find(kDevice);
        if (device != json_.end() && !device->is_boolean()) {
            return fault(kDevice, "must be true or false");
        }
        profile_.has_device = device == json_.end() || device->get<bool>();
        const auto unified = json_.find(kUnified);
        if (!profile_.has_device && unified != json_.end()) {
            return fault(kUnified, "must be absent where there is no device");
        }
        if (profile_.has_device && (unified == json_.end() || !unified->is_boolean())) {
            return fault(kUnified, "must be true or false");
        }
        profile_.unified_memory = profile_.has_device && unified->get<bool>();
        return {};
    }

    Status read_numbers() {
        for (const NumberKey& key : kNumbers) {
            const auto found = json_.find(key.name);
            const std::string_view why = why_absent(key.of, profile_);
            if (!why.empty() && found != json_.end()) {
                return fault(key.name, why);
            }
            const bool optional = key.of == Of::kMeasured || key.of == Of::kMeasuredLink;
            if (found == json_.end() && (optional || !why.empty())) {
                continue;
            }
            if (found == json_.end() || !found->is_number()) {
                return fault(key.name, "must be a number above 0");
            }
            const double value = found->get<double>();
            // A device may have no memory to spare; nothing else can be 0.
            const bool may_be_zero = key.field == &HardwareProfile::device_memory_gb;
            if (!(may_be_zero ? value >= 0.0 : value > 0.0) || value > kFigureMax) {
                return fault(
                    key.name,
                    fmt::format("must be above 0 and at most {}, not {}", kFigureMax, value));
            }
            profile_.*key.field = value;
        }
        return {};
    }

    Status read_ops() {
        const auto found = json_.find(kOps);
        if (found == json_.end()) {
            return {};
        }
        if (!found->is_array() || found->size() > kOpsMax) {
            return fault(kOps, fmt::format("must be a list of at most {}", kOpsMax));
        }
        for (const Json& entry : *found) {
            if (!read_op(entry)) {
                return fault(kOps,
                             "must be a list of objects with op, type, tokens, cpu_gbps and "
                             "cpu_gflops, and nothing else");
            }
        }
        return {};
    }

    bool read_op(const Json& entry) {
        constexpr std::size_t kFields = 5;
        const auto is_rate = [&](const char* name) {
            const auto found = entry.find(name);
            return found != entry.end() && found->is_number() && found->get<double>() > 0.0 &&
                   found->get<double>() <= kFigureMax;
        };
        if (!entry.is_object() || entry.size() != kFields || !entry.contains("op") ||
            !entry["op"].is_string() || !entry.contains("type") || !entry["type"].is_string() ||
            !entry.contains("tokens") || !entry["tokens"].is_number_integer() ||
            !is_rate("cpu_gbps") || !is_rate("cpu_gflops")) {
            return false;
        }
        const auto tokens = entry["tokens"].get<std::int64_t>();
        if (tokens < 1 || tokens > kTokensMax) {
            return false;
        }
        profile_.ops.push_back({.op = entry["op"].get<std::string>(),
                                .type = entry["type"].get<std::string>(),
                                .tokens = static_cast<int>(tokens),
                                .cpu_gbps = entry["cpu_gbps"].get<double>(),
                                .cpu_gflops = entry["cpu_gflops"].get<double>()});
        return true;
    }

    const Json& json_;
    const std::string& origin_;
    HardwareProfile profile_;
};

/// Keeps the order in which members are added. Not UTF-8: the dump replaces what is wrong.
using OrderedJson = nlohmann::ordered_json;

std::string dump(const OrderedJson& json) {
    return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

/// The ops as a list with one line each.
std::string write_ops(const std::vector<OpRate>& ops) {
    std::string text = "[";
    for (const OpRate& rate : ops) {
        const OrderedJson entry = {{"op", rate.op},
                                   {"type", rate.type},
                                   {"tokens", rate.tokens},
                                   {"cpu_gbps", rate.cpu_gbps},
                                   {"cpu_gflops", rate.cpu_gflops}};
        text += (text.size() == 1 ? "\n        " : ",\n        ") + dump(entry);
    }
    return text + "\n    ]";
}

/// Names that hold the word, or all of them.
std::string near_names(const std::string& name) {
    std::string near;
    std::string all;
    for (const std::string& stored : stored_hardware_names()) {
        all += (all.empty() ? "" : ", ") + stored;
        if (!name.empty() && stored.find(name) != std::string::npos) {
            near += (near.empty() ? "" : ", ") + stored;
        }
    }
    return near.empty() ? all : near;
}

}  // namespace

Result<HardwareProfile> parse_hardware(std::string_view text, const std::string& origin) {
    // Without exceptions; the parser does not recurse on depth.
    const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
    if (json.is_discarded() || !json.is_object()) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("{}: this is not a JSON object.", origin));
    }
    return ProfileReader(json, origin).read();
}

std::string write_hardware(const HardwareProfile& hardware) {
    std::string text = "{";
    const auto add = [&](const char* name, const std::string& value) {
        text += fmt::format("{}\n    \"{}\": {}", text.size() == 1 ? "" : ",", name, value);
    };
    for (const TextKey& key : kTexts) {
        if (!key.measured || !(hardware.*key.field).empty()) {
            add(key.name, dump(hardware.*key.field));
        }
    }
    if (hardware.has_device) {
        add(kUnified, hardware.unified_memory ? "true" : "false");
    } else {
        add(kDevice, "false");
    }
    for (const NumberKey& key : kNumbers) {
        const double value = hardware.*key.field;
        const bool optional = key.of == Of::kMeasured || key.of == Of::kMeasuredLink;
        if (why_absent(key.of, hardware).empty() && !(optional && value == 0.0)) {
            add(key.name, dump(value));
        }
    }
    if (!hardware.ops.empty()) {
        add(kOps, write_ops(hardware.ops));
    }
    return text + "\n}\n";
}

std::vector<std::string> stored_hardware_names() {
    std::vector<std::string> names;
    for (const StoredText& stored : stored_hardware_texts()) {
        names.emplace_back(stored.name);
    }
    return names;
}

Result<HardwareProfile> stored_hardware(const std::string& name) {
    for (const StoredText& stored : stored_hardware_texts()) {
        if (stored.name == name) {
            return parse_hardware(stored.text, name);
        }
    }
    return fail(ErrorCode::kNotFound,
                fmt::format("There is no hardware profile '{}'; there are {}.",
                            name.substr(0, 64),
                            near_names(name)));
}

}  // namespace ballast::scheduler
