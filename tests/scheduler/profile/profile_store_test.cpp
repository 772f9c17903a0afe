// SPDX-License-Identifier: MIT
#include "scheduler/profile/profile_store.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ballast::scheduler {
namespace {

nlohmann::json good() {
    return {{"name", "mine"},
            {"description", "a box"},
            {"source", "measured"},
            {"unified_memory", false},
            {"device_read_gbps", 215},
            {"cpu_read_gbps", 58.5},
            {"link_gbps", 12.5},
            {"dram_gbps", 72},
            {"device_memory_gb", 6.3},
            {"hop_us", 60},
            {"device_tflops", 25},
            {"cpu_tflops", 1.2},
            {"expert_prefill_factor", 0.63},
            {"ram_gb", 32}};
}

/// As `ballast profile` writes it on a machine without a device.
nlohmann::json without_device() {
    nlohmann::json json = good();
    for (const char* key : {"device_read_gbps",
                            "link_gbps",
                            "device_memory_gb",
                            "hop_us",
                            "device_tflops",
                            "expert_prefill_factor",
                            "unified_memory"}) {
        json.erase(key);
    }
    json["device"] = false;
    return json;
}

std::string error_of(const nlohmann::json& json) {
    const auto profile = parse_hardware(json.dump(), "mine.json");
    return profile ? "" : profile.error().message;
}

TEST(ProfileStore, ReadsAProfile) {
    const auto profile = parse_hardware(good().dump(), "mine.json");
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_EQ(profile->name, "mine");
    EXPECT_EQ(profile->cpu_read_gbps, 58.5);
    EXPECT_EQ(profile->link_gbps, 12.5);
    EXPECT_FALSE(profile->unified_memory);
}

TEST(ProfileStore, NamesTheKeyThatIsWrong) {
    const nlohmann::json all = good();
    for (const auto& [key, value] : all.items()) {
        nlohmann::json without = good();
        without.erase(key);
        EXPECT_EQ(error_of(without).find("mine.json: " + key + " must be"), 0U)
            << error_of(without);
        nlohmann::json wrong = good();
        wrong[key] = nlohmann::json::array();
        EXPECT_EQ(error_of(wrong).find("mine.json: " + key + " must be"), 0U) << error_of(wrong);
    }
    for (const double number : {0.0, -1.0, 1e7}) {
        nlohmann::json wrong = good();
        wrong["dram_gbps"] = number;
        EXPECT_EQ(error_of(wrong).find("mine.json: dram_gbps must be above 0"), 0U);
    }
    nlohmann::json unknown = good();
    unknown["dram_gbs"] = 1;
    EXPECT_EQ(error_of(unknown), "mine.json: dram_gbs is not known.");
}

TEST(ProfileStore, HasALinkUnlessMemoryIsUnified) {
    nlohmann::json unified = good();
    unified["unified_memory"] = true;
    EXPECT_EQ(error_of(unified), "mine.json: link_gbps must be absent where memory is unified.");
    unified.erase("link_gbps");
    EXPECT_EQ(error_of(unified), "");
}

TEST(ProfileStore, ReadsAMachineWithoutADevice) {
    const auto profile = parse_hardware(without_device().dump(), "mine.json");
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_FALSE(profile->has_device);
    EXPECT_FALSE(profile->unified_memory);
    EXPECT_EQ(profile->cpu_read_gbps, 58.5);
    EXPECT_EQ(profile->device_read_gbps, 0.0);
    EXPECT_EQ(profile->link_gbps, 0.0);
    nlohmann::json with = good();
    with["device"] = true;
    const auto said = parse_hardware(with.dump(), "mine.json");
    ASSERT_TRUE(said) << said.error().message;
    EXPECT_TRUE(said->has_device);
    with["device"] = "no";
    EXPECT_EQ(error_of(with), "mine.json: device must be true or false.");
}

TEST(ProfileStore, RefusesADevicesFigureWithoutADevice) {
    nlohmann::json rest = good();
    const nlohmann::json bare = without_device();
    for (const auto& [key, value] : bare.items()) {
        rest.erase(key);
    }
    rest["link_staged_gbps"] = 5;
    EXPECT_EQ(rest.size(), 8U);
    for (const auto& [key, value] : rest.items()) {
        nlohmann::json wrong = without_device();
        wrong[key] = value;
        EXPECT_EQ(error_of(wrong),
                  "mine.json: " + key + " must be absent where there is no device.");
    }
    for (const char* key : {"cpu_read_gbps", "dram_gbps", "cpu_tflops", "ram_gb"}) {
        nlohmann::json wrong = without_device();
        wrong.erase(key);
        EXPECT_EQ(error_of(wrong), std::string("mine.json: ") + key + " must be a number above 0.");
    }
}

TEST(ProfileStore, ReadsWhatWasMeasured) {
    nlohmann::json json = without_device();
    json["key"] = "format 1; cpu x";
    json["measured_at"] = "2026-01-31";
    json["copy_gbps"] = 9.5;
    json["ops"] = {
        {{"op", "linear"}, {"type", "Q4_K"}, {"tokens", 1}, {"cpu_gbps", 20}, {"cpu_gflops", 70}}};
    const auto profile = parse_hardware(json.dump(), "mine.json");
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_EQ(profile->key, "format 1; cpu x");
    EXPECT_EQ(profile->measured_at, "2026-01-31");
    EXPECT_EQ(profile->copy_gbps, 9.5);
    ASSERT_EQ(profile->ops.size(), 1U);
    EXPECT_EQ(
        profile->ops[0],
        (OpRate{.op = "linear", .type = "Q4_K", .tokens = 1, .cpu_gbps = 20, .cpu_gflops = 70}));

    const nlohmann::json good_op = json["ops"][0];
    for (const auto& [key, value] : good_op.items()) {
        json["ops"][0] = good_op;
        json["ops"][0].erase(key);
        EXPECT_EQ(error_of(json).find("mine.json: ops must be a list of objects"), 0U) << key;
        json["ops"][0][key] = nullptr;
        EXPECT_EQ(error_of(json).find("mine.json: ops must be a list of objects"), 0U) << key;
        json["ops"][0][key] = -1;
        EXPECT_EQ(error_of(json).find("mine.json: ops must be a list of objects"), 0U) << key;
    }
    json["ops"][0] = good_op;
    json["ops"][0]["more"] = 1;
    EXPECT_EQ(error_of(json).find("mine.json: ops must be a list of objects"), 0U);
    json["ops"] = nlohmann::json::array();
    EXPECT_EQ(error_of(json), "");
    json["ops"] = std::vector<nlohmann::json>(1025, good_op);
    EXPECT_EQ(error_of(json), "mine.json: ops must be a list of at most 1024.");
}

TEST(ProfileStore, WritesWhatItReads) {
    std::vector<HardwareProfile> profiles;
    for (const std::string& name : stored_hardware_names()) {
        profiles.push_back(stored_hardware(name).value());
    }
    profiles.push_back({.name = "measured \"here\"",
                        .description = "Größe\n\t",
                        .source = "",
                        .has_device = false,
                        .cpu_read_gbps = 24.7 / 3,
                        .dram_gbps = 24.7,
                        .cpu_tflops = 1e-3,
                        .ram_gb = 25.2,
                        .cpu_read_one_thread_gbps = 20.1,
                        .copy_gbps = 9.25,
                        .ops = {{"linear", "Q4_K", 1, 20.25, 70.5}, {"linear", "F16", 512, 1, 2}},
                        .key = "format 1; cpu x",
                        .measured_at = "2026-01-31"});
    for (const HardwareProfile& profile : profiles) {
        const std::string text = write_hardware(profile);
        const auto again = parse_hardware(text, "again");
        ASSERT_TRUE(again) << again.error().message << text;
        EXPECT_EQ(*again, profile) << text;
    }
    // What is no UTF-8, as a processor's name may be, still gives a file that can be read.
    HardwareProfile odd = profiles.back();
    odd.key = "cpu \xff";
    EXPECT_TRUE(parse_hardware(write_hardware(odd), "odd"));
}

TEST(ProfileStore, SurvivesWhatIsNoProfile) {
    for (const std::string& text : {std::string(),
                                    std::string("{"),
                                    std::string("[1]"),
                                    std::string("\xff"),
                                    std::string(100'000, '['),
                                    std::string("{\"ram_gb\": 1e999}")}) {
        const auto profile = parse_hardware(text, "x");
        ASSERT_FALSE(profile);
        EXPECT_EQ(profile.error().message.find("x: "), 0U);
    }
}

TEST(ProfileStore, EveryShippedProfileIsRightAndNamedAsItsFile) {
    const auto names = stored_hardware_names();
    EXPECT_EQ(names.size(), 16U);
    for (const std::string& name : names) {
        const auto profile = stored_hardware(name);
        ASSERT_TRUE(profile) << profile.error().message;
        EXPECT_EQ(profile->name, name);
        // DRAM feeds the CPU, and the link's copies beside it, but not both at their best.
        EXPECT_GE(profile->dram_gbps, profile->cpu_read_gbps) << name;
        if (!profile->unified_memory) {
            EXPECT_LE(profile->dram_gbps, profile->cpu_read_gbps + profile->link_gbps + 12) << name;
        }
    }
}

TEST(ProfileStore, NamesTheProfilesThereAre) {
    const auto profile = stored_hardware("3060");
    ASSERT_FALSE(profile);
    EXPECT_EQ(profile.error().code, ErrorCode::kNotFound);
    EXPECT_EQ(profile.error().message,
              "There is no hardware profile '3060'; there are desktop-3060-gen3, "
              "desktop-3060-gen4, laptop-3060.");
}

}  // namespace
}  // namespace ballast::scheduler
