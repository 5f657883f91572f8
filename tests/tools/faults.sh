#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Interrupts, and ranks that stop or die while tokens are made: the job ends soon, with its code.
. "$(dirname -- "$0")/lib.sh"
model=$GOLDEN/tiny-llama
set -- run "$model" --ids 1,2,3 -n 100000 --ignore-eos --print-ids -v --timeout-s 2

# start COMMAND...: in the background, until the first ids are there.
start() {
    command="$*"
    # the shell opens a background job's files later: what the last job wrote must not be there
    : >"$out"
    : >"$err"
    "$@" </dev/null >"$out" 2>"$err" &
    job=$!
    for _ in $(seq 600); do
        [ "$(wc -c <"$out")" -lt 20 ] || return 0
        sleep 0.1
    done
    fail "no token came"
}

# ended CODE [OR-CODE]: the job ends by itself within 10 s.
ended() {
    began=$(date +%s)
    (
        sleep 10
        kill -9 "$job"
    ) >/dev/null 2>&1 &
    guard=$!
    wait "$job"
    code=$?
    kill "$guard" 2>/dev/null
    cases=$((cases + 1))
    [ "$code" -eq "$1" ] || [ "$code" -eq "${2:-$1}" ] || fail "exit code $code, wanted $1, after $(($(date +%s) - began)) s"
}

pid_of() { sed -n "s/^rank $1\/.*, pid \([0-9]*\), .*/\1/p" "$err"; }
alive() { [ -r "/proc/$1/stat" ] && ! grep -q ') Z' "/proc/$1/stat" 2>/dev/null; }
# gone PID...: within 5 s none of them lives.
gone() {
    for _ in $(seq 50); do
        left=no
        for r in "$@"; do ! alive "$r" || left=yes; done
        [ $left = yes ] || return 0
        sleep 0.1
    done
    return 1
}

# Ctrl-C: the tokens so far stay, and the statistics come.
start "$TPCL" "$@"
kill -INT "$job"
ended 130
tells '^tpcl: interrupted'
tells '^generation '
start "$MPIEXEC" -n 2 "$TPCL" "$@"
kill -INT "$job"
# MPICH's launcher forgets the ranks' code in some of these cases, and then says 0
ended 130 0
tells '^tpcl\[0/2@[^]]+\]: interrupted'
check "one line" test "$(errors | wc -l)" -eq 1
start "$TPCL" "$@" --tp 2
kill -INT "$job"
ended 130
check "one line" test "$(errors | wc -l)" -eq 1

# A rank that does not answer, the last or the first: one of the others says so and ends the job.
for victim in 1 0; do
    start "$MPIEXEC" -n 3 "$TPCL" "$@"
    ranks="$(pid_of 0) $(pid_of 1) $(pid_of 2)"
    kill -STOP "$(pid_of $victim)"
    ended 75
    check "one line" test "$(errors | wc -l)" -eq 1
    tells "no answer within 2 s from rank.* $victim"
    # shellcheck disable=SC2086
    check "no process is left" gone $ranks
done

# A rank that is killed: the launcher ends the rest, the front end says what that means.
start "$TPCL" "$@" --tp 2
kill -KILL "$(pid_of 1)"
ended 75
tells '^tpcl: a rank was killed \(signal 9\)'
start "$TPCL" "$@" --tp 2
kill -SEGV "$(pid_of 1)"
ended 75
tells '^tpcl\[1/2@[^]]+\]: crashed while generating \(signal 11\)'

# score, interrupted: neither a result nor half of one.
mkdir "$work/scores"
: >"$err"
ids=$(seq -s, 1 500)
for _ in 1 2 3; do ids=$ids,$ids; done
"$TPCL" score "$GOLDEN/tiny-qwen3-tied" --ids "$ids" --ctx 8000 \
    --out "$work/scores/file" >"$out" 2>"$err" </dev/null &
job=$!
for _ in $(seq 200); do
    [ -z "$(ls "$work/scores")" ] || break
    sleep 0.02
done
check "a temporary file, and it is beside the result" test -n "$(ls "$work/scores")"
kill -INT "$job"
command="tpcl score, interrupted"
ended 130
tells '^tpcl: interrupted'
check "nothing is left" test -z "$(ls "$work/scores")"
