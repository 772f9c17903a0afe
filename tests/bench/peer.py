#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Speed of `ballast bench` beside llama-cpp-python's, in turns on the same token ids.

Usage: peer.py BALLAST MODEL... [--threads 1,2] [--rounds 3]
Run with a Python that has llama-cpp-python (built from source: that is how it gets the processor's
own instructions) and numpy. Prints medians over the rounds, with their ranges; each round of either
is a process of its own that measures twice after a warm-up.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from xoshiro import Xoshiro

PREFILL, DECODE, RUNS = 512, 128, 2


def token_ids(vocabulary):
    """The ids of `ballast bench`."""
    rng = Xoshiro(1)
    return [rng.next() % vocabulary for _ in range(PREFILL)]


def measure_peer(path, threads):
    import llama_cpp
    model = llama_cpp.Llama(path, n_ctx=704, n_threads=threads, n_threads_batch=threads,
                            n_batch=PREFILL, verbose=False)
    ids = token_ids(model.n_vocab())
    prefill, decode = [], []
    for run in range(RUNS + 1):
        model.reset()
        begin = time.perf_counter()
        model.eval(ids)
        middle = time.perf_counter()
        for token in ids[:DECODE]:
            model.eval([token])
        end = time.perf_counter()
        if run > 0:
            prefill.append(PREFILL / (middle - begin))
            decode.append(DECODE / (end - middle))
    return {"prefill_tokens_per_second": statistics.median(prefill),
            "decode_tokens_per_second": statistics.median(decode),
            "peak_memory_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


def run(command):
    # Some machines set these for old OpenBLAS builds; they would slow numpy.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def show(values):
    digits = 0 if max(values) >= 200 else 1
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f} to {max(values):.{digits}f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ballast")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-only", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    threads = [int(n) for n in arguments.threads.split(",")]
    if arguments.peer_only:
        print(json.dumps(measure_peer(arguments.models[0], threads[0])))
        return
    for model in arguments.models:
        for n in threads:
            results = {"ballast": [], "llama-cpp-python": []}
            for _ in range(arguments.rounds):
                results["ballast"].append(run(
                    [arguments.ballast, "bench", model, "--threads", str(n), "--prefill",
                     str(PREFILL), "--decode", str(DECODE), "--runs", str(RUNS), "--json"]))
                results["llama-cpp-python"].append(run(
                    [sys.executable, __file__, arguments.ballast, model, "--threads", str(n),
                     "--peer-only"]))
            for name, rounds in results.items():
                prefill, decode, memory = ([r[key] for r in rounds] for key in (
                    "prefill_tokens_per_second", "decode_tokens_per_second", "peak_memory_bytes"))
                print(f"{os.path.basename(model)}, {n} threads, {name}: prefill {show(prefill)}, "
                      f"decode {show(decode)} tokens/s, peak {max(memory) // 10**6} MB", flush=True)


if __name__ == "__main__":
    main()
