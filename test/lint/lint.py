#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The rules of the tree that a program can check: lint.py [--tree DIR] [--staged] [--tighten] [RULE...]

Prints TAP: a case for each rule, and file, line and fault of each place that breaks it. Only tracked files count.

    --tree DIR   the work tree to look at; default: the one that this file is in
    --staged     for a commit: looks at what is staged, of the slow rules at the files that change; prints failures only
    --tighten    write test/lint/exceptions anew: lower numbers, and no line that is not needed; never raises one
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import circles  # noqa: E402
import links  # noqa: E402
import rooms  # noqa: E402
import unused  # noqa: E402
from tree import EXCEPTIONS, Tree, git, tracked  # noqa: E402

HEADER_MAX_LINES = 300
INSTALLED = "lib/include/"
C_MAX_COLUMNS = 100
TAB_COLUMNS = 8
FILE_MAX_OCTETS = 300 * 1000
TOP = {"lib", "apps", "drivers", "test", "docs", "meson.build", "meson_options.txt", "README.md", "CONTRIBUTING.md", "LICENSE"}
# Another version of clang-format sets the same file in another way.
CLANG_FORMAT_VERSION = "14"
ATOMIC = re.compile(r"\b__(?:atomic|sync)_\w+")
CLOCK = re.compile(r"\b(?:clock_gettime|gettimeofday|rte_rdtsc\w*|rte_get_(?:tsc|timer)_cycles)\s*\(")
# Sources outside lib/engine that read a clock, not for a decision of the stack: docs/architecture.md, invariants.
CLOCK_READERS = {
    "lib/netif/netif_capture.c": "the time stamps of a capture",
    "lib/observe/observe_telemetry.c": "how long a telemetry command waits",
}
PLACE = re.compile(r"([^:]+):(\d+):(?:\d+:)? *(?:error: |warning: |note: )?(.*)")


class Skip(Exception):
    """A rule cannot be checked here."""


def program(*names):
    """Path of the first program that is installed."""
    for name in names:
        if shutil.which(name):
            return shutil.which(name)
    raise Skip(f"no {names[-1]}: .ci/deps lint")


def places(tree, argv, names):
    """(file, line, fault) of what a program prints about files, as compilers do; two of it run at once."""
    def run(part):
        out = subprocess.run(argv + part, cwd=tree.top, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        found = [(m[1], int(m[2]), m[3]) for m in map(PLACE.match, out.stdout.splitlines()) if m]
        if out.returncode != 0 and not found:
            raise RuntimeError(f"{argv[0]}: exit status {out.returncode}\n{out.stdout}")
        return found
    size = max(1, min(64, (len(names) + 1) // 2))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for found in pool.map(run, [names[i:i + size] for i in range(0, len(names), size)]):
            yield from found


def bounded(tree, rule, found):
    """Faults of a rule that knows exceptions. `found` has (number, faults) of each file or folder that breaks the rule."""
    known = tree.exceptions.get(rule, {})
    for name, (number, faults) in found.items():
        if name not in known:
            yield from faults
        elif number > known[name]:
            for place, line, fault in faults:
                yield place, line, f"{fault} ({number} now; {EXCEPTIONS} allows {known[name]})"
    for name in sorted(known.keys() - found.keys()):
        yield EXCEPTIONS, tree.exception_line[rule, name], f"{rule} {name}: no longer an exception, remove this line"


def by_line(tree, names, fault_of):
    """For bounded(): (how many lines, faults) of each file in which fault_of(line) finds something."""
    found = {}
    for name in names:
        faults = [(name, n, fault) for n, line in enumerate(tree.lines(name), 1) for fault in [fault_of(line)] if fault]
        if faults:
            found[name] = (len(faults), faults)
    return found


def long_headers(tree):
    """Private headers that are too long."""
    return {p: (len(tree.lines(p)), [(p, HEADER_MAX_LINES + 1,
                                      f"a private header of {len(tree.lines(p))} lines (at most {HEADER_MAX_LINES})")])
            for p in tree.files if p.endswith(".h") and not p.startswith(INSTALLED)
            and len(tree.lines(p)) > HEADER_MAX_LINES}


def wide_lines(tree):
    """Lines of C that are too wide."""
    def fault(line):
        columns = len(line.expandtabs(TAB_COLUMNS))
        return f"{columns} columns (at most {C_MAX_COLUMNS})" if columns > C_MAX_COLUMNS else None
    return by_line(tree, tree.c_files(), fault)


def old_atomics(tree):
    """The compiler's own atomic functions in the product."""
    def fault(line):
        m = ATOMIC.search(line)
        return f"{m[0]}: use <stdatomic.h>, with a named order" if m else None
    return by_line(tree, [p for p in tree.c_files() if p.startswith(("lib/", "apps/", "drivers/"))], fault)


def unused_functions(tree):
    """Functions that the product has and does not use."""
    found = {}
    for name, line, function in unused.unused(tree):
        found.setdefault(name, []).append((name, line, f"{function}() is not used by the product, nor installed"))
    return {name: (len(faults), faults) for name, faults in found.items()}


COUNTED = {"headers": long_headers, "width": wide_lines, "atomics": old_atomics, "circles": circles.circles,
           "unused": unused_functions}


def rule_format(tree):
    """clang-format would change nothing."""
    clang_format = program(f"clang-format-{CLANG_FORMAT_VERSION}", "clang-format")
    version = subprocess.run([clang_format, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    if f"version {CLANG_FORMAT_VERSION}." not in version:
        raise Skip(f"needs clang-format {CLANG_FORMAT_VERSION}, and here is {version}")
    yield from places(tree, [clang_format, "--dry-run", "-Werror"], tree.of_change(tree.c_files()))


def rule_headers(tree):
    """A private header, which is one that is not installed, has at most 300 lines."""
    yield from bounded(tree, "headers", long_headers(tree))


def rule_width(tree):
    """A line of C has at most 100 columns."""
    yield from bounded(tree, "width", wide_lines(tree))


def rule_atomics(tree):
    """Atomic variables are C11's, with named orders; __atomic_* and __sync_* are not used."""
    yield from bounded(tree, "atomics", old_atomics(tree))


def rule_circles(tree):
    """Of the sources of one folder none needs another that needs it, itself or by others: a call goes down."""
    yield from bounded(tree, "circles", circles.circles(tree))


def rule_unused(tree):
    """The product uses each function of lib and drivers that is not installed; what tests alone call stands in test."""
    yield from bounded(tree, "unused", unused_functions(tree))


def rule_clocks(tree):
    """Of lib and drivers only lib/engine reads a clock, and the sources that docs/architecture.md names."""
    for name in tree.c_files():
        if not name.startswith(("lib/", "drivers/")) or name.startswith("lib/engine/"):
            continue
        found = [(name, n, f"{m[0]}...): take now_ns from the caller") for n, line in enumerate(tree.lines(name), 1)
                 for m in [CLOCK.search(line)] if m]
        if name not in CLOCK_READERS:
            yield from found
        elif not found:
            yield name, 1, "reads no clock any more: take it out of CLOCK_READERS in test/lint/lint.py"


def rule_spelling(tree):
    """codespell finds nothing; .codespellrc has the words that it takes for others."""
    names = [p for p in tree.of_change(tree.files) if tree.is_text(p)]
    yield from places(tree, [program("codespell")], names)


def rule_shell(tree):
    """shellcheck finds nothing; what it is wrong about is disabled at the line, with the reason."""
    shellcheck = program("shellcheck")
    scripts = tree.of_change(tree.shell_files())
    busybox = [p for p in scripts if b"busybox" in tree.octets(p).split(b"\n")[0]]
    yield from places(tree, [shellcheck, "-f", "gcc"], [p for p in scripts if p not in busybox])
    yield from places(tree, [shellcheck, "-f", "gcc", "-s", "dash"], busybox)


def rule_python(tree):
    """flake8 finds nothing; .flake8 has its configuration."""
    yield from places(tree, [program("flake8")], tree.of_change(tree.python_files()))


def rule_links(tree):
    """A document's links, and paths of the tree in backquotes, lead to something."""
    yield from links.check(tree)


def rule_rooms(tree):
    """A room of lib includes what its meson.build names in `uses`, which docs/architecture.md draws, and no private header."""
    yield from rooms.check(tree)


def rule_tree(tree):
    """The top level holds what it may; no file is large; text ends with a newline and no line with white space."""
    for name in tree.files:
        first = name.split("/")[0]
        if first not in TOP and not first.startswith("."):
            yield name, 1, f"{first} is not for the top level"
        if len(tree.octets(name)) > FILE_MAX_OCTETS:
            yield name, 1, f"{len(tree.octets(name))} octets (at most {FILE_MAX_OCTETS})"
        if not tree.is_text(name) or not tree.octets(name):
            continue
        for n, line in enumerate(tree.lines(name), 1):
            if line != line.rstrip():
                yield name, n, "white space at the end of the line"
        if not tree.octets(name).endswith(b"\n"):
            yield name, len(tree.lines(name)), "no newline at the end of the file"


RULES = {name[5:]: rule for name, rule in list(globals().items()) if name.startswith("rule_")}


def tighten(tree):
    """Write the exceptions that are still needed, with today's numbers where these are lower."""
    rows = [row for row in tree.lines(EXCEPTIONS) if row.startswith("#") or not row]
    for rule, found in ((r, COUNTED[r](tree)) for r in COUNTED):
        for name, most in sorted(tree.exceptions.get(rule, {}).items()):
            if name in found:
                rows.append(f"{rule} {min(most, found[name][0])} {name}")
    with open(tree.path(EXCEPTIONS), "w", encoding="utf-8") as f:
        f.write("\n".join(rows) + "\n")


def run_rules(tree, names, quiet):
    """Print TAP; returns how many rules are broken."""
    broken = 0
    for n, name in enumerate(names, 1):
        try:
            faults = sorted(set(RULES[name](tree)))
        except Skip as why:
            print(f"ok {n} {name} # SKIP {why}", flush=True)
            continue
        broken += bool(faults)
        if faults or not quiet:
            print(f"{'not ok' if faults else 'ok'} {n} {name}: {RULES[name].__doc__}")
        for place, line, fault in faults:
            print(f"# {place}:{line}: {fault}")
        sys.stdout.flush()
    if not quiet:
        print(f"1..{len(names)}")
    return broken


def main():
    """The command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tree", default=os.path.dirname(os.path.dirname(HERE)))
    p.add_argument("--staged", action="store_true")
    p.add_argument("--tighten", action="store_true")
    p.add_argument("rules", nargs="*", metavar="RULE", help=" ".join(RULES))
    args = p.parse_args()
    unknown = set(args.rules) - set(RULES)
    if unknown:
        p.error(f"no rule {' '.join(sorted(unknown))}; rules: {' '.join(RULES)}")
    top = os.path.realpath(args.tree)
    if args.tighten:
        return tighten(Tree(top, tracked(top)))
    names = args.rules or list(RULES)
    if not args.staged:
        return int(run_rules(Tree(top, tracked(top)), names, False) > 0)
    changed = git(top, "diff", "--cached", "--name-only", "--diff-filter=ACMR", "-z").split("\0")
    with tempfile.TemporaryDirectory(prefix="weft-lint.") as staged:
        git(top, "checkout-index", "--all", f"--prefix={staged}/")
        broken = run_rules(Tree(staged, tracked(top), changed), names, True)
    if broken:
        print("The commit is refused. `test/run lint` tells the same of the whole tree.")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
