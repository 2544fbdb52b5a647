#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-target and weft-cp over memif: the main job, crashes, two ports. test_main_job.py BUILD [CASE...]"""
import os
import struct
import subprocess
import threading
import time

from weft_e2e import BUILD, PROCS, Skip, Target, main, make_file, memif, path, sha

MIB = 1 << 20


def slot_data_offset(medium, slot):
    """Where a slot's data begins in the medium, from the superblock (docs/export-format.md)."""
    with open(medium, "rb") as f:
        page = f.read(4096)
    assert page[:8] == b"WEFTEXP1"
    return SLOT_OFF(page, slot) + 4096


def SLOT_OFF(page, slot):
    return struct.unpack_from(">Q", page, 32 + 8 * slot)[0]


def wait_medium(medium, off, proc, timeout=30):
    """Until the octets at off are not zero any more; False when proc ended first."""
    end = time.monotonic() + timeout
    with open(medium, "rb", buffering=0) as f:
        while time.monotonic() < end:
            f.seek(off)
            if f.read(8) != bytes(8):
                return True
            if proc.poll() is not None:
                return False
    raise AssertionError("no progress was seen in the medium")


def test_push_pull():
    """Content arrives and comes back; the report says what it should."""
    t = Target("pp", {"demo": {"path": path("pp.exp"), "size": "40M"}}).start()
    src = make_file("pp.src", 5 * MIB + 12345, 1)
    r = t.push(src, "demo")
    for key in ("bytes", "seconds", "mb_per_s", "block_latency_us", "commit_us", "hash", "mechanism"):
        assert key in r, f"the report has no {key}: {r}"
    assert r["bytes"] == os.path.getsize(src)
    out = t.pull("demo", "pp.out")
    assert sha(out) == sha(src)
    assert t.term() == 0


def test_sizes():
    """Empty, one octet, odd, exact blocks."""
    t = Target("sz", {"demo": {"path": path("sz.exp"), "size": "8M"}}).start()
    for i, size in enumerate((0, 1, 4095, 4096, 262144, 262145, 1000003)):
        src = make_file("sz.src", size, 100 + i)
        t.push(src, "demo")
        assert sha(t.pull("demo", "sz.out")) == sha(src), size
    assert t.term() == 0


def test_restart_finds_exports():
    t = Target("re", {"demo": {"path": path("re.exp"), "size": "16M"}}).start()
    src = make_file("re.src", 2 * MIB, 2)
    t.push(src, "demo")
    assert t.term() == 0
    t.start()
    assert sha(t.pull("demo", "re.out")) == sha(src)
    t.kill()
    t.start()
    assert sha(t.pull("demo", "re.out")) == sha(src)
    assert t.term() == 0


def kill_during_push(t, export, medium, committed, second, slot, where):
    """Kill the target when `where` (0..1) of the second push is on the medium; True if it was in time."""
    size = os.path.getsize(second)
    off = slot_data_offset(medium, slot) + int((size - 8) * where) // 4096 * 4096
    p = t.cp_start(second, f"weft://10.0.0.1/{export}")
    seen = wait_medium(medium, off, p)
    t.kill()
    out, err = p.communicate(timeout=60)
    if seen and p.returncode != 0:
        assert err.strip().count("\n") == 0, f"not one line: {err}"
        return True
    return False


def test_kill_during_push():
    """kill -9 in the middle of a push: what is found afterwards is the last committed content."""
    for where in (0.1, 0.5, 0.8):
        medium = path("kd.exp")
        if os.path.exists(medium):
            os.unlink(medium)
        t = Target("kd", {"demo": {"path": medium, "size": "140M"}}).start()
        first = make_file("kd.1", 5 * MIB + 77, 3)
        second = make_file("kd.2", 64 * MIB, 4)
        r = t.push(first, "demo")
        assert kill_during_push(t, "demo", medium, first, second, 1 - r["slot"], where), \
            "the push was over before the kill"
        t.start()
        assert sha(t.pull("demo", "kd.out")) == sha(first), where
        # And the export is still good for the next one.
        t.push(second, "demo")
        t.kill()
        t.start()
        assert sha(t.pull("demo", "kd.out")) == sha(second)
        assert t.term() == 0


def test_kill_after_commit():
    """What was acknowledged is there after kill -9, every time."""
    t = Target("ka", {"demo": {"path": path("ka.exp"), "size": "16M"}})
    for i in range(4):
        t.start()
        src = make_file("ka.src", 1 * MIB + i, 10 + i)
        t.push(src, "demo")
        t.kill()
        t.start()
        assert sha(t.pull("demo", "ka.out")) == sha(src)
        t.kill()


def test_broken_flush_is_caught():
    """A stack whose Flush does nothing: Verify refuses the push; without Verify the kill shows the loss."""
    env = {"WEFT_TEST_DROP_FLUSH": "1"}
    t = Target("bf", {"demo": {"path": path("bf.exp"), "size": "16M"}}, env=env).start()
    src = make_file("bf.src", 2 * MIB, 20)
    rc, out, err = t.cp(src, "weft://10.0.0.1/demo")
    assert rc != 0 and "verify failed" in err.lower(), f"Verify did not notice: {rc} {err}"
    t.kill()
    t.start()
    rc, out, err = t.cp(src, "weft://10.0.0.1/demo", args=["--no-verify"])
    assert rc == 0, err
    t.kill()
    t.start()
    rc, out, err = t.cp("weft://10.0.0.1/demo", path("bf.out"))
    assert rc != 0 or sha(path("bf.out")) != sha(src), "acknowledged content survived a Flush that does nothing"
    t.kill()


def test_two_ports():
    """A target with two ports serves two clients at once; the second writer of one export is refused."""
    t = Target("tp", {"a": {"path": path("tp.a"), "size": "40M"}, "b": {"path": path("tp.b"), "size": "40M"}},
               ports=2).start()
    sa = make_file("tp.sa", 12 * MIB, 30)
    sb = make_file("tp.sb", 12 * MIB, 31)
    errs = []

    def push(src, export, port):
        try:
            t.push(src, export, port=port)
        except BaseException as e:  # noqa: BLE001
            errs.append(e)

    th = [threading.Thread(target=push, args=(sa, "a", 0)), threading.Thread(target=push, args=(sb, "b", 1))]
    for x in th:
        x.start()
    for x in th:
        x.join()
    assert not errs, errs
    assert sha(t.pull("a", "tp.out", port=1)) == sha(sa)
    assert sha(t.pull("b", "tp.out", port=0)) == sha(sb)
    assert t.term() == 0


def test_second_writer():
    """Busy while the first writer lives; granted once it died without a word."""
    medium = path("sw.exp")
    t = Target("sw", {"demo": {"path": medium, "size": "80M"}}, ports=2, keepalive_ms=300).start()
    big = make_file("sw.big", 20 * MIB, 40)
    small = make_file("sw.small", 100000, 41)
    first = t.cp_start(big, "weft://10.0.0.1/demo", args=["--rate", "1M"])
    # An export that was never written holds generation 0: the first object goes to one of the two slots.
    offs = [slot_data_offset(medium, i) for i in (0, 1)]
    end = time.monotonic() + 20
    with open(medium, "rb", buffering=0) as f:
        while not any(f.seek(o) >= 0 and f.read(8) != bytes(8) for o in offs):
            assert time.monotonic() < end and first.poll() is None, "the first writer never began"
    rc, out, err = t.cp(small, "weft://10.0.1.1/demo", port=1, args=["--wait", "0"])
    assert first.poll() is None, "the first writer was done too soon"
    assert rc != 0 and "busy" in err.lower(), f"{rc} {err}"
    assert err.strip().count("\n") == 0, err
    first.kill()
    first.wait()
    end = time.monotonic() + 15
    while True:
        rc, out, err = t.cp(small, "weft://10.0.1.1/demo", port=1)
        if rc == 0:
            break
        assert "busy" in err.lower(), err
        assert time.monotonic() < end, "the grant of a dead writer never ended"
        time.sleep(0.1)
    assert sha(t.pull("demo", "sw.out", port=1)) == sha(small)
    assert t.term() == 0


def probe(t, port, addr):
    p = subprocess.Popen([os.path.join(BUILD, "test", "e2e", "grant_probe"), memif(0, "client", t.sock(port)),
                          f"10.0.{port}.{addr}/24", f"10.0.{port}.1", "demo"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    PROCS.append(p)
    line = p.stdout.readline()
    assert line.startswith("granted"), line + p.stderr.read()
    return p, *line.split()[1:]


def ask(p, line):
    p.stdin.write(line + "\n")
    p.stdin.flush()
    return p.stdout.readline().strip()


def test_stag_of_a_dead_writer():
    """Its STag resolves no more once the export is granted again; and never below another connection."""
    for workers in ("", "[worker w0]\nports = p0\n[worker w1]\nports = p1\n"):
        t = Target("st", {"demo": {"path": path("st.exp"), "size": "4M"}}, ports=2, keepalive_ms=300,
                   extra=workers).start()
        first, stag1, to = probe(t, 0, 2)
        assert ask(first, f"write {stag1} {to}") == "ok"
        # A reader's connection may not use it while it lives: STag not associated with the stream.
        first.kill()
        first.wait()
        second, stag2, to = probe(t, 1, 2)
        assert stag2 != stag1
        assert ask(second, f"write {stag2} {to}") == "ok"
        assert ask(second, f"write {stag1} {to}") == "1/1/00", "the old STag was not refused as invalid"
        second.kill()
        second.wait()
        assert t.term() == 0


def test_reader_during_writes():
    """A reader never returns a torn object while a writer replaces it again and again."""
    t = Target("rw", {"demo": {"path": path("rw.exp"), "size": "16M"}}, ports=2).start()
    files = [make_file(f"rw.{i}", 2 * MIB, 50 + i) for i in range(2)]
    good = {sha(f) for f in files}
    t.push(files[0], "demo")
    stop = threading.Event()
    errs = []

    def writer():
        i = 0
        try:
            while not stop.is_set():
                i += 1
                t.push(files[i % 2], "demo")
        except BaseException as e:  # noqa: BLE001
            errs.append(e)

    w = threading.Thread(target=writer)
    w.start()
    try:
        for _ in range(6):
            assert sha(t.pull("demo", "rw.out", port=1)) in good
    finally:
        stop.set()
        w.join()
    assert not errs, errs
    assert t.term() == 0


def test_target_dies_during_pull():
    t = Target("dp", {"demo": {"path": path("dp.exp"), "size": "600M"}}).start()
    src = make_file("dp.src", 200 * MIB, 60)
    t.push(src, "demo")
    dst = path("dp.out")
    p = t.cp_start("weft://10.0.0.1/demo", dst)
    time.sleep(0.35)
    t.kill()
    out, err = p.communicate(timeout=60)
    if p.returncode == 0:
        raise Skip("the pull was over before the kill")
    assert err.strip().count("\n") == 0, err
    assert not os.path.exists(dst), "half a file was left"


if __name__ == "__main__":
    main([test_push_pull, test_sizes, test_restart_finds_exports, test_kill_during_push,
          test_kill_after_commit, test_broken_flush_is_caught, test_two_ports, test_second_writer,
          test_stag_of_a_dead_writer, test_reader_during_writes, test_target_dies_during_pull])
