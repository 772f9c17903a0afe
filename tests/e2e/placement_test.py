#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""/metrics and /ballast/v1/placement tell the same of a model that is served in part by a second
device, before and after it has answered."""

import json
import re
import unittest

from ballast_program import SMOLLM2, Server, model_path
from suite import main

BUDGET = 40 << 20


class Loop(unittest.TestCase):
    def get(self, server, path):
        status, _, body = server.request("GET", f"/ballast/v1/{path}")
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def metrics(self, server):
        """{series with its labels: value} of what is the scheduler's."""
        text = server.request("GET", "/metrics")[2].decode()
        found = {}
        for line in text.splitlines():
            if re.match(r"ballast_(placement|plan|limit|replans|scheduler)_", line):
                series, value = line.rsplit(" ", 1)
                found[series] = float(value)
        return found

    def complete(self, server, n_tokens):
        status, _, body = server.request("POST", "/v1/completions", {
            "model": SMOLLM2, "prompt": "Once upon a time", "max_tokens": n_tokens, "seed": 7})
        self.assertEqual(status, 200, body)
        # A reply of one token decodes nothing.
        self.assertGreater(json.loads(body)["usage"]["completion_tokens"], 1)

    def check_bytes(self, server):
        """Gives the placement. Bytes by class are those of the metrics and of the groups."""
        placement, metrics = self.get(server, "placement"), self.metrics(server)
        shown = {(of["device"], of["class"]): of["bytes"] for of in placement["bytes"]}
        scraped = {}
        for series, value in metrics.items():
            labels = re.fullmatch(r'ballast_placement_bytes\{class="(\w+)",device="(\w+)"\}',
                                  series)
            if labels:
                scraped[labels.group(2), labels.group(1)] = value
        self.assertEqual(shown, scraped)
        for kind in ("attention", "feed_forward", "head"):
            of_kind = [group for group in placement["groups"] if group["class"] == kind]
            on_device = sum(group["device_weight_bytes"] for group in of_kind)
            self.assertEqual(on_device, shown.get(("device", kind), 0), kind)
            # A home is the CPU's memory, of what the device has no copy of. Norms are on both.
            rest = sum(max(0, group["weight_bytes"] - group["device_weight_bytes"])
                       for group in of_kind)
            self.assertEqual(rest, shown.get(("cpu", kind), 0), kind)
        self.assertEqual(sum(group["device_kv_bytes"] for group in placement["groups"]),
                         shown.get(("device", "kv"), 0))
        self.assertEqual(metrics["ballast_plan_version"], placement["plan"]["version"])
        return placement, metrics

    def test_a_device_with_a_part_of_the_model(self):
        with Server(model_path(SMOLLM2), "--context", 512, "--device", "host", "--vram-budget",
                    "40MiB") as server:
            placement, metrics = self.check_bytes(server)
            self.assertEqual(placement["model"], SMOLLM2)
            self.assertIsNone(placement["degraded"])
            self.assertIsNone(placement["measured"])
            self.assertNotIn("ballast_limit_fraction", metrics)
            self.assertNotIn("ballast_plan_fraction", metrics)
            on_device = [group for group in placement["groups"]
                         if group["resident_parts"] + group["streamed_parts"] > 0]
            self.assertTrue(0 < len(on_device) < len(placement["groups"]) == 61)
            used = sum(of["bytes"] for of in placement["bytes"] if of["device"] == "device")
            # The ring and the activations of a step come on top.
            self.assertTrue(BUDGET / 3 < used <= BUDGET, used)
            plan = placement["plan"]
            self.assertEqual(plan["version"], 1)
            self.assertTrue(plan["reason"].startswith(f"{len(on_device)} of 61 groups on the "
                                                      "device, "), plan["reason"])
            self.assertAlmostEqual(metrics["ballast_plan_predicted_seconds"],
                                   plan["predicted_decode_seconds"], places=9)
            self.assertAlmostEqual(metrics["ballast_plan_gap_ratio"], plan["gap"], places=9)
            self.assertTrue(0 < plan["predicted_limit"] <= 1, plan)
            self.assertEqual(metrics['ballast_replans_total{cause="start"}'], 1)
            self.assertEqual(
                [(entry["number"], entry["cause"], entry["text"])
                 for entry in self.get(server, "decisions")["data"]],
                [(1, "start", f"Plan 1: {plan['reason']}.")])

            self.complete(server, 24)
            after, later = self.check_bytes(server)
            measured = after["measured"]
            self.assertTrue(0 < measured["limit_fraction"] <= 1.5, measured)
            self.assertGreater(measured["plan_fraction"], 0)
            self.assertGreater(measured["decode_seconds"], 0)
            self.assertGreater(measured["predicted_seconds"], 0)
            # Written with different numbers of digits.
            for name in ("limit_fraction", "plan_fraction"):
                self.assertAlmostEqual(later[f"ballast_{name}"], measured[name], places=9)
            self.assertGreater(later["ballast_scheduler_seconds_total"],
                               metrics["ballast_scheduler_seconds_total"])
            # Forecasts follow measured times, the placement does not.
            self.assertEqual((after["plan"], after["groups"]),
                             (placement["plan"], placement["groups"]))

    def test_the_cpu_alone_without_a_profile_promises_nothing(self):
        with Server(model_path(SMOLLM2), "--context", 512) as server:
            self.complete(server, 4)
            placement, metrics = self.check_bytes(server)
            self.assertEqual(placement["plan"], {
                "version": 1,
                "reason": "everything on the CPU: this machine has not been measured yet"})
            self.assertIsNone(placement["measured"])
            self.assertEqual({of["device"] for of in placement["bytes"]}, {"cpu"})
            self.assertEqual({group["device"] for group in placement["groups"]}, {"cpu"})
            self.assertEqual(
                {series for series in metrics if not series.startswith("ballast_placement")},
                {"ballast_plan_version", 'ballast_replans_total{cause="start"}',
                 "ballast_scheduler_seconds_total"})


if __name__ == "__main__":
    main()
