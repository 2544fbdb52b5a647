#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Queue pairs that are destroyed while they are connected, by the program leave.c: test_leave.py BUILD [CASE...]. TAP."""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import SERVER, check  # noqa: E402


def run(build, what):
    """The server, which goes on, and its client, which has ended."""
    program = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_leave")
    if not os.path.exists(program):
        raise rig.Skip("not built (libibverbs-dev, librdmacm-dev)")
    with rig.Rig(build) as r:
        s = r.server([program, "server", SERVER], weft="telemetry = yes")
        rig.until(lambda: rig.listens(s, 7211), s)
        c = r.client([program, what, SERVER, str(s.p.pid)])
        check(c.wait(60) == 0, c, s)
        yield s, c


def figures(c):
    """Milliseconds for all and for the first, naps, and calls of the other thread."""
    return map(int, re.search(r"in (\d+) ms, the first in (\d+) ms, (\d+) naps, (\d+) calls", c.out).groups())


def waits(build, what):
    """Queue pairs wait together, and not each for as long as the first one; another thread goes on more often than once for each."""
    for _, c in run(build, what):
        ms, first_ms, naps, calls = figures(c)
        check(first_ms >= 300 and naps > 100, c)
        check(ms < 19 * first_ms / 2 and calls > 2 * 19, c)


def many(build):
    """19 queue pairs, whose peer is stopped, wait for it to close, together 300 ms and 5 ms each; other threads go on meanwhile"""
    waits(build, "many")


def stuck(build):
    """requests that the peer does not take are waited for, together 300 ms and 5 ms each; other threads go on meanwhile"""
    waits(build, "stuck")


def cancel(build):
    """a thread that is cancelled while it destroys a queue pair, which waits for its peer, leaves no half of it"""
    for _ in run(build, "cancel"):
        pass


def last(build):
    """the last message of a process that destroys all and ends is delivered to a peer that goes on later, whatever call ends it"""
    for call in ("last", "_exit", "quick_exit"):
        for s, c in run(build, call):
            want = c.out.replace("sent", "got")
            check(want.startswith("got "), c)
            rig.until(lambda: want in s.out, s)


def children(build):
    """children of fork() and vfork() that end by _exit() leave the connections of their parent alone"""
    for s, c in run(build, "children"):
        want = c.out.replace("sent", "got")
        check(want.startswith("got "), c)
        rig.until(lambda: want in s.out, s)


def handler(build):
    """_exit() in a signal handler ends the process, whatever call it has interrupted"""
    for _ in range(5):
        for _ in run(build, "handler"):
            pass


def written(build):
    """a peer that goes on to write reaches nothing when the queue pair has gone, though the region is there"""
    for _, c in run(build, "written"):
        check(c.out == "not written\n", c)


if __name__ == "__main__":
    rig.main([many, stuck, cancel, last, children, handler, written])
