# SPDX-License-Identifier: Apache-2.0
# For the scripts beside it: a folder of their own, quiet commands, comparisons.
# shellcheck shell=sh
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
app=$(dirname -- "$0")/app

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

quiet() { # quiet COMMAND...: shows what it said only where it fails
    "$@" > "$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }
}

expect() { # expect WHAT GOT WANTED
    [ "$2" = "$3" ] || fail "$1: got
$2
expected
$3"
}

configure_app() { # configure_app NAME OPTION...: the project app, in $work/NAME
    name=$1
    shift
    cmake -G Ninja -S "$app" -B "$work/$name" -DLANGUAGE=C "$@" > "$work/log" 2>&1
}

header_version() { # header_version FOLDER-OF-version.h
    sed -n 's/^#define TPCL_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\)$/\2/p' "$1/version.h" |
        paste -sd .
}

# links FILE WORD: whether a program needs a shared library whose name holds WORD
links() {
    readelf -d "$1" | grep NEEDED | grep -q "$2"
}
