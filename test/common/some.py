#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run some tests, by layer, name or case: some.py BUILD [--gdb|--valgrind] WHAT...

WHAT is a folder of test/ ("mpa": the tests of that layer) or a room of lib/ ("cm": CONTRIBUTING.md names the folders of
its tests), the name of a test ("mpa_marker"; with test_ before it where
a folder has the same name: "test_tcp"), or either followed by a colon and the beginning of a case's name ("mpa:wrong",
"mpa_marker:wrong"). Only what these tests need is built. Without a case the tests run as in the suites, and are
counted. A case runs alone, and its output is shown. Under a debugger one program runs, so WHAT must be one case or one
test. Tests of the suites soak and fuzz run only when they are named.
"""
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ALONE = {"soak", "count", "deb"}
DEBUGGERS = {"--gdb": ["gdb", "--args"], "--valgrind": ["valgrind", "-q", "--error-exitcode=1"]}


def stop(why):
    """Report that the request is not possible, and exit."""
    print("test/run: " + why, file=sys.stderr)
    sys.exit(2)


def known(build, what):
    """Meson's list of the build's tests, or of its targets."""
    with open(os.path.join(build, "meson-info", f"intro-{what}.json"), encoding="utf-8") as f:
        return json.load(f)


class Test:
    """One test of meson's list."""

    def __init__(self, t, source, program):
        self.name, self.cmd, self.env, self.depends = t["name"], t["cmd"], t["env"], t["depends"]
        self.suites = {s.split(":")[-1] for s in t["suite"]}
        self.program = program  # the target's name for ninja; None for a script
        self.folder = source.split(os.sep)[1] if source and source.count(os.sep) > 1 else ""

    def cases(self):
        """The names of the test's cases. Those of a script are its functions."""
        if self.program:
            out = subprocess.run(self.cmd + ["--list"], stdout=subprocess.PIPE, text=True, check=False)
            return out.stdout.splitlines()
        with open(next(w for w in self.cmd if w.endswith(".py")), encoding="utf-8") as f:
            return [m[1] for m in re.finditer(r"^def (?:test|rule)_(\w+)\(", f.read(), re.M)]


def tests(build):
    """All tests of the build, once each."""
    top, src = os.path.realpath(build), os.path.dirname(os.path.dirname(HERE))
    source, name = {}, {}
    for t in known(build, "targets"):
        all_of_it = [s for part in t["target_sources"] for s in part.get("sources", ())]
        own = [s for s in all_of_it if os.path.basename(s).startswith("test_")] or all_of_it
        if own:
            source[os.path.realpath(t["filename"][0])] = os.path.relpath(os.path.realpath(own[0]), src)
        name[os.path.realpath(t["filename"][0])] = os.path.relpath(t["filename"][0], top)
    found = []
    for t in known(build, "tests"):
        cmd = next((p for p in map(os.path.realpath, t["cmd"]) if p in source), None)
        script = next((os.path.relpath(os.path.realpath(w), src) for w in t["cmd"]
                       if w.endswith((".py", ".sh")) or os.path.realpath(w).startswith(os.path.join(src, "test", ""))), None)
        found.append(Test(t, source.get(cmd, script), name.get(cmd)))
    return found


def folders_of(room):
    """The folders of test/ that CONTRIBUTING.md names for a room of lib/."""
    with open(os.path.join(os.path.dirname(os.path.dirname(HERE)), "CONTRIBUTING.md"), encoding="utf-8") as f:
        rows = [line.split("|") for line in f if line.startswith("|")]
    return {m for row in rows if len(row) > 3 and f"`lib/{room}`" in row[2] for m in re.findall(r"`test/(\w+)`", row[3])}


def named(every, word):
    """(tests, case or None) for one WHAT."""
    what, _, case = word.partition(":")
    folders = {what}
    if not any(what in (t.folder, t.name) for t in every):
        folders = folders_of(what)
    found = [t for t in every if t.folder in folders and not t.suites & ALONE]
    if not found:
        found = [t for t in every if t.name == what.removeprefix("test_")]
    if not found:
        folders = " ".join(sorted({t.folder for t in every if t.folder}))
        stop(f"no suite, layer or test '{what}' (layers: {folders}; tests: meson test -C build-test --list)")
    return found, case or None


def targets(build, found):
    """The targets that ninja must build for these tests."""
    top = os.path.realpath(build)
    every = {t["id"]: t for t in known(build, "targets")}
    ids = {d for t in found for d in t.depends}
    if any(not t.program and "lint" not in t.suites for t in found):
        ids |= {i for i, t in every.items() if t["installed"] or
                t["type"] == "executable" and os.path.relpath(t["filename"][0], top).startswith("apps/")}
    return sorted({t.program for t in found if t.program} |
                  {os.path.relpath(f, top) for i in ids for f in every[i]["filename"]})


def main():
    """The command line."""
    build, words = sys.argv[1], sys.argv[2:]
    debugger = [DEBUGGERS[w] for w in words if w in DEBUGGERS]
    words = [w for w in words if w not in DEBUGGERS]
    asked = [named(tests(build), w) for w in words]
    if not asked or len(debugger) > 1:
        stop("name a layer, a test or a case")
    if debugger and not shutil.which(debugger[0][0]):
        stop(f"there is no {debugger[0][0]}: apt-get install {debugger[0][0]}")
    needed = targets(build, [t for found, _ in asked for t in found])
    if needed and subprocess.run(["ninja", "-C", build] + needed, stdout=subprocess.DEVNULL if debugger else None,
                                 check=False).returncode != 0:
        sys.exit(1)
    if not debugger and all(case is None for _, case in asked):
        names = sorted({t.name for found, _ in asked for t in found})
        log = os.path.join(build, "meson-logs", "log-some.json")
        subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--num-processes", "2", "--logbase", "log-some"] + names,
                       stdout=subprocess.DEVNULL, check=False)
        os.execvp("python3", ["python3", os.path.join(HERE, "summary.py"), "0", "some=" + log])
    runs = [(t, case) for found, case in asked for t in found
            if case is None or any(c.startswith(case) for c in t.cases())]
    if not runs:
        stop(f"no case begins so: {' '.join(words)}")
    if debugger and (len(runs) > 1 or not runs[0][0].program):
        stop("a debugger takes one program, and these are: " + " ".join(t.name for t, _ in runs))
    failed = 0
    for t, case in runs:
        argv = (debugger[0] if debugger else []) + t.cmd + ([case] if case else [])
        print(f"== {t.name}", flush=True)
        failed += subprocess.run(argv, env={**os.environ, **t.env}, check=False).returncode not in (0, 77)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
