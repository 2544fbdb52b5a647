#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The page of the metrics in Chromium: it shows what the target does, fits windows of 1200, 800 and 360 pixels, and has colours for light
and dark. Skipped where there is no chromium. Screenshots stay in the folder that WEFT_SHOTS names. test_metrics_page.py BUILD [CASE...]"""
import html
import http.server
import json
import os
import re
import sys
import threading

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "perf"))
from test_browser import chromium, png  # noqa: E402
from test_metrics import Metered, objects, volume, volume_probe  # noqa: E402
from weft_e2e import main, make_file, path  # noqa: E402

WIDTHS = (1200, 800, 360)
# The page stands in a frame of the width that is asked for, from a server of the test's own, which passes its questions on to the target.
JUDGE = """<!DOCTYPE html><meta charset='utf-8'><style>body{margin:0}</style>
<iframe src='/' style='border:0;width:WIDTHpx;height:1600px'></iframe><pre id='said'></pre><script>
const frame = document.querySelector('iframe'), bad = [];
function look() {
  const d = frame.contentDocument;
  if (!(d && d.body && Number(d.body.dataset.turns) >= 2)) { setTimeout(look, 100); return; }
  if (d.documentElement.scrollWidth > frame.clientWidth) bad.push('the page is ' + d.documentElement.scrollWidth + ' wide');
  for (const e of d.querySelectorAll('.card, h1, h2, .wide, footer, header span')) {
    const r = e.getBoundingClientRect();
    if (r.right > frame.clientWidth + 1 || r.left < 0) bad.push('sticks out: ' + e.textContent.slice(0, 40));
    if (!e.classList.contains('wide') && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)
      bad.push('cut off: ' + e.textContent.slice(0, 40));
  }
  const luminance = c => { const [r, g, b] = c.match(/\\d+/g).map(x => { x /= 255;
    return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) { const c = d.defaultView.getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
  for (const e of d.querySelectorAll('td, th, b, small, h1, h2, a, header span, footer')) {
    const a = luminance(d.defaultView.getComputedStyle(e).color), b = luminance(ground(e));
    if ((Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5) bad.push('faint: ' + e.tagName + ' ' + e.textContent.slice(0, 40));
  }
  const out = {};
  for (const t of d.querySelectorAll('.wide')) out[t.id] = [...t.querySelectorAll('tr')].map(r => [...r.cells].map(c => c.textContent));
  out.cards = [...d.querySelectorAll('.card')].map(c => [...c.children].map(x => x.textContent));
  document.getElementById('said').textContent = JSON.stringify({bad: bad, dark: luminance(ground(d.body)) < .5, shown: out,
    what: d.getElementById('what').textContent, gone: d.getElementById('gone').textContent});
}
look();
</script>"""
THEME = {"light": "--blink-settings=preferredColorScheme=1", "dark": "--blink-settings=preferredColorScheme=0"}


class Front:
    """Serves the page, the judge and the target's metrics; `change` is applied to the page."""

    def __init__(self, t, change=lambda s: s):
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path.startswith("/judge"):
                    text = JUDGE.replace("WIDTH", self.path.split("-")[1])
                elif self.path == "/":
                    text = change(t.get("/")[1])
                else:
                    text = t.get("/metrics")[1]
                body = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain" if "metrics" in self.path else "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.at = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=front.server.serve_forever, daemon=True).start()

    def judged(self, width, theme="light"):
        dom = chromium(THEME[theme], "--virtual-time-budget=9000", "--window-size=1300,1700", "--dump-dom", f"{self.at}/judge-{width}")
        found = re.search(r'<pre id="said">(.*?)</pre>', dom, re.S).group(1)
        assert found, "the page has not shown anything twice"
        return json.loads(html.unescape(found))


def busy(name, long=False):
    """A target that has had some clients."""
    names = ("archive-of-the-second-building-012345678", "b") if long else ("a", "b")
    t = Metered(name, objects(name, *names) | volume(name)).start()
    t.push(make_file(f"{name}.src", 3 << 20, 1), names[0])
    volume_probe(t, "v", "order", "5", "3")
    os.rename(path(f"{name}.b"), path(f"{name}.gone"))
    return t


def test_layout():
    """Nothing sticks out or is faint, in each width, light and dark; what is shown is what happened."""
    t = busy("la", long=True)
    front = Front(t)
    for theme in THEME:
        for width in WIDTHS:
            said = front.judged(width, theme)
            assert said["bad"] == [] and said["dark"] == (theme == "dark") and said["gone"] == "", (theme, width, said)
    rows = {r[0]: r for r in said["shown"]["exports"][1:]}
    assert rows["b"][1] == "not served" and rows["v"][1:3] == ["served", "volume"] and rows["v"][3] == "15.0 MiB", rows
    assert said["shown"]["clients"][1][0] == "10.0.0.2" and {r[0] for r in said["shown"]["operations"][1:]} >= {"push", "read", "write"}
    cards = dict(said["shown"]["cards"])
    assert cards["Ready"] == "yes" and cards["Exports served"] == "2 of 3" and cards["Made durable"].endswith("/s"), cards
    assert said["shown"]["ports"][1][0] == "p0" and said["shown"]["workers"][1][0] == "0" and "up" in said["what"], said


def test_judge():
    """The judge notices what it is for."""
    t = busy("ju")
    for old, new, why in (("--dim: #5a5a5a", "--dim: #c8c8c8", "faint"), ("overflow-x: auto", "overflow-x: visible", "wide"),
                          ("max-width: 1200px", "width: 1400px", "sticks out")):
        assert old in t.get("/")[1]
        said = Front(t, lambda s, o=old, n=new: s.replace(o, n)).judged(360)
        assert any(why in b for b in said["bad"]), (why, said["bad"])


def test_screenshot():
    """What the browser paints, from the target itself: the rules that the target sends with the page let it work."""
    t = busy("sc")
    for theme, ground in (("light", (255, 255, 255)), ("dark", (20, 23, 26))):
        for width in (1200, 800, 500):
            to = os.path.join(os.environ.get("WEFT_SHOTS") or os.path.dirname(t.conf), f"metrics-{theme}-{width}.png")
            chromium(THEME[theme], "--virtual-time-budget=5000", f"--screenshot={to}", f"--window-size={width},1500",
                     f"http://127.0.0.1:{t.http}/")
            w, h, px, rows = png(to)
            assert w == width and h == 1500 and px >= 3
            assert tuple(rows[h - 1][:3]) == ground, rows[h - 1][:3]
            ink = sum(1 for row in rows[::3] for i in range(0, w * px, px) if tuple(row[i:i + 3]) != ground)
            assert ink > 2000, ink
            good = (11, 107, 43) if theme == "light" else (95, 211, 138)
            assert any(tuple(row[i:i + 3]) == good for row in rows for i in range(0, w * px, px)), "no word is green: nothing was shown"


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_") and callable(v)])
