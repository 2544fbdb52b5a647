#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The programs of rdmacm-utils, but rping: test_rdmacm.py BUILD [CASE...]. TAP."""
import hashlib
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import CLIENT, CLIENT6, SERVER, SERVER6, check  # noqa: E402


def cmatose(build, *options):
    """ucmatose at both ends: every connection moves its messages both ways, then ends in order."""
    with rig.Rig(build) as r:
        s, c = r.pair(["ucmatose", *options], ["ucmatose", *options, "-s", SERVER])
        for e in s, c:
            check("data transfers complete" in e.out and "return status 0" in e.out and "error" not in e.out + e.err, e)


def many(build):
    """ucmatose: four connections of one channel, ten messages of 1000 octets each way; the server sends first"""
    cmatose(build, "-S", "1000", "-C", "10", "-c", "4")


def migrate(build):
    """ucmatose -m: ids move to another channel"""
    cmatose(build, "-m", "-C", "5", "-c", "2")


def bound(build):
    """ucmatose -b: both ends are bound to their addresses, of either family; an address that is not the port's is refused"""
    both = {"server": ["--address", f"{SERVER}/24,{SERVER6}/64"], "client": ["--address", f"{CLIENT}/24,{CLIENT6}/64"]}
    for (server, client), wrong in ((SERVER, CLIENT), SERVER6), ((SERVER6, CLIENT6), SERVER):
        with rig.Rig(build) as r:
            rig.need("ucmatose")
            s = r.server(["ucmatose", "-b", server, "-c", "2"], options=both["server"])
            c = r.client(["ucmatose", "-s", wrong], options=both["client"])
            check(c.wait() != 0 and "event: RDMA_CM_EVENT_REJECTED" in c.out + c.err, "nothing listens there", c)
            c = r.client(["ucmatose", "-b", client, "-s", server, "-c", "2"], options=both["client"])
            for e in c, s:
                check(e.wait() == 0 and "data transfers complete" in e.out and "error" not in e.out + e.err, e)
    with rig.Rig(build) as r:
        for extra in [], ["-s", SERVER]:
            r.n += 1
            e = r.start("server", ["ucmatose", "-b", CLIENT, *extra])
            check(e.wait() == 255 and "return status -1" in e.out and "Cannot assign requested address" in e.err, e)


def synchronous(build):
    """rdma_client and rdma_server: synchronous ids (rdma_create_ep)"""
    with rig.Rig(build) as r:
        for prefix in "rdma_", "rdma_x":
            extra = ["-c", "r"] if prefix == "rdma_x" else []
            s, c = r.pair([prefix + "server", "-p", "7471", *extra], [prefix + "client", "-s", SERVER, "-p", "7471", *extra])
            check("end 0" in s.out and "end 0" in c.out, s, c)


def own_qp(build):
    """rping -q: a queue pair that librdmacm does not know"""
    with rig.Rig(build) as r:
        _, c = r.pair(["rping", "-s", "-q", "-C", "5", "-a", SERVER], ["rping", "-c", "-q", "-V", "-C", "5", "-a", SERVER])
        check("mismatch" not in c.out + c.err, c)


def times(build):
    """cmtime: 20 connections at once, events after their queue pairs are gone"""
    rig.need("cmtime")
    with rig.Rig(build) as r:
        r.server(["cmtime", "-c", "20"])
        c = r.client(["cmtime", "-s", SERVER, "-c", "20"])
        check(c.wait(60) == 0, c)
        check(all(re.search(rf"^{step}\s*:\s+[0-9.]+", c.out, re.M) for step in ("connect", "disconnect", "destroy")), c)


def streams(build):
    """rstream and riostream: rsockets, with every size and data verified"""
    with rig.Rig(build) as r:
        for program in "rstream", "riostream":
            s, c = r.pair([program, "-S", "4096", "-C", "50", "-I", "20", "-T", "v"],
                          [program, "-s", SERVER, "-S", "4096", "-C", "50", "-I", "20", "-T", "v"])
            for e in s, c:
                check(re.search(r"^custom\s+4k\s+50\s+20\s+", e.out, re.M) and "mismatch" not in e.out + e.err, e)


def copy(build):
    """rcopy: a file of 3 MiB arrives as it was"""
    rig.need("rcopy")
    with rig.Rig(build) as r:
        data = hashlib.shake_128(b"rcopy").digest(3 << 20)
        with open(r.path("in"), "wb") as f:
            f.write(data)
        r.server(["rcopy"])
        c = r.client(["rcopy", r.path("in"), f"{SERVER}:{r.path('out')}"])
        check(c.wait(60) == 0, c)
        with open(r.path("out"), "rb") as f:
            check(f.read() == data, "the copy differs", c)


def datagrams(build):
    """udaddy is refused: iWARP has no datagrams"""
    rig.need("udaddy")
    with rig.Rig(build) as r:
        r.server(["udaddy"])
        c = r.client(["udaddy", "-s", SERVER])
        check(c.wait() != 0 and "unable to create QP: Operation not supported" in c.out + c.err, c)


def ends(build):
    """The accepted id has the address that its peer connected to, not the first one of that network"""
    program = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_ends")
    rig.need(program)
    for address in SERVER, "10.9.0.3":
        with rig.Rig(build) as r:
            s = r.server([program, "server", "7471"], weft="[network more]\naddress = 10.9.0.3/32")
            c = r.client([program, "client", address, "7471", "-", "0"])
            check(c.wait() == 0, c, s)
            check(s.wait() == 0, s, c)
            check(s.out.startswith(f"{address}:7471 > {rig.CLIENT}:"), s, c)
            check(f" > {address}:7471\n" in c.out, c, s)


def ports(build):
    """Both ends' ids name the same two ports: one that the client bound, and one that it did not choose"""
    program = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_ends")
    rig.need(program)
    for source in ([rig.CLIENT, "700"], ["0.0.0.0", "701"], [rig.CLIENT, "0"], ["-", "0"]):
        with rig.Rig(build) as r:
            s, c = r.pair([program, "server", "7471"], [program, "client", SERVER, "7471", *source])
            check(re.fullmatch(r"[0-9.]+:[0-9]+ > [0-9.]+:[0-9]+\n", c.out), c, s)
            check(s.out.split() == c.out.split()[::-1], "the two ends differ", s, c)
            check(source[1] == "0" or f":{source[1]} >" in c.out, c)


if __name__ == "__main__":
    rig.main([many, migrate, bound, synchronous, own_qp, times, streams, copy, datagrams, ends, ports])
