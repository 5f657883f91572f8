#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Bad input, on one rank: one line (what, which numbers, what to do), the documented code, no signal,
# no hang. quick() allows 10 seconds.
. "$(dirname -- "$0")/lib.sh"
model=$GOLDEN/tiny-qwen3-tied
bare=$GOLDEN/tiny-llama # no tokenizer

# Model files. The loaders' own tests go through every damage; here, what the user sees of it.
for verb in "run -p x" "score --ids 1 --out $work/x" inspect tokenize detokenize; do
    # shellcheck disable=SC2086 # a verb and its options
    quick "$TPCL" $verb /nonexistent/model.gguf
    refused 66 '^tpcl: /nonexistent/model.gguf'
done
copy() {
    rm -rf "$work/model"
    cp -r "$1" "$work/model"
    chmod -R u+w "$work/model"
}
size=$(wc -c <"$bare/model.safetensors")
for bytes in 0 7 100 $((size / 2)) $((size - 1)); do
    copy "$bare"
    head -c "$bytes" "$bare/model.safetensors" >"$work/model/model.safetensors"
    quick "$TPCL" run "$work/model" --ids 1
    refused 65 'model.safetensors'
done
copy "$bare"
rm "$work/model/config.json"
quick "$TPCL" run "$work/model" --ids 1
refused 66 'config.json'
echo '{' >"$work/model/config.json"
quick "$TPCL" run "$work/model" --ids 1
refused 65 'config.json'
copy "$bare"
sed 's/"llama"/"bert"/; s/LlamaForCausalLM/BertModel/' "$bare/config.json" >"$work/model/config.json"
quick "$TPCL" run "$work/model" --ids 1
refused 65 'bert|Bert'
printf 'no model at all, but long enough for a header' >"$work/junk.gguf"
quick "$TPCL" run "$work/junk.gguf" -p x
refused 65 'junk.gguf'
copy "$model"
echo '{"model": 1}' >"$work/model/tokenizer.json"
quick "$TPCL" run "$work/model" -p x
refused 65 'tokenizer.json'

# Prompts.
quick "$TPCL" run "$model" -p ''
refused 64 'prompt is empty'
: >"$work/empty"
quick "$TPCL" run "$model" -f "$work/empty"
refused 64 'prompt is empty.*empty'
for list in '' '[]' ' '; do
    quick "$TPCL" run "$model" --ids="$list"
    refused 64 'prompt is empty'
done
quick "$TPCL" run "$model" -f "$work/missing"
refused 66 "--file $work/missing"
quick "$TPCL" run "$model" -f "$work"
refused 74 "--file $work"
for id in -1 512 2147483647; do
    quick "$TPCL" run "$model" --ids "1,$id"
    refused 64 "$id .*outside the vocabulary.*0 to 511"
    quick "$TPCL" score "$model" --ids "$id" --out "$work/x"
    refused 64 "$id .*outside the vocabulary"
done
quick "$TPCL" run "$model" --ids 1,2,x
refused 64 '--ids: .x. is not a token id'
quick "$TPCL" run "$model" --ids 1,2,3,4,5 --ctx 4
refused 64 '5 tokens, the context 4'
quick "$TPCL" run "$model" -p x --ctx 1000000000
refused 64 '--ctx 1000000000 is more than'
quick "$TPCL" run "$bare" -p x
refused 64 'tiny-llama has no tokenizer: .*--ids'

# Devices.
mkdir "$work/none"
for verb in devices "run $model -p x" "score $model --ids 1 --out $work/x"; do
    # shellcheck disable=SC2086
    quick env OCL_ICD_VENDORS="$work/none/" "$TPCL" $verb
    refused 69 'no (usable )?OpenCL device'
done
quick "$TPCL" run "$model" -p x --device 7
refused 69 '7'
quick "$TPCL" run "$model" -p x --device 'no such device'
refused 69 'no such device'
quick env TPCL_DEVICE=7 "$TPCL" run "$model" -p x
refused 69 '7'

# Output.
quick "$TPCL" score "$model" --ids 1 --out "$work/nowhere/x"
refused 73 "--out $work/nowhere/x"
quick "$TPCL" score "$model" --ids 1 --out "$work"
refused 73 'not a file'
quick sh -c '"$1" inspect "$2" >/dev/full' sh "$TPCL" "$model"
refused 74 'standard output: No space'
quick sh -c '"$1" devices >&-' sh "$TPCL"
refused 74 'standard output'
check "no file was left" test ! -e "$work/x"
