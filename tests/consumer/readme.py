#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""readme.py README FOLDER: runs each `$ command` of the README's code blocks in FOLDER and compares
what it prints with the lines that follow it. Every program in FOLDER must occur."""
import os
import subprocess
import sys


def commands(path):
    """Pairs of a command and the lines that the README says it prints."""
    found = []
    with open(path, encoding="utf-8") as readme:
        for line in readme:
            text = line[4:].rstrip("\n")
            if not line.startswith("    "):
                if found:
                    found[-1][2] = False  # the block ends
            elif text.startswith("$ "):
                found.append([text[2:], [], True])
            elif found and found[-1][2]:
                found[-1][1].append(text)
    return [(command, "\n".join(lines)) for command, lines, _ in found]


def main():
    readme, folder = sys.argv[1:]
    failed = 0
    checks = [(c, want) for c, want in commands(readme) if "./" in c]
    for command, want in checks:
        run = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True,
                             timeout=120, check=False)
        got = run.stdout.rstrip("\n")
        if run.returncode or got != want:
            failed += 1
            print(f"$ {command}\nexit status {run.returncode}, printed\n{got}\n{run.stderr}"
                  f"\n{readme} says\n{want}\n")
    programs = [name for name in sorted(os.listdir(folder))
                if os.path.isfile(os.path.join(folder, name))
                and os.access(os.path.join(folder, name), os.X_OK)]
    unseen = [p for p in programs if not any(f"./{p}" in command for command, _ in checks)]
    if unseen or not programs:
        print(f"{readme} does not run: {', '.join(unseen) or 'anything'}")
    sys.exit(1 if failed or unseen or not programs else 0)


main()
