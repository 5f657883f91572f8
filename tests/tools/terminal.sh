#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On a terminal: progress, colour, Ctrl-C, and no control characters; also through mpiexec, which
# hides the terminal from the ranks.
. "$(dirname -- "$0")/lib.sh"
model=$GOLDEN/tiny-qwen3-tied
unset NO_COLOR CLICOLOR_FORCE
export TERM=xterm
onto() { slow python3 "$here/terminal.py" "$@"; }
# Drawn wildly from a model that knows all bytes, so that control characters come up.
wild="run $model -p x -n 200 --temp 2 --seed 1 --ignore-eos"

# shellcheck disable=SC2086 # words
slow "$TPCL" $wild --json
python 'text = json.load(open(sys.argv[1]))["text"]
assert any(ord(c) < 32 and c not in "\n\t" for c in text), "the case tests nothing"' "$out"
clean='shown = open(sys.argv[1], "rb").read().replace(b"\r\n", b"\n").decode()
assert len(shown) > 100
bad = [c for c in shown if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]
assert not bad, bad'
# shellcheck disable=SC2086
onto "$err.file" "$TPCL" $wild
check "exit code" test "$code" -eq 0
python "$clean" "$out"
# shellcheck disable=SC2086
onto "$err.file" "$TPCL" $wild --tp 2
check "exit code" test "$code" -eq 0
python "$clean" "$out"
# shellcheck disable=SC2086
slow "$TPCL" $wild
python 'shown = open(sys.argv[1], "rb").read()
assert any(c < 32 and c not in b"\n\t" for c in shown), "a file gets the text as it is"' "$out"

for ranks in 1 2; do
    onto - "$TPCL" run "$model" -p x -n 4 --tp $ranks
    check "exit code" test "$code" -eq 0
    shows "$(printf '\rload \\[#* *#*\\] 100 %%')"
    shows "$(printf '\033\\[2mload')"
    check "one rank draws" test "$(grep -c "$(printf '\033\\[2mload')" "$out")" -eq 1
    onto - env NO_COLOR=1 "$TPCL" run "$model" -p x -n 4 --tp $ranks --progress none
    check "neither bar nor colour" sh -c '! grep -q "$(printf "\033")" "$1"' sh "$out"
    onto - --interrupt "$TPCL" run "$model" -p x -n 100000 --ctx 20000 --ignore-eos --raw --tp $ranks
    check "exit code 130" test "$code" -eq 130
    check "one line says so" test "$(grep -c '^tpcl.*: interrupted' "$out")" -eq 1
    shows 'generation +[0-9]+ tokens'
done
