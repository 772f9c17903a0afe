#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two streams while a game takes part of the device's memory, then all of it, and goes: what the
server holds and how fast the streams are, each second. On the device "host" of this machine. A
report, not a test; it fails only if a stream is lost.

Usage: live_timeline.py [BALLAST] [MODEL]"""

import json
import os
import pathlib
import sys
import tempfile
import time

TOTAL = 256 << 20
# Seconds since the start, and MiB that the game has from then on.
GAME = ((0, 0), (8, 156), (13, 256), (18, 0))
SECONDS = 30


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/ci/ballast"
    model_file = pathlib.Path(
        sys.argv[2] if len(sys.argv) > 2 else "build/models/smollm2-135m-instruct-q4_1.gguf")
    os.environ["BALLAST_BINARY"] = program
    here = pathlib.Path(__file__).resolve().parent
    sys.path[:0] = [str(here), str(here.parent / "e2e")]
    from ballast_program import Server  # they read the name of the program when they are loaded
    from live_figures import Stream, load
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "game.jsonl"
        script.write_text("".join(
            json.dumps({"t_ms": 1000 * t, "device_total_bytes": TOTAL, "others_bytes": mib << 20,
                        "process": "game" if mib else None}) + "\n" for t, mib in GAME))
        with Server(model_file, "--device", "host", "--vram-budget", TOTAL, "--context", "4096",
                    "--gpu-monitor", f"script:{script}") as server:
            begin = time.monotonic()
            streams = [Stream(server, model_file.stem, 3500, text) for text in ("Once", "A list")]
            seen = []
            while time.monotonic() < begin + SECONDS:
                time.sleep(max(0.0, begin + len(seen) + 1 - time.monotonic()))
                seen.append((time.monotonic(), load(server)))
            for stream in streams:
                stream.leave()
            decisions = json.loads(server.request("GET", "/ballast/v1/decisions")[2])["data"]
    print("| second | game, MiB | ours, MiB | level | tokens/s of both |\n|---|---|---|---|---|")
    last = begin
    for number, (now, shown) in enumerate(seen, 1):
        pace = sum(stream.pace(last, now) for stream in streams)
        print(f"| {number} | {shown['others_bytes'] >> 20} | "
              f"{shown['device_bytes'] / (1 << 20):.1f} | {shown['level']} | {pace:.0f} |")
        last = now
    print()
    for decision in decisions:
        print(f"- {decision['cause']}: {decision['text']}")


if __name__ == "__main__":
    main()
