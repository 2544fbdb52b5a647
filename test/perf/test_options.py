#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/weft-perf.md names each option of perftest and qperf, and no option that weft-perf lacks. test_options.py BUILD [CASE...]"""
import os
import re
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
from weft_e2e import Skip, app, main, run  # noqa: E402

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "weft-perf.md")
PERFTEST = [f"ib_{op}_{kind}" for op in ("write", "read", "send", "atomic") for kind in ("bw", "lat")]
NAME = r"(?<![\w-])--?[A-Za-z][\w-]*"


def section(title):
    """The rows of a section of the page: the cells of each."""
    with open(PAGE, encoding="utf-8") as f:
        text = f.read().split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) > 20, rows
    return rows


def names(cells):
    """The options within backquotes."""
    return {name for cell in cells for code in re.findall(r"`([^`]*)`", cell) for name in re.findall(NAME, code)}


def shown(program, *args):
    """What a program prints as help; its exit status differs from version to version."""
    if not shutil.which(program):
        raise Skip(f"{program} is not installed")
    _, out, err = run([program, *args])
    return out + err


def test_perftest():
    """Of an option with a letter and a word one of both is enough."""
    named = names(row[0] for row in section("perftest's options"))
    missing, n = [], 0
    for program in PERFTEST:
        for line in shown(program, "--help").splitlines():
            # "-a, --all  Run ...": the names end at the value, or at the text.
            found = re.match(rf"\s*({NAME}(?:, {NAME})*)(?=[\s=]|$)", line)
            if found:
                n += 1
                missing += [(program, found.group(1))] if not set(found.group(1).split(", ")) & named else []
    assert n > 300 and not missing, (n, missing)


def test_qperf():
    """Of both ends: --loc_X and --rem_X are not named apart, nor is -X1 for -X 1."""
    named = names(row[0] for row in section("qperf's options"))
    options = re.findall(r"^ *--(?!loc_|rem_)(\w+)(?: [\w:]+)?(?: \((-\w+)\))?$", shown("qperf", "--help", "options"), re.M)
    missing = [o for word, letter in options for o in (f"--{word}", letter) if o and o not in named]
    assert len(options) > 35 and not missing, (len(options), missing)
    tests = re.findall(r"^ {4}(\w+) {2,}", shown("qperf", "--help", "tests"), re.M)
    cells = re.findall(r"`([\w*]+)`", " ".join(row[0] for row in section("qperf's options")))
    missing = [t for t in tests if t not in cells and re.sub("_.*", "_*", t) not in cells]
    assert len(tests) > 30 and not missing, (len(tests), missing)


def test_weft_perf():
    """What the second column says that weft-perf has, its help has, too."""
    known = names([f"`{shown(app('weft-perf'), '--help')}`"])
    for title in ("perftest's options", "qperf's options"):
        for row in section(title):
            # "the same" means the names of the first cell.
            want = names([row[0 if row[1].startswith("the same") else 1]]) - {"--attach"}
            assert want <= known, (row, want - known)


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
