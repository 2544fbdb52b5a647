#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every test program below test/ is one that `meson test` runs: check_run.py SRC BUILD. Prints TAP."""
import glob
import json
import os
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
print("1..1")
sys.exit(not programs or bool(forgotten))
