#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What profiling in idle gaps costs a request: short requests, each after a bit more than a second
of quiet, so that each meets a slice of the measurement, to a server that profiles and to one that
does not, in turns. Prints the latencies in milliseconds. A report, not a test.

Usage: idle_gaps.py BALLAST MODEL [--requests 20] [--rounds 2]"""

import argparse
import contextlib
import http.client
import json
import os
import random
import statistics
import subprocess
import tempfile
import time


def latencies(program, model, profile, requests):
    """Milliseconds of each request, and whether the machine was profiled in the end."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("BALLAST_", "XDG_"))}
        process = subprocess.Popen(
            [program, "serve", model, "--port", "0"], stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL,
            env=kept | {"HOME": folder, "XDG_CACHE_HOME": folder,
                        "BALLAST_ENGINE_PROFILE_WHEN_IDLE": "true" if profile else "false"})
        try:
            port = next(int(line.strip().split(":")[-1].removesuffix("/v1"))
                        for line in process.stdout if line.startswith("OPENAI_BASE_URL="))
            name = os.path.basename(model).removesuffix(".gguf")
            body = json.dumps({"model": name, "prompt": "Once upon a time", "max_tokens": 1})
            found = []
            rng = random.Random(1)
            for _ in range(requests):
                time.sleep(1.05 + 0.2 * rng.random())
                with contextlib.closing(
                        http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                    begin = time.perf_counter()
                    connection.request("POST", "/v1/completions", body,
                                       {"Content-Type": "application/json"})
                    response = connection.getresponse()
                    response.read()
                    found.append(1e3 * (time.perf_counter() - begin))
                    assert response.status == 200, response.status
            stored = os.path.isdir(f"{folder}/ballast/profile")
            return found, stored
        finally:
            process.terminate()
            process.wait(timeout=30)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("ballast")
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    found = {False: [], True: []}
    for _ in range(args.rounds):
        for profile in (False, True):
            times, stored = latencies(args.ballast, args.model, profile, args.requests)
            found[profile] += times
            if profile:
                print("profile stored while requests came:", "yes" if stored else "not yet")
    for profile, times in found.items():
        times.sort()
        print(f"{'profiling' if profile else 'not profiling':<14}{len(times):>4} requests, ms: "
              f"median {statistics.median(times):.1f}, "
              f"90 % below {times[len(times) * 9 // 10]:.1f}, "
              f"highest {times[-1]:.1f}")


if __name__ == "__main__":
    main()
