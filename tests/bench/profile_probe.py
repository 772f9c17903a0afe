#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ballast profile` against read and copy probes of other people's making, run in turn with it: a
sum of doubles and a memcpy in a few lines of C (compiled here, shares nothing with Ballast), and
numpy where it is installed. Prints both and their ratios, and exits 1 if reading or copying is more
than 10 % apart. A report, not a test: it says something on a quiet machine only.

Usage: profile_probe.py [--ballast build/release/ballast] [--rounds 7] [--threads N]"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PROBE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
/* Sums by THREADS, or copies by one, BYTES of ordinary memory; prints the GB/s of PASSES passes
   in which no thread had to make room for another program, or of the last of ten times as many. */
#define PIECE (1 << 17)
static double *data, *copy;
static size_t n_all, next;
static int copies, pinned;
static volatile double sink;
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
static long preemptions(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}
static void *work(void *index) {
    /* Each on its own processor: one that waits for a free one would not count as disturbed. */
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((int)(size_t)index, &set);
    if (pinned) sched_setaffinity(0, sizeof set, &set);
    if (copies) {
        /* In pieces, as weights are staged; in one go memcpy passes by the caches. */
        for (size_t i = 0; i + PIECE <= n_all; i += PIECE) memcpy(copy + i, data + i, 8 * PIECE);
        return NULL;
    }
    /* Several sums: one would wait for its own additions. Pieces go to whoever is free: with fixed
       shares the slower processor's time would count for both. */
    double sum[16] = {0};
    size_t at;
    while ((at = __atomic_fetch_add(&next, PIECE, __ATOMIC_RELAXED)) < n_all) {
        const size_t end = at + PIECE < n_all ? at + PIECE : n_all;
        for (size_t i = at; i + 16 <= end; i += 16) {
            for (int j = 0; j < 16; ++j) sum[j] += data[i + j];
        }
    }
    for (int j = 1; j < 16; ++j) sum[0] += sum[j];
    sink = sum[0];
    return NULL;
}
int main(int argc, char **argv) {
    if (argc != 5) return 2;
    const size_t bytes = strtoull(argv[1], NULL, 10);
    const int threads = atoi(argv[2]), passes = atoi(argv[3]);
    copies = atoi(argv[4]);
    data = malloc(bytes);
    copy = malloc(bytes);
    if (data == NULL || copy == NULL) return 3;
    for (size_t i = 0; i < bytes / sizeof *data; ++i) data[i] = copy[i] = (double)i;
    pinned = threads > 1;
    n_all = bytes / sizeof *data;
    for (int clean = 0, pass = 0; clean < passes && pass < 10 * passes; ++pass) {
        pthread_t others[256];
        const long switches = preemptions();
        const double begin = now();
        next = 0;
        for (long i = 1; i < threads; ++i) pthread_create(&others[i], NULL, work, (void *)i);
        work((void *)0);
        for (int i = 1; i < threads; ++i) pthread_join(others[i], NULL);
        const double seconds = now() - begin;
        if (preemptions() != switches && pass < 9 * passes) continue;
        ++clean;
        printf("%.4f\n", (double)n_all * sizeof *data / seconds * 1e-9);
    }
    return 0;
}
"""
BYTES = 512 << 20
PASSES = 9


def compile_probe(folder):
    source = pathlib.Path(folder) / "probe.c"
    source.write_text(PROBE, encoding="ascii")
    program = pathlib.Path(folder) / "probe"
    subprocess.run([os.environ.get("CC", "cc"), "-O3", "-ffast-math", "-funroll-loops", "-pthread",
                    str(source), "-o", str(program)], check=True)
    return program


def probe(program, threads, copies):
    """The median of the passes; the first, which meets cold page tables, does not count."""
    out = subprocess.run([program, str(BYTES), str(threads), str(PASSES), str(int(copies))],
                         check=True, capture_output=True, text=True).stdout
    return statistics.median(float(line) for line in out.split()[1:])


def numpy_probe():
    """GB/s of numpy's sum by one thread, or None where there is no numpy."""
    try:
        import numpy
    except ImportError:
        return None
    data = numpy.ones(BYTES // 8)
    rates = []
    for _ in range(PASSES):
        begin = time.perf_counter()
        data.sum()
        rates.append(BYTES / (time.perf_counter() - begin) * 1e-9)
    return statistics.median(rates[1:])


def ballast(program, threads, folder):
    arguments = [program, "profile", "--json"] + (["--threads", str(threads)] if threads else [])
    done = subprocess.run(arguments, check=True, capture_output=True, text=True,
                          env=dict(os.environ, XDG_CACHE_HOME=folder))
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ballast", default="build/release/ballast")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    threads = args.threads or os.cpu_count()
    rows = {"reads, all threads": [], "reads, 1 thread": [], "copies, 1 thread": []}
    with tempfile.TemporaryDirectory() as folder:
        program = compile_probe(folder)
        print(f"{'round':>5}  {'':<20}{'before':>8}{'ballast':>9}{'after':>8}   GB/s")
        for number in range(args.rounds):
            before = [probe(program, threads, False), probe(program, 1, False),
                      probe(program, 1, True)]
            profile = ballast(args.ballast, args.threads, folder)
            ours = [profile["cpu_read_gbps"], profile["cpu_read_one_thread_gbps"],
                    profile["copy_gbps"]]
            after = [probe(program, threads, False), probe(program, 1, False),
                     probe(program, 1, True)]
            for name, b, o, a in zip(rows, before, ours, after):
                rows[name].append((o, (a + b) / 2))
                print(f"{number + 1:>5}  {name:<20}{b:>8.1f}{o:>9.1f}{a:>8.1f}")
    failed = False
    print(f"\n{'medians':<22}{'ballast':>9}{'probe':>8}{'ratio':>8}{'ratio by round':>18}")
    for name, pairs in rows.items():
        ours = statistics.median(o for o, _ in pairs)
        other = statistics.median(p for _, p in pairs)
        ratio = statistics.median(o / p for o, p in pairs)
        print(f"{name:<22}{ours:>9.1f}{other:>8.1f}{ours / other:>8.3f}{ratio:>18.3f}")
        failed |= not 0.9 <= ratio <= 1.1
    numpy_rate = numpy_probe()
    if numpy_rate is not None:
        print(f"{'numpy sum, 1 thread':<22}{'':>9}{numpy_rate:>8.1f}   (large pages)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
