#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sets up what is needed and runs every test that fits into a change's check: an optimised build
# with all functional tests and numbers, and beside it the sanitizers, the second compiler and the
# linter. tests/nightly.sh has what takes longer.
# Usage: tests/run.sh [--quick] [CTEST-ARGUMENT...]
#   --quick: only the optimised build and its tests.
# Environment: BALLAST_REFDATA, BALLAST_REFDATA_REQUIRED=1, BALLAST_TEST_MODELS,
# BALLAST_MODELS_REQUIRED=1 (see tests/support/test_data.h), BALLAST_JOBS.
set -uo pipefail
cd "$(dirname "$0")/.."
. tests/stages.sh

quick=0
if [ "${1:-}" = --quick ]; then
    quick=1
    shift
fi

set_up
stage build-ci configure_and_build ci
if [ $quick = 0 ]; then
    stage build-clang-libcxx configure_and_build clang-libcxx
    mapfile -t sources < <(changed_sources 4)
    if [ ${#sources[@]} != 0 ]; then
        stage clang-tidy lint build/ci "${sources[@]}"
    else
        say "clang-tidy: no product source has changed"
    fi
    # No model and no oracle is needed here; what these do is guard parsers and memory.
    if stage build-asan configure_and_build asan --target tests_asan; then
        stage test-asan ctest --test-dir build/asan -L asan --no-tests=error \
            --output-on-failure -j "$jobs"
    fi
    if stage build-tsan configure_and_build tsan --target tests_tsan; then
        stage test-tsan ctest --test-dir build/tsan -L tsan --no-tests=error \
            --output-on-failure -j "$jobs"
    fi
fi
wait_for_downloads
say "test-ci: begins"
ctest --test-dir build/ci --no-tests=error --output-on-failure -j "$jobs" "$@" \
    </dev/null || failed_stages+=(test-ci)
finish
