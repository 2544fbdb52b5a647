#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Snapshots and clones of volumes by weft-cp: on a file system with reflinks, and refused with the reason elsewhere."""
import json
import os
import subprocess

from test_offline import with_telemetry
from test_volume import copied, refused, same, volume
from test_volume_hard import SLOTS, Writer, lost, slots
from weft_e2e import FAILED, Skip, Target, app, end_all, main, make_file, path

MIB = 1 << 20
URL = "weft://10.0.0.1/disk"
MKFS = {"xfs": ["mkfs.xfs", "-q", "-m", "reflink=1"], "btrfs": ["mkfs.btrfs", "-q"]}


def snap(t, *args, url=URL, ok=True):
    p = subprocess.run([app("weft-cp"), *t.client_args(), *args, url], capture_output=True, text=True, timeout=60)
    assert p.returncode in ((0,) if ok else FAILED), (args, p.stdout, p.stderr)
    if not ok:
        assert p.stderr.strip().count("\n") == 0, p.stderr
    return p.stdout if ok else p.stderr


def names(t):
    return [s["name"] for s in json.loads(snap(t, "--json", "--snapshots"))]


def reflinks(kind="xfs"):
    """Mount a file system of this kind on a file, once; it is in this program's mount namespace alone. Its folder's name is the kind."""
    at, img = path(kind), path(f"{kind}.img")
    if os.path.ismount(at):
        return
    os.makedirs(at, exist_ok=True)
    with open(img, "wb") as f:
        f.truncate(1 << 30)
    for cmd in ([*MKFS[kind], img], ["mount", "-o", "loop", img, at]):
        try:
            got = subprocess.run(cmd, capture_output=True, text=True, timeout=60)
        except FileNotFoundError:
            raise Skip(f"no {cmd[0]} here") from None
        if got.returncode != 0:
            raise Skip(f"{cmd[0]}: {got.stderr.strip()}")


def on_xfs(name, size="64M", kind="xfs", **more):
    return {**volume(os.path.join(kind, name), size), "snapshots": 4, **more}


def snapshot_is_what_was_there(kind):
    reflinks(kind)
    for sums in ("no", "yes"):
        name = f"s1{sums}"
        disk = on_xfs(name, kind=kind, checksums=sums)
        t = Target(name, {"disk": disk}).start()
        one, two = make_file("s1.one", 20 * MIB + 5, 1), make_file("s1.two", 20 * MIB + 5, 2)
        copied(t, one, URL)
        out = snap(t, "--snapshot", "one")
        assert f"{name}.snap.one" in out and path(kind) not in out, out
        assert "exists" in snap(t, "--snapshot", "one", ok=False)
        copied(t, two, URL)
        made = json.loads(snap(t, "--json", "--clone", "c", "--from", "one"))
        assert made == {"clone": "c", "place": f"{name}.clone.c"}, made
        snap(t, "--clone", "now")
        assert names(t) == ["one"]
        assert t.term() == 0
        # Another export serves it; it is never written.
        exports = {"disk": disk, "old": volume(f"{kind}/{name}.snap.one", "64M"), "c": volume(f"{kind}/{name}.clone.c", "64M"),
                   "now": volume(f"{kind}/{name}.clone.now", "64M")}
        t, tel = with_telemetry(f"{name}b", exports)
        assert tel.ask("/weft/target/export,old")["grants"] == "read,verify"
        for export, want in (("old", one), ("c", one), ("disk", two), ("now", two)):
            copied(t, "--length", str(os.path.getsize(want)), f"weft://10.0.0.1/{export}", path("s1.out"))
            assert same(want, path("s1.out")), export
            info = tel.ask(f"/weft/target/export,{export}")
            assert info["unverified_reads"] == 0 and info["checksums"] == (sums == "yes"), info
        assert "granted" in refused(t, "--offset", "0", two, "weft://10.0.0.1/old")
        # It is in use.
        assert "in use" in snap(t, "--remove-snapshot", "one", ok=False)
        # A clone is written without an effect on the others.
        copied(t, "--offset", "1M", make_file("s1.three", 5 * MIB, 3), "weft://10.0.0.1/c")
        for export, want in (("old", one), ("disk", two)):
            copied(t, "--length", str(os.path.getsize(want)), f"weft://10.0.0.1/{export}", path("s1.out"))
            assert same(want, path("s1.out")), export
        assert t.term() == 0
        t = Target(f"{name}c", {"disk": disk}).start()
        snap(t, "--remove-snapshot", "one")
        assert names(t) == [] and not os.path.exists(path(f"{kind}/{name}.snap.one"))
        assert "no snapshot" in snap(t, "--remove-snapshot", "one", ok=False)
        assert t.term() == 0


def test_snapshot_is_what_was_there():
    snapshot_is_what_was_there("xfs")


def test_snapshot_on_btrfs():
    snapshot_is_what_was_there("btrfs")


def test_limits():
    reflinks()
    t, tel = with_telemetry("s2", {"disk": on_xfs("s2", "16M", snapshots=2), "none": on_xfs("s2n", "16M", snapshots=0),
                                   "read": on_xfs("s2r", "16M", rights="read,verify")})
    snap(t, "--snapshot", "b")
    snap(t, "--snapshot", "a")
    assert "2 already" in snap(t, "--snapshot", "c", ok=False)
    assert names(t) == ["a", "b"]
    assert "snapshots = N" in snap(t, "--snapshot", "a", url="weft://10.0.0.1/none", ok=False)
    assert snap(t, "--snapshots", url="weft://10.0.0.1/none").strip() == "no snapshots"
    assert "granted" in snap(t, "--snapshot", "a", url="weft://10.0.0.1/read", ok=False)
    info = tel.ask("/weft/target/export,disk")
    assert (info["snapshots_made"], info["clones_made"], info["snapshots_refused"]) == (2, 0, 1), info
    assert tel.ask("/weft/target/export,none")["snapshots_refused"] == 1
    assert "1 to 63" in snap(t, "--snapshot", "a/b", ok=False)
    assert t.term() == 0


def test_refused_by_the_file_system():
    """tmpfs has no reflinks, and ext4 has none: the reason names it."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", path(".")], capture_output=True, text=True).stdout.strip()
    if kind in ("xfs", "btrfs"):
        raise Skip(f"the folder of the tests is on {kind}")
    t = Target("s3", {"disk": {**volume("s3.disk", "16M"), "snapshots": 4}}).start()
    for args in (["--snapshot", "a"], ["--clone", "a"]):
        err = snap(t, *args, ok=False)
        assert "reflink" in err and "file system" in err, err
        print(f"# {err.strip()}")
    assert names(t) == [] and not os.path.exists(path("s3.disk.snap.a"))
    f = make_file("s3.in", 4 * MIB, 4)
    copied(t, f, URL)
    assert t.term() == 0


def so_far(w):
    """What the writer has been acknowledged up to now."""
    acked = {}
    with open(w.out) as f:
        for line in f:
            if line.endswith("\n"):
                slot, number = map(int, line.split())
                acked[slot] = number
    return acked


def test_snapshots_under_load_and_kills():
    """What was acknowledged before a snapshot is in it, and in the volume after kill -9."""
    reflinks()
    disk = on_xfs("s4", "64M", checksums="yes", snapshots=50)
    t = Target("s4", {"disk": disk}, ports=2).start()
    before = []
    for turn in range(3):
        w = Writer(t, 0, 1, 0, SLOTS, "windows" if turn % 2 == 0 else "calls")
        w.has(20, 60)
        before.append(so_far(w))
        p = subprocess.run([app("weft-cp"), *t.client_args(1), "--snapshot", f"n{turn}", "weft://10.0.1.1/disk"],
                           capture_output=True, text=True, timeout=60)
        assert p.returncode == 0, p.stderr
        w.has(w.lines() + 20, 60)
        t.kill()
        w.proc.kill()
        acked = w.end()
        t.start()
        bad = lost(acked, slots(t, 1), 1)
        assert not bad, bad
    assert names(t) == ["n0", "n1", "n2"]
    assert t.term() == 0
    for turn, acked in enumerate(before):
        t = Target(f"s4{turn}", {"disk": volume(f"xfs/s4.snap.n{turn}", "64M")}, ports=2).start()
        bad = lost(acked, slots(t, 1), 1)
        assert not bad, (turn, bad)
        # All of it is read, and compared with its checksums.
        copied(t, URL, path("s4.out"))
        assert "DAMAGED" not in t.logged(), t.logged()
        assert t.term() == 0


if __name__ == "__main__":
    if os.geteuid() == 0 and os.environ.get("WEFT_SNAP_NS") is None:
        # Mounts end with this program.
        os.environ["WEFT_SNAP_NS"] = "1"
        if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0:
            os.execvp("unshare", ["unshare", "-m", "--propagation", "private", "python3", *os.sys.argv])
    try:
        main([test_snapshot_is_what_was_there, test_snapshot_on_btrfs, test_limits, test_refused_by_the_file_system,
              test_snapshots_under_load_and_kills])
    finally:
        end_all()
        for at in map(path, MKFS):
            if os.path.ismount(at):
                subprocess.run(["umount", "-l", at], check=False)
