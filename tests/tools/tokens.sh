#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tokenize and detokenize: exact bytes in, exact bytes out, no MPI.
. "$(dirname -- "$0")/lib.sh"
model=$GOLDEN/tiny-qwen3-tied

feed() {
    printf '%b' "$1" >"$work/in"
    input=$work/in
    shift
    quick "$TPCL" "$@"
    input=/dev/null
}

# Every reference tokenisation, through the command: special tokens are recognised in these.
python 'import subprocess
program, model, golden = sys.argv[1:]
rows = json.load(open(golden))
assert len(rows) > 20
for row in rows[:60]:
    ids = subprocess.run([program, "tokenize", model, "--special"], input=row["text"].encode("utf-8", "surrogatepass"),
                         stdout=subprocess.PIPE, check=True).stdout
    assert json.loads(ids) == row["ids"], (row, ids)
    text = subprocess.run([program, "detokenize", model, "--special"], input=ids, stdout=subprocess.PIPE, check=True).stdout
    assert text == row["decoded"].encode(), (row, text)' "$TPCL" "$model" "$GOLDEN/tokenizer/qwen_tiny.json"

feed '' tokenize "$model"
accepted
prints '[]'
feed 'hello\n' tokenize "$model"
accepted
python 'ids = json.load(open(sys.argv[1])); assert ids and all(type(i) is int for i in ids)' "$out"
cp "$out" "$work/ids"

# One newline more is text like any other; nothing is stripped.
feed ' hello\n\n' tokenize "$model"
check "blanks count" test "$(cat "$out")" != "$(cat "$work/ids")"

# Every byte comes back, NUL included; what is no UTF-8 is U+FFFD.
for text in 'hello world' ' a\tb\r\n\n' 'naïve 日本 🤣' 'a\0b' '\n'; do
    feed "$text" tokenize "$model"
    accepted
    cp "$out" "$work/ids"
    printf '%b' "$text" >"$work/want"
    input=$work/ids
    quick "$TPCL" detokenize "$model"
    input=/dev/null
    accepted
    check "round trip of $text" cmp "$out" "$work/want"
done
feed 'a\0377b' tokenize "$model"
accepted
cp "$out" "$work/ids"
feed 'a\0357\0277\0275b' tokenize "$model"
check "U+FFFD" cmp "$out" "$work/ids"

# Special tokens: only with --special.
feed '<|im_start|>' tokenize "$model" --special
python 'ids = json.load(open(sys.argv[1])); assert len(ids) == 1, ids' "$out"
special=$(tr -d '[]\n' <"$out")
feed '<|im_start|>' tokenize "$model"
python 'ids = json.load(open(sys.argv[1])); assert len(ids) > 1 and int(sys.argv[2]) not in ids' "$out" "$special"
quick env TPCL_SPECIAL=1 "$TPCL" detokenize "$model" --ids "$special"
prints '<|im_start|>'
quick "$TPCL" detokenize "$model" --ids "$special"
accepted
check "hidden" test ! -s "$out"

# Spellings of a list.
"$TPCL" detokenize "$model" --ids 10,11,12 >"$work/want"
for list in '[10,11,12]' '[ 10, 11 ,12 ]\n' '10,11,12\n' '10 11 12' '10\n11\n12\n' ' 10,\t11\r\n12 '; do
    feed "$list" detokenize "$model"
    accepted
    check "list $list" cmp "$out" "$work/want"
done
for list in '' '[]' ' \n' '[ ]'; do
    feed "$list" detokenize "$model"
    accepted
    check "nothing for $list" test ! -s "$out"
done
for list in '[1,2' '1,2]' '1,,2' '[1 2]' '1;2' 'one' '1.5' '[1,]' ',1' '[1],2' '99999999999' '1,2x' '[[1]]'; do
    feed "$list" detokenize "$model"
    refused 64 'standard input: '
done
feed '1,99999999' detokenize "$model"
refused 64 '99999999'
feed '-1' detokenize "$model"
refused 64 '-1'

quick "$TPCL" tokenize "$GOLDEN/tiny-llama"
refused 66 'tiny-llama has no tokenizer'
quick "$TPCL" tokenize /nonexistent.gguf
refused 66 '/nonexistent.gguf'
quick sh -c '"$1" tokenize "$2" </dev/null >/dev/full' sh "$TPCL" "$model"
refused 74 'standard output'

# Under a launcher rank 0 alone reads and prints.
printf 'hello\n' >"$work/in"
"$TPCL" tokenize "$model" <"$work/in" >"$work/want"
input=$work/in
quick "$MPIEXEC" -n 2 "$TPCL" tokenize "$model"
input=/dev/null
accepted
check "printed once" cmp "$out" "$work/want"
