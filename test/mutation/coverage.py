# SPDX-License-Identifier: BSD-3-Clause
"""Which test reaches which line: every test is run once over objects compiled with gcov's counters."""
import glob
import json
import os
import time

from mutation import scratch, tests

SPLIT_CPU_S = 0.7    # a program that takes longer is run case by case
SLOW_CPU_S = 20      # and a case that takes longer than this is not used
FIRST_WALL_S = 240


class Unit:
    """What is run as one: a program, or a case of one. lines: {file: {line, ...}}, None for all."""

    def __init__(self, program, case, cost, lines):
        self.program, self.case, self.cost, self.lines = program, case, cost, lines
        self.runs = self.kills = 0

    def name(self):
        """As the ledger has it."""
        return os.path.basename(self.program).replace("test_", "", 1) + (":" + self.case if self.case else "")

    def reaches(self, path, wanted):
        """Whether the test runs any of the lines."""
        return self.lines is None or bool(self.lines.get(path, set()) & wanted)


class Coverage:
    """Objects with counters of a layer's files, in the scratch build's own folder."""

    def __init__(self, sc, paths, say):
        self.sc, self.say = sc, say
        self.folder = os.path.join(sc.root, "cov")
        os.makedirs(self.folder)
        self.executable = {}
        for i, path in enumerate(paths):
            say(f"counters {i + 1}/{len(paths)} {path}")
            with open(os.path.join(sc.src, path), encoding="utf-8") as f:
                text = f.read()
            obj = os.path.join(self.folder, path.replace("/", "_") + ".o")
            if sc.compile(path, text, obj, ("-O0", "--coverage")):
                sc.put(path, obj)
        self.paths = {os.path.basename(p): p for p in paths}

    def collect(self):
        """{file: lines run} since the last call."""
        data = glob.glob(os.path.join(self.folder, "*.gcda"))
        lines = {}
        if data:
            out = scratch.sh(["gcov", "--json-format", "--stdout"] + data, self.folder, check=False).stdout
            for doc in out.splitlines():
                for file in json.loads(doc)["files"]:
                    path = self.paths.get(os.path.basename(file["file"]))
                    if path and not path.endswith(".h"):
                        self.executable.setdefault(path, set()).update(x["line_number"] for x in file["lines"])
                        lines.setdefault(path, set()).update(x["line_number"] for x in file["lines"] if x["count"])
        for d in data:
            os.unlink(d)
        return lines

    def units(self, programs, room):
        """Units of these programs, and what was left out with the reason."""
        found, out = [], []
        for i, program in enumerate(programs):
            self.say(f"reach {i + 1}/{len(programs)} {program}")
            exe = self.sc.link(program, ["--coverage"])
            if not exe:
                out.append((program, "does not link with counters"))
                continue
            whole = self.one(exe, program, None, room)
            cases = []
            if whole is None or not isinstance(whole, str) and whole.cost[0] > SPLIT_CPU_S and whole.lines:
                cases = scratch.sh([exe, "--list"], self.sc.tree, check=False).stdout.splitlines()
            if isinstance(whole, str) or whole is None and len(cases) < 2:
                out.append((program, whole or f"takes more than {SLOW_CPU_S} s"))
                continue
            if len(cases) < 2:
                found += [whole] if whole.lines else []
                continue
            for case in cases:
                if any(c != case and case.startswith(c) for c in cases):
                    continue  # that one's prefix runs this one, too
                self.say(f"reach {i + 1}/{len(programs)} {program} {case}")
                unit = self.one(exe, program, case, room)
                if unit is None or isinstance(unit, str):
                    out.append((f"{program} {case}", unit or f"takes more than {SLOW_CPU_S} s"))
                elif unit.lines:
                    found.append(unit)
        return found, out

    def one(self, exe, program, case, room):
        """The unit of one run; why there is none; or None when it takes too long."""
        begin = time.monotonic()
        verdict, cpu = tests.run([exe] + ([case] if case else []), room, SLOW_CPU_S, FIRST_WALL_S)
        wall = time.monotonic() - begin
        lines = self.collect()
        if cpu >= SLOW_CPU_S or verdict == "time":
            return None
        if verdict != "pass":
            return "does not pass with counters: " + verdict
        return Unit(program, case, (cpu, wall), lines)

    def near(self, path, line):
        """The lines with code at or next to a line: what must be run for a change of it to matter."""
        known = self.executable.get(path, set())
        if line in known:
            return {line}
        if not known:
            return set()
        above = [n for n in known if n < line]
        below = [n for n in known if n > line]
        near = {max(above)} if above and line - max(above) < 8 else set()
        near |= {min(below)} if below and min(below) - line < 3 else set()
        return near or known
