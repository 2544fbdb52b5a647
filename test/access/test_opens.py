#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The share of one client in a target's grants, tested on the real target. test_opens.py BUILD [CASE...]"""
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
    """A process of test/access/open_probe."""

    def __init__(self, t, export, port=0, addr=9, host=None, cidr=None):
        args = t.client_args(port, addr)
        self.p = subprocess.Popen([os.path.join(BUILD, "test", "access", "open_probe"), args[1], cidr or args[3],
                                   host or f"10.0.{port}.1", export], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True)
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


def start(name, extra="", exports=None, ports=2, addr6=None):
    """addr6: of port i, or None."""
    t = Target(name, exports or {"demo": {"persist": "volatile", "size": "16M"}}, ports=ports, extra=extra)
    with open(t.conf) as f:
        text = f.read()
    for i in range(ports if addr6 else 0):
        text = text.replace(f"address = 10.0.{i}.1/24\n", f"address = 10.0.{i}.1/24\naddress6 = {addr6(i)}\n")
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
    """A client on the other port pushes by RPC, for which the target registers memory, and by RDMA, and reads the
    object back."""
    for args in (["--pull", "--no-flush"], ["--no-flush"]):
        src = make_file(name, 1 << 20, len(name) + len(args))
        rc, _, err = t.cp(src, f"weft://10.0.1.1/{export}", port=1, args=args)
        assert rc == 0, err
        assert sha(t.pull(export, name + ".out", port=1)) == sha(src)


def test_one_client_takes_all():
    """65 connections with 64 OPENs each: one client gets its share, and another client is served."""
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
    # The grants that the client closed are free for the next client.
    a = Taker(t, "demo")
    assert a.say(f"take 4 64 {READ:x}")[:2] == (256, 0)
    a.quit()
    t.term()


# A memif port has one client. So each host of the /64 fd00:88:: has a target port of its own with a part of the
# network.
def addr6(port, host=1):
    return f"fd00:88::{port}:{host}/112"


def host6(port):
    return f"fd00:88::{port}:1"


def taker6(t, port, host=2):
    return Taker(t, "demo", port, host=host6(port), cidr=f"10.0.{port}.{host}/24,{addr6(port, host)}")


def serves6(t, name, port, host=3):
    """Run weft-cp from another address of the /64."""
    src = make_file(name, 1 << 20, len(name))
    url = f"weft://[{host6(port)}]/demo"
    net = [app("weft-cp"), "--dev", t.client_args(port)[1], "--address",
           f"10.0.{port}.{host}/24,{addr6(port, host)}", "--no-flush"]
    rc, _, err = run([*net, src, url])
    assert rc == 0, err
    rc, _, err = run([*net, url, path(name + ".out")])
    assert rc == 0, err
    assert sha(path(name + ".out")) == sha(src)


def test_neighbour_is_idle():
    """A host that holds all its grants and is idle does not keep another host of its IPv6 /64 out."""
    t, tel = start("near", "max_opens_per_s = 0", addr6=addr6)
    a = taker6(t, 0)
    granted, refused, status, why = a.say(f"take 5 64 {READ:x}")
    assert (granted, refused, status) == (256, 64, 105), (granted, refused, status, why)
    assert "as many grants as it may" in why
    serves6(t, "near1", 1)
    g = tel.ask("/weft/target/grants")
    assert g["grants"] == 256 and g["refused_client"] == 64 and g["connections_pushed_out"] == 0, g
    a.quit()
    t.term()


def test_neighbours_are_idle():
    """The same with many addresses that together hold the share of the /64: one idle connection is closed."""
    # An address has 8 grants and the /64 32: 8 for each of the first three addresses, and the rest for the fourth.
    t, tel = start("many", "max_opens_per_s = 0\nmax_grants_per_client = 8", ports=5, addr6=addr6)
    takers = [taker6(t, i) for i in range(4)]
    got = [a.say(f"take 1 9 {READ:x}") for a in takers]
    assert [g[0] for g in got] == [8, 8, 8, 8], got
    b = taker6(t, 4, 4)
    granted, refused, status, why = b.say(f"take 1 1 {READ:x}")
    assert (granted, refused, status) == (0, 1, 105) and "network (the IPv6 /64)" in why, (granted, status, why)
    b.quit()
    # The connections are idle for five seconds. Only the last one makes a request meanwhile.
    for _ in range(4):
        time.sleep(1.5)
        takers[3].say(f"take 1 1 {READ:x}")
    serves6(t, "many1", 4)
    wait_for(lambda: tel.ask("/weft/target/grants")["grants"] == 24)
    g = tel.ask("/weft/target/grants")
    assert g["connections_pushed_out"] == 1 and g["refused_network"] == 1, g
    assert "its 8 grants are idle" in t.logged()
    for a in takers:
        a.quit()
    wait_for(lambda: tel.ask("/weft/target/grants")["grants"] == 0)
    t.term()


def test_rate_of_neighbour():
    """Repeated OPENs of one address use up none of another address of its /64."""
    t, tel = start("rate6", "max_opens_per_s = 50", addr6=addr6)
    a = taker6(t, 0)
    a.p.stdin.write(f"churn 4000 {READ:x}\n")
    a.p.stdin.flush()
    wait_for(lambda: tel.ask("/weft/target/grants")["opens_limited"] > 0)
    for i in range(3):
        serves6(t, f"rate6{i}", 1)
    assert a.p.poll() is None
    words = a.p.stdout.readline().split(None, 5)
    assert int(words[3]) > 0 and "too many OPENs" in words[5], words
    assert tel.ask("/weft/target/grants")["opens_limited"] == int(words[3])
    a.quit()
    t.term()


def test_rate():
    """Repeated OPENs: a second's worth, then the rate. The others are refused and counted, and another client is
    served."""
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
    """Verify without read is granted to no client and by no configuration, with any hash."""
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
    main([test_one_client_takes_all, test_neighbour_is_idle, test_neighbours_are_idle, test_rate_of_neighbour, test_rate,
          test_verify_needs_read])
