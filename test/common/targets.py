#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What has to be built before the tests of some suites can run: targets.py BUILD SUITE...

Prints ninja's names of the targets, one a line.
"""
import json
import os
import sys

build, suites = sys.argv[1], set(sys.argv[2:])


def known(what):
    """Meson's list of the build's tests, or of its targets."""
    with open(os.path.join(build, "meson-info", f"intro-{what}.json"), encoding="utf-8") as f:
        return json.load(f)


top = os.path.realpath(build)
targets = {t["id"]: t for t in known("targets")}
# Scripts run the programs by their paths and install the library, which meson does not know.
apps = {n for n, t in targets.items() if t["installed"] or
        t["type"] == "executable" and os.path.relpath(t["filename"][0], top).startswith("apps/")}
wanted = set()
for t in known("tests"):
    of_test = {s.split(":")[-1] for s in t["suite"]}
    if suites & of_test:
        wanted.update(t["depends"])
        # The rules of lint read only sources.
        if any(word.endswith((".py", ".sh")) for word in t["cmd"]) and "lint" not in of_test:
            wanted |= apps
print("\n".join(sorted(os.path.relpath(f, top) for n in wanted for f in targets[n]["filename"])))
