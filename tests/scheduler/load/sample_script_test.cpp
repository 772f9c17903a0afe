// SPDX-License-Identifier: MIT
#include "scheduler/load/sample_script.h"

#include <gtest/gtest.h>

namespace ballast::scheduler {
namespace {

using std::chrono::milliseconds;

TEST(SampleScript, HoldsEachValueUntilALineNamesIt) {
    const auto samples = parse_sample_script(
        "{\"t_ms\": 0, \"device_total_bytes\": 8589934592, \"others_bytes\": 1000}\n"
        "\n"
        "{\"t_ms\": 1500.5, \"device_busy\": 0.7, \"process\": \"game\", \"event\": "
        "\"suspend\"}\r\n"
        "{\"t_ms\": 1500.5, \"others_bytes\": 5e9, \"on_battery\": true, \"process\": null}");
    ASSERT_TRUE(samples.has_value()) << samples.error().message;
    ASSERT_EQ(samples->size(), 3U);
    const LoadSample& second = (*samples)[1];
    EXPECT_EQ(second.time, std::chrono::microseconds(1500500));
    EXPECT_EQ(second.device_total_bytes, 8589934592U);
    EXPECT_EQ(second.others_bytes, 1000U);
    EXPECT_EQ(second.device_busy, 0.7);
    EXPECT_EQ(second.process, "game");
    EXPECT_EQ(second.event, LoadEvent::kSuspend);
    const LoadSample& third = (*samples)[2];
    EXPECT_EQ(third.others_bytes, 5000000000U);
    EXPECT_EQ(third.device_busy, 0.7);
    EXPECT_TRUE(third.on_battery);
    EXPECT_EQ(third.process, "");
    EXPECT_EQ(third.event, LoadEvent::kNone);
}

TEST(SampleScript, ReadsBackWhatItWrites) {
    std::vector<LoadSample> samples(3);
    samples[0].device_total_bytes = 1ULL << 34U;
    samples[0].cpu_psi = 0.25;
    samples[1] = samples[0];
    samples[1].time = milliseconds(20);
    samples[1].event = LoadEvent::kDeviceLost;
    samples[1].process = "a \"game\"\n";
    samples[2] = samples[1];
    samples[2].time = milliseconds(30);
    samples[2].event = LoadEvent::kNone;
    samples[2].process.clear();
    samples[2].link_busy = 0.3;
    samples[2].on_battery = true;
    const std::string text = write_sample_script(samples);
    const auto read = parse_sample_script(text);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(*read, samples);
}

TEST(SampleScript, NamesTheLineAndWhatIsWrongWithIt) {
    const struct {
        const char* text;
        const char* message;
    } cases[] = {
        {"{\"t_ms\": 1}\n[1]", "Line 2 is not one JSON object."},
        {"{\"t_ms\": 1", "Line 1 is not one JSON object."},
        {"\n{\"device_busy\": 1}", "Line 2 has no \"t_ms\"."},
        {"{\"t_ms\": 2}\n{\"t_ms\": 1}", "Line 2 has a \"t_ms\" before that of the line before."},
        {"{\"t_ms\": -1}", "Line 1 needs a number from 0 to 3.2e+12 for \"t_ms\"."},
        {"{\"t_ms\": 1e300}", "Line 1 needs a number from 0 to 3.2e+12 for \"t_ms\"."},
        {"{\"t_ms\": 0, \"device_busy\": 1.5}",
         "Line 1 needs a number from 0 to 1 for \"device_busy\"."},
        {"{\"t_ms\": 0, \"others_bytes\": \"2\"}",
         "Line 1 needs a number from 0 to 9.0072e+15 for \"others_bytes\"."},
        {"{\"t_ms\": 0, \"device_total_bytes\": 5, \"others_bytes\": 6}",
         "Line 1 has \"others_bytes\" above \"device_total_bytes\"."},
        {"{\"t_ms\": 0, \"on_battery\": 1}", "Line 1 needs true or false for \"on_battery\"."},
        {"{\"t_ms\": 0, \"event\": \"crash\"}",
         "Line 1 needs null, \"suspend\", \"resume\" or \"device_lost\" for \"event\"."},
        {"{\"t_ms\": 0, \"process\": 7}",
         "Line 1 needs null or a name of at most 256 bytes for \"process\"."},
        {"{\"t_ms\": 0, \"gpu\": 7}",
         "Line 1 has the unknown key \"gpu\"; known are t_ms, device_total_bytes, others_bytes, "
         "device_busy, link_busy, cpu_psi, on_battery, event and process."},
    };
    for (const auto& wrong : cases) {
        const auto samples = parse_sample_script(wrong.text);
        ASSERT_FALSE(samples.has_value()) << wrong.text;
        EXPECT_EQ(samples.error().code, ErrorCode::kInvalidRequest);
        EXPECT_EQ(samples.error().message, wrong.message);
    }
    EXPECT_TRUE(parse_sample_script("").value().empty());
    EXPECT_EQ(parse_sample_script(std::string(20000, '[')).error().message,
              "Line 1 has more than 16384 bytes.");
}

TEST(SampleScript, SaysWhatHoldsNowAndEachEventOnce) {
    auto samples = parse_sample_script(
        "{\"t_ms\": 10, \"device_busy\": 0.1}\n"
        "{\"t_ms\": 20, \"device_busy\": 0.2, \"event\": \"suspend\"}\n"
        "{\"t_ms\": 30, \"device_busy\": 0.3, \"event\": \"resume\"}\n"
        "{\"t_ms\": 40, \"device_busy\": 0.4}\n");
    ASSERT_TRUE(samples.has_value());
    SampleScript script(std::move(*samples), milliseconds(100));
    EXPECT_EQ(script.next_time(), milliseconds(110));
    EXPECT_FALSE(script.sample(milliseconds(109)));
    const auto expect = [&](int at_ms, double busy, LoadEvent event) {
        const auto sample = script.sample(milliseconds(at_ms));
        ASSERT_TRUE(sample.has_value());
        EXPECT_EQ(sample->time, milliseconds(at_ms));
        EXPECT_EQ(sample->device_busy, busy);
        EXPECT_EQ(sample->event, event);
    };
    expect(110, 0.1, LoadEvent::kNone);
    expect(115, 0.1, LoadEvent::kNone);
    // All the rest has come by now; neither event is lost.
    expect(150, 0.2, LoadEvent::kSuspend);
    expect(150, 0.3, LoadEvent::kResume);
    expect(150, 0.4, LoadEvent::kNone);
    expect(160, 0.4, LoadEvent::kNone);
    EXPECT_FALSE(script.next_time());
}

TEST(SampleScript, TellsTheTruthOfAnyTimeWhateverWasGiven) {
    auto samples = parse_sample_script(
        "{\"t_ms\": 10, \"others_bytes\": 1}\n"
        "{\"t_ms\": 20, \"others_bytes\": 2, \"event\": \"device_lost\"}\n"
        "{\"t_ms\": 30, \"others_bytes\": 3}\n");
    ASSERT_TRUE(samples.has_value());
    SampleScript script(std::move(*samples), milliseconds(100));
    EXPECT_TRUE(script.sample(milliseconds(200)).has_value());
    EXPECT_FALSE(script.at(milliseconds(109)).has_value());
    EXPECT_EQ(script.at(milliseconds(110))->others_bytes, 1U);
    EXPECT_EQ(script.at(milliseconds(129))->others_bytes, 2U);
    EXPECT_EQ(script.at(milliseconds(500))->others_bytes, 3U);
    EXPECT_EQ(script.n_events(LoadEvent::kDeviceLost, milliseconds(119)), 0U);
    EXPECT_EQ(script.n_events(LoadEvent::kDeviceLost, milliseconds(120)), 1U);
    EXPECT_EQ(script.n_events(LoadEvent::kSuspend, milliseconds(500)), 0U);
}

}  // namespace
}  // namespace ballast::scheduler
