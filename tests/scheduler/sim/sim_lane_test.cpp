// SPDX-License-Identifier: MIT
// Order of events, and jobs whose rate changes while they run.
#include "scheduler/sim/sim_lane.h"

#include <gtest/gtest.h>

#include "scheduler/sim/sim_machine.h"

namespace ballast::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void run_all(EventQueue& events) {
    while (events.run_next()) {
    }
}

TEST(EventQueue, LetsThingsHappenInOrderOfTimeAndThenOfAsking) {
    EventQueue events;
    std::string order;
    events.at(seconds(2), [&] { order += "d"; });
    events.at(seconds(1), [&] {
        order += "a";
        events.after(Nanoseconds(0), [&] { order += "c"; });
    });
    events.at(seconds(1), [&] { order += "b"; });
    run_all(events);
    EXPECT_EQ(order, "abcd");
    EXPECT_EQ(events.now(), seconds(2));
    EXPECT_EQ(events.n_run(), 4U);
    EXPECT_FALSE(events.run_next());
}

TEST(SimLane, DoesOneJobAfterTheOther) {
    EventQueue events;
    SimLane lane(events, 10.0);
    std::vector<Nanoseconds> ends;
    for (const double amount : {5.0, 0.0, 20.0}) {
        lane.run({.amount = amount, .done = [&] { ends.push_back(events.now()); }});
    }
    EXPECT_TRUE(lane.busy());
    run_all(events);
    EXPECT_EQ(ends,
              (std::vector<Nanoseconds>{milliseconds(500), milliseconds(500), milliseconds(2500)}));
    EXPECT_FALSE(lane.busy());
    EXPECT_EQ(lane.busy_time(), milliseconds(2500));
    EXPECT_EQ(lane.amount_done(), 25.0);
}

TEST(SimLane, ChangesItsRateInTheMiddleOfAJob) {
    EventQueue events;
    SimLane lane(events, 10.0);
    Nanoseconds end{0};
    lane.run({.amount = 30.0, .done = [&] { end = events.now(); }});
    events.at(seconds(1), [&] { lane.set_rate(0.0); });   // 20 left
    events.at(seconds(4), [&] { lane.set_rate(5.0); });   // and again
    events.at(seconds(6), [&] { lane.set_rate(20.0); });  // 10 left
    run_all(events);
    EXPECT_EQ(end, milliseconds(6500));
    EXPECT_EQ(lane.busy_time(), milliseconds(6500));
}

TEST(SimMachine, LeavesTheLinkWhatTheCpuDoesNotRead) {
    EventQueue events;
    SimMachine machine(
        events,
        {.cpu_read_gbps = 40.0, .link_gbps = 10.0, .dram_gbps = 44.0, .device_tflops = 1.0});
    Nanoseconds crossed{0};
    machine.link().run({.amount = 20e9, .done = [&] { crossed = events.now(); }});
    // For the first second the link has 4 GB/s, then 10.
    machine.cpu().run({.amount = 1.0, .intensity = 40e9, .done = [] {}});
    run_all(events);
    EXPECT_EQ(crossed, milliseconds(2600));
}

TEST(SimMachine, SlowsBothSidesOnOneMemoryWhileBothWork) {
    EventQueue events;
    SimMachine machine(events,
                       {.unified_memory = true,
                        .device_read_gbps = 150.0,
                        .cpu_read_gbps = 50.0,
                        .dram_gbps = 100.0});
    Nanoseconds device{0};
    Nanoseconds cpu{0};
    machine.device().run({.amount = 3.0, .done = [&] { device = events.now(); }});
    machine.cpu().run({.amount = 1.0, .done = [&] { cpu = events.now(); }});
    run_all(events);
    EXPECT_EQ(cpu, seconds(2));
    EXPECT_EQ(device, seconds(4));
}

}  // namespace
}  // namespace ballast::scheduler
