#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# inspect: the file, and each rank's part of it, without MPI or a device.
. "$(dirname -- "$0")/lib.sh"

for model in tiny-qwen3 tiny-llama tiny-llama-ropescale tiny-qwen2 tiny-qwen3-tied; do
    for ranks in 1 2 3 4; do
        quick env OCL_ICD_VENDORS=/nonexistent "$TPCL" inspect "$GOLDEN/$model" --tp $ranks --json
        accepted
        python 'import os
ranks, folder, n = json.load(open(sys.argv[1])), sys.argv[2], int(sys.argv[3])
data, ranks = ranks, ranks["ranks"]
config = json.load(open(os.path.join(folder, "config.json")))
assert len(ranks) == n
assert data["config"]["vocab"] == config["vocab_size"]
assert data["config"]["heads"] == config["num_attention_heads"]
for key, total in (("vocab", config["vocab_size"]), ("inter", config["intermediate_size"]), ("heads", config["num_attention_heads"])):
    at = 0
    for rank in ranks:
        assert rank[key][0] == at and rank[key][1] >= at, (key, ranks)
        at = rank[key][1]
    assert at == total, (key, at, total)
assert all(rank["weight_bytes"] > 0 and rank["kv_bytes"] >= 0 for rank in ranks)
names = {}
for tensor in data["tensors"]:
    count = 1
    for size in tensor["shape"]: count *= size
    assert tensor["bytes"] == count * {"F32": 4, "F16": 2, "BF16": 2}[tensor["type"]], tensor
    path = tensor["file"] if os.path.isabs(tensor["file"]) or os.path.exists(tensor["file"]) else os.path.join(folder, tensor["file"])
    assert tensor["offset"] + tensor["bytes"] <= os.path.getsize(path), tensor
    names[tensor["name"]] = tensor
assert "model.embed_tokens.weight" in names' "$out" "$GOLDEN/$model" $ranks
    done
done

# A cache in f32 takes twice the bytes of one in f16, and half the context half of them.
python 'import subprocess
def kv(*options):
    text = subprocess.run([sys.argv[1], "inspect", sys.argv[2], "--json", *options], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(text)["ranks"][0]["kv_bytes"]
assert kv("--kv", "f32") == 2 * kv() > 0
assert kv("--ctx", "32") < kv("--ctx", "64")' "$TPCL" "$GOLDEN/tiny-llama"

# For people: the same things as text, escaped and cut.
cp -r "$GOLDEN/tiny-llama" "$work/model"
chmod -R u+w "$work/model"
python 'path = sys.argv[1]
config = json.load(open(path))
config["note"] = "red \u001b[31m, \u009b2J, line\nbreak"
config["long"] = "x" * 5000
json.dump(config, open(path, "w"))' "$work/model/config.json"
quick "$TPCL" inspect "$work/model" --tp 2
accepted
shows '^.*/model: safetensors, llama, '
shows 'note = .*red .{1,4}\[31m'
shows '^  model.embed_tokens.weight +F16 +\[[0-9]+, [0-9]+\] '
shows '^Plan for 2 ranks'
check "no control characters" sh -c '! LC_ALL=C grep -q "[$(printf "\001-\010\013-\037\177")]" "$1"' sh "$out"
check "no C1 control characters" sh -c '! LC_ALL=C grep -q "$(printf "\302\233")" "$1"' sh "$out"
check "long values are cut" sh -c 'test "$(awk "{ if (length > m) m = length } END { print m }" "$1")" -lt 300' sh "$out"

quick "$MPIEXEC" -n 2 "$TPCL" inspect "$GOLDEN/tiny-llama"
accepted
check "printed once" test "$(grep -c '^Plan for' "$out")" -eq 1
