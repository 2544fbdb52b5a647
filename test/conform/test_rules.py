#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rules.py and check_ledger.py on a repository and texts made for this test: test_rules.py SRC. TAP."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SRC = sys.argv[1]
TEXT = """\
Table of Contents

   1. Nothing that MUST be found ........ 1

1.  Introduction

   The key words "MUST" and "SHOULD" are to be interpreted as described in [RFC2119].

   A sender MUST do this.  It may do that, e.g. The Other Thing, and SHOULD NOT
   do what goes on over
{page}   the page.  Nothing is asked here.  See Section 2. It MUST end here.

2.1  A Heading without its dot

   +-------+
   | MUST  |
   +-------+

   The receiver SHOULD:

   *  do the first thing,

   *  which MUST be second.

   And this is RECOMMENDED.
"""
PAGE = "\n\n\nNobody                        Standards Track                     [Page 1]\n\f\n" \
       "RFC 9999                       No Protocol                    October 2007\n\n\n"
SOURCE = """\
/* As commented(void)
 * says. */
#define MACRO 1

struct thing {
	int a;
};

extern const int elsewhere[2];
static const int table[] = {1, 2};
int declared(int a);

static inline int
inlined(void)
{
	return called(table[0] == 1);
}

int
toy(int a,
    int b)
{
	return a + b;
}
"""
n = 0
bad = 0


def check(what, cond):
    """Print one TAP line."""
    global n, bad
    n += 1
    bad += not cond
    print(f"{'ok' if cond else 'not ok'} {n} {what}")


def run(*command):
    """Run a Python program of the copy. Returns its status and output."""
    r = subprocess.run([sys.executable, "-B", *command], capture_output=True, text=True)
    return r.returncode, r.stdout + r.stderr


with tempfile.TemporaryDirectory() as top:
    def path(*parts):
        """A path in the copy."""
        return os.path.join(top, *parts)

    def write(text, *parts):
        """Write a file of the copy."""
        os.makedirs(os.path.dirname(path(*parts)), exist_ok=True)
        with open(path(*parts), "w", encoding="utf-8") as f:
            f.write(text)

    def read(*parts):
        """Read a file of the copy."""
        with open(path(*parts), encoding="utf-8") as f:
            return f.read()

    for part in ("test/conform/rules.py", "test/common/check_ledger.py"):
        os.makedirs(os.path.dirname(path(part)), exist_ok=True)
        shutil.copy(os.path.join(SRC, part), path(part))
    rules, ledger = path("test/conform/rules.py"), path("test/common/check_ledger.py")
    sys.path.insert(0, os.path.dirname(rules))
    sys.dont_write_bytecode = True
    from rules import DOCUMENTS, ledger_file  # noqa: E402
    for document in DOCUMENTS:
        write(TEXT.format(page=PAGE), "texts", document + ".txt")
    doc = DOCUMENTS[0]
    write("#!/bin/sh\necho 'case one'\n", "build/test/test_prog")
    os.chmod(path("build/test/test_prog"), 0o755)
    write(SOURCE, "lib/toy/toy.c")
    write("int\ntwice(void)\n{\n}\n", "lib/toy/same.c")
    write("int\ntwice(void)\n{\n}\n", "apps/toy/same.c")
    other = "| rule | code | shown by |\n|---|---|---|\n| one | `toy.c:toy` | `prog` |\n"
    write(other, "docs/conformance.md")
    guide = "| question | answer | code | more |\n|---|---|---|---|\n" + "| where? | there | `toy.c:toy` | |\n" * 60
    write(guide, "docs/internals/where.md")
    write("| step | file | function |\n|---|---|---|\n| it runs | `lib/toy/toy.c` | `toy()` |\n", "docs/architecture.md")

    status, out = run(rules, "--show", path("texts", doc + ".txt"))
    found = [line.split("\t")[1:] for line in out.splitlines() if line.startswith(doc)]
    check("sentences, their sections and ordinals", [f[:2] for f in found] == [
        ["1", "1"], ["1", "2"], ["1", "3"], ["2.1", "1"], ["2.1", "2"], ["2.1", "3"]])
    check("a sentence goes on over the page, and past an abbreviation", found[1][2].endswith("over the page."))
    check("a section number does not join two sentences", found[2][2] == "It MUST end here.")
    check("a list is part of the sentence before it", found[3][2].endswith("first thing, / * which MUST be second."))
    check("a figure with a keyword is said", "a figure with a keyword is left out" in out)

    status, out = run(rules, path("texts"))
    check("all is new", out.count("new: ") == 6 * len(DOCUMENTS))
    check("the ledger fails without paraphrases", run(ledger, top, path("build"))[0] != 0)
    lines = read("test/conform/index.tsv").splitlines()
    write("\n".join(line + f"ours {i}" if "\t" in line and i > 2 else line for i, line in enumerate(lines)) + "\n",
          "test/conform/index.tsv")
    run(rules, path("texts"))
    for document in DOCUMENTS:
        md = read(os.path.relpath(ledger_file(document), top))
        write(re.sub(r"\|  \|  \|$", "| `toy.c:toy` | `prog:case one` |", md, flags=re.M), os.path.relpath(ledger_file(document), top))
    status, out = run(ledger, top, path("build"))
    check("the ledger holds when all is written", status == 0)
    for page, text in (("internals/where.md", guide + "| where? | there | `toy.c:none` | |\n"),
                       ("architecture.md", "| it runs | `lib/toy/toy.c` | `none()` |\n")):
        was = read("docs", page)
        write(text, "docs/" + page)
        check(f"the ledger refuses {page} with a function that does not exist", run(ledger, top, path("build"))[0] != 0)
        write(was, "docs/" + page)
    check("a second run changes nothing", run(rules, "--check", path("texts"))[0] == 0)
    good = read("docs/conformance", doc + ".md")

    for what, old, new in (("a test that does not exist", "`prog:case one`", "`prog:case two`"),
                           ("a program that does not exist", "`prog:case one`", "`gone:case one`"),
                           ("a test without its case", "`prog:case one`", "`prog`"),
                           ("a deviation without a reason", "`prog:case one`", "DEVIATION:"),
                           ("an open rule without a reason", "`prog:case one`", "open:"),
                           ("nothing that is said", "`prog:case one`", "it is so"),
                           ("a function that does not exist", "`toy.c:toy`", "`toy.c:toys`"),
                           ("one among several that does not exist", "`toy.c:toy`", "`toy.c:toy`, `toy.c:toys`"),
                           ("a function that is declared there", "`toy.c:toy`", "`toy.c:declared`"),
                           ("a function that is called there", "`toy.c:toy`", "`toy.c:called`"),
                           ("a function that a comment names", "`toy.c:toy`", "`toy.c:commented`"),
                           ("a table that is another file's", "`toy.c:toy`", "`toy.c:elsewhere`"),
                           ("a file that does not exist", "`toy.c:toy`", "`tin.c:toy`"),
                           ("a name that several files have", "`toy.c:toy`", "`same.c:twice`"),
                           ("words in place of code", "`toy.c:toy`", "`toy.c:toy` mostly"),
                           ("no code for a rule that is obeyed", "`toy.c:toy`", "-"),
                           ("another paraphrase", "ours 3", "theirs")):
        write(good.replace(old, new, 1), "docs/conformance", doc + ".md")
        check("the ledger refuses " + what, run(ledger, top, path("build"))[0] != 0)
    write(good.replace("`toy.c:toy`", "`tin.c:toy`", 1), "docs/conformance", doc + ".md")
    check("of code that moved it is said where it is",
          "toy is in " + os.path.join("lib", "toy", "toy.c") in run(ledger, top, path("build"))[1])
    for what, new in (("a table", "`toy.c:table`"), ("a macro", "`toy.c:MACRO`"), ("a structure", "`toy.c:thing`"),
                      ("a file by the end of its path", "`apps/toy/same.c:twice`"),
                      ("several", "`toy.c:toy`, `toy.c:inlined`")):
        write(good.replace("`toy.c:toy`", new, 1), "docs/conformance", doc + ".md")
        check("code may be " + what, run(ledger, top, path("build"))[0] == 0)
    write(good.replace("`prog:case one`", "not ours: for a reason that is told", 1), "docs/conformance", doc + ".md")
    check("the ledger refuses code for a rule that is not ours", run(ledger, top, path("build"))[0] != 0)
    write(good.replace("`toy.c:toy` | `prog:case one`", "- | not ours: for a reason that is told", 1),
          "docs/conformance", doc + ".md")
    check("a rule that is not ours is well without code", run(ledger, top, path("build"))[0] == 0)
    write(good, "docs/conformance", doc + ".md")
    for what, old, new in (("a table without code", " code |", " |"), ("a row without code", "`toy.c:toy`", ""),
                           ("a row with a cell too few", " `toy.c:toy` |", "")):
        write(other.replace(old, new), "docs/conformance.md")
        check("the ledger refuses " + what + " among the readings", run(ledger, top, path("build"))[0] != 0)
    write(other, "docs/conformance.md")
    rows = good.splitlines(keepends=True)
    write("".join(rows[:-1]), "docs/conformance", doc + ".md")
    check("the ledger refuses an entry without a row", run(ledger, top, path("build"))[0] != 0)
    write(good + rows[-1].replace("| 3 |", "| 4 |"), "docs/conformance", doc + ".md")
    check("the ledger refuses a row without an entry", run(ledger, top, path("build"))[0] != 0)
    write(good.replace("`prog:case one`", "DEVIATION: for a reason that is told"), "docs/conformance", doc + ".md")
    check("a deviation with a reason is well", run(ledger, top, path("build"))[0] == 0)
    write(good.replace("`toy.c:toy` | `prog:case one`", "- | open: what will be built", 1), "docs/conformance", doc + ".md")
    status, out = run(ledger, top, path("build"))
    check("an open rule with a reason is well, and counted", status == 0 and ", 1 open," in out)
    write(good.replace("`toy.c:toy` | `prog:case one`", "- | open: built but for `prog:case two`", 1), "docs/conformance", doc + ".md")
    check("a test that an open rule names exists", run(ledger, top, path("build"))[0] != 0)
    write(good.replace("`prog:case one`", "DEVIATION: for a reason that is told"), "docs/conformance", doc + ".md")

    # the text changes: one sentence is inserted, one changed, one removed
    text = TEXT.format(page="").replace("   A sender MUST", "   First it MUST be.  A sender MUST")
    text = text.replace("And this is RECOMMENDED.", "That is all.").replace("MUST end here", "SHALL end here")
    write(text, "texts", doc + ".txt")
    before = read("test/conform/index.tsv") + read("docs/conformance", doc + ".md")
    status, out = run(rules, "--check", path("texts"))
    check("a change is said, and nothing written",
          status == 1 and before == read("test/conform/index.tsv") + read("docs/conformance", doc + ".md"))
    run(rules, path("texts"))
    md = read("docs/conformance", doc + ".md")
    check("what moved keeps its words and its row", "| 1 | 2 | MUST | ours 3 | `toy.c:toy` | DEVIATION:" in md)
    check("what is new is empty", re.search(r"\| 1 \| 1 \| MUST \|  \|  \|  \|", md) is not None)
    check("new, moved, gone", all(w in out for w in ("new: ", "moved: ", "gone: ")))
    check("what is gone leaves no row", "| 2.1 | 3 |" not in md)
print(f"1..{n}")
sys.exit(bad != 0)
