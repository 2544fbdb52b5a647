#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The model of the remote log, and that of an export's two slots.

  test_log_model.py [--long] [--config NAME]   all configurations, or one; then each mutant is found. TAP, with states and seconds
  test_log_model.py --mutant NAME              a fault of the protocol, and the shortest way to what it breaks
  test_log_model.py --list                     what there is
"""
import argparse
import gc
import os
import re
import resource
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import export  # noqa: E402
import replica  # noqa: E402
from check import explore  # noqa: E402

R = replica.Config
E = export.Config

# Some of the records take two places: ring and first state are such that one of these does not fit in front of the ring's
# end, and that little room is left in front of the floor of a target that lacks some records.
AHEAD = {"n": 3, "q": 2, "ring": 5, "records": 4, "kept": 1, "long": (5,)}
LEFT = {"n": 3, "q": 2, "ring": 6, "records": 5, "kept": 2, "left": 1, "long": (6,), "writers": 3}
LACKS = {"n": 2, "q": 1, "ring": 5, "records": 3, "kept": 2, "long": (5, 8), "writers": 1}
LACKS_2 = {"n": 2, "q": 2, "ring": 5, "records": 3, "kept": 2, "long": (5, 8), "writers": 2}
FULL = {"n": 2, "q": 1, "ring": 5, "records": 7, "kept": 3, "long": (10,), "writers": 1}

# The subject of each configuration, and its bounds.
QUICK = (
    ("one target, from its format on", R("one-new", 1, 1, start="new", split=True, last=2, writers=3, death=2, cutall=1)),
    ("one target, its ring wraps", R("one-wrap", 1, 1, ring=4, filler=True, last=6, split=True, writers=2, death=1, trim=1)),
    ("two of two, the power goes", R("two-power", 2, 2, last=2, split=True, death=1, cutall=1)),
    ("two of two, the ring wraps", R("two-wrap", 2, 2, ring=4, filler=True, last=4, death=1, lost=1)),
    ("one of two, two writers", R("two-one", 2, 1, last=3, second=1, lost=1, writers=3)),
    ("three, from their format on", R("three-new", 3, 2, start="new", last=1, death=1, writers=2)),
    ("three, one loses its memory", R("three-wipe", 3, 2, last=2, wipe=1, death=1)),
    ("three, one is gone, one loses its memory, a trim", R("three-gone", 3, 2, last=2, wipe=1, gone=1, trim=1)),
    ("three, the power goes", R("three-power", 3, 2, last=2, split=True, cutall=1)),
    ("three, two writers", R("three-two", 3, 2, last=2, second=1, lost=1)),
    ("three, a replaced one returns", R("three-replace", 3, 2, last=2, replace=1, back=1, membership=True)),
    ("three of three, one loses its memory", R("three-three", 3, 3, last=2, wipe=1, death=1, lost=1)),
    ("one of three", R("three-one", 3, 1, last=2, death=1, lost=1)),
    ("three, a record is damaged", R("three-rot", 3, 2, records=2, last=3, death=1, rot=1)),
    ("three, a trim is at one alone", R("three-trimmed", 3, 2, records=2, trimmed=True, last=2, gone=1)),
    ("three, the last record of one is damaged", R("three-tail", 3, 2, last=2, rot=1, lost=1, writers=1)),
    ("three, a record in the middle is damaged", R("three-middle", 3, 2, last=2, rot=1, death=1, middle=True)),
    ("three, one has others, damaged", R("three-unseat", 3, 2, left=2, last=2, rot=1, writers=2)),
    ("three, a trim to a record in flight behind a filler", R("three-ahead", last=5, trim=1, death=1, **AHEAD)),
    ("one of two, long records, catch-up", R("two-long", last=8, lost=1, **LACKS)),
    ("one of two, a filler behind a full ring, catch-up", R("two-full", last=10, lost=1, **FULL)),
    ("two of two, from their format on, stamps", R("two-stamps", 2, 2, start="new", split=True, last=1, death=1, stamps=True)),
    ("three, stamps", R("three-stamps", 3, 2, last=2, death=1, lost=1, stamps=True)),
    ("one of two, a host that gives one grant again and again",
     R("two-twice", 2, 1, start="new", split=True, last=1, death=1, down=1, twice=True, live=False)),
    ("an export", E("export", pushes=2, death=2, cut=1, taken=1)),
)

LONG = (
    ("three, trims to records in flight behind a filler", R("three-ahead-long", last=6, trim=1, death=1, **AHEAD)),
    ("three, such trims by an earlier release", R("three-earlier-long", last=6, trim=1, death=1, ahead=True, **AHEAD)),
    ("three, an open with a trim to a record at one alone", R("three-keep-long", last=6, trim=1, death=1, **LEFT)),
    ("two of two, long records, catch-up, writers that die", R("two-long-long", last=8, lost=1, death=1, **LACKS_2)),
    ("one of two, long records, catch-up, streams lost", R("two-full-long", last=11, lost=2, **FULL)),
    ("two of two, the ring wraps, trims", R("two-wrap-long", 2, 2, ring=4, filler=True, last=6, death=1, lost=1, trim=1)),
    ("one of two, the ring wraps, trims", R("two-one-wrap-long", 2, 1, ring=4, filler=True, last=5, death=1, lost=1, trim=1)),
    ("two, from their format on, the power goes",
     R("two-new-long", 2, 2, start="new", split=True, last=2, death=1, down=1, cutall=1, writers=3)),
    ("three, one loses its memory, streams too", R("three-wipe-long", 3, 2, last=3, wipe=1, death=1, lost=1)),
    ("three, two lose their memory in turn, trims", R("three-wipes-long", 3, 2, last=2, wipe=2, death=1, trim=1)),
    ("three, the ring wraps, trims", R("three-wrap-long", 3, 2, ring=4, filler=True, last=4, death=1, trim=1)),
    ("three, the ring wraps behind a trim of one", R("three-trimmed-long", 3, 2, ring=4, records=2, trimmed=True, last=4, lost=1)),
    ("three, writers that die, streams lost", R("three-death-long", 3, 2, last=2, death=2, lost=1, writers=3)),
    ("three, two writers, the power of one goes", R("three-two-long", 3, 2, last=3, second=1, lost=1, down=1)),
    ("three, writers die, the power goes", R("three-power-long", 3, 2, last=2, split=True, death=1, cutall=1)),
    ("three, a replaced one returns, writers die",
     R("three-replace-long", 3, 2, last=2, replace=1, back=2, death=1, writers=3, membership=True)),
    ("three of three, two lose their memory", R("three-three-long", 3, 3, last=2, wipe=2, death=1, lost=1, writers=3)),
    ("one of three, two writers", R("three-one-long", 3, 1, last=3, death=1, lost=1, second=1, writers=3)),
    ("three, a record in the middle is damaged", R("three-middle-long", 3, 2, last=3, rot=1, death=1, middle=True)),
    ("an export, three pushes", E("export-long", pushes=3, death=3, cut=2, taken=2, pulls=2)),
)

# Faults of the protocol: (point of the review, or none; description; where it is detected).
MUTANTS = {
    "goal-laggard": ("1", "a target that joined counts when it has what the slowest has",
                     R("", 3, 2, last=2, writers=1, wipe=1)),
    "goal-unseated": ("1", "a target of which nothing is known counts when it has what the slowest has",
                      R("", 3, 2, last=2, writers=1, rot=1)),
    "flush-words": ("2", "the words are flushed before they are believed, the superblock is not",
                    R("", 1, 1, start="new", split=True, last=2, death=1)),
    "no-fence": ("3", "a writer gets a grant, operations of the last one's are in the queue",
                 R("", 3, 2, last=2, death=1)),
    "rejoin-no-fence": ("3", "a writer joins a target again, its own operations are in the queue",
                        R("", 3, 2, last=3, writers=1, lost=1)),
    "no-lives": ("4", "whoever has a card is a member",
                 R("", 3, 2, last=3, writers=1, replace=1, membership=True)),
    "seat-silent": ("4", "a new target counts, and no record says so",
                    R("", 3, 2, last=3, writers=1, replace=1, membership=True)),
    "seat-early": ("4", "a new target counts before enough of the others know",
                   R("", 3, 2, last=3, writers=1, replace=1, lost=1, membership=True)),
    "head-past-filler": ("5", "the head passes the end of the tail's record across a filler",
                         R("", 2, 1, ring=4, filler=True, last=6, writers=1, lost=1, trim=1)),
    "trim-waits": ("6", "a trim waits at a target for a record that waits for its room",
                   R("", 2, 1, ring=3, last=6, writers=1, lost=1, trim=1)),
    "reset-empty": ("7", "a target that was begun anew behind the last record counts without one",
                    R("", 3, 2, last=1, wipe=2, death=1, trim=1, gone=1)),
    "head-of-one": ("8", "the record at the head is read from one target alone",
                    R("", 3, 2, records=2, last=2, death=1, rot=1)),
    "trim-filler": ("9", "a trim to the place in front of a filler is refused",
                    R("", 1, 1, ring=4, filler=True, last=6, writers=1)),
    "image-end": ("9", "a reader of one image takes the end of the tail's record for certain", R("", 3, 2, last=2, writers=1)),
    "refused-for-good": ("9", "an open for which others know more ends for good, as one with damage does",
                         R("", 3, 2, last=2, wipe=1, death=1)),
    "word-unchecked": ("9", "a damaged tail word that names another record is believed",
                       R("", 3, 2, last=2, writers=1, rot=1)),
    "cut-in-doubt": ("", "what no source has is not the log's, also where the log has a damaged record",
                     R("", 3, 2, last=3, rot=1, death=1, middle=True)),
    "room-of-live": ("", "appends take room that only a trim of the writer before made; who has not the room is begun anew",
                     R("", 3, 2, ring=3, records=2, trimmed=True, last=4, lost=1)),
    "no-source": ("", "what no live target has is waited for", R("", 3, 2, records=2, trimmed=True, last=2, gone=1)),
    "no-step0": ("", "nothing is flushed before it is believed",
                 R("", 1, 1, ring=4, last=6, split=True, death=1, trim=1)),
    "no-flush": ("", "a record is not flushed before the tail moves", R("", 1, 1, last=2, writers=1, split=True)),
    "pointer-first": ("", "the tail moves before the record is written", R("", 1, 1, last=2, writers=1, split=True)),
    "early-ack": ("", "one answer is taken for a quorum", R("", 3, 2, last=2, writers=1)),
    "longest": ("", "the right one is the longest, whatever its epoch", R("", 3, 2, left=2, last=1, death=1, writers=3)),
    "compare-laggard": ("", "what the slowest lacks is not in the right log", R("", 3, 2, last=2, writers=1, lost=1)),
    "need-q": ("", "a quorum opens, also when it is no majority", R("", 3, 1, last=2, writers=1)),
    "claim-one": ("", "records begin when one has been claimed", R("", 3, 2, last=1, death=2, writers=3)),
    "claim-at-once": ("", "the first open seats targets that were not offered a place",
                      R("", 3, 2, start="new", last=2, death=1)),
    "fresh-beside-seated": ("", "no records anywhere: a new log, whoever is seated",
                            R("", 2, 1, start="new", last=2, death=1, wipe=1, lose=1, live=False)),
    "anew-forgets": ("", "a target that is begun anew does not keep which lives it knew",
                     R("", 3, 2, last=3, writers=1, replace=1, lost=1, trim=1, membership=True, live=False)),
    "no-cut": ("", "records that are not the log's are overwritten, the tail names them still",
               R("", 3, 2, left=2, last=2, split=True)),
    "head-in-flight": ("", "a trim to a record in flight takes the head across the filler; an open takes the highest position",
                       R("", last=5, trim=1, death=1, **AHEAD)),
    "open-in-flight": ("", "the same, of an open with a trim", R("", last=6, trim=1, death=1, **LEFT)),
    "head-by-position": ("", "an open takes the highest position of a head, whatever record is there; such a trim was made earlier",
                         R("", last=5, trim=1, death=1, ahead=True, **AHEAD)),
    "copy-long": ("", "a record longer than the buffer is copied into room for its beginning", R("", last=8, lost=1, **LACKS)),
    "room-wraps": ("", "behind a filler, no room is taken for endless room", R("", last=10, lost=1, **FULL)),
    "filler-unchecked": ("", "a filler is copied without looking for room", R("", last=10, lost=1, **FULL)),
    "claim-before-words": ("", "an open claims a target before the target's words have the stamp of the epoch",
                           R("", 3, 2, last=1, death=1, stamps=True)),
    "seat-before-words": ("", "a target is seated, its words have the stamp of an older epoch",
                          R("", 3, 2, last=1, death=1, stamps=True)),
    "offer-again": ("", "a first open offers places again, where words have stamps already",
                    R("", 2, 2, start="new", last=1, death=1, stamps=True)),
    "grant-unchecked": ("3", "the host gives one grant again, and the writer does not compare the grant word",
                        R("", 3, 2, last=2, death=1, twice=True, live=False)),
    "feed-before-head": ("", "what follows is written before the head has passed what is not the log's",
                         R("", 3, 2, ring=4, left=1, last=3, trim=1)),
}
MUTANTS.update({name: ("", what, E("", pushes=2, death=1, cut=1, taken=1)) for name, what in export.MUTANTS.items()})

# Mutants that take long to detect. They run with the large configurations.
LONG_MUTANTS = {"anew-forgets"}

# Steps of the specification that the model executes inside another step.
INSIDE = {
    "fence.end": "join.look", "fence.give": "join.look", "join.flush": "join.look", "join.tail": "join.look",
    "format.body": "format.magic", "append.flush": "append.tail", "append.ack": "append.flush-tail", "open.head": "open.choose",
    "open.done": "open.record", "trim.reuse": "append.write", "join.trim": "trim.head", "join.live": "join.seat",
}


def model_of(cfg):
    return (replica if isinstance(cfg, R) else export).Model(cfg)


def with_mutant(name):
    cfg = MUTANTS[name][2]
    cfg.name, cfg.mutant = name, name
    return model_of(cfg)


class Tap:
    """The output lines of the test."""

    def __init__(self):
        self.n = self.bad = 0

    def check(self, what, good, notes=()):
        self.n += 1
        self.bad += not good
        print(f"{'ok' if good else 'not ok'} {self.n} {what}", flush=True)
        for line in notes:
            print(f"#   {line}")

    def end(self):
        print(f"1..{self.n}")
        return self.bad > 0


def words_of(spec):
    """The steps that the tables of the specification name."""
    with open(spec, encoding="utf-8") as f:
        return {w for line in f if line.startswith("| `") for w in re.findall(r"`([a-z]+\.[a-z-]+)`", line.split("|")[1])}


def words_in(folder):
    """The steps that comments in a folder's sources name."""
    named = set()
    for file in sorted(os.listdir(folder)):
        if file.endswith((".c", ".h")):
            with open(os.path.join(folder, file), encoding="utf-8") as f:
                named |= set(re.findall(r"`([a-z]+\.[a-z-]+)`", f.read()))
    return named


def table_faults(table):
    """Names in a table of faults that do not exist: mutants, tests, functions; and mutants of a log that it lacks. Returns
    (rows, [names])."""
    here = os.path.dirname(table)
    source = {}
    for folder in (here, os.path.join(here, "..", "..", "lib", "log")):
        for file in os.listdir(folder):
            if file.endswith((".c", ".h")):
                with open(os.path.join(folder, file), encoding="utf-8") as f:
                    source[file] = f.read()
    rows, wrong, named = 0, [], set()
    with open(table, encoding="utf-8") as f:
        for line in f:
            cells = [re.findall(r"`([^`]+)`", c) for c in line.split("|")[1:-1]]
            if len(cells) != 5 or not cells[4]:
                continue
            rows += 1
            named |= set(cells[2])
            wrong += [m for m in cells[2] if m not in MUTANTS]
            for name in cells[3]:
                program, _, case = name.partition(":")
                if '{"' + case + '"' not in source.get(f"test_{program}.c", ""):
                    wrong.append(name)
            code = "".join(text for file, text in source.items() if not file.startswith(("test_", "lt")))
            wrong += [fn for fn in cells[4] if not re.search(rf"^(?:static inline \w+\n)?{fn[:-2]}\(", code, re.M)]
    return rows, wrong + sorted(set(MUTANTS) - set(export.MUTANTS) - named)


def taken(name, steps):
    steps.add(name.split(" ")[0].split("/")[0])


class Watch:
    """A model that records the names of its steps."""

    def __init__(self, model, steps):
        self.model, self.names = model, steps
        self.start, self.canon, self.look, self.stuck, self.live = model.start, model.canon, model.look, model.stuck, model.live

    def steps(self, s):
        for step in self.model.steps(s):
            taken(step[0], self.names)
            yield step


def run_all(args):
    tap, names, begin = Tap(), set(), time.monotonic()
    states, seconds = 0, 0.0
    for what, cfg in (LONG if args.long else QUICK):
        if args.config not in (None, cfg.name):
            continue
        r = explore(Watch(model_of(cfg), names))
        states, seconds = states + r.states, seconds + r.seconds
        tap.check(f"{what} ({cfg.name}): {r.states} states, {r.steps} steps, depth {r.depth}, {r.seconds:.1f} s",
                  r.wrong is None and r.whole, [r.wrong] + r.trace if r.wrong else ())
    if args.config is None:
        for name, (point, what, _) in MUTANTS.items():
            if (name in LONG_MUTANTS) != args.long:
                continue
            r = explore(with_mutant(name))
            states, seconds = states + r.states, seconds + r.seconds
            point = f", point {point}" if point else ""
            tap.check(f"mutant {name}{point} ({what}): found in {len(r.trace)} steps, {r.states} states, {r.seconds:.1f} s",
                      r.wrong is not None)
        if args.spec and not args.long:
            want = words_of(args.spec)
            mine = {n for n in names if not n.startswith(("push", "pull"))} & {n for n in names if "." in n}
            lacks = sorted(want - names - set(INSIDE))
            alien = sorted(mine - want - {"writer.failed", "open.begin", "open.offered", "open.trim"})
            tap.check(f"{len(want)} steps of the specification are those of the model",
                      bool(want) and not lacks and not alien and not set(INSIDE) - want,
                      [f"not taken: {lacks}", f"not in the specification: {alien + sorted(set(INSIDE) - want)}"])
        if args.spec and args.code and not args.long:
            code = words_in(args.code)
            tap.check(f"{len(want)} steps of the specification are named in the code, and no others",
                      bool(want) and code == want, [f"not named: {sorted(want - code)}", f"unknown: {sorted(code - want)}"])
        if args.table and not args.long:
            rows, wrong = table_faults(args.table)
            tap.check(f"{rows} faults, with the mutants, tests and functions that the table names", rows > 0 and not wrong, [str(wrong)])
    print(f"# {states} states, {seconds:.1f} s of the processor in {time.monotonic() - begin:.1f} s, "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")
    return tap.end()


def run_mutant(name):
    r = explore(with_mutant(name))
    print(f"{name}: {MUTANTS[name][1]}")
    for i, step in enumerate(r.trace):
        print(f"{i + 1:4} {step}")
    print(f"     {r.wrong if r.wrong else 'NOT FOUND'}")
    print(f"{r.states} states, {r.steps} steps, {r.seconds:.1f} s")
    return r.wrong is None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--long", action="store_true", help="the large configurations")
    p.add_argument("--config", metavar="NAME")
    p.add_argument("--mutant", metavar="NAME", choices=sorted(MUTANTS))
    p.add_argument("--list", action="store_true")
    p.add_argument("--spec", help="the specification, whose steps are compared")
    p.add_argument("--code", help="with --spec: the folder of the sources, which name the same steps")
    p.add_argument("--table", help="faults by point, whose mutants, tests and mends are looked for")
    args = p.parse_args()
    gc.disable()  # only tuples: there are no cycles, and the search for them takes half of the time
    if args.list:
        for what, cfg in QUICK + LONG:
            print(f"{cfg.name:20} {what}")
        for name, (point, what, _) in MUTANTS.items():
            print(f"{name:20} {'point ' + point + ': ' if point else ''}{what}")
        return 0
    if args.mutant:
        return run_mutant(args.mutant)
    return run_all(args)


if __name__ == "__main__":
    sys.exit(main())
