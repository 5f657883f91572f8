#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docstrings.py HEADER...: every function has a comment directly above it that says whether it is
collective, blocks and allocates, and which errors it has. One comment may serve several
declarations below it, and a header may say once what holds for "All functions here:"."""
import re
import sys

FACTS = ("Collective:", "Blocks:", "Allocates:", "Errors:")
PART = re.compile(r"(?P<comment>/\*.*?\*/)|(?P<line>^[ \t]*#(?:[^\n]*\\\n)*[^\n]*)|(?P<blank>\n[ \t]*\n)"
                  r"|(?P<open>\{)|(?P<close>\})|(?P<end>;)|(?P<code>[^\s{};/#][^\n{};/]*|.)", re.S | re.M)
FUNCTION = re.compile(r"(\w+) ?\((?!\*)[^;]*\)$")


def functions(source):
    """Pairs of a function's name and the comment above it."""
    source = re.sub(r'extern "C" \{', "", source)
    comment, code, depth = "", "", 0
    for part in PART.finditer(source):
        kind, text = part.lastgroup, part.group()
        if kind == "comment":
            if depth == 0 and not code.strip() and "@{" not in text and "@}" not in text:
                comment = text
        elif kind == "blank":
            comment = comment if code.strip() else ""
        elif kind in ("open", "end") and depth == 0:
            found = FUNCTION.search(re.sub(r"\s+", " ", code).strip())
            if found and not code.strip().startswith("typedef"):
                yield found.group(1), comment
            elif kind == "end":
                comment = ""  # of a type
            code = ""
        elif kind == "code" and depth == 0:
            code += " " + text
        depth += (kind == "open") - (kind == "close")


def main():
    bad = count = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as header:
            source = header.read()
        everywhere = re.search(r"All functions here:.*?\*/", source, re.S)
        for name, comment in functions(source):
            count += 1
            said = comment + (everywhere.group() if everywhere else "")
            missing = [fact for fact in FACTS if fact not in said]
            if not comment.startswith("/**"):
                print(f"{path}: {name}: no /** comment directly above")
            elif missing:
                print(f"{path}: {name}: the comment above does not say {' '.join(missing)}")
            bad += not comment.startswith("/**") or bool(missing)
    print(f"{count} functions, {bad} without")
    sys.exit(1 if bad or count == 0 else 0)


main()
