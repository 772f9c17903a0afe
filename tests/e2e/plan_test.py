#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ballast plan` as a person meets it: one screen with the verdict, which says what --json says."""

import json
import re
import unittest

from ballast_program import SMOLLM2, model_path, run
from suite import main

LINES = 30
COLUMNS = 110
# (model, machine, more arguments, verdict, how its sentence begins)
PAIRS = [
    ("qwen3-32b", "desktop-4090", (), "all_on_device",
     "It fits: all on the GPU, the CPU only looks up tokens."),
    ("llama-3.1-8b", "laptop-4060", (), "split",
     "It fits, and is faster still with the CPU's help: both work on the layers"),
    ("qwen3-32b", "laptop-4060", (), "cpu_owns",
     "The model is much larger than the GPU's memory: the CPU owns the residual, "),
    ("llama-3.3-70b", "laptop-4060", (), "cannot_run", "This cannot run here: it needs "),
    ("llama-3.3-70b", "laptop-4060", ("--ram", "128GiB"), "cpu_owns",
     "The model is much larger than the GPU's memory: "),
    ("gpt-oss-120b", "desktop-4090", (), "experts_split",
     "Both work: the GPU has what every token reads and "),
    ("llama-3.1-8b", "desktop-4090", ("--vram-budget", "0B"), "cpu_alone",
     "Use the CPU alone: no GPU helps here because it may use none of the device's memory."),
    ("gpt-oss-120b", "strix-halo", (), "all_on_device",
     "All on the GPU; nothing is copied, both share one memory."),
    ("qwen3.5-122b-a10b", "apple-m4-max", (), "experts_split", "Both work: the GPU has "),
    ("llama-4-maverick", "desktop-5090", ("--ram", "1TiB", "--context", 8192), "experts_split",
     "Both work: the GPU has "),
]


class Screens(unittest.TestCase):
    def check(self, model, machine, more, verdict, begins):
        asked = ("plan", model, "--hardware", machine, *more)
        code, text, error = run(*asked)
        self.assertEqual((code, error), (0, ""))
        lines = text.splitlines()
        self.assertLessEqual(len(lines), LINES, text)
        self.assertLessEqual(max(map(len, lines)), COLUMNS, text)
        code, out, _ = run(*asked, "--json")
        self.assertEqual(code, 0)
        found = json.loads(out)
        self.assertEqual(found["verdict"], verdict)
        sentence = " ".join(text.split("\n\n")[1].split("\n"))
        self.assertTrue(sentence.startswith(begins), sentence)
        self.assertEqual(sentence, found["sentence"])
        if verdict != "cannot_run":
            self.check_figures(text, found)

    def check_figures(self, text, found):
        """What is printed is what --json has, rounded."""
        def speeds(name):
            line = re.search(rf"^  {re.escape(name)} +([\d.]+) t/s +([\d.]+) ms +(\d+) t/s$", text,
                             re.M)
            self.assertIsNotNone(line, f"no {name} in:\n{text}")
            return [float(figure) for figure in line.groups()]

        for name, decode, prefill in (
                ("this plan", found["decode_seconds"], found["prefill_seconds"]),
                ("the hardware's limit", found["decode_limit_seconds"],
                 found["prefill_limit_seconds"])):
            printed = speeds(name)
            self.assertAlmostEqual(printed[0], 1 / decode, delta=0.06)
            self.assertAlmostEqual(printed[1], 1e3 * decode, delta=0.06)
            self.assertAlmostEqual(printed[2], found["prefill_tokens"] / prefill, delta=0.6)
        for policy in found["policies"]:
            if "decode_seconds" in policy:
                self.assertAlmostEqual(speeds(policy["policy"])[1], 1e3 * policy["decode_seconds"],
                                       delta=0.06)
        limit = re.search(r"predicted limit: (\d+)% of it in decode, (\d+)% in prefill", text)
        self.assertAlmostEqual(int(limit.group(1)), 100 * found["predicted_limit"], delta=0.6)
        self.assertLessEqual(int(limit.group(1)), 100)
        self.assertLessEqual(int(limit.group(2)), 100)

    def test_pairs_fit_one_screen_and_say_the_verdict(self):
        for pair in PAIRS:
            with self.subTest(pair=pair[:3]):
                self.check(*pair)

    def test_a_real_file_is_planned_by_its_header(self):
        self.check(model_path(SMOLLM2), "laptop-4060", (), "all_on_device", "It fits: ")


if __name__ == "__main__":
    main()
