# SPDX-License-Identifier: Apache-2.0
"""rows.py RANKS csv|jsonl FILE SHAPE LIST CASE...: every row has passed, is complete and is of a CASE;
each CASE has one; where LIST is a file, the rows are those that it lists."""
import csv
import json
import math
import sys

ranks, form, path, shape, listed, cases = int(sys.argv[1]), *sys.argv[2:6], sys.argv[6:]
names = ("case shape dtype ranks verdict max_err wrong reps min_us median_us p90_us mean_us sd_us gbps "
         "busbw gflops tps tps_sd stage_out_us exchange_us stage_in_us peer peer_us ratio repro device "
         "driver git").split()
numbers = "max_err reps min_us median_us p90_us mean_us sd_us gbps gflops".split()


def no_constant(text):
    raise ValueError(f"{text} is not JSON")


def rows():
    with open(path, newline="", encoding="utf-8") as file:
        if form == "jsonl":
            for line in file:
                row = json.loads(line, parse_constant=no_constant)
                assert row.pop("version") == 2 and row["device"] and row["driver"] and row["git"], row
                assert list(row) == names, row
                yield row
            return
        head = file.readline()
        assert head.startswith("# tpcl-bench 2  device="), head
        assert head.rstrip().endswith(f"  ranks={ranks}"), head
        reader = csv.DictReader(file)
        assert reader.fieldnames == names, reader.fieldnames
        for row in reader:
            assert None not in row and None not in row.values(), row
            yield row


peers = {"ops/linear": {"1": "read:GB/s", "32": "clblast:time"}, "ops/attention": {"1": "read:GB/s"},
         "model/tg": {}, "collectives/allreduce": None, "collectives/allreduce_host": None}
other = {"collectives/broadcast": "MPI_Bcast:time", "collectives/gather": "MPI_Gather:time"}
phases = "stage_out_us exchange_us stage_in_us".split()
seen = []
for row in rows():
    assert row["case"] in cases and row["verdict"] == "PASS", row
    assert int(row["ranks"]) == ranks, row
    values = [float(row[name]) for name in numbers]
    assert all(math.isfinite(value) and value >= 0 for value in values), row
    assert 0 < float(row["min_us"]) <= float(row["median_us"]) <= float(row["p90_us"]), row
    assert int(row["reps"]) == 2, row
    repro = f"tpcl-bench {row['case']} {row['shape']} --dtype {row['dtype']} --reps 2"
    if row["case"].startswith(("model/", "load/")):
        repro += f" --shape {shape}"
    if row["case"].startswith("model/"):
        assert float(row["tps"]) > 0 and float(row["tps_sd"]) >= 0, row
        runs = math.prod(map(int, row["shape"].split("x")[::2])) / float(row["median_us"]) * 1e6
        assert 0.2 * runs < float(row["tps"]) < 5 * runs, row
    else:
        assert not row["tps"], row
    assert row["repro"] == (f"mpiexec -n {ranks} " if ranks > 1 else "") + repro, row
    wanted = peers.get(row["case"], {})
    wanted = "MPI_Allreduce:time" if wanted is None else wanted.get(row["shape"].split("x")[0])
    wanted = other.get(row["case"], wanted)
    if row["case"] == "model/tg" and row["shape"].endswith("x1"):
        wanted = "read:GB/s"
    if row["case"].startswith("collectives/"):
        assert float(row["wrong"]) == 0, row
        n = ranks
        factor = {"broadcast": 1, "gather": (n - 1) / n}.get(row["case"][12:], 2 * (n - 1) / n)
        assert abs(float(row["busbw"]) - factor * float(row["gbps"])) <= 2e-3, row
        split = row["case"] == "collectives/allreduce"
        for name in phases:
            assert (float(row[name]) > 0) == (n > 1) if split else not row[name], row
    else:
        assert not row["wrong"] and not row["busbw"] and not row["stage_out_us"], row
    assert (row["peer"] or None) == wanted, row
    assert (float(row["ratio"]) > 0) if wanted else not row["ratio"], row
    seen.append((row["case"], row["shape"], row["dtype"]))
assert {case for case, _, _ in seen} == set(cases), seen
if listed:
    with open(listed, encoding="utf-8") as file:
        assert [(w[0], w[2], w[3]) for w in map(str.split, file)] == seen, seen
print(len(seen), "rows")
