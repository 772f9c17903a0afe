#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs the Debian packages of the named groups of deploy/packages.txt that are missing, and says
# which. Uses sudo only if packages are missing and the user is not root.
# Usage: deploy/install-packages.sh GROUP...
set -euo pipefail
list="$(dirname "$0")/packages.txt"

if [ $# = 0 ]; then
    echo "Usage: deploy/install-packages.sh GROUP... (build, run, test)" >&2
    exit 2
fi
declare -A wanted=()
for group in "$@"; do
    while read -r of package _; do
        if [ "$of" = "$group" ]; then wanted[$package]=1; fi
    done <"$list"
done
missing=()
for package in "${!wanted[@]}"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    if [ "$status" != installed ]; then missing+=("$package"); fi
done
if [ ${#missing[@]} = 0 ]; then
    echo "packages: all ${#wanted[@]} are installed"
    exit 0
fi
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort)
if ! command -v apt-get >/dev/null; then
    echo "packages: this is not a Debian system; install what corresponds to: ${missing[*]}" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "packages: not root and no sudo; run as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "packages: installing ${#missing[@]}${as_root[*]:+ with sudo}: ${missing[*]}"
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 \
        -o Acquire::Retries=3 "$@" </dev/null
}
apt update
apt install -y --no-install-recommends "${missing[@]}"
echo "packages: installed"
