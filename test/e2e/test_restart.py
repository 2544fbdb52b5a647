#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Restarts and upgrades of a target under load: clients stall, and none fails.

test_restart.py BUILD [CASE...]. WEFT_RESTARTS=N is the number of restarts, and of upgrades, of a case [4; 100 in suite soak].
WEFT_TEST_SEED=N repeats the choices.
"""
import json
import os
import random
import signal
import subprocess
import time

from cp_runs import EXPORTS, MIB, await_moved, copy, server, spawn, url, whole
from test_nbd import mortal
from test_volume import volume
from weft_e2e import BUILD, PROCS, main, make_file, memif, path, sha

SEED = int(os.environ.get("WEFT_TEST_SEED", "1"))
RESTARTS = int(os.environ.get("WEFT_RESTARTS", "4"))


class Rider:
    """A program that uses the volume by the library's link, and must not see that the target ends."""

    def __init__(self, t, seed):
        self.err = open(path(f"rider.{seed}.err"), "w+")
        self.proc = subprocess.Popen([os.path.join(BUILD, "test/e2e/link_probe"), memif(0, "server", t.sock(0)), "10.0.0.2/24", "10.0.0.1",
                                      "disk", str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.err, text=True)
        PROCS.append(self.proc)
        while not os.path.exists(t.sock(0)):
            assert self.proc.poll() is None, self.said()
            time.sleep(0.01)

    def goes_on(self, rng):
        """Wait until the link stands again; sometimes not."""
        end = time.monotonic() + 20
        while rng.random() < 0.95 and (self.said().splitlines() or [": stands"])[-1].find(": stands") < 0:
            assert self.proc.poll() is None and time.monotonic() < end, self.said()
            time.sleep(0.02)

    def said(self):
        self.err.seek(0)
        return self.err.read()

    def rides(self):
        assert self.proc.stdout.readline() == "answers\n", self.said()

    def end(self):
        """(operations, reconnects, repeated, rewritten, longest time without an answer in ms)"""
        out = self.proc.communicate(timeout=60)[0].split()
        assert self.proc.returncode == 0 and out[0] == "done", (out, self.said())
        return [int(w) for w in out[1:]]


def end_and_start(t, rng, exe=None):
    """End the target, in order or not, and start it again, as another program if one is given."""
    if rng.random() < 0.5:
        assert t.term() == 0, t.logged()
    else:
        t.kill()
    PROCS[:] = [p for p in PROCS if p.poll() is None]
    t.exe = exe or t.exe
    t.start()


def ride(name, exes):
    rng = random.Random(SEED)
    t = mortal(name, {"disk": volume(f"{name}.disk", "16M")}, extra="credits = 64", keepalive_ms=200)
    rider = Rider(t, SEED)
    t.start()
    rider.rides()
    for i in range(RESTARTS):
        time.sleep(rng.uniform(0.05, 0.3))
        assert rider.proc.poll() is None, rider.said()
        end_and_start(t, rng, exes[(i + 1) % len(exes)])
        rider.goes_on(rng)
    time.sleep(0.5)
    ops, reconnects, repeated, rewritten, longest = rider.end()
    print(f"# seed {SEED}: {RESTARTS} ends, {ops} operations, {reconnects} reconnects, {repeated} repeated, {rewritten} written again, "
          f"longest time without an answer {longest} ms", flush=True)
    assert reconnects >= RESTARTS // 2 and ops > 50 * RESTARTS and repeated > 0
    assert t.term() == 0


def test_library():
    """A program with a link: no request fails, and all octets are as they were written."""
    ride("rl", [None])


def test_copies():
    """weft-cp without an option: a target that ends in the middle is waited for, and the copy goes on where it was."""
    t = server("rc")
    rng = random.Random(SEED)
    f = make_file("rc.src", 3 * MIB, SEED)
    for export, ways in zip(EXPORTS, (("push", "pull"), ("push", "fetch", "pull")) if RESTARTS > 9 else (("push",), ("fetch", "pull"))):
        length = ("--length", "3M") if export == "disk" else ()
        for way in ways:
            args = (*length, url(export), path("rc.out")) if way == "pull" else (*(("--pull",) if way == "fetch" else ()), f, url(export))
            part = None
            p = spawn(t, "--json", "--timeout", "2", "--rate", "6M", *args, reconnect="60")
            if way == "pull":
                part = path(f".weft-cp.{p.pid}.tmp")
            await_moved(p, MIB, f, part)
            end_and_start(t, rng)
            out, err = p.communicate(timeout=60)
            assert p.returncode == 0, (export, way, err)
            report = json.loads(out)
            assert report["resumed_bytes"] > 0 and b"going on when the target is back" in err and err.count(b"\n") == 1, (export, way, err)
            assert sha(path("rc.out") if way == "pull" else whole(t, export, 3 * MIB)) == sha(f), (export, way)
            assert part is None or not os.path.exists(part)


def test_copies_end():
    """A target that does not come back: the copy ends when its time is over, and a pull leaves nothing. A signal ends it at once."""
    t = server("re")
    f = make_file("re.src", 4 * MIB, SEED)
    copy(t, f, url("demo"))
    for args, status in (((url("demo"), path("re.out")), 5), ((url("demo"), path("re.out")), 143)):
        p = spawn(t, "--timeout", "1", "--rate", "4M", *args, reconnect="60" if status == 143 else "1")
        part = path(f".weft-cp.{p.pid}.tmp")
        await_moved(p, MIB, f, part)
        t.kill()
        began = time.monotonic()
        if status == 143:
            time.sleep(1)
            p.send_signal(signal.SIGTERM)
        err = p.communicate(timeout=30)[1].decode()
        assert p.returncode == status and "for up to" in err, (p.returncode, err)
        assert time.monotonic() - began >= 1 and not os.path.exists(path("re.out"))
        assert not os.path.exists(part)
        t.start()
    # A transfer that never began is no reason to wait.
    t.kill()
    began = time.monotonic()
    assert "for up to" not in copy(t, "--timeout", "1", f, url("demo"), status=5, reconnect="60")[2]
    assert time.monotonic() - began < 10


if __name__ == "__main__":
    main([fn for name, fn in list(globals().items()) if name.startswith("test_")])
