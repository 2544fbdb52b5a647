#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The rules of the tree that a program can check: lint.py [--tree DIR] [--staged] [--tighten] [RULE...]

Prints TAP: one case for each rule, and file, line and fault of each place that breaks it. Only files that git tracks count.

    --tree DIR   the work tree to check; default: the one that this file is in
    --staged     for a commit: checks what is staged; the slow rules check only files that change; prints failures only
    --tighten    rewrite test/lint/exceptions: lowers numbers and removes lines that are not needed; never raises a number
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
import exports  # noqa: E402
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
# Other versions of clang-format format the same file differently.
CLANG_FORMAT_VERSION = "14"
ATOMIC = re.compile(r"\b__(?:atomic|sync)_\w+")
# Of <stdatomic.h>, the functions without _explicit: their order is not named.
NO_ORDER = re.compile(r"\b(atomic_(?:load|store|exchange|compare_exchange_(?:strong|weak)|fetch_(?:add|sub|or|xor|and)"
                      r"|flag_(?:test_and_set|clear)))\s*\(")
CLOCK = re.compile(r"\b(?:clock_gettime|gettimeofday|rte_rdtsc\w*|rte_get_(?:tsc|timer)_cycles)\s*\(")
# Sources outside lib/engine that read a clock, but not for a decision of the stack (docs/architecture.md, invariants).
CLOCK_READERS = {
    "lib/netif/netif_capture.c": "the time stamps of a capture",
    "lib/observe/observe_ask.c": "how long a telemetry command waits",
}
PLACE = re.compile(r"([^:]+):(\d+):(?:\d+:)? *(?:error: |warning: |note: )?(.*)")


class Skip(Exception):
    """The rule cannot be checked on this machine."""


def program(*names):
    """Path of the first of these programs that is installed."""
    for name in names:
        if shutil.which(name):
            return shutil.which(name)
    raise Skip(f"no {names[-1]}: .ci/deps lint")


def places(tree, argv, names):
    """(file, line, fault) of each message that a program prints in the form of a compiler's. Two processes run at once."""
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
    """Faults of a rule that has exceptions. `found`: {file or folder that breaks the rule: (number, faults)}."""
    known = tree.exceptions.get(rule, {})
    for name, (number, faults) in found.items():
        if name not in known:
            yield from faults
        elif number > known[name]:
            for place, line, fault in faults:
                yield place, line, f"{fault} ({number} now; {EXCEPTIONS} allows {known[name]})"
    for name in sorted(known.keys() - found.keys()):
        yield EXCEPTIONS, tree.exception_line[rule, name], f"{rule} {name} keeps the rule: remove this line"
    for name in known:
        if not tree.exception_reason[rule, name]:
            yield EXCEPTIONS, tree.exception_line[rule, name], f"{rule} {name}: state the reason of the exception behind the file"


def by_line(tree, names, fault_of):
    """For bounded(): {file: (number of lines, faults)} of the lines for which fault_of(line) returns a fault."""
    found = {}
    for name in names:
        faults = [(name, n, fault) for n, line in enumerate(tree.lines(name), 1) for fault in [fault_of(line)] if fault]
        if faults:
            found[name] = (len(faults), faults)
    return found


def long_headers(tree):
    """For bounded(): private headers that are too long."""
    return {p: (len(tree.lines(p)), [(p, HEADER_MAX_LINES + 1,
                                      f"a private header of {len(tree.lines(p))} lines (at most {HEADER_MAX_LINES})")])
            for p in tree.files if p.endswith(".h") and not p.startswith(INSTALLED)
            and len(tree.lines(p)) > HEADER_MAX_LINES}


def wide_lines(tree):
    """For bounded(): lines of C that are too wide."""
    def fault(line):
        columns = len(line.expandtabs(TAB_COLUMNS))
        return f"{columns} columns (at most {C_MAX_COLUMNS})" if columns > C_MAX_COLUMNS else None
    return by_line(tree, tree.c_files(), fault)


def loose_atomics(tree):
    """For bounded(): the compiler's own atomic functions in the product, and those of C11 that name no order."""
    def fault(line):
        old, unnamed = ATOMIC.search(line), NO_ORDER.search(line)
        if old:
            return f"{old[0]}: use <stdatomic.h>, with a named order"
        return f"{unnamed[1]}(): name the order, by {unnamed[1]}_explicit()" if unnamed else None
    return by_line(tree, [p for p in tree.c_files() if p.startswith(("lib/", "apps/", "drivers/"))], fault)


def unused_functions(tree):
    """For bounded(): functions that the product has and does not use."""
    found = {}
    for name, line, function in unused.unused(tree):
        found.setdefault(name, []).append((name, line, f"{function}() is not used by the product, nor installed"))
    return {name: (len(faults), faults) for name, faults in found.items()}


COUNTED = {"headers": long_headers, "width": wide_lines, "atomics": loose_atomics, "circles": circles.circles,
           "unused": unused_functions}


def rule_format(tree):
    """C is formatted as clang-format 14 formats it."""
    clang_format = program(f"clang-format-{CLANG_FORMAT_VERSION}", "clang-format")
    version = subprocess.run([clang_format, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    if f"version {CLANG_FORMAT_VERSION}." not in version:
        raise Skip(f"needs clang-format {CLANG_FORMAT_VERSION}; this is {version}")
    yield from places(tree, [clang_format, "--dry-run", "-Werror"], tree.of_change(tree.c_files()))


def rule_headers(tree):
    """A private header, which is one that is not installed, has at most 300 lines."""
    yield from bounded(tree, "headers", long_headers(tree))


def rule_width(tree):
    """A line of C has at most 100 columns."""
    yield from bounded(tree, "width", wide_lines(tree))


def rule_atomics(tree):
    """Atomic variables are C11's, with named orders; __atomic_* and __sync_* are not used."""
    yield from bounded(tree, "atomics", loose_atomics(tree))


def rule_circles(tree):
    """No two sources of one folder need each other, directly or through other sources: a call goes down."""
    yield from bounded(tree, "circles", circles.circles(tree))


def rule_unused(tree):
    """The product uses each function of lib and drivers that is not installed. A function that only tests call stands in test."""
    yield from bounded(tree, "unused", unused_functions(tree))


def rule_clocks(tree):
    """In lib and drivers only lib/engine and the sources that docs/architecture.md names read a clock."""
    for name in tree.c_files():
        if not name.startswith(("lib/", "drivers/")) or name.startswith("lib/engine/"):
            continue
        found = [(name, n, f"{m[0]}...): take now_ns from the caller") for n, line in enumerate(tree.lines(name), 1)
                 for m in [CLOCK.search(line)] if m]
        if name not in CLOCK_READERS:
            yield from found
        elif not found:
            yield name, 1, "reads no clock: remove it from CLOCK_READERS in test/lint/lint.py"


def rule_exports(tree):
    """The libraries export the functions that installed headers declare, and nothing else. The test `misuse` looks at the binaries."""
    yield from exports.check(tree)


def rule_spelling(tree):
    """codespell finds nothing. .codespellrc lists the words that it mistakes for others."""
    names = [p for p in tree.of_change(tree.files) if tree.is_text(p)]
    yield from places(tree, [program("codespell")], names)


def rule_shell(tree):
    """shellcheck finds nothing. A false finding is disabled at its line, with the reason."""
    shellcheck = program("shellcheck")
    scripts = tree.of_change(tree.shell_files())
    busybox = [p for p in scripts if b"busybox" in tree.octets(p).split(b"\n")[0]]
    yield from places(tree, [shellcheck, "-f", "gcc"], [p for p in scripts if p not in busybox])
    yield from places(tree, [shellcheck, "-f", "gcc", "-s", "dash"], busybox)


def rule_python(tree):
    """flake8 finds nothing. .flake8 is its configuration."""
    yield from places(tree, [program("flake8")], tree.of_change(tree.python_files()))


def rule_links(tree):
    """Each link of a document, and each path of the tree in backquotes, leads to a file or folder."""
    yield from links.check(tree)


def rule_rooms(tree):
    """A room of lib includes only rooms in `uses` of its meson.build, as docs/architecture.md draws, and no private header."""
    yield from rooms.check(tree)


def rule_tree(tree):
    """The top level has only what TOP names; no file is large; a text ends with a newline, and no line with white space."""
    for name in tree.files:
        first = name.split("/")[0]
        if first not in TOP and not first.startswith("."):
            yield name, 1, f"{first} may not stand at the top level"
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
    """Rewrite the exceptions: those that are needed, with today's numbers where these are lower."""
    rows = [row for row in tree.lines(EXCEPTIONS) if row.startswith("#") or not row]
    for rule, found in ((r, COUNTED[r](tree)) for r in COUNTED):
        for name, most in sorted(tree.exceptions.get(rule, {}).items()):
            if name in found:
                rows.append(f"{rule} {min(most, found[name][0])} {name} {tree.exception_reason[rule, name]}".rstrip())
    with open(tree.path(EXCEPTIONS), "w", encoding="utf-8") as f:
        f.write("\n".join(rows) + "\n")


def run_rules(tree, names, quiet):
    """Check rules and print TAP. Returns the number of broken rules."""
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
        print("The commit is refused. `test/run lint` checks the whole tree.")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
