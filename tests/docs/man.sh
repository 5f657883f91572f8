#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# man.sh MAN TPCL BENCH: the man pages in MAN, --help and the table of environment variables say the
# same, and the pages are sound.
set -eu
man=$1
tpcl=$2
bench=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

same() { # same WHAT: $work/a is not empty, and $work/b
    if [ ! -s "$work/a" ] || ! diff "$work/a" "$work/b"; then
        echo "$1 differ (<: --help, >: the man page)"
        bad=1
    fi
}

section() { # section PAGE NAME
    awk -v name="$2" '/^\.SH /{ on = $0 == ".SH " name; next } on' "$man/$1.1"
}

plain() { sed 's/\\f[BIR]//g; s/\\-/-/g; s/\\(aq/'"'"'/g'; }

compare() { # compare PAGE COMMAND...: options with their arguments, and exit codes
    page=$1
    shift
    "$@" --help > "$work/help"
    sed -n '/^Examples/q; s/^  \(-.,\|   \) \(--[a-z-]*\)\( [^ ]\{1,\}\)\{0,1\}\(  .*\)\{0,1\}$/\2\3/p' "$work/help" | sort > "$work/a"
    section "$page" OPTIONS | grep -A 1 '^\.TP' | grep '^\\fB' | plain | sed 's/^-., //' | sort > "$work/b"
    same "$page: options"
    sed -n 's/^ *\([0-9]\{1,3\}\)  \(.*\)/\1 \2/p' "$work/help" > "$work/a"
    section "$page" "EXIT STATUS" | plain | awk '/^\.TP/{ getline code; getline text; print code, text }' > "$work/b"
    same "$page: exit codes"
}

for verb in run score tokenize detokenize devices inspect; do
    compare "tpcl-$verb" "$tpcl" "$verb"
    grep -o '\[TPCL_[A-Z_]*\]' "$work/help" | tr -d '[]' | sort > "$work/a"
    section "tpcl-$verb" OPTIONS | plain | grep -o '\[TPCL_[A-Z_]*\]' | tr -d '[]' | sort > "$work/b"
    same "tpcl-$verb: twins"
    "$tpcl" --help | sed -n 's/^  \(TPCL_[A-Z]*\)  .*/\1/p' | sort - "$work/b" > "$work/a"
    section "tpcl-$verb" ENVIRONMENT | sed -n 's/^\\fB\(TPCL_[A-Z_]*\)\\fR$/\1/p' | sort > "$work/b"
    same "tpcl-$verb: the environment"
    cat "$work/b" >> "$work/all"
done
sort -u "$work/all" > "$work/a"
section tpcl ENVIRONMENT | sed -n 's/^\\fB\(TPCL_[A-Z_]*\)\\fR$/\1/p' | sort > "$work/b"
same "tpcl: the environment"
"$tpcl" --help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\)  .*/\1/p' > "$work/a"
section tpcl COMMANDS | grep -A 1 '^\.TP' | grep '^\\fB' | plain > "$work/b"
same "tpcl: commands"
compare tpcl-bench "$bench"

# Every page that is referred to is one of ours, or another program's.
for page in $(sed -n 's/.*\\fB\(tpcl[a-z-]*\)\\fR([17]).*/\1/p' "$man"/*.[17] | sort -u); do
    [ -e "$man/$page.1" ] || [ -e "$man/$page.7" ] || { echo "no page $page"; bad=1; }
done
tools=
for page in "$man"/*.[17]; do
    if command -v mandoc > /dev/null; then
        tools=mandoc
        mandoc -T lint -W warning "$page" || bad=1
    fi
    if command -v groff > /dev/null; then
        tools=$tools/groff
        groff -man -ww -z "$page" > "$work/groff" 2>&1 || bad=1
        [ ! -s "$work/groff" ] || { cat "$work/groff"; bad=1; }
    fi
done
[ -n "$tools" ] || { echo "neither mandoc nor groff is here to read the pages"; bad=1; }
exit $bad
