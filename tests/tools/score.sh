#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# score: a file that others can read, with the logits of every position.
. "$(dirname -- "$0")/lib.sh"

for model in tiny-llama tiny-qwen3; do
    ids=$(PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 -c 'import sys
from safetensors_reader import tensors
print(",".join(map(str, tensors(sys.argv[1])["prompt2.ids"][1])))' "$GOLDEN/$model/golden.safetensors")
    for ranks in 1 2; do
        rm -f "$work/logits"
        slow "$MPIEXEC" -n $ranks "$TPCL" score "$GOLDEN/$model" --ids "$ids" --out "$work/logits" --kv f32
        check "exit code" test "$code" -eq 0
        check "nothing on stdout" test ! -s "$out"
        python 'import struct
shape, got = tensors(sys.argv[1])["logits"]
want_shape, want = tensors(sys.argv[2])["prompt2.logits"]
assert shape == want_shape, (shape, want_shape)
scale = max(map(abs, want))
worst = max(abs(a - b) for a, b in zip(got, want))
assert worst <= 1e-4 * scale, (worst, scale)
(length,) = struct.unpack("<Q", open(sys.argv[1], "rb").read(8))
assert length % 8 == 0, length' "$work/logits" "$GOLDEN/$model/golden.safetensors"
    done
done

# An existing file is replaced, whole; what is beside it stays.
echo old >"$work/logits"
slow "$TPCL" score "$GOLDEN/tiny-llama" --ids '[1, 2]' --out "$work/logits"
accepted
python 'assert tensors(sys.argv[1])["logits"][0][0] == 2' "$work/logits"
check "no temporary file" sh -c '! ls "$1" | grep -q tmp' sh "$work"

# A file that cannot grow, as on a full disk: an error, and the old file as it was.
echo old >"$work/logits"
quick env UCX_TLS=self sh -c 'ulimit -f 40; trap "" XFSZ; exec "$@"' sh "$TPCL" score "$GOLDEN/tiny-llama" \
    --ids "$(seq -s, 1 60)" --out "$work/logits"
refused 74 "--out $work/logits: "
check "the old file" test "$(cat "$work/logits")" = old
check "no temporary file" sh -c '! ls "$1" | grep -q tmp' sh "$work"
