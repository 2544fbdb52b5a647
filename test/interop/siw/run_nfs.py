#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Linux's NFS server in the siw guest as the peer of RPC-over-RDMA version 1. TAP.

weft's client makes calls, and the guest compares the files. Then tshark judges the capture. docs/interop.md explains
the test.

run_nfs.py BUILD [--list]

The guest is that of run_siw.py. The logs of a failed run are in BUILD/meson-logs/nfs.
"""
import argparse
import hashlib
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from kernel_net import K4, W4, check  # noqa: E402
from run_siw import capture  # noqa: E402
from siw_guest import Guest, die_with_us, with_rig  # noqa: E402
import nfs_judge  # noqa: E402

MIB = 1 << 20
SIZES = (1, 2, 3, 4, 5, 1000, 4095, 4096, 4097, 65535, 65536, 262145, MIB - 1, MIB)
NAMES = 700  # a listing of more than one reply


class Rig:
    """The guest with its export, and the process nfs_peer."""

    def __init__(self, world, build, cache, logs):
        self.world, self.build = world, build
        self.ns = world.space("nfs")
        self.guest = Guest(world, self.ns, cache, logs)
        self.said, self.handle = "", ""
        self.runs = []  # the name of the case for each connection in the capture

    def ask(self, what, ops, *options, status=0, timeout=60):
        """One nfs_peer with one connection. Returns its report of each operation."""
        self.runs.append(what)
        # frames that bypass the queueing discipline are missing from the capture
        device = f"net_af_packet0,iface={self.guest.dev},blocksz=16384,framesz=2048,framecnt=2048,qdisc_bypass=0"
        args = [os.path.join(self.build, "test/interop/nfs_peer"), *options, device, W4, K4, self.handle, *ops]
        p = self.world.spawn(self.ns, args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_us)
        try:
            out, err = p.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            err += "(ended by us)\n"
        self.world.procs.remove(p)
        self.said += out + err
        check(p.returncode == status, f"nfs_peer ended with {p.returncode}")
        said = dict(line.split(": ", 1) for line in out.splitlines() if ": " in line)
        check(status != 0 or set(said) == set(ops), f"not answered: {set(ops) - set(said)}")
        return said, err

    def sums(self):
        """SHA-256 of the guest's files, and their sizes."""
        rc, out = self.guest.run("cd /export && sha256sum * && wc -c *")
        check(rc == 0, "the guest cannot read its files")
        digests = {name: d for d, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", out, re.M)}
        return digests, {name: int(n) for n, name in re.findall(r"^ *(\d+) (\S+)$", out, re.M)}


def up(rig):
    rig.guest.wait_up()
    rc, out = rig.guest.run(f"/etc/nfs-export {W4}", 60)
    rig.said += out
    m = re.search(r"^\\x([0-9a-f]+)$", out, re.M)
    check(rc == 0 and m, f"nfsd does not serve: {out}\n" + rig.guest.run("dmesg | tail -n 20")[1])
    rig.handle = m[1]
    # r: random, to be read; w: empty, to be written
    rc, out = rig.guest.run("cd /export && " + " && ".join(f"head -c {n} /dev/urandom >r{n} && touch w{n} l{n}" for n in SIZES), 60)
    check(rc == 0, out)


def simple(rig):
    said, _ = rig.ask("simple", ["null", "getattr", f"lookup:r{MIB}", "lookup:r5", "proc:99"], "-v", "1")
    check(said["getattr"].startswith("kind 2,"), "the root is no directory")
    check(said[f"lookup:r{MIB}"] == str(MIB) and said["lookup:r5"] == "5", "sizes")
    check("unavailable" in said["proc:99"], f"procedure 99: {said['proc:99']}")


def read_good(said, ops, digests, sizes):
    for op in ops:
        name, asked = op.split(":")[1], int(op.split(":")[2])
        n, eof, digest = re.fullmatch(r"(\d+), eof (\d), (\w+)", said[op]).groups()
        check(int(n) == min(asked, sizes[name]), f"{op}: {n} octets")
        check(int(eof) == (asked >= sizes[name]), f"{op}: eof {eof}")
        check(digest == digests[name] or asked < sizes[name], f"{op}: content differs")


def reads(rig, what, *options, how=""):
    digests, sizes = rig.sums()
    ops = [f"read:r{n}:{n}{how}" for n in SIZES] + [f"read:r1000:{MIB}{how}", f"read:r5:4{how}", f"read:w1:100{how}"]
    said, _ = rig.ask(what, ops, *options)
    read_good(said, ops, digests, sizes)


def writes(rig, what, *options, verb="write", file="w", sizes=SIZES):
    ops = [f"{verb}:{file}{n}:{n}" for n in sizes]
    said, _ = rig.ask(what, ops, *options)
    digests, _ = rig.sums()
    for op, n in zip(ops, sizes):
        check(said[op] == f"{n}, {digests[f'{file}{n}']}", f"{op}: {said[op]}, in the guest {digests[f'{file}{n}']}")
    return ops


def longs(rig):
    """Nothing is reduced: long calls in a Read chunk at position zero, long replies in a Reply chunk."""
    some = (1, 1000, 4097, 65536, 262145)
    digests, sizes = rig.sums()
    ops = [f"inread:r{n}:{n}" for n in some]
    said, _ = rig.ask("long replies", ops, "-v", "1")
    read_good(said, ops, digests, sizes)
    writes(rig, "long calls", "-v", "1", verb="inwrite", file="l", sizes=some)


def listing(rig, what, *options):
    rc, out = rig.guest.run(f"cd /export && for i in $(seq {NAMES}); do : >a-name-that-is-long-enough-to-fill-a-reply-$i; done; "
                            "ls -a | grep -vx '[.][.]*'", 60)
    names = sorted(out.split("\n"))
    check(rc == 0 and len(names) > NAMES, "the guest has no names")
    said, _ = rig.ask(what, ["list"], *options)
    want = hashlib.sha256("".join(n + "\n" for n in names).encode()).hexdigest()
    check(said["list"] == f"{len(names)} names, {want}", f"{len(names)} names are {said['list']}")


def falls_back(rig):
    """Draft s4.3: a client that starts with version 2 continues with version 1."""
    ops = ["null", "getattr", f"read:r{MIB}:{MIB}", "read:r3:3", f"write:w{MIB}:{MIB}", f"read:w{MIB}:{MIB}"]
    said, _ = rig.ask("falls back", ops)
    digests, sizes = rig.sums()
    read_good(said, [o for o in ops if o.startswith("read")], digests, sizes)
    check(said[f"write:w{MIB}:{MIB}"] == f"{MIB}, {digests[f'w{MIB}']}", "WRITE")


def refused(rig):
    """A client without version 1 ends at once."""
    t0 = time.monotonic()
    _, err = rig.ask("version 2 alone", ["null"], "-m", "2", status=1)
    check(time.monotonic() - t0 < 5, "not at once")
    check("Protocol error" in err, f"for another reason: {err}")


CASES = [("the guest is up, its NFS server listens", up),
         ("NULL, GETATTR, LOOKUP, a procedure that there is not", simple),
         ("READ, 1 octet to 1 MiB, by a Write chunk", lambda r: reads(r, "reads", "-v", "1")),
         ("READ into the caller's memory", lambda r: reads(r, "reads in place", "-v", "1", how=":at")),
         ("WRITE, 1 octet to 1 MiB, by a Read chunk", lambda r: writes(r, "writes", "-v", "1")),
         ("READ and WRITE without a binding: long replies and calls", longs),
         ("READDIR by a Reply chunk", lambda r: listing(r, "listing", "-v", "1")),
         ("version 2 first falls back to version 1 and goes on", falls_back),
         ("version 2 alone ends", refused)]


def use(rig, tap, logs):
    def case(name, fn):
        rig.said = ""
        return tap.case(name, fn, lambda: rig.said + (rig.guest.run("dmesg | tail -n 8")[1] if rig.guest.alive() else ""))

    if not case(CASES[0][0], lambda: up(rig)):
        return
    pcap = os.path.join(logs, "nfs.pcap")
    tcpdump = capture(rig.world, rig, pcap)
    for name, fn in CASES[1:]:
        case(name, lambda fn=fn: fn(rig))
        check(rig.guest.alive(), "the guest has died")
    time.sleep(0.3)
    rig.world.reap(tcpdump, signal.SIGINT)
    for name, fn in nfs_judge.cases(nfs_judge.Capture(pcap, W4, rig.runs), SIZES) if tap.failed == 0 else ():
        case(name, fn)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("build")
    ap.add_argument("--list", action="store_true")
    args = ap.parse_args()
    if args.list:
        print("\n".join(name for name, _ in CASES))
        return 0
    return with_rig(args.build, "nfs", (("tcpdump", "tcpdump"), ("tshark", "tshark")), Rig, use)


if __name__ == "__main__":
    sys.exit(main())
