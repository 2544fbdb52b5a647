# SPDX-License-Identifier: BSD-3-Clause
"""Which test reaches which line: every test runs once with objects that have gcov's counters."""
import glob
import hashlib
import json
import os
import time

from mutation import scratch, tests

SPLIT_CPU_S = 0.7    # a program that takes longer is run case by case
SLOW_CPU_S = 20      # one that takes longer is not used
FIRST_WALL_S = 240


class Unit:
    """A test program, or one case of it. lines: the lines that it reaches, {file: {line, ...}}; None: all."""

    def __init__(self, program, case, cost, lines):
        self.program, self.case, self.cost, self.lines = program, case, cost, lines
        self.runs = self.kills = 0
        self.sound = None  # whether it passes with the original when linked as for a mutant; None: not known yet

    def name(self):
        """The name that the conformance tables use."""
        return os.path.basename(self.program).replace("test_", "", 1) + (":" + self.case if self.case else "")

    def reaches(self, path, wanted):
        """Whether the test runs any of the lines."""
        return self.lines is None or bool(self.lines.get(path, set()) & wanted)


class Coverage:
    """The lines that the tests of a layer reach. slow_s: see SLOW_CPU_S. keep: a file that holds the result for the next
    run, as long as the test program does not change; or None."""

    def __init__(self, sc, paths, say, slow_s=SLOW_CPU_S, keep=None):
        self.sc, self.say, self.slow_s, self.keep = sc, say, slow_s, keep
        self.folder = os.path.join(sc.root, "cov")
        self.files = paths
        self.paths = {os.path.basename(p): p for p in paths}
        self.executable, self.kept = {}, {}
        if keep and os.path.exists(keep):
            with open(keep, encoding="utf-8") as f:
                data = json.load(f)
            self.executable = {p: set(lines) for p, lines in data["executable"].items()}
            self.kept = data["programs"]

    def prepare(self):
        """Put objects with counters in place of the layer's; done once."""
        if os.path.exists(self.folder):
            return
        os.makedirs(self.folder)
        for i, path in enumerate(self.files):
            self.say(f"counters {i + 1}/{len(self.files)} {path}")
            with open(os.path.join(self.sc.src, path), encoding="utf-8") as f:
                text = f.read()
            obj = os.path.join(self.folder, path.replace("/", "_") + ".o")
            if self.sc.compile(path, text, obj, ("-O1", "--coverage")):
                self.sc.put(path, obj)

    def save(self):
        """Write the file `keep`."""
        if self.keep:
            with open(self.keep + ".new", "w", encoding="utf-8") as f:
                json.dump({"executable": {p: sorted(n) for p, n in self.executable.items()},
                           "programs": self.kept}, f)
            os.replace(self.keep + ".new", self.keep)

    def collect(self):
        """{file: lines that ran since the last call}"""
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

    def units(self, programs, cases_of, room):
        """(units of these programs, what was left out with the reason). cases_of: {program: cases} of programs of which
        only these cases run."""
        found, out = [], []
        for i, program in enumerate(programs):
            self.say(f"reach {i + 1}/{len(programs)} {program}")
            cases = cases_of.get(program, [])
            if not os.path.exists(os.path.join(self.sc.build, program)):
                out.append((program, "is not built"))
                continue
            with open(os.path.join(self.sc.build, program), "rb") as f:
                digest = hashlib.sha256(f.read()).hexdigest() + " " + " ".join(cases)
            if self.kept.get(program, {}).get("digest") != digest:
                self.prepare()
                units, left = self.program(program, cases, room)
                self.kept[program] = {"digest": digest, "out": left, "units": [
                    [u.case, u.cost, {p: sorted(n) for p, n in u.lines.items()}] for u in units]}
                self.save()
            kept = self.kept[program]
            found += [Unit(program, case, cost, {p: set(n) for p, n in lines.items()})
                      for case, cost, lines in kept["units"]]
            out += kept["out"]
        return found, out

    def program(self, program, cases, room):
        """(units, what was left out) of one program. cases: only these; empty: all."""
        exe = self.sc.link(program, ["--coverage"])
        if not exe:
            return [], [(program, "does not link with counters")]
        if not cases:
            whole = self.one(exe, program, None, room)
            if isinstance(whole, str):
                return [], [(program, whole)]
            if whole is None or whole.cost[0] > SPLIT_CPU_S and whole.lines:
                cases = scratch.sh([exe, "--list"], self.sc.tree, check=False).stdout.splitlines()
            if len(cases) < 2:
                return ([whole] if whole and whole.lines else [],
                        [] if whole else [(program, f"takes more than {self.slow_s} s")])
        found, out = [], []
        for case in cases:
            if any(c != case and case.startswith(c) for c in cases):
                continue  # the name of another case is a prefix of this one, so running that case runs this one too
            self.say(f"reach {program} {case}")
            unit = self.one(exe, program, case, room)
            if unit is None or isinstance(unit, str):
                out.append((f"{program} {case}", unit or f"takes more than {self.slow_s} s"))
            elif unit.lines:
                found.append(unit)
        return found, out

    def one(self, exe, program, case, room):
        """Run once. Returns the unit; a text that says why there is none; or None if it took too long."""
        begin = time.monotonic()
        verdict, cpu = tests.run([exe] + ([case] if case else []), room, self.slow_s, FIRST_WALL_S)
        wall = time.monotonic() - begin
        lines = self.collect()
        # The kernel ends the process at about the limit, so its processor time may be just below.
        if cpu >= self.slow_s or verdict in ("time", tests.NO_END):
            return None
        if verdict != "pass":
            return "does not pass with counters: " + verdict
        return Unit(program, case, (cpu, wall), lines)

    def near(self, path, line):
        """The lines with code at or next to a line. A test must run one of them to notice a change of the line."""
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
