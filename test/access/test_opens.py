#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What one client gets of a target's grants, by the real target. test_opens.py BUILD [CASE...]"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
sys.dont_write_bytecode = True
from test_visible import Telemetry  # noqa: E402
from weft_e2e import BUILD, PROCS, Target, app, main, make_file, path, run, sha  # noqa: E402

READ, WRITE, VERIFY = 0x02, 0x04, 0x40


class Taker:
    """test/access/open_probe."""

    def __init__(self, t, export, port=0, addr=9):
        args = t.client_args(port, addr)
        self.p = subprocess.Popen([os.path.join(BUILD, "test", "access", "open_probe"), args[1], args[3],
                                   f"10.0.{port}.1", export], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        PROCS.append(self.p)

    def say(self, line):
        """(granted, refused, status of the last refusal, why)"""
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        got = self.p.stdout.readline()
        assert got.startswith("granted "), got
        words = got.split(None, 5)
        return int(words[1]), int(words[3]), int(words[4]), words[5].strip() if len(words) > 5 else ""

    def quit(self):
        self.p.communicate("quit\n", timeout=30)
        assert self.p.returncode == 0


def start(name, extra="", exports=None):
    t = Target(name, exports or {"demo": {"persist": "volatile", "size": "16M"}}, ports=2, extra=extra)
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write("[weft]\ntelemetry = yes\n" + text)
    t.start()
    return t, Telemetry(t.proc.pid)


def wait_for(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def serves(t, name, export="demo"):
    """A client on the other port pushes by RPC, for which the target registers, by RDMA, and reads it back."""
    for args in (["--pull", "--no-flush"], ["--no-flush"]):
        src = make_file(name, 1 << 20, len(name) + len(args))
        rc, _, err = t.cp(src, f"weft://10.0.1.1/{export}", port=1, args=args)
        assert rc == 0, err
        assert sha(t.pull(export, name + ".out", port=1)) == sha(src)


def test_one_client_takes_all():
    """65 connections of 64 OPENs each: one client has its share, and another is served as ever."""
    t, tel = start("all", "max_opens_per_s = 0")
    a = Taker(t, "demo")
    granted, refused, status, why = a.say(f"take 65 64 {READ:x}")
    assert (granted, refused, status) == (256, 65 * 64 - 256, 105), (granted, refused, status, why)
    assert "as many grants as it may" in why
    serves(t, "all1")
    g = tel.ask("/weft/target/grants")
    assert g["grants"] == 256 and g["refused_client"] == 65 * 64 - 256 and g["grants_max"] == 4096, g
    a.quit()
    wait_for(lambda: tel.ask("/weft/target/grants")["grants"] == 0)
    # What it gave back is there for the next.
    a = Taker(t, "demo")
    assert a.say(f"take 4 64 {READ:x}")[:2] == (256, 0)
    a.quit()
    t.term()


def test_rate():
    """OPENs in a loop: a second's worth, then so many a second; refused and counted; another client is served."""
    t, tel = start("rate", "max_opens_per_s = 100")
    a = Taker(t, "demo")
    began = time.monotonic()
    granted, refused, status, why = a.say(f"churn 3000 {READ:x}")
    took = time.monotonic() - began
    assert status == 105 and "too many OPENs" in why, (status, why)
    assert 100 <= granted <= 100 + 100 * took + 1, (granted, took)
    assert refused > 0
    serves(t, "rate1")
    g = tel.ask("/weft/target/grants")
    assert g["opens_limited"] == refused and g["opens"] >= granted + refused, (g, refused)
    r = tel.ask("/weft/target/replies")
    assert granted <= r["replies"] <= r["replies_max"] and r["reply_bytes"] > 0 and not r["replayed"], (r, granted)
    a.quit()
    t.term()


def test_verify_needs_read():
    """Verify without read is granted to no client and by no configuration, whatever the hash."""
    keyfile = path("hmac.key")
    with open(keyfile, "wb") as f:
        f.write(b"k" * 32)
    os.chmod(keyfile, 0o600)
    hashes = {"crc32c": {}, "sha256": {}, "hmac-sha256": {"hash_key_file": keyfile}}
    base = {"persist": "volatile", "size": "1M"}
    t, _ = start("ver", exports={h: {**base, "hash": h, **more} for h, more in hashes.items()})
    for h in hashes:
        a = Taker(t, h)
        for rights in (VERIFY, WRITE | VERIFY):
            assert a.say(f"take 1 1 {rights:x}") == (0, 1, 13, "verify needs read; ask for both"), (h, rights)
        assert a.say(f"take 1 1 {READ | WRITE | VERIFY:x}")[:2] == (1, 0), h
        a.quit()
    t.term()
    for h, more in hashes.items():
        bad = Target("verbad", {"e": {**base, "hash": h, **more, "rights": "write,verify"}})
        rc, _, err = run([app("weft-target"), "-c", bad.conf, "--check-config"])
        assert rc == 1 and "verify needs read; add read, or leave verify out" in err, err
        good = Target("vergood", {"e": {**base, "hash": h, **more, "rights": "read,write,verify"}})
        rc, _, err = run([app("weft-target"), "-c", good.conf, "--check-config"])
        assert rc == 0, err


if __name__ == "__main__":
    main([test_one_client_takes_all, test_rate, test_verify_needs_read])
