#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""names.py HEADER PREPROCESSED...: names that HEADER gives to every file that includes it, macros,
types, constants, functions and variables, start with tpcl_ or TPCL_. PREPROCESSED are outputs of
`cc -E -dD`, whose line markers tell what comes from HEADER."""
import os
import re
import sys

MARKER = re.compile(r'# \d+ "(.*?)"')
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|\S')
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")


def own_lines(header, path):
    """The preprocessed lines that come from the header itself."""
    mine = False
    with open(path, encoding="utf-8") as text:
        for line in text:
            marker = MARKER.match(line)
            if marker:
                mine = os.path.abspath(marker.group(1)) == os.path.abspath(header)
            elif mine:
                yield line


def macros(lines):
    """Macros that are still defined at the end."""
    alive = {}
    for line in lines:
        word = re.match(r"#(define|undef) (\w+)", line)
        if word:
            alive[word.group(2)] = word.group(1) == "define"
    return {name for name, defined in alive.items() if defined}


def declarations(tokens):
    """Splits the tokens at file scope into declarations; `extern "C"` opens no scope."""
    one, depth = [], 0
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if depth == 0 and tokens[i:i + 2] == ["extern", '"C"']:
            i += 3 if tokens[i + 2:i + 3] == ["{"] else 2
            continue
        i += 1
        if token == "}" and depth == 0:  # ends extern "C"
            continue
        one.append(token)
        depth += (token in "({[") - (token in ")}]")
        body_ends = token == "}" and depth == 0 and ")" in one and "typedef" not in one
        if depth == 0 and (token == ";" or body_ends):
            yield one
            one = []


def declared(one):
    """Names that one declaration declares at file scope: tag, enumerators, declarator."""
    names = set()
    outside, depth = [], 0
    for i, token in enumerate(one):
        word = re.match(r"[A-Za-z_]\w*$", token)
        if token in ("struct", "union", "enum") and one[i + 2:i + 3] == ["{"] and depth == 0:
            names.add(one[i + 1])
        in_enum = depth == 1 and "enum" in one[:one.index("{")] if "{" in one[:i] else False
        if word and in_enum and one[i - 1] in ("{", ","):
            names.add(token)
        depth += token == "{"
        if depth == 0:
            outside.append(token)
        depth -= token == "}"
    text = " ".join(outside)
    pointer = re.match(r"[^(]*\( \* (?:const )?(\w+)", text)  # of a function
    function = re.search(r"(\w+) \(", text)
    plain = re.findall(r"(\w+)(?: \[.*?\])? (?:=.*)?[;,]", text)
    if pointer:
        names.add(pointer.group(1))
    elif function:
        names.add(function.group(1))
    elif not re.fullmatch(r"(struct|union|enum) \w+ ;", text):
        names.update(plain)
    return names - {"enum", "struct", "union"}


def main():
    header, outputs = sys.argv[1], sys.argv[2:]
    bad, count = set(), 0
    for path in outputs:
        lines = list(own_lines(header, path))
        names = macros(lines)
        code = ATTRIBUTE.sub("", "".join(l for l in lines if not l.startswith("#")))
        for one in declarations(TOKEN.findall(code)):
            names |= declared(one)
        count += len(names)
        bad |= {n for n in names if not re.match(r"tpcl_|TPCL_", n)}
    if not count:
        print(f"{header}: no names found")
    for name in sorted(bad):
        print(f"{header}: {name} starts with neither tpcl_ nor TPCL_")
    sys.exit(1 if bad or not count else 0)


main()
