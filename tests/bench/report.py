# SPDX-License-Identifier: Apache-2.0
"""report.py PAGE FIGURES RESULTS...: PAGE is whole, needs nothing from elsewhere, has FIGURES plots
with axes, units and legends inside of their frame, and a line for each row of RESULTS."""
import re
import sys
from html.parser import HTMLParser
from xml.dom import minidom

page = open(sys.argv[1], encoding="utf-8").read()
figures, results = int(sys.argv[2]), sys.argv[3:]
VOID = {"meta", "line", "rect", "circle", "path", "polyline"}


class Nesting(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.rows = [], 0

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.rows += tag == "tr"
        assert not any(name in ("src", "href") for name, _ in attrs), attrs

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID, tag

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


parser = Nesting()
parser.feed(page)
assert not parser.open, parser.open
assert "http" not in page.replace("http://www.w3.org/2000/svg", ""), "needs another host"

rows, suites = 0, set()
for path in results:
    for line in open(path, encoding="utf-8"):
        if line.startswith(("#", "case,")):
            continue
        rows += 1
        suites.add(re.match(r'(?:.*"case":")?([a-z]+)/', line).group(1))
assert parser.rows == rows + len(suites), (parser.rows, rows, suites)

plots = re.findall(r"<svg .*?</svg>", page, re.S)
assert len(plots) == figures, len(plots)
for plot in plots:
    root = minidom.parseString(plot).documentElement
    width, height = float(root.getAttribute("width")), float(root.getAttribute("height"))
    texts = [t.firstChild.data for t in root.getElementsByTagName("text")]
    assert any("(" in t or t == "ranks" for t in texts), texts
    assert "nan" not in plot and "inf" not in plot, plot
    numbers = [float(n) for tag in ("polyline", "circle", "line", "rect")
               for e in root.getElementsByTagName(tag)
               for name in ("points", "cx", "x1", "x2", "x")
               for n in re.findall(r"[-\d.]+", e.getAttribute(name).replace(",", " "))]
    assert numbers and all(0 <= n <= max(width, height) for n in numbers), plot
    for text in root.getElementsByTagName("text"):
        if text.hasAttribute("x") and text.getAttribute("text-anchor") != "end":
            end = float(text.getAttribute("x")) + 7 * len(text.firstChild.data)
            assert end <= width + 20, text.firstChild.data
