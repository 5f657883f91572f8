#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Help of every command, and its agreement with the environment.
. "$(dirname -- "$0")/lib.sh"

verbs="run score tokenize detokenize devices inspect"
for ask in --help -h; do
    quick "$TPCL" $ask
    accepted
    for verb in $verbs; do shows "^  $verb "; done
    shows '^   76  ranks disagree'
    for verb in $verbs; do
        quick "$TPCL" "$verb" $ask
        accepted
        shows "^Usage: tpcl $verb"
        shows '^Examples:'
        shows "^  .*tpcl $verb "
        shows '^  130  interrupted'
        shows '^  -h, --help '
    done
done

for ask in --version -V "devices --version"; do
    quick "$TPCL" $ask
    accepted
    shows '^tpcl [0-9.]+ \(commit .+\)$'
    shows '^OpenCL headers [0-9.]+'
    shows '^CLBlast [0-9.]+'
    shows '^MPI: .'
done

# Help comes before anything that may be wrong.
quick env TPCL_SEED=nonsense "$TPCL" run --help
accepted

# Every option but --help and --version names its twin, TPCL_ and its name in capitals, and the
# program knows that name: no warning.
for verb in $verbs; do
    "$TPCL" "$verb" --help |
        awk '/^  (-.,|   ) --/ { sub(/^  (-.,|   ) --/, ""); name = $1 }
             match($0, /\[TPCL_[A-Z_]*\]/) { print name, substr($0, RSTART + 1, RLENGTH - 2) }' \
            >"$work/twins"
    "$TPCL" "$verb" --help | sed -n 's/^  \(-.,\|   \) --\([a-z-]*\).*/\2/p' >"$work/options"
    command="tpcl $verb --help"
    check "some options" grep -q help "$work/options"
    while read -r option; do
        case $option in help | version) continue ;; esac
        twin=TPCL_$(echo "$option" | tr 'a-z-' 'A-Z_')
        check "--$option has the twin $twin" grep -qx "$option $twin" "$work/twins"
        run env "$twin=1" "$TPCL" tokenize "$GOLDEN/tiny-qwen3-tied"
        check "$twin is known" test ! -s "$err"
    done <"$work/options"
done

# A name that is nobody's: one warning, also from several ranks.
quick env TPCL_TEMPERATURE=1 "$TPCL" tokenize "$GOLDEN/tiny-qwen3-tied"
check "exit code" test "$code" -eq 0
tells '^tpcl: warning: .*TPCL_TEMPERATURE'
check "one line" test "$(wc -l <"$err")" -eq 1
quick env TPCL_TEMPERATURE=1 "$MPIEXEC" -n 2 "$TPCL" run /nonexistent -p x
check "one warning" test "$(grep -c ': warning: .*TPCL_TEMPERATURE' "$err")" -eq 1
refused 66 '/nonexistent'
quick env TPCL_TEST_ANYTHING=1 "$TPCL" tokenize "$GOLDEN/tiny-qwen3-tied"
accepted
