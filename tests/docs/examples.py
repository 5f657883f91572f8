#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples.py EXAMPLES/README.md PAGE...: each page shows a run of every example, and what it shows
stands in the examples' own page, which install.consumer compares with what they print."""
import re
import sys

RUN = re.compile(r"^    \$ (?:mpiexec -n \d+ )?\./(\w+)")


def runs(text):
    """(example, command and output) of each run."""
    found, block = [], None
    for line in text.split("\n") + [""]:
        start = RUN.match(line)
        if block is not None and (start or not line.startswith("    ")):
            found.append((name, "\n".join(block)))
            block = None
        if start:
            name, block = start.group(1), []
        if block is not None:
            block.append(line)
    return found


def main(source, pages):
    faults = 0
    with open(source, encoding="utf-8") as page:
        known = runs(page.read())
    names = {name for name, _ in known}
    for path in pages:
        with open(path, encoding="utf-8") as page:
            shown = [(n, r) for n, r in runs(page.read()) if n in names]
        for name in sorted(names - {n for n, _ in shown}):
            print(f"{path}: no run of {name}", file=sys.stderr)
            faults += 1
        for name, run in shown:
            if (name, run) not in known:
                print(f"{path}: {name} prints something else:\n{run}", file=sys.stderr)
                faults += 1
        print(f"{path}: {len(shown)} runs of {len(names)} examples")
    return 1 if faults or not names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
