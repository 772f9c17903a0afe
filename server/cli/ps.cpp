// SPDX-License-Identifier: MIT
// `ballast ps`: what the running server says of its placement, as a table.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "config/load.h"
#include "server/cli/commands.h"
#include "server/cli/local_server.h"
#include "server/cli/report.h"

namespace ballast::cli {

namespace {

using Json = nlohmann::ordered_json;

struct ClassName {
    const char* key;
    const char* name;
};
constexpr std::array<ClassName, 6> kClasses = {{{"attention", "attention"},
                                                {"feed_forward", "feed-forward"},
                                                {"experts", "experts"},
                                                {"head", "output head"},
                                                {"embedding", "token embedding"},
                                                {"kv", "KV cache"}}};
constexpr std::size_t kTextBytesMax = 2000;

std::string text(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string()
               ? printable(found->get_ref<const std::string&>(), kTextBytesMax)
               : "";
}

std::uint64_t number(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

double real(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
}

/// Of one class of tensors.
struct ClassPlaces {
    std::uint64_t device_bytes = 0;
    std::uint64_t cpu_bytes = 0;
    int n_device = 0;  // groups by who computes them
    int n_both = 0;
    int n_cpu = 0;
    int n_streaming = 0;  // in either kind of step
};

ClassPlaces places_of(const Json& placement, const std::string& key) {
    ClassPlaces places;
    for (const Json& bytes : placement.value("bytes", Json::array())) {
        if (text(bytes, "class") == key) {
            (text(bytes, "device") == "cpu" ? places.cpu_bytes : places.device_bytes) +=
                number(bytes, "bytes");
        }
    }
    for (const Json& group : placement.value("groups", Json::array())) {
        if (text(group, "class") != key) {
            continue;
        }
        const std::string device = text(group, "device");
        places.n_device += device == "device" ? 1 : 0;
        places.n_both += device == "both" ? 1 : 0;
        places.n_cpu += device == "cpu" ? 1 : 0;
        const bool streams =
            number(group, "streamed_parts") + number(group, "prefill_streamed_parts") > 0;
        places.n_streaming += streams ? 1 : 0;
    }
    return places;
}

std::string size(std::uint64_t bytes) {
    return bytes == 0 ? "-" : format_bytes(bytes);
}

std::string count(int n) {
    return n == 0 ? "-" : fmt::format("{}", n);
}

void print_table(const Json& placement) {
    fmt::print("\n  {:<16}{:>12}{:>12}{:>12}{:>9}{:>7}{:>11}\n",
               "",
               "on device",
               "on CPU",
               "by device",
               "by both",
               "by CPU",
               "streaming");
    for (const ClassName& c : kClasses) {
        const ClassPlaces places = places_of(placement, c.key);
        if (places.device_bytes + places.cpu_bytes > 0) {
            fmt::print("  {:<16}{:>12}{:>12}{:>12}{:>9}{:>7}{:>11}\n",
                       c.name,
                       size(places.device_bytes),
                       size(places.cpu_bytes),
                       count(places.n_device),
                       count(places.n_both),
                       count(places.n_cpu),
                       count(places.n_streaming));
        }
    }
    fmt::print(
        "\n  Bytes of copies and homes; groups of tensors by who computes them for a token.\n");
}

void print_load(const Json& load) {
    const std::string reason = text(load, "reason");
    fmt::print("  {:<10}{}{}\n", "level", text(load, "level"), reason.empty() ? "" : ": " + reason);
    if (load.contains("device_bytes")) {
        const std::uint64_t total = number(load, "total_bytes");
        fmt::print("  {:<10}{} ours, {} of others{}\n",
                   "device",
                   size(number(load, "device_bytes")),
                   size(number(load, "others_bytes")),
                   total > 0 ? fmt::format(", {} in all", format_bytes(total)) : "");
    }
    if (const auto degraded = load.find("degraded"); degraded != load.end()) {
        if (degraded->is_object()) {
            fmt::print(
                "  {:<10}{}: {}\n", "degraded", text(*degraded, "reason"), text(*degraded, "text"));
        }
    }
}

void print_plan(const Json& placement) {
    const Json plan = placement.value("plan", Json::object());
    fmt::print("  {:<10}{}: {}\n", "plan", number(plan, "version"), text(plan, "reason"));
    const double predicted = real(plan, "predicted_decode_seconds");
    if (predicted > 0.0) {
        fmt::print("  {:<10}{:.1f} tokens a second, {:.0f}% of the hardware's limit\n",
                   "predicted",
                   1.0 / predicted,
                   100.0 * real(plan, "predicted_limit"));
    }
    const Json measured = placement.value("measured", Json());
    if (measured.is_object() && real(measured, "decode_seconds") > 0.0) {
        fmt::print("  {:<10}{:.1f} tokens a second, {:.0f}% of the hardware's limit\n",
                   "measured",
                   1.0 / real(measured, "decode_seconds"),
                   100.0 * real(measured, "limit_fraction"));
    }
}

Status print_placement(const LocalServer& server, bool json) {
    BALLAST_TRY(const LocalReply reply, server.get("/ballast/v1/placement"));
    BALLAST_TRY_STATUS(reply.check());
    if (json) {
        fmt::print("{}", reply.body);
        return {};
    }
    const Json placement = Json::parse(reply.body, nullptr, false);
    if (!placement.is_object() || text(placement, "object") != "ballast.placement") {
        return fail(ErrorCode::kInvalidRequest,
                    "What answers there is not Ballast; --port says where it listens.");
    }
    fmt::print("{}\n", text(placement, "model"));
    print_load(placement.value("load", Json::object()));
    print_plan(placement);
    print_table(placement);
    return {};
}

}  // namespace

int ps(const PsArgs& args, const config::Environment& environment) {
    const auto loaded = config::load({args.config_file, environment, args.overrides});
    if (!loaded) {
        return report(loaded.error(), kExitUsage);
    }
    const LocalServer server(loaded->config.server.host, loaded->config.server.port);
    const Status status = print_placement(server, args.json);
    return status ? kExitSuccess : report(status.error());
}

}  // namespace ballast::cli
