#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""site.py HTML INCLUDE: the site that doxygen made holds together and needs no network: every link
leads somewhere, nothing is loaded from elsewhere, each subject has its page, each public function
has its entry with the four facts, and the examples are there."""
import html.parser
import os
import re
import sys
import urllib.parse

SUBJECTS = ("group", "tensors", "layers", "attention", "ops", "sampling", "files", "models", "status")


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs[k] for k in ("id", "name") if attrs.get(k)}
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if tag in ("link", "script", "img", "iframe", "object"):
            self.loads += [attrs[k] for k in ("href", "src", "data") if attrs.get(k)]


def main():
    folder, include = sys.argv[1:]
    texts = {}
    for name in os.listdir(folder):
        if name.endswith(".html"):
            with open(os.path.join(folder, name), encoding="utf-8") as page:
                texts[name] = page.read()
    pages = {name: Page(text) for name, text in texts.items()}
    bad = []
    for name, page in pages.items():
        for link in page.loads + page.links:
            url = urllib.parse.urlparse(link)
            if url.scheme or link.startswith("//"):
                if link in page.loads and url.scheme != "javascript":
                    bad.append(f"{name} loads {link}")
                continue
            target = urllib.parse.unquote(url.path) or name
            if not os.path.exists(os.path.join(folder, target)):
                bad.append(f"{name} links to {link}, which is not there")
            elif url.fragment and target in pages and url.fragment not in pages[target].anchors:
                bad.append(f"{name} links to {link}: no such place")
    subjects = ""
    for subject in SUBJECTS:
        name = f"group__{subject}.html"
        if name not in texts or name not in texts.get("modules.html", ""):
            bad.append(f"no page of the subject {subject}")
        subjects += texts.get(name, "")
    entries = dict(re.findall(r'class="memtitle">.*?</span>(tpcl_\w+)\(\)</h2>'
                              r'(.*?)(?=<h2 class="memtitle"|$)', subjects, re.S))
    functions = set()
    for header in sorted(os.listdir(include)):
        with open(os.path.join(include, header), encoding="utf-8") as file:
            code = re.sub(r"/\*.*?\*/|^#(?:[^\n]*\\\n)*[^\n]*$", "", file.read(),
                          flags=re.S | re.M)
        functions |= set(re.findall(r"^(?!typedef)[\w *]*?\b(tpcl_\w+)\((?!\*)", code, re.M))
    for name in sorted(functions):
        missing = [w for w in ("Collective", "Blocks", "Allocates", "Errors")
                   if f"<b>{w}:</b>" not in entries.get(name, "")]
        if missing:
            bad.append(f"{name}: no entry with {', '.join(missing)}")
    if "vocab_parallel" not in texts.get("examples.html", ""):
        bad.append("no page of the examples")
    print("\n".join(bad))
    print(f"{len(pages)} pages, {len(functions)} functions, {len(bad)} faults")
    sys.exit(1 if bad or len(pages) < 20 or len(functions) < 100 else 0)


main()
