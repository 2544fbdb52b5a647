#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""CPU time of idle programs, for each kind of port that needs no NIC. TAP.

    run_idle.py BUILD [--seconds N] [--only PROGRAM] [--table FILE]

Each program runs on each port, all at once, with its default sleep. After a start they are left alone for N seconds
[10], and the CPU time of all their threads is read before and after. A row above 1 % of a core fails. The rows "connected" are a
weft-target and a weft-console with an open connection between them that is silent, but for the target's keepalive.
"""
import argparse
import glob
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), d) for d in ("interop", "guest")]

from guest import Tap, die_with_us, end_by_signals, missing  # noqa: E402
from kernel_net import World, check, sh  # noqa: E402

LIMIT_PERCENT = 1.0
SETTLE_S = 3  # after the start: neighbours are announced, and the sleep grows to its longest
PROGRAMS = {"weft-target": ("apps/target/weft-target", ["-c"], "ready:"),
            "weft-ping -s": ("apps/ping/weft-ping", ["-s", "-V", "--config"], "waiting"),
            "weft-perf --server": ("apps/perf/weft-perf", ["--server", "-c"], "waiting"),
            "weft-console": ("apps/console/weft-console", ["-c"], "link")}
PORTS = ("net_memif", "net_ring", "net_af_packet", "net_af_xdp", "net_bonding", "net_tap", "net_null")


class Idle:
    """A program on a port."""

    def __init__(self, world, ns, build, program, port, k, device=None, address=None):
        self.name, self.port, self.k = program, port, k
        exe, args, ready = PROGRAMS[program]
        conf = os.path.join(world.tmp, f"{k}.ini")
        exports = "[export v]\nsize = 4M\npersist = volatile\n" if program == "weft-target" else ""
        with open(conf, "w", encoding="utf-8") as f:
            f.write(f"[weft]\nmemory_mb = 64\nhugepages = never\n[port p0]\ndev = {device or self.device(world, ns)}\n"
                    f"address = {address or f'10.97.{k}.1'}/24\nmbufs = 1024\n{exports}")
        self.p = world.spawn(ns, [os.path.join(build, exe), *args, conf], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_us)
        if program == "weft-console":
            self.say("show port")
        self.until(ready)

    def device(self, world, ns):
        if self.port == "net_memif":
            return f"net_memif0,role=server,socket={world.tmp}/{self.k}.sock,socket-abstract=no"
        if self.port == "net_af_packet":
            return f"net_af_packet0,iface={self.veth(ns, 'n')}"
        if self.port == "net_af_xdp":
            return f"net_af_xdp0,iface={self.veth(ns, 'n')}"
        if self.port == "net_bonding":
            slaves = [f"slave=[net_af_packet{i},iface={self.veth(ns, c)}]" for i, c in enumerate("ab")]
            return f"net_bonding0,mode=1,{','.join(slaves)}"
        if self.port == "net_tap":
            return f"net_tap0,iface=wi{self.k}t"
        # Otherwise net_null receives frames without end.
        return f"{self.port}0" + (",no-rx=1" if self.port == "net_null" else "")

    def veth(self, ns, letter):
        """One end of a wire, whose other end is silent."""
        near, far = f"wi{self.k}{letter}", f"wi{self.k}{letter}f"
        sh("ip", "-n", ns, "link", "add", near, "type", "veth", "peer", "name", far)
        for dev in (near, far):
            sh("ip", "-n", ns, "link", "set", dev, "up")
        return near

    def say(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def until(self, word):
        seen = ""
        for line in self.p.stdout:
            seen += line
            if word in line:
                return
        check(False, f"{self.name} on {self.port}: no '{word}': {seen[-400:]}")

    def cpu_ns(self):
        total = 0
        for task in glob.glob(f"/proc/{self.p.pid}/task/*/schedstat"):
            with open(task, encoding="ascii") as f:
                total += int(f.read().split()[0])
        return total


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("build")
    ap.add_argument("--seconds", type=float, default=10)
    ap.add_argument("--only", choices=PROGRAMS, help="one program")
    ap.add_argument("--table", metavar="FILE", help="write the table as Markdown")
    args = ap.parse_args()
    why = missing(("ip", "iproute2"))
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    end_by_signals()
    build, world, tap, rows = os.path.abspath(args.build), World(), Tap(), []
    try:
        idle = []
        for program in [args.only] if args.only else PROGRAMS:
            for port in PORTS:
                k = len(idle) + 1
                # net_af_packet names its PACKET_FANOUT group by process number and interface number, and groups of two
                # programs in one namespace may have one name.
                idle.append(Idle(world, world.space(f"idle{k}"), build, program, port, k))
        if args.only is None:
            ns = world.space("idle")
            sock = f"{world.tmp}/open.sock"
            device = "net_memif0,role=%s,socket=" + sock + ",socket-abstract=no"
            target = Idle(world, ns, build, "weft-target", "net_memif", 200, device % "server", "10.97.200.1")
            console = Idle(world, ns, build, "weft-console", "net_memif", 201, device % "client", "10.97.200.2")
            console.say("connect 10.97.200.1 7471")
            console.until("established")
            target.port = console.port = "net_memif, connected"
            idle += [target, console]
        time.sleep(SETTLE_S)
        t0, before = time.monotonic(), [i.cpu_ns() for i in idle]
        time.sleep(args.seconds)
        after, t1 = [i.cpu_ns() for i in idle], time.monotonic()
        for i, a, b in zip(idle, before, after):
            percent = (b - a) / (t1 - t0) / 1e7
            rows.append((i.name, i.port, f"{(b - a) / 1e9:.3f}", f"{percent:.2f} %"))

            def judge(i=i, percent=percent):
                check(i.p.poll() is None, f"has ended with {i.p.returncode}")
                check(percent <= LIMIT_PERCENT, f"{percent:.2f} % of a core")
            tap.case(f"{i.name} on {i.port}", judge)
    finally:
        world.close()
    head = [("program", "port", f"CPU seconds in {args.seconds:.0f} s", "of a core"), ("---",) * 4]
    table = "\n".join("| " + " | ".join(r) + " |" for r in head + rows)
    print("\n".join("# " + line for line in table.splitlines()))
    if args.table:
        with open(args.table, "w", encoding="utf-8") as f:
            f.write(table + "\n")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
