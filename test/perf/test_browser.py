#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The page of a sweep in Chromium: nothing overlaps and nothing sticks out, at 1200, 800 and 360 pixels; a screenshot has ink where the
diagram is; paper. Skipped where there is no chromium. Screenshots stay in the folder that WEFT_SHOTS names.
test_browser.py BUILD [CASE...]"""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from perf_docs import bandwidth, latency, write  # noqa: E402
from weft_e2e import BUILD, Skip, main, path, run  # noqa: E402

WIDTHS = (1200, 800, 360)
PAPER = 700  # pixels of CSS between the margins of A4, a little less
# Runs beside the page, which stands in a frame of the width that is asked for. The page itself has no script.
JUDGE = """
const frame = document.querySelector('iframe');
frame.onload = () => {
  const d = frame.contentDocument, bad = [];
  const say = (t) => (t.textContent || t.tagName).slice(0, 40);
  if (d.documentElement.scrollWidth > frame.clientWidth)
    bad.push('the page is ' + d.documentElement.scrollWidth + ' wide');
  for (const svg of d.querySelectorAll('svg')) {
    const box = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map(t => [t, t.getBoundingClientRect()]);
    for (const [t, r] of texts) {
      if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1)
        bad.push('sticks out: ' + say(t));
      if (r.height < 8)
        bad.push('small: ' + say(t) + ' ' + r.height);
      for (const [u, s] of texts)
        if (t !== u && r.left < s.right - 1 && s.left < r.right - 1 && r.top < s.bottom - 2 && s.top < r.bottom - 2)
          bad.push('overlap: ' + say(t) + ' and ' + say(u));
    }
  }
  if (frame.clientWidth >= 700)
    for (const e of d.querySelectorAll('.wide'))
      if (e.scrollWidth > e.clientWidth + 1)
        bad.push('a table is cut off: ' + say(e));
  for (const e of d.querySelectorAll('figcaption, h1, h2, p, .wide')) {
    const r = e.getBoundingClientRect();
    if (r.right > frame.clientWidth + 1)
      bad.push('too wide: ' + say(e));
  }
  document.getElementById('said').textContent = JSON.stringify({bad: bad, diagrams: d.querySelectorAll('svg').length});
};
frame.srcdoc = SOURCE;
"""


def chromium(*args, timeout=120):
    exe = shutil.which("chromium")
    if exe is None:
        raise Skip("there is no chromium: apt-get install -y --no-install-recommends chromium fonts-dejavu-core")
    cmd = [exe, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
           f"--user-data-dir={path('profile')}", *args]
    p = subprocess.run(cmd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)
    assert p.returncode == 0, p.stderr[-2000:]
    return p.stdout


def page(name, results, **more):
    """The file of a page, and its text."""
    rc, out, err = run([os.path.join(BUILD, "test", "perf", "draw_page"), write(f"{name}.json", results, **more)])
    assert rc == 0, err
    with open(path(f"{name}.html"), "w", encoding="utf-8") as f:
        f.write(out)
    return path(f"{name}.html"), out


def pages():
    """Pages that are hard to lay out: many sizes and lines, long names, figures over many decades, one point, a failed sweep."""
    sizes = [2**i for i in range(1, 21)]
    yield "many", [r for k in range(3) for s in sizes for d in (1, 4, 16, 64, 128, 512, 1024, 2048, 4096)
                   for r in (bandwidth(s * d / 10 + 1 + k, size=s, depth=d), latency(3 + s / 1000 + k, size=s))], {}
    yield "long", [bandwidth(1e6 * d * (1 + s / 1e6), size=s, depth=d, test="write-with-a-name-that-is-long", events=True,
                             mix="write:70,read:30")
                   for s in (64, 65, 100, 1000, 1 << 28) for d in (1, 2)], \
        {"complete": False, "sweep": {"plan": "/a/path/" * 30, "done": 2, "runs": 9, "ended": "interrupted"}, "machine": {"cpu": "x" * 300},
         "failed": [{"test": "write", "mode": "latency", "bytes": 64, "depth": 1, "round": 1, "why": "Connection refused " * 9}]}
    yield "wide", [bandwidth(10.0 ** e, size=2 ** (e + 8)) for e in range(-6, 10)], {}
    yield "one", [bandwidth(5), latency(5)], {}


def shot(name, file, width, height):
    """A screenshot: its file."""
    to = os.path.join(os.environ.get("WEFT_SHOTS") or os.path.dirname(file), f"{name}-{width}.png")
    chromium(f"--screenshot={to}", f"--window-size={width},{height}", f"file://{file}")
    return to


def png(file):
    """Width, height, octets a pixel, and rows of a PNG file of eight bits (RFC 2083)."""
    with open(file, "rb") as f:
        data = f.read()
    pos, idat, w, h, kind = 8, b"", 0, 0, 0
    while pos < len(data):
        n, tag = int.from_bytes(data[pos:pos + 4], "big"), data[pos + 4:pos + 8]
        body = data[pos + 8:pos + 8 + n]
        if tag == b"IHDR":
            w, h, kind = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big"), body[9]
            assert body[8] == 8 and body[12] == 0
        elif tag == b"IDAT":
            idat += body
        pos += 12 + n
    px = {0: 1, 2: 3, 6: 4}[kind]
    raw, rows, before = zlib.decompress(idat), [], bytearray(w * px)
    for y in range(h):
        how, row = raw[y * (w * px + 1)], bytearray(raw[y * (w * px + 1) + 1:(y + 1) * (w * px + 1)])
        for i in range(w * px):
            a, b, c = row[i - px] if i >= px else 0, before[i], before[i - px] if i >= px else 0
            if how == 4:
                p = a + b - c
                near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            row[i] = (row[i] + (0, a, b, (a + b) // 2, near if how == 4 else 0)[how]) & 255
        rows.append(row)
        before = row
    return w, h, px, rows


def judged(name, text, width):
    """What the judge finds wrong in a page in a window of this width; the number of diagrams."""
    judge = path(f"judge-{name}-{width}.html")
    source = json.dumps(text).replace("</", "<\\/")
    with open(judge, "w", encoding="utf-8") as f:
        f.write(f"<!DOCTYPE html><meta charset='utf-8'><iframe style='border:0;width:{width}px;height:2000px'></iframe>"
                f"<pre id='said'></pre><script>{JUDGE.replace('SOURCE', source)}</script>")
    dom = chromium("--virtual-time-budget=10000", "--window-size=1300,2000", "--dump-dom", f"file://{judge}")
    said = json.loads(html.unescape(re.search(r'<pre id="said">(.*?)</pre>', dom, re.S).group(1)))
    return said["bad"], said["diagrams"]


def test_layout():
    """Texts of a diagram do not overlap, are inside and large enough, tables are whole, the page fits the window and the paper."""
    for name, results, more in pages():
        _, text = page(name, results, **more)
        for width in (*WIDTHS, PAPER):
            shown = text.replace("@media print", "@media all") if width == PAPER else text
            assert judged(name, shown, width) == ([], text.count("<svg")), (name, width, judged(name, shown, width))


def test_judge():
    """The judge notices what it is for."""
    _, text = page("judged", [bandwidth(5), bandwidth(6), bandwidth(50, size=4096)])
    for change, why in (("font: 13px sans-serif", "font: 26px sans-serif"), ("font: 13px sans-serif", "font: 4px sans-serif"),
                        ("<td>", "<td>" + "m" * 200), ("<h1>", "<h1 style='width: 3000px'>")):
        assert change in text and judged("judged", text.replace(change, why), 800)[0], why


def test_screenshot():
    """What the browser paints: white ground, black text, and the colours of the lines, each of them."""
    for name, results, more in pages():
        file, _ = page(name, results, **more)
        for width in (1200, 800):
            w, h, px, rows = png(shot(name, file, width, 1500))
            assert w == width and h == 1500
            seen = {bytes(row[i:i + 3]) for row in rows[::2] for i in range(0, w * px, px)} if px >= 3 else {b"\0\0\0", b"\xff" * 3}
            assert b"\xff\xff\xff" in seen and b"\0\0\0" in seen, (name, width)
            assert b"\x00\x60\xa0" in seen, (name, width)


def test_paper():
    """Print has neither colour nor ground: the rules for paper, shown on the screen."""
    file, text = page("paper", [bandwidth(s * d, size=s, depth=d) for s in (64, 128, 4096) for d in (1, 2, 4, 8, 16, 32, 64, 128)])
    with open(file, "w", encoding="utf-8") as f:
        f.write(text.replace("@media print", "@media all"))
    w, _, px, rows = png(shot("paper", file, 800, 1200))
    for row in rows[::2]:
        for i in range(0, w * px, px):
            assert px < 3 or max(row[i:i + 3]) - min(row[i:i + 3]) <= 2, (i // px, bytes(row[i:i + 3]))


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
