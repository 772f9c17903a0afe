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

struct NumberKey {
    const char* name;
    double HardwareProfile::*field;
};
constexpr std::array<NumberKey, 10> kNumbers = {{
    {"device_read_gbps", &HardwareProfile::device_read_gbps},
    {"cpu_read_gbps", &HardwareProfile::cpu_read_gbps},
    {"link_gbps", &HardwareProfile::link_gbps},
    {"dram_gbps", &HardwareProfile::dram_gbps},
    {"device_memory_gb", &HardwareProfile::device_memory_gb},
    {"hop_us", &HardwareProfile::hop_us},
    {"device_tflops", &HardwareProfile::device_tflops},
    {"cpu_tflops", &HardwareProfile::cpu_tflops},
    {"expert_prefill_factor", &HardwareProfile::expert_prefill_factor},
    {"ram_gb", &HardwareProfile::ram_gb},
}};

struct TextKey {
    const char* name;
    std::string HardwareProfile::*field;
};
constexpr std::array<TextKey, 3> kTexts = {{
    {"name", &HardwareProfile::name},
    {"description", &HardwareProfile::description},
    {"source", &HardwareProfile::source},
}};

constexpr const char* kUnified = "unified_memory";
constexpr const char* kLink = "link_gbps";

bool is_known(const std::string& key) {
    const auto is_it = [&](const auto& entry) { return key == entry.name; };
    return key == kUnified || std::any_of(kNumbers.begin(), kNumbers.end(), is_it) ||
           std::any_of(kTexts.begin(), kTexts.end(), is_it);
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
        const auto unified = json_.find(kUnified);
        if (unified == json_.end() || !unified->is_boolean()) {
            return fault(kUnified, "must be true or false");
        }
        profile_.unified_memory = unified->get<bool>();
        if (profile_.unified_memory == json_.contains(kLink)) {
            return fault(kLink,
                         profile_.unified_memory ? "must be absent where memory is unified"
                                                 : "must be a number above 0");
        }
        BALLAST_TRY_STATUS(read_numbers());
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
            if (found == json_.end() || !found->is_string()) {
                return fault(key.name, "must be a text");
            }
            profile_.*key.field = found->get<std::string>();
        }
        return {};
    }

    Status read_numbers() {
        for (const NumberKey& key : kNumbers) {
            const auto found = json_.find(key.name);
            if (found == json_.end() && profile_.unified_memory &&
                key.field == &HardwareProfile::link_gbps) {
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

    const Json& json_;
    const std::string& origin_;
    HardwareProfile profile_;
};

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
    // Without exceptions; a profile is flat, and the parser does not recurse on depth.
    const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
    if (json.is_discarded() || !json.is_object()) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("{}: this is not a JSON object.", origin));
    }
    return ProfileReader(json, origin).read();
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
