#!/bin/sh
# SPDX-License-Identifier: MIT
# The linker keeps one copy of an inline function and may take it from a file compiled for a wider
# instruction set, which then runs on every processor. So such a file may define only weak symbols
# that belong to its own set. Usage: check_symbols.sh LIBRARY
set -eu
nm -A -C "$1" | grep -E ':avx(2|512)_[a-z]+\.cpp\.o:' > "${TMPDIR:-/tmp}/symbols.$$"
trap 'rm -f "${TMPDIR:-/tmp}/symbols.$$"' EXIT
foreign=$(grep -E ' [WVu] ' "${TMPDIR:-/tmp}/symbols.$$" | grep -vE 'kernels::avx(2|512)::' || true)
if [ -n "$foreign" ]; then
    echo "These could be linked into code for every processor:"
    echo "$foreign"
    exit 1
fi
grep -q 'avx512_matvec.cpp.o:.*kernels::avx512::matvec' "${TMPDIR:-/tmp}/symbols.$$"
echo "no foreign weak symbols"
