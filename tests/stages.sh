# SPDX-License-Identifier: MIT
# Shell functions of tests/run.sh and tests/nightly.sh: set-up, and stages that show how far they
# are. Sourced from the root of the tree.

mkdir -p build/logs
started=$SECONDS
failed_stages=()
jobs=${BALLAST_JOBS:-$(nproc)}
export CCACHE_SLOPPINESS=pch_defines,time_macros

say() { printf '[%3d:%02d] %s\n' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)) "$*"; }

# stage NAME COMMAND...: runs a command with its output in build/logs/NAME.log; every 30 s it says
# the log's last line, and in case of failure shows the log's end. A failed stage does not stop the
# run, so that one run tells everything; it makes the run fail.
stage() {
    local name=$1 log="build/logs/$1.log" from=$SECONDS said=$SECONDS pid status=0
    shift
    say "$name: begins"
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.2
        if [ $((SECONDS - said)) -ge 30 ]; then
            said=$SECONDS
            say "$name: $(tail -n 1 "$log" | cut -c1-100)"
        fi
    done
    wait "$pid" || status=$?
    if [ "$status" = 0 ]; then
        say "$name: done in $((SECONDS - from)) s"
    else
        say "$name: FAILED with $status after $((SECONDS - from)) s; the end of $log:"
        tail -n "${BALLAST_LOG_LINES:-80}" "$log"
        failed_stages+=("$name")
    fi
    return "$status"
}

# A virtual environment with the packages of tests/requirements.txt; made again when those change.
make_venv() {
    local stamp=build/venv/requirements.txt
    if ! cmp -s tests/requirements.txt "$stamp"; then
        rm -rf build/venv
        python3 -m venv build/venv &&
            build/venv/bin/python -m pip install --disable-pip-version-check --no-cache-dir \
                --only-binary :all: -r tests/requirements.txt &&
            cp tests/requirements.txt "$stamp"
    fi
}

# Says once, loudly, what cannot be tested without the reference data.
check_refdata() {
    export BALLAST_REFDATA=${BALLAST_REFDATA:-$PWD/../shared/refdata}
    if [ -d "$BALLAST_REFDATA" ]; then
        BALLAST_REFDATA=$(cd "$BALLAST_REFDATA" && pwd)
        say "reference data: $BALLAST_REFDATA"
    elif [ "${BALLAST_REFDATA_REQUIRED:-}" = 1 ]; then
        say "reference data: BALLAST_REFDATA_REQUIRED=1, but there is no $BALLAST_REFDATA"
        exit 1
    else
        say "reference data: NONE at $BALLAST_REFDATA (set BALLAST_REFDATA=DIR). SKIPPED: its" \
            "cases of tokenisers, templates, greedy ids, perplexity, tiny models, malformed files"
    fi
}

# Packages first, since everything else needs them; what is downloaded afterwards comes in beside
# the first build (wait_for_downloads).
set_up() {
    stage packages deploy/install-packages.sh build run test || exit 1
    grep '^packages:' build/logs/packages.log | sed 's/^/  /'
    check_refdata
    export BALLAST_TEST_MODELS=${BALLAST_TEST_MODELS:-$PWD/build/models}
    export BALLAST_PYTHON=$PWD/build/venv/bin/python
    (make_venv) >build/logs/venv.log 2>&1 </dev/null &
    venv_job=$!
    tests/models.sh >build/logs/models.log 2>&1 </dev/null &
    models_job=$!
}

wait_for_downloads() {
    if wait "$venv_job"; then
        say "venv: build/venv has the packages of tests/requirements.txt"
    else
        say "venv: FAILED; the end of build/logs/venv.log:"
        tail -n 30 build/logs/venv.log
        failed_stages+=(venv)
    fi
    if wait "$models_job"; then
        sed 's/^/  /' build/logs/models.log
    else
        say "models: NOT all here; tests that need them are SKIPPED. The end of models.log:"
        tail -n 10 build/logs/models.log
        if [ "${BALLAST_MODELS_REQUIRED:-}" = 1 ]; then failed_stages+=(models); fi
    fi
}

configure_and_build() {
    local preset=$1
    shift
    cmake --preset "$preset" && cmake --build "build/$preset" -j "$jobs" "$@"
}

# Sources to lint: product sources that changed since the branch left main, or, on main, those of
# the last commit; a changed header counts as its source. At most $1, another choice each commit.
changed_sources() {
    local most=$1 base
    base=$(git merge-base HEAD origin/main 2>/dev/null || true)
    if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
        base=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
    fi
    { git diff --name-only "$base" -- engine scheduler config server; git ls-files -mo \
        --exclude-standard engine scheduler config server; } |
        sed -n 's/\.\(cpp\|h\)$/.cpp/p' | sort -u |
        while read -r path; do
            if [ -f "$path" ]; then
                echo "$(echo "$(git rev-parse HEAD) $path" | sha256sum | cut -c1-16) $path"
            fi
        done | sort | cut -d' ' -f2 | head -n "$most"
}

lint() {
    local build=$1
    shift
    echo "clang-tidy on $# sources: $*"
    printf '%s\n' "$@" | xargs -P "$jobs" -n 1 clang-tidy-14 --quiet -p "$build" \
        --extra-arg=-Wno-unknown-warning-option
}

# The run's last lines: a failed stage is named with the tests that failed in it, and with the first
# line each gives as the cause, because what it printed may lie far above.
finish() {
    local name log
    local failure='\*\*\*(Failed|Timeout|Exception|Not Run)|: Failure$|^SUMMARY: |error: '
    if [ ${#failed_stages[@]} != 0 ]; then
        for name in "${failed_stages[@]}"; do
            log=build/logs/$name.log
            if [ -f "$log" ]; then
                grep -E "$failure" "$log" | cut -c1-160 | head -n 20 | sed "s/^ */  $name: /"
            fi
        done
        say "FAILED: ${failed_stages[*]}"
        exit 1
    fi
}
