#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of lint.py: each rule finds each violation, with file and line. check_lint.py prints TAP.

A small repository in a temporary directory keeps every rule. The tests plant one violation at a time in it.
"""
import os
import shutil
import subprocess
import sys
import tempfile

SRC = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONFIGURATION = (".clang-format", ".codespellrc", ".flake8", ".githooks/pre-commit",
                 "test/lint/lint.py", "test/lint/circles.py", "test/lint/exports.py", "test/lint/links.py", "test/lint/rooms.py",
                 "test/lint/tree.py", "test/lint/unused.py")
# In two pieces, because the rules look at this file, too.
MISSPELLED = "rec" + "ieve"
BUILTIN = "__atomic" + "_load_n"
WIDE = "/* " + "w " * 50 + "*/\n"
CALLS = "int {}(int x);\n\nint\n{}(int x)\n{{\n\treturn {}(x);\n}}\n"
EXCEPTIONS = "".join(f"{row} it is older than the rule\n" for row in (
    "# known", "headers 310 lib/a/known.h", "width 2 lib/a/wide.c", "atomics 1 lib/a/old.c", "circles 2 drivers/d"))
CLEAN = {
    "README.md": "# Small\n\nSee [the guide](docs/guide.md#two-words) and `lib/a/a.c`.\n\n## Below\n\n[up](#small)\n",
    "LICENSE": "free\n",
    "docs/guide.md": "# Guide\n\n## Two words\n\nText, `lib/{a,b}`, `lib/*/meson.build`, `lib/LAYER/x`, [back](../README.md).\n",
    "docs/architecture.md": "## Layers\n\n```\nb -> a\na ->\n```\n",
    "lib/meson.build": "rooms = ['a', 'b']\n",
    "lib/a/meson.build": "uses = []\nheaders = ['a.h']\n",
    "lib/a/weft_a.h": "int i;\n",
    "lib/include/weft/b.h": "/** weft_old() */\nint weft_b(int x);\n"
                            "static inline int\nweft_c(int x)\n{\n\treturn weft_b(x);\n}\n",
    "lib/weft.map": "{\nglobal:\n\tweft_b;\n\tsendmsg;\nlocal:\n\t*;\n};\n",
    "lib/include/weft/long.h": "int x;\n" * 400 + "int installed;\n",
    "lib/a/priv.h": "int x;\n" * 299 + "int enough;\n",
    "lib/a/known.h": "int x;\n" * 309 + "int old;\n",
    "lib/a/a.c": "int\na(int x)\n{\n\treturn x;\n}\n",
    "lib/a/wide.c": WIDE + WIDE,
    "lib/a/old.c": f"int\no(int *x)\n{{\n\treturn {BUILTIN}(x, 0);\n}}\n",
    "lib/b/meson.build": "uses = ['a']\nheaders = ['b.h']\n",
    "lib/b/b.c": "#include \"weft_a.h\"\n#include <weft/a.h>\n#include <weft/b.h>\n",
    "apps/p/p.h": "struct p_ops {\n\tint (*up)(int x);\n};\n\nint up(int x);\n\nstatic inline int\nhigher(int x)\n{\n\treturn up(x);\n}\n",
    "apps/p/up.c": CALLS.format("down", "up", "down") + "\nconst struct p_ops up_ops = {.up = up};\n",
    "apps/p/down.c": "#include \"p.h\"\n\nint\ndown(int x)\n{\n\tconst struct p_ops *o = 0; /* up(x) */\n\n\treturn lowest(o->up(x));\n}\n",
    "apps/p/other.c": "static int\nup(int x)\n{\n\treturn x;\n}\n\nint\nother(void)\n{\n\treturn up(1);\n}\n",
    "apps/p/main.c": "int\nmain(void)\n{\n\treturn a(1) + o(0) + first(2);\n}\n",
    "drivers/d/one.c": CALLS.format("two", "one", "two") + CALLS.format("three", "first", "three"),
    "drivers/d/two.c": CALLS.format("one", "two", "one"),
    "test/d/one.c": CALLS.format("two", "one", "two"),
    "test/d/two.c": CALLS.format("one", "two", "one"),
    "test/a.c": f"int\nt(int *x)\n{{\n\treturn {BUILTIN}(x, 0);\n}}\n",
    "test/one.py": "print(1)\n",
    "test/two": "#!/usr/bin/env python3\nprint(2)\n",
    "test/run": "#!/usr/bin/env bash\necho \"$1\"\n",
    "test/fuzz/corpus/a/seed": MISSPELLED + " \nno newline",
    "test/lint/exceptions": EXCEPTIONS,
}
PLANTED = [  # what, rule, file, content (None: the file goes), places that are named
    ("indented by blanks", "format", "lib/a/a.c", "int\na(int x)\n{\n  return x;\n}\n", ["lib/a/a.c:3"]),
    ("a private header of 301 lines", "headers", "lib/a/priv.h", "int x;\n" * 300 + "int x;\n", ["lib/a/priv.h:301"]),
    ("a header that is an exception grows", "headers", "lib/a/known.h", "int x;\n" * 310 + "int x;\n", ["lib/a/known.h:301"]),
    ("a header that is an exception is short", "headers", "lib/a/known.h", "int x;\n", ["test/lint/exceptions:2"]),
    ("a header that is an exception is removed", "headers", "lib/a/known.h", None, ["test/lint/exceptions:2"]),
    ("a private header of tests", "headers", "test/a/a.h", "int x;\n" * 301, ["test/a/a.h:301"]),
    ("102 columns", "width", "lib/a/a.c", "int a;\n" + WIDE, ["lib/a/a.c:2"]),
    ("tabs that are eight columns", "width", "test/a.c", "\t\t\t\t\t\t\t\t\t\t\t\t/* 102 */\n", ["test/a.c:1"]),
    ("one wide line more than the exception allows", "width", "lib/a/wide.c", WIDE * 3, ["lib/a/wide.c:1",
     "lib/a/wide.c:2", "lib/a/wide.c:3"]),
    ("an exception without a reason", "width", "test/lint/exceptions", EXCEPTIONS.replace("wide.c it is older than the rule", "wide.c"),
     ["test/lint/exceptions:3"]),
    ("an exception without a wide line", "width", "lib/a/wide.c", "int a;\n", ["test/lint/exceptions:3"]),
    ("a builtin", "atomics", "lib/a/a.c", f"int\na(int *x)\n{{\n\treturn {BUILTIN}(x, 0);\n}}\n", ["lib/a/a.c:4"]),
    ("an order that is not named", "atomics", "apps/p/down.c",
     "int\ndown(atomic_int *x)\n{\n\tatomic_store(x, 1);\n\tatomic_load_explicit(x, memory_order_relaxed);\n"
     "\treturn atomic_compare_exchange_strong (x, &y, 2);\n}\n", ["apps/p/down.c:4", "apps/p/down.c:6"]),
    ("one builtin more than the exception allows", "atomics", "lib/a/old.c", f"/* {BUILTIN} */\n/* {BUILTIN} */\n",
     ["lib/a/old.c:1", "lib/a/old.c:2"]),
    ("an exception without a builtin", "atomics", "lib/a/old.c", "int a;\n", ["test/lint/exceptions:4"]),
    ("a call up", "circles", "apps/p/down.c", CALLS.format("up", "down", "up"), ["apps/p/down.c:1", "apps/p/up.c:1"]),
    ("a call up by an inline function", "circles", "apps/p/down.c", CALLS.format("higher", "down", "higher"),
     ["apps/p/down.c:1", "apps/p/up.c:1"]),
    ("the table of a source above", "circles", "apps/p/down.c", "int\ndown(int x)\n{\n\treturn up_ops.up(x);\n}\n",
     ["apps/p/down.c:4", "apps/p/up.c:1"]),
    ("a circle of three", "circles", "apps/p/lowest.c", CALLS.format("up", "lowest", "up"),
     ["apps/p/down.c:8", "apps/p/lowest.c:1", "apps/p/up.c:1"]),
    ("one source in a circle more than the exception allows", "circles", "drivers/d/three.c", CALLS.format("one", "three", "one"),
     ["drivers/d/one.c:1", "drivers/d/one.c:8", "drivers/d/three.c:1", "drivers/d/two.c:1"]),
    ("an exception without a circle", "circles", "drivers/d/two.c", "int\ntwo(int x)\n{\n\treturn x;\n}\n", ["test/lint/exceptions:5"]),
    ("a function that only tests call", "unused", "lib/a/more.c",
     "/** more(1) */\nint more(int x);\n\nint\nmore(int x)\n{\n\treturn x;\n}\n",
     ["lib/a/more.c:5"]),
    ("a function that lost its only caller", "unused", "apps/p/main.c", "int\nmain(void)\n{\n\treturn a(1) + o(0); /* first(2) */\n}\n",
     ["drivers/d/one.c:11"]),
    ("a clock in a layer", "clocks", "lib/a/a.c", "int a;\nint b = clock_gettime(0, 0);\n", ["lib/a/a.c:2"]),
    ("a clock in a driver's header", "clocks", "drivers/a/a.h", "#define NOW rte_rdtsc()\n", ["drivers/a/a.h:1"]),
    ("a known clock reader that reads no clock", "clocks", "lib/netif/netif_capture.c", "int a;\n", ["lib/netif/netif_capture.c:1"]),
    ("a function that no map exports", "exports", "lib/include/weft/b.h",
     "#define WEFT_E(x) \\\n\tweft_old(x)\nint weft_b(int x);\n\nint\nweft_d(int x,\n       int y);\n",
     ["lib/include/weft/b.h:6"]),
    ("a function that no header declares", "exports", "lib/weft.map", "{\nglobal:\n\tweft_b;\n\tweft_old;\nlocal:\n\t*;\n};\n",
     ["lib/weft.map:4"]),
    ("a misspelled word in a document", "spelling", "docs/guide.md", CLEAN["docs/guide.md"] + MISSPELLED + "\n", ["docs/guide.md:6"]),
    ("a misspelled word in a comment", "spelling", "lib/a/a.c", f"/* {MISSPELLED} */\n", ["lib/a/a.c:1"]),
    ("a misspelled word in a message", "spelling", "test/one.py", f"print(\"{MISSPELLED}\")\n", ["test/one.py:1"]),
    ("a variable without quotes", "shell", "test/run", "#!/usr/bin/env bash\nrm $1\n", ["test/run:2"]),
    ("a script without an interpreter line that ends in .sh", "shell", "test/x.sh", "#!/bin/sh\n\nrm $1\n", ["test/x.sh:3"]),
    ("a script of busybox", "shell", "test/init", "#!/bin/busybox sh\nrm $1\n", ["test/init:2"]),
    ("an unused import", "python", "test/one.py", "import os\nprint(1)\n", ["test/one.py:1"]),
    ("an undefined name", "python", "test/two", "#!/usr/bin/env python3\nprint(two)\n", ["test/two:2"]),
    ("a long line of Python", "python", "test/one.py", "print(1)\nprint(\"" + "p" * 140 + "\")\n", ["test/one.py:2"]),
    ("a link to no file", "links", "docs/guide.md", "# Guide\n\n## Two words\n[x](nowhere.md)\n", ["docs/guide.md:4"]),
    ("a link to no heading", "links", "docs/guide.md", "# Guide\n", ["README.md:3"]),
    ("a link to no heading of its own", "links", "README.md", "# Other\n\n[up](#small)\n", ["README.md:3"]),
    ("a path that does not exist", "links", "test/README.md", "\n`lib/a/gone.c` was here\n", ["test/README.md:2"]),
    ("one of two paths that does not exist", "links", "test/README.md", "`lib/{a,c}`\n", ["test/README.md:1"]),
    ("a header of a room that is not in uses", "rooms", "lib/b/meson.build", "uses = []\nheaders = ['b.h']\n",
     ["docs/architecture.md:4", "lib/b/b.c:1"]),
    ("a room in uses that is not needed", "rooms", "lib/b/b.c", "#include <weft/a.h>\n", ["lib/b/meson.build:1"]),
    ("a room in uses that is above", "rooms", "lib/a/meson.build", "uses = ['b']\nheaders = ['a.h']\n",
     ["docs/architecture.md:5", "lib/a/meson.build:1", "lib/a/meson.build:1"]),
    ("a private header of another room", "rooms", "lib/b/b.c", "#include \"weft_a.h\"\n#include \"priv.h\"\n", ["lib/b/b.c:2"]),
    ("a header by its path", "rooms", "lib/a/a.c", "#include \"../b/weft_b.h\"\n", ["lib/a/a.c:1"]),
    ("a public header of a room above", "rooms", "lib/a/a.c", "#include <weft/b.h>\n", ["lib/a/a.c:1"]),
    ("an arrow without a use", "rooms", "docs/architecture.md", "## Layers\nb -> a\na -> b\n", ["docs/architecture.md:3"]),
    ("a room that is not drawn", "rooms", "docs/architecture.md", "## Layers\nb -> a\n", ["docs/architecture.md:1"]),
    ("a drawn room that does not exist", "rooms", "docs/architecture.md", "## Layers\nb -> a\na ->\nc -> a\n",
     ["docs/architecture.md:4"]),
    ("a folder that may not stand at the top level", "tree", "src/a.c", "int a;\n", ["src/a.c:1"]),
    ("a large file", "tree", "docs/large.md", "large, as it is said\n" * 20000, ["docs/large.md:1"]),
    ("white space at the end of a line", "tree", "LICENSE", "free\nas it is \n", ["LICENSE:2"]),
    ("white space that is a tab", "tree", "LICENSE", "free\t\n", ["LICENSE:1"]),
    ("no newline at the end", "tree", "LICENSE", "free\nor not", ["LICENSE:2"]),
]
n = bad = 0


def check(what, holds, told=""):
    """Print one TAP line, and the output of a failed case."""
    global n, bad
    n += 1
    bad += not holds
    print(f"{'ok' if holds else 'not ok'} {n} {what}", flush=True)
    if not holds:
        print("".join(f"# {line}\n" for line in told.splitlines()), end="")


def run(top, *argv, path=None):
    """(status, output) of a program that runs in the repository without the user's configuration."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": "test", f"GIT_{role}_EMAIL": "test@example.org"}
    if path:
        env["PATH"] = path
    r = subprocess.run(argv, cwd=top, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return r.returncode, r.stdout


def write(top, name, text):
    """Write a file; text None: remove it."""
    path = os.path.join(top, name)
    if text is None:
        os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def lint(top, *args, path=None):
    """Run the repository's lint.py."""
    return run(top, sys.executable, "test/lint/lint.py", *args, path=path)


def named(out):
    """The places that lint.py printed."""
    return [":".join(line[2:].split(":")[:2]) for line in out.splitlines() if line.startswith("# ")]


def planted(top):
    """Plant each violation: its rule fails and names the place."""
    for what, rule, name, text, where in PLANTED:
        write(top, name, text)
        run(top, "git", "add", "-A")
        status, out = lint(top, rule)
        check(f"{rule}: {what}", status == 1 and out.startswith("not ok") and named(out) == where, out)
        run(top, "git", "reset", "-q", "--hard")


def not_tracked(top):
    """A file that git does not track is no part of the tree."""
    write(top, "src/a.c", "int a; \n")
    status, out = lint(top)
    check("a file that is not tracked does not count", status == 0, out)
    shutil.rmtree(os.path.join(top, "src"))


def missing_tools(top):
    """A rule whose program is missing is skipped and says so. The other rules are checked."""
    with tempfile.TemporaryDirectory() as bare:
        os.symlink(shutil.which("git"), os.path.join(bare, "git"))
        status, out = lint(top, path=bare)
        rows = [line for line in out.splitlines() if line.startswith("ok")]
        skipped = {line.split()[2] for line in rows if "# SKIP no " in line}
        check("a program that is not installed", status == 0 and skipped == {"format", "spelling", "shell", "python"}, out)
        write(bare, "clang-format", "#!/bin/sh\necho clang-format version 19.1.7\n")
        os.chmod(os.path.join(bare, "clang-format"), 0o755)
        _, out = lint(top, "format", path=bare)
        check("another version of clang-format", "# SKIP needs clang-format 14" in out, out)


def tightened(top):
    """--tighten lowers numbers and removes lines, and raises nothing."""
    write(top, "lib/a/known.h", "int x;\n" * 304 + "int old;\n")
    write(top, "lib/a/wide.c", "int a;\n")
    write(top, "lib/a/old.c", f"/* {BUILTIN} */\n/* {BUILTIN} */\n")
    lint(top, "--tighten")
    with open(os.path.join(top, "test/lint/exceptions"), encoding="utf-8") as f:
        text = f.read()
    wide = "width 2 lib/a/wide.c it is older than the rule\n"
    check("--tighten", text == EXCEPTIONS.replace("310", "305").replace(wide, ""), text)
    run(top, "git", "reset", "-q", "--hard")


def hook(top):
    """The hook checks the staged files, not those of the work tree."""
    run(top, "git", "config", "core.hooksPath", ".githooks")
    write(top, "lib/a/a.c", "int\na(int x)\n{\n  return x;\n}\n")
    status, out = run(top, "git", "commit", "-q", "-a", "-m", "test: bad")
    check("the hook refuses a commit", status != 0 and "# lib/a/a.c:3:" in out and "refused" in out, out)
    run(top, "git", "reset", "-q", "--hard")
    write(top, "lib/a/a.c", "int\na(int y)\n{\n\treturn y;\n}\n")
    run(top, "git", "add", "-A")
    write(top, "lib/a/a.c", "int\na(int x)\n{\n  return x;\n}\n")
    status, out = run(top, "git", "commit", "-q", "-m", "test: good")
    check("the hook checks what is staged", status == 0, out)
    status, out = run(top, "git", "commit", "-q", "--no-verify", "-a", "-m", "test: bad all the same")
    check("--no-verify skips the hook", status == 0, out)
    write(top, "test/one.py", "print(3)\n")
    status, out = run(top, "git", "commit", "-q", "-a", "-m", "test: another file")
    check("the slow rules do not check files that do not change", status == 0, out)


with tempfile.TemporaryDirectory(prefix="weft-lint.") as scratch:
    for part in CONFIGURATION:
        os.makedirs(os.path.dirname(os.path.join(scratch, part)), exist_ok=True)
        shutil.copy(os.path.join(SRC, part), os.path.join(scratch, part))
    for file, content in CLEAN.items():
        write(scratch, file, content)
    run(scratch, "git", "init", "-q")
    run(scratch, "git", "add", "-A")
    done, said = run(scratch, "git", "commit", "-q", "--no-verify", "-m", "test: small")
    assert done == 0, said
    done, said = lint(scratch)
    check("a tree that keeps the rules", done == 0 and said.count("ok ") == 14 and said.endswith("1..14\n"), said)
    for part in (planted, not_tracked, missing_tools, tightened, hook):
        part(scratch)
    done, said = lint(scratch, "nonsense")
    check("a rule that does not exist", done == 2 and "no rule nonsense" in said, said)
print(f"1..{n}")
sys.exit(bad != 0)
