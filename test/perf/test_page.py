#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The page of a sweep: well-formed as HTML and as XML, all texts escaped, nothing from outside, every figure in a table, each line told
apart without colour. test_page.py BUILD [CASE...]"""
import html.parser
import os
import re
import sys
import xml.etree.ElementTree as ET

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from perf_docs import bandwidth, latency, write  # noqa: E402
from weft_e2e import BUILD, main, run  # noqa: E402

XHTML, SVG = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2000/svg}"
EMPTY = {"meta", "link", "br", "img", "hr"}


class Strict(html.parser.HTMLParser):
    """Every tag is closed, in its order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in EMPTY:
            self.open.append(tag)
        assert len({k for k, _ in attrs}) == len(attrs), attrs
        for k, v in attrs:
            assert not k.startswith("on") and (k == "xmlns" or "://" not in (v or "")), (tag, k, v)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.open)


def draw(results, **more):
    """The page of a document, as text and as a tree."""
    rc, out, err = run([os.path.join(BUILD, "test", "perf", "draw_page"), write("page.json", results, **more)])
    assert rc == 0 and err == "", (rc, err)
    p = Strict()
    p.feed(out)
    p.close()
    assert p.open == [] and not p.seen & {"script", "link", "img", "iframe", "object"}, (p.open, p.seen)
    assert out.startswith("<!DOCTYPE html>\n") and "url(" not in out and "@import" not in out
    return out, ET.fromstring(out.split("\n", 1)[1])


def many(sizes, depths, rounds=5):
    """Results of two tests in both modes."""
    return [r for k in range(rounds) for s in sizes for d in depths
            for r in (bandwidth(s * d / 10 + 1 + k, size=s, depth=d), latency(3 + s / 1000 + k, size=s),
                      bandwidth(s / 7 + k + 1, size=s, depth=d, test="read"))]


def numbers(svg):
    """All coordinates of a diagram."""
    for e in svg.iter():
        for k in ("x", "x1", "x2", "cx"):
            if k in e.attrib:
                yield "x", float(e.attrib[k])
        for k in ("y", "y1", "y2", "cy"):
            if k in e.attrib:
                yield "y", float(e.attrib[k])
        for pair in e.get("points", "").split():
            x, y = pair.split(",")
            yield from (("x", float(x)), ("y", float(y)))
        m = re.match(r"M([\d.]+) ([\d.]+)m", e.get("d", ""))
        if m:
            yield from (("x", float(m[1])), ("y", float(m[2])))


def inside(svg):
    _, _, w, h = map(float, svg.get("viewBox").split())
    for axis, v in numbers(svg):
        assert 0 <= v <= (w if axis == "x" else h), (axis, v, svg.get("viewBox"))


def test_diagrams():
    """Rate, latency and cycles; axes with units, a grid, a legend with each line, a table under each."""
    text, tree = draw(many([2**i for i in range(1, 21)], (1, 16, 128)))
    figures = list(tree.iter(XHTML + "figure"))
    captions = [f.find(XHTML + "figcaption").text for f in figures]
    assert captions == ["write: rate by size", "write, bandwidth: cycles by message", "write: latency percentiles by size, depth 1",
                        "write, latency: cycles by message", "read: rate by size", "read, bandwidth: cycles by message"], captions
    for f in figures:
        svg, table = f.find(SVG + "svg"), f.find(f".//{XHTML}table")
        inside(svg)
        words = [t.text for t in svg.iter(SVG + "text")]
        assert "octets of a message" in words and any("MB/s" in w or "microseconds" in w or "cycles" in w for w in words), words
        assert sum("grid" in e.get("class", "") for e in svg.iter()) > 6
        lines = [e for e in svg.iter(SVG + "polyline")]
        assert len(lines) == (1 if "latency: cycles" in f.find(XHTML + "figcaption").text else 3), len(lines)
        for name in [th.text for th in table.find(XHTML + "tr")][1:]:
            assert name in words, (name, words)
        assert len(list(table.iter(XHTML + "tr"))) == 21
        for p in lines:
            assert len(p.get("points").split()) == 20, p.get("points")


def test_figures():
    """Positions and cells are those of medians that are found here."""
    _, tree = draw([bandwidth(v, size=s) for s, vs in ((64, (10, 30, 20)), (4096, (100, 90, 95))) for v in vs])
    f = next(tree.iter(XHTML + "figure"))
    cells = ["".join(td.itertext()) for td in f.iter(XHTML + "td")]
    assert cells == ["20 10\u201330", "95 90\u2013100"], cells
    points = [tuple(map(float, p.split(","))) for p in f.find(f".//{SVG}polyline").get("points").split()]
    # y is linear from 0 (250) to 5 % above the greatest figure (30)
    for (_, y), v in zip(points, (20, 95)):
        assert abs(y - (250 - v / 105 * 220)) < 0.11, (y, v)
    assert points[0][0] < points[1][0]
    titles = [t.text for t in f.iter(SVG + "title")]
    assert "depth 128, 64: 20 MB/s (10^6 octets a second)" in titles, titles


def test_apart():
    """Each of eight lines has another pair of dash and marker, and print has no colour."""
    text, tree = draw([bandwidth(d, depth=d, size=s) for d in range(1, 17) for s in (64, 128)])
    f = next(tree.iter(XHTML + "figure"))
    inside(f.find(SVG + "svg"))
    lines = [p.get("class") for p in f.iter(SVG + "polyline")]
    marks = [e.get("class") for e in f.iter() if e.get("class", "").startswith("mark")]
    pairs = {(line, marks[2 * i]) for i, line in enumerate(lines)}
    assert len(lines) == 16 and len(pairs) == 16, pairs
    dashes = re.findall(r"\.s\d \{ stroke: #\w+; stroke-dasharray: ([\w ]+); \}", text)
    assert len(set(dashes)) == 8, dashes
    assert "@media print { .line, .mark, .range { stroke: #000 !important; }" in text


def test_escaped():
    """Texts of the document stay texts, also those that HTML and XML forbid."""
    evil = "<script>alert('x')</script> & \"q\" \x01\x0b\ufffe\uffff \u00e4\u6f22"
    text, tree = draw([bandwidth(5, test=evil, odd=evil), bandwidth(6)], machine={"cpu": evil, evil: 3},
                      sweep={"plan": evil, "ended": evil}, complete=False,
                      failed=[{"test": evil, "mode": evil, "bytes": 1, "depth": 1, "round": 1, "why": evil}])
    assert "<script" not in text and "\x01" not in text
    shown = "".join(tree.itertext())
    clean = "<script>alert('x')</script> & \"q\" \ufffd\ufffd\ufffd\ufffd \u00e4\u6f22"
    assert shown.count(clean) >= 8, shown
    assert "Incomplete" in shown


def test_odd_figures():
    """One point; zeros; negative figures; figures over many decades; null; no figure that a diagram has."""
    for results in ([bandwidth(5)], [bandwidth(1e-9, size=1), bandwidth(1e12, size=1 << 28)], [latency(1e-3)],
                    [bandwidth(-5), bandwidth(-7, size=128), bandwidth(3, size=256)], [bandwidth(1e300), bandwidth(1e-300, size=65)],
                    [{**bandwidth(5), "average_mb_s": 0, "cycles_per_message": 0}],
                    [{**bandwidth(5), "average_mb_s": None, "cycles_per_message": None}], [{"test": "x", "mode": "y", "bytes": 5}]):
        text, tree = draw(results)
        assert "nan" not in re.sub("<[^>]*>", "", text).lower() and "inf" not in text, text
        for svg in tree.iter(SVG + "svg"):
            inside(svg)


def test_warnings():
    """Each warning of a result stands in a table at the top, and without any there is none."""
    evil = "<b>&\"waited"
    text, tree = draw([bandwidth(10, round=1, warnings=[evil, "second"]), bandwidth(11, round=2, warnings=[]), latency(5, round=1)])
    table = next(t for t in tree.iter(XHTML + "table") if t.find(XHTML + "caption").text == "Results with warnings")
    lines = [["".join(c.itertext()) for c in tr] for tr in table.iter(XHTML + "tr")][1:]
    assert lines == [["write", "bandwidth", "64", "128", "1", evil], ["write", "bandwidth", "64", "128", "1", "second"]], lines
    assert "1 of 3 results have warnings." in text, text
    assert "warnings" not in draw([bandwidth(10, warnings=[])])[0]


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
