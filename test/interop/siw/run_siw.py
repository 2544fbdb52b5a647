#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft against Linux's siw in a QEMU guest, each as initiator and as responder. TAP.

The cases cover every setting of siw, valid and invalid requests. Then tshark judges the capture. docs/interop.md
explains the test.

run_siw.py BUILD [--only PREFIX]... [--list]

The guest is kept in BUILD/siw-guest, or where WEFT_SIW_CACHE says. The logs of a failed run are in
BUILD/meson-logs/siw: the capture of all cases, and the guest's console.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from kernel_net import K4, K6, W4, W6, Fail, check  # noqa: E402
from siw_guest import Guest, die_with_us, with_rig  # noqa: E402
import siw_judge  # noqa: E402

PORT = 54100  # first port; each case has its own, so that tshark identifies it
MIB = 1 << 20
EVERY = (1, 2, 3, 4, 5, 63, 64, 65, 1000, 1426, 1427, 1428, 1429, 1430, 1431, 1432, 4096, 65535, 65536, MIB, 8 * MIB)
SOME = (1, 4, 64, 1431, 5000, 65536)


def sweep(sizes):
    return [f"{op}:{n}" for n in sizes for op in ("write", "read", "send")]


class Rig:
    """The guest, and the process siw_peer."""

    def __init__(self, world, build, cache, logs):
        self.world, self.build, self.ports = world, build, PORT
        self.ns = world.space("siw")
        self.guest = Guest(world, self.ns, cache, logs)
        self.said, self.terminates = "", {}

    def port(self):
        self.ports += 1
        return self.ports

    def device(self):
        # frames that bypass the queueing discipline are missing from the capture
        return f"net_af_packet0,iface={self.guest.dev},blocksz=16384,framesz=2048,framecnt=2048,qdisc_bypass=0"

    def spawn(self, *args):
        return self.world.spawn(self.ns, [os.path.join(self.build, args[0]), *args[1:]], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, preexec_fn=die_with_us)

    def ping(self, *args):
        return self.spawn("apps/ping/weft-ping", *args, "--dev", self.device(), "--address", f"{W4}/24,{W6}/64")

    def weft(self, port, mode, *args, operands=()):
        p = self.spawn("test/interop/siw_peer", "-p", str(port), *args, mode, self.device(), f"{W4},{W6}", *operands)
        if mode == "serve":
            line = p.stdout.readline()
            check(line == "listening\n", "siw_peer does not listen: " + line + (p.stderr.read() if p.poll() is not None else ""))
        return p

    def weft_output(self, p, timeout, ok=True):
        """The output at the end of the process. ok: its status must be 0."""
        try:
            out, err = p.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            p.terminate()
            try:
                out, err = p.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                p.kill()
                out, err = p.communicate()
            self.said += f"weft (ended by us):\n{out}{err}"
            raise Fail(f"weft's side has not ended within {timeout} s") from None
        self.world.procs.remove(p)
        self.said += f"weft ({p.returncode}):\n{out}{err}"
        check(not ok or p.returncode == 0, f"weft's side ended with {p.returncode}")
        return out

    # One connection in each direction. Returns (output of the guest, output of weft).

    def guest_connects(self, ops, serve=(), connect=(), status=0, timeout=60, v6=False):
        port = self.port()
        p = self.weft(port, "serve", *serve)
        rc, out = self.guest.run(f"siwtool connect -p {port} {' '.join(connect)} {W6 if v6 else W4} {' '.join(ops)}", timeout)
        self.said += f"guest ({rc}):\n{out}\n"
        mine = self.weft_output(p, 15)
        check(rc == status, f"siwtool ended with {rc}")
        return out, mine

    def weft_connects(self, ops, serve=(), connect=(), status=0, timeout=60, v6=False):
        port = self.port()
        self.guest.server(f"siwtool serve -p {port} {' '.join(serve)} {'-6' if v6 else ''}", port)
        p = self.weft(port, "connect", *connect, operands=[K6 if v6 else K4, *ops])
        try:
            mine = self.weft_output(p, timeout, ok=False)
        finally:
            out = self.guest.server_output()
            self.said += f"guest:\n{out}\n"
        check(p.returncode == status, f"siw_peer ended with {p.returncode}")
        return out, mine


# ---- Expected output ----

def all_done(ops, out):
    for op in ops:
        check(f"{op}: done" in out, f"{op} is not done")
        if op.startswith("read"):
            check(f"{op}: content good" in out, f"{op} is not what was written")
    check("differs" not in out, "content differs")


def all_received(ops, out):
    want = []
    for op in ops:
        m = re.match(r"send(?:se|inv)?:(\d+)(?:x(\d+))?", op)
        if m:
            want += [m[1]] * int(m[2] or 1)
    got = re.findall(r"received (\d+): content good", out)
    check(got == want, f"messages received: {got} instead of {want}")
    check("differs" not in out, "content differs")


def transfer(rig, who, ops, params=None, connect=(), serve=(), mpa="", **kw):
    """Operations by one end, checked by content at both ends. A sender cannot know how many receives are left, so there
    is one for every Send. mpa: the result of the start-up, as weft reports it."""
    rig.guest.parameters(**(params or {}))
    sizes = [int(op.split(":")[1].split("x")[0]) for op in ops]
    for least, longest, recvs in ((0, 65536, 40), (65537, 8 * MIB, 4)):
        part = [op for op, n in zip(ops, sizes) if least <= n <= longest]
        if not part:
            continue
        guest, weft = run(rig, who, part, ["-s", str(longest), "-r", str(recvs), *serve], connect, **kw)
        client, server = (guest, weft) if who == "siw" else (weft, guest)
        all_done(part, client)
        all_received(part, server)
        check("terminate" not in weft, "a Terminate")
        check(mpa in weft, f"not agreed at start-up: {mpa}")
        check(weft.rstrip().endswith("end: in order"), "weft has not seen an orderly end")


def run(rig, who, ops, serve=(), connect=(), **kw):
    """Open one connection; `who` connects. Returns (output of the guest, output of weft)."""
    if who == "siw":
        return rig.guest_connects(ops, serve, connect, **kw)
    return rig.weft_connects(ops, serve, connect, **kw)


def rejected(rig, who):
    """siw gives no reason when it sees a FIN before the Reply (docs/interop.md)."""
    rig.guest.parameters()
    guest, weft = run(rig, who, ["send:1"], serve=["-j"], status=2)
    client = guest if who == "siw" else weft
    check(re.search("connect: .*reject", client, re.I), "the client was not rejected")
    check("reason: no, thank you" in client, "the reason has not arrived")


def refused(rig, connect, text):
    """An operation that siw does not support ends with an error, not without an answer."""
    rig.guest.parameters()
    port = rig.port()
    rig.guest.server(f"siwtool serve -p {port}", port)
    weft = rig.weft_output(rig.weft(port, "connect", *connect, operands=[K4, "send:1"]), 30, ok=False)
    rig.said += rig.guest.server_output(1)
    check(text in weft, f"weft has not said: {text}")


def leaves(rig, who, closer):
    """The side that did not connect, or the one that did, disconnects. The other sees an orderly end."""
    rig.guest.parameters()
    # If siw has not read a Send when we close, it sends a RST. The answer to a Read shows that it has read it.
    ops = ["send:10"] + (["wait"] if closer == "server" else ["read:10"])
    guest, weft = run(rig, who, ops, serve=["-x"] if closer == "server" else [])
    client = guest if who == "siw" else weft
    check(closer != "server" or "wait: disconnected" in client, "the client has not been told")
    check("end: in order" in weft, "weft has not seen an orderly end")
    check(who != "weft" or "RDMA_CM_EVENT_DISCONNECTED" in guest, "siw has not seen the end")


def private_data(rig, who, n):
    rig.guest.parameters()
    guest, weft = run(rig, who, ["send:1"], serve=["-a", str(n)], connect=["-a", str(n)])
    for out, what in ((guest, "siw"), (weft, "weft")):
        m = re.search(r"(?:request|reply): private data (\d+): (none|content good)", out)
        check(m and int(m[1]) == (n if "request" in m[0] else max(n, 32)), f"{what}: private data")


def misbehaved(rig, who, op, want, serve=()):
    """An invalid request ends the stream with the expected Terminate, and the next connection works."""
    rig.guest.parameters()
    guest, weft = run(rig, who, [op], serve)
    said = re.search(rf"terminate {'sent' if who == 'siw' else 'received'}: (\S+):", weft)
    check(said, "no Terminate")
    check(said[1] == want, f"Terminate {said[1]} instead of {want}")
    if who == "siw":
        rig.terminates[rig.ports] = want
        layer, etype, code = (int(x, 16) for x in want.split("/"))
        # siw decodes the word as it encodes it, with layer and type exchanged.
        told = rig.guest.run("dmesg | grep TERMINATE | tail -n 1")[1]
        check(f"layer {etype}, type {layer}, code {code}" in told, f"siw has read our Terminate as: {told}")


def pings_seen(guest, weft):
    for n in range(5):
        check(f"ping data: rdma-ping-{n}: " in guest and f"ping data: rdma-ping-{n}: " in weft, f"ping {n} is missing")


def ping_served(rig, *options):
    """rping in the guest connects to weft-ping. Both compare the returned data."""
    rig.guest.parameters()
    port = str(rig.port())
    p = rig.ping("-s", "-V", "-p", port, *options)
    check("waiting" in p.stderr.readline(), "weft-ping does not listen")
    rc, guest = rig.guest.run(f"rping -c -a {W4} -p {port} -C 5 -V {' '.join(options)}", 20)
    rig.said += f"guest ({rc}):\n{guest}\n"
    weft = rig.weft_output(p, 15)
    check(rc == 0, f"rping ended with {rc}")
    check("5 pings, left in order" in rig.said, "weft-ping has not seen 5 pings")
    if "-v" in options:
        pings_seen(guest, weft)


def ping_asked(rig, *options):
    """weft-ping connects to rping in the guest."""
    rig.guest.parameters()
    port = str(rig.port())
    rig.guest.server(f"rping -s -p {port} -C 5 -V {' '.join(options)}", port)
    p = rig.ping("-c", "-V", "-a", K4, "-p", port, "-C", "5", *options)
    try:
        weft = rig.weft_output(p, 30)
    finally:
        guest = rig.guest.server_output()
        rig.said += f"guest:\n{guest}\n"
    if "-v" in options:
        pings_seen(guest, weft)


# ---- The cases ----

def cases():
    out = []

    def add(name, fn, *args, **kw):
        out.append((name, lambda rig: fn(rig, *args, **kw)))

    crc, p2p = {"mpa_crc_required": "Y"}, {"peer_to_peer": "Y"}

    def agreed(rev=2, p2p=0, rtr=0, crc=1):
        return f"mpa: rev {rev}, p2p {p2p}, rtr {rtr}, crc {crc}, markers 0 0"

    # siw as initiator requests what it is configured to.
    for name, params, sizes, serve, mpa in (
            ("as it comes", {}, EVERY, (), agreed()),
            ("CRC", crc, EVERY, (), agreed()),
            ("no CRC", {}, SOME + (MIB,), ["-C"], agreed(crc=0)),
            ("CRC for siw's sake", crc, SOME, ["-C"], agreed()),
            ("revision 1", {"mpa_version": "1"}, SOME, (), agreed(rev=1)),
            ("revision 1, CRC", {"mpa_version": "1"} | crc, SOME, ["-C"], agreed(rev=1)),
            ("revision 1, no CRC", {"mpa_version": "1"}, SOME, ["-C"], agreed(rev=1, crc=0)),
            ("peer-to-peer", p2p, SOME, (), agreed(p2p=1)),
            ("peer-to-peer, CRC", p2p | crc, SOME, ["-C"], agreed(p2p=1)),
            ("peer-to-peer, no CRC", p2p, SOME, ["-C"], agreed(p2p=1, crc=0)),
            ("FPDUs beyond the MSS", {"try_gso": "Y"}, SOME + (MIB,), (), agreed()),
            ("no zero copy", {"zcopy_tx": "N"}, SOME + (MIB,), (), agreed())):
        add(f"siw to weft: {name}", transfer, "siw", sweep(sizes), params, serve=serve, mpa=mpa)
    # As responder it accepts what is requested.
    for name, params, sizes, connect, mpa in (
            ("as it comes", {}, EVERY, (), agreed()),
            ("CRC", crc, EVERY, (), agreed()),
            ("no CRC", {}, SOME + (MIB,), ["-C"], agreed(crc=0)),
            ("revision 1", {}, SOME, ["-M", "1"], agreed(rev=1)),
            ("revision 1, no CRC", {}, SOME, ["-M", "1", "-C"], agreed(rev=1, crc=0)),
            ("peer-to-peer, any RTR", p2p, SOME, ["-R", "7"], agreed(p2p=1, rtr=2)),
            ("peer-to-peer, RTR by Write", {}, SOME, ["-R", "2"], agreed(p2p=1, rtr=2)),
            ("peer-to-peer, RTR by Read", {}, SOME, ["-R", "4"], agreed(p2p=1, rtr=4)),
            ("peer-to-peer, no CRC", {}, SOME, ["-R", "6", "-C"], agreed(p2p=1, rtr=2, crc=0)),
            ("FPDUs beyond the MSS", {"try_gso": "Y"}, SOME + (MIB,), (), agreed()),
            ("no zero copy", {"zcopy_tx": "N"}, SOME + (MIB,), (), agreed())):
        add(f"weft to siw: {name}", transfer, "weft", sweep(sizes), params, connect=connect, mpa=mpa)
    # Not tested: RTR by an empty FPDU only. Our Terminate 2/0/07 stops Linux 6.1 (docs/interop.md).
    add("weft to siw: markers", refused, ["-K"], "connect: rejected")
    add("rping to weft-ping", ping_served, "-v")
    add("rping to weft-ping: 60000 octets", ping_served, "-S", "60000")
    add("weft-ping to rping", ping_asked, "-v")
    add("weft-ping to rping: 60000 octets", ping_asked, "-S", "60000")
    many = ["send:1000x12", "write:3000x64", "read:3000x64", "sendse:7", "sendinv:9", "send:0", "write:0", "read:0"]
    for who in ("siw", "weft"):
        to = "siw to weft" if who == "siw" else "weft to siw"
        add(f"{to}: many at once", transfer, who, many)
        add(f"{to}: one Read at a time", transfer, who, ["write:3000x8", "read:3000x8"], connect=["-d", "1"])
        add(f"{to}: IPv6", transfer, who, sweep(SOME), v6=True)
        for n in (0, 1, 33, 251):
            add(f"{to}: private data of {n}", private_data, who, n)
        add(f"{to}: reject", rejected, who)
        add(f"{to}: the server disconnects", leaves, who, "server")
        add(f"{to}: the client disconnects", leaves, who, "client")
    for op, to_weft, to_siw in (
            ("bad-write-key", "1/1/00", "1/1/00"), ("bad-read-key", "0/1/00", "0/1/00"),
            ("bad-write-bounds", "1/1/01", "1/1/01"), ("bad-read-bounds", "0/1/01", "0/1/01"),
            ("wrap-write", "1/1/03", "1/0/00"), ("ro-write", "0/1/02", "1/1/00"), ("wo-read", "0/1/02", None)):
        add(f"siw to weft: {op}", misbehaved, "siw", op, to_weft)
        if to_siw:
            add(f"weft to siw: {op}", misbehaved, "weft", op, to_siw)
    short = ["-s", "4096"]
    add("siw to weft: a Send longer than the receive", misbehaved, "siw", "big-send:5000", "1/2/05", serve=short)
    add("weft to siw: a Send longer than the receive", misbehaved, "weft", "big-send:5000", "1/2/02", serve=short)
    add("siw to weft: a Send without a receive", misbehaved, "siw", "big-send:10", "1/2/02", serve=["-r", "0"])
    add("weft to siw: a Send without a receive", misbehaved, "weft", "big-send:10", "1/2/02", serve=["-r", "0"])
    # siw evaluates four bits of the opcode: Flush is unknown, and Atomic Write a Write without an STag.
    add("weft to siw: Flush", misbehaved, "weft", "flush", "0/2/06")
    add("weft to siw: Atomic Write", misbehaved, "weft", "atomic-write", "1/1/00")
    return out


# ---- The run ----

def capture(world, rig, file):
    p = world.spawn(rig.ns, ["tcpdump", "--immediate-mode", "-B", "65536", "-U", "-s", "0", "-i", rig.guest.dev, "-w", file, "tcp"],
                    stderr=subprocess.PIPE, text=True, preexec_fn=die_with_us)
    line = p.stderr.readline()
    while line and "listening on" not in line:
        line = p.stderr.readline()
    check(line, "tcpdump does not start")
    return p


def use(rig, tap, logs, todo, every):
    def case(name, fn):
        return tap.case(name, fn, lambda: rig.said + (rig.guest.run("dmesg | tail -n 8")[1] if rig.guest.alive() else ""))

    if not case("the guest is up", rig.guest.wait_up):
        return
    pcap = os.path.join(logs, "siw.pcap")
    tcpdump = capture(rig.world, rig, pcap)
    for name, fn in todo:
        rig.said = ""
        case(name, lambda fn=fn: fn(rig))
        for p in list(rig.world.procs):
            if p not in (rig.guest.qemu, tcpdump):
                rig.world.reap(p, signal.SIGKILL)
        check(rig.guest.alive(), "the guest has died")
    time.sleep(0.3)
    rig.world.reap(tcpdump, signal.SIGINT)
    rig.said = ""
    for name, fn in siw_judge.cases(siw_judge.Capture(pcap, (W4, W6)), rig.terminates, every):
        case(name, fn)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("build")
    ap.add_argument("--only", action="append", help="cases whose name begins so")
    ap.add_argument("--list", action="store_true")
    args = ap.parse_args()
    todo = [c for c in cases() if not args.only or any(c[0].startswith(o) for o in args.only)]
    if args.list:
        print("\n".join(c[0] for c in todo))
        return 0
    return with_rig(args.build, "siw", (("tcpdump", "tcpdump"), ("tshark", "tshark")), Rig,
                    lambda rig, tap, logs: use(rig, tap, logs, todo, not args.only))


if __name__ == "__main__":
    sys.exit(main())
