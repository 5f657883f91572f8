#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py ROOT PAGE: prints a Markdown page with its links as the site needs them: to other pages
by their names there, and to files that are not part of the site as plain text."""
import os
import re
import sys


def identity(path):
    """The page's name: docs/FILES.md is doc_files, cl/README.md is doc_cl_readme."""
    stem = os.path.splitext(path)[0].lower()
    return "mainpage" if stem == "readme" else "doc_" + re.sub(r"\W", "_", re.sub("^docs/", "", stem))


def main():
    root, path = sys.argv[1], os.path.abspath(sys.argv[2])
    folder = os.path.dirname(path)
    with open(path, encoding="utf-8") as page:
        text = page.read()

    def link(match):
        words, target = match.group(1), match.group(2).split("#")[0]
        if re.match(r"[a-z]+:", match.group(2)):
            return match.group(0)
        if not target:
            return words
        full = os.path.relpath(os.path.join(folder, target), root)
        if full.endswith(".md"):
            name = identity(full)
            return f'@ref {"index" if name == "mainpage" else name} "{words.strip("`")}"'
        if re.match(r"examples/\w+\.c", full):
            name = os.path.basename(full).replace(".", "_8")
            return f"[{words}]({name}-example.html)"
        return words if words.startswith("`") else f"`{words}`"

    def code(match):
        return f"<code>{match.group(1).replace('<', '&lt;').replace('>', '&gt;').replace('#', chr(92) + '#')}</code>"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.S | re.M)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)", link, parts[i])
        parts[i] = re.sub(r"`([^`\n]*<[^`\n]*)`", code, parts[i])
    own = identity(os.path.relpath(path, root))
    print(re.sub(r"^# (.*)$", rf"# \1 {{#{own}}}", "".join(parts), count=1, flags=re.M))


main()
