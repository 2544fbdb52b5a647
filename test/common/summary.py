#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Count TAP cases in meson's test logs: summary.py BUILD_FAILURES NAME=LOG.json ...

Prints failed cases (with their output) and skipped cases (with their reason), then the one line that is counted. A
program that was killed without a failed case is one failure. A case that is to do (TAP's TODO) counts as skipped.
"""
import json
import os
import re
import sys


def main():
    failed = int(sys.argv[1])
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
                passed += ok
                failed += bad
                skipped += skip
                n_suite += ok + bad + skip
        print(f"-- {suite}: {n_suite} cases")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed == 0 else 0


sys.exit(main())
