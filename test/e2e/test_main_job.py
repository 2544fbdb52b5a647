#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-target and weft-cp over memif: the main job, crashes, two ports. test_main_job.py BUILD [CASE...]"""
import json
import os
import struct
import subprocess
import time

from weft_e2e import BUILD, PROCS, Target, app, main, make_file, memif, path, run, sha

MIB = 1 << 20


def slot_data_offset(medium, slot):
    """Offset of a slot's data in the medium, from the superblock (docs/export-format.md)."""
    with open(medium, "rb") as f:
        page = f.read(4096)
    assert page[:8] == b"WEFTEXP1"
    return SLOT_OFF(page, slot) + 4096


def SLOT_OFF(page, slot):
    return struct.unpack_from(">Q", page, 32 + 8 * slot)[0]


def wait_medium(medium, off, proc, timeout=30):
    """Wait until the octets at off are not zero. Returns False if proc ended first."""
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
    """Content is pushed and pulled, and the report has the right values."""
    t = Target("pp", {"demo": {"path": path("pp.exp"), "size": "40M"}}).start()
    src = make_file("pp.src", 5 * MIB + 12345, 1)
    r = t.push(src, "demo")
    for key in ("bytes", "seconds", "mb_per_s", "block_latency_us", "commit_us", "hash", "mechanism"):
        assert key in r, f"the report has no {key}: {r}"
    assert r["bytes"] == os.path.getsize(src)
    out = t.pull("demo", "pp.out")
    assert sha(out) == sha(src)
    assert t.term() == 0


def test_hashes():
    """Every hash that an export may name, and the key of the hash that needs one."""
    key, other = path("hash.key"), path("hash.key2")
    for name, seed in ((key, b"k"), (other, b"o")):
        with open(name, "wb") as f:
            f.write(seed * 40)
        os.chmod(name, 0o600)
    names = ["crc32c", "crc64-ecma-182", "crc64-xz", "crc64-go-iso", "crc64-redis", "crc16-t10-dif", "sha256",
             "hmac-sha256"]
    exports = {n: {"path": path(f"hash-{n}.exp"), "size": "4M", "hash": n} for n in names}
    exports["hmac-sha256"]["hash_key_file"] = key
    t = Target("hash", exports).start()
    src = make_file("hash.src", MIB + 77, 5)
    for n in names[:-1]:
        assert t.push(src, n)["hash"] == n
        assert sha(t.pull(n, "hash.out")) == sha(src)
    net = ["--dev", memif(0, "client", t.sock(0)), "--address", "10.0.0.2/24"]
    url = "weft://10.0.0.1/hmac-sha256"
    rc, out, err = run([app("weft-cp"), *net, src, url])
    assert rc != 0 and "give its key with --hash-key" in err, err
    rc, out, err = run([app("weft-cp"), *net, "--hash-key", other, src, url])
    assert rc != 0 and "--hash-key is another key than its" in err, err
    rc, out, err = run([app("weft-cp"), *net, "--json", "--hash-key", key, src, url])
    assert rc == 0 and json.loads(out)["hash"] == "hmac-sha256", err
    assert sha(t.pull("hmac-sha256", "hash.out")) == sha(src)
    os.chmod(key, 0o644)
    rc, out, err = run([app("weft-cp"), *net, "--hash-key", key, src, url])
    assert rc != 0 and "is open to others (mode 644)" in err, err
    assert t.term() == 0


def test_shared_port():
    """Three workers on one port: each connection belongs to the worker that its addresses and ports select."""
    t = Target("sh", {"demo": {"path": path("sh.exp"), "size": "8M"}}, extra="[weft]\nworkers = 3").start()
    for i in range(4):
        src = make_file("sh.src", MIB + i, 50 + i)
        t.push(src, "demo")
        assert sha(t.pull("demo", "sh.out")) == sha(src)
    assert t.term() == 0


def test_ipv6_and_vlan():
    """The same over IPv6, global and link-local, and in a VLAN, with a client's configuration."""
    t = Target("v6", {"demo": {"path": path("v6.exp"), "size": "8M"}},
               port_extra="address6 = fd00::1/64\nmtu = 1400\n").start()
    assert "[fd00::1]:7471" in t.logged()
    src = make_file("v6.src", MIB + 3, 70)
    net = ["--dev", memif(0, "client", t.sock(0)), "--address", "10.0.0.2/24,fd00::2/64", "--mtu", "1400"]
    for n, cmd in enumerate(([src, "weft://[fd00::1]/demo"], ["weft://[fd00::1]:7471/demo", path("v6.out")])):
        rc, out, err = run([app("weft-cp"), *net, *cmd])
        assert rc == 0, f"{cmd}: {err}\n{t.logged()[-1500:]}"
    assert sha(path("v6.out")) == sha(src)
    rc, out, err = run([app("weft-cp"), *net, src, "weft://[2001:db8::1]/demo"])
    assert rc != 0 and "no port reaches 2001:db8::1" in err, err
    assert "[fd00::2]:" in t.logged()
    assert t.term() == 0

    t = Target("vl", {"demo": {"path": path("vl.exp"), "size": "8M"}},
               port_extra="address6 = fd00::1/64\nvlan = 5\n").start()
    conf = path("vl.client.ini")
    with open(conf, "w") as f:
        f.write(f"[port c]\ndev = {memif(0, 'client', t.sock(0))}\naddress = 10.0.0.2/24\n"
                "address6 = fd00::2/64\nvlan = 5\n")
    for host in ("10.0.0.1", "[fd00::1]"):
        for cmd in ([src, f"weft://{host}/demo"], [f"weft://{host}/demo", path("vl.out")]):
            rc, out, err = run([app("weft-cp"), "-c", conf, *cmd])
            assert rc == 0, f"{cmd}: {err}\n{t.logged()[-1500:]}"
        assert sha(path("vl.out")) == sha(src)
    assert t.term() == 0


def test_sizes():
    """Objects of no octet, one octet, odd lengths, and exact blocks."""
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
    """Kill the target when the part `where` (0..1) of the second push is on the medium. Returns whether it was in time."""
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
    """kill -9 during a push: afterwards the target has the last committed content."""
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
        # The export still accepts the next push.
        t.push(second, "demo")
        t.kill()
        t.start()
        assert sha(t.pull("demo", "kd.out")) == sha(second)
        assert t.term() == 0


def test_kill_after_commit():
    """After kill -9 everything acknowledged is there, every time."""
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
    """A stack whose Flush does nothing: Verify refuses the push. Without Verify the kill shows the loss."""
    t = Target("bf", {"demo": {"path": path("bf.exp"), "size": "16M"}},
               exe=os.path.join(BUILD, "test", "e2e", "weft-target-noflush")).start()
    src = make_file("bf.src", 2 * MIB, 20)
    rc, out, err = t.cp(src, "weft://10.0.0.1/demo")
    assert rc != 0 and "verify failed" in err.lower(), f"Verify did not notice: {rc} {err}"
    assert "nothing was committed" in err, err
    t.kill()
    t.start()
    rc, out, err = t.cp(src, "weft://10.0.0.1/demo", args=["--no-verify"])
    assert rc == 0, err
    t.kill()
    t.start()
    # not even the commit word is on the medium
    rc, out, err = t.cp("weft://10.0.0.1/demo", path("bf.out"))
    assert rc != 0 and "holds nothing yet" in err, f"acknowledged content survived a Flush that does nothing: {rc} {err}"
    assert not os.path.exists(path("bf.out"))
    t.kill()


def test_word_that_is_not_durable():
    """A writer that ends between its Atomic Write and the Flush of it does not destroy the object on the medium."""
    medium = path("wn.exp")
    t = Target("wn", {"demo": {"path": medium, "size": "40M"}}, ports=2, keepalive_ms=300).start()
    a = make_file("wn.a", 2 * MIB + 5, 70)
    b = make_file("wn.b", 2 * MIB + 6, 71)
    c = make_file("wn.c", 16 * MIB, 72)
    ra, rb = t.push(a, "demo"), t.push(b, "demo")
    assert ra["slot"] != rb["slot"]
    # The word in memory names a's slot, and the word on the medium b's. Both are valid, and only their slots matter
    # here.
    p, stag, to = probe(t, 1, 2)
    assert ask(p, f"aword {stag} 0 {ra['generation'] << 1 | ra['slot']:x}") == "ok"
    p.kill()
    p.wait()
    off = slot_data_offset(medium, rb["slot"])
    with open(medium, "rb", buffering=0) as f:
        f.seek(4096)
        assert f.read(8) == (rb["generation"] << 1 | rb["slot"]).to_bytes(8, "big"), "the word was flushed"
        f.seek(off)
        before = f.read(4096)
        w = t.cp_start(c, "weft://10.0.0.1/demo", args=["--rate", "4M", "--wait", "10"])
        end = time.monotonic() + 30
        while before == (f.seek(off), f.read(4096))[1]:
            assert time.monotonic() < end and w.poll() is None, "the push never began, or not in b's slot"
    t.kill()
    out, err = w.communicate(timeout=60)
    assert w.returncode != 0, "the push was over before the kill"
    t.start()
    assert "DAMAGED" not in t.logged(), t.logged()
    assert sha(t.pull("demo", "wn.out")) == sha(a)
    assert t.term() == 0


def test_two_ports():
    """A target with two ports serves two clients at the same time, with one worker and with two."""
    for workers in ("", "[worker w0]\nports = p0\n[worker w1]\nports = p1\n"):
        for m in ("tp.a", "tp.b"):
            if os.path.exists(path(m)):
                os.unlink(path(m))
        t = Target("tp", {"a": {"path": path("tp.a"), "size": "20M"}, "b": {"path": path("tp.b"), "size": "20M"}},
                   ports=2, extra=workers).start()
        src = {e: make_file(f"tp.s{e}", 4 * MIB, 30 + i) for i, e in enumerate("ab")}
        slow = {e: t.cp_start(src[e], f"weft://10.0.{i}.1/{e}", port=i, args=["--rate", "4M"])
                for i, e in enumerate("ab")}
        end = time.monotonic() + 20
        while t.logged().count("granted to") < 2:
            assert time.monotonic() < end, t.logged()
        assert slow["a"].poll() is None and slow["b"].poll() is None, "the two pushes did not overlap"
        for e, p in slow.items():
            out, err = p.communicate(timeout=60)
            assert p.returncode == 0, err
        assert sha(t.pull("a", "tp.out", port=1)) == sha(src["a"])
        assert sha(t.pull("b", "tp.out", port=0)) == sha(src["b"])
        assert t.term() == 0


def test_second_writer():
    """The export is busy while the first writer lives. After the writer was killed it is granted."""
    medium = path("sw.exp")
    t = Target("sw", {"demo": {"path": medium, "size": "80M"}}, ports=2, keepalive_ms=300).start()
    big = make_file("sw.big", 20 * MIB, 40)
    small = make_file("sw.small", 100000, 41)
    first = t.cp_start(big, "weft://10.0.0.1/demo", args=["--rate", "1M"])
    # An export that was never written has generation 0. The first object is written to one of the two slots.
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
    """The former STag is invalid after the export was granted again."""
    for workers in ("", "[worker w0]\nports = p0\n[worker w1]\nports = p1\n"):
        t = Target("st", {"demo": {"path": path("st.exp"), "size": "4M"}}, ports=2, keepalive_ms=300,
                   extra=workers).start()
        first, stag1, to = probe(t, 0, 2)
        assert ask(first, f"write {stag1} {to}") == "ok"
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
    """A reader whose object is replaced twice during its read starts again, and never returns a torn object."""
    t = Target("rw", {"demo": {"path": path("rw.exp"), "size": "16M"}}, ports=2).start()
    files = [make_file(f"rw.{i}", 2 * MIB, 50 + i) for i in range(3)]
    t.push(files[0], "demo")
    # Two commits write both slots, and so the one that is being read.
    r = t.cp_start("weft://10.0.1.1/demo", path("rw.out"), port=1, args=["--json", "--rate", "1M"])
    while "read,flush granted" not in t.logged():
        assert r.poll() is None, r.stderr.read()
    t.push(files[1], "demo")
    t.push(files[2], "demo")
    assert r.poll() is None, "the reader was done before the object was replaced"
    out, err = r.communicate(timeout=60)
    assert r.returncode == 0, err
    assert json.loads(out)["tries"] > 1, out
    assert sha(path("rw.out")) == sha(files[2])
    assert t.term() == 0


def test_target_dies_during_pull():
    t = Target("dp", {"demo": {"path": path("dp.exp"), "size": "40M"}}).start()
    src = make_file("dp.src", 10 * MIB, 60)
    t.push(src, "demo")
    dst = path("dp.out")
    p = t.cp_start("weft://10.0.0.1/demo", dst, args=["--rate", "4M"])
    while "read,flush granted" not in t.logged():
        assert p.poll() is None, p.stderr.read()
    time.sleep(0.3)
    t.kill()
    out, err = p.communicate(timeout=60)
    assert p.returncode != 0, "the pull was over before the kill"
    assert err.strip().count("\n") == 0, err
    assert not os.path.exists(dst), "half a file was left"


if __name__ == "__main__":
    main([test_push_pull, test_hashes, test_shared_port, test_ipv6_and_vlan, test_sizes, test_restart_finds_exports, test_kill_during_push,
          test_kill_after_commit, test_broken_flush_is_caught, test_word_that_is_not_durable, test_two_ports,
          test_second_writer, test_stag_of_a_dead_writer, test_reader_during_writes, test_target_dies_during_pull])
