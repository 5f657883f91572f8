# SPDX-License-Identifier: Apache-2.0
# report.sh: pages and plots of runs. Needs TPCL_BENCH and MPIEXEC in the environment.
set -eu
: "${TPCL_BENCH:?}" "${MPIEXEC:?}"
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
rows="ops/linear layers/row tg3 collectives --shape $here/tiny.txt --dtype f32 --tokens 1,33 --bytes 4-4k*4"

"$TPCL_BENCH" $rows --reps 1 --format csv >"$work/1.csv"
"$MPIEXEC" -n 2 "$TPCL_BENCH" $rows --reps 2 --format jsonl >"$work/2.jsonl"
"$TPCL_BENCH" report "$work/1.csv" "$work/2.jsonl" --out "$work/all.html" --plot "$work/plots"
python3 "$here/report.py" "$work/all.html" 3 "$work/1.csv" "$work/2.jsonl"
for plot in roofline scaling collectives; do
    python3 -c "import sys, xml.dom.minidom as m; m.parse(sys.argv[1])" "$work/plots/$plot.svg"
done

# What cannot be drawn is said; hostile names stay text; a wrong row is seen.
head -n 2 "$work/1.csv" >"$work/odd.csv"
echo 'ops/<b>&"x",1,f32,1,FAILED,9,,0,,,,,,,,,,,,,,,,,,<script>,d,g' >>"$work/odd.csv"
(cd "$work" && "$TPCL_BENCH" report odd.csv) # report.html is the default
python3 "$here/report.py" "$work/report.html" 0 "$work/odd.csv"
grep -q 'class="t bad">FAILED' "$work/report.html"
if grep -q '<script>' "$work/report.html"; then exit 1; fi

expect() {
    wanted=$1
    shift
    code=0
    "$TPCL_BENCH" report "$@" >"$work/o" 2>"$work/err" || code=$?
    if [ "$code" -ne "$wanted" ] || [ -s "$work/o" ] || ! grep -q '^tpcl-bench: ' "$work/err"; then
        echo "report $*: exit code $code, wanted $wanted"
        cat "$work/err"
        exit 1
    fi
}
expect 64
expect 64 "$work/1.csv" --outt x
expect 66 "$work/none.csv"
expect 65 "$here/tiny.txt"
expect 73 "$work/1.csv" --out "$work/no/such/folder.html"
[ ! -w /dev/full ] || expect 74 "$work/1.csv" --out /dev/full
