#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Command lines that are wrong: one line that names the option, exit code 64.
. "$(dirname -- "$0")/lib.sh"
model=$GOLDEN/tiny-qwen3-tied

bad() {
    pattern=$1
    shift
    quick "$TPCL" "$@"
    refused 64 "$pattern"
    check "nothing on stdout" test ! -s "$out"
}

bad '^tpcl: no command'
bad "no such command: 'sing'" sing
bad "no such command: ''" ''
for verb in run score tokenize detokenize inspect; do
    bad "no MODEL: tpcl $verb" $verb
    bad "unknown or ambiguous option --nonsense" $verb --nonsense "$model"
    bad "unexpected argument 'second'" $verb "$model" second
done
bad "unexpected argument 'x'" devices x
bad 'MODEL is an empty name' tokenize ''
bad 'no prompt' run "$model"
bad 'exclude each other' run "$model" -p x --ids 1
bad 'exclude each other' run "$model" -p x -f y
bad '--print-ids and --json' run "$model" -p x --print-ids --json
bad 'score needs --ids' score "$model" --out x
bad 'score needs --out' score "$model" --ids 1

# An option that belongs to other commands.
bad "--tp does not apply to 'tpcl tokenize'" tokenize "$model" --tp 2
bad "--out does not apply to 'tpcl run'" run "$model" -p x --out y
bad "--n-predict does not apply to 'tpcl score'" score "$model" -n 3 --ids 1 --out y
bad "--list does not apply to 'tpcl inspect'" inspect "$model" -l
bad "--prompt does not apply to 'tpcl devices'" devices -p x

bad '-p needs a value' run "$model" -p
bad '--seed needs a value' run "$model" -p x --seed
bad '--raw=1 takes no value' run "$model" -p x --raw=1
bad 'ambiguous option --pr' run "$model" --pr x

# Numbers: the whole word, decimal, in range, whatever the locale.
for value in '' ' 1' '1 ' 1x 0x10 1.5 -1 99999999999999999999 nan; do
    bad "--n-predict: '$value' is not" run "$model" -p x -n "$value"
    bad "--ctx: '$value' is not" run "$model" -p x --ctx="$value"
    bad "--top-k: '$value' is not" run "$model" -p x --top-k="$value"
done
for value in '' nan inf -1 -0.5 0,5 1e 1e999 0x1p3 . e5; do
    bad "--temp: '$value' is not" run "$model" -p x --temp="$value"
done
for value in 1.5 -0.1 nan; do
    bad "--top-p: '$value' is not a number from 0 to 1" run "$model" -p x --top-p="$value"
    bad "--min-p: '$value' is not a number from 0 to 1" run "$model" -p x --min-p="$value"
done
for value in '' -0.1 nan inf 1e7 1,1; do
    bad "--repeat-penalty: '$value' is not a number from 0 to 1e\+06" run "$model" -p x --repeat-penalty="$value"
done
for value in '' -1 1.5 2147483648; do
    bad "--repeat-last-n: '$value' is not a whole number from 0 to 2147483647" run "$model" -p x --repeat-last-n="$value"
done
bad "--min-p does not apply to 'tpcl score'" score "$model" --min-p 0.1 --ids 1 --out y
for value in -1 18446744073709551616 1.0; do
    bad "--seed: '$value' is not" run "$model" -p x --seed="$value"
done
bad "--tp: '0' is not" run "$model" -p x --tp 0
bad "--ctx: '0' is not" run "$model" -p x --ctx 0
bad "--timeout-s: '0' is not" run "$model" -p x --timeout-s 0
bad "--kv: 'f64' is not one of f16\|f32" run "$model" -p x --kv f64
bad "--kv: 'f' is not one of" run "$model" -p x --kv f
bad "--progress: 'loud' is not one of" run "$model" -p x --progress loud

# The environment is read with the same rules, below the command line.
quick env TPCL_SEED=x "$TPCL" run "$model" -p x
refused 64 "TPCL_SEED: 'x' is not"
quick env TPCL_MIN_P=2 "$TPCL" run "$model" -p x
refused 64 "TPCL_MIN_P: '2' is not a number from 0 to 1"
quick env TPCL_REPEAT_PENALTY=none "$TPCL" run "$model" -p x
refused 64 "TPCL_REPEAT_PENALTY: 'none' is not"
quick env TPCL_REPEAT_LAST_N=x "$TPCL" run "$model" -p x
refused 64 "TPCL_REPEAT_LAST_N: 'x' is not"
quick env TPCL_RAW=yes "$TPCL" run "$model" -p x
refused 64 "TPCL_RAW: 'yes' is neither 1 nor 0"
quick env TPCL_PROMPT=x TPCL_IDS=1 "$TPCL" run "$model"
refused 64 'exclude each other'
quick env TPCL_CTX=1000000 "$TPCL" run "$model" -p x
refused 64 '--ctx 1000000 is more than'
quick env TPCL_CTX=1000000 "$TPCL" run "$model" -p x --ctx 2000000
refused 64 '--ctx 2000000 is more than'
# One that does not apply to the command waits for one to which it does; an empty one is unset.
quick env TPCL_TP=nonsense TPCL_SEED=x "$TPCL" tokenize "$model"
accepted
quick env TPCL_SPECIAL= "$TPCL" tokenize "$model"
accepted

# The message stays one line, whatever is quoted in it.
quick "$TPCL" tokenize "$(printf 'no\nsuch\033[31mfile')"
refused 66 '^tpcl: no.{1,2}such.{1,4}\[31mfile'
