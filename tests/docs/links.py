#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""links.py ROOT CTEST-LISTING: what the Markdown pages name is there. Relative links and their
anchors; files of the repository in backticks; names of tests; functions and types; and options of
the commands, of which --help is given on standard input."""
import os
import re
import subprocess
import sys

PLACES = ("include", "lib", "cl", "cmake", "docs", "tools", "tests", "bench", "examples", "scripts")
GGUF_KEYS = ("tokenizer.ggml.", "tokenizer.chat_template")
# What a page may name that is made by a build, a user or another project.
MADE = re.compile(r"build/|/usr/|~|\$|<|\*|\.\.\.")


def pages(root):
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others",
                                 "--exclude-standard", "*.md"], capture_output=True, text=True,
                                check=False).stdout.split()
    except FileNotFoundError:
        listed = []
    if not listed:  # no git, or not a checkout
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if f != "build" and not f.startswith(".")]
            listed += [os.path.relpath(os.path.join(folder, f), root) for f in files
                       if f.endswith(".md")]
    return sorted(p for p in listed if os.path.exists(os.path.join(root, p)))


def anchors(path):
    """As GitHub makes them of headings."""
    with open(path, encoding="utf-8") as page:
        heads = re.findall(r"^#+ (.*)$", page.read(), re.M)
    return {re.sub(r"[^\w\- ]", "", h.replace("`", "").lower()).replace(" ", "-") for h in heads}


def links(root, page, text):
    folder = os.path.dirname(os.path.join(root, page))
    plain = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)\s]+)\)", plain):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        full = os.path.normpath(os.path.join(folder, path)) if path else os.path.join(root, page)
        if not os.path.exists(full):
            yield f"link to {target}"
        elif anchor and anchor not in anchors(full):
            yield f"link to {target}: no such heading"


def files(root, text):
    """`lib/comm/wait.c`, `comm/wait.c` for a file of lib/, cl/README.md."""
    found = re.findall(r"(?<![\w/.-])((?:[\w.-]+/)+[\w.-]+\.(?:[chS]|cl|clh|cpp|md|sh|py|txt|cmake|in))\b", text)
    for name in set(found):
        first = name.split("/")[0]
        inside = first in PLACES or os.path.isdir(os.path.join(root, "lib", first))
        headers = first == "tpcl"
        if MADE.search(name) or not (inside or headers):
            continue
        tries = (name, f"lib/{name}", f"include/{name}")
        if not any(os.path.exists(os.path.join(root, t)) for t in tries):
            yield f"file {name}"


def names(text, public, tests, layers):
    for name in set(re.findall(r"\b(?:tpcl|TPCL|tpi|TPI)_\w*[A-Za-z0-9](?![\w<*])", text)):
        if name not in public and not name.endswith("_noun_verb"):
            yield f"name {name}"
    for name in set(re.findall(rf"`((?:{layers})\.[a-z_]+(?:\.\w+)*)`", text)):
        if not name.startswith(GGUF_KEYS) and not any(t == name or t.startswith(name + ".") for t in tests) \
                and not re.search(r"\.(c|h|cl|md|py|sh|json|gguf|safetensors|pc|in|txt)$", name):
            yield f"test {name}"


def options(text, known):
    """--option words behind tpcl or tpcl-bench in one code span or line of code."""
    for line in re.findall(r"`(tpcl(?:-bench)? [^`]*)`|^    (?:.*\b)?(tpcl(?:-bench)? .*)$", text, re.M):
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", "".join(line)):
            if option not in known:
                yield f"option {option}"


def source_words(root):
    """Every word of the sources that begins like one of ours."""
    words = set()
    for place in PLACES + ("CMakeLists.txt",):
        for folder, _, names_here in os.walk(os.path.join(root, place)):
            for name in names_here:
                if re.search(r"\.(c|h|cl|clh|cpp|cmake|in|txt|sh|py)$", name) and name != "links.py":
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        words |= set(re.findall(r"\b(?:tpcl|TPCL|tpi|TPI)_\w+", file.read()))
    with open(os.path.join(root, "CMakeLists.txt"), encoding="utf-8") as file:
        words |= set(re.findall(r"\b(?:tpcl|TPCL)_\w+", file.read()))
    return words


def main():
    root, listing = sys.argv[1:]
    known = set(re.findall(r"--[a-z][a-z-]*", sys.stdin.read())) | {"--help", "--version"}
    with open(listing, encoding="utf-8") as file:
        tests = re.findall(r"Test +#\d+: (\S+)", file.read())
    layers = "|".join(sorted({t.split(".")[0] for t in tests}))
    public = source_words(root)
    # --tp's environment twins are made, not written.
    public |= {"TPCL_" + o[2:].upper().replace("-", "_") for o in known}
    bad, found = 0, pages(root)
    for page in found:
        with open(os.path.join(root, page), encoding="utf-8") as file:
            text = file.read()
        faults = list(links(root, page, text))
        if page != "docs/DECISIONS.md":  # which tells of what was
            faults += [*files(root, text), *names(text, public, tests, layers), *options(text, known)]
        for fault in faults:
            print(f"{page}: {fault}")
        bad += len(faults)
    print(f"{len(found)} pages, {len(tests)} tests, {bad} faults")
    sys.exit(1 if bad or len(found) < 8 or len(tests) < 20 or len(known) < 20 else 0)


main()
