#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ballast simulate`: its table, its JSON, and what it says of mistakes."""

import json
import os
import re
import tempfile
import unittest

from program import ProgramTest

KEYS = ["cpu_only", "whole_layers", "experts_last", "paper", "unsplit", "ours"]
RULES = ["ours", "paper", "spill", "static", "ideal"]


class Simulate(ProgramTest):
    def json(self, *arguments):
        return json.loads(self.expect_success("simulate", *arguments, "--json"))

    def fails(self, *arguments, **options):
        return self.expect_failure("simulate", *arguments, **options)

    def test_agrees_with_the_plan(self):
        pair = ("qwen3-14b", "--hardware", "laptop-4060")
        found = self.json("--model", *pair)
        plan = json.loads(self.expect_success("plan", *pair, "--json"))
        self.assertIs(found["simulated"], True)
        self.assertEqual(found["decode_limit_seconds"], plan["decode_limit_seconds"])
        ours = found["policies"][-1]
        self.assertEqual(ours["policy"], "ours")
        for key in ("decode_seconds", "prefill_seconds"):
            self.assertLess(abs(ours[key] / plan[key] - 1.0), 0.001)
        self.assertAlmostEqual(ours["decode_tokens_per_second"], 1.0 / ours["decode_seconds"])
        self.assertAlmostEqual(ours["decode_limit_fraction"],
                               found["decode_limit_seconds"] / ours["decode_seconds"])

    def test_runs_one_policy_or_all(self):
        pair = ("--model", "qwen3-30b-a3b", "--hardware", "laptop-4060")
        self.assertEqual([row["policy"] for row in self.json(*pair)["policies"]], KEYS)
        for key in KEYS:
            rows = self.json(*pair, "--policy", key)["policies"]
            self.assertEqual([row["policy"] for row in rows], [key])

    def test_says_in_its_table_that_it_is_simulated(self):
        text = self.expect_success("simulate", "--model", "qwen3-14b", "--hardware", "laptop-4060")
        self.assertIn(", simulated:\n", text)
        rates = dict(re.findall(r"^(.*?\S) +([\d.]+) +[\d.]+ +[\d.]+  .*%$", text, re.M))
        self.assertEqual(len(rates), 6)
        self.assertLess(float(rates["Ballast"]), float(rates["physical limit"]))
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 96)

    def test_blocking_hops_take_no_less(self):
        pair = ("--model", "qwen3-30b-a3b", "--hardware", "laptop-4060", "--policy", "ours")
        overlapped = self.json(*pair)["policies"][0]["decode_seconds"]
        blocking = self.json(*pair, "--hops", "blocking")["policies"][0]["decode_seconds"]
        self.assertGreater(blocking, overlapped)

    def test_saves_a_trace_of_all_lanes(self):
        pair = ("--model", "qwen3-14b", "--hardware", "laptop-4060", "--policy", "ours")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            self.json(*pair, "--save-trace", path)
            with open(path, encoding="utf-8") as file:
                trace = json.load(file)
            self.assertEqual(
                self.fails(*pair, "--save-trace", f"{folder}/none/t.json"),
                f"Cannot write {folder}/none/t.json: is its folder there, and may it be written?")
        self.assertIs(trace["otherData"]["simulated"], True)
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertEqual({span["tid"] for span in spans}, {0, 1, 2})
        self.assertIn("feed-forward 39", {span["name"] for span in spans})

    def trace(self, text):
        path = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "load.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_plays_a_load_trace_under_each_rule(self):
        path = self.trace('{"t_ms": 0}\n'
                          '{"t_ms": 5000, "others_bytes": 4294967296, "device_busy": 0.7}\n'
                          '{"t_ms": 10000, "others_bytes": 0, "device_busy": 0}\n'
                          '{"t_ms": 20000}\n')
        pair = ("--model", "qwen3-14b", "--hardware", "laptop-4060", "--load-trace", path)
        found = self.json(*pair)
        self.assertIs(found["simulated"], True)
        self.assertEqual(found["seconds"], 20.0)
        rules = {row["rule"]: row for row in found["rules"]}
        self.assertEqual(list(rules), RULES)
        ours = rules["ours"]
        self.assertGreater(ours["ideal_fraction"], 0.9)
        self.assertLessEqual(ours["ideal_fraction"], 1.0)
        self.assertLessEqual(ours["over_room_seconds"], 0.2)
        self.assertGreater(rules["spill"]["over_room_seconds"], 4.9)
        self.assertEqual(rules["ideal"]["ideal_fraction"], 1.0)
        self.assertEqual(rules["static"]["static_fraction"], 1.0)
        self.assertEqual(len(ours["timeline"]), 200)
        levels = [point["level"] for point in ours["timeline"]]
        self.assertEqual((levels[0], levels[70], levels[-1]), ("full", "polite", "full"))
        for point in ours["timeline"][60:95]:
            self.assertLessEqual(point["resident_bytes"], point["room_bytes"])
        tokens = sum(point["tokens_per_second"] for point in ours["timeline"]) / 10
        self.assertAlmostEqual(tokens / ours["tokens"], 1.0, places=6)
        self.assertEqual([row["rule"] for row in self.json(*pair, "--policy", "paper")["rules"]],
                         ["paper"])
        text = self.expect_success("simulate", *pair)
        self.assertIn("(20 s), simulated:\n", text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 96)

    def test_names_what_is_wrong_with_a_load_trace(self):
        pair = ("--model", "qwen3-14b", "--hardware", "laptop-4060", "--load-trace")
        broken = self.trace('{"t_ms": 0}\n{"t_ms": 1, "device_busy": 2}\n')
        self.assertTrue(self.fails(*pair, broken).startswith(f"{broken}: Line 2 "))
        empty = self.trace("")
        self.assertEqual(self.fails(*pair, empty),
                         f"{empty} covers no time: the t_ms of its last line, which may hold "
                         "nothing else, is where it ends.")
        long = self.trace('{"t_ms": 4000000}\n')
        self.assertEqual(self.fails(*pair, long),
                         f"{long} ends after 4000 s, but may cover an hour at most; cut it.")
        self.assertIn("/nothing.jsonl", self.fails(*pair, "/nothing.jsonl"))
        self.assertEqual(self.fails(*pair, broken, "--policy", "cpu_only"),
                         '--policy is "cpu_only"; possible with --load-trace are all, '
                         f'{", ".join(RULES)}.')

    def test_repeats_a_seed_exactly(self):
        text = self.expect_success("simulate", "--seed", "17")
        self.assertEqual(text, self.expect_success("simulate", "--seed", "17"))
        self.assertTrue(text.startswith("seed=17 "))
        found = self.json("--seed", "17")
        self.assertEqual(found["violations"], [])
        self.assertIn(f"log hash {found['log_hash']}", text)
        self.assertEqual(found["options"], text.splitlines()[0])
        self.assertNotEqual(self.json("--seed", "18")["log_hash"], found["log_hash"])
        self.assertIn("--seed draws all else; it goes with --json only.",
                      self.fails("--seed", "17", "--model", "qwen3-14b", code=2))

    def test_names_what_a_load_trace_asks_of_another_machine(self):
        pair = ("--model", "qwen3-14b", "--hardware", "laptop-4060", "--load-trace")
        begin, end = '{"t_ms": 0}\n', '{"t_ms": 9000}\n'
        for line, message in (
                ('{"t_ms": 2000, "others_bytes": 20000000000}\n',
                 "t_ms 2000: others_bytes is 20000000000, but the device has 6847826086 bytes."),
                ('{"t_ms": 2000, "device_total_bytes": 8589934592}\n',
                 "t_ms 2000: device_total_bytes must be on the first line, and the same "
                 "throughout."),
                ("".join(f'{{"t_ms": {i}, "device_busy": {i / 1000}}}\n' for i in range(400)),
                 "t_ms 300: that is more than 300 different loads of device, link and CPU; round "
                 "them.")):
            path = self.trace(begin + line + end)
            self.assertEqual(self.fails(*pair, path), f"load.jsonl, at {message}")
        path = self.trace('{"t_ms": 0, "event": "device_lost"}\n' + end)
        self.assertIn("begin with another line.", self.fails(*pair, path))
        # A budget is a part of the device, and not all of it.
        path = self.trace(begin + '{"t_ms": 2000, "others_bytes": 4294967296}\n' + end)
        rules = self.json(*pair, path, "--vram-budget", "2GiB", "--policy", "ours")["rules"]
        self.assertLessEqual(rules[0]["over_room_seconds"], 0.2)
        self.assertGreater(rules[0]["ideal_fraction"], 0.9)
        self.assertIn("memory of its own", self.fails(
            "--model", "qwen3-14b", "--hardware", "apple-m2", "--load-trace", path))

    def test_mistakes_are_named(self):
        pair = ("--model", "qwen3-14b", "--hardware", "laptop-4060")
        self.assertEqual(self.fails(*pair, "--policy", "best"),
                         f'--policy is "best"; possible are all, {", ".join(KEYS)}.')
        for option in ("--load-trace", "--save-trace"):
            self.assertEqual(self.fails(*pair, option, "", code=2),
                             f"{option} needs the name of a file.")
        self.assertEqual(
            self.fails(*pair, "--load-trace", "a", "--save-trace", "b"),
            "--save-trace shows decode steps of an idle machine; leave out --load-trace.")
        self.assertEqual(self.fails(*pair, "--hops", "none"),
                         '--hops is "none"; possible are overlapped and blocking.')
        self.assertEqual(self.fails(*pair, "--policy", "experts_last"),
                         "--policy experts_last says nothing of this model on this machine.")
        self.assertTrue(self.fails("--model", "nothing", "--hardware", "laptop-4060").startswith(
            "nothing is neither a file nor a shape."))
        self.assertTrue(self.fails("--model", "llama-4-maverick", "--hardware", "laptop-4060")
                        .startswith("This cannot run here: "))
        self.assertEqual(self.fails(*pair, "--context", "1"),
                         "--context is 1, but must be between 4 and 40960, for which "
                         "qwen3-14b:Q4_K_M was trained.")


if __name__ == "__main__":
    unittest.main(verbosity=2)
