#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every test that docs/conformance.md names must exist: check_ledger.py SRC BUILD. Prints TAP.

A test is named `program:case` or `program` in backquotes, the program without its test_ prefix.
"""
import os
import re
import subprocess
import sys

src, build = sys.argv[1:3]
with open(os.path.join(src, "docs", "conformance.md")) as f:
    text = f.read()
rows = [r for r in text.splitlines() if r.startswith("|") and not re.match(r"\|[-|]+\|?$", r)]
cases = {}
named = missing = 0
for row in rows:
    for name in re.findall(r"`([a-z0-9_]+(?::[^`]+)?)`", row.rsplit("|", 2)[-2]):
        prog, _, case = name.partition(":")
        exe = os.path.join(build, "test", "test_" + prog)
        if prog not in cases:
            cases[prog] = (subprocess.run([exe, "--list"], capture_output=True, text=True).stdout.splitlines()
                           if os.path.exists(exe) else None)
        named += 1
        if cases[prog] is None or (case and case not in cases[prog]):
            missing += 1
            print(f"# no such test: {name}")
print(f"{'not ok' if missing or named == 0 else 'ok'} 1 the ledger names {named} tests, {missing} of them unknown")
print("1..1")
sys.exit(1 if missing or named == 0 else 0)
