#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 at random moments of the two programs of a remote log (lib/log over driver "file"). The medium holds a log
whose records have no gap and include everything acknowledged.

test_kill_log.py BUILD [CASE...]

The medium is checked by docs/log-format.md alone, not by the library. The next writer finds the same by RDMA Reads. Both
are compared with each acknowledged record (log_judge.py). kill_rounds.py explains the seeds.
"""
import errno
import os
import random
import re
import subprocess
import time

from kill_rounds import SEED, Lost, Rounds, rounds
from log_judge import LogWriter, Records, log_on, plants
from test_kill import nothing_left
from weft_e2e import BUILD, PROCS, main, memif, path

EXE = os.path.join(BUILD, "test", "e2e", "log_probe")
BROKEN = EXE + "-noflush"
BYTES = 4 << 20


class Host:
    """The log's target, with the members of Target that Probe uses."""

    def __init__(self, name, exe):
        self.name, self.exe, self.medium, self.proc = name, exe, path(name + ".log.medium"), None

    def sock(self, _):
        return path(self.name + ".sock")

    def start(self):
        if os.path.exists(self.sock(0)):
            os.unlink(self.sock(0))
        with open(path(self.name + ".err"), "w") as err:
            self.proc = subprocess.Popen([self.exe, "target", memif(0, "server", self.sock(0)), "10.0.0.1/24", self.medium,
                                          str(BYTES)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True)
        PROCS.append(self.proc)
        line = self.proc.stdout.readline()
        assert line.startswith("ready "), line + open(path(self.name + ".err")).read()
        return line[6:].strip()

    def kill(self):
        self.proc.kill()
        self.proc.wait()
        self.proc.stdout.close()


class Writer(LogWriter):
    """One process of the log's writer."""

    ENDS = ("log_probe: the link is down", "log_probe: disconnected")

    def __init__(self, t, addr, depth, verify, kill_in=0):
        self.depth, self.kill_in = depth, kill_in
        self.args = [EXE, "write", memif(0, "client", t.sock(0)), f"10.0.0.{addr}/24", "10.0.0.1", str(depth)]
        self.args += ["verify"] if verify else []
        self.args += self.with_number()
        self.args += ["kill", str(t.proc.pid), str(kill_in)] if kill_in else []
        self.spawn()

    def bereaved(self):
        if self.found is None:
            self.kill()
            return self.gone()
        self.drain()
        err = self.said()
        if self.p.returncode != 1 or not (err in self.ENDS or err.startswith("log_probe: target lost")):
            raise Lost(f"log_probe ended with {self.p.returncode}: {err}")
        return None


class Run(Rounds):
    """Rounds of a target and its writers."""

    KINDS = ("target", "target", "target", "writer", "writer", "both", "at once", "at once")

    def __init__(self, name, seed, exe=EXE, verify=None):
        self.rnd, self.verify = random.Random(seed), verify
        self.t = Host(name, exe)
        self.mechanism = self.t.start()
        self.addr, self.birth_s, self.records = 1, 0.3, Records()
        self.seen = {k: 0 for k in ("records", "ahead", "birth", "longest", *self.KINDS)}

    def new_writer(self, kill_in=0):
        self.addr = self.addr % 200 + 2
        verify = self.rnd.random() < 0.3 if self.verify is None else self.verify
        return Writer(self.t, self.addr, self.rnd.choice((1, 2, 4, 8, 16, 64)), verify, kill_in)

    def is_up(self, p):
        """The writer has opened the log. It must have found everything acknowledged before."""
        p.connected()
        self.birth_s = time.monotonic() - p.born
        self.records.opened(p)

    def moment(self, p):
        how = self.rnd.choice(("birth", "acks", "acks", "time", "time"))
        if how == "birth":
            self.seen["birth"] += 1
            time.sleep(self.rnd.uniform(0, self.birth_s * 1.2))
            p.read(0)
            return
        self.is_up(p)
        if how == "time":
            end = time.monotonic() + self.rnd.uniform(0, 0.15)
            while (left := end - time.monotonic()) > 0:
                p.read(left)
            return
        want = p.acks + self.rnd.choice((0, 1, 2, self.rnd.randrange(300)))
        p.wait(lambda: p.acks >= want)

    def over(self, p):
        """The writer has ended."""
        self.seen["records"] += p.acks
        self.records.over(p)

    def judge(self):
        """All programs were killed."""
        found = log_on(self.t.medium)
        self.records.holds([found], "the log on the medium does")
        self.seen["ahead"] += max(found, default=0) > self.records.last
        self.seen["longest"] = max(self.seen["longest"], len(found))
        # What is on the medium stays. A running target may add operations that were under way.
        self.records.add(found)

    def judge_living(self):
        """The target may still execute operations of the killed writer: words and records may change during the check. The
        next writer or the next kill checks them again."""
        for tries in range(50):
            try:
                return self.records.holds([log_on(self.t.medium)], "the log on the medium does")
            except Lost:
                if tries == 49:
                    raise
                time.sleep(0.01)

    def round(self):
        kind = self.rnd.choice(self.KINDS)
        self.seen[kind] += 1
        p = self.new_writer(self.rnd.choice((1, 2, self.rnd.randrange(1, 400))) if kind == "at once" else 0)
        if kind == "at once":
            self.is_up(p)
            p.bereaved()
            self.t.kill()
        else:
            self.moment(p)
            first, second = self.rnd.sample((p.p, self.t.proc), 2)
            if kind == "writer":
                p.kill()
            elif kind == "target":
                self.t.proc.kill()
            else:
                first.kill()
                time.sleep(self.rnd.choice((0, self.rnd.uniform(0, 0.002))))
                second.kill()
            if kind == "target":
                self.t.kill()
                p.bereaved()
            else:
                p.gone()
                if kind == "both":
                    self.t.kill()
        self.over(p)
        if self.t.proc.poll() is None:
            self.judge_living()
            return
        self.judge()
        self.t.start()

    def end(self):
        p = self.new_writer()
        self.is_up(p)
        p.wait(lambda: p.acks >= 20)
        self.end_with(p)
        self.judge()

    def end_with(self, p):
        p.kill()
        p.gone()
        self.t.kill()
        self.over(p)

    def said(self):
        s = self.seen
        return (f"{s['records']} records acknowledged, up to {s['longest']} in the log; killed: target {s['target']}, writer "
                f"{s['writer']}, both {s['both']}, target at the moment of an acknowledgement {s['at once']}; before the log was open "
                f"{s['birth']}; the medium was ahead of the acknowledgement {s['ahead']}")


def test_log():
    """Kills during thousands of appends: no acknowledged record is lost, none is incomplete, and there is no gap."""
    n = rounds(25)
    run = Run("kl", SEED)
    run.survive(n)
    assert run.seen["records"] > 10 * n, run.said()
    nothing_left()


def caught(within, verify, by):
    """The message by which a target without Flush is detected. Any other failure fails the test."""
    run = Run(f"kn-{verify}", SEED, exe=BROKEN, verify=verify)
    lost = run.caught(within, f", {'with' if verify else 'without'} Verify", stuck=True)
    assert re.search(by, lost), f"seed {SEED}: {lost}"


def test_log_without_flush():
    """A target whose Flush does nothing is detected: with Verify at once, without Verify by what a kill takes away."""
    # WEFT_WC_HASH_MISMATCH, reported as WEFT_LOG_EV_LOST, for the first record that a writer makes durable.
    caught(5, True, f"log_probe: opening: target lost: {re.escape(os.strerror(errno.EILSEQ))}$")
    caught(8, False, r"^\d+ was acknowledged, the (log on the medium|next writer) does not have it")


def test_planted():
    """The judge detects each planted fault, on the medium and in what the next writer finds."""
    run = Run("kp", SEED, verify=False)

    def appends(n):
        """Another writer, whose open is not judged, appends n records."""
        run.t.start()
        p = run.new_writer()
        p.connected()
        p.wait(lambda: p.acks >= n)
        p.kill()
        p.gone()
        run.t.kill()

    def opens():
        run.t.start()
        p = run.new_writer()
        try:
            run.is_up(p)
        finally:
            p.kill()
            p.gone()
            run.t.kill()

    p = run.new_writer()
    run.is_up(p)
    p.wait(lambda: p.acks >= 100)
    run.end_with(p)
    plants(run.records, [run.t.medium], run.judge, opens, appends)
    run.t.start()
    run.end()
    nothing_left()


if __name__ == "__main__":
    main([test_log, test_log_without_flush, test_planted])
