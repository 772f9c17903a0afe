#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ballast serve MODEL --device host`: part of the model on a second device made of threads, and
the replies are those of the CPU alone."""

import json
import re
import unittest

from ballast_program import GEMMA, SMOLLM2, Server, model_path, run
from suite import main

PROMPTS = ["The capital of France is", "Water boils at", "One, two, three,"]


def replies(model, *arguments):
    """(number of groups on the device, the texts of one seeded reply a prompt)."""
    with Server(model_path(model), "--context", "512", *arguments) as server:
        texts = []
        for prompt in PROMPTS:
            status, _, body = server.request("POST", "/v1/completions", {
                "model": model, "prompt": prompt, "max_tokens": 16, "seed": 7,
                "temperature": 1.0, "logprobs": 3})
            assert status == 200, body
            choice = json.loads(body)["choices"][0]
            texts.append((choice["text"], choice["logprobs"]["token_logprobs"]))
        found = re.search(r"; host \(.*\) computes (\d+) of the (\d+) groups", server.log())
    return found and int(found.group(1)), texts


class OnTheHostDevice(unittest.TestCase):
    def check(self, model, budget):
        none, alone = replies(model)
        self.assertIsNone(none)
        device = ("--device", "host", "--vram-budget", budget)
        n_groups, both = replies(model, *device, "--divide-groups", "false")
        self.assertGreater(n_groups, 0)
        self.assertEqual(both, alone)
        print(f"  {model}: {n_groups} groups on the device; {both[0][0]!r}")
        # Sums of two halves: the first token's probability is the same but for rounding.
        n_groups, divided = replies(model, *device)
        self.assertGreater(n_groups, 0)
        for (_, expected), (_, found) in zip(alone, divided):
            self.assertAlmostEqual(found[0], expected[0], delta=0.01)
        print(f"  {model}: divided: {n_groups} groups; {divided[0][0]!r}")

    def test_smollm2_replies_as_on_the_cpu(self):
        self.check(SMOLLM2, "40MiB")

    def test_gemma_replies_as_on_the_cpu(self):
        self.check(GEMMA, "60MiB")


class Options(unittest.TestCase):
    def test_a_device_that_is_not_there_is_refused(self):
        code, _, error = run("serve", model_path(SMOLLM2), "--device", "cuda")
        self.assertGreater(code, 0)
        self.assertIn('engine.device must be "auto" or "host", not "cuda"', error)

    def test_a_budget_without_a_known_unit_is_refused(self):
        code, _, error = run("serve", model_path(SMOLLM2), "--vram-budget", "6G")
        self.assertGreater(code, 0)
        self.assertIn("a size like 512MiB", error)

    def test_bench_takes_the_device_and_doctor_works_as_before(self):
        model = model_path(SMOLLM2)
        device = ("--device", "host", "--vram-budget", "40MiB")
        code, out, _ = run("bench", model, "--prefill", 8, "--decode", 4, "--runs", 1, "--json",
                           *device)
        self.assertEqual(code, 0)
        self.assertIn("host (", json.loads(out)["device"])
        code, out, _ = run("doctor", model)
        self.assertEqual(code, 0, out)


if __name__ == "__main__":
    main()
