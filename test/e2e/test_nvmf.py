#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-target serves volumes to hosts by NVMe over RDMA: a host of the tests' own, restarts, reloads, refusals, weft-ctl."""
import os
import re
import shutil
import signal
import subprocess
import zlib

from test_control import Controlled
from test_offline import edit, until
from test_visible import Telemetry
from weft_e2e import BUILD, PROCS, main, make_file, memif, path, run

PROBE = os.path.join(BUILD, "test", "e2e", "nvmf_probe")
NQN = "nqn.2026-01.org.example:disk"
HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
OTHER = "nqn.2014-08.org.nvmexpress:uuid:99999999-2222-3333-4444-555555555555"
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
MIB_BLOCKS = 2048  # of 512 octets


def volume(name, size="16M", **more):
    return {"path": path(name), "size": size, "format": "volume", **more}


class Disks(Controlled):
    """A target with a subsystem."""

    def __init__(self, name, exports, namespaces="1=disk", hosts=HOST, workers=1, subsystem="", extra="", nvmf="", **more):
        super().__init__(name, exports, extra, **more)
        edit(self, "[port p0]", f"[weft]\ntelemetry = yes\nworkers = {workers}\n[port p0]")
        with open(self.conf, "a") as f:
            f.write(f"[nvmf]\nstaging = 16M\n{nvmf}\n[subsystem {NQN}]\nnamespaces = {namespaces}\nhosts = {hosts}\n{subsystem}\n")

    def tel(self, what, *args):
        return Telemetry(self.proc.pid).ask(",".join((f"/weft/target/{what}", *map(str, args))))


class Host:
    """test/e2e/nvmf_probe.c, with a connection that it makes when it is asked to."""

    def __init__(self, t, nqn=HOST, subnqn=NQN, port=0):
        self.p = subprocess.Popen([PROBE, memif(0, "client", t.sock(port)), f"10.0.{port}.2/24", f"10.0.{port}.1", subnqn, nqn],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        PROCS.append(self.p)
        self.line()

    def line(self):
        got = self.p.stdout.readline()
        assert got, self.p.stderr.read()
        return got.split()

    def say(self, *words):
        self.p.stdin.write(" ".join(map(str, words)) + "\n")
        self.p.stdin.flush()

    def ask(self, *words):
        """Status, and what else it has found."""
        self.say(*words)
        got = self.line()
        assert got[0] == words[0], got
        return int(got[1], 16), got[2:]

    def ok(self, *words):
        status, rest = self.ask(*words)
        assert status == 0, (words, hex(status), rest)
        return rest

    def end(self):
        self.p.stdin.close()
        assert self.p.wait(timeout=30) == 0, self.p.stderr.read()


def test_reads_and_writes():
    """Two namespaces on two workers; what was written by a host is what weft-cp pulls, and rights hold."""
    t = Disks("n1", {"disk": volume("n1.disk"), "fixed": volume("n1.fixed", rights="read,verify")}, "1=disk, 3=fixed",
              workers=2, subsystem="serial = S-1\nmodel = a disk", extra="slow_ms = 1").start()
    h = Host(t)
    h.ok("connect")
    found = h.ok("id")
    assert found[:3] == ["S-1", "a", "disk"] and "vwc" in found, found
    assert h.ok("list") == ["1", "3"]
    blocks = int(h.ok("ns", 1)[1])
    assert 0 < blocks <= 16 * MIB_BLOCKS
    assert h.ok("ns", 3)[5] == "1" and h.ok("ns", 1)[5] == "0"
    for lba, n, seed in ((0, 8, 1), (5, 1, 2), (100, MIB_BLOCKS, 3), (blocks - 1, 1, 4)):
        h.ok("write", 1, lba, n, seed)
        assert h.ok("read", 1, lba, n, seed) == ["same"]
    h.ok("fua", 1, 7, 9, 5)
    h.ok("flush", 1)
    assert h.ok("read", 1, 7, 9, 5) == ["same"]
    assert h.ask("write", 3, 0, 8, 1)[0] & 0x7ff == 0x182
    assert h.ask("read", 1, blocks, 1, 1)[0] & 0x7ff == 0x80
    assert h.ask("read", 2, 0, 1, 1)[0] & 0x7ff == 0x02
    # what is seen of it
    seen = t.tel("nvmf")
    assert seen["controllers"] == 1 and seen["queues"] == 2 and seen["errors"] == 3 and seen["refused_host"] == 0, seen
    (number, nqn), = t.tel("nvmf_controller").items()
    assert nqn == HOST
    one = t.tel("nvmf_controller", number)
    assert one["subsystem"] == NQN and one["state"] == "ready" and one["queue_1_errors"] == 3, one
    assert one["written_bytes"] == 512 * (8 + 1 + MIB_BLOCKS + 1 + 9), one
    spaces = t.tel("nvmf_subsystem", NQN)
    assert spaces["1_export"] == "disk" and spaces["1_writes"] == 5 and spaces["3_workers"] == 2, spaces
    client, = [c for c in t.ctl("clients")["clients"] if c["client"] == HOST]
    assert client["connections"] == 2 and client["exports"] == ["disk", "fixed"], client
    assert client["recv_bytes"] == one["written_bytes"], (client, one)
    assert any(x["limit"] == "controllers of NVMe hosts" and x["now"] == 1 for x in t.ctl("limits")["limits"])
    # among the slow operations a host has its whole name, which is no address
    while not t.ctl("slow")["seen"]:  # the longest command mostly takes more than a millisecond
        h.ok("write", 1, 100, MIB_BLOCKS, 3)
    rows = t.ctl("slow")["slow"]
    assert rows and all((x["client"], x["peer"]) == (HOST, "") for x in rows), rows
    assert f" by {HOST} took " in t.logged()
    # it is dropped, and comes back
    assert t.ctl("drop", HOST)["connections"] == 2
    h.ok("stay")
    t.ctl("drop", HOST, ok=5)
    h.ok("connect")
    assert h.ok("read", 1, 7, 9, 5) == ["same"]
    h.end()
    assert t.term() == 0
    assert "given up" not in t.logged()


def test_killed():
    """What was flushed before a kill is there afterwards, and the disk is the same one."""
    t = Disks("n2", {"disk": volume("n2.disk")}).start()
    h = Host(t)
    h.ok("connect")
    identity = (h.ok("id"), h.ok("ns", 1))
    for i in range(3):
        h.ok("write", 1, 64 * i, 64, 10 + i)
        h.ok("flush", 1)
        t.kill()
        h.p.kill()  # its end of the shared memory does not find the next target
        h = Host(t.start())
        h.ok("connect")
        assert (h.ok("id"), h.ok("ns", 1)) == identity
        for k in range(i + 1):
            assert h.ok("read", 1, 64 * k, 64, 10 + k) == ["same"]
    # SIGTERM ends controllers in order
    h.say("stay")
    assert t.term() == 0
    assert h.line() == ["stay", "0000"]
    assert "given up" not in t.logged()


def test_hosts():
    """Who may use it is what the configuration says, at once after SIGHUP."""
    t = Disks("n3", {"disk": volume("n3.disk")}).start()
    h = Host(t, OTHER)
    assert h.ask("connect")[0] & 0x7ff == 0x184
    assert t.tel("nvmf")["refused_host"] == 1
    edit(t, f"hosts = {HOST}", f"hosts = {HOST}, {OTHER}")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "its hosts have changed")
    h.ok("connect")
    h.ok("write", 1, 0, 8, 1)
    # it loses the right: its connection ends
    edit(t, f", {OTHER}", "")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "its hosts have changed", 2)
    h.ok("stay")
    assert h.ask("connect")[0] & 0x7ff == 0x184
    edit(t, f"hosts = {HOST}", "hosts = any")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "its hosts have changed", 3)
    h.ok("connect")
    assert h.ok("read", 1, 0, 8, 1) == ["same"]
    h.end()
    # a host of another address has no connection, but discovery shows what the others have
    d = Host(t, subnqn=DISCOVERY)
    d.ok("connect")
    found = d.ok("discover")
    assert sorted(found) == [f"10.0.0.1:{port}={nqn}" for port in (4420, 8009) for nqn in (DISCOVERY, NQN)], found
    d.end()
    edit(t, "staging = 16M", "staging = 16M\nallow_from = 10.0.0.9")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "[nvmf] allow_from: changes with a restart")
    assert t.term() == 0
    t.start()
    h = Host(t)
    assert h.ask("connect")[0] == 0xffff
    until(t, "allow_from: a host of 10.0.0.2 was refused")
    assert t.tel("nvmf")["refused_address"] == 1
    h.end()
    assert t.term() == 0


def test_exports_come_and_go():
    """Offline, online, resize, delete, drain: the host sees it, and its disk is the same one."""
    state = path("n4.state")
    os.makedirs(state, exist_ok=True)
    t = Disks("n4", {"disk": volume("n4.disk")}, "1=disk, 2=more", extra=f"state = {state}").start()
    h = Host(t)
    h.ok("connect")
    assert h.ok("list") == ["1"]
    h.ok("write", 1, 0, 8, 1)
    # an export that is made is there
    h.ok("events")
    t.ctl("export", "create", "more", "size=8M", "format=volume", f"path={path('n4.more')}")
    assert h.ok("event") == ["00040002"]
    assert h.ok("changed") == ["2"] and h.ok("list") == ["1", "2"]
    small = int(h.ok("ns", 2)[1])
    h.ok("write", 2, 0, 8, 2)
    # a resize
    h.ok("events")
    t.ctl("export", "resize", "more", "12M")
    assert h.ok("event") == ["00040002"]
    assert h.ok("changed") == ["2"]
    assert int(h.ok("ns", 2)[1]) == small + 4 * MIB_BLOCKS
    assert h.ok("read", 2, 0, 8, 2) == ["same"]
    h.ok("write", 2, small, 8, 3)
    err = t.ctl("export", "rename", "more", "other", ok=6)
    assert NQN in err, err
    # offline: it is there, and not ready; it may be sent again (no DNR)
    t.ctl("offline", "more")
    assert h.ok("list") == ["1", "2"]
    assert h.ask("read", 2, 0, 8, 2)[0] == 0x82
    t.ctl("online", "more")
    assert h.ok("read", 2, 0, 8, 2) == ["same"]
    # a drain holds it back, too
    t.ctl("drain", "more")
    assert h.ask("read", 2, 0, 8, 2)[0] == 0x82
    t.ctl("online", "more")
    assert h.ok("read", 2, small, 8, 3) == ["same"]
    # it loses the right to write
    t.ctl("export", "set", "more", "rights=read,verify")
    assert h.ask("write", 2, 0, 8, 2)[0] & 0x7ff == 0x182
    assert h.ok("read", 2, 0, 8, 2) == ["same"]
    # it would not be seen that an access list does not hold
    assert h.ok("changed") == ["2"]
    t.ctl("export", "set", "more", "allow_from=10.0.0.9")
    assert h.ok("list") == ["1"]
    t.ctl("export", "set", "more", "allow_from=any")
    assert h.ok("list") == ["1", "2"]
    t.ctl("export", "delete", "more", "--confirm", "more")
    assert h.ok("list") == ["1"]
    assert h.ask("read", 2, 0, 8, 2)[0] & 0x7ff == 0x02
    assert h.ok("read", 1, 0, 8, 1) == ["same"]
    # subsystems and namespaces come and go by SIGHUP
    edit(t, "namespaces = 1=disk, 2=more", "namespaces = 7=disk")
    with open(t.conf, "a") as f:
        f.write(f"[subsystem {NQN}2]\nnamespaces = 1=disk\nhosts = any\n")
    t.proc.send_signal(signal.SIGHUP)
    until(t, f"subsystem {NQN}2: is served now")
    assert h.ok("list") == ["7"]
    assert h.ok("read", 7, 0, 8, 1) == ["same"]
    edit(t, f"[subsystem {NQN}]\nnamespaces = 7=disk\nhosts = {HOST}\n", "")
    t.proc.send_signal(signal.SIGHUP)
    until(t, f"subsystem {NQN}: gone")
    h.ok("stay")
    h.end()
    h = Host(t, subnqn=NQN + "2")
    h.ok("connect")
    assert h.ok("read", 1, 0, 8, 1) == ["same"]
    h.end()
    assert t.term() == 0


def test_host_hangs():
    """A host that is stopped while the target reads its data keeps an export from nothing."""
    state = path("n6.state")
    os.makedirs(state, exist_ok=True)
    t = Disks("n6", {"disk": volume("n6.disk"), "more": volume("n6.more")}, "1=disk, 2=more", extra=f"state = {state}",
              keepalive_ms=60000).start()
    h = Host(t)
    h.ok("connect")
    h.ok("hang", 1)
    os.waitid(os.P_PID, h.p.pid, os.WSTOPPED)
    t.ctl("offline", "disk")
    t.ctl("online", "disk")
    assert t.tel("nvmf")["leave_expired"] == 1
    h.p.kill()  # its end of the shared memory does not find the next target
    assert t.term() == 0
    h = Host(t.start())
    h.ok("connect")
    h.ok("hang", 2)
    os.waitid(os.P_PID, h.p.pid, os.WSTOPPED)
    # its subsystem goes: the controller is ended, and its connection reset
    edit(t, f"[subsystem {NQN}]", f"[subsystem {NQN}2]")
    t.proc.send_signal(signal.SIGHUP)
    until(t, f"subsystem {NQN}: gone")
    until(t, f"subsystem {NQN}2: is served now")
    assert t.tel("nvmf")["leave_expired"] == 0
    h.p.kill()
    assert t.term() == 0


REGISTER, ACQUIRE, RELEASE = 0x0d, 0x11, 0x15
PERSIST = 3 << 30  # CPTPL
CONFLICT = 0x83


def test_reservations():
    """A reservation that persists holds after a kill, for other hosts and for clients, and on all workers."""
    state = path("n7.state")
    os.makedirs(state, exist_ok=True)
    exports = {"disk": volume("n7.disk", client_bytes_per_s="1M")}
    t = Disks("n7", exports, hosts="any", extra=f"state = {state}", ports=3, workers=2).start()
    a, b = Host(t), Host(t, OTHER, port=1)
    for h in (a, b):
        h.ok("connect")
    a.ok("resv", REGISTER, PERSIST, 0, 17)
    b.ok("resv", REGISTER, 0, 0, 18)
    a.ok("write", 1, 0, 8, 1)
    # a client that writes loses its grant before the reservation holds
    cp = t.cp_start(make_file("n7.file", 8 << 20, 1), "weft://10.0.2.1/disk", port=2)
    until(t, "granted")
    a.ok("resv", ACQUIRE, 1 << 8, 17, 0)
    assert "ends: hosts have reserved the volume" in t.logged(), t.logged()
    assert cp.wait(timeout=30) != 0
    assert b.ask("write", 1, 0, 8, 2)[0] & 0x7ff == CONFLICT
    assert b.ok("read", 1, 0, 8, 9) == ["differs"]
    before = a.ok("report", 1)
    assert before == ["gen", "2", "type", "1", "hosts", "2", "persist", "1", "key", "17"], before
    spaces = t.tel("nvmf_subsystem", NQN)
    assert spaces["1_reservation"] == 1 and spaces["1_registrants"] == 2 and spaces["1_reservation_persists"] == 1, spaces
    assert t.tel("nvmf")["conflicts"] == 1
    t.kill()
    for h in (a, b):
        h.p.kill()
    t.start()
    a, b = Host(t), Host(t, OTHER, port=1)
    for h in (a, b):
        h.ok("connect")
    assert b.ok("report", 1) == before
    assert b.ask("write", 1, 0, 8, 2)[0] & 0x7ff == CONFLICT
    a.ok("write", 1, 0, 8, 3)
    rc, _, err = t.cp(make_file("n7.short", 4096, 2), "weft://10.0.2.1/disk", port=2)
    assert rc != 0 and "NVMe hosts have reserved the volume; only read" in err, err
    t.pull("disk", "n7.out", port=2)
    t.ctl("offline", "disk")
    t.ctl("online", "disk")
    assert b.ask("write", 1, 0, 8, 2)[0] & 0x7ff == CONFLICT
    # the other host takes over
    b.ok("resv", ACQUIRE, 2 | 1 << 8, 18, 17)
    b.ok("write", 1, 0, 8, 4)
    assert a.ask("write", 1, 0, 8, 5)[0] & 0x7ff == CONFLICT
    assert b.ok("read", 1, 0, 8, 4) == ["same"]
    b.ok("resv", RELEASE, 1, 18, 0)
    a.ok("write", 1, 0, 8, 6)
    t.push(path("n7.short"), "disk", port=2)
    for h in (a, b):
        h.end()
    assert t.term() == 0
    # what is kept cannot be read: neither a host nor a client may write what another host may have reserved
    name, = [f for f in os.listdir(os.path.join(state, "reservations")) if len(f) == 32]
    with open(os.path.join(state, "reservations", name), "r+b") as f:
        f.write(b"x")
    t.start()
    until(t, "the reservations of its volume cannot be read")
    kept = os.path.join(state, "reservations", name)
    until(t, f"to give its reservations up, stop the target, remove {kept}, and start the target again")
    for src, dst in ((path("n7.short"), "weft://10.0.2.1/disk"), ("weft://10.0.2.1/disk", path("n7.out"))):
        rc, _, err = t.cp(src, dst, port=2)
        assert rc != 0 and "NVMe hosts have reserved the volume" in err, err
    t.ctl("offline", "disk")
    t.ctl("online", "disk")
    rc, _, err = t.cp(path("n7.short"), "weft://10.0.2.1/disk", port=2)
    assert rc != 0 and "NVMe hosts have reserved the volume" in err, err
    assert t.term() == 0
    # as the line says
    os.unlink(kept)
    a = Host(t.start())
    a.ok("connect")
    assert a.ok("report", 1)[:6] == ["gen", "0", "type", "0", "hosts", "0"]
    t.push(path("n7.short"), "disk", port=2)
    # registrations of hosts that are gone fill the table
    a.ok("resv", REGISTER, PERSIST, 0, 17)
    a.end()
    assert t.term() == 0
    with open(kept, "rb") as f:
        head = bytearray(f.read()[:48])
    head[32:36] = (64).to_bytes(4, "little")
    text = bytes(head) + b"".join(bytes([i + 1] * 16) + (i + 1).to_bytes(8, "little") for i in range(64))
    with open(kept, "wb") as f:
        f.write(text + zlib.crc32(text).to_bytes(4, "little"))
    a = Host(t.start())
    a.ok("connect")
    assert a.ask("resv", REGISTER, PERSIST, 0, 17)[0] == 0x4006
    until(t, f"host {HOST} cannot register: too many hosts are registered; to clear them, stop the target, remove {kept}, and start")
    a.end()
    assert t.term() == 0


def test_reservations_of_deleted():
    """Reservations go with the export that is deleted, also behind a restart, and stay with those that are not."""
    state = path("n10.state")
    os.makedirs(state, exist_ok=True)
    t = Disks("n10", {"other": volume("n10.other")}, hosts="any", extra=f"state = {state}", ports=2).start()

    def kept():
        room = os.path.join(state, "reservations")
        return sorted(f for f in os.listdir(room) if not f.endswith(".old"))

    def create(name="disk", file="n10.disk"):
        t.ctl("export", "create", name, "size=8M", "format=volume", f"path={path(file)}")

    def reserve():
        a = Host(t)
        a.ok("connect")
        assert a.ok("report", 1)[:6] == ["gen", "0", "type", "0", "hosts", "0"]
        a.ok("resv", REGISTER, PERSIST, 0, 17)
        a.ok("resv", ACQUIRE, 1 << 8, 17, 0)
        a.end()
        name, = kept()
        return name

    create()
    first = reserve()
    # the same volume, behind a delete
    t.ctl("export", "delete", "disk", "--confirm", "disk")
    assert kept() == [], kept()
    create()
    assert reserve() == first
    # what is not deleted keeps them: a set that changes its size, and a rename of another export
    t.ctl("export", "resize", "disk", "9M")
    assert kept() == [first]
    # deleted while it is out of service, by a set
    t.ctl("offline", "disk")
    with open(path("n10.none"), "w"):
        pass
    t.ctl("apply", path("n10.none"), "--confirm", "disk")
    assert kept() == [], kept()
    # another volume under the name
    os.unlink(path("n10.disk"))
    create()
    second = reserve()
    assert second != first
    # a note that a delete has left behind an I/O error takes nothing from the export that has the volume by now
    with open(os.path.join(state, "reservations", f"{second}.gone"), "w") as f:
        f.write("former")
    t.ctl("offline", "disk")
    t.ctl("online", "disk")
    assert kept() == [second], kept()
    t.kill()
    t.start()
    h = Host(t)
    h.ok("connect")
    assert h.ok("report", 1)[4:6] == ["hosts", "1"]
    h.end()
    assert kept() == [second]
    assert t.term() == 0
    # a copy has the UUID; it has not been open since the start, and keeps them; then it has been
    shutil.copy(path("n10.disk"), path("n10.copy"))
    t.start()
    create("copy", "n10.copy")
    t.ctl("offline", "copy")
    t.kill()
    t.start()
    t.ctl("export", "delete", "disk", "--confirm", "disk")
    assert kept() == [second], kept()
    assert "export disk: the reservations of its volume stay: export copy" in t.logged(), t.logged()
    t.ctl("export", "set", "copy", "rights=read")
    t.ctl("online", "copy")
    create()
    t.ctl("export", "delete", "disk", "--confirm", "disk")
    assert kept() == [second], kept()
    t.ctl("export", "delete", "copy", "--confirm", "copy")
    # a note that cannot be removed keeps its volume from hosts, and the target from nothing else
    create()
    t.kill()
    os.mkdir(os.path.join(state, "reservations", f"{second}.gone"))
    t.start()
    assert "neither hosts nor clients have access" in t.logged(), t.logged()
    os.rmdir(os.path.join(state, "reservations", f"{second}.gone"))
    t.ctl("export", "delete", "disk", "--confirm", "disk")
    assert kept() == [], kept()
    assert t.term() == 0


def test_reservation_while_added():
    """While a reservation is being made durable, its volume gets one more namespace: clients get no grant, before it holds or after."""
    state = path("n9.state")
    os.makedirs(state, exist_ok=True)
    t = Disks("n9", {"disk": volume("n9.disk")}, hosts="any", extra=f"state = {state}", ports=2).start()
    a = Host(t)
    a.ok("connect")
    a.ok("resv", REGISTER, PERSIST, 0, 17)
    short = make_file("n9.short", 4096, 2)
    t.push(short, "disk", port=1)
    room = os.path.join(state, "reservations")
    name, = [f for f in os.listdir(room) if len(f) == 32]
    # the state's file system answers when this pipe is opened: no change can be kept in it
    pipe = os.path.join(room, f"{name}.new")
    os.mkfifo(pipe)
    a.say("resv", ACQUIRE, 2 << 8, 17, 0)
    refused = "NVMe hosts have reserved the volume"
    for _ in range(100):  # the first client may be there before the reservation
        rc, _, err = t.cp(short, "weft://10.0.1.1/disk", port=1)
        if rc != 0:
            break
    assert rc != 0 and refused in err, err
    edit(t, "[nvmf]", f"[subsystem {NQN}2]\nnamespaces = 1=disk\nhosts = any\n[nvmf]")
    t.proc.send_signal(signal.SIGHUP)
    rc, _, err = t.cp(short, "weft://10.0.1.1/disk", port=1)
    assert rc != 0 and refused in err, err
    os.close(os.open(pipe, os.O_RDONLY))
    got = a.line()
    assert got[0] == "resv" and int(got[1], 16) & 0x7ff == 0x06, got
    until(t, f"subsystem {NQN}2: is served now")
    # nothing has changed, and the next one can be kept
    t.push(short, "disk", port=1)
    a.ok("resv", ACQUIRE, 2 << 8, 17, 0)
    rc, _, err = t.cp(short, "weft://10.0.1.1/disk", port=1)
    assert rc != 0 and refused in err, err
    a.end()
    assert t.term() == 0


def test_two_targets():
    """Two targets of one subsystem: the path of an export that is not served is inaccessible, and the other one has the same disk."""
    two = []
    for i, more in enumerate(("access = optimized\nlast_controller = 100", "access = non_optimized\nfirst_controller = 101")):
        state = path(f"n8.state{i}")
        os.makedirs(state, exist_ok=True)
        t = Disks(f"n8{'ab'[i]}", {"disk": volume("n8.disk")}, extra=f"state = {state}", subsystem=f"serial = S-8\n{more}", nvmf="")
        two.append(t)
    one, other = two
    one.start()
    h = Host(one)
    cntlid, = h.ok("connect")
    assert int(cntlid) == 1, cntlid
    disk = (h.ok("id"), h.ok("ns", 1))
    h.ok("write", 1, 0, 8, 1)
    h.ok("flush", 1)
    assert one.tel("nvmf_subsystem", NQN)["1_access"] == 1
    # an operator moves hosts away
    edit(one, "access = optimized", "access = inaccessible")
    one.proc.send_signal(signal.SIGHUP)
    until(one, "its access has changed")
    assert h.ask("read", 1, 0, 8, 1)[0] == 0x302
    edit(one, "access = inaccessible", "access = optimized")
    one.proc.send_signal(signal.SIGHUP)
    until(one, "its access has changed", 2)
    assert h.ok("read", 1, 0, 8, 1) == ["same"]
    # the other one has the same disk as soon as this one has it no more
    one.ctl("offline", "disk")
    assert h.ask("read", 1, 0, 8, 1)[0] == 0x302
    assert one.tel("nvmf_subsystem", NQN)["1_access"] == 3
    other.start()
    g = Host(other)
    cntlid, = g.ok("connect")
    assert int(cntlid) == 101, cntlid
    assert (g.ok("id"), g.ok("ns", 1)) == disk
    assert g.ok("read", 1, 0, 8, 1) == ["same"]
    assert other.tel("nvmf_subsystem", NQN)["1_access"] == 2
    for x in (h, g):
        x.end()
    assert one.term() == 0 and other.term() == 0


def test_without():
    """A target without a subsystem says that the first one comes with a restart; --size counts what it takes."""
    t = Disks("n5", {"disk": volume("n5.disk")})
    rc, with_it, err = run([t.exe, "-c", t.conf, "--size"])
    assert rc == 0, err
    assert re.search(r"NVMe hosts +22\.00 MiB", with_it), with_it
    with open(t.conf) as f:
        text = f.read()
    edit(t, text[text.index("[subsystem"):], "")
    rc, without, err = run([t.exe, "-c", t.conf, "--size"])
    assert rc == 0 and "NVMe hosts" not in without, (without, err)
    t.start()
    assert t.tel("nvmf") == {"served": 0}
    h = Host(t)
    assert h.ask("connect")[0] == 0xffff
    h.end()
    with open(t.conf, "w") as f:
        f.write(text)
    t.proc.send_signal(signal.SIGHUP)
    until(t, f"[subsystem {NQN}]: the first subsystem comes with a restart")
    assert t.term() == 0


main([test_reads_and_writes, test_killed, test_hosts, test_exports_come_and_go, test_host_hangs, test_reservations,
      test_reservations_of_deleted, test_reservation_while_added, test_two_targets, test_without])
