#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Slow operations explain themselves: their client, what it asked for, and where their time went. test_control_slow.py BUILD [CASE...]"""
import os
import re
import socket
import time
import urllib.request

from test_control import Controlled, schema
from test_flush_waits import DELAY_S, Traced
from weft_e2e import app, main, make_file, path, run

MIB = 1 << 20
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    HTTP = free.getsockname()[1]
STAGES = ("wire_us", "credit_us", "staging_us", "rate_us", "medium_us", "answer_us")


class TracedControlled(Traced, Controlled):
    """A target with a control socket whose medium is delayed."""


def explained(row):
    """The stages make up the time. What is left is the time between a stamp and the next: a poll or two."""
    parts = sum(row[s] or 0 for s in STAGES)
    assert 0 <= row["total_us"] - parts < 20000 + row["total_us"] // 20, row


def said(t):
    """The log's lines of slow operations."""
    return [x for x in t.logged().splitlines() if ": SLOW: " in x]


def limited(name, slow_ms, extra="", **keys):
    keys = {"path": path(f"{name}.v"), "size": "16M", "max_bytes_per_s": "1M", **(keys or {"format": "volume"})}
    return Controlled(name, {"v": keys}, extra=f"slow_ms = {slow_ms}\n{extra}").start()


def again(t, slow_ms, got=None):
    """Another threshold, while the target runs. got: what it tells, if that is another one."""
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write(re.sub("slow_ms = .*", f"slow_ms = {slow_ms}", text))
    t.ctl("reload")
    assert ("slow_ms: changes with a restart" in t.logged()) == (got is not None)
    assert t.ctl("slow")["slow_ms"] == (slow_ms if got is None else got)


def test_rate():
    """A READ that waited for its client's rate, of a client with a name. The threshold changes at a reload."""
    key = path("ra.key")
    with open(key, "w") as f:
        f.write("a key that is long enough for a client\n")
    os.chmod(key, 0o600)
    t = limited("ra", 60000, f"host_auth = optional\n[client alice]\nkey_file = {key}\n")
    t.push(make_file("ra.src", 300000, 1), "v")
    again(t, 100)
    assert t.ctl("slow") == {"slow_ms": 100, "seen": 0, "crowded": 0, "unsaid": 0, "slow": []}
    pull = ["--length", "300000", "--auth", f"alice:{key}"]
    rc, _, err = t.cp("weft://10.0.0.1/v", path("ra.out"), args=pull)
    assert rc == 0, err
    got = t.ctl("slow")
    assert (set(got) - {"slow"}, set(got["slow"][0])) == schema()["slow"], got
    reads = [r for r in got["slow"] if r["op"] == "read"]
    assert got["seen"] == len(got["slow"]) and reads, got
    for r in reads:
        explained(r)
        assert r["export"] == "v" and r["client"] == "alice" and r["peer"].startswith("10.0.0.2:") and not r["failed"], r
        assert r["total_us"] >= 100000 and r["rate_us"] > 0.8 * r["total_us"] and r["wire_us"] is None, r
        assert (r["offset"], r["len_bytes"]) in ((0, 262144), (262144, 300000 - 262144)), r
    lines = said(t)
    assert lines and re.search(r"export v: SLOW: read of \d+ octets at offset \d+ by 10\.0\.0\.2:\d+ alice took \d+\.\d ms:.* "
                               r"rate \d+\.\d ms", lines[-1]), lines
    again(t, 60000)
    rc, _, err = t.cp("weft://10.0.0.1/v", path("ra.out"), args=pull)
    assert rc == 0, err
    assert t.ctl("slow")["seen"] == got["seen"] and t.ctl("slow")["slow_ms"] == 60000
    assert t.term() == 0


def test_push_rate():
    """A push that waited for its client's rate, to a volume by windows and to an object: the wait is a stage of its Flush or its Verify."""
    for name, keys in (("pv", {"format": "volume"}), ("po", {"format": "object"})):
        t = limited(name, 100, f"metrics = {HTTP}\n", size="16M", path=path(f"{name}.v"), max_bytes_per_s="1M", **keys)
        rc, _, err = t.cp(make_file(f"{name}.src", 2 * MIB, 1), "weft://10.0.0.1/v", args=["--block", "256K"])
        assert rc == 0, err
        got = [r for r in t.ctl("slow")["slow"] if r["op"] in ("push", "push_verify")]
        assert sum(r["rate_us"] or 0 for r in got) > 1000000, (name, got)
        for r in got:
            explained(r)
            assert r["wire_us"] is None and r["peer"].startswith("10.0.0.2:"), r
        # A disk that others keep busy makes an operation slow that did not wait.
        waited = [r for r in got if r["rate_us"]]
        assert sum(r["rate_us"] for r in waited) > 0.5 * sum(r["total_us"] - r["medium_us"] for r in waited), waited
        with urllib.request.urlopen(f"http://127.0.0.1:{HTTP}/metrics") as f:
            text = f.read().decode()
        n = sum(int(x) for x in re.findall(r'weft_stage_seconds_count\{operation="push(?:_verify)?",stage="rate"\} (\d+)', text))
        assert n >= len(waited), (n, text)
        assert t.term() == 0


def test_medium():
    """The medium takes half a second for each flush: of a push, and of a WRITE by a call."""
    t = TracedControlled("me", "file")
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write(text.replace("[target]\n", f"[target]\nslow_ms = {int(DELAY_S * 500)}\n", 1))
    t.start()
    src = make_file("me.src", 100000, 1)
    for args, op in ((["--no-verify"], "push"), (["--pull"], "write")):
        before = t.ctl("slow")["seen"]
        rc, _, err = t.cp(src, "weft://10.0.0.1/demo", args=args)
        assert rc == 0, err
        got = [r for r in t.ctl("slow")["slow"] if r["op"] == op]
        assert t.ctl("slow")["seen"] > before and got, (op, t.ctl("slow"))
        for r in got:
            explained(r)
            assert r["export"] == "demo" and r["medium_us"] > 0.7 * r["total_us"] and r["offset"] < 8 * MIB, r
            assert r["peer"].startswith("10.0.0.2:") or op == "push", r
        assert any(r["len_bytes"] >= 100000 for r in got), got
    assert t.term() == 0


def test_bounded():
    """A worker keeps 64, and the log has one line of a client in 10 s; other clients keep what they have, and have a line."""
    t = limited("bo", 1, format="object")
    src = make_file("bo.src", 2 * MIB, 1)
    rc, _, err = t.cp(make_file("bo.small", 50000, 1), "weft://10.0.0.1/v", addr=3, args=["--pull", "--block", "16K"])
    assert rc == 0, err
    others = [r["number"] for r in t.ctl("slow")["slow"]]
    assert 0 < len(others) < 32, others
    begun = time.monotonic()
    rc, _, err = t.cp(src, "weft://10.0.0.1/v", args=["--pull", "--block", "16K"])
    assert rc == 0, err
    took = time.monotonic() - begun
    got = t.ctl("slow")
    assert set(others) <= {r["number"] for r in got["slow"]}, (others, got)
    assert got["crowded"] == got["seen"] - 64 and got["unsaid"] > 90, got
    for host in ("10.0.0.2", "10.0.0.3"):
        assert 1 <= sum(f"by {host}:" in x for x in said(t)) <= took // 10 + 1, (took, said(t))
    assert got["seen"] > 100 and len(got["slow"]) == 64, (got["seen"], len(got["slow"]))
    assert got["slow"][0]["ago_s"] <= got["slow"][-1]["ago_s"] and any(r["offset"] > MIB for r in got["slow"]), got
    assert t.term() == 0


def test_off():
    t = limited("of", 0)
    rc, _, err = t.cp("weft://10.0.0.1/v", path("of.out"), args=["--length", "300000"])
    assert rc == 0, err
    # Nothing is measured, so it needs a restart to be on.
    again(t, 1, got=0)
    rc, _, err = t.cp("weft://10.0.0.1/v", path("of.out"), args=["--length", "300000"])
    assert rc == 0, err
    assert t.ctl("slow") == {"slow_ms": 0, "seen": 0, "crowded": 0, "unsaid": 0, "slow": []} and not said(t)
    rc, out, err = run([app("weft-ctl"), "-s", t.socket, "slow"])
    assert rc == 0 and out.split()[:2] == ["slow_ms", "off"], (out, err)
    assert t.term() == 0


if __name__ == "__main__":
    main([test_rate, test_push_rate, test_medium, test_bounded, test_off])
