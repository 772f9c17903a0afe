#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs one of the Python tests here with the Python that has the official client (BALLAST_PYTHON,
# or build/venv, which tests/run.sh makes). Exit code 77 tells ctest that the test was skipped.
set -euo pipefail
python=${BALLAST_PYTHON:-${BALLAST_SOURCE_DIR:-.}/build/venv/bin/python}
if ! "$python" -c 'import openai' 2>/dev/null; then
    echo "SKIPPED: $python has no openai package (run tests/run.sh)"
    if [ "${BALLAST_MODELS_REQUIRED:-}" = 1 ]; then exit 1; fi
    exit 77
fi
exec "$python" -B "$@"
