#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every test program below test/ is one that `meson test` runs, and so is each case of one that suites share:
check_run.py SRC BUILD. Prints TAP."""
import collections
import glob
import json
import os
import re
import sys

src, build = sys.argv[1:3]


def built(what):
    """Meson's list of the build's tests, or of its targets."""
    with open(os.path.join(build, "meson-info", f"intro-{what}.json"), encoding="utf-8") as f:
        return json.load(f)


run = {os.path.realpath(os.path.join(build, word)) for t in built("tests") for word in t["cmd"]}
run |= {os.path.realpath(s) for t in built("targets") if {os.path.realpath(f) for f in t["filename"]} & run
        for part in t["target_sources"] for s in part.get("sources", ())}
programs = [p for what in ("test_*.c", "test_*.py", "run_*.py")
            for p in glob.glob(os.path.join(src, "test", "**", what), recursive=True)]
forgotten = [os.path.relpath(p, src) for p in sorted(programs) if os.path.realpath(p) not in run]
for p in forgotten:
    print(f"# {p}: in no suite")
print(f"{'ok' if programs and not forgotten else 'not ok'} 1 {len(programs)} test programs, each of which is run")
# A program whose runs name cases: each case is in one of them. A name stands for all that begin with it.
named = collections.defaultdict(list)
for t in built("tests"):
    for n, word in enumerate(t["cmd"]):
        if word.endswith(".py") and word.startswith(os.path.realpath(src)) and t["suite"] != ["weft:quick"]:
            named[word].append(t["cmd"][n + 2:])
lost = []
for program, runs in named.items():
    if all(runs):
        with open(program, encoding="utf-8") as f:
            cases = re.findall(r"^def test_(\w+)", f.read(), re.M)
        lost += [f"{os.path.relpath(program, src)}: {c}" for c in cases if sum(
            any(c.startswith(w) for w in words) for words in runs) != 1]
for c in lost:
    print(f"# {c}: in no run, or in two")
print(f"{'not ok' if lost else 'ok'} 2 each case of a program that suites share")
print("1..2")
sys.exit(not programs or bool(forgotten or lost))
