#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-target hosts remote logs: three targets with quorum 2, killed targets, takeover by another writer, and
authentication. test_log_host.py BUILD [CASE...]"""
import json
import os
import signal
import subprocess
import time

from lan import LanTarget, dev, enter
from log_judge import LogWriter, Records
from test_auth import key
from weft_e2e import BUILD, PROCS, app, main, path, run

EXE = os.path.join(BUILD, "test", "e2e", "log_host_probe")


class Writer(LogWriter):
    """A writer of the log at these targets, with address 10.0.0.ADDR."""

    def __init__(self, targets, addr=100, depth=8, quorum=2, args=(), export="log"):
        self.depth, self.kill_in = depth, 0
        self.args = self.command(targets, addr, depth, quorum, [*self.with_number(), *args], export)
        self.live, self.lost, self.told = set(), [], [0] * len(targets)
        self.spawn()

    @staticmethod
    def command(targets, addr, depth, quorum, args, export="log"):
        where = [x for t in targets for x in (t.addr, export)]
        return [EXE, dev(f"c{addr}"), f"10.0.0.{addr}/24", str(quorum), str(depth), *map(str, args), "--", *where]

    def line(self, line):
        word, *rest = line.decode().split(None, 2)
        if word == "live":
            self.live.add(int(rest[0]))
            self.told[int(rest[0])] += 1
        elif word == "lost":
            self.live.discard(int(rest[0]))
            self.told[int(rest[0])] += 1
            self.lost.append(" ".join(rest))
        else:
            super().line(line)


def judged(former, w):
    """Writer w, whose open followed that of `former`, has found each record that `former` acknowledged before it ended."""
    records = Records()
    records.opened(former)
    records.over(former)
    records.opened(w)


def hosts(name, n=3, extra="", **keys):
    """Targets with one log each and two workers: RPC connection and log connection may belong to different workers."""
    return [LanTarget(f"{name}{i}", i + 1, {"log": {"format": "log", "path": path(f"{name}{i}.medium"), "size": "4M",
                                                    "persist": "file", **keys}}, extra=extra,
                      keepalive_ms=1500, weft="workers = 2\n").start() for i in range(n)]


def test_replicated():
    """Append at three targets. One is killed and the log continues. The target restarts and joins again."""
    ts = hosts("rep")
    w = Writer(ts)
    w.connected()
    w.wait(lambda: w.acks > 200 and w.live == {0, 1, 2})
    ts[1].kill()
    w.wait(lambda: 1 not in w.live)
    n = w.acks
    w.wait(lambda: w.acks > n + 200)
    ts[1].start()
    w.wait(lambda: 1 in w.live)
    ts[0].kill()
    n = w.acks
    w.wait(lambda: w.acks > n + 200)
    w.kill()
    w.gone()


def ended(w, *words):
    """The writer has ended by itself and reported why."""
    w.drain()
    err = w.said()
    assert w.p.returncode == 1 and any(x in err for x in words), (w.p.returncode, err)


def test_restarts():
    """Restarts and kills under load, of the only target and of two or three at a time: the writer waits, loses no append and
    makes none twice."""
    for n, quorum, rounds in ((1, 1, ((0,), (0,))), (3, 2, ((0, 1, 2),))):
        ts = hosts(f"rs{n}-", n)
        w = Writer(ts, quorum=quorum, args=["away", 20000, "wait", 20000])
        w.connected()
        for i, down in enumerate(rounds):
            w.wait(lambda: w.live == set(range(n)))
            acks = w.acks
            w.wait(lambda: w.acks > acks + 100)
            for k in down:
                if i % 2:
                    assert ts[k].term() == 0
                else:
                    ts[k].kill()
            w.wait(lambda: not w.live & set(down))
            for k in down:
                ts[k].start()
            acks = w.acks
            w.wait(lambda: w.acks > acks + 100)
        w.wait(lambda: w.live == set(range(n)))
        w.kill()
        w.gone()
        former, w = w, Writer(ts, quorum=quorum, args=["wait", 20000])
        w.connected()
        judged(former, w)
        w.kill()
        w.gone()
        for t in ts:
            assert t.term() == 0


def test_replaced():
    """A target that restarts without its data is formatted again, gets every record, and then counts in the place of
    the former one."""
    ts = hosts("new")
    w = Writer(ts)
    w.connected()
    w.wait(lambda: w.acks > 300 and w.live == {0, 1, 2})
    ts[2].kill()
    w.wait(lambda: 2 not in w.live)
    os.unlink(path("new2.medium"))
    ts[2].start()
    w.wait(lambda: 2 in w.live)
    n = w.acks
    ts[0].kill()
    w.wait(lambda: w.acks > n + 200)
    w.kill()
    w.gone()
    # The next writer finds every acknowledged record at the two remaining targets.
    former, w = w, Writer(ts)
    w.connected()
    judged(former, w)
    w.kill()
    w.gone()


def test_take_over():
    """An idle writer gives way. It ends without a report of success, and loses no record that was reported durable."""
    ts = hosts("over", extra="writer_idle_ms = 1000\nrevoke_ms = 300\n")
    a = Writer(ts)
    a.connected()
    a.wait(lambda: a.acks > 100 and a.live == {0, 1, 2})
    b = Writer(ts, addr=101, args=["wait", 20000])
    # A writer that appends keeps its place.
    n = a.acks
    end = time.monotonic() + 2
    a.wait(lambda: time.monotonic() > end)
    assert a.acks > n + 100 and b.p.poll() is None
    a.p.send_signal(signal.SIGUSR1)
    b.connected()
    b.wait(lambda: b.acks > 100 and b.live == {0, 1, 2})
    ended(a, "log failed")
    judged(a, b)
    # The first targets that revoke the grant end its log. At the others it has left by then.
    logs = [t.logged() for t in ts]
    assert any("the grant of 10.0.0.100:" in x for x in logs), logs
    b.kill()
    b.gone()


def test_paused():
    """A writer that is stopped during its appends, and continued after another one has the log, gets no report of
    success."""
    ts = hosts("paused")
    a = Writer(ts, depth=64)
    a.connected()
    a.wait(lambda: a.acks > 100)
    a.p.send_signal(signal.SIGSTOP)
    b = Writer(ts, addr=101, args=["wait", 20000])
    b.connected()
    b.wait(lambda: b.acks > 200)
    a.p.send_signal(signal.SIGCONT)
    ended(a, "log failed", "target lost")
    judged(a, b)
    n = b.acks
    b.wait(lambda: b.acks > n + 100)
    b.kill()
    b.gone()


def test_names():
    """With required authentication a writer with a name has its log, with Verify, also after a target was killed. Other
    writers have none."""
    ts = hosts("auth", extra=f"host_auth = required\n[client alice]\nkey_file = {key('alice')}\n"
               f"[client bob]\nkey_file = {key('bob')}\n")
    w = Writer(ts, args=["auth", f"alice:{path('alice')}", "verify"])
    w.connected()
    w.wait(lambda: w.acks > 100 and w.live == {0, 1, 2})
    ts[0].kill()
    w.wait(lambda: 0 not in w.live)
    ts[0].start()
    w.wait(lambda: 0 in w.live)
    for args, why in (([], "target want to know who we are"), (["auth", f"alice:{path('bob')}"], "authentication as alice failed"),
                      (["auth", f"bob:{path('bob')}"], "another writer holds it")):
        p = subprocess.Popen(Writer.command(ts, 102, 1, 2, args), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        PROCS.append(p)
        line = p.stdout.readline()
        assert line.startswith("lost ") and why in line, line
        p.kill()
        p.wait()
    w.kill()
    w.gone()


def test_perf():
    """weft-perf appends to a log at three targets, with a name, repeatedly. It does not change a log that is not its
    own."""
    ts = hosts("perf", extra=f"host_auth = required\n[client alice]\nkey_file = {key('alice')}\n")
    urls = [f"weft://{t.addr}/log" for t in ts]
    perf = [app("weft-perf"), "log-append", *ts[0].client_args(), "--json"]
    alice = ["--auth", f"alice:{path('alice')}"]
    for args in (["-s", "512", "-n", "2000"], ["--lat", "-n", "200"], ["-s", "4096", "-n", "2000", "-t", "16"]):
        rc, out, err = run([*perf, *alice, *args, *urls])
        assert rc == 0, err
        got = json.loads(out)["results"][0]
        assert got["test"] == "log-append" and got["iterations"] >= 200, got
    # A log at only one of the three targets would have one target, so it is another log.
    rc, _, err = run([*perf, *alice, "-n", "10", urls[0]])
    assert rc == 1 and "Invalid argument" in err, err
    rc, _, err = run([*perf, "-n", "10", *urls])
    assert rc == 1 and "want to know who we are" in err, err
    for args, why in ((["--quorum", "4", *urls], "there are 3 targets"), (["weft://10.0.0.1"], "which export?"),
                      (["--quorum", "1", "10.0.0.1"], "are for log-append with weft://")):
        rc, _, err = run([*perf, *args])
        assert rc == 2 and why in err, err
    rc, _, err = run([app("weft-perf"), "write", *ts[0].client_args(), urls[0]])
    assert rc == 2 and "takes no URL" in err, err
    for t in ts:
        assert t.term() == 0
    ts = hosts("not")
    w = Writer(ts)
    w.connected()
    w.wait(lambda: w.acks > 20)
    w.kill()
    w.gone()
    rc, _, err = run([*perf, "-n", "10", *[f"weft://{t.addr}/log" for t in ts]])
    assert rc == 1 and "a log that weft-perf has not made" in err, err
    w = Writer(ts)
    w.connected()
    assert w.found >= 20
    w.kill()
    w.gone()


if __name__ == "__main__":
    enter()
    main([test_replicated, test_restarts, test_replaced, test_take_over, test_paused, test_names, test_perf])
