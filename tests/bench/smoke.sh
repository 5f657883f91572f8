# SPDX-License-Identifier: Apache-2.0
# smoke.sh RANKS. Needs TPCL_BENCH (the program) and MPIEXEC in the environment.
set -eu
: "${TPCL_BENCH:?}" "${MPIEXEC:?}"
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
ranks=$1
collectives="collectives/allreduce collectives/allreduce_host collectives/broadcast collectives/gather"
small="--tokens 1,32 --context 1,70,300 --bytes 4,64k,4M"

if [ "$ranks" -gt 1 ]; then
    for format in csv jsonl; do
        "$MPIEXEC" -n "$ranks" "$TPCL_BENCH" collectives ops/rmsnorm ops/linear 1x33x64 --dtype f32 \
            --shape "$here/tiny.txt" --bytes 4,1M,1200000 --reps 2 --format $format >"$work/out.$format"
        python3 "$here/rows.py" "$ranks" "$format" "$work/out.$format" "" \
            ops/rmsnorm ops/linear $collectives
    done
    "$MPIEXEC" -n "$ranks" "$TPCL_BENCH" collectives --bytes 4-64*4 --reps 2 \
        --format osu >"$work/osu"
    python3 "$here/foreign.py" osu "$work/osu" 4
    exit 0
fi

# The rows that run are those that --list prints.
"$TPCL_BENCH" --shape "$here/tiny.txt" $small --list >"$work/list"
"$TPCL_BENCH" --shape "$here/tiny.txt" $small --reps 2 --format csv >"$work/out.csv"
python3 "$here/rows.py" 1 csv "$work/out.csv" "$work/list" \
    ops/linear ops/attention ops/rmsnorm ops/embed $collectives
"$TPCL_BENCH" ops/linear 1x33x64 ops/rmsnorm --shape "$here/tiny.txt" --reps 2 --format jsonl \
    >"$work/out.jsonl"
python3 "$here/rows.py" 1 jsonl "$work/out.jsonl" "" ops/linear ops/rmsnorm

"$TPCL_BENCH" ops/rmsnorm --shape "$here/tiny.txt" --reps 3 --format gbench >"$work/gbench"
python3 "$here/foreign.py" gbench "$work/gbench" 2

# Data on stdout, talk on stderr; exit codes as documented.
expect() {
    wanted=$1
    shift
    code=0
    "$TPCL_BENCH" "$@" >"$work/out" 2>"$work/err" || code=$?
    if [ "$code" -ne "$wanted" ]; then
        echo "tpcl-bench $*: exit code $code, wanted $wanted"
        cat "$work/err"
        exit 1
    fi
    [ "$code" -eq 0 ] || grep -q '^tpcl-bench: ' "$work/err"
    [ "$code" -eq 65 ] || [ "$code" -eq 0 ] || [ ! -s "$work/out" ]
}
expect 0 --help
grep -q '^Usage: tpcl-bench' "$work/out"
expect 64 --reps 0
expect 64 no/such/case
expect 64 ops/linear 1x2
expect 66 --shape "$work/none.txt"
expect 69 ops/rmsnorm --device no-such-device
expect 65 ops/linear 1x16x33 --dtype q4_0 --reps 1
grep -q ERROR "$work/out"
