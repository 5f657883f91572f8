#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# headers.sh INCLUDE CC [FLAG...]: every public header compiles alone, as C11 and as C++17, without a
# warning, and declares only names that start with tpcl_ or TPCL_. tpcl.h includes them all, but for
# those of the model library and opencl.h.
set -eu
include=$1
cc=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strict="-Wall -Wextra -Wpedantic -Werror -fsyntax-only"
bad=0
count=0
for header in "$include"/tpcl/*.h; do
    name=$(basename "$header")
    printf '#include <tpcl/%s>\n#include <tpcl/%s>\n' "$name" "$name" > "$work/alone.c"
    # shellcheck disable=SC2086 # flags
    "$cc" -std=c11 $strict -I"$include" "$@" "$work/alone.c" || bad=1
    # shellcheck disable=SC2086
    c++ -x c++ -std=c++17 $strict -I"$include" "$@" "$work/alone.c" || bad=1
    "$cc" -std=c11 -E -dD -I"$include" "$@" "$work/alone.c" > "$work/c.i"
    c++ -x c++ -std=c++17 -E -dD -I"$include" "$@" "$work/alone.c" > "$work/cxx.i"
    python3 "$(dirname -- "$0")/names.py" "$header" "$work/c.i" "$work/cxx.i" || bad=1
    case $name in
    tpcl.h | checkpoint.h | model.h | opencl.h | tokenizer.h) ;;
    *) grep -q "#include <tpcl/$name>" "$include/tpcl/tpcl.h" ||
        { echo "tpcl.h does not include $name"; bad=1; } ;;
    esac
    count=$((count + 1))
done
[ $count -gt 10 ] || { echo "only $count headers in $include/tpcl"; exit 1; }
exit $bad
