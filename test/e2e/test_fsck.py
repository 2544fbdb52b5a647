#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-fsck on media that weft-target and its clients wrote: clean after each end, refused while served, mended, served again.
test_fsck.py BUILD [CASE...]"""
import hashlib
import json
import os
import pty
import subprocess

from test_kill_log import EXE, Host, Writer
from weft_e2e import Target, app, main, make_file, path, run, sha

MIB = 1 << 20


def fsck(*args, status=None):
    """Exit status, standard output, standard error."""
    rc, out, err = run([app("weft-fsck"), *args])
    assert status is None or rc == status, (rc, out, err)
    return rc, out, err


def report(p, *args, status):
    r = json.loads(fsck("--json", *args, p, status=status)[1])
    assert r["status"] == status and r["medium"] == p, r
    return r


def damage(p, at, octets):
    with open(p, "r+b") as f:
        f.seek(at)
        f.write(octets)


def shape(p):
    st = os.stat(p)
    with open(p, "rb") as f:
        return st.st_mtime_ns, st.st_ctime_ns, st.st_size, st.st_blocks, hashlib.file_digest(f, "sha256").hexdigest()


def exports(name):
    return {"disk": {"path": path(f"{name}.disk"), "size": "24M", "format": "volume", "checksums": "yes"},
            "file": {"path": path(f"{name}.file"), "size": "8M", "persist": "file"}}


def test_served_media_are_clean():
    """After SIGTERM and after kill -9. While it is served a medium is refused with one line, and not changed."""
    t = Target("fs1", exports("fs1")).start()
    disk, obj = path("fs1.disk"), path("fs1.file")
    for n, end in enumerate((t.term, t.kill)):
        rc, _, err = t.cp(make_file("fs1.in", 9 * MIB + 77, n), "weft://10.0.0.1/disk", timeout=120)
        assert rc == 0, err
        t.push(make_file("fs1.obj", 2 * MIB + 5, n), "file")
        for p in (disk, obj):
            for args in ([], ["--repair"]):
                _, out, err = fsck(*args, p, status=8)
                assert out == "" and err.count("\n") == 1 and "in use" in err, (out, err)
        end()
        before = shape(disk), shape(obj)
        r = report(obj, status=0)
        assert r["format"] == "object" and r["verdict"] == "clean" and r["findings"] == []
        r = report(disk, "--data", status=fsck("--data", disk)[0])
        assert r["status"] in ((0,), (0, 4))[n], r
        assert r["format"] == "volume" and r["damaged"] == 0, r
        assert before == (shape(disk), shape(obj))
        assert (n == 1) == any(f["state"] == "note" and "not closed" in f["what"] for f in r["findings"]), r
        if n == 0:
            t.start()
    # What a scrub would do, and nothing is in doubt any more.
    fsck("--repair", "--data", disk, status=1)
    assert report(disk, "--data", status=0)["findings"] == []
    t.start()
    rc, _, err = t.cp("weft://10.0.0.1/disk", path("fs1.out"), args=["--length", str(9 * MIB + 77)], timeout=120)
    assert rc == 0 and sha(path("fs1.out")) == sha(path("fs1.in")), err
    assert t.term() == 0


def test_volume_mended():
    """A superblock whose first octets were lost: the target refuses it, and serves it when it is mended."""
    t = Target("fs2", exports("fs2")).start()
    rc, _, err = t.cp(make_file("fs2.in", 5 * MIB, 3), "weft://10.0.0.1/disk", timeout=120)
    assert rc == 0, err
    assert t.term() == 0
    disk = path("fs2.disk")
    whole = shape(disk)[4]
    damage(disk, 0, b"lost" * 100)
    before = shape(disk)
    _, out, _ = fsck(disk, status=4)
    assert "mendable  octet 0, 4096 long:" in out and "consequence:" in out and "to do: --repair" in out, out
    assert shape(disk) == before
    _, out, _ = fsck("-r", disk, status=1)
    assert out.startswith("mended"), out
    assert shape(disk)[4] == whole
    fsck("--repair", disk, status=0)
    # A block of data: named by its octets in the volume, and left.
    damage(disk, 6 * MIB + 8192 + 5, b"\xff\xfe")
    r = report(disk, "--data", "--repair", status=4)
    assert [f["state"] for f in r["findings"]] == ["damaged"] and "octets 8192 to 12287" in r["findings"][0]["what"], r
    t.start()
    rc, _, err = t.cp("weft://10.0.0.1/disk", path("fs2.out"), args=["--offset", "1M", "--length", "1M"])
    assert rc == 0, err
    assert t.term() == 0


def test_object_goes_back():
    t = Target("fs3", exports("fs3")).start()
    obj = path("fs3.file")
    files = [make_file(f"fs3.{i}", MIB + i, 10 + i) for i in range(3)]
    for f in files:
        t.push(f, "file")
    assert t.term() == 0
    # The third push is in slot 0. A bit of its data changes.
    damage(obj, 8192 + 4096 + 1000, b"\x00\x01\x02")
    _, out, _ = fsck("--repair", obj, status=4)
    assert "--previous" in out, out
    fsck("--repair", "--previous", obj, status=1)
    fsck(obj, status=0)
    t.start()
    assert sha(t.pull("file", "fs3.out")) == sha(files[1])
    assert t.term() == 0
    # The word alone.
    damage(obj, 4096, b"\x70")
    fsck("--repair", obj, status=4)  # slot 0 is damaged, so nothing proves which slot it named


def test_log_is_clean():
    """The medium of a log, whose host is killed while a writer appends."""
    h = Host("fs4", EXE)
    h.start()
    for addr in (2, 3):
        w = Writer(h, addr, 8, False)
        w.connected()
        w.wait(lambda: w.acks > 200)
        if addr == 2:
            w.kill()
        else:
            h.kill()
            w.kill()
        w.gone()
    r = report(h.medium, status=0)
    assert r["format"] == "log" and "one of 1 targets" in r["about"] and r["findings"] == [], r
    damage(h.medium, 0, b"\x01\x02")
    fsck("--repair", h.medium, status=1)
    fsck(h.medium, status=0)
    damage(h.medium, 4160, b"\xaa\xaa")
    r = report(h.medium, "--repair", status=4)
    assert r["findings"][0]["offset"] == 4160 and "tail" in r["findings"][0]["what"], r


def test_command_line():
    for args, words in ((["--nonsense"], "unknown option"), ([], "no medium"), (["a", "b"], "one medium"),
                        (["--previous", "a"], "--repair"), (["--format", "tar", "a"], "object, log or volume")):
        _, out, err = fsck(*args, status=16)
        assert out == "" and err.count("\n") == 1 and words in err, err
    for p, words in ((path("none"), "No such file"), ("/", "neither a file"), ("/etc/passwd", "not an export of weft"),
                     ("/dev/null", "character device")):
        _, out, err = fsck(p, status=8)
        assert out == "" and err.count("\n") == 1 and words in err, err
    assert json.loads(fsck("--json", "/etc/passwd", status=8)[1])["error"].startswith("not an export")
    fifo = path("fs.fifo")
    os.mkfifo(fifo)
    assert "neither a file" in fsck(fifo, status=8)[2]


def test_progress():
    """A bar on a terminal, and none elsewhere or with --quiet."""
    big = path("fs.big")
    t = Target("fs5", {"disk": {"path": big, "size": "1G", "format": "volume", "checksums": "yes"}}).start()
    assert t.term() == 0
    with open(big, "r+b") as f:  # data that is not a hole, so that reading takes a while
        f.seek(64 * MIB)
        for _ in range(600):
            f.write(bytes(MIB))
    for args, bar in (([], True), (["--quiet"], False)):
        main_fd, side = pty.openpty()
        p = subprocess.Popen([app("weft-fsck"), "--data", *args, big], stdout=subprocess.PIPE, stderr=side)
        os.close(side)
        seen = b""
        try:
            while chunk := os.read(main_fd, 4096):
                seen += chunk
        except OSError:
            pass
        os.close(main_fd)
        assert p.wait() == 0 and b"clean" in p.stdout.read()
        assert (b"%" in seen) == bar, seen


if __name__ == "__main__":
    main([test_served_media_are_clean, test_volume_mended, test_object_goes_back, test_log_is_clean, test_command_line,
          test_progress])
