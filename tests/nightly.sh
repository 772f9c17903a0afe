#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What takes too long for every change: all of tests/run.sh's optimised tests with nothing left out
# (BALLAST_NIGHTLY=1: every instruction set over all eight chunks of the perplexity text in both
# arithmetic classes, every chat template), all unit tests under each sanitizer, the linter on every
# source, simulated runs of random seeds, what giving way takes on the wall clock, and fuzzing.
# Usage: tests/nightly.sh   (BALLAST_FUZZ_SECONDS=N: for each target, default 600;
#                            BALLAST_SEED_SECONDS=N: default 600)
set -uo pipefail
cd "$(dirname "$0")/.."
. tests/stages.sh
export BALLAST_NIGHTLY=1

fuzz() {
    local target name found=0
    for target in build/fuzz/tests/fuzz/fuzz_*; do
        if ! [ -f "$target" ] || ! [ -x "$target" ]; then continue; fi
        name=${target##*/fuzz_}
        found=1
        mkdir -p "build/found/$name"
        # New inputs go to the first folder; one that fails is kept beside it.
        "$target" -max_total_time="${BALLAST_FUZZ_SECONDS:-600}" -timeout=10 -rss_limit_mb=2048 \
            -artifact_prefix="build/found/failing-$name-" -print_final_stats=1 \
            "build/found/$name" "tests/fuzz/corpus/$name" || return 1
    done
    [ $found = 1 ] || { echo "no fuzz target was built" && return 1; }
}

# A seed that fails belongs into tests/sim/seeds.txt.
random_seeds() {
    local seed n=0 end=$((SECONDS + ${BALLAST_SEED_SECONDS:-600}))
    while ((SECONDS < end)); do
        seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
        build/ci/ballast simulate --seed "$seed" >build/seed.txt || {
            cat build/seed.txt
            echo "ballast simulate --seed $seed: failed"
            return 1
        }
        n=$((n + 1))
    done
    [ $n -gt 0 ] || { echo "no seed was run" && return 1; }
    echo "$n random seeds broke no invariant"
}

every_source() { git ls-files 'engine/*.cpp' 'scheduler/*.cpp' 'config/*.cpp' 'server/*.cpp'; }

set_up
stage build-ci configure_and_build ci
wait_for_downloads
mapfile -t sources < <(every_source)
stage clang-tidy lint build/ci "${sources[@]}"
stage random-seeds random_seeds
stage live-figures build/venv/bin/python tests/bench/live_figures.py build/ci/ballast
cat build/logs/live-figures.log
stage build-clang-libcxx configure_and_build clang-libcxx
for sanitizer in asan tsan; do
    stage "build-$sanitizer" configure_and_build $sanitizer &&
        stage "test-$sanitizer" ctest --test-dir build/$sanitizer -L 'unit|fuzz_replay' \
            --no-tests=error --output-on-failure -j "$jobs"
done
stage build-fuzz configure_and_build fuzz --target fuzz_targets && stage fuzz fuzz
say "test-ci: begins"
ctest --test-dir build/ci --no-tests=error --output-on-failure -j "$jobs" </dev/null ||
    failed_stages+=(test-ci)
finish
