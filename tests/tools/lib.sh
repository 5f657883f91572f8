#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by each script beside it. Needs TPCL (the program), MPIEXEC and GOLDEN in the environment.
set -u
: "${TPCL:?}" "${MPIEXEC:?}" "${GOLDEN:?}"
for name in $(env | sed -n 's/^\(TPCL_[A-Z_]*\)=.*/\1/p'); do
    case $name in TPCL_CACHE_DIR | TPCL_CACHE) ;; *) unset "$name" ;; esac
done
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
out=$work/out err=$work/err
cases=0 failures=0 code=0 command=

finish() {
    status=$?
    rm -rf "$work"
    if [ "$status" -ne 0 ] && [ "$failures" -eq 0 ]; then exit "$status"; fi
    echo "$cases checks, $failures failed"
    if [ "$cases" -eq 0 ] || [ "$failures" -ne 0 ]; then exit 1; fi
    exit 0
}
trap finish EXIT

fail() {
    failures=$((failures + 1))
    echo "FAILED: $command"
    echo "  $*"
    echo "  exit code $code; stdout, stderr:"
    head -c 2000 "$out" | sed 's/^/  | /'
    echo
    head -c 2000 "$err" | sed 's/^/  ! /'
}

# check WHAT COMMAND...: COMMAND must succeed.
check() {
    what=$1
    shift
    cases=$((cases + 1))
    if ! "$@" >"$work/check" 2>&1; then
        fail "$what"
        sed 's/^/  ? /' "$work/check"
    fi
}

# run COMMAND...: at most $limit seconds; standard input from $input.
limit=10
input=/dev/null
run() {
    command="$*"
    timeout -k 2 "$limit" "$@" <"$input" >"$out" 2>"$err"
    code=$?
}

# What a user waits for at most when something is wrong, and what a first run that compiles needs.
quick() {
    limit=10
    run "$@"
}
slow() {
    limit=180
    run "$@"
}

errors() { grep '^tpcl[:[]' "$err" | grep -v ': warning: '; }

# refused CODE PATTERN: exactly one line of error that matches, nothing else on stderr but warnings,
# the documented exit code, which also rules out signals and time-outs.
refused() {
    cases=$((cases + 1))
    if [ "$code" -ne "$1" ]; then
        fail "exit code $code, wanted $1"
    elif [ "$(errors | wc -l)" -ne 1 ]; then
        fail "not one line of error"
    elif [ "$(grep -cv ': warning: ' "$err")" -ne 1 ]; then
        fail "more on stderr than the error"
    elif ! errors | grep -Eq -- "$2"; then
        fail "the error does not match: $2"
    fi
}

# accepted: exit code 0 and no error or warning.
accepted() {
    cases=$((cases + 1))
    if [ "$code" -ne 0 ]; then
        fail "exit code $code, wanted 0"
    elif grep -q '^tpcl' "$err"; then
        fail "a message although all is well"
    fi
}

# prints TEXT: all of stdout, its last newline aside.
prints() {
    cases=$((cases + 1))
    [ "$(cat "$out")" = "$1" ] || fail "stdout is not: $1"
}

shows() {
    cases=$((cases + 1))
    grep -Eq -- "$1" "$out" || fail "stdout does not match: $1"
}

tells() {
    cases=$((cases + 1))
    grep -Eq -- "$1" "$err" || fail "stderr does not match: $1"
}

# python CODE [ARGUMENT...]: a check; CODE has json, sys and tensors(file) -> {name: (shape, values)}.
python() {
    text=$1
    shift
    check "python: $text" env PYTHONPATH="$here" PYTHONDONTWRITEBYTECODE=1 python3 -c \
        "import json, sys
from safetensors_reader import tensors
$text" "$@"
}
