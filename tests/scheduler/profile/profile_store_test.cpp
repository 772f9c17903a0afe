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
