#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""header.py HEADER: prints a public header as Doxygen likes it, while the header itself stays as
people like it. A comment of adjacent declarations is given to each of them; shape tables become
verbatim; the four facts become a paragraph; lists of codes become documented enumerators; and all
that is declared joins the subject of its file."""
import os
import re
import sys

SUBJECTS = {
    "group": "group comm device shard team opencl",
    "tensors": "tensor dtype",
    "layers": "linear vocab",
    "attention": "attention kv_cache",
    "ops": "ops reference",
    "sampling": "sampling",
    "files": "checkpoint tokenizer",
    "models": "model",
    "status": "status log version",
}
FACTS = re.compile(r"\b(Collective|Blocks|Allocates|Errors):")
PARAM = re.compile(r"^@param +(\w+) +(in|out|inout) +")
SHARED = re.compile(r"(/\*\*(?:(?!\*/).)*\*/)\n((?:[^\n/#][^\n]*\n)+)", re.S)
MEMBERS = re.compile(r"^( +)([a-z][\w ]*?) ((?:\*?\w+(?:\[\w+\])?, )+\*?\w+(?:\[\w+\])?);"
                     r"\s*(/\*\*<.*?\*/)", re.S | re.M)
FUNCTION = re.compile(r"[^;{}]*\w\([^;{}]*\);", re.S)


def subject(name):
    for group, names in SUBJECTS.items():
        if name in names.split():
            return group
    sys.exit(f"docs/doxygen/header.py: {name}.h belongs to no subject: add it to SUBJECTS")


def is_table(line, before):
    """Whether an indented line opens a table, or goes on with the text above."""
    listed = re.match(r" *(@|- |\d+\. )", before)
    return line.startswith("    ") and not listed and (not before or before.endswith(":"))


def words(text):
    """One comment's lines, without the stars."""
    lines = [re.sub(r"^ ?\* ?", "", line.strip()) if i else line
             for i, line in enumerate(text.split("\n"))]
    out, table, before = [], False, "x"
    for line in lines:
        if table and (not line or line[0] == "@" or (table == "open" and line[0] != " ")):
            out.append("@endverbatim")
            table = False
        if not table and is_table(line, before):
            table = "open" if before else "paragraph"
            out.append("@verbatim")
        if not table:
            line = PARAM.sub(r"@param[\2] \1 ", line.replace("<", "&lt;"))
            line = re.sub(r"\bCollective:", "\n\n@par Facts\nCollective:", line)
            line = FACTS.sub(r"<b>\1:</b>", line)
        out.append(line)
        before = line
    text = "\n".join(out + (["@endverbatim"] if table else []))
    return re.sub(r"\n\n\n+", "\n\n", text)


def comment(match):
    opening, text = match.group(1), match.group(2)
    if "@{" in text or "@}" in text:
        return ""
    if "\n" not in text and "Collective:" not in text:
        return f"{opening}{text.replace('<', '&lt;')}*/"
    return f"{opening}{words(text)}\n*/"


def members(match):
    """int a, b; with a comment behind it: the comment for each of them."""
    indent, kind, names, text = match.groups()
    return "\n".join(f"{indent}{kind} {name.strip()}; {text}" for name in names.split(","))


def without_foreign(text, declaration):
    """A comment without the parameters that this declaration does not have."""
    lines, keep = [], True
    for line in text.split("\n"):
        param = re.match(r"@param\[\w+\] (\w+) ", line)
        if param:
            keep = re.search(rf"\b{param.group(1)}\b", declaration)
        elif not line or line[0] == "@" or line.startswith("*/"):
            keep = True
        if keep:
            lines.append(line)
    return "\n".join(lines)


def repeat(match):
    """The comment once for each function directly below it."""
    text, code = match.groups()
    if "@file" in text or re.match(r"\s*(typedef|enum|struct|static)\b", code):
        return match.group(0)
    declared = FUNCTION.findall(code)
    if len(declared) < 2 or "".join(declared).strip() != code.strip():
        return match.group(0)
    return "".join(f"{without_foreign(text, one)}\n{one.strip()}\n\n" for one in declared)


def enumerators(source):
    """#define X(code, ...) code, and a list of X: the codes with what the list says of them."""
    lists = dict(re.findall(r"#define (\w+)\(X\) *\\\n((?:[^\n]*\\\n)*[^\n]*\n)", source))

    def spell(match):
        rows = re.findall(r'X\((\w+), "([^"]*)"(?:, (\d+), (\d+))?\)', lists[match.group(1)])
        return "".join(f"{code}, /**< {text}{f': {n} in {b} bytes' if n else ''} */\n"
                       for code, text, n, b in rows)
    return re.sub(r"#define X\([^\n]*\n *(\w+)\(X\)\n#undef X\n", spell, source)


def with_general(source):
    """"All functions here: ..." in a header: said of each that does not say it."""
    general = re.search(r"All functions here: (.*?)\s*\*/", source, re.S)
    if not general:
        return source
    facts = re.sub(r"\s*\n \* ?", "\n * ", general.group(1))

    def add(match):
        text, code = match.groups()
        if "Collective:" in text or "@file" in text or not FUNCTION.match(code):
            return match.group(0)
        both = re.sub(r"\s*Errors:.*", " ", facts, flags=re.S) if "Errors:" in text else facts
        at = text.find("Errors:") if "Errors:" in text else len(text) - 2
        return f"{text[:at].rstrip(' *' + chr(10))}\n * {both} {text[at:]}\n{code}"
    return SHARED.sub(add, source)


def main():
    path = sys.argv[1]
    name = os.path.splitext(os.path.basename(path))[0]
    with open(path, encoding="utf-8") as header:
        source = with_general(enumerators(header.read()))
    source = re.sub(r"(/\*\*<?)((?:(?!\*/).)*)\*/", comment, source, flags=re.S)
    source = SHARED.sub(repeat, MEMBERS.sub(members, source))
    if name != "tpcl":
        opened = f"/** @addtogroup {subject(name)}\n@{{ */\n"
        source = re.sub(r"(#define TPCL_\w+_H\n)", lambda m: m.group(1) + opened, source, count=1)
        source = re.sub(r"#endif\s*$", "/** @} */\n#endif\n", source)
    print(source)


main()
