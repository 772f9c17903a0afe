#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints a table of forecasts for pairs of machine and model, as docs/scheduling.md has it.

usage: plan_table.py BALLAST [--mix PREFILL:DECODE] [--context N] [HARDWARE:MODEL ...]"""

import argparse
import json
import subprocess

PAIRS = """laptop-4060:llama-3.1-8b laptop-4060:qwen3-14b laptop-4060:qwen3-32b
laptop-3060:llama-3.1-8b laptop-3060:qwen3-14b desktop-3060-gen3:qwen3-32b
desktop-3060-gen4:qwen3-32b desktop-4070:qwen3-32b desktop-4090:llama-3.3-70b
desktop-5090:llama-3.3-70b desktop-a770:qwen3-32b egpu-4060ti:qwen3-32b
apu-780m:llama-3.1-8b strix-halo:llama-3.1-8b apple-m3-max:llama-3.3-70b
laptop-4060:qwen3-30b-a3b laptop-4060:gpt-oss-20b desktop-4090:gpt-oss-120b
desktop-4090:llama-4-scout desktop-5090:qwen3.5-122b-a10b""".split()
POLICIES = ["CPU only", "whole layers (-ngl)", "experts last (--n-cpu-moe)", "best whole groups",
            "whole groups, streamed"]


def milliseconds(seconds):
    return f"{1e3 * seconds:.3g}" if 1e3 * seconds < 100 else f"{1e3 * seconds:.0f}"


def row(ballast, pair, options):
    """One line: the policies, the plan, the limit, all in ms a token of decode."""
    hardware, model = pair.split(":", 1)
    command = [ballast, "plan", model, "--hardware", hardware, "--json", "--mix", options.mix,
               "--context", str(options.context)]
    plan = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    if not plan["runs"]:
        return f"| {hardware} | {model} | {plan['verdict']} |" + " - |" * (len(POLICIES) + 4)
    times = {p["policy"]: p.get("decode_seconds") for p in plan["policies"]}
    others = [t for t in times.values() if t]
    cells = [milliseconds(times[p]) if times.get(p) else "-" for p in POLICIES]
    cells += [f"**{milliseconds(plan['decode_seconds'])}**",
              milliseconds(plan["decode_limit_seconds"]),
              f"{100 * plan['predicted_limit']:.0f}%",
              f"{min(others) / plan['decode_seconds']:.2f}",
              f"{100 * plan['gap']:.1f}%"]
    return f"| {hardware} | {model} | {plan['verdict']} | " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("ballast")
    parser.add_argument("--mix", default="0:1")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("pairs", nargs="*", default=PAIRS)
    options = parser.parse_args()
    head = ["machine", "model", "verdict"] + POLICIES + ["plan", "limit", "of it", "gain", "gap"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for pair in options.pairs:
        print(row(options.ballast, pair, options))


if __name__ == "__main__":
    main()
