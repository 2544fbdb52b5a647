#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 at random moments of a log's writer and of the three weft-targets that host it (quorum 2): of one, some or
all of them. In each round two targets, one after the other, come back blank. No acknowledged record is lost: each writer that
opens the log finds all of them, at their positions, and two of three media hold them.

test_kill_hosts.py BUILD [CASE...]

A killed target loses its unflushed data, as in a power cut, because its memory is the process's. The media are checked
by the format alone, as in test_kill_log.py. kill_rounds.py explains the seeds.
"""
import contextlib
import errno
import os
import random
import re
import signal
import time

from kill_rounds import SEED, Rounds, rounds
from lan import LanTarget, enter
from log_judge import Records, log_on, plants
from test_kill import nothing_left
from test_kill_log import BYTES
from test_log_host import Writer
from weft_e2e import BUILD, main, path

N, QUORUM = 3, 2
NOFLUSH = os.path.join(BUILD, "test", "e2e", "weft-target-noflush")


class Ended(AssertionError):
    """The writer has ended by itself."""


class Hosts(Rounds):
    """Rounds of three targets and the writers of their log."""

    KINDS = ("target", "target", "writer", "writer", "both", "all", "all", "at once")

    replacements = 2  # in a round

    def __init__(self, name, seed, exe=None, verify=None):
        self.rnd, self.verify = random.Random(seed), verify
        self.media = [path(f"{name}{i}.medium") for i in range(N)]
        self.ts = [LanTarget(f"{name}{i}", i + 1, {"log": {"format": "log", "path": m, "size": BYTES, "persist": "file"}},
                             extra="writer_idle_ms = 2000\nrevoke_ms = 0\n[worker w]\nidle_sleep_us = 200\n", keepalive_ms=1000, exe=exe,
                             weft="").start() for i, m in enumerate(self.media)]
        line = next(x for x in self.ts[0].logged().splitlines() if "memory of a log" in x)
        self.mechanism = line.split(", ")[1]
        self.seen = {k: 0 for k in ("records", "replaced", "writer in it", "all in it", "other in it", "over", "ahead", "longest",
                                    *self.KINDS)}
        self.records, self.longest = Records(), 0.0
        self.w = None
        self.noticed = {}  # for each killed target: the events that its writer had reported of it before

    # The writer

    def new_writer(self, kill=None):
        """Start the next writer and wait until it has opened the log. It must find every acknowledged record, and none
        that was never begun."""
        verify = self.rnd.random() < 0.3 if self.verify is None else self.verify
        args = ["wait", 20000, *(["verify"] if verify else []), *(kill or [])]
        t0 = time.monotonic()
        for _ in range(5):
            self.w = Writer(self.ts, depth=self.rnd.choice((1, 2, 4, 8, 16, 64)), quorum=QUORUM, args=args)
            try:
                self.lively(lambda: self.w.found is not None, "waiting for the log")
                break
            except Ended:
                self.ended()
        assert self.w.found is not None, "no writer comes to open the log"
        self.longest = max(self.longest, time.monotonic() - t0)
        self.seen["ahead"] += self.w.found > self.records.last
        self.records.opened(self.w)

    def writer_gone(self):
        """The writer was killed: read all its output. If it ended before the kill, it must have reported why."""
        self.w.drain()
        if self.w.p.wait() != -signal.SIGKILL:
            self.ended()
        self.w.gone()
        self.seen["records"] += self.w.acks
        self.records.over(self.w)
        self.w = None
        self.noticed = {}

    def lively(self, cond, what):
        """Wait for a report of the writer, which must not end by itself."""
        end = time.monotonic() + 60
        while not cond():
            state = f"{what}; it has lost {self.w.lost[-4:]}, live are {self.w.live}"
            if not self.w.read(0.02):
                raise Ended(f"the writer has ended, {state}")
            assert time.monotonic() < end, f"nothing happens, {state}"

    def ended(self):
        """The writer's log has ended, because two of three targets were lost or did not answer in time. The writer must
        report this and nothing else."""
        err = self.w.p.stderr.read().decode().strip()
        self.w.p.wait()
        lost = "log_host_probe: (opening: |reading: )?log failed: " + os.strerror(errno.ENOTCONN)
        if self.w.p.returncode != 1 or not re.fullmatch(lost, err):
            logs = "".join(f"\n{t.name}:\n{t.logged()[-1200:]}" for t in self.ts)
            raise AssertionError(f"the writer ended with {self.w.p.returncode}: {err}{logs}")
        self.seen["over"] += 1

    def again(self, do):
        """Call fn, again with a new writer if the log ends meanwhile."""
        for _ in range(5):
            try:
                return do()
            except Ended:
                self.writer_gone()
                self.new_writer()
        raise AssertionError("one log after the other is over")

    def all_live(self):
        """Wait until all targets count. The writer must have noticed the loss of those that were killed since."""
        self.again(self.all_noticed)

    def all_noticed(self):
        self.lively(lambda: all(self.w.told[v] > n for v, n in self.noticed.items()), "waiting for deaths to be noticed")
        self.noticed = {}
        self.lively(lambda: self.w.live == set(range(N)), "waiting for all targets to be live")

    def moment(self):
        """Wait for some appends or some time."""
        if self.rnd.random() < 0.5:
            end = time.monotonic() + self.rnd.uniform(0, 0.15)
            while (left := end - time.monotonic()) > 0:
                self.w.read(left)
            return
        n = self.rnd.choice((1, 2, self.rnd.randrange(1, 200)))
        self.again(lambda: self.appends(n))

    def appends(self, n):
        n += self.w.acks
        self.lively(lambda: self.w.acks >= n, "waiting for appends")

    # Kills

    def kill(self, victims):
        """Kill these targets and, if None is among them, the writer; in random order, some at nearly the same time."""
        order = self.rnd.sample(victims, len(victims))
        for v in order:
            (self.w.p if v is None else self.ts[v].proc).kill()
            time.sleep(self.rnd.choice((0, 0, self.rnd.uniform(0, 0.002))))
        for v in victims:
            if v is not None:
                self.ts[v].proc.wait()
        for _ in range(4):
            self.w.read(0)  # output from before the kill; a pipe holds no more
        for v in victims:
            if v is not None:
                self.noticed[v] = self.w.told[v]
        if None in victims:
            self.writer_gone()

    def judge(self, healthy=N):
        """All processes were killed. Each acknowledged record must be on as many media as the quorum, less the blank
        ones."""
        logs = [log_on(m, lives_are=None) for m in self.media]
        self.seen["longest"] = max(self.seen["longest"], *map(len, logs))
        self.records.holds(logs, "enough logs on the media do", QUORUM - (N - healthy))

    def restart(self, victims):
        for v in self.rnd.sample(victims, len(victims)):
            if v is not None:
                self.ts[v].start()
        if self.w is None:
            self.new_writer()

    def wipe(self, i):
        if self.rnd.random() < 0.5:
            os.unlink(self.media[i])
        else:
            with open(self.media[i], "wb") as f:
                f.truncate(BYTES)

    def replace(self, i):
        """Target i comes back blank and recovers. Meanwhile others may be killed, but none loses its medium."""
        self.moment()
        self.kill([i])
        self.wipe(i)
        self.ts[i].start()
        how = self.rnd.random()
        if how < 0.35:
            time.sleep(self.rnd.uniform(0, 0.3))
            others = [x for x in range(N) if x != i]
            victims = [None] if how < 0.2 else [None, *range(N)] if how < 0.3 else [self.rnd.choice(others)]
            self.seen["writer in it" if how < 0.2 else "all in it" if how < 0.3 else "other in it"] += 1
            self.kill(victims)
            if 0.2 <= how < 0.3:
                self.judge(N - 1)
            self.restart(victims)
        self.all_live()
        self.seen["replaced"] += 1

    def round(self):
        if self.w is None:
            self.new_writer()
            self.all_live()
        kind = self.rnd.choice(self.KINDS)
        self.seen[kind] += 1
        if kind == "at once":
            # The writer itself kills the target, right after an acknowledgement.
            i = self.rnd.randrange(N)
            self.kill([None])
            self.new_writer(["kill", self.ts[i].proc.pid, self.rnd.choice((1, 2, self.rnd.randrange(1, 300)))])
            with contextlib.suppress(Ended):
                self.lively(lambda: self.ts[i].proc.poll() is not None, "waiting for the target to be killed")
            self.ts[i].kill()
            self.restart([i])
        else:
            self.moment()
            victims = {"target": [self.rnd.randrange(N)], "writer": [None], "both": [None, self.rnd.randrange(N)],
                       "all": [None, *range(N)]}[kind]
            self.kill(victims)
            if kind == "all":
                self.judge()
            self.restart(victims)
        self.all_live()
        for i in self.rnd.sample(range(N), self.replacements):
            self.replace(i)

    def end(self):
        self.moment()
        self.kill([None, *range(N)])
        self.judge()

    def said(self):
        s = self.seen
        return (f"{s['records']} records acknowledged, up to {s['longest']} in the log; "
                f"killed: target {s['target']}, writer {s['writer']}, "
                f"both {s['both']}, all {s['all']}, target at the moment of an acknowledgement {s['at once']}; "
                f"targets replaced {s['replaced']}, "
                f"meanwhile killed: writer {s['writer in it']}, everything {s['all in it']}, another target {s['other in it']}; "
                f"a log was over for want of targets {s['over']}; the log was "
                f"ahead of the acknowledgement {s['ahead']}; longest until a writer had the log {self.longest:.1f} s")


def test_log():
    """Kills during thousands of appends, and two blank targets in each round: no acknowledged record is lost."""
    n = rounds(4)
    run = Hosts("kh", SEED)
    run.survive(n)
    assert run.seen["replaced"] == 2 * n and run.seen["records"] > 20 * n, run.said()
    nothing_left()


def test_without_flush():
    """Targets whose Flush does nothing are detected by what the first kill of all targets takes away."""
    run = Hosts("kw", SEED, exe=NOFLUSH, verify=False)
    run.KINDS, run.replacements = ("all",), 0
    lost = run.caught(2)
    assert re.match(r"\d+ was acknowledged, (the next writer does|enough logs on the media do) not have it", lost), lost


def test_planted():
    """The judge detects each planted fault, on the media and in what the next writer finds."""
    run = Hosts("kp", SEED, verify=False)

    def up(judged):
        for t in run.ts:
            t.start()
        run.w = Writer(run.ts, quorum=QUORUM, args=["wait", 20000])
        run.w.connected()
        if judged:
            run.records.opened(run.w)

    def down():
        for p in (run.w.p, *(t.proc for t in run.ts)):
            p.kill()
        run.w.gone()
        run.w = None
        for t in run.ts:
            t.proc.wait()

    def appends(n):
        """Another writer, whose open is not judged, appends n records everywhere."""
        up(False)
        run.w.wait(lambda: run.w.live == set(range(N)) and run.w.acks >= n)
        down()

    def opens():
        try:
            up(True)
        finally:
            down()

    run.new_writer()
    run.all_live()
    run.again(lambda: run.appends(100))
    run.kill([None, *range(N)])
    plants(run.records, run.media, run.judge, opens, appends)
    run.restart(range(N))
    run.all_live()
    run.end()
    nothing_left()


if __name__ == "__main__":
    enter()
    main([test_log, test_without_flush, test_planted])
