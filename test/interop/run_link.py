#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The link of a veth pair goes down and up under a push and a pull. TAP.

run_link.py BUILD

weft-target and weft-cp are at the ends of the pair, by net_af_packet. Neither driver nor packet socket says that the link is
gone; weft asks the kernel. An interruption that ends within the user timeout costs time and nothing else. A longer one ends the
connection, with a line that says so, and what was there before is whole. Needs root.
"""
import json
import os
import re
import select
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "guest"))

from guest import Tap, die_with_us, end_by_signals, missing  # noqa: E402
from kernel_net import World, check, sh  # noqa: E402

BYTES, RATE = 6 << 20, "1M"
TARGET, CLIENT = "10.97.0.1", "10.97.0.2"


class Pair:
    def __init__(self, world, build):
        self.world, self.build, self.n, self.said = world, os.path.abspath(build), 0, ""
        self.ns = world.space("link")
        self.ends = [f"wl{k}x{world.tag % 100000}" for k in range(2)]
        sh("ip", "-n", self.ns, "link", "add", self.ends[0], "type", "veth", "peer", "name", self.ends[1])
        for name in self.ends:
            with world.inside(self.ns), open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as f:
                f.write("1")
            sh("ip", "netns", "exec", self.ns, "ethtool", "-K", name, "tx", "off", "gro", "off")
        self.link(True)
        self.medium, self.source = (os.path.join(world.tmp, n) for n in ("demo", "source"))
        with open(self.source, "wb") as f:
            f.write(os.urandom(BYTES))

    def link(self, up, ends=(0, 1)):
        for k in ends:
            sh("ip", "-n", self.ns, "link", "set", self.ends[k], "up" if up else "down")

    def ini(self, name, k, address, user_timeout_us, exports=""):
        path = os.path.join(self.world.tmp, name + ".ini")
        with open(path, "w") as f:
            f.write(f"[weft]\nmemory_mb = 64\nhugepages = never\ntelemetry = {'yes' if exports else 'no'}\n"
                    f"[tcp]\nuser_timeout_us = {user_timeout_us}\n"
                    f"[port p0]\ndev = net_af_packet{k},iface={self.ends[k]}\naddress = {address}/24\nmbufs = 4096\n{exports}")
        return path

    def spawn(self, program, *args, stderr=subprocess.PIPE):
        return self.world.spawn(self.ns, [os.path.join(self.build, program), *args], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=stderr, text=True, preexec_fn=die_with_us)

    def served(self, user_timeout_us):
        return self.ini("target", 0, TARGET, user_timeout_us, f"[export demo]\npath = {self.medium}\nsize = 16M\n")

    def target(self, user_timeout_us):
        p = self.spawn("apps/target/weft-target", "-c", self.served(user_timeout_us))
        line = p.stderr.readline()
        while line and "ready:" not in line:
            line = p.stderr.readline()
        check(line, "weft-target does not start")
        return p

    def cp(self, user_timeout_us, *args):
        conf = self.ini("client", 1, CLIENT, user_timeout_us)
        return self.spawn("apps/cp/weft-cp", "-q", "-c", conf, *args)

    def end(self, p, timeout=60):
        out, err = p.communicate(timeout=timeout)
        self.world.procs.remove(p)
        self.said += f"{os.path.basename(p.args[0])} ended with {p.returncode}\n{out}{err}\n"
        return p.returncode, err

    def ask(self, p, command):
        """An answer of a program's telemetry."""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(f"/run/dpdk/weft-{p.pid}/dpdk_telemetry.v2")
        s.recv(16384)
        s.send(command.encode())
        answer = json.loads(s.recv(65536))
        s.close()
        return next(iter(answer.values()))

    def under_way(self, target, p):
        """Wait until a transfer has begun."""
        end = time.monotonic() + 30
        while self.ask(target, "/weft/worker,0")["conns"] == 0:
            check(p.poll() is None and time.monotonic() < end, "weft-cp does not connect")
            time.sleep(0.1)
        time.sleep(1.5)
        check(p.poll() is None, "weft-cp has ended too early")

    def tidy(self):
        for p in list(self.world.procs):
            self.world.reap(p)
        self.link(True)
        for path in (self.medium,):
            if os.path.exists(path):
                os.unlink(path)
        self.said = ""


def same(a, b):
    with open(a, "rb") as f, open(b, "rb") as g:
        return f.read() == g.read()


def within(pair, pull, outage_s, ends=(0, 1)):
    """The interruption is shorter than the user timeout, and longer than the target's keepalive bears silence."""
    target = pair.target(60000000)
    pulled = pair.source + ".pulled"
    if pull:
        rc, _ = pair.end(pair.cp(60000000, pair.source, f"weft://{TARGET}/demo"))
        check(rc == 0, "the push before has failed")
    url = f"weft://{TARGET}/demo"
    p = pair.cp(60000000, "--rate", RATE, *((url, pulled) if pull else (pair.source, url)))
    pair.under_way(target, p)
    before = pair.ask(target, "/weft/port,p0")
    check([before[k] for k in ("link", "speed_mbps", "full_duplex", "mtu_bytes")] == ["up", 10000, 1, 1500], f"{before}")
    pair.link(False, ends)
    time.sleep(outage_s)
    check(pair.ask(target, "/weft/port,p0")["link"] == "down", "the target has not noticed that its link is down")
    pair.link(True, ends)
    back = time.monotonic()
    rc, err = pair.end(p, 40)
    took = time.monotonic() - back
    check(rc == 0, f"weft-cp ended with {rc}: {err}")
    check(took < BYTES / (1 << 20) + 6, f"weft-cp ended {took:.1f} s after the link was back")
    after = pair.ask(target, "/weft/port,p0")
    check((after["link"], after["link_ups"], after["link_downs"]) == ("up", 2, 1), f"{after}")
    if not pull:
        rc, _ = pair.end(pair.cp(60000000, f"weft://{TARGET}/demo", pulled))
        check(rc == 0, "the pull behind has failed")
    check(same(pair.source, pulled), "not what was pushed")
    target.terminate()
    rc, err = pair.end(target)
    told = re.search(r"its link is down\n(?s:.*)its link is up again after \d+\.\d s", err)
    check(rc == 0 and told, f"the target has not said so: {err}")


def beyond(pair, pull):
    """The interruption is longer than the user timeout."""
    target = pair.target(3000000)
    rc, _ = pair.end(pair.cp(3000000, pair.source, f"weft://{TARGET}/demo"))
    check(rc == 0, "the push before has failed")
    other = pair.source + ".other"
    with open(other, "wb") as f:
        f.write(os.urandom(BYTES))
    pulled = pair.source + ".pulled"
    url = f"weft://{TARGET}/demo"
    p = pair.cp(3000000, "--reconnect", "0", "--rate", RATE, *((url, pulled) if pull else (other, url)))
    pair.under_way(target, p)
    pair.link(False)
    t0 = time.monotonic()
    rc, err = pair.end(p, 30)
    took = time.monotonic() - t0
    check(rc == 5 and len(err.strip().splitlines()) == 1, f"weft-cp ended with {rc}: {err}")
    check(2 < took < 15, f"weft-cp ended after {took:.1f} s")
    time.sleep(6)
    pair.link(True)
    rc, err = pair.end(pair.cp(3000000, "--wait", "10", f"weft://{TARGET}/demo", pulled))
    check(rc == 0, f"the pull behind has failed: {err}")
    check(same(pair.source, pulled), "what was committed before is not there")
    target.terminate()
    rc, err = pair.end(target)
    check(rc == 0, f"the target ended with {rc}: {err}")


def taken_up(pair, pull):
    """The interruption is longer than the user timeout, and the copy connects anew when it is over."""
    target = pair.target(3000000)
    rc, _ = pair.end(pair.cp(3000000, pair.source, f"weft://{TARGET}/demo"))
    check(rc == 0, "the push before has failed")
    other, pulled = pair.source + ".other", pair.source + ".pulled"
    with open(other, "wb") as f:
        f.write(os.urandom(BYTES))
    url = f"weft://{TARGET}/demo"
    p = pair.cp(3000000, "--rate", RATE, *((url, pulled) if pull else (other, url)))
    pair.under_way(target, p)
    pair.link(False)
    time.sleep(8)
    check(p.poll() is None, "weft-cp has ended while it may connect anew")
    pair.link(True)
    rc, err = pair.end(p, 40)
    check(rc == 0, f"weft-cp ended with {rc}: {err}")
    if not pull:
        rc, err = pair.end(pair.cp(3000000, url, pulled))
        check(rc == 0, f"the pull behind has failed: {err}")
    check(same(pair.source if pull else other, pulled), "not what was copied")
    target.terminate()
    rc, err = pair.end(target)
    check(rc == 0, f"the target ended with {rc}: {err}")


def late(pair):
    """The link comes while a program waits for it. In a pipe nothing is said, and after ten seconds one line."""
    pair.link(False)
    p = pair.spawn("apps/target/weft-target", "-c", pair.served(60000000))
    time.sleep(5)
    pair.link(True)
    line = p.stderr.readline()
    said = ""
    while line and "ready:" not in line:
        said += line
        line = p.stderr.readline()
    check(line, "weft-target does not start")
    check("link" not in said, f"it has said: {said}")
    rc, _ = pair.end(pair.cp(60000000, pair.source, f"weft://{TARGET}/demo"))
    check(rc == 0, "a push after the link has come fails")
    p.terminate()
    check(pair.end(p)[0] == 0, "weft-target does not end")
    pair.link(False)
    p = pair.target(60000000)
    p.terminate()
    check(pair.end(p)[0] == 0, "weft-target does not end without a link")


def late_on_a_terminal(pair):
    """On a terminal the wait is shown."""
    main, sub = os.openpty()
    pair.link(False)
    p = pair.spawn("apps/target/weft-target", "-c", pair.served(60000000), stderr=sub)
    os.close(sub)
    said = b""
    for word in (b"waiting for the link of port p0 ... 1 s", b"ready:"):
        end = time.monotonic() + 20
        while word not in said and time.monotonic() < end:
            said += os.read(main, 4096) if select.select([main], [], [], 1)[0] else b""
        check(word in said, f"{said}")
        pair.link(True)
    os.close(main)
    pair.world.reap(p)


def narrow(pair):
    """An MTU that the interface has not. The target says so, whatever the log level is, and serves with what there is."""
    with open(pair.served(60000000), encoding="utf-8") as f:
        wide = f.read().replace("mbufs = 4096", "mbufs = 4096\nmtu = 9000")
    conf = os.path.join(pair.world.tmp, "wide.ini")
    with open(conf, "w", encoding="utf-8") as f:
        f.write(wide)
    p = pair.spawn("apps/target/weft-target", "-c", conf)
    line, said = p.stderr.readline(), []
    while line and "ready:" not in line:
        said.append(line)
        line = p.stderr.readline()
    check(line, f"weft-target does not start: {said}")
    named = [s for s in said if "MTU" in s]
    check(len(named) == 1 and re.search(r"port p0 \(.*\) has no MTU of 9000, only 1500: set `mtu = 1500`", named[0]), f"{said}")
    rc, out = pair.end(pair.cp(60000000, pair.source, f"weft://{TARGET}/demo"))
    check(rc == 0, f"a push fails: {out}")
    p.terminate()
    check(pair.end(p)[0] == 0, "weft-target does not end")


CASES = [("a push outlives an interruption of 6 s", lambda p: within(p, False, 6)),
         ("a pull outlives an interruption of 6 s", lambda p: within(p, True, 6)),
         ("a push outlives an interruption at the other end", lambda p: within(p, False, 3, (1,))),
         ("a push ends at the user timeout, and the object before is whole", lambda p: beyond(p, False)),
         ("a pull ends at the user timeout, and a later one is good", lambda p: beyond(p, True)),
         ("a push is taken up behind the user timeout", lambda p: taken_up(p, False)),
         ("a pull is taken up behind the user timeout", lambda p: taken_up(p, True)),
         ("a link that is late is awaited", late), ("the wait is shown on a terminal", late_on_a_terminal),
         ("an MTU that the interface has not is named", narrow)]


def main():
    end_by_signals()
    why = missing(("ip", "iproute2"), ("ethtool", "ethtool"))
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    tap, world = Tap(), World()
    try:
        pair = Pair(world, sys.argv[1])
        for name, fn in CASES:
            tap.case(name, lambda fn=fn: fn(pair), lambda: pair.said, 240)
            pair.tidy()
    finally:
        world.close()
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
