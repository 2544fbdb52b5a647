#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sockets programs over librdmacm's librspreload: test_sockets.py BUILD [CASE...]. TAP."""
import glob
import hashlib
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import SERVER, check  # noqa: E402

SINK = """
import hashlib, socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
s.bind(("%s", 5002)); s.listen(1); print("listening", flush=True)
c, _ = s.accept(); h, n = hashlib.sha256(), 0
while True:
    b = c.recv(1 << 20)
    if not b: break
    h.update(b); n += len(b)
c.sendall(h.digest()); print(n, h.hexdigest(), flush=True); c.close()
""" % SERVER
SOURCE = """
import hashlib, socket, sys
h, n = hashlib.sha256(), int(sys.argv[1])
block = hashlib.shake_128(b"weft").digest(1 << 20)
with socket.create_connection(("%s", 5002)) as s:
    for i in range(n):
        part = i.to_bytes(8, "big") + block[8:]
        h.update(part); s.sendall(part)
    s.shutdown(socket.SHUT_WR); got = b""
    while True:
        b = s.recv(64)
        if not b: break
        got += b
print("same" if got == h.digest() else "differs", h.hexdigest())
""" % SERVER
FLAGS = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
s.bind(("%s", 5003)); s.listen(1); s.setblocking(False)
try:
    s.accept()
except BlockingIOError:
    print("would block")
""" % SERVER


def preload():
    """The environment of a program over librspreload."""
    found = glob.glob("/usr/lib/*/rsocket/librspreload.so")
    if not found:
        raise rig.Skip("librspreload is not installed (librdmacm1)")
    return {"LD_PRELOAD": found[0]}


def stream(build, mib, timeout):
    """A stream of so many MiB from one Python program to another, with one hash at both ends."""
    env = preload()
    with rig.Rig(build) as r:
        s = r.server([sys.executable, "-c", SINK], env=env, settle=False)
        rig.until(lambda: "listening" in s.out, s)
        c = r.client([sys.executable, "-c", SOURCE, str(mib)], env=env)
        check(c.wait(timeout) == 0 and s.wait(30) == 0, c, s)
        check(c.out.split()[0] == "same" and s.out.split()[1:] == [str(mib << 20), c.out.split()[1]], c, s)


def gibibyte(build):
    """1 GiB from Python to Python over rsockets, SHA-256 equal at both ends"""
    stream(build, 1024, 400)


def flags(build):
    """Sockets of types with SOCK_CLOEXEC, accept4() and ioctl(FIONBIO) are rsockets, too"""
    env = preload()
    with rig.Rig(build) as r:
        s = r.server([sys.executable, "-c", FLAGS], env=env, settle=False)
        check(s.wait() == 0 and s.out == "would block\n", s)
    stream(build, 1, 60)


def packet(build):
    """Over net_af_packet: sockets by which libweft and the driver ask the kernel stay the kernel's; 1 MiB, SHA-256 equal"""
    env = preload()
    with rig.Rig(build, spaces=True) as r:
        ends = []
        for ns, address, program in zip(r.spaces.names, (SERVER, rig.CLIENT), ([SINK], [SOURCE, "1"])):
            r.spaces.ip("-n", ns, "addr", "flush", "dev", "v0")  # else the kernel would answer, too
            conf = r.path(ns)
            with open(conf, "w", encoding="utf-8") as f:
                f.write(f"[weft]\ntelemetry = yes\n[port p0]\ndev = net_af_packet0,iface=v0\naddress = {address}/24\n")
            e = rig.End(["ip", "netns", "exec", ns, r.run, "--config", conf, sys.executable, "-c", *program], env=dict(r.env, **env))
            r.ends.append(e)
            ends.append(e)
            if program[0] is SINK:
                rig.until(lambda e=e: "listening" in e.out, e)
                check(rig.telemetry(e, "/weft/port,p0")["link"] == "up", "the port does not see its link", e)
        s, c = ends
        check(c.wait() == 0 and s.wait() == 0, c, s)
        check(c.out.split()[0] == "same" and s.out.split()[1:] == [str(1 << 20), c.out.split()[1]], c, s)


def web(build):
    """A web server of Python over rsockets: two files by curl, compared"""
    rig.need("curl")
    env = preload()
    with rig.Rig(build) as r:
        data = hashlib.shake_128(b"web").digest(3 << 20)
        for name, part in ("big", data), ("small", data[:100]):
            with open(r.path(name), "wb") as f:
                f.write(part)
        s = r.server([sys.executable, "-u", "-m", "http.server", "--bind", SERVER, "--directory", r.tmp, "8080"], env=env, settle=False)
        rig.until(lambda: "Serving HTTP" in s.out + s.err, s)
        r.settled(s)
        for name, part in ("big", data), ("small", data[:100]), ("big", data):
            c = r.client(["curl", "-sS", "--max-time", "40", "-o", r.path("got"), f"http://{SERVER}:8080/{name}"], env=env)
            check(c.wait(60) == 0, c, s)
            with open(r.path("got"), "rb") as f:
                check(f.read() == part, f"{name} differs", c, s)


def iperf(build):
    """iperf 2 over rsockets: both ends tell of the same octets"""
    iperf_pair(build, 40)


def duplex(build):
    """iperf 2 over one rsocket, at each end a thread that sends and one that receives"""
    iperf_pair(build, 10, "--full-duplex")


def iperf_pair(build, mib, *options):
    """So many MiB each way that the options ask for.

    What is judged is what both ends tell. With --full-duplex the client's end is not waited for: of iperf 2.1.8's two threads the first
    one that ends frees the barrier at which the other one still waits (EndJob() in Reporter.c, FreeSumReport()), which then may
    wait for ever or end the program, also over the kernel's TCP. A thread that is 3 s late has its socket closed under it.
    """
    rig.need("iperf")
    env = preload()
    with rig.Rig(build) as r:
        s = r.server(["stdbuf", "-oL", "iperf", "-s", "-B", SERVER, "-p", "5001", "-f", "b"], env=env, settle=False)
        rig.until(lambda: "Server listening" in s.out, s)
        r.settled(s)
        c = r.client(["stdbuf", "-oL", "iperf", "-c", SERVER, "-n", f"{mib}M", "-p", "5001", "-f", "b", *options], env=env)
        told = rf"sec\s+{mib << 20} Bytes\s+\d+ bits/sec"
        ways = 2 if options else 1
        if options:
            rig.until(lambda: len(re.findall(told, c.out)) == ways or c.p.poll() is not None, s, timeout=100)
        else:
            check(c.wait(100) == 0, c, s)
        check(len(re.findall(told, c.out)) == ways, c, s)
        rig.until(lambda: len(re.findall(told, s.out)) == ways, s)


if __name__ == "__main__":
    rig.main([flags, packet, web, iperf, duplex, gibibyte])
