#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks that the C++ sources are as clang-format 14 writes them. Usage: format.sh ROOT [--fix]
# Exit code 77 tells ctest that there is no clang-format 14.
set -euo pipefail
cd "$1"
if ! command -v clang-format-14 >/dev/null; then
    echo "SKIPPED: no clang-format-14"
    exit 77
fi
mapfile -t sources < <(find engine scheduler config server tests \
    \( -name '*.cpp' -o -name '*.h' \) -type f | sort)
[ ${#sources[@]} != 0 ] || { echo "no sources in $1" && exit 1; }
if [ "${2:-}" = --fix ]; then
    clang-format-14 -i "${sources[@]}"
else
    clang-format-14 --dry-run -Werror "${sources[@]}"
fi
