#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the real target gives to unauthenticated clients. test_strangers.py BUILD [CASE...]"""
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
sys.dont_write_bytecode = True
from test_auth import fails, key, start  # noqa: E402
from weft_e2e import BUILD, PROCS, Target, main, make_file, memif, path, run  # noqa: E402


def test_optional_held_off():
    """With `optional`, a held-off address is served like every unauthenticated client, but may not try to authenticate."""
    t, tel = start("oheld", "optional")
    src = make_file("oheld1", 1 << 20, 4)
    # After the eighth failure the address is held off for 8 s, longer than a client takes to start on a busy computer.
    end = time.monotonic() + 60
    while tel.ask("/weft/target/clients")["refused"] < 8:
        assert time.monotonic() < end
        rc, _, err = t.cp(src, "weft://10.0.0.1/demo", args=["--auth", f"alice:{key('wrong')}"])
        assert rc == 1 and ("does not know this name" in err or "accepts no authentication now" in err), (rc, err)
    held = tel.ask("/weft/target/clients")["held_off"]
    fails(t, src, "accepts no authentication now", args=["--auth", f"alice:{key('alice')}"])
    t.push(src, "demo")
    now = tel.ask("/weft/target/clients")
    assert (now["passed"], now["refused"], now["held_off"]) == (0, 8, held + 1), now
    assert "has to wait" in t.logged()
    assert t.term() == 0


def probe(t, *words):
    return [os.path.join(BUILD, "test", "access", "stranger_probe"), memif(0, "client", t.sock(0)), "10.0.0.2/24",
            "10.0.0.1", *words]


def test_stat():
    """STAT reveals the content (name, length, time, CRC, number of changes) only where reading is granted."""
    for rights, told in (("read,write,flush,verify", True), ("write,flush", False), ("read", True), ("write", False)):
        t = Target("stat", {"demo": {"path": path("stat.weft"), "size": "8M", "persist": "file", "rights": rights}})
        t.start()
        if rights.startswith("read,write"):
            t.push(make_file("secret name", 1 << 20, 5), "demo")
        rc, out, err = run(probe(t, "stat", "demo"))
        assert rc == 0, err
        assert (" generation 1 " in out, "secret name" in out, "length 1048576" in out) == (told,) * 3, (rights, out)
        assert ("crc 00000000" in out) == (not told), (rights, out)
        assert t.term() == 0


def rss_mib(t):
    with open(f"/proc/{t.proc.pid}/status") as f:
        return int(next(x for x in f if x.startswith("VmRSS")).split()[1]) / 1024


def wave(t, tel, addr):
    """400 connections from one address, each with parts of a call of one megabyte. Returns the resident memory during
    and after them."""
    words = probe(t, "parts", "400", "1000000")
    words[2] = f"10.0.0.{addr}/24"
    p = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    PROCS.append(p)
    said = p.stdout.readline()
    during = rss_mib(t)
    out, err = p.communicate("go\n", timeout=60)
    assert said == "held 0 closed 400\n", (said, err)
    end = time.monotonic() + 20
    while tel.ask("/weft/tcp,0")["conns_now"] > 0:
        assert time.monotonic() < end, tel.ask("/weft/tcp,0")
        time.sleep(0.05)
    least, end = rss_mib(t), time.monotonic() + 2.5
    while time.monotonic() < end:
        time.sleep(0.1)
        least = min(least, rss_mib(t))
    return during, least


def test_parts():
    """400 connections with parts of calls of a megabyte each: the calls are refused before they are assembled, and the
    connections closed. Their memory is freed, except buffers and structures that DPDK keeps for reuse. A second wave
    takes no more."""
    t, tel = start("parts", "required", extra="max_conns_per_peer = 1000\n")
    start_mib = rss_mib(t)
    first, before = wave(t, tel, 2)
    during, after = wave(t, tel, 3)
    print(f"# resident: {start_mib:.0f} MiB, {first:.0f} with 400 connections, {before:.0f} after; then {during:.0f} "
          f"with 400 more, {after:.0f} after")
    # At either measurement some connections may already be closed, so the two are not compared.
    assert max(first, during) < start_mib + 40, (start_mib, first, during)
    assert max(before, after) <= start_mib + 28, (start_mib, before, after)
    assert t.term() == 0


if __name__ == "__main__":
    main([test_optional_held_off, test_stat, test_parts])
