#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-cp --pull: the target fetches what is pushed, by RPC WRITEs. test_fetch.py BUILD [CASE...]"""
import json
import os
import random
import re
import time

from test_visible import Telemetry
from weft_e2e import Target, main, make_file, path, sha

MB = 1 << 20


def start(name, exports, **kw):
    for e, keys in exports.items():
        if keys.get("persist", "file") != "volatile":
            keys.setdefault("path", path(f"{name}.{e}.weft"))
        keys.setdefault("size", "16M")
        keys.setdefault("persist", "file")
    t = Target(name, exports, **kw)
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write("[weft]\ntelemetry = yes\n" + text)
    t.start()
    return t


def fetch(t, src, export, *args, **kw):
    rc, out, err = t.cp(src, f"weft://10.0.0.1/{export}", args=["--json", "--pull", *args], **kw)
    assert rc == 0, (err, t.logged()[-1500:])
    return json.loads(out)


def medium(name, export, r):
    """Commit word, header and data on the medium (docs/export-format.md)."""
    with open(path(f"{name}.{export}.weft"), "rb") as f:
        f.seek(4096)
        word = f.read(8)
        f.seek(8192 if r["slot"] == 0 else slot_1(f))
        return word, f.read(4096 + r["bytes"])


def slot_1(f):
    """The second slot begins at its magic. Both slots have content when this is called."""
    f.seek(0)
    return f.read().index(b"WEFTSLOT", 8192 + 8)


def test_same_content():
    """A pushed and a fetched file leave the same octets on both media."""
    t = start("same", {"pushed": {}, "fetched": {}})
    for i, size in enumerate((5 * MB + 4711, 0, 1, 4096, MB, 3 * MB)):
        src = make_file(f"same{i}", size, i + 1)
        a = t.push(src, "pushed")
        b = fetch(t, src, "fetched", "--block", ["256K", "1M", "4K"][i % 3], "--depth", "16")
        for k in ("bytes", "object_crc32c", "generation", "slot", "flushed", "persistent"):
            assert a[k] == b[k], (k, a, b)
        assert (a["way"], b["way"]) == ("push", "pull") and b["verified"], (a, b)
        assert medium("same", "pushed", a) == medium("same", "fetched", b), size
        assert sha(t.pull("fetched", "same.out")) == sha(src)
    now = Telemetry(t.proc.pid).ask("/weft/target/export,fetched")
    assert now["rpc_refused"] == 0 and now["rpc_durable_writes"] == now["rpc_writes"] > 6 * 3, now
    # The fetched file is on the medium: the process with the memory is killed.
    t.kill()
    t.start()
    assert sha(t.pull("fetched", "same.out")) == sha(src)
    assert t.term() == 0


def test_killed():
    """The target is killed while it fetches: the export has the old object or the new one, complete."""
    t = start("dead", {"demo": {}})
    rng = random.Random(7)
    old = make_file("dead0", 2 * MB, 10)
    fetch(t, old, "demo")
    seen = {"old": 0, "new": 0}
    for i in range(8):
        new = make_file(f"dead{i + 1}", 2 * MB, 11 + i)
        before = t.logged().count("granted")
        p = t.cp_start(new, "weft://10.0.0.1/demo", args=["--pull", "--rate", "8M", "--block", "64K", "-q"])
        end = time.monotonic() + 20
        while t.logged().count("granted") == before and time.monotonic() < end:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.4))
        t.kill()
        _, err = p.communicate(timeout=60)
        t.start()
        got = sha(t.pull("demo", "dead.out"))
        if p.returncode == 0:
            assert got == sha(new), "acknowledged and lost"
        elif "not acknowledged" not in err:
            assert "the export keeps generation" in err, err
            assert got == sha(old), err
        assert got in (sha(old), sha(new)), "torn"
        seen["new" if got == sha(new) else "old"] += 1
        if got == sha(new):
            old = new
    assert seen["old"] > 0, seen
    print(f"# {seen}")
    assert t.term() == 0


def wait_granted(t, n):
    """Wait until the target has granted so many times."""
    end = time.monotonic() + 20
    while t.logged().count("granted") < n:
        assert time.monotonic() < end, t.logged()
        time.sleep(0.005)


def test_client_killed():
    """A client is killed while the target reads its memory: other clients notice nothing, and the export is free again."""
    t = start("gone", {"demo": {}, "other": {}}, ports=2)
    old = make_file("gone0", MB, 20)
    fetch(t, old, "demo")
    # The other client first, so that this one is killed 0.3 s into a push of some seconds however late a program starts.
    q = t.cp_start(make_file("gone2", 4 * MB, 22), "weft://10.0.1.1/other", port=1,
                   args=["--rate", "2M", "-q"])
    wait_granted(t, 2)
    p = t.cp_start(make_file("gone1", 7 * MB, 21), "weft://10.0.0.1/demo",
                   args=["--pull", "--rate", "2M", "--block", "1M", "-q"])
    wait_granted(t, 3)
    time.sleep(0.3)
    assert p.poll() is None, "it ended before it was killed"
    p.kill()
    _, err = q.communicate(timeout=60)
    assert q.returncode == 0, err
    assert sha(t.pull("demo", "gone.out")) == sha(old)
    end = time.monotonic() + 20
    while "its grants end" not in t.logged() and time.monotonic() < end:
        time.sleep(0.02)
    fetch(t, old, "demo")
    assert t.term() == 0


def test_options():
    """Options that may be combined with --pull, and options that may not."""
    t = start("opt", {"vol": {"persist": "volatile", "rights": "read,write,verify"}})
    src = make_file("opt", MB, 30)
    rc, _, err = t.cp(src, "weft://10.0.0.1/vol", args=["--pull"])
    assert rc == 1 and "--no-flush pushes to it all the same" in err or "not permitted" in err, err
    r = fetch(t, src, "vol", "--no-flush")
    assert not r["flushed"] and not r["persistent"], r
    assert sha(t.pull("vol", "opt.out")) == sha(src)
    rc, _, err = t.cp(src, "weft://10.0.0.1/vol", args=["--pull", "--block", "2M"])
    assert rc == 2 and "at most 1048576" in err, err
    r = fetch(t, src, "vol", "--no-flush", "--no-verify")
    assert not r["verified"], r
    rc, _, err = t.cp("weft://10.0.0.1/vol", path("opt.out"), args=["--pull"])
    assert rc == 2 and "a way to push" in err, err
    rc, out, err = t.cp(src, "weft://10.0.0.1/vol", args=["--pull", "--no-flush", "--no-verify"])
    assert rc == 0 and re.search(r"verified\s+nothing \(--no-verify", out), (out, err)
    rc, out, err = t.cp(src, "weft://10.0.0.1/vol", args=["--pull", "--no-flush"])
    assert rc == 0 and re.search(r"verified\s+every block and the header, in the target's memory", out), (out, err)
    big = make_file("optbig", 8 * MB, 31)
    rc, _, err = t.cp(big, "weft://10.0.0.1/vol", args=["--pull", "--no-flush"])
    assert rc == 1 and "do not fit" in err, err
    assert t.term() == 0


def test_verified():
    """Data that differ on the medium from what was sent are detected before the commit."""
    for k in ("good", "bad"):
        with open(path(f"key.{k}"), "w") as f:
            f.write(f"the {k} key, long enough for anybody who asks\n")
        os.chmod(path(f"key.{k}"), 0o600)
    t = start("ver", {"demo": {"hash": "hmac-sha256", "hash_key_file": path("key.good")},
                      "plain": {"rights": "read,write,flush"}})
    src = make_file("ver", 2 * MB, 32)
    r = fetch(t, src, "demo", "--hash-key", path("key.good"), "--block", "64K")
    assert r["verified"] and r["blocks"] == 32, r
    other = make_file("ver2", 2 * MB, 33)
    rc, _, err = t.cp(other, "weft://10.0.0.1/demo", args=["--pull", "--hash-key", path("key.bad")])
    assert rc == 1 and "verify failed" in err and "the export keeps generation 1" in err, err
    rc, _, err = t.cp(other, "weft://10.0.0.1/demo", args=["--pull"])
    assert rc == 1 and "--hash-key" in err, err
    assert sha(t.pull("demo", "ver.out")) == sha(src)
    rc, _, err = t.cp(src, "weft://10.0.0.1/plain", args=["--pull"])
    assert rc == 1 and "not permitted" in err, err
    assert not fetch(t, src, "plain", "--no-verify")["verified"]
    assert t.term() == 0


if __name__ == "__main__":
    main([test_same_content, test_killed, test_client_killed, test_options, test_verified])
