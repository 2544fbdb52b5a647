#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Volumes under hostile clients and deaths: kill -9 of the target and of writers, an owner that was frozen, windows that
overlap, many octets at random places.

WEFT_TEST_SEED=N repeats the choices of a run. WEFT_KILL_ROUNDS=N sets the number of rounds of kill -9, WEFT_FREEZES=N how
often a medium is frozen, for 12 s each.
"""
import os
import random
import signal
import subprocess
import time

from kill_rounds import SEED, rounds
from test_medium import made
from test_offline import edit, until
from test_visible import Telemetry
from test_volume import copied, resident, volume
from weft_e2e import BUILD, FAILED, PROCS, Skip, Target, main, make_file, memif, path, sha

PROBE = os.path.join(BUILD, "test", "e2e", "volume_probe")
NOFLUSH = os.path.join(BUILD, "test", "e2e", "weft-target-noflush")
CROSSING = os.path.join(BUILD, "test", "e2e", "weft-target-crossing")
MIB = 1 << 20
SLOTS = 400
FREEZES = int(os.environ.get("WEFT_FREEZES") or 1)
FREEZE_S = 12 if FREEZES > 1 else 4


def probe(t, port, *args):
    p = subprocess.Popen([PROBE, memif(0, "client", t.sock(port)), f"10.0.{port}.2/24", f"10.0.{port}.1", "disk", *args],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    PROCS.append(p)
    return p


def probed(t, port, *args, timeout=120):
    p = probe(t, port, *args)
    out, err = p.communicate(timeout=timeout)
    assert p.returncode == 0, (args, err, t.logged()[-1000:])
    return out


class Writer:
    """A probe that writes slots, and what it has acknowledged."""

    def __init__(self, t, port, owner, first, n, way):
        self.t, self.owner, self.acked = t, owner, {}
        self.out = path(f"acked.{owner}")
        self.file = open(self.out, "w")
        self.proc = subprocess.Popen(
            [PROBE, memif(0, "client", t.sock(port)), f"10.0.{port}.2/24", f"10.0.{port}.1", "disk", "write", str(owner),
             str(random.randrange(1 << 40)), str(first), str(n), way],
            stdout=self.file, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        PROCS.append(self.proc)

    def has(self, n, timeout=20):
        end = time.monotonic() + timeout
        while self.lines() < n:
            if self.proc.poll() is not None:
                said = self.proc.stderr.read() + self.t.logged()[-1000:]
                raise AssertionError(f"writer {self.owner} ended: {self.proc.returncode}: {said}")
            assert time.monotonic() < end, self.lines()
            time.sleep(0.005)

    def lines(self):
        with open(self.out) as f:
            return f.read().count("\n")

    def end(self):
        """After its death: the last number of each slot."""
        self.proc.wait(timeout=30)
        err = self.proc.stderr.read()
        assert self.proc.returncode in (3, -signal.SIGKILL), (self.proc.returncode, err)
        self.file.close()
        with open(self.out) as f:
            for line in f:
                if line.endswith("\n"):
                    slot, number = map(int, line.split())
                    assert number > self.acked.get(slot, 0)
                    self.acked[slot] = number
        return self.acked


def slots(t, port, first=0, n=SLOTS):
    held = {}
    for line in probed(t, port, "check", str(first), str(n)).splitlines():
        slot, *rest = line.split()
        assert rest != ["torn"], f"slot {slot} is torn"
        held[int(slot)] = (int(rest[0]), int(rest[1]))
    assert len(held) == n
    return held


def lost(acked, held, owner):
    """The acknowledged slots that the medium does not hold, or holds of another owner."""
    return {s: (n, held[s]) for s, n in acked.items() if held[s][0] != owner or held[s][1] < n}


def kill_rounds(name, n, exe=None, **more):
    """kill -9 of the target under load, n times. Returns (rounds played, what was lost)."""
    t = Target(name, {"disk": volume(f"{name}.disk", "64M", **more)}, ports=2, exe=exe)
    acked = {1: {}, 2: {}}
    for i in range(n):
        t.start()
        a = Writer(t, 0, 1, 0, SLOTS, "windows")
        b = Writer(t, 1, 2, SLOTS, SLOTS, "calls")
        a.has(20)
        b.has(20)
        time.sleep(random.random() * 0.2)
        t.kill()
        for w in (a, b):
            acked[w.owner].update(w.end())
        t.start()
        for owner, first in ((1, 0), (2, SLOTS)):
            bad = lost(acked[owner], slots(t, owner - 1, first), owner)
            if bad:
                t.kill()
                return i + 1, bad
        assert t.term() == 0
    print(f"# seed {SEED}: {n} rounds, {len(acked[1])} and {len(acked[2])} slots", flush=True)
    return n, {}


def test_kill_of_the_target():
    random.seed(SEED)
    n, bad = kill_rounds("k1", rounds(6))
    assert not bad, f"seed {SEED}, round {n}: {bad}"


def test_kill_of_the_target_with_checksums():
    random.seed(SEED + 1)
    n, bad = kill_rounds("k2", rounds(4), checksums="yes")
    assert not bad, f"seed {SEED}, round {n}: {bad}"


def test_a_target_without_flush_is_caught():
    random.seed(SEED + 2)
    n, bad = kill_rounds("k3", 20, exe=NOFLUSH)
    assert bad, f"seed {SEED}: 20 rounds did not find that a Flush does nothing"
    print(f"# found in round {n}", flush=True)


def test_a_target_without_flush_is_caught_with_checksums():
    """Doubt after a crash, and its scrub, do not hide that acknowledged data is missing."""
    random.seed(SEED + 5)
    n, bad = kill_rounds("k4", 10, exe=NOFLUSH, checksums="yes")
    assert bad, f"seed {SEED}: 10 rounds did not find that a Flush does nothing"
    print(f"# found in round {n}", flush=True)


def test_kill_of_writers():
    """A writer that dies leaves its grant and windows to the next one at once."""
    random.seed(SEED + 3)
    t = Target("w1", {"disk": volume("w1.disk", "64M")}, ports=2).start()
    acked = {}
    for i in range(rounds(6)):
        w = Writer(t, 0, i + 1, 0, SLOTS, ("windows", "calls")[i % 2])
        w.has(30)
        time.sleep(random.random() * 0.1)
        ended = t.logged().count("its grants end")
        w.proc.kill()
        # Its windows are there until it is given up on.
        until(t, "its grants end", ended + 1)
        # What it has done before is there; what it had under way is old or new, and not torn.
        for s, n in w.end().items():
            acked[s] = (i + 1, n)
        held = slots(t, 1)
        for s, (owner, n) in acked.items():
            assert held[s] >= (owner, n), (SEED, i, s, held[s], (owner, n))
    assert t.term() == 0


def test_frozen_owner_writes_no_more():
    """An owner is stopped, is given up on, and another one writes. Nothing of the first lands when it wakes up."""
    random.seed(SEED + 4)
    t = Target("g1", {"disk": volume("g1.disk", "64M")}, ports=2, keepalive_ms=200).start()
    draws = 0
    for i in range(rounds(4)):
        old = Writer(t, 0, 2 * i + 1, 0, SLOTS, ("windows", "calls")[i % 2])
        old.has(30)
        time.sleep(random.random() * 0.1)
        ended = t.logged().count("its grants end")
        old.proc.send_signal(signal.SIGSTOP)
        until(t, "its grants end", ended + 1)
        new = Writer(t, 1, 2 * i + 2, 0, SLOTS, ("windows", "calls")[i // 2 % 2])
        new.has(SLOTS // 2)
        # The old owner goes on while the new one writes.
        old.proc.send_signal(signal.SIGCONT)
        new.has(SLOTS * 2)
        new.proc.kill()
        acked = new.end()
        old.end()
        held = slots(t, 1)
        bad = {s: held[s] for s in acked if held[s][0] == old.owner}
        assert not bad, (SEED, i, bad)
        draws += len(acked)
        # Its windows are there until it is given up on.
        until(t, "its grants end", ended + 2)
    print(f"# seed {SEED}: {draws} slots were taken over", flush=True)
    assert t.term() == 0


def freezes(m, at):
    """Functions that stop all writes of a file system, as a device does that hangs, and let them go on."""
    def freeze(how):
        subprocess.run(["fsfreeze", how, at], check=True, capture_output=True)

    def thaw():
        subprocess.run(["fsfreeze", "-u", at], check=False, capture_output=True)
    try:
        freeze("-f")
        freeze("-u")
    except (OSError, subprocess.CalledProcessError) as e:
        raise Skip(f"no file system can be frozen: {e}") from None
    m.callback(thaw)  # before the end of the target and of the mount, which would wait
    return lambda: freeze("-f"), lambda: freeze("-u")


def frozen_round(t, tel, n, freeze, thaw):
    """Two owners have writes in the device when it stops. Both are given up, and two others write to their ranges."""
    ways = ("windows", "calls")
    old = [Writer(t, i, 4 * n + 1 + i, i * SLOTS, SLOTS, ways[i]) for i in range(2)]
    for w in old:
        w.has(30)
    time.sleep(random.random() * 0.1)
    ended = t.logged().count("its grants end")
    freeze()
    begin = time.monotonic()
    try:
        # What the device had before is done. From here on each lane of the owners has a write that is frozen.
        done = None
        while done != (done := [w.lines() for w in old]):
            time.sleep(0.3)
        for w in old:
            w.proc.send_signal(signal.SIGSTOP)
        until(t, "its grants end", ended + 2)
        new = [Writer(t, 2 + i, 4 * n + 3 + i, i * SLOTS, SLOTS, ways[(i + n) % 2]) for i in range(2)]
        # Other media, and calls that need none, do not wait for it.
        rc, _, err = t.cp(make_file("g2.in", MIB, n), "weft://10.0.4.1/other", port=4)
        assert rc == 0, err
        while time.monotonic() - begin < FREEZE_S:
            time.sleep(0.1)
            # Those of the owners that were given up on are there still.
            assert tel.ask("/weft/target/export,disk")["device_under_way"] >= 2
        assert [w.lines() for w in old] == done, "a write of an old owner was acknowledged by a frozen medium"
        assert [w.lines() for w in new] == [0, 0], "a frozen medium has taken a write"
        assert all(w.proc.poll() is None for w in new), [w.proc.stderr.read() for w in new if w.proc.poll() is not None]
    finally:
        thaw()
    for w in old:
        w.proc.send_signal(signal.SIGCONT)
    for w in new:
        w.has(SLOTS, 60)
        w.proc.kill()
    acked = [w.end() for w in new]
    for w in old:
        w.end()
    held = slots(t, 4, 0, 2 * SLOTS)
    bad = {s: held[s] for a in acked for s in a if held[s][0] in (old[0].owner, old[1].owner)}
    assert not bad, (SEED, n, bad)
    until(t, "its grants end", ended + 4)
    return sum(map(len, acked))


def test_medium_freezes():
    """The medium of a volume stops with writes of owners in it, that others replace: no old stamp is found. Another volume goes on."""
    random.seed(SEED + 6)
    with made() as m:
        at = m.ext4("frozen", 128 * MIB)
        t = m.use(Target("g2", {"disk": {"path": f"{at}/disk", "size": "64M", "format": "volume"}, "other": volume("g2.other", "16M")},
                         ports=5, keepalive_ms=300))
        edit(t, "[port p0]", "[weft]\ntelemetry = yes\n[port p0]")
        freeze, thaw = freezes(m, at)
        t.start()
        draws = sum(frozen_round(t, Telemetry(t.proc.pid), i, freeze, thaw) for i in range(FREEZES))
        print(f"# seed {SEED}: {draws} slots were taken over in {FREEZES} freezes of {FREEZE_S} s", flush=True)
        assert t.term() == 0


def test_random_octets_of_a_large_volume():
    """30 GiB, two clients at once: what they wrote is read, in bounded memory, and not by the page cache."""
    t = Target("r1", {"disk": volume("r1.disk", "30G")}, ports=2).start()
    both = [probe(t, i, "spread", str(SEED + i), "120", str(i), "2") for i in range(2)]
    most, at_once = 0, 0
    while any(p.poll() is None for p in both):
        most = max(most, resident(t.proc.pid))
        at_once += all(p.poll() is None for p in both)
        time.sleep(0.05)
    for p in both:
        out, err = p.communicate(timeout=10)
        assert p.returncode == 0 and "done" in out, (SEED, out, err)
    assert at_once >= 5, at_once
    assert most < 1 << 30, most
    assert resident(t.proc.pid) < 1 << 30
    cached = subprocess.run(["fincore", "-bnro", "RES", path("r1.disk")], capture_output=True, text=True)
    if cached.returncode == 0:
        assert int(cached.stdout or 0) < 4 * MIB, cached.stdout
    assert t.term() == 0


def test_refusals():
    t = Target("x1", {"disk": volume("x1.disk", "16M")}).start()
    assert probed(t, 0, "refuse").strip() == "done"
    assert t.term() == 0


def test_long_ranges():
    """No call keeps others from more than 64 MiB of the volume: longer ranges are refused, and the library cuts them."""
    t = Target("x2", {"disk": volume("x2.disk", "200M")}).start()
    assert probed(t, 0, "long").strip() == "done"
    assert t.term() == 0


def test_order_of_submission():
    """A read, a small write and a flush do not overtake the long write before them, whose data the target fetches first."""
    t = Target("o1", {"disk": volume("o1.disk", "16M")}).start()
    assert probed(t, 0, "order", str(SEED), "100").strip() == "done"
    assert t.term() == 0


def test_a_move_that_fails_ends_the_window():
    """The new range is damaged: what the client writes to the window afterwards lands nowhere."""
    t = Target("m1", {"disk": volume("m1.disk", "16M", checksums="yes")}).start()
    f = make_file("m1.in", 4 * MIB, 20)
    copied(t, f, "weft://10.0.0.1/disk")
    assert t.term() == 0
    with open(f, "rb") as i:
        i.seek(MIB)
        mark = i.read(4096)
    with open(path("m1.disk"), "r+b") as d:
        at = d.read().find(mark)
        d.seek(at)
        d.write(b"damage")
    t.start()
    assert probed(t, 0, "moved", str(MIB)).strip() == "refused", t.logged()[-1000:]
    assert t.term() == 0
    with open(path("m1.disk"), "rb") as d:
        d.seek(at)
        assert d.read(4096) == b"damage" + mark[6:]


def observed(name, ports, extra, *others, exe=None, keepalive_ms=60000):
    """A target with telemetry, whose staging memory is small: 8 READs, and 8 windows."""
    t = Target(name, {e: volume(f"{name}.{e}", "64M") for e in ("disk", *others)}, ports=ports, keepalive_ms=keepalive_ms,
               extra=f"staging = 16M\n{extra}", exe=exe)
    edit(t, "[port p0]", "[weft]\ntelemetry = yes\n[port p0]")
    t.start()
    return t, Telemetry(t.proc.pid)


def seen(tel, what, timeout=10):
    """Wait for what(/weft/target/volumes)."""
    end = time.monotonic() + timeout
    while not what(info := tel.ask("/weft/target/volumes")):
        assert time.monotonic() < end, info
        time.sleep(0.02)
    return info


def said(p):
    line = p.stdout.readline().strip()
    assert line, p.stderr.read()
    return line


def test_staging_is_shared_by_clients():
    """A client with many grants has one share of the staging memory."""
    t, tel = observed("s1", 1, "")
    p = probe(t, 0, "hold", "12", "4")
    assert said(p) == "holds"
    info = seen(tel, lambda i: i["staging_waiting"] > 3 and i["staging_free_bytes"] == 0)
    assert info["staging_clients"] == 1, info
    p.kill()
    p.wait()
    assert t.term() == 0


def test_data_that_is_not_taken():
    """A client reads all that fits, and takes none of it: its connection ends when another client reads."""
    t, tel = observed("s4", 2, "")
    p = probe(t, 0, "hold", "4", "8")
    assert said(p) == "holds"
    seen(tel, lambda i: i["staging_free_bytes"] == 0)
    assert tel.ask("/weft/target/volumes")["staging_shed"] == 0  # nobody else asks
    assert len(slots(t, 1, 0, 1024)) == 1024
    assert "it has taken none of what it has read" in t.logged()
    seen(tel, lambda i: i["staging_shed"] == 1 and i["staging_clients"] == 0 and i["staging_free_bytes"] == 8 * MIB)
    p.kill()
    p.wait()
    assert t.term() == 0


def test_a_volume_has_half():
    """Where a target has two volumes, calls to one of them take half of the staging memory."""
    t, tel = observed("s5", 2, "", "other")
    p = probe(t, 0, "hold", "4", "8")
    assert said(p) == "holds"
    info = seen(tel, lambda i: i["staging_waiting"] > 3)
    assert info["staging_least_free_bytes"] == 4 * MIB, info
    # Another client gets its part of that half.
    assert len(slots(t, 1, 0, 256)) == 256
    seen(tel, lambda i: i["staging_shed"] == 1 and i["staging_clients"] == 0)
    p.kill()
    p.wait()
    assert t.term() == 0


def test_windows_are_shared_by_clients():
    """A client has all windows, one by each of its grants. Another client gets its part of them nevertheless."""
    t, tel = observed("s2", 2, "revoke_ms = 200")
    p = probe(t, 0, "windows", "9", "1", "0")
    assert said(p) == "opened 8", p.stderr.read()
    q = probe(t, 1, "windows", "1", "5", str(MIB))
    assert said(q) == "opened 4", tel.ask("/weft/target/volumes")
    info = tel.ask("/weft/target/volumes")
    assert info["windows_taken_back"] == 4 and info["windows_open"] == 8, info
    assert t.term() == 0


def test_pushes_share_windows():
    """Three pushes want twice the windows that there are: windows are taken back all the time, and each push ends well."""
    t, tel = observed("s6", 3, "revoke_ms = 500")
    files = [make_file(f"s6.{i}", 16 * MIB + 4096 * i, 60 + i) for i in range(3)]
    for way in ([], ["--rate", "8M"]):
        pushes = [t.cp_start(f, f"weft://10.0.{i}.1/disk", port=i,
                             args=["--offset", f"{i * 18}M", "--block", "256K", "--depth", "12", *way]) for i, f in enumerate(files)]
        for p in pushes:
            err = p.communicate(timeout=100)[1]
            assert p.returncode == 0, (err, tel.ask("/weft/target/volumes"))
    info = tel.ask("/weft/target/volumes")
    print(f"# {info['windows_opened']} windows opened, {info['windows_taken_back']} taken back", flush=True)
    assert t.term() == 0
    with open(path("s6.disk"), "rb") as d:
        for i, f in enumerate(files):
            with open(f, "rb") as want:
                d.seek(MIB + i * 18 * MIB)
                data = want.read()
                assert d.read(len(data)) == data, i


def test_a_revoke_that_crosses_a_move():
    """The target asks for a window back while the client's move of it is on its way, and refuses the move: the push goes on."""
    t, tel = observed("s8", 1, "", exe=CROSSING)
    f = make_file("s8.in", 16 * MIB + 4096, 71)
    p = t.cp_start(f, "weft://10.0.0.1/disk", args=["--block", "256K", "--depth", "4"])
    err = p.communicate(timeout=100)[1]
    info = tel.ask("/weft/target/volumes")
    assert p.returncode == 0, (err, info)
    # Of 61 moves one in three was refused, and each has led to a new window.
    assert info["windows_opened"] > 20, info
    assert t.term() == 0
    with open(path("s8.disk"), "rb") as d, open(f, "rb") as want:
        d.seek(MIB)
        data = want.read()
        assert d.read(len(data)) == data


def test_a_window_that_ends_too_early():
    """revoke_ms is too short for a block: a push that loses its connection by that says what helps."""
    t, _ = observed("s7", 3, "revoke_ms = 100")
    f = make_file("s7.in", 16 * MIB, 70)
    pushes = [t.cp_start(f, f"weft://10.0.{i}.1/disk", port=i, args=["--offset", f"{i * 18}M", "--block", "256K", "--depth", "12"])
              for i in range(3)]
    for p in pushes:
        err = p.communicate(timeout=100)[1]
        assert p.returncode == 0 or ("revoke_ms is short" in err and "is on the volume" in err), err
    rc, _, err = t.cp(f, "weft://10.0.0.1/disk", args=["--pull", "--block", "256K"])
    assert rc == 0, err
    assert t.term() == 0


def test_a_push_after_a_death():
    """A client is killed in a push, and the push is made again at once: it waits until the target has given the first one up."""
    t, tel = observed("d1", 2, "", keepalive_ms=1000)
    f = make_file("d1.in", 8 * MIB + 5000, 72)
    old = t.cp_start(f, "weft://10.0.0.1/disk", args=["--block", "256K", "--depth", "4", "--rate", "2M"])
    seen(tel, lambda i: i["windows_open"] > 0)
    old.kill()
    old.wait()
    begin = time.monotonic()
    rc, _, err = t.cp(f, "weft://10.0.1.1/disk", port=1, args=["--block", "256K", "--depth", "4", "--wait", "0.3"])
    waited = time.monotonic() - begin
    assert rc == 6 and "has a part of the range" in err and "--wait" in err and ": of 10.0.0.2:" in err, err
    assert err.strip().count("\n") == 0 and waited < 3, (err, waited)
    assert "its grants end" not in t.logged(), "the first client is gone too early for this test"
    rc, _, err = t.cp(f, "weft://10.0.1.1/disk", port=1, args=["--block", "256K", "--depth", "4"])
    assert rc == 0, (err, t.logged()[-1000:])
    # Refusals of that kind say nothing of the medium.
    assert "BAD RANGE" not in t.logged()
    assert t.term() == 0
    with open(path("d1.disk"), "rb") as d, open(f, "rb") as want:
        d.seek(MIB)
        data = want.read()
        assert d.read(len(data)) == data


def test_a_slot_that_is_free_is_used():
    """A window that waits and then cannot be opened leaves the slot to the next one."""
    t, _ = observed("s3", 1, "revoke_ms = 200")
    assert probed(t, 0, "slots", "8").strip() == "done"
    assert t.term() == 0


def test_rights_that_come_back():
    """Rights that are withdrawn and given back within revoke_ms: the grant stays, with its window."""
    t, tel = observed("b1", 1, "revoke_ms = 3000")
    assert said(probe(t, 0, "windows", "1", "1", "0")) == "opened 1"
    edit(t, "[export disk]", "[export disk]\nrights = read")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "export disk: grants read from now on")
    edit(t, "[export disk]\nrights = read", "[export disk]")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "export disk: grants read,write,flush,verify from now on")
    until(t, "keeps its grant")
    assert "is revoked" not in t.logged()
    assert tel.ask("/weft/target/volumes")["windows_open"] == 1
    assert t.term() == 0


def addr6(port, host):
    return f"fd00:88::{port}:{host}"


def network(name, ports, extra):
    """A target whose ports are also in one IPv6 /64."""
    t = Target(name, {"disk": volume(f"{name}.disk", "16M")}, ports=ports, keepalive_ms=60000, extra=extra)
    edit(t, "[port p0]", "[weft]\ntelemetry = yes\n[port p0]")
    for i in range(ports):
        edit(t, f"address = 10.0.{i}.1/24", f"address = 10.0.{i}.1/24\naddress6 = {addr6(i, 1)}/112")
    t.start()
    return t, Telemetry(t.proc.pid)


def member(t, port, *args):
    """A probe with an address of that /64."""
    p = subprocess.Popen([PROBE, memif(0, "client", t.sock(port)), f"10.0.{port}.2/24,{addr6(port, 2)}/112", addr6(port, 1), "disk",
                          *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    PROCS.append(p)
    return p


def test_windows_of_a_network():
    """The addresses of an IPv6 /64 have one share of the windows, of which each has its part."""
    t, tel = network("n2", 3, "staging = 16M\nrevoke_ms = 200")
    assert said(member(t, 0, "windows", "1", "8", "0")) == "opened 8"
    assert said(member(t, 1, "windows", "1", "5", str(MIB))) == "opened 4"
    assert tel.ask("/weft/target/volumes")["windows_taken_back"] == 4
    # An address elsewhere has as much as both together.
    assert said(probe(t, 2, "windows", "1", "5", str(2 * MIB))) == "opened 4"
    assert tel.ask("/weft/target/volumes")["windows_taken_back"] == 8
    assert t.term() == 0


def test_idle_neighbours_give_way():
    """Addresses of an IPv6 /64 that hold all its grants and are idle: one connection is closed for another address."""
    t, tel = network("n1", 5, "max_opens_per_s = 0\nmax_grants_per_client = 8")
    for i in range(4):
        assert said(member(t, i, "windows", "8", "0", "0")) == "opened 0"
    time.sleep(6)  # the connections have to be idle for five seconds
    assert said(member(t, 4, "windows", "1", "0", "0")) == "opened 0"
    until(t, "its 8 grants are idle")
    assert tel.ask("/weft/target/grants")["connections_pushed_out"] == 1
    assert t.term() == 0


def fills(t, f, *args):
    """A push of more than the disk has room for: whether it is refused with the cause, and in one line."""
    rc, _, err = t.cp(f, "weft://10.0.0.1/disk", args=list(args))
    return rc in FAILED and "No space left on device" in err and "is on the volume" in err and err.strip().count("\n") == 0, err


def full_disk(m, name, at, **more):
    """A write without room fails with its reason; what was written stays, and room helps."""
    t = m.use(Target(name, {"disk": {"path": f"{at}/disk", "size": "64M", "format": "volume", **more}}))
    t.start()
    f = make_file(f"{name}.in", 32 * MIB, 1)
    for way in ([], ["--no-verify"], ["--pull"]):
        begin = time.monotonic()
        said_so, err = fills(t, f, *way)
        assert said_so, (way, err, t.logged()[-2000:])
        assert time.monotonic() - begin < 30, way
    assert "the medium failed: No space left on device" in t.logged(), t.logged()[-2000:]
    g = make_file(f"{name}.small", MIB, 2)
    copied(t, g, "weft://10.0.0.1/disk")
    copied(t, "--length", "1M", "weft://10.0.0.1/disk", path(f"{name}.out"))
    assert sha(g) == sha(path(f"{name}.out"))
    assert t.term() == 0


def test_full_disk():
    with made() as m:
        full_disk(m, "f1", m.tmpfs("full", "24M"))


def test_full_disk_with_checksums():
    """The same on a file system with blocks of a device."""
    with made() as m:
        full_disk(m, "f2", m.ext4("full4", 24 * MIB), checksums="yes")


def test_full_disk_without_flush():
    """A target whose Flush does nothing says that all was written: the case above finds it."""
    with made() as m:
        at = m.tmpfs("full3", "24M")
        t = m.use(Target("f3", {"disk": {"path": f"{at}/disk", "size": "64M", "format": "volume"}}, exe=NOFLUSH))
        t.start()
        said_so, err = fills(t, make_file("f3.in", 32 * MIB, 1), "--no-verify")
        assert not said_so, err
        assert t.term() == 0


def test_a_disk_that_goes():
    """The volume's file is removed during a push by windows: the client says so."""
    t = Target("f4", {"disk": volume("f4.disk", "64M")}).start()
    p = t.cp_start(make_file("f4.in", 32 * MIB, 3), "weft://10.0.0.1/disk", args=["--rate", "8M"])
    until(t, "granted to")
    time.sleep(1)
    assert p.poll() is None
    os.rename(path("f4.disk"), path("f4.gone"))
    err = p.communicate(timeout=60)[1]
    assert p.returncode in FAILED and "the cause, as the target says" in err and "its file was removed" in err, (err, t.logged()[-1000:])
    assert t.term() == 0


if __name__ == "__main__":
    main([test_kill_of_the_target, test_kill_of_the_target_with_checksums, test_a_target_without_flush_is_caught,
          test_a_target_without_flush_is_caught_with_checksums,
          test_kill_of_writers, test_frozen_owner_writes_no_more, test_medium_freezes,
          test_random_octets_of_a_large_volume, test_refusals,
          test_long_ranges, test_order_of_submission, test_a_move_that_fails_ends_the_window,
          test_staging_is_shared_by_clients, test_data_that_is_not_taken, test_a_volume_has_half,
          test_windows_are_shared_by_clients, test_pushes_share_windows, test_a_revoke_that_crosses_a_move,
          test_a_window_that_ends_too_early, test_a_push_after_a_death,
          test_a_slot_that_is_free_is_used, test_rights_that_come_back, test_windows_of_a_network,
          test_idle_neighbours_give_way, test_full_disk, test_full_disk_with_checksums,
          test_full_disk_without_flush, test_a_disk_that_goes])
