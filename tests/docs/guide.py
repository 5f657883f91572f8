#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""guide.py GUIDE CC FLAG...: compiles every program of the guide's ```c blocks, runs each
`$ command` of its other blocks and compares what is printed. Blocks up to one with main() are one
program, named by the comment that it opens with; other names are those of examples, which other tests
look after."""
import os
import re
import subprocess
import sys
import tempfile

STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def programs(text):
    """Name and source of each program."""
    found, source = {}, ""
    for block in re.findall(r"^```c\n(.*?)^```$", text, re.S | re.M):
        source += block + "\n"
        if re.search(r"^int main\(", block, re.M):
            found[re.match(r"/\* (\w+)\.c: ", source).group(1)] = source
            source = ""
    if source:
        sys.exit(f"a program without main(): {source[:60]}")
    return found


def commands(text):
    """Pairs of a command and the lines that it prints."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    return re.findall(r"^    \$ (.*)\n((?:    (?!\$ ).*\n)*)", text, re.M)


def main():
    guide, compiler = sys.argv[1:3]
    flags = sys.argv[3:]
    with open(guide, encoding="utf-8") as page:
        text = page.read()
    own, bad, seen = programs(text), 0, set()
    with tempfile.TemporaryDirectory() as folder:
        def build(name):
            source = os.path.join(folder, name + ".c")
            with open(source, "w", encoding="utf-8") as file:
                file.write(own[name])
            subprocess.run([compiler, *STRICT, source, "-o", os.path.join(folder, name), *flags],
                           check=True)

        for command, output in commands(text):
            name = re.search(r"\./(\w+)", command).group(1)
            if name not in own:  # an example: docs.examples and install.consumer look after them
                continue
            if name not in seen:
                build(name)
                seen.add(name)
            run = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True,
                                 timeout=120, check=False)
            want = re.sub("^    ", "", output, flags=re.M)
            if run.returncode or run.stdout != want:
                bad += 1
                print(f"$ {command}\nexit status {run.returncode}, printed\n{run.stdout}{run.stderr}"
                      f"the guide says\n{want}")
        for name in own.keys() - seen:
            print(f"{name}.c is never run")
            bad += 1
    print(f"{len(own)} programs, {bad} faults")
    sys.exit(1 if bad or not own else 0)


main()
