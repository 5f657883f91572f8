#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# links.sh BUILD SOURCE CTEST TPCL BENCH: what the Markdown pages name is there, see links.py.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$3" --test-dir "$1" -N > "$work/tests"
for verb in run score tokenize detokenize devices inspect; do "$4" $verb --help; done > "$work/help"
"$5" --help >> "$work/help"
python3 "$(dirname -- "$0")/links.py" "$2" "$work/tests" < "$work/help"
