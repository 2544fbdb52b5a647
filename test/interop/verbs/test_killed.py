#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 of programs in each state, 200 draws: test_killed.py BUILD [CASE...]. TAP.

What a program leaves behind is judged by what there is before and after. So that nothing else comes and goes meanwhile, the test
runs in namespaces of its own: of processes, of IPC, of the network (which has the unix sockets without a file) and of mounts, with
new file systems in each place where a program may write.

The environment: WEFT_TEST_SEED (1), WEFT_TEST_DRAWS (200, over all cases).
"""
import collections
import contextlib
import ctypes
import glob
import os
import random
import re
import shutil
import socket
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
import test_portd  # noqa: E402
from rig import SERVER, check  # noqa: E402

SEED = int(os.environ.get("WEFT_TEST_SEED", "1"))
DRAWS = int(os.environ.get("WEFT_TEST_DRAWS", "200"))
TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
# A peer that is silent asks after 5 s, and gives up 5 s later.
HEARS_S = 20
# Where programs may write; the rest of the file system is read-only.
PLACES = ["/tmp", "/var/tmp", "/run", "/dev/shm"]
END = re.compile(r"^RDMA_CM_EVENT_(DISCONNECTED|REJECTED|UNREACHABLE|CONNECT_ERROR|ADDR_ERROR|ROUTE_ERROR)$", re.M)


# ---- A world of its own ----

def mount(what, where, kind, flags=0):
    """mount(2)."""
    if rig.libc.mount(what.encode(), where.encode(), kind.encode(), ctypes.c_ulong(flags), None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {what} {where}")


def alone(build):
    """Go on as a process of new namespaces. Its parent there, process 1, collects what has lost its own parent."""
    rdonly, remount, bind, rec, private = 1, 32, 4096, 16384, 1 << 18
    if rig.libc.unshare(0x20000 | 0x08000000 | 0x20000000 | 0x40000000) != 0:  # CLONE_NEWNS, IPC, PID, NET
        raise OSError(ctypes.get_errno(), "unshare")
    pid = os.fork()
    if pid:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0)
    rig.die_with_us()
    pid = os.fork()
    while pid:
        got, status = os.wait()
        if got == pid:
            os._exit(status != 0)
    mount("none", "/", "none", rec | private)
    mount("proc", "/proc", "proc")
    kept = [(path, os.open(path, os.O_PATH)) for path in (TOP, os.path.abspath(build))]
    for place in PLACES:
        mount("tmpfs", place, "tmpfs")
    os.mkdir("/run/dpdk", 0o700)  # EAL's, of all programs that use DPDK: it stays
    for path, fd in kept:
        if not os.path.exists(path):
            os.makedirs(path)
            mount(f"/proc/self/fd/{fd}", path, "none", bind | rec)
        os.close(fd)
    mount("none", "/", "none", remount | bind | rdonly)
    os.environ.pop("TMPDIR", None)
    tempfile.tempdir = "/tmp"


def fields(path, column):
    """A column of a file of /proc, without the line of headings."""
    with open(path, encoding="ascii", errors="replace") as f:
        return [x[column] for x in map(str.split, f.readlines()[1:]) if len(x) > column]


def world():
    """All that a program could leave: a count for each name."""
    here = collections.Counter()
    with open("/proc/mounts", encoding="utf-8") as f:
        places = PLACES + [x.split()[1] for x in f if x.split()[2] in ("hugetlbfs", "mqueue")]
    for place in places:
        for at, folders, files in os.walk(place):
            here.update(os.path.join(at, x) for x in folders + files)
    here.update("socket " + x for x in fields("/proc/net/unix", 7))
    here.update(f"{kind} {x}" for kind in ("shm", "sem", "msg") for x in fields("/proc/sysvipc/" + kind, 1))
    here.update(f"interface {x}" for _, x in socket.if_nameindex())
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat, encoding="ascii", errors="replace") as f:
                head, state = f.read().rsplit(")", 1)
        except OSError:
            continue  # it has ended
        if state.split()[0] != "Z":
            here[f"process {head})"] += 1
    with open("/proc/meminfo", encoding="ascii") as f:
        huge = {x.split(":")[0]: int(x.split()[1]) for x in f if x.startswith("HugePages_")}
    here["huge page"] = huge["HugePages_Total"] - huge["HugePages_Free"] + huge["HugePages_Rsvd"]
    return here


def nothing_left(before, now=world, leaves=()):
    """All is as before, but for names that may be left."""
    end = time.monotonic() + 5
    while left := [x for x in (now() - before).elements() if x not in leaves]:
        check(time.monotonic() < end, "left behind: " + ", ".join(sorted(left)))
        time.sleep(0.02)


# ---- Programs ----

class Program:
    """What dies. server, client: the words of both ends. up: so many events ESTABLISHED come before data move. says: what an end
    says that has heard of its peer's end and goes on. held: its second connection waits for a listener."""

    def __init__(self, server, client, up=1, says="(?!)", held=False):
        self.server, self.client, self.up, self.says, self.held = server, client, up, says, held


def perftest(name):
    """Data for a minute."""
    argv = [name, "-R", "-F", "-D", "60", "-s", "65536"]
    return Program(argv, [*argv, SERVER], up=2, held=True)


def fio():
    """Writes for a minute."""
    common = ["--ioengine=rdma", "--port=8888", "--bs=64k", "--size=64m", "--iodepth=16", "--time_based", "--runtime=60"]
    return Program(["fio", "--name=s", *common, "--rw=read"],
                   ["fio", "--name=c", *common, "--rw=write", "--verb=write", f"--hostname={SERVER}"], says=r"cq completion status")


CONNS = ["-c", "8", "-C", "1000", "-S", "65536"]
# With poll(): a blocking rrecv() may not hear of the end, on any device (docs/verbs.md).
STREAM = ["-S", "65536", "-C", "20", "-I", "1000000", "-T", "a"]
PINGS = ["-C", "100000000"]
PROGRAMS = {"rping": Program(["rping", "-s", *PINGS], ["rping", "-c", "-V", *PINGS, "-a", SERVER]),
            "ib_send_bw": perftest("ib_send_bw"), "ib_write_bw": perftest("ib_write_bw"),
            "ucmatose": Program(["ucmatose", *CONNS], ["ucmatose", *CONNS, "-s", SERVER], up=8),
            "fio": fio(), "rstream": Program(["rstream", *STREAM], ["rstream", *STREAM, "-s", SERVER])}
# The end that dies, and when. early: before a client comes; start: from the client's start on; data: while data move.
CELLS = [("server", "data"), ("client", "data"), ("server", "start"), ("client", "start"), ("server", "early")]
# Of 200 draws: with a port for each end; with a weft-portd on each side.
SHARES = {"rping": (30, 10), "ib_send_bw": (20, 10), "ib_write_bw": (20, 10), "ucmatose": (25, 15), "fio": (20, 10), "rstream": (20, 10)}


class Draw:
    """One pair, of which one end is killed."""

    def __init__(self, r, program, victim, at, draw):
        self.r, self.program, self.victim, self.at, self.draw = r, program, victim, at, draw
        self.notes = tempfile.mkdtemp(prefix="killed-")
        self.ends = {}
        self.known = {}    # octets of events that the other end took before
        self.over = False  # the victim had ended by itself

    def note(self, name):
        """A file that the two ends write."""
        return os.path.join(self.notes, name)

    def events(self, role):
        """What an end did and heard."""
        try:
            with open(self.note(role), encoding="ascii") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def start(self, role):
        """Start an end."""
        env = {"LD_PRELOAD": ":".join(filter(None, (self.r.env.get("LD_PRELOAD"), self.r.hold))), "WEFT_TEST_EVENTS": self.note(role)}
        if role == "client" and self.program.held:
            env["WEFT_TEST_HOLD"] = self.note("gate")
        words = self.program.server if role == "server" else self.program.client
        self.ends[role] = self.r.start(role, ["stdbuf", "-oL", *words], env=env)

    def go_on(self):
        """Whether data move. Lets a client that waits for its second listener go on."""
        if os.path.exists(self.note("gate.waiting")) and self.events("server").count("listens") > 1:
            with open(self.note("gate.go"), "wb"):
                pass
        return self.events("client").count("ESTABLISHED") >= self.program.up

    def until(self, cond, timeout=40):
        """Wait until cond() holds, or an end has ended."""
        end = time.monotonic() + timeout
        while not cond() and all(e.p.poll() is None for e in self.ends.values()):
            check(time.monotonic() < end, "it did not come", *self.ends.values())
            time.sleep(0.002)

    def wait(self, seconds):
        """Let this time pass, in which the ends go on."""
        at = time.monotonic() + seconds
        self.until(lambda: (self.go_on(), time.monotonic() > at)[1])

    def kill(self):
        """Start both ends, and kill one."""
        self.r.n += 1
        self.start("server")
        if self.at == "early":
            self.wait(self.draw.uniform(0, 0.6))
        else:
            self.r.settled(self.ends["server"])
            self.until(lambda: "listens" in self.events("server"))
            self.start("client")
            if self.at == "data":
                self.until(self.go_on)
            self.wait(self.draw.uniform(0, 0.3 if self.at == "data" else 0.8))
        dead = self.ends.pop(self.victim)
        self.over = dead.p.poll() is not None
        self.known = {role: len(self.events(role)) for role in self.ends}
        dead.kill()
        check("Address already in use" not in dead.err, dead)
        return dead

    def hears(self, dead):
        """The other end ends, or is told. A server that has no connection may wait for the next client."""
        if not self.ends:
            return
        (role, e), = self.ends.items()
        at = time.monotonic()
        while e.p.poll() is None and not re.search(self.program.says, e.out + e.err):
            seen = self.events(role)
            if END.search(seen, self.known[role]):
                break
            if seen.rpartition("listens")[1:] == ("listens", "\n") and time.monotonic() > at + 1:
                break
            check(time.monotonic() < at + HEARS_S, f"the {role} did not hear of it in {HEARS_S} s, but took {seen.split()}", e, dead)
            time.sleep(0.005)
        e.kill()

    def run(self):
        """Kill, and look whether the other end hears. Returns whether there was nothing to kill any more."""
        try:
            self.hears(self.kill())
        finally:
            for e in self.ends.values():
                e.kill()
            shutil.rmtree(self.notes)
        return self.over


def direct(build, *how, again):
    """A draw with a port for each end."""
    with rig.Rig(build) as r:
        before = world()
        over = Draw(r, *how).run()
        # A socket has a file until it is removed; the next start of a port takes it over.
        nothing_left(before, leaves=[r.path(f"memif{r.n}")])
        if again:
            s = r.start("server", ["rping", "-s", "-C", "2", "-a", SERVER])
            rig.until(lambda: os.path.exists(r.path(f"memif{r.n}")), s)
            time.sleep(1)
            c = r.client(["rping", "-c", "-V", "-C", "2", "-a", SERVER])
            check(c.wait(40) == 0 and s.wait(40) == 0, "the next pair on the same port", c, s)
    return over


def daemons(r):
    """The world, and what the daemons have for processes: their parts, devices and descriptors."""
    here = world()
    for role, e in r.daemon.items():
        check(e.p.poll() is None, "the daemon ended", e)
        here.update({f"process of the {role}'s daemon": test_portd.counts(e)["processes"],
                     f"descriptor of the {role}'s daemon": len(os.listdir(f"/proc/{e.p.pid}/fd"))})
        here.update(f"device {x} of the {role}'s daemon" for x in rig.telemetry(e, "/ethdev/list"))
    return here


def case(name, way, n):
    """The case of one program."""
    def run(build):
        program, over = PROGRAMS[name], 0
        rig.need(program.server[0])
        draw, begin = random.Random(f"{SEED} {name} {way}"), time.monotonic()
        print(f"# {name}, {way}: seed {SEED}", flush=True)
        with contextlib.ExitStack() as stack:
            sides = stack.enter_context(test_portd.Sides(build)) if way == "portd" else None
            for k in range(n):
                how = (program, *CELLS[k % len(CELLS)], draw)
                try:
                    if sides:
                        before = daemons(sides)
                        over += Draw(sides, *how).run()
                        nothing_left(before, lambda: daemons(sides))
                    else:
                        over += direct(build, *how, again=k % 10 == 0)
                except rig.Fail as e:
                    raise rig.Fail(f"draw {k} of seed {SEED} ({how[1]}, {how[2]}): {e}") from None
        print(f"# {name}, {way}: {n} draws in {time.monotonic() - begin:.0f} s; {over} times the program had ended by itself", flush=True)
    run.__name__ = f"{name}_{way}"
    run.__doc__ = f"{name}, {'with a weft-portd on each side' if way == 'portd' else 'a port for each end'}: {n} draws"
    return run


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root (namespaces)")
        sys.exit(0)
    alone(sys.argv[1])
    rig.main([case(name, way, max(1, DRAWS * n // 200)) for name, both in SHARES.items() for way, n in zip(("direct", "portd"), both)])
