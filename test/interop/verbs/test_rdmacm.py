#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The programs of rdmacm-utils, but rping: test_rdmacm.py BUILD [CASE...]. TAP."""
import hashlib
import os
import re
import subprocess
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


# A peer over the kernel's TCP. Words: what it answers to one connection each.
PEER = """
import socket, struct, sys
reply = b"MPA ID Rep Frame" + struct.pack(">BBH", 0x40, 1, 0)
answers = {"key": reply.replace(b"Rep", b"Req"), "revision": reply[:17] + bytes([9]) + reply[18:],
           "rejects": reply[:16] + bytes([0x60]) + reply[17:]}
with socket.create_server((sys.argv[1], 7471)) as a:
    for what in sys.argv[2:]:
        print("listens", flush=True)
        c, _ = a.accept()
        print("asked", c.recv(65536)[:16], flush=True)
        if what == "resets":
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif what != "closes":
            c.sendall(answers.get(what, b""))
            try:
                c.recv(1)
            except ConnectionResetError:
                pass
        c.close()
"""
# A peer that asks, and leaves when it has the reply: in order, then by a RST.
LEAVER = """
import socket, struct, sys
for linger in None, struct.pack("ii", 1, 0):
    c = socket.create_connection((sys.argv[1], 7471))
    c.sendall(b"MPA ID Req Frame" + struct.pack(">BBHHH", 0x50, 2, 4, 0x8001, 0x4001))
    got = b""
    while len(got) < 24:
        x = c.recv(64)
        if not x:
            break
        got += x
    print(got[:20], flush=True)
    if linger:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    c.close()
    sys.stdin.readline()
"""
# A peer that connects to a port of the first address for each line that names one.
CALLER = """
import socket, sys
for port in sys.stdin:
    try:
        socket.create_connection((sys.argv[1], int(port)), 10).close()
        print("connected", flush=True)
    except OSError as e:
        print(e, flush=True)
"""


class Kernel:
    """A network namespace with both ends of a veth: the kernel has one, with an address, and weft opens the other."""

    def __init__(self, address):
        if os.geteuid() != 0:
            raise rig.Skip("needs root (network namespaces)")
        rig.need("ethtool")
        self.name = f"wk{os.getpid() % 1000000}"
        rig.Spaces.ip("netns", "add", self.name)
        rig.Spaces.ip("-n", self.name, "link", "add", "w0", "type", "veth", "peer", "name", "k0")
        rig.Spaces.ip("-n", self.name, "addr", "add", address + "/24", "dev", "k0")
        for link in "w0", "k0":
            rig.Spaces.ip("-n", self.name, "link", "set", link, "up")
            subprocess.run([*self.wrap(""), "ethtool", "-K", link, "tx", "off", "tso", "off", "gso", "off", "gro", "off"],
                           check=True, capture_output=True)

    def wrap(self, _role):
        """What a command begins with to run there."""
        return ["ip", "netns", "exec", self.name]

    def end(self):
        """Remove it."""
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)


class Beside(rig.Rig):
    """One end over weft, and the kernel's TCP at the other, with this address."""

    def __init__(self, build, kernel):
        super().__init__(build)
        self.spaces = Kernel(kernel)

    def port(self, role, k=None, weft=None):
        return ["--dev", "net_af_packet0,iface=w0", "--address", self.address[role]]

    def peer(self, source, *words):
        """Start a program of Python at the kernel's end."""
        e = rig.End([*self.spaces.wrap(""), sys.executable, "-c", source, *words], stdin=subprocess.PIPE)
        self.ends.append(e)
        return e


def refused(build):
    """Replies that make no connection: wrong ones are CONNECT_ERROR, and so is a queue pair that is destroyed; the others REJECTED"""
    program = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_ends")
    rig.need(program)
    with Beside(build, SERVER) as r:
        cases = {"key": "CONNECT_ERROR", "revision": "CONNECT_ERROR", "rejects": "REJECTED", "closes": "REJECTED", "resets": "REJECTED",
                 "silent": "CONNECT_ERROR"}
        s = r.peer(PEER, SERVER, *cases)
        for n, (what, event) in enumerate(cases.items(), 1):
            rig.until(lambda n=n: s.out.count("listens") == n, s)
            mode = ["leaver", SERVER, "7471"] if what == "silent" else ["client", SERVER, "7471", "-", "0"]
            c = r.client([program, *mode], stdin=subprocess.PIPE)
            rig.until(lambda n=n: s.out.count("MPA ID Req Frame") == n, s)
            if what == "silent":
                c.p.stdin.write("\n")
                c.p.stdin.flush()
            check(c.wait(30) == 1 and re.fullmatch(rf"RDMA_CM_EVENT_{event}, status -[1-9][0-9]*\n", c.err), what, c, s)


def leaves(build):
    """A peer that leaves between the reply and its first message: ESTABLISHED and DISCONNECTED, as by a device of the kernel"""
    program = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_ends")
    rig.need(program)
    with Beside(build, CLIENT) as r:
        c = None
        for n in 1, 2:
            s = r.start("server", [program, "server", "7471"], env={"WEFT_TEST_EVENTS": r.path(f"events{n}"), "LD_PRELOAD": r.hold})
            rig.until(lambda n=n: os.path.exists(r.path(f"events{n}")), s)
            if c is None:
                c = r.peer(LEAVER, SERVER)
            else:
                c.p.stdin.write("\n")
                c.p.stdin.flush()
            check(s.wait(30) == 0 and c.out.count("MPA ID Rep Frame") == n, s, c)
            with open(r.path(f"events{n}"), encoding="ascii") as f:
                got = f.read().replace("RDMA_CM_EVENT_", "").split()
            check(got == ["listens", "CONNECT_REQUEST", "ESTABLISHED", "DISCONNECTED"], got, s)


def binds(build):
    """rdma_bind_addr() to any address opens the device: a peer that is told the port need not wait for that, nor is it refused then"""
    program = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_ends")
    rig.need(program)

    def say(end, line, what):
        before = what.out.count("\n")
        end.p.stdin.write(line + "\n")
        end.p.stdin.flush()
        rig.until(lambda: what.out.count("\n") > before, s, c)
        return what.out.splitlines()[-1]

    with Beside(build, CLIENT) as r:
        c = r.peer(CALLER, SERVER)
        s = r.start("server", [program, "binds"], stdin=subprocess.PIPE)
        rig.until(lambda: "bound" in s.out, s)
        port = s.out.split()[1]
        # That the port is bound and does not listen is said by the stack: it is there.
        check("Connection refused" in say(c, port, c), c, s)
        check(say(s, "", s) == "listens" and say(c, port, c) == "connected", c, s)
        s.p.stdin.write("\n")
        s.p.stdin.flush()
        check(s.wait() == 0, s)


if __name__ == "__main__":
    rig.main([many, migrate, bound, synchronous, own_qp, times, streams, copy, datagrams, ends, ports, refused, leaves, binds])
