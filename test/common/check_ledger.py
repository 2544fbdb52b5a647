#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The conformance ledger is consistent: check_ledger.py SRC BUILD. Prints TAP.

1. Every test that docs/conformance.md and docs/conformance/*.md name exists, and no reading occurs twice. A test is
   named `program:case` or `program` in backquotes in the last cell of a row, the program without its test_ prefix. Those
   of test/e2e are `e2e_name:case`, Python ones of test/access `access_name:case`.
2. Every entry of test/conform/index.tsv has one row in its document's ledger, and every row has an entry. Both have the
   same keyword and paraphrase, and no paraphrase is missing.
3. Each of those rows gives the state of the rule: tests with their case, or one of WORDS and a reason.
4. The cell before the last of each row names the code that obeys the rule, as `file.c:name`: a function, table, macro or
   structure that this file of lib, apps or drivers defines. The file is named by its base name or, if several files have
   that, by the end of its path. The cell is "-" where WITHOUT_CODE says that there is no such code.
5. The functions in the tables of docs/internals/where.md, and those in the tables of steps of docs/architecture.md, exist
   in the files that the rows name.
"""
import glob
import os
import re
import subprocess
import sys

WORDS = ("DEVIATION:", "open:", "not ours:", "left out:", "no demand:")
WITHOUT_CODE = ("open:", "not ours:", "left out:", "no demand:")
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
    if not os.path.exists(exe):  # tests that meson.build of a folder creates
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


SOURCES = {}  # path of each source -> the names that it defines
DEFINITION = re.compile(
    r"^(?P<function>[a-zA-Z_]\w*)\((?P<rest>[^;{]*)\{"  # the type is on the line before
    r"|^#define[ \t]+(?P<macro>\w+)"
    r"|^(?:typedef )?(?:struct|enum|union) (?P<type>\w+)\s*\{"
    r"|^(?!extern\b)[a-z_][\w \t*]*?\b(?P<table>\w+)(?:\[[^\]\n]*\])*\s*=\s*[^=]", re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
for folder in ("lib", "apps", "drivers"):
    for top, _, names in os.walk(os.path.join(src, folder)):
        for n in names:
            if n.endswith((".c", ".h")):
                with open(os.path.join(top, n), encoding="utf-8") as f:
                    text = COMMENT.sub(" ", f.read())
                SOURCES[os.path.relpath(os.path.join(top, n), src)] = {
                    m[m.lastgroup] if m.lastgroup != "rest" else m["function"] for m in DEFINITION.finditer(text)}
CODE = re.compile(r"`([\w./-]+\.[ch]):(\w+)`")


def code_faults(cell, may_lack):
    """The faults of the cell that names code."""
    if cell == "-":
        return [] if may_lack else ["names no code"]
    found = CODE.findall(cell)
    wrong = [] if found and not CODE.sub("", cell).strip(" ,") else [f"not a list of `file.c:name`: {cell!r}"]
    for name, symbol in found:
        paths = [p for p in SOURCES if p == name or p.endswith("/" + name)]
        moved = ", ".join(sorted(p for p in SOURCES if symbol in SOURCES[p]))  # helps to find the code that moved
        moved = f" ({symbol} is in {moved})" if moved else ""
        if len(paths) != 1:
            wrong.append(f"{name} is {'no file' if not paths else 'several files'} of lib, apps and drivers{moved}")
        elif symbol not in SOURCES[paths[0]]:
            wrong.append(f"{paths[0]} does not define {symbol}{moved}")
    return wrong


HEADS = ("#", "rule", "topic")  # first cells of the tables' headings


def result(number, text):
    """Print one TAP line after the faults."""
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
for place, (_, _, _, standing) in ledger.items():
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

coded = 0
for place, (_, _, code, standing) in ledger.items():
    where = "{} section {} rule {}".format(*place)
    faults += [f"{where}: {w}" for w in code_faults(code, standing.startswith((*WITHOUT_CODE, "DEVIATION:")))]
    if standing.startswith(WITHOUT_CODE) and code != "-":
        faults.append(f"{where}: code of a rule that binds none of it")
    coded += len(CODE.findall(code))
for path in files:
    with open(os.path.join(docs, path), encoding="utf-8") as f:
        lines = f.read().split("\n")
    table = None  # the heading's cells
    for line in lines:
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            table = None
        elif table is None:
            table = cells
            if table[-2:-1] != ["code"]:
                faults.append(f"docs/{path}: a table without the column `code`: {line}")
        elif not line.startswith("|--") and table[:2] != ["section", "rule"]:  # these rows were checked above
            if len(cells) != len(table):
                faults.append(f"docs/{path}: {len(cells)} cells under {len(table)}: {line[:60]}")
            none = any(c.startswith((*WITHOUT_CODE, "left out", "DEVIATION: none")) for c in cells)
            faults += [f"docs/{path}: {cells[0]}, {cells[1][:40]}: {w}" for w in code_faults(cells[-2], none)]
            coded += len(CODE.findall(cells[-2]))
failed |= result(4, f"{coded} places in the code are named, each of which exists")
guided = 0
with open(os.path.join(docs, "internals", "where.md"), encoding="utf-8") as f:
    for cells in ([c.strip() for c in line.strip().strip("|").split("|")] for line in f if line.startswith("|")):
        if len(cells) == 4 and cells[2] != "code" and not cells[0].startswith("-"):
            faults += [f"docs/internals/where.md: {cells[0]}: {w}" for w in code_faults(cells[2], False)]
            guided += len(CODE.findall(cells[2]))
with open(os.path.join(docs, "architecture.md"), encoding="utf-8") as f:
    for cells in ([c.strip() for c in line.strip().strip("|").split("|")] for line in f if line.startswith("|")):
        if len(cells) == 3:
            defined = set().union(*(SOURCES.get(p, ()) for p in re.findall(r"`((?:lib|drivers)/[\w/]+\.[ch])`", cells[1])))
            for function in re.findall(r"`(\w+)\(\)`", cells[2]) if defined else ():
                guided += 1
                if function not in defined:
                    faults.append(f"docs/architecture.md: {cells[0]}: {cells[1]} does not define {function}")
if guided < 60:
    faults.append(f"only {guided} functions are named")
failed |= result(5, f"{guided} functions of the guide and the architecture page exist")
print("1..5")
sys.exit(failed)
