# SPDX-License-Identifier: Apache-2.0
"""foreign.py osu|gbench FILE N: FILE is what other programs' scripts read.

osu: N collectives, each under its heading, two columns. gbench: N benchmarks, as Google Benchmark's
report.py takes them: it groups by run_name, subtracts times and compares what is no aggregate."""
import json
import re
import statistics
import sys

form, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
text = open(path, encoding="utf-8").read()


def no_constant(word):
    raise ValueError(f"{word} is not JSON")


if form == "osu":
    heads = re.findall(r"^# OSU .* Latency Test v\d+\.\d+", text, re.M)
    assert len(heads) == count, text
    assert len(re.findall(r"^# Size\s+Avg Latency\(us\)$", text, re.M)) == count, text
    rows = re.findall(r"^(\d+)\s+(\d+\.\d+)$", text, re.M)
    assert [int(size) for size, _ in rows] == [4, 16, 64] * count, text
    assert all(line.startswith("#") or not line or re.match(r"\d", line) for line in text.split("\n"))
    sys.exit(0)

data = json.loads(text, parse_constant=no_constant)
for name in "date host_name executable num_cpus mhz_per_cpu caches load_avg library_build_type".split():
    assert name in data["context"], name
groups = {}
for b in data["benchmarks"]:
    for name in "name run_name run_type repetitions threads iterations real_time cpu_time time_unit".split():
        assert name in b, (name, b)
    assert b["time_unit"] == "us" and isinstance(b["iterations"], int) and b["iterations"] > 0, b
    groups.setdefault(b["run_name"], []).append(b)
assert len(groups) == count, list(groups)
for name, all_of in groups.items():
    runs = [b for b in all_of if b["run_type"] == "iteration"]
    assert [b["repetition_index"] for b in runs] == list(range(3)), runs
    assert all(b["name"] == name and b["repetitions"] == 3 and b["cpu_time"] > 0 for b in runs), runs
    times = [b["real_time"] for b in runs]
    aggregates = {b["aggregate_name"]: b["real_time"] for b in all_of if b["run_type"] == "aggregate"}
    wanted = {"mean": statistics.fmean(times), "median": statistics.median(times),
              "stddev": statistics.stdev(times)}
    assert aggregates.keys() == wanted.keys(), aggregates
    for key, value in wanted.items():
        assert abs(aggregates[key] - value) <= 1e-6 * max(times), (key, aggregates[key], value)
