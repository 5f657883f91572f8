# SPDX-License-Identifier: Apache-2.0
# smoke.sh RANKS: every case once or twice, checked. Needs TPCL_BENCH (the program) and MPIEXEC in the
# environment.
set -eu
: "${TPCL_BENCH:?}" "${MPIEXEC:?}"
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PYTHONDONTWRITEBYTECODE=1
TMPDIR=$work
export PYTHONDONTWRITEBYTECODE TMPDIR
ranks=$1
tiny=$here/tiny.txt
check() {
    python3 "$here/rows.py" "$ranks" "$1" "$2" "$tiny" "$3" $4
}

if [ "$ranks" -gt 1 ]; then
    parts="collectives ops/rmsnorm layers load tg3 pp5@d7 ops/linear 1x33x64"
    few="--shape $tiny --dtype f32,q8_0 --bytes 4,1200000 --tokens 3 --context 70 --batch 1,3 --reps 2"
    for format in csv jsonl; do
        "$MPIEXEC" -n "$ranks" "$TPCL_BENCH" $parts $few --format $format >"$work/out.$format"
        check $format "$work/out.$format" "" "$("$TPCL_BENCH" $parts $few --list | cut -d' ' -f1 | sort -u)"
    done
    "$MPIEXEC" -n "$ranks" "$TPCL_BENCH" collectives --bytes 4-64*4 --reps 2 --format osu >"$work/osu"
    python3 "$here/foreign.py" osu "$work/osu" 4
    [ "$(find "$work" -name '*.gguf' | wc -l)" -eq 0 ]
    exit 0
fi

# Every case; the rows that run are those that --list prints.
small="--shape $tiny --tokens 1,32 --context 1,70,300 --bytes 4,64k,4M --batch 1,2 --depth 0,9"
"$TPCL_BENCH" $small --list >"$work/list"
"$TPCL_BENCH" $small --reps 2 --format csv >"$work/out.csv"
check csv "$work/out.csv" "$work/list" "$(cut -d' ' -f1 "$work/list" | sort -u)"
"$TPCL_BENCH" ops/linear 1x33x64 ops/rmsnorm --shape "$tiny" --reps 2 --format jsonl >"$work/out.jsonl"
check jsonl "$work/out.jsonl" "" "ops/linear ops/rmsnorm"
"$TPCL_BENCH" ops/rmsnorm --shape "$tiny" --reps 3 --format gbench >"$work/gbench"
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
expect 64 ops/linear --format osu
expect 66 --shape "$work/none.txt"
expect 69 ops/rmsnorm --device no-such-device
expect 66 ops/rmsnorm --baseline "$work/none.csv"
expect 65 ops/rmsnorm --baseline "$work/gbench"
# a run is as fast as itself, and not when it claims to have taken a thousandth
python3 - "$work/out.jsonl" "$work/slow.jsonl" "$work/quick.jsonl" <<'EOF'
import json
import sys

for path, factor in (sys.argv[2], 1e3), (sys.argv[3], 1e-3):
    with open(path, "w", encoding="utf-8") as out:
        for line in open(sys.argv[1], encoding="utf-8"):
            row = json.loads(line)
            for name in "min_us", "median_us", "p90_us", "mean_us", "sd_us":
                row[name] = row[name] * factor
            row["sd_us"] = 0
            print(json.dumps(row, separators=(",", ":")), file=out)
EOF
"$TPCL_BENCH" ops/rmsnorm --shape "$tiny" --reps 2 --baseline "$work/slow.jsonl" >"$work/o" 2>"$work/err"
grep -q '2 rows compared, 0 slower' "$work/err"
code=0
"$TPCL_BENCH" ops/rmsnorm --shape "$tiny" --reps 2 --baseline "$work/quick.jsonl" >"$work/o" 2>"$work/err" || code=$?
[ "$code" -eq 1 ] && grep -q 'SLOWER: ops/rmsnorm' "$work/err"
expect 65 ops/linear 1x16x33 --dtype q4_0 --reps 1
grep -q ERROR "$work/out"
[ "$(find "$work" -name '*.gguf' | wc -l)" -eq 0 ]
