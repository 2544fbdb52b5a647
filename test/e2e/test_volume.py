#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Exports that are volumes: pushed and pulled in place, larger than memory, durable, checked at rest, offline and back."""
import json
import os
import shutil
import signal
import subprocess
import time

from cp_runs import at_source
from test_kill import crc32c
from test_medium import made
from test_offline import edit, until, with_telemetry
from weft_e2e import APPS, BUILD, FAILED, Skip, Target, app, end_all, main, make_file, memif, path, sha

MIB = 1 << 20
GIB = 1 << 30


def volume(name, size, **more):
    return {"path": path(name), "size": size, "format": "volume", **more}


def cp(t, *args, timeout=120):
    return t.cp(args[-2], args[-1], args=args[:-2], timeout=timeout)


def copied(t, *args, timeout=120):
    rc, out, err = cp(t, *args, timeout=timeout)
    assert rc == 0, err
    return json.loads(out) if "--json" in args else out


def refused(t, *args):
    rc, _, err = cp(t, *args)
    assert rc in FAILED and err.strip().count("\n") == 0, (rc, err)
    return err


def same(a, b):
    return sha(a) == sha(b)


def test_push_and_pull():
    t = Target("v1", {"disk": volume("v1.disk", "64M")}).start()
    f = make_file("v1.in", 20 * MIB + 12345, 1)
    for way in ([], ["--pull"]):
        r = copied(t, "--json", *way, f, "weft://10.0.0.1/disk")
        assert r["bytes"] == os.path.getsize(f) and r["verified"] and r["flushed"] and r["persistent"]
        assert r["way"] == ("pull" if way else "push")
        copied(t, "--length", str(os.path.getsize(f)), "weft://10.0.0.1/disk", path("v1.out"))
        assert same(f, path("v1.out"))
        os.unlink(path("v1.out"))
        # The next way has to write all of it again.
        copied(t, "--length", "20M", "--no-verify", make_file("v1.other", 20 * MIB, 2), "weft://10.0.0.1/disk")
    assert t.term() == 0


def test_any_range():
    """Octets around the range keep their value, wherever it begins and ends."""
    t = Target("v2", {"disk": volume("v2.disk", "16M")}).start()
    base = make_file("v2.base", 8 * MIB, 3)
    copied(t, base, "weft://10.0.0.1/disk")
    with open(base, "rb") as f:
        want = bytearray(f.read())
    seed = 4
    for off, n in ((1, 1), (4095, 2), (4096, 4096), (5, 300000), (MIB - 1, MIB + 2), (123456, 65536), (4096 * 3, 100)):
        for way in ([], ["--pull"]):
            seed += 1
            piece = make_file("v2.piece", n, seed)
            copied(t, *way, "--offset", str(off), piece, "weft://10.0.0.1/disk")
            with open(piece, "rb") as f:
                want[off:off + n] = f.read()
            copied(t, "--length", "8M", "weft://10.0.0.1/disk", path("v2.out"))
            with open(path("v2.out"), "rb") as f:
                got = f.read()
            assert got == want, (off, n, way, next(i for i in range(len(want)) if got[i] != want[i]))
            copied(t, "--offset", str(off), "--length", str(n), "weft://10.0.0.1/disk", path("v2.out"))
            assert same(piece, path("v2.out")), (off, n, way)
    assert "ends at" in refused(t, "--offset", "1T", base, "weft://10.0.0.1/disk")
    assert "do not fit" in refused(t, "--offset", "12M", base, "weft://10.0.0.1/disk")
    assert t.term() == 0


def test_sparse_stays_sparse():
    t = Target("v3", {"disk": volume("v3.disk", "8G")}).start()
    f = path("v3.in")
    with open(f, "wb") as o:
        for at in (0, 700 * MIB, GIB - 5000):
            o.seek(at)
            o.write(b"island" * 1000)
        o.truncate(GIB)
    copied(t, f, "weft://10.0.0.1/disk")
    r = copied(t, "--json", "--length", "1G", "weft://10.0.0.1/disk", path("v3.out"))
    assert r["hole_bytes"] > 900 * MIB, r
    assert same(f, path("v3.out"))
    for p in (path("v3.disk"), path("v3.out")):
        assert os.stat(p).st_blocks * 512 < 32 * MIB, (p, os.stat(p).st_blocks)
    # A hole over data makes zeros.
    copied(t, make_file("v3.data", MIB, 5), "weft://10.0.0.1/disk")
    copied(t, f, "weft://10.0.0.1/disk")
    copied(t, "--length", "1G", "weft://10.0.0.1/disk", path("v3.out"))
    assert same(f, path("v3.out"))
    assert t.term() == 0


def test_holes_are_verified():
    """A medium that says that it has made zeros, and has not: the push fails, and names the place."""
    t = Target("v3b", {"disk": volume("v3b.disk", "64M")})
    with open(app("weft-target"), "rb") as f:
        if b"__asan_init" in f.read():
            raise Skip("nothing is preloaded before the address sanitizer")
    f = path("v3b.in")
    with open(f, "wb") as o:
        o.write(b"island" * 1000)
        o.truncate(32 * MIB)
    t.start()
    copied(t, make_file("v3b.data", 32 * MIB, 5), "weft://10.0.0.1/disk")
    assert t.term() == 0
    os.environ.update(LD_PRELOAD=os.path.join(BUILD, "test", "e2e", "libio_trace.so"), WEFT_IO_NO_ZEROS="1")
    try:
        t.start()
    finally:
        del os.environ["LD_PRELOAD"], os.environ["WEFT_IO_NO_ZEROS"]
    for way in ([], ["--pull"]):
        err = refused(t, *way, f, "weft://10.0.0.1/disk")
        assert "does not hold zeros" in err and "is on the volume" in err, err
        copied(t, "--no-verify", *way, f, "weft://10.0.0.1/disk")
    assert t.term() == 0
    t.start()
    for way in ([], ["--pull"]):
        copied(t, "--length", "32M", path("v3b.data"), "weft://10.0.0.1/disk")
        r = copied(t, "--json", *way, f, "weft://10.0.0.1/disk")
        assert r["verified"]
    copied(t, "--length", "32M", "weft://10.0.0.1/disk", path("v3b.out"))
    assert same(f, path("v3b.out"))
    assert t.term() == 0


def test_source_that_changes():
    """The file is cut while it is pushed: the message says what the volume holds."""
    t = Target("v3c", {"disk": volume("v3c.disk", "64M")}).start()
    for way in ([], ["--pull"]):
        f = make_file("v3c.in", 32 * MIB, 6)
        p = t.cp_start(f, "weft://10.0.0.1/disk", args=["--rate", "16M", *way])
        while p.poll() is None and not at_source(p.pid, f, 2 * MIB):
            time.sleep(0.01)
        os.truncate(f, MIB)
        err = p.communicate(timeout=60)[1]
        assert p.returncode == 1 and "changed while it was read" in err and "is on the volume" in err, err
        assert "nothing was" not in err, err
    assert t.term() == 0


def test_durable_when_acknowledged():
    t = Target("v4", {"disk": volume("v4.disk", "64M")}).start()
    for way in ([], ["--pull"]):
        f = make_file("v4.in", 9 * MIB + 7, 6 + len(way))
        copied(t, *way, f, "weft://10.0.0.1/disk")
        t.kill()
        t.start()
        copied(t, "--length", str(os.path.getsize(f)), "weft://10.0.0.1/disk", path("v4.out"))
        assert same(f, path("v4.out"))
    assert t.term() == 0


def resident(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(x.split()[1]) for x in f if x.startswith(("Rss:",))) * 1024


def test_larger_than_memory():
    """30 GiB, and 1 TiB, of which some parts are written: the target's memory does not grow with them."""
    t = Target("v5", {"big": volume("v5.big", "30G"), "huge": volume("v5.huge", "1T")}).start()
    f = make_file("v5.in", 32 * MIB, 8)
    for name, at in (("big", "29G"), ("huge", "1000G"), ("big", "11G")):
        copied(t, "--offset", at, f, f"weft://10.0.0.1/{name}")
        copied(t, "--offset", at, "--length", "32M", f"weft://10.0.0.1/{name}", path("v5.out"))
        assert same(f, path("v5.out"))
    assert resident(t.proc.pid) < GIB, resident(t.proc.pid)
    assert t.term() == 0


def test_checksums_find_damage():
    t = Target("v6", {"disk": volume("v6.disk", "64M", checksums="yes")}).start()
    f = make_file("v6.in", 16 * MIB, 9)
    copied(t, f, "weft://10.0.0.1/disk")
    assert t.term() == 0
    with open(f, "rb") as i:
        i.seek(5 * MIB)
        mark = i.read(4096)
    with open(path("v6.disk"), "r+b") as d:
        at = d.read().find(mark)
        d.seek(at + 100)
        d.write(b"\xff\x00\xff")
    t.start()
    err = refused(t, "--length", "16M", "weft://10.0.0.1/disk", path("v6.out"))
    assert "checksum" in err, err
    assert not os.path.exists(path("v6.out"))
    # Blocks that are not damaged are read.
    copied(t, "--offset", "8M", "--length", "8M", "weft://10.0.0.1/disk", path("v6.out"))
    # It is good again when it is written.
    copied(t, f, "weft://10.0.0.1/disk")
    copied(t, "--length", "16M", "weft://10.0.0.1/disk", path("v6.out"))
    assert same(f, path("v6.out"))
    assert t.term() == 0


def test_scrub_reports_damage():
    t = Target("v7", {"disk": volume("v7.disk", "32M", checksums="yes", scrub="1000")}).start()
    f = make_file("v7.in", 8 * MIB, 10)
    copied(t, f, "weft://10.0.0.1/disk")
    assert t.term() == 0
    with open(f, "rb") as i:
        i.seek(MIB)
        mark = i.read(4096)
    with open(path("v7.disk"), "r+b") as d:
        at = d.read().find(mark)
        d.seek(at)
        d.write(b"damage")
    t.start()
    until(t, "DAMAGED")
    assert t.term() == 0


def flip(f, disk, at):
    """Change four octets of the file `disk`, of the block of the volume that has the octet `at` of the file f."""
    with open(f, "rb") as i:
        i.seek(at)
        mark = i.read(4096)
    with open(disk, "r+b") as d:
        d.seek(d.read().find(mark) + 100)
        d.write(bytes(b ^ 0xff for b in mark[100:104]))
        os.fsync(d.fileno())


def test_damage_after_a_crash():
    """Without `scrub`, too: what was written before a kill -9 is compared with checksums again, soon after the next start."""
    t = Target("v14", {"disk": volume("v14.disk", "32M", checksums="yes")}).start()
    f = make_file("v14.in", 8 * MIB, 17)
    copied(t, f, "weft://10.0.0.1/disk")
    t.kill()
    t.start()
    assert "in doubt: it was not closed" in t.logged(), t.logged()
    until(t, "export disk: what is read of 2 groups of 4 MiB is not compared with its checksums, which are in doubt")
    until(t, "export disk: no checksums are in doubt any more")
    # The file of a target that runs is lost when another program writes to it; what it wrote is found when it is served again.
    copied(t, "--length", "8M", "weft://10.0.0.1/disk", path("v14.out"))
    flip(f, path("v14.disk"), 5 * MIB)
    until(t, "was written to by another process")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "export disk: is served now")
    err = refused(t, "--length", "8M", "weft://10.0.0.1/disk", path("v14.out"))
    assert "checksum" in err, (err, t.logged())
    copied(t, "--length", "4M", "weft://10.0.0.1/disk", path("v14.out"))
    assert t.logged().count("no checksums are in doubt") == 1, t.logged()
    # A file that was cut could not be closed: what is left of it is in doubt until then.
    copied(t, f, "weft://10.0.0.1/disk")
    os.truncate(path("v14.disk"), 2 * MIB)
    until(t, "was cut")
    os.truncate(path("v14.disk"), 32 * MIB)
    t.proc.send_signal(signal.SIGHUP)
    until(t, "export disk: is served now", 2)
    until(t, "export disk: no checksums are in doubt any more", 2)
    copied(t, f, "weft://10.0.0.1/disk")
    assert t.term() == 0
    flip(f, path("v14.disk"), MIB)
    t.start()
    assert "checksum" in refused(t, "--length", "8M", "weft://10.0.0.1/disk", path("v14.out"))
    assert t.term() == 0


def test_what_is_not_a_volume():
    exports = {"disk": volume("v8.disk", "16M"), "obj": {"path": path("v8.obj"), "size": "16M"}}
    t = Target("v8", exports).start()
    f = make_file("v8.in", 1000, 11)
    assert "not a volume" in refused(t, "--offset", "0", f, "weft://10.0.0.1/obj")
    p = subprocess.run([app("weft-cp"), *t.client_args(), "--list", "weft://10.0.0.1"], capture_output=True, text=True,
                       timeout=30)
    assert p.returncode == 0 and "volume, direct I/O" in p.stdout, (p.stdout, p.stderr)
    assert t.term() == 0
    # Formats are not mistaken for each other, and nothing is overwritten.
    before = sha(path("v8.disk")), sha(path("v8.obj"))
    t = Target("v8x", {"a": {"path": path("v8.disk"), "size": "16M"}, "b": volume("v8.obj", "16M")})
    t.start(ok=False)
    assert t.proc.wait(timeout=20) == 1
    assert (sha(path("v8.disk")), sha(path("v8.obj"))) == before


def test_offline_and_back():
    t, tel = with_telemetry("v9", {"disk": volume("v9.disk", "16M"), "other": volume("v9.other", "16M")})
    f = make_file("v9.in", 4 * MIB, 12)
    copied(t, f, "weft://10.0.0.1/disk")
    info = tel.ask("/weft/target/export,disk")
    assert info["format"] == "volume" and info["served"] == 1 and info["device_octets_written"] > 0, info
    info = tel.ask("/weft/target/volumes")
    assert info["windows_opened"] > 0 and info["flushes"] > 0 and info["flushed_octets"] >= 4 * MIB, info
    os.rename(path("v9.disk"), path("v9.away"))
    until(t, "LOST")
    assert "is not served" in refused(t, f, "weft://10.0.0.1/disk")
    copied(t, f, "weft://10.0.0.1/other")
    os.rename(path("v9.away"), path("v9.disk"))
    until(t, "is there again")
    copied(t, "--length", "4M", "weft://10.0.0.1/disk", path("v9.out"))
    assert same(f, path("v9.out"))
    # A file that is cut is gone until it is opened again.
    os.truncate(path("v9.disk"), 2 * MIB)
    until(t, "was cut", 1)
    assert "is not served" in refused(t, f, "weft://10.0.0.1/disk")
    os.unlink(path("v9.disk"))
    t.proc.send_signal(signal.SIGHUP)
    until(t, "export disk: is served now")
    copied(t, f, "weft://10.0.0.1/disk")
    assert t.term() == 0


def cut_stays_out(persist):
    """A file that was cut is not made longer again by SIGHUP, weft-ctl or a start, whatever size says: the rest would be zeros."""
    cuts = {"half": 8 * MIB, "second": 65536, "first": 1000, "all": 0}
    exports = {e: volume(f"v14.{persist}.{e}", "16M", persist=persist) for e in (*cuts, "zeroed", "good")}
    file = {e: exports[e]["path"] for e in exports}
    t = Target(f"v14{persist}", exports).start()
    f = make_file("v14.in", 4 * MIB, 15)
    for e in ("half", "good"):
        copied(t, f, f"weft://10.0.0.1/{e}")
    for e, n in cuts.items():
        os.truncate(file[e], n)
        until(t, f"export {e}: LOST")
    os.truncate(file["zeroed"], 0)
    os.truncate(file["zeroed"], 16 * MIB)
    until(t, "export zeroed: LOST")
    t.proc.send_signal(signal.SIGHUP)
    for e in (*cuts, "zeroed"):
        until(t, f"export {e}: OFFLINE: {file[e]}: was cut")
        assert os.path.getsize(file[e]) == cuts.get(e, 16 * MIB), e
    assert t.logged().count("restore it from a backup") == len(cuts) + 1, t.logged()
    assert "was cut" in refused(t, f, "weft://10.0.0.1/half")
    # One loss is accepted, and one volume begins again.
    os.truncate(file["half"], 16 * MIB)
    os.unlink(file["all"])
    os.unlink(file["zeroed"])
    t.proc.send_signal(signal.SIGHUP)
    for e in ("half", "all", "zeroed"):
        until(t, f"export {e}: is served now")
    copied(t, "--length", "4M", "weft://10.0.0.1/half", path("v14.out"))
    assert same(f, path("v14.out"))
    assert t.term() == 0
    os.truncate(file["half"], 8 * MIB)
    edit(t, f"path = {file['good']}\nsize = 16M", f"path = {file['good']}\nsize = 32M")
    p = subprocess.run([app("weft-target"), "-c", t.conf, "--check-config"], capture_output=True, text=True, timeout=30)
    assert f"export half: {file['half']}: was cut" in p.stderr + p.stdout, p
    t.start()
    for e in ("half", "second", "first"):
        assert f"export {e}: OFFLINE: {file[e]}: was cut" in t.logged(), (e, t.logged())
        assert os.path.getsize(file[e]) == cuts[e], e
    # Growth belongs to a resize.
    assert "export good: size says 33554432, and its file keeps its 16777216" in t.logged(), t.logged()
    assert os.path.getsize(file["good"]) == 16 * MIB
    copied(t, "--length", "4M", "weft://10.0.0.1/good", path("v14.out"))
    assert same(f, path("v14.out"))
    assert t.term() == 0


def checked(t):
    """What --check-config says."""
    p = subprocess.run([app("weft-target"), "-c", t.conf, "--check-config"], capture_output=True, text=True, timeout=30)
    return p.stderr + p.stdout


def test_emptied_between_two_targets():
    """A file that had a volume of an earlier run is not formatted again, whatever size says, before it is removed."""
    exports = {e: volume(f"v20.{e}", "16M") for e in ("empty", "zeros", "first", "kept", "never")}
    file = {e: exports[e]["path"] for e in exports}
    t = Target("v20", exports).start()
    copied(t, make_file("v20.in", MIB, 21), "weft://10.0.0.1/empty")
    assert t.term() == 0
    os.truncate(file["empty"], 0)
    for e in ("zeros", "first"):
        os.truncate(file[e], 0)
        os.truncate(file[e], 16 * MIB if e == "zeros" else 512)
    os.unlink(file["never"])
    os.close(os.open(file["never"], os.O_CREAT))
    said = checked(t)
    t.start()
    for e in ("empty", "zeros", "first"):
        want = f"export {e}: OFFLINE: {file[e]}: was cut, emptied or overwritten: it had the volume "
        assert want in t.logged() and want.replace("OFFLINE: ", "") in said, (e, said, t.logged())
        assert "not touched; restore it from a backup, or remove it" in t.logged(), t.logged()
    assert [os.path.getsize(file[e]) for e in ("empty", "zeros", "first")] == [0, 16 * MIB, 512]
    for e in ("kept", "never"):
        assert f"export {e}: {file[e]}" in t.logged(), t.logged()
    for e in ("empty", "zeros", "first"):
        os.unlink(file[e])
    t.proc.send_signal(signal.SIGHUP)
    for e in ("empty", "zeros", "first"):
        until(t, f"export {e}: is served now")
    assert t.term() == 0


def test_cut_stays_out_file():
    cut_stays_out("file")


def test_cut_stays_out_pmem():
    cut_stays_out("pmem")


def test_block_device():
    """A block device instead of a file: as long as it is, and not touched if something else lies on it."""
    back = path("v11.back")
    with open(back, "wb") as f:
        f.truncate(64 * MIB)
    got = subprocess.run(["losetup", "-f", "--show", back], capture_output=True, text=True)
    if got.returncode != 0:
        raise Skip(f"no loop device: {got.stderr.strip()}")
    dev = got.stdout.strip()
    try:
        t = Target("v11", {"disk": {"path": dev, "format": "volume"}}).start()
        assert "block device" in t.logged(), t.logged()
        f = make_file("v11.in", 9 * MIB + 5, 14)
        for way in ([], ["--pull"]):
            copied(t, *way, "--offset", "12345", f, "weft://10.0.0.1/disk")
            t.kill()
            t.start()
            copied(t, "--offset", "12345", "--length", str(os.path.getsize(f)), "weft://10.0.0.1/disk", path("v11.out"))
            assert same(f, path("v11.out"))
        assert t.term() == 0
        subprocess.run(["mkfs.ext4", "-qF", dev], check=True, capture_output=True)
        before = sha(back)
        t.start(ok=False)
        assert t.proc.wait(timeout=20) == 1 and "ext" in t.logged(), t.logged()
        assert sha(back) == before
    finally:
        end_all()
        subprocess.run(["losetup", "-d", dev], check=False)


def test_why_not_opened():
    """The line says what is the matter: the configuration, a newer format, or damage."""
    t = Target("v17", {e: volume(f"v17.{e}", "16M") for e in ("size", "newer", "damaged", "good")}).start()
    assert t.term() == 0
    edit(t, f"path = {path('v17.size')}\nsize = 16M", f"path = {path('v17.size')}\nsize = 8M")
    with open(path("v17.newer"), "r+b") as f:
        page = b"WEFTVOL1\0\0\0\2" + bytes(4080)
        f.write(page + crc32c(page).to_bytes(4, "big"))
    with open(path("v17.damaged"), "r+b") as f:
        for at in (0, 65536):
            f.seek(at + 100)
            f.write(b"damage")
    before = {e: sha(path(f"v17.{e}")) for e in ("size", "newer", "damaged")}
    why = {"size": "has a volume that needs 16777216 octets, and size says 8388608: let it say 16777216, or leave it out",
           "newer": "cannot be opened as a volume: its format is version 2, and this program knows version 1",
           "damaged": "cannot be opened as a volume: the CRC of its superblock is wrong; of the copy: the CRC of its superblock is wrong; "
                      "weft-fsck says what can be done"}
    p = subprocess.run([app("weft-target"), "-c", t.conf, "--check-config"], capture_output=True, text=True, timeout=30)
    t.start()
    for e, w in why.items():
        assert f"export {e}: OFFLINE: {path('v17.' + e)}: {w};" in t.logged(), (e, t.logged())
        assert f"export {e}: {path('v17.' + e)}: {w};" in p.stderr, (e, p.stderr)
    assert t.term() == 0
    assert {e: sha(path(f"v17.{e}")) for e in before} == before


def data_behind(persist):
    """A file without a superblock that has data anywhere is not formatted; one of holes, or of zeros, is."""
    t = Target(f"v18{persist}", {e: volume(f"v18.{persist}.{e}", "16M", persist=persist) for e in ("lost", "data", "holes", "zeros")})
    file = {e: path(f"v18.{persist}.{e}") for e in ("lost", "data", "holes", "zeros")}
    for e in ("data", "holes", "zeros"):
        with open(file[e], "wb") as f:
            f.write(bytes(16 * MIB if e == "zeros" else 4096))
            f.truncate(16 * MIB)
            if e == "data":
                f.seek(16 * MIB - 1)
                f.write(b"!")
    before = sha(file["data"])
    t.start()
    assert f"export data: OFFLINE: {file['data']}: has no volume, and data that is not zero; not touched" in t.logged(), t.logged()
    copied(t, make_file("v18.in", MIB, 19), "weft://10.0.0.1/lost")
    assert t.term() == 0
    # Both copies of a superblock are gone, and the data is not.
    with open(file["lost"], "r+b") as f:
        f.write(bytes(MIB))
    lost = sha(file["lost"])
    p = subprocess.run([app("weft-target"), "-c", t.conf, "--check-config"], capture_output=True, text=True, timeout=30)
    t.start()
    for e, why in (("lost", "was cut, emptied or overwritten: it had the volume "), ("data", "has no volume, and data")):
        assert f"export {e}: OFFLINE: {file[e]}: {why}" in t.logged(), t.logged()
        assert f"export {e}: {file[e]}: {why}" in p.stderr, p.stderr
    for e in ("holes", "zeros"):
        assert f"export {e}: OFFLINE" not in t.logged(), t.logged()
    assert (sha(file["data"]), sha(file["lost"])) == (before, lost)
    os.truncate(file["data"], 0)
    t.proc.send_signal(signal.SIGHUP)
    until(t, "export data: is served now")
    assert t.term() == 0


def test_data_behind_file():
    data_behind("file")


def test_data_behind_pmem():
    data_behind("pmem")


def test_read_only_file():
    """A file that takes no writes is served where rights leave them out, and the refusal says so."""
    t = Target("v15", {"ro": volume("v15.ro", "16M"), "other": volume("v15.other", "16M")}).start()
    f = make_file("v15.in", 2 * MIB, 17)
    copied(t, f, "weft://10.0.0.1/ro")
    assert t.term() == 0
    file, before = path("v15.ro"), sha(path("v15.ro"))
    got = subprocess.run(["chattr", "+i", file], capture_output=True, text=True)
    if got.returncode != 0:
        raise Skip(f"no immutable files: {got.stderr.strip()}")
    try:
        t.start()
        assert "ro: cannot be opened for writing: Operation not permitted; rights = read,verify serves it" in t.logged(), t.logged()
        assert t.term() == 0
        edit(t, f"path = {file}", f"rights = read,verify\npath = {file}")
        t.start()
        assert "grants read,verify; opened to be read only" in t.logged(), t.logged()
        copied(t, "--length", "2M", "weft://10.0.0.1/ro", path("v15.out"))
        assert same(f, path("v15.out"))
        assert t.term() == 0
    finally:
        end_all()
        subprocess.run(["chattr", "-i", file], check=False)
    assert sha(file) == before


def written(dev, at, octets):
    with open(dev, "r+b") as f:
        f.seek(at)
        f.write(octets)


def wiped(*mkfs):
    """A format of another program whose first MiB was cleared."""
    def make(dev):
        if not shutil.which(mkfs[0]):
            return False
        subprocess.run([*mkfs, dev], check=True, capture_output=True)
        written(dev, 0, bytes(MIB))
        return True
    return make


def lies(at, octets):
    def make(dev):
        written(dev, at, octets)
        return True
    return make


DEVICE_BYTES = 320 * MIB
BEHIND = {
    "ext4.1k": wiped("mke2fs", "-qF", "-t", "ext4", "-b", "1024"), "ext4.4k": wiped("mke2fs", "-qF", "-t", "ext4", "-b", "4096"),
    "xfs": wiped("mkfs.xfs", "-qf"), "btrfs": wiped("mkfs.btrfs", "-qf"), "gpt": wiped("sgdisk", "-o"),
    "md0.90": lies(DEVICE_BYTES - 65536, b"\xfc\x4e\x2b\xa9"), "md1.0": lies(DEVICE_BYTES - 8192, b"\xfc\x4e\x2b\xa9"),
    "last": lies(DEVICE_BYTES - 1, b"!"), "middle": lies(DEVICE_BYTES // 2, os.urandom(2 * MIB)), "zero": lies(0, b"\0"),
}


def test_block_device_that_was_used():
    """A device whose beginning is zero is looked at behind it, too, and is not formatted where there is anything."""
    with made() as m:
        devs = {}
        for name, make in BEHIND.items():
            dev = m.loop(path(f"v21.{name}"), DEVICE_BYTES)
            if make(dev):
                devs[name] = dev
        assert len(devs) >= 4, devs
        t = m.use(Target("v21", {n: {"path": dev, "format": "volume"} for n, dev in devs.items()}))
        said = checked(t)
        t.start()
        for name, dev in devs.items():
            if name == "zero":
                continue
            assert f"export {name}: {dev}: has no volume, and data at octet" in said, (name, said)
            assert f"export {name}: OFFLINE: {dev}: cannot be formatted as a volume: the device has data at octet" in t.logged(), name
            with open(dev, "rb") as f:
                assert not any(f.read(MIB)), name
        assert "not touched; if it may be formatted, clear it (blkdiscard -z)" in t.logged(), t.logged()
        assert f"export zero: {devs['zero']}" in t.logged() and t.logged().count("; new") == 1, t.logged()
        subprocess.run(["blkdiscard", "-z", devs["last"]], check=True)
        t.proc.send_signal(signal.SIGHUP)
        until(t, "export last: is served now")
        assert t.term() == 0
        print(f"# {', '.join(devs)}", flush=True)


def test_read_only_device():
    """A block device that takes no writes grants read,verify alone, whatever its export says."""
    t = Target("v16", {"disk": volume("v16.back", "16M")}).start()
    f = make_file("v16.in", 2 * MIB, 18)
    copied(t, f, "weft://10.0.0.1/disk")
    assert t.term() == 0
    got = subprocess.run(["losetup", "-r", "-f", "--show", path("v16.back")], capture_output=True, text=True)
    if got.returncode != 0:
        raise Skip(f"no loop device: {got.stderr.strip()}")
    dev = got.stdout.strip()
    try:
        t = Target("v16", {"disk": {"path": dev, "format": "volume"}}).start()
        assert "grants read,verify; opened to be read only" in t.logged(), t.logged()
        copied(t, "--length", "2M", "weft://10.0.0.1/disk", path("v16.out"))
        assert same(f, path("v16.out"))
        assert "only read,verify" in refused(t, f, "weft://10.0.0.1/disk")
        assert t.term() == 0
    finally:
        end_all()
        subprocess.run(["losetup", "-d", dev], check=False)


def test_end_with_scrubs():
    """A program that scrubs ends at once, and closes its volumes properly."""
    t = Target("v12", {f"d{i}": volume(f"v12.{i}", "32M", checksums="yes", scrub="1000") for i in range(8)}).start()
    copied(t, make_file("v12.in", 8 * MIB, 15), "weft://10.0.0.1/d3")
    begin = time.monotonic()
    assert t.term() == 0
    assert time.monotonic() - begin < 5 and "does not answer" not in t.logged() and "could not" not in t.logged(), t.logged()
    t.start()
    assert "in doubt" not in t.logged(), t.logged()
    assert t.term() == 0


def test_without_flush():
    """A volume in memory has no Flush: it is pushed to by calls."""
    t = Target("v13", {"ram": {"format": "volume", "persist": "volatile", "size": "32M"}, "disk": volume("v13.disk", "32M")})
    t.start()
    f = make_file("v13.in", 5 * MIB + 3, 16)
    assert "only read,write,verify is granted" in refused(t, f, "weft://10.0.0.1/ram")
    for name in ("ram", "disk"):
        r = copied(t, "--json", "--no-flush", f, f"weft://10.0.0.1/{name}")
        assert r["verified"] and not r["flushed"], r
        copied(t, "--length", str(os.path.getsize(f)), f"weft://10.0.0.1/{name}", path("v13.out"))
        assert same(f, path("v13.out"))
    assert t.term() == 0


def test_no_memory_for_staging():
    t = Target("v14", {"disk": volume("v14.disk", "32M")}, extra="staging = 8000T").start(ok=False)
    assert t.proc.wait(timeout=20) == 1 and "not enough memory" in t.logged(), t.logged()


def test_becomes_a_volume():
    """The memory of volumes is made with the first volume, while clients use other exports."""
    t = Target("v15", {"a": {"path": path("v15.a"), "size": "16M"}, "b": {"path": path("v15.none/b"), "size": "16M"}}).start()
    edit(t, f"path = {path('v15.none/b')}\nsize = 16M", f"path = {path('v15.b')}\nsize = 16M\nformat = volume")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "export b: is served now")
    f = make_file("v15.in", 1000, 17)
    for e in ("a", "b"):
        copied(t, f, f"weft://10.0.0.1/{e}")
    copied(t, "--length", "1000", "weft://10.0.0.1/b", path("v15.out"))
    assert same(f, path("v15.out"))
    assert t.term() == 0


def test_rights():
    t = Target("v10", {"ro": volume("v10.disk", "16M", rights="read")}).start()
    f = make_file("v10.in", 1000, 13)
    assert "only read is granted" in refused(t, f, "weft://10.0.0.1/ro")
    copied(t, "--length", "1M", "weft://10.0.0.1/ro", path("v10.out"))
    assert t.term() == 0


def test_example():
    """The program of docs/programming.md: by calls, by a window, and with a name that no export has."""
    t = Target("v11", {"disk": volume("v11.disk", "16M"), "ro": volume("v11.ro", "16M", rights="read")}).start()

    def example(name, host):
        return subprocess.run([os.path.join(APPS, "examples", "example-volume"), memif(0, "client", t.sock(0)), f"10.0.0.{host}/24",
                               "10.0.0.1", name], capture_output=True, text=True, timeout=60)
    r = example("disk", 2)
    assert r.returncode == 0, r.stderr
    assert r.stdout.splitlines()[1:] == ["read back: written by a call", "the medium has it, says crc32c",
                                         "read back: written by a window"], r.stdout
    r = example("none", 3)
    assert r.returncode == 1 and r.stderr.startswith("volume none: No such file or directory"), r.stderr
    r = example("ro", 4)  # it writes, and says where it fails
    assert r.returncode == 1 and "weft_volume_write" in r.stderr, r.stderr
    assert t.term() == 0
    with open(path("v11.disk"), "rb") as f:
        f.seek(MIB)
        assert f.read(19) == b"written by a window"


if __name__ == "__main__":
    main([test_push_and_pull, test_any_range, test_sparse_stays_sparse, test_holes_are_verified, test_source_that_changes,
          test_durable_when_acknowledged, test_larger_than_memory, test_checksums_find_damage, test_scrub_reports_damage,
          test_damage_after_a_crash, test_what_is_not_a_volume, test_offline_and_back, test_emptied_between_two_targets,
          test_cut_stays_out_file, test_cut_stays_out_pmem, test_block_device, test_block_device_that_was_used,
          test_why_not_opened, test_data_behind_file, test_data_behind_pmem, test_read_only_file, test_read_only_device,
          test_end_with_scrubs, test_without_flush, test_no_memory_for_staging, test_becomes_a_volume, test_rights, test_example])
