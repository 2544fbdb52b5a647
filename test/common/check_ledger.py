#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The conformance ledger holds together: check_ledger.py SRC BUILD. Prints TAP.

1. Every test that docs/conformance.md and docs/conformance/*.md name exists, and no reading stands twice. A test
   is named `program:case` or `program` in backquotes in the last cell of a row, the program without its test_
   prefix; those of test/e2e are `e2e_name:case`, Python ones of test/access `access_name:case`.
2. Every entry of test/conform/index.tsv has one row in its document's ledger, and every row an entry;
   both say the same in keyword and paraphrase, and no paraphrase is missing.
3. Each of those rows says how the rule stands: by tests with their case, or by one of WORDS and a reason.
"""
import glob
import os
import re
import subprocess
import sys

WORDS = ("DEVIATION:", "open:", "not ours:", "left out:", "no demand:")
REASON_MIN_CHARS = 12

src, build = sys.argv[1:3]
sys.path.insert(0, os.path.join(src, "test", "conform"))
sys.dont_write_bytecode = True
import rules  # noqa: E402

docs = os.path.join(src, "docs")
files = ["conformance.md"] + sorted(os.path.join("conformance", n) for n in os.listdir(rules.LEDGER)
                                    if n.endswith(".md"))
NAME = re.compile(r"`([a-z0-9_]+(?::[^`]+)?)`")
faults = []
cases = {}


def exists(name):
    """Whether the build has this test."""
    prog, _, case = name.partition(":")
    exe = os.path.join(build, "test", "test_" + prog)
    if not os.path.exists(exe):  # those that meson.build of a folder makes itself
        exe = next(iter(glob.glob(os.path.join(build, "test", "*", "test_" + prog))), exe)
    folder, _, script = prog.partition("_")
    script = os.path.join(src, "test", folder, f"test_{script}.py")
    if prog not in cases and folder in ("e2e", "access") and os.path.exists(script):
        with open(script, encoding="utf-8") as f:
            cases[prog] = re.findall(r"^def test_(\w+)\(", f.read(), re.M)
    if prog not in cases:
        cases[prog] = (subprocess.run([exe, "--list"], capture_output=True, text=True).stdout.splitlines()
                       if os.path.exists(exe) else None)
    return cases[prog] is not None and (not case or case in cases[prog])

HEADS = ("#", "rule", "topic")  # first cells of the tables' headings


def result(number, text):
    """One TAP line, after what is wrong."""
    for fault in faults:
        print("# " + fault)
    print(f"{'not ok' if faults else 'ok'} {number} {text}")
    bad = bool(faults)
    faults.clear()
    return bad


named = 0
for path in files:
    with open(os.path.join(docs, path), encoding="utf-8") as f:
        rows = [r for r in f if r.startswith("|") and not re.match(r"\|[-|]+\|?$", r)]
    topics = [r.split("|")[1].strip() for r in rows if path == "conformance.md"]
    for topic in sorted({t for t in topics if t not in HEADS and not t.isdigit() and topics.count(t) > 1}):
        faults.append(f"docs/{path}: two rows about {topic}")
    for row in rows:
        for name in NAME.findall(row.rsplit("|", 2)[-2]):
            named += 1
            if not exists(name):
                faults.append(f"docs/{path}: no such test: {name}")
if named == 0:
    faults.append("no test is named at all")
failed = result(1, f"the ledger names {named} tests, all of which exist")

index = rules.read_index()
entries = {(e["document"], e["section"], e["ordinal"]): e for e in index}
ledger = {}
for document in rules.DOCUMENTS:
    for (section, ordinal), cells in rules.ledger_rows(document)[1].items():
        ledger[document, section, ordinal] = cells
if len(entries) != len(index):
    faults.append("index.tsv names a place twice")
for document in {*rules.DOCUMENTS} - {e["document"] for e in index}:
    faults.append(f"index.tsv has nothing of {document}")
for place, e in entries.items():
    where = "{} section {} rule {}".format(*place)
    if not e.get("paraphrase"):
        faults.append(f"{where}: no paraphrase")
    elif place not in ledger:
        faults.append(f"{where}: no row in {os.path.relpath(rules.ledger_file(place[0]), src)}")
    elif ledger[place][:2] != (e["keywords"], e["paraphrase"]):
        faults.append(f"{where}: ledger and index differ in keyword or paraphrase")
faults += ["{} section {} rule {}: a row without an entry in index.tsv".format(*p) for p in ledger
           if p not in entries]
failed |= result(2, f"{len(entries)} rules are indexed, each with its row")

stand = {"tests": 0} | {w: 0 for w in WORDS}
for place, (_, _, standing) in ledger.items():
    where = "{} section {} rule {}".format(*place)
    word = next((w for w in WORDS if standing.startswith(w)), None)
    names = NAME.findall(standing)
    if word and len(standing) - len(word) < REASON_MIN_CHARS:
        faults.append(f"{where}: {word} without a reason")
    elif not word and not names:
        faults.append(f"{where}: neither a test nor one of {', '.join(WORDS)}")
    faults += [f"{where}: {n} names no case" for n in names if ":" not in n]
    stand[word or "tests"] += 1
failed |= result(3, "how they stand: " + ", ".join(f"{n} {w.rstrip(':')}" for w, n in stand.items()))
print("1..3")
sys.exit(failed)
