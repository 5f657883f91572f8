# SPDX-License-Identifier: Apache-2.0
"""Reads a small safetensors file with nothing but the standard library."""
import array
import json
import struct


def tensors(path):
    """{name: (shape, values)} of the F32 and I32 tensors."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        code = {"F32": "f", "I32": "i"}[entry["dtype"]]
        values = array.array(code, data[8 + length + begin:8 + length + end])
        count = 1
        for size in entry["shape"]:
            count *= size
        assert len(values) == count, (name, len(values), entry["shape"])
        found[name] = (entry["shape"], values)
    return found
