#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# devices: a tree for people, JSON for programs, and the number that --device takes.
. "$(dirname -- "$0")/lib.sh"

quick "$TPCL" devices --json
accepted
cp "$out" "$work/json"
python 'devices = json.load(open(sys.argv[1]))["devices"]
assert devices, "no device: the tests need one"
for i, device in enumerate(devices):
    assert device["index"] == i
    assert device["type"] in ("gpu", "igpu", "accelerator", "cpu")
    assert device["name"] and device["platform"] and device["driver"]
    assert device["compute_units"] > 0 and device["global_bytes"] >= device["max_alloc_bytes"] > 0
    assert device["same_as"] is None or 0 <= device["same_as"] < i' "$work/json"
quick "$TPCL" devices -l
accepted
python 'devices = json.load(open(sys.argv[1]))["devices"]
text = open(sys.argv[2]).read()
for device in devices:
    assert "Platform: %s\n" % device["platform"] in text
    assert " Device %d: %s" % (device["index"], device["name"]) in text
assert text.count(" Device ") == len(devices)' "$work/json" "$out"
check "names only" sh -c '! grep -q driver "$1"' sh "$out"
quick "$TPCL" devices
accepted
shows '^      (type|driver) +'
shows 'compute units +[0-9]+'
quick "$MPIEXEC" -n 2 "$TPCL" devices -l
accepted
check "printed once" test "$(grep -c ' Device 0: ' "$out")" -eq 1
