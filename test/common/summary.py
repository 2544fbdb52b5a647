#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Count TAP cases in meson's test logs: summary.py BUILD_FAILURES NAME=LOG.json ...

Prints failed programs (with the end of their output) and skipped cases (with their reason), then every failed case once
more with what it said, then the one line that is counted: who sees only the end of a log still sees what failed. A
program that was killed without a failed case is one failure. A case that is to do (TAP's TODO) counts as skipped.
"""
import json
import os
import re
import sys


def said(out):
    """The lines of each failed case: its own, and the comments around it, which are at most ten before and ten after."""
    rows, cases = out.splitlines(), []
    for i, row in enumerate(rows):
        if re.match(r"not ok\b", row) and not re.search(r"# TODO", row, re.I):
            first = last = i
            while first > 0 and i - first < 10 and rows[first - 1].startswith("#"):
                first -= 1
            while last + 1 < len(rows) and last - i < 10 and rows[last + 1].startswith("#"):
                last += 1
            cases.append(rows[first:last + 1])
    return cases


def main():
    failed = int(sys.argv[1])
    again = []
    passed = skipped = 0
    for arg in sys.argv[2:]:
        suite, path = arg.split("=", 1)
        if not os.path.exists(path):
            print(f"-- FAILED: {suite}: no test was run")
            failed += 1
            continue
        n_suite = 0
        with open(path) as f:
            for line in f:
                t = json.loads(line)
                out = t.get("stdout") or ""
                ok = bad = skip = 0
                for row in out.splitlines():
                    if m := re.match(r"not ok\b(.*?)# TODO\s*(.*)", row, re.I):
                        skip += 1
                        print(f"-- to do: {suite}/{t['name']}:{m.group(1)}: {m.group(2)}")
                    elif re.match(r"not ok\b", row):
                        bad += 1
                    elif m := re.match(r"ok\b(.*?)# SKIP\s*(.*)", row, re.I):
                        skip += 1
                        print(f"-- skipped: {suite}/{t['name']}:{m.group(1)}: {m.group(2)}")
                    elif m := re.match(r"1\.\.0\s*# SKIP\s*(.*)", row, re.I):
                        skip += 1
                        print(f"-- skipped: {suite}/{t['name']}: {m.group(1)}")
                    elif re.match(r"ok\b", row):
                        ok += 1
                if t["result"] not in ("OK", "SKIP", "EXPECTEDFAIL") and bad == 0:
                    bad = 1
                if bad:
                    print(f"-- FAILED: {suite}/{t['name']} ({t['result']}, {t['duration']:.1f} s)")
                    for row in (out + (t.get("stderr") or "")).splitlines()[-80:]:
                        print("   " + row)
                    again += [(f"{suite}/{t['name']}", rows) for rows in said(out)] or [(f"{suite}/{t['name']}", [])]
                passed += ok
                failed += bad
                skipped += skip
                n_suite += ok + bad + skip
        print(f"-- {suite}: {n_suite} cases")
    for name, rows in again:
        print(f"-- {name} failed" + (":" if rows else ""))
        for row in rows:
            print("   " + row)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed == 0 else 0


sys.exit(main())
