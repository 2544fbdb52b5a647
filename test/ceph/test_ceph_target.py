#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-target with a volume on an image of a Ceph cluster of this host: test_ceph_target.py BUILD [CASE...]. TAP.

Push and pull; an OSD that is killed under load; targets that are killed or frozen, and the stand-by that takes over; snapshots
and clones, which other exports serve.
"""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

from kill_rounds import SEED  # noqa: E402 - below the folder of the end-to-end tests
from test_offline import edit, until  # noqa: E402
from test_volume import copied, volume  # noqa: E402
from test_volume_hard import SLOTS, Writer, lost, slots  # noqa: E402
from test_snapshot import snap  # noqa: E402
from weft_e2e import APPS, TMP, Target, end_all, main, make_file, path, sha  # noqa: E402

MIB = 1 << 20
RBD = os.path.join(APPS, "rbd", "weft-rbd")
TOOLS = ("ceph-mon", "ceph-osd", "ceph", "rados", "rbd", "ceph-authtool", "monmaptool")
DIR = os.path.join(TMP, "ceph")
CLUSTER = os.path.join(HERE, "cluster")


def cluster(what):
    subprocess.run([CLUSTER, what, DIR], check=True, capture_output=True, text=True, timeout=180)


def image(name, size):
    subprocess.run(["rbd", "-c", f"{DIR}/ceph.conf", "-k", f"{DIR}/admin.keyring", "create", "--size", size, f"rbd/{name}"], check=True,
                   capture_output=True, timeout=60)


def export(img, more="", **keys):
    conf = f"conf={DIR}/ceph.conf,id=weft,keyring={DIR}/weft.keyring{more}"
    return {"format": "volume", "image": f"rbd/{img}", "ceph": conf, **keys}


def target(name, img, more="", **kw):
    return Target(name, {"disk": export(img, more)}, ports=2, keepalive_ms=300, **kw)


def family(t):
    """The target and the process that serves its image."""
    found = [t.proc.pid]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                if int(f.read().rpartition(")")[2].split()[1]) == t.proc.pid:
                    found.append(int(pid))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def to_all(pids, sig):
    for pid in pids:
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            pass


def test_push_and_pull():
    image("one", "256M")
    t = target("c1", "one").start()
    f = make_file("c1.in", 24 * MIB + 3, 1)
    for way in ([], ["--pull"]):
        copied(t, *way, "--offset", "777", f, "weft://10.0.0.1/disk")
        copied(t, "--offset", "777", "--length", str(os.path.getsize(f)), "weft://10.0.0.1/disk", path("c1.out"))
        assert sha(f) == sha(path("c1.out"))
    assert t.term() == 0
    # It is there for the next target, on whatever machine.
    t = target("c1b", "one").start()
    copied(t, "--offset", "777", "--length", str(os.path.getsize(f)), "weft://10.0.0.1/disk", path("c1.out"))
    assert sha(f) == sha(path("c1.out"))
    assert t.term() == 0


def test_osd_is_killed_under_load():
    random.seed(SEED)
    image("two", "256M")
    t = target("c2", "two").start()
    a, b = Writer(t, 0, 1, 0, SLOTS, "windows"), Writer(t, 1, 2, SLOTS, SLOTS, "calls")
    for w in (a, b):
        w.has(20, 60)
    with open(f"{DIR}/run/osd1.pid") as f:
        os.kill(int(f.read()), signal.SIGKILL)
    for w in (a, b):
        w.has(w.lines() + 100, 90)
    cluster("up")
    for w in (a, b):
        w.proc.kill()
        w.end()
    until(t, "its grants end", 2)
    for w, first in ((a, 0), (b, SLOTS)):
        bad = lost(w.acked, slots(t, w.owner - 1, first), w.owner)
        assert not bad, (SEED, bad)
    assert t.term() == 0


def handed_over(name, how):
    """The active target ends by `how`; a stand-by takes its image over. Returns the time that this took."""
    image(name, "128M")
    a = target(f"{name}a", name).start()
    old = Writer(a, 0, 1, 0, SLOTS, "windows")
    old.has(50, 60)
    pids = family(a)
    assert len(pids) == 2, pids
    to_all(pids, how)
    begin = time.monotonic()
    b = target(f"{name}b", name, ",takeover=yes").start()
    took = time.monotonic() - begin
    if how == signal.SIGKILL:
        bad = lost(old.end(), slots(b, 1), 1)
        assert not bad, (SEED, bad)
    new = Writer(b, 0, 2, 0, SLOTS, "calls")
    new.has(SLOTS, 60)
    if how == signal.SIGSTOP:
        # The old owner goes on: what it had on its way is refused, and it tells its clients so.
        to_all(pids, signal.SIGCONT)
        new.has(2 * SLOTS, 60)
        until(a, "taken over")
        old.proc.kill()
        old.end()
    new.proc.kill()
    new.end()
    until(b, "its grants end", 1)
    held = slots(b, 1)
    bad = {s: held[s] for s in new.acked if held[s][0] != 2}
    assert not bad, (SEED, bad)
    assert b.term() == 0
    end_all()
    return took


def test_killed_target_is_replaced():
    took = handed_over("three", signal.SIGKILL)
    print(f"# the stand-by served after {took:.1f} s", flush=True)
    assert took < 15


def test_frozen_target_is_fenced():
    took = handed_over("four", signal.SIGSTOP)
    print(f"# the stand-by served after {took:.1f} s", flush=True)
    assert took < 15


def standby(name, how):
    """A stand-by runs beside the active target, which is killed, and is told by how(standby) to serve the image. Returns the time from
    the death to the first acknowledged write."""
    image(name, "128M")
    a = target(f"{name}a", name).start()
    b = Target(f"{name}b", {"disk": export(name), "other": volume(f"{name}.other", "16M")}, ports=2, keepalive_ms=300).start()
    assert "export disk: OFFLINE: " in b.logged() and "export other: " in b.logged(), b.logged()
    old = Writer(a, 0, 1, 0, SLOTS, "windows")
    old.has(50, 60)
    # The stand-by does not get it from an owner that lives.
    b.proc.send_signal(signal.SIGHUP)
    until(b, "export disk: OFFLINE", 2)
    old.has(old.lines() + 50, 60)
    to_all(family(a), signal.SIGKILL)
    begin = time.monotonic()
    how(b)
    until(b, "export disk: is served now")
    new = Writer(b, 0, 2, SLOTS, SLOTS, "calls")
    new.has(1, 60)
    took = time.monotonic() - begin
    bad = lost(old.end(), slots(b, 1), 1)
    assert not bad, (SEED, bad)
    new.proc.kill()
    new.end()
    assert b.term() == 0
    end_all()
    print(f"# the stand-by that ran took the first write {took:.1f} s after the death", flush=True)
    return took


def test_running_standby_takes_over():
    """It is told to take the image: no time-out of the cluster passes."""
    def how(b):
        edit(b, f"keyring={DIR}/weft.keyring", f"keyring={DIR}/weft.keyring,takeover=yes")
        b.proc.send_signal(signal.SIGHUP)
    assert standby("seven", how) < 10


def test_running_standby_waits_for_the_lock():
    """It only tries again, each second: the lock is free when the cluster has given the dead owner up, after 30 s by default."""
    def how(b):
        tries = 2
        while "export disk: is served now" not in b.logged():
            assert tries < 60, b.logged()[-1000:]
            b.proc.send_signal(signal.SIGHUP)
            time.sleep(1)
            tries += 1
    assert standby("eight", how) < 45


def test_no_such_image():
    t = target("c5", "none").start(ok=False)
    assert t.proc.wait(timeout=60) == 1
    line = t.logged().strip().splitlines()[-1]
    assert "export disk" in line and "rbd/none" in line, t.logged()


def held(t, name, want):
    out = path("snap.out")
    copied(t, "--length", str(os.path.getsize(want)), f"weft://10.0.0.1/{name}", out)
    return sha(out) == sha(want)


def test_snapshots_and_clones():
    image("six", "64M")
    disk = export("six", checksums="yes", snapshots=3)
    one, two, three = (make_file(f"c6.{i}", 9 * MIB + 7, 60 + i) for i in range(3))
    t = Target("c6", {"disk": disk}, ports=2, keepalive_ms=300).start()
    copied(t, one, "weft://10.0.0.1/disk")
    assert "six@a" in snap(t, "--snapshot", "a")
    copied(t, two, "weft://10.0.0.1/disk")
    assert "exists" in snap(t, "--snapshot", "a", ok=False)
    snap(t, "--clone", "old", "--from", "a")
    snap(t, "--clone", "now")
    assert "exists" in snap(t, "--clone", "now", ok=False)
    assert "no snapshot" in snap(t, "--clone", "x", "--from", "b", ok=False)
    assert t.term() == 0
    exports = {"disk": disk, "a": export("six@a"), "old": export("six.clone.old"), "now": export("six.clone.now")}
    t = Target("c6b", exports, ports=2, keepalive_ms=300).start()
    assert "a snapshot, opened to be read only" in t.logged(), t.logged()
    for name, want in (("a", one), ("old", one), ("disk", two), ("now", two)):
        assert held(t, name, want), name
    copied(t, three, "weft://10.0.0.1/old")
    assert held(t, "old", three) and held(t, "a", one) and held(t, "disk", two)
    assert t.term() == 0
    # The clone needs no snapshot any more.
    exports.pop("a")
    t = Target("c6c", exports, ports=2, keepalive_ms=300).start()
    snap(t, "--remove-snapshot", "a")
    assert snap(t, "--snapshots").strip() == "no snapshots"
    assert held(t, "old", three) and held(t, "now", two)
    assert t.term() == 0


if __name__ == "__main__":
    missing = [x for x in TOOLS if shutil.which(x) is None]
    if not os.path.exists(RBD) or missing:
        print(f"1..0 # SKIP {'weft-rbd is not built (librbd-dev)' if not os.path.exists(RBD) else 'no ' + ', '.join(missing)}")
        sys.exit(0)
    os.environ["WEFT_RBD"] = RBD
    try:
        cluster("up")
        main([test_push_and_pull, test_osd_is_killed_under_load, test_killed_target_is_replaced, test_frozen_target_is_fenced,
              test_running_standby_takes_over, test_running_standby_waits_for_the_lock, test_no_such_image, test_snapshots_and_clones])
    finally:
        subprocess.run([CLUSTER, "down", DIR], check=False, capture_output=True, timeout=120)
