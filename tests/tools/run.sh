#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run: what it prints and how it ends. The numbers themselves have tests of their own in the library;
# here one model goes through the command at 1, 2 and 3 ranks.
. "$(dirname -- "$0")/lib.sh"
model=$GOLDEN/tiny-qwen3-tied
bare=$GOLDEN/tiny-llama # no tokenizer

# Golden ids, alone, under mpiexec, and with --tp.
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 -c 'import sys
from safetensors_reader import tensors
golden = tensors(sys.argv[1])
margins = golden["prompt1.margin16"][1]
sure = next((i for i, margin in enumerate(margins) if margin < 5e-4), len(margins))
for key, n in (("prompt1.ids", None), ("prompt1.greedy16", sure)):
    print(",".join(map(str, golden[key][1][:n])))' "$bare/golden.safetensors" >"$work/golden" || exit 1
prompt=$(sed -n 1p "$work/golden") want=$(sed -n 2p "$work/golden")
n=$(echo "$want" | tr ',' '\n' | wc -l)
check "enough golden ids" test "$n" -ge 4
set -- run "$bare" --ids "$prompt" -n "$n" --ignore-eos --kv f32 --print-ids
slow "$TPCL" "$@"
accepted
prints "$want"
tells "^prompt +[0-9]+ tokens in [0-9.]+ s, [0-9.]+ tokens/s; first token after [0-9.]+ s"
tells "^generation +$n tokens in [0-9.]+ s, [0-9.]+ tokens/s; finish: length"
tells '^rank 0 .*weights [0-9.]+ [KMG]iB, kv cache [0-9.]+ [KMG]?i?B'
for ranks in 2 3; do
    slow "$MPIEXEC" -n $ranks "$TPCL" "$@"
    prints "$want"
    check "$ranks ranks told" test "$(grep -c '^rank [0-9]* .*weights' "$err")" -eq $ranks
done
slow "$MPIEXEC" -n 2 "$TPCL" "$@" --tp 2
prints "$want"
slow env TPCL_TP=2 "$TPCL" "$@" -v
prints "$want"
for r in 0 1; do tells "^rank $r/2: host [^,]+, pid [0-9]+, platform [^,]+, device .*heads [0-9]+\.\.[0-9]+"; done
check "code" test "$code" -eq 0

# JSON: one object with exactly these keys.
slow "$MPIEXEC" -n 2 "$TPCL" run "$model" -p 'hello world' -n 6 --json --ignore-eos
python 'import math
r = json.load(open(sys.argv[1]))
assert set(r) == {"ids", "text", "prompt_tokens", "prompt_tok_s", "gen_tokens", "gen_tok_s", "load_s", "ttft_s", "finish_reason", "ranks"}, set(r)
assert len(r["ids"]) == r["gen_tokens"] == 6 and r["finish_reason"] == "length"
assert isinstance(r["text"], str) and r["prompt_tokens"] > 2
assert all(r[k] > 0 and math.isfinite(r[k]) for k in ("prompt_tok_s", "gen_tok_s", "load_s", "ttft_s"))
assert len(r["ranks"]) == 2
for rank in r["ranks"]:
    assert set(rank) == {"device", "weight_bytes", "kv_bytes"} and rank["device"] and rank["weight_bytes"] > 0' "$out"
check "one line" test "$(wc -l <"$out")" -eq 1
# The ids of the JSON, decoded, are the text, on stdout too.
cp "$out" "$work/json"
slow "$TPCL" run "$model" -p 'hello world' -n 6 --ignore-eos
accepted
cp "$out" "$work/text"
python 'import subprocess
r = json.load(open(sys.argv[2]))
text = subprocess.run([sys.argv[1], "detokenize", sys.argv[4], "--ids", str(r["ids"])], stdout=subprocess.PIPE, check=True).stdout
assert text.decode("utf-8", "replace") == r["text"], (text, r["text"])
assert open(sys.argv[3], "rb").read() == r["text"].encode() + b"\n"' "$TPCL" "$work/json" "$work/text" "$model"
slow "$TPCL" run "$bare" --ids 1,2 -n 3 --json
python 'r = json.load(open(sys.argv[1])); assert r["text"] is None and r["gen_tokens"] <= 3' "$out"
slow "$TPCL" run "$bare" --ids 1,2 -n 0 --json
python 'r = json.load(open(sys.argv[1]))
assert r["ids"] == [] and r["gen_tokens"] == 0 and r["gen_tok_s"] == 0 and r["finish_reason"] == "length"' "$out"

# The same prompt by -p, -f and --ids; --raw and the template differ.
printf 'hello world' >"$work/prompt"
slow "$TPCL" run "$model" -f "$work/prompt" -n 6 --ignore-eos --print-ids
python 'assert json.load(open(sys.argv[1]))["ids"] == json.loads("[" + open(sys.argv[2]).read() + "]")' "$work/json" "$out"
ids=$(printf 'hello world' | "$TPCL" tokenize "$model")
slow "$TPCL" run "$model" --ids "$ids" -n 1 --json
raw=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["prompt_tokens"])' "$out")
slow "$TPCL" run "$model" -p 'hello world' --raw -n 1 --json
python 'assert json.load(open(sys.argv[1]))["prompt_tokens"] == int(sys.argv[2]) < json.load(open(sys.argv[3]))["prompt_tokens"]' "$out" "$raw" "$work/json"
slow "$TPCL" run "$model" -p 'hello world' --system 'A much longer message for the system.' -n 1 --json
python 'assert json.load(open(sys.argv[1]))["prompt_tokens"] != json.load(open(sys.argv[2]))["prompt_tokens"]' "$out" "$work/json"

# A stop id ends the run and is not shown; -n beyond the context ends with length.
first=$(echo "$want" | cut -d, -f1) second=$(echo "$want" | cut -d, -f2)
if [ "$first" != "$second" ]; then
    cp -r "$bare" "$work/model"
    chmod -R u+w "$work/model"
    python 'path = sys.argv[1]
config = json.load(open(path))
config["eos_token_id"] = [int(sys.argv[2])]
json.dump(config, open(path, "w"))' "$work/model/config.json" "$second"
    slow "$TPCL" run "$work/model" --ids "$prompt" -n "$n" --kv f32 --json
    python 'r = json.load(open(sys.argv[1])); assert r["ids"] == [int(sys.argv[2])] and r["finish_reason"] == "stop", r' "$out" "$first"
    slow "$TPCL" run "$work/model" --ids "$prompt" -n "$n" --kv f32 --print-ids --ignore-eos
    prints "$want"
fi
slow "$TPCL" run "$bare" --ids 1,2,3,4 -n 100 --ctx 8 --ignore-eos --json
python 'r = json.load(open(sys.argv[1])); assert r["gen_tokens"] == 4 and r["finish_reason"] == "length", r' "$out"

# Drawn with a seed: the same at any number of ranks, another with another seed.
draw() { slow "$@" run "$bare" --ids 5,6,7 -n 12 --temp 1 --top-p 0.95 --ignore-eos --kv f32 --print-ids; }
draw "$TPCL"
cp "$out" "$work/seed0"
draw "$MPIEXEC" -n 2 "$TPCL"
check "two ranks draw the same" cmp "$out" "$work/seed0"
draw env TPCL_SEED=1 "$TPCL"
check "another seed" sh -c '! cmp -s "$1" "$2"' sh "$out" "$work/seed0"

# min-p 1 leaves what is as likely as the best: greedy.
greedy() { slow "$@" run "$bare" --ids 5,6,7 -n 16 --ignore-eos --kv f32 --print-ids; }
greedy "$TPCL"
cp "$out" "$work/greedy"
greedy env TPCL_TEMP=1 TPCL_MIN_P=1 "$TPCL"
check "min-p 1" cmp "$out" "$work/greedy"
# A penalty without measure: no id comes twice, of prompt or answer; or not twice within two.
python 'ids = json.loads("[5,6,7," + open(sys.argv[1]).read() + "]"); assert len(set(ids)) < len(ids), "no repetition to be seen"' "$work/greedy"
greedy env TPCL_REPEAT_PENALTY=1e6 "$TPCL"
python 'ids = json.loads("[5,6,7," + open(sys.argv[1]).read() + "]"); assert len(set(ids)) == len(ids) == 19, ids' "$out"
cp "$out" "$work/penalty"
greedy env TPCL_REPEAT_PENALTY=1e6 "$MPIEXEC" -n 2 "$TPCL"
check "two ranks choose the same" cmp "$out" "$work/penalty"
greedy env TPCL_REPEAT_PENALTY=1e6 TPCL_REPEAT_LAST_N=2 "$TPCL"
python 'ids = json.loads("[5,6,7," + open(sys.argv[1]).read() + "]")
assert all(ids[i] not in ids[max(0, i - 2):i] for i in range(3, len(ids))) and len(set(ids)) < len(ids), ids' "$out"

# stdout that takes no more: generation stops.
slow sh -c '"$@" | head -c 1 >/dev/null' sh "$TPCL" run "$model" -p x -n 100000 --ignore-eos
tells '^tpcl: standard output: Broken pipe'
slow sh -c '"$@" >/dev/full' sh "$TPCL" run "$model" -p x -n 100000 --ignore-eos
check "exit code 74" test "$code" -eq 74
tells '^tpcl: standard output: No space left'
slow sh -c '"$@" >/dev/full' sh "$TPCL" run "$model" -p x -n 4 --json
check "exit code 74" test "$code" -eq 74

# Colour and progress: only when asked for, or on a terminal.
slow env CLICOLOR_FORCE=1 TPCL_TTY=1 "$TPCL" run "$model" -p x -n 1
tells "$(printf '\033\\[2m')"
tells "$(printf '\rload \\[')"
slow env CLICOLOR_FORCE=1 NO_COLOR=1 TPCL_TTY=1 TPCL_PROGRESS=none "$TPCL" run "$model" -p x -n 1
check "neither" sh -c '! grep -q "$(printf "\033")" "$1"' sh "$err"
