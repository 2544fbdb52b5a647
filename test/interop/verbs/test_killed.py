#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 in each state of a program, 200 draws: test_killed.py BUILD [CASE...]. TAP.

The environment: WEFT_TEST_SEED (1), WEFT_TEST_DRAWS (200, over all cases).
"""
import os
import random
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import SERVER, check  # noqa: E402

SEED = int(os.environ.get("WEFT_TEST_SEED", "1"))
DRAWS = int(os.environ.get("WEFT_TEST_DRAWS", "200"))
SERVE, ASK = ["rping", "-s", "-C", "100000000"], ["rping", "-c", "-v", "-V", "-C", "100000000", "-a", SERVER]


def names():
    """The files in shared memory and in DPDK's folders, and the sockets."""
    here = set()
    for folder in ("/dev/shm", "/run/dpdk", "/run/user", "/tmp/dpdk"):
        for at, _, files in os.walk(folder):
            here |= {os.path.join(at, f) for f in files}
    with open("/proc/net/unix", encoding="ascii", errors="replace") as f:
        here |= {line.split()[-1] for line in f}
    return here


def left_behind(before, pids):
    """New names that carry the ids of these processes. An old one may have the id of a process that ended long ago."""
    return sorted(x for x in names() - before if any(re.search(rf"(?<!\d){p}(?!\d)", x) for p in pids))


def group(e):
    """The threads that are left of a program's process group."""
    p = subprocess.run(["ps", "-L", "-o", "tid=", "-g", str(e.p.pid)], capture_output=True, text=True, check=False)
    return p.stdout.split()


def gone(e):
    """Nothing of a program runs any more."""
    end = time.monotonic() + 5
    while group(e):
        check(time.monotonic() < end, f"threads {group(e)} are left", e)
        time.sleep(0.01)


def draw_one(build, draw, victim, at, again):
    """One pair, of which one end is killed at a time after its start."""
    before = names()
    with rig.Rig(build) as r:
        s = r.server(SERVE)
        c = r.client(["stdbuf", "-oL", *ASK])
        if at == "start":
            # The port opens, the address is resolved, the connection is made: at this time after the start.
            time.sleep(draw.uniform(0, 0.6))
        else:
            rig.until(lambda: "ping data" in c.out, c)
            time.sleep(draw.uniform(0, 0.05) if at == "pings" else draw.uniform(0, 0.3))
        dead, other = (s, c) if victim == "server" else (c, s)
        talked = "ping data" in c.out
        dead.kill()
        gone(dead)
        if victim == "client" and not talked:
            # The server may not have had a connection yet. It serves the next client.
            time.sleep(0.05)
            if other.p.poll() is None and "DISCONNECT EVENT" not in other.out + other.err:
                n = r.client(["rping", "-c", "-C", "2", "-a", SERVER])
                rc = n.wait(40)
                check(rc == 0 or other.p.poll() is not None or "DISCONNECT" in other.out + other.err, f"exit status {rc}", n, other)
                other.kill()
            else:
                other.wait(40)
        else:
            other.wait(40)
            said = other.out + other.err
            check("DISCONNECT EVENT" in said or (not talked and re.search("CM_EVENT|cma event|error", said, re.I)),
                  "the other end did not hear of it", other)
        gone(other)
        left = left_behind(before, [e.p.pid for e in r.ends])
        check(not left, f"left behind: {left}")
        if again:
            # The port is free: the file of its socket, which a killed server leaves, is no obstacle.
            s = r.start("server", ["rping", "-s", "-C", "2", "-a", SERVER])
            time.sleep(1)
            c = r.client(["rping", "-c", "-V", "-C", "2", "-a", SERVER])
            check(c.wait(40) == 0 and s.wait(40) == 0, "the next pair on the same port", c, s)


def case(victim, at, n):
    """The case of one victim in one state."""
    def run(build):
        rig.need("rping")
        draw = random.Random(f"{SEED} {victim} {at}")
        for k in range(n):
            try:
                draw_one(build, draw, victim, at, k % 10 == 0)
            except rig.Fail as e:
                raise rig.Fail(f"draw {k} of seed {SEED}: {e}") from None
    run.__name__ = f"{victim}_{at}"
    run.__doc__ = f"the {victim} is killed {'while it starts and connects' if at == 'start' else 'while data move'}, {n} times"
    return run


if __name__ == "__main__":
    rig.main([case(victim, at, DRAWS // 4) for at in ("start", "pings") for victim in ("server", "client")])
