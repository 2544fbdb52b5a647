#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several processes on one address, by weft-portd: test_portd.py BUILD [CASE...]. TAP.

On each of two sides a weft-portd owns one end of a net_memif. Programs of a side share its address.

The environment: WEFT_TEST_SEED (1) and WEFT_TEST_DRAWS (20), of `draws` and `killed_in_stream`.
"""
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import SERVER, CLIENT, check  # noqa: E402
from test_perftest import rows  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER6, CLIENT6 = "fd00:9::1", "fd00:9::2"
PINGS = ["-v", "-V", "-C", "100000000"]
TICKS = os.sysconf("SC_CLK_TCK")


class Sides(rig.Rig):
    """A daemon on each side. sides: which are started. veth: the link between, instead of a net_memif; needs root."""

    def __init__(self, build, sides=("server", "client"), options=(), veth=False):
        if veth and os.geteuid() != 0:
            raise rig.Skip("needs root (veth)")
        super().__init__(build)
        self.veth = {role: f"wpd{os.getpid() % 1000000}{role[0]}" for role in ("server", "client")} if veth else None
        if veth:
            names = list(self.veth.values())
            rig.Spaces.ip("link", "add", names[0], "type", "veth", "peer", "name", names[1])
            for name in names:
                rig.Spaces.ip("link", "set", name, "addrgenmode", "none", "up")
        self.program = os.path.join(os.path.abspath(build), "apps/portd/weft-portd")
        if not os.path.exists(self.program):
            raise rig.Skip("weft-portd was not built")
        self.daemon = {}
        for role in sides:
            self.up(role, options)

    def __exit__(self, *exc):
        try:
            super().__exit__(*exc)
        finally:
            if self.veth:
                rig.Spaces.ip("link", "del", self.veth["server"])

    def up(self, role, options=()):
        """Start the daemon of a side, and wait until it takes processes."""
        dev = f"net_memif0,role={role},id=0,socket={self.path('wire')},socket-abstract=no"
        if self.veth:
            dev = f"net_af_packet0,iface={self.veth[role]}"
        address = f"{SERVER}/24,{SERVER6}/64" if role == "server" else f"{CLIENT}/24,{CLIENT6}/64"
        e = rig.End([self.program, *self.device(role, dev, address), "--socket", self.path(role), *options])
        self.ends.append(e)
        rig.until(lambda: "ready" in e.out + e.err, e)
        self.daemon[role] = e

    def device(self, role, dev, address):
        """The port options of a side's daemon, which has telemetry."""
        address, address6 = address.split(",")
        with open(self.path(role + ".ini"), "w", encoding="utf-8") as f:
            f.write(f"[weft]\ntelemetry = yes\n[port p0]\ndev = {dev}\naddress = {address}\naddress6 = {address6}\n")
        return ["--config", self.path(role + ".ini")]

    def port(self, role, k=None, weft=None):
        """The port options of a program of a side."""
        options = ["--portd", self.path(role)]
        if weft is not None:
            with open(self.path("portd.ini"), "w", encoding="utf-8") as f:
                f.write(f"[weft]\n{weft}\n")
            options += ["--config", self.path("portd.ini")]
        return options

    def settled(self, e, timeout=15):
        """A program needs no other one to open its device."""

    def listening(self, role, argv, port, **how):
        """Start a program of a side that listens on a port, and wait until it does."""
        e = self.start(role, argv, weft="telemetry = yes", **how)
        rig.until(lambda: rig.listens(e, port), e)
        return e

    def pinging(self, server="server", client="client", port=7174):
        """Two ends of rping that ping without end."""
        rig.need("rping")
        s = self.listening(server, ["rping", "-s", "-p", str(port), *PINGS], port)
        c = self.start(client, ["stdbuf", "-oL", "rping", "-c", "-a", SERVER if server == "server" else CLIENT, "-p", str(port), *PINGS])
        rig.until(lambda: "ping data" in c.out, s, c)
        return s, c


def counts(e):
    """The counters of a daemon."""
    return rig.telemetry(e, "/weft/portd/stats")


def goes_on(e):
    """An end of rping pings still."""
    n = len(e.out)
    rig.until(lambda: len(e.out) > n + 1000, e)


def pair(r, server, client, port, rc=(0, 0), sides=("server", "client")):
    """Run two ends until they end."""
    s = r.listening(sides[0], server, port)
    c = r.start(sides[1], client)
    got = (s.wait(60), c.wait(60)) if rc is not None else None
    check(rc is None or got == rc, f"exit statuses {got}", s, c)
    return s, c


def pings(build):
    """rping from one side to the other, both ways and over both families, with its data verified"""
    rig.need("rping")
    with Sides(build) as r:
        for sides, to in ((("server", "client"), SERVER), (("client", "server"), CLIENT), (("server", "client"), SERVER6),
                          (("client", "server"), CLIENT6), (("server", "server"), SERVER6)):
            argv = ["-V", "-C", "20", "-a", to]
            _, c = pair(r, ["rping", "-s", *argv], ["rping", "-c", "-v", *argv], 7174, sides=sides)
            check(len(re.findall(r"^ping data", c.out, re.M)) == 20, c)


def early(build):
    """A program that asks for its device before its daemon is there, and goes on asking: one line, and then it opens it"""
    program = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_objects")
    if not os.path.exists(program):
        raise rig.Skip("not built")
    for child in False, True:
        with Sides(build, sides=["server"] + ["client"] * child) as r:
            # weft-run looks for the daemon of --portd, and leaves that of the environment to the program
            c = rig.End([r.run, program, "try-again", r.path("go") if child else "-"], env=dict(r.env, WEFT_PORTD=r.path("client")))
            r.ends.append(c)
            if child:
                # the addresses are known, and the child looks for the daemon when it opens the device
                rig.until(lambda c=c: "listed" in c.out, c)
                r.daemon["client"].kill()
                with open(r.path("go"), "wb"):
                    pass
            rig.until(lambda c=c: "tried" in c.out, c)
            r.up("client")
            check(c.wait(30) == 0 and "opened" in c.out, c)
            check(len(c.err.splitlines()) == 1 and "no weft-portd listens there" in c.err, c)


def source_ports(build):
    """A connection comes from the port that its id is bound to, or was given from the blocks of its process"""
    program = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_ends")
    rig.need(program)
    with Sides(build) as r:
        for port in "700", "0":
            s, c = pair(r, [program, "server", "7471"], [program, "client", SERVER, "7471", "0.0.0.0", port], 7471)
            check(s.out != "" and s.out.split() == c.out.split()[::-1], "the two ends differ", s, c)
            check(port == "0" or f":{port} >" in c.out, c)


def perftests(build):
    """Two pairs of ib_send_bw at once, each with the figures of all its messages at both ends"""
    rig.need("ib_send_bw")
    with Sides(build) as r:
        argv = {port: ["ib_send_bw", "-R", "-F", "-p", str(port), "-n", "1000", "-s", "65536"] for port in (18515, 18516)}
        servers = {port: r.listening("server", a, port) for port, a in argv.items()}
        clients = {}
        # Each connection of a client waits for its listener, as rig.Rig.perftest() says.
        preload = ":".join(filter(None, (r.env.get("LD_PRELOAD"), r.hold)))
        for port, a in argv.items():
            clients[port] = r.start("client", [*a, SERVER], env={"LD_PRELOAD": preload, "WEFT_TEST_HOLD": r.path(f"gate{port}")})
        for port, s in servers.items():
            rig.until(lambda at=r.path(f"gate{port}.waiting"): os.path.exists(at), s, clients[port], timeout=60)
            rig.until(lambda e=s, at=port: rig.listens(e, at), s, clients[port], timeout=60)
        for port in argv:
            with open(r.path(f"gate{port}.go"), "wb"):
                pass
        for e in [*clients.values(), *servers.values()]:
            check(e.wait(120) == 0, e)
            check([x[:2] for x in rows(e)] == [[65536, 1000]], rows(e), e)


def each_other(build):
    """Two processes of one side talk to each other, by its address and by 127.0.0.1; no frame of theirs leaves it"""
    rig.need("rping")
    with Sides(build, sides=["server"], options=["--json"]) as r:
        for to in SERVER, "127.0.0.1":
            _, c = pair(r, ["rping", "-s", "-V", "-C", "20"], ["rping", "-c", "-v", "-V", "-C", "20", "-a", to], 7174,
                        sides=("server", "server"))
            check(len(re.findall(r"^ping data", c.out, re.M)) == 20, c)
        d = r.daemon["server"]
        d.kill(signal.SIGTERM)
        check(d.wait(20) == 0, d)
        got = json.loads(d.out)
        check(got["out_frames"] == got["out_local"] > 100, got, d)


def in_use(build):
    """A port of another process is EADDRINUSE, and free when that process has ended; other ports are free"""
    rig.need("rping")
    with Sides(build, sides=["server"]) as r:
        s = r.listening("server", ["rping", "-s", "-p", "7300"], 7300)
        e = r.start("server", ["rping", "-s", "-p", "7300"])
        check(e.wait(20) != 0 and "Address already in use" in e.err, e)
        other = r.listening("server", ["rping", "-s", "-p", "7301"], 7301)
        s.kill(signal.SIGTERM)
        r.listening("server", ["rping", "-s", "-p", "7300"], 7300)
        check(other.p.poll() is None, other)


def killed(build):
    """kill -9 of a process: its peer hears soon, others go on, and its port becomes free"""
    with Sides(build) as r:
        s, c = r.pinging(port=7400)
        others = r.pinging(port=7401)
        at = time.monotonic()
        s.kill()
        c.wait(20)
        took = time.monotonic() - at
        check("DISCONNECT EVENT" in c.out + c.err, c)
        # A peer that waits for a message asks after 5 s. Without the daemon no question is answered, and the last one ends at 10 s.
        print(f"# killed: the peer heard after {took:.1f} s", flush=True)
        check(took < 9, f"the peer heard after {took:.1f} s", c)
        for e in others:
            goes_on(e)
        r.listening("server", ["rping", "-s", "-p", "7400"], 7400)
        # The client's end.
        s, c = r.pinging(port=7402)
        c.kill()
        s.wait(20)
        check("DISCONNECT EVENT" in s.out + s.err, s)
        for e in others:
            goes_on(e)


def killed_in_stream(build):
    """kill -9 of either end in mid-stream, over veth, at any time of a burst; the daemons go on"""
    rig.need("ib_send_bw")
    seed = int(os.environ.get("WEFT_TEST_SEED", "1"))
    draw = random.Random(seed)
    with Sides(build, veth=True) as r:
        for k in range(int(os.environ.get("WEFT_TEST_DRAWS", "20")) // 2):
            argv = ["ib_send_bw", "-R", "-F", "-p", "18515", "-D", "60", "-s", "65536", "-b"]
            before = {role: counts(e)["in_frames"] for role, e in r.daemon.items()}
            s = r.listening("server", argv, 18515)
            # Between perftest's two connections a client ends when it is early.
            preload = ":".join(filter(None, (r.env.get("LD_PRELOAD"), r.hold)))
            c = r.start("client", [*argv, SERVER], env={"LD_PRELOAD": preload, "WEFT_TEST_HOLD": r.path(f"gate{k}")})
            rig.until(lambda at=r.path(f"gate{k}.waiting"): os.path.exists(at), s, c)
            rig.until(lambda at=s: rig.listens(at, 18515), s, c)
            with open(r.path(f"gate{k}.go"), "wb"):
                pass
            for role, e in r.daemon.items():
                rig.until(lambda e=e, n=before[role] + 2000: counts(e)["in_frames"] > n, e, s, c)
            time.sleep(draw.uniform(0, 0.02))
            dead, other = draw.choice(((s, c), (c, s)))
            dead.kill()
            for e in r.daemon.values():
                check(e.p.poll() is None, f"draw {k} of seed {seed}", e)
            other.kill()
            for e in r.daemon.values():
                rig.until(lambda e=e: counts(e)["processes"] == 0, e)
        print("# killed_in_stream: " + ", ".join(f"{role}: faults {counts(e)['faults']}" for role, e in r.daemon.items()), flush=True)


def draws(build):
    """kill -9 of either end at any time, through one pair of daemons; then all is as before"""
    rig.need("rping")
    seed = int(os.environ.get("WEFT_TEST_SEED", "1"))
    n = int(os.environ.get("WEFT_TEST_DRAWS", "20"))
    draw = random.Random(seed)
    with Sides(build) as r:
        _, others = r.pinging(port=7700)
        for k in range(n):
            port = str(draw.choice((7701, 7702)))
            s = r.start("server", ["rping", "-s", "-p", port, *PINGS])
            if draw.random() < 0.7:
                time.sleep(draw.uniform(0.1, 0.6))
            c = r.start("client", ["stdbuf", "-oL", "rping", "-c", "-a", SERVER, "-p", port, *PINGS])
            if draw.random() < 0.5:
                end = time.monotonic() + 20
                while "ping data" not in c.out and c.p.poll() is None and time.monotonic() < end:
                    time.sleep(0.01)
            time.sleep(draw.uniform(0, 0.6))
            dead, other = draw.choice(((s, c), (c, s)))
            talked = "ping data" in c.out
            dead.kill()
            if other is s and not talked:
                other.kill()  # it may not have had a connection yet, and serves the next client
            check(other.wait(40) is not None, f"draw {k} of seed {seed}", other)
            check("Address already in use" not in s.err, f"draw {k} of seed {seed}", s)
        goes_on(others)
        for e in r.daemon.values():
            check(e.p.poll() is None, e)
        pair(r, ["rping", "-s", "-V", "-C", "5", "-p", "7701"], ["rping", "-c", "-V", "-C", "5", "-p", "7701", "-a", SERVER], 7701)


def daemon_killed(build):
    """The daemon is killed: programs on its side are told at once, with a line, and end; so do their peers"""
    for sig in signal.SIGKILL, signal.SIGTERM:
        with Sides(build) as r:
            ends = [r.pinging(port=7500 + k) for k in range(2)]
            r.daemon["server"].kill(sig)
            for s, _ in ends:
                s.wait(10)
                check("weft-portd has ended" in s.err and "DISCONNECT EVENT" in s.out + s.err, s)
            for _, c in ends:
                c.wait(30)
                check("DISCONNECT EVENT" in c.out + c.err or "error" in c.out + c.err, c)
            e = r.start("server", ["rping", "-s"])
            check(e.wait(20) != 0 and "no weft-portd listens there" in e.err, e)
            r.daemon["client"].kill()
            for role in "server", "client":
                r.up(role)
            r.pinging(port=7500)


def many(build):
    """300 connections of one process: it gets further blocks of ports; all blocks come back"""
    rig.need("ucmatose")
    with Sides(build) as r:
        for _ in range(2):
            s, c = pair(r, ["ucmatose", "-c", "300"], ["ucmatose", "-c", "300", "-s", SERVER], 7471)
            for e in s, c:
                check("test complete" in e.out and "return status 0" in e.out, e)


def jobs(build):
    """fio with two jobs at each end: a process of fork() for each, with a part of its own"""
    rig.need("fio")
    with Sides(build) as r:
        def argv(role, *options):
            """Two jobs, each with a port of its own."""
            each = ["--ioengine=rdma", "--bs=64k", "--size=4m", "--iodepth=16", *options]
            return ["fio", *[x for k in range(2) for x in (f"--name={role}{k}", *each, f"--port={8888 + k}")]]
        s = r.start("server", argv("s", "--rw=read"), weft="telemetry = yes")
        rig.until(lambda: rig.listens(s, 8888) and rig.listens(s, 8889), s)
        c = r.start("client", argv("c", "--rw=write", f"--hostname={SERVER}", "--verb=write"))
        check(c.wait(60) == 0 and s.wait(60) == 0, c, s)
        check(len(re.findall(r"issued rwts: total=\d*,64,0,0 short=0,0,0,0 dropped=0,0,0,0", c.out)) == 2, c)


def mpi(build):
    """Open MPI with two processes on each side"""
    rig.need("mpicc", "mpirun")
    with Sides(build) as r:
        program = r.path("mpi_all")
        subprocess.run(["mpicc", "-O2", "-Wall", "-o", program, os.path.join(HERE, "mpi_all.c")], check=True)
        only = {"plm": "isolated", "pml": "cm", "mtl": "ofi", "mtl_ofi_provider_include": "verbs;ofi_rxm", "btl": "self",
                "mtl_base_verbose": "1"}
        argv = ["mpirun", "--oversubscribe"]
        for k, v in only.items():
            argv += ["--mca", k, v]
        for role in "server", "client":
            argv += [*([":"] if role == "client" else []), "-n", "2", r.run, *r.port(role), program, "7"]
        e = rig.End(argv, env=dict(r.env, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
        r.ends.append(e)
        check(e.wait(100) == 0, e)
        check(len(re.findall(r"mtl:ofi:provider: weft0$", e.err, re.M)) == 4, "not over weft0", e)
        check("4 processes good" in e.out, e)


def cpu_s(pid):
    """The processor time of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def idle(build):
    """A daemon with processes that do nothing uses at most 2 % of a processor"""
    with Sides(build) as r:
        for k in range(3):
            r.listening("server", ["rping", "-s", "-p", str(7600 + k)], 7600 + k)
        time.sleep(2)
        at, pid = time.monotonic(), r.daemon["server"].p.pid
        used = cpu_s(pid)
        time.sleep(8)
        share = (cpu_s(pid) - used) / (time.monotonic() - at)
        print(f"# idle: {100 * share:.2f} % of a processor", flush=True)
        check(share < 0.02, f"{100 * share:.2f} % of a processor")


def fake(path, version):
    """A daemon of another version, of one process."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(path)
    s.listen(4)

    def run():
        """Answer each request."""
        while True:
            try:
                c, _ = s.accept()
            except OSError:
                return
            with c:
                while len(head := c.recv(64)) >= 16:
                    magic, _, kind, _, seq = struct.unpack("=IHHII", head[:16])
                    c.send(struct.pack("=IHHII", magic, version, kind, 244, seq).ljust(244, b"\0"))

    threading.Thread(target=run, daemon=True).start()
    return s


def refused(build):
    """No daemon, one of another version, too many processes, a port in the file: one line each"""
    rig.need("rping", "ibv_devices")
    with Sides(build, sides=["server"], options=["--max-processes", "1"]) as r:
        def says(argv, text, rc):
            e = rig.End([r.run, *argv], env=r.env)
            r.ends.append(e)
            got = e.wait(20)
            check((got != 0) == rc and text in e.err and e.err.count("weft") <= 3, e)

        says(["--portd", r.path("none"), "true"], f"weft-run: {r.path('none')}: no weft-portd listens there", True)
        says(["--portd", r.path("server"), "--dev", "x", "--address", "y", "true"], "either --portd or --dev", True)
        with fake(r.path("fake"), 9):
            says(["--portd", r.path("fake"), "ibv_devices"], "its weft-portd is of another version", False)
        with open(r.path("x.ini"), "w", encoding="utf-8") as f:
            f.write("[port p0]\ndev = net_memif0,role=client,socket=x\naddress = 10.0.0.1/24\n")
        says(["--portd", r.path("server"), "--config", r.path("x.ini"), "true"], "weft-portd has the port", True)
        r.listening("server", ["rping", "-s"], 7174)
        says(["--portd", r.path("server"), "rping", "-s", "-p", "7175"], "weft-portd has as many processes as it takes", True)
        e = rig.End([r.run, "--portd", r.path("server"), "--print-env"])
        check(e.wait(10) == 0 and f"export WEFT_PORTD='{r.path('server')}'" in e.out, e)


if __name__ == "__main__":
    if shutil.which("rping") is None:
        print("1..0 # SKIP rdmacm-utils is not installed")
        sys.exit(0)
    rig.main([pings, early, source_ports, perftests, each_other, in_use, killed, killed_in_stream, draws, daemon_killed, many, jobs, mpi,
              idle, refused])
