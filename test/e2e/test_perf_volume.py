#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-perf on volumes of a weft-target: what is written and read, figures, refusals, fairness. test_perf_volume.py BUILD
[CASE...]"""
import csv
import io
import json

from weft_e2e import Target, app, main, path, run

MIB = 1 << 20
DISK = "weft://10.0.0.1/disk"


def target(name, size="64M", credits=32, **more):
    keys = {"path": path(f"{name}.disk"), "size": size, "format": "volume"}
    # A client without a CPU for a while is no dead one.
    extra = "".join(f"{k} = {v}\n" for k, v in {"credits": credits, **more}.items())
    return Target(name, {"disk": keys}, keepalive_ms=20000, extra=extra).start()


def client(t, *args, url=DISK):
    return run([app("weft-perf"), args[0], *t.client_args(), *args[1:], url], timeout=200)


def one(t, *args):
    rc, out, err = client(t, *args, "--json")
    assert rc == 0, err
    return json.loads(out)["results"][0]


def data(name):
    """The octets of the volume; it begins at 1 MiB of its file."""
    with open(path(f"{name}.disk"), "rb") as f:
        f.seek(MIB)
        return f.read()


def test_writes():
    """All of the range is written, nothing else is, and what is there was compared."""
    t = target("pv1")
    for i, args in enumerate((["-s", "4096"], ["-s", "4096", "--random", "--seed", "3"], ["-s", "4096", "--windows"],
                              ["-s", "256K", "--windows", "-t", "8"], ["-s", "1000", "--stable", "-t", "9"],
                              ["-s", "64K", "-q", "3", "--random"], ["-s", "64K", "-q", "3", "--windows"])):
        before = data("pv1")
        size = {"4096": 4096, "256K": 256 << 10, "1000": 1000, "64K": 65536}[args[1]]
        qps = 3 if "-q" in args else 1
        share = 6 * MIB // qps // (MIB if "--windows" in args else size) * (MIB if "--windows" in args else size)
        n = share // size
        at = (3 + i) * MIB
        r = one(t, "volume-write", "--overwrite", *args, "--verify-data", "-n", str(n), "--range", f"{at}:{6 * MIB}")
        assert r["verified_messages"] == r["iterations"] == n * qps, r
        assert r["way"] == ("windows" if "--windows" in args else "calls") and r["qps"] == qps, r
        after = data("pv1")
        end = at + qps * share
        assert after[:at] == before[:at] and after[end:] == before[end:], args
        # No piece of 512 octets is as it was, and none is twice there.
        pieces = [after[k:k + 512] for k in range(at, end - 511, 512)]
        assert all(p != before[at + 512 * k:at + 512 * k + 512] for k, p in enumerate(pieces)), args
        assert len(set(pieces)) == len(pieces), args
    assert t.term() == 0


def test_figures():
    t = target("pv2")
    for args in (["volume-read"], ["volume-read", "--windows"], ["volume-write", "--overwrite"],
                 ["volume-write", "--overwrite", "--stable"], ["volume-write", "--overwrite", "--flush-every", "16"],
                 ["volume-write", "--overwrite", "--windows"]):
        for shape in (["-n", "200", "-t", "16"], ["--lat", "-n", "60"], ["-n", "100", "-q", "2", "--random"], ["-D", "1"]):
            if "--windows" in args and "--random" in shape:
                continue
            r = one(t, *args, *shape)
            assert r["test"] == args[0] and r["bytes"] == 4096 and r["region"], r
            assert r["mode"] == ("latency" if "--lat" in shape else "bandwidth")
            if "-q" in shape:
                assert r["messages_of_qp"] == [100, 100] and r["iterations"] == 200, r
            if "-D" in shape:
                assert 0.9 < r["seconds"] < 3 and r["iterations"] > 0, r
            if "--lat" in shape:
                assert r["t_min_us"] > 0 and r["iterations"] == 60, r
            else:
                assert abs(r["average_mb_s"] - r["iterations"] * 4096 / r["seconds"] / 1e6) < 0.01 * r["average_mb_s"] + 0.01, r
    r = one(t, "volume-read", "-n", "200", "--rate_limit", "400")
    assert abs(r["rate_error_percent"]) < 30 and r["seconds"] > 0.4, r
    r = one(t, "volume-read", "-n", "1000", "--sizes", "4096:70,64K:30")
    assert abs(r["bytes"] - (0.7 * 4096 + 0.3 * 65536)) < 1 and r["iterations"] == 1000, r
    rc, out, err = client(t, "volume-read", "-a", "-n", "100", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert rc == 0 and [int(x["bytes"]) for x in rows] == [2 << i for i in range(20)], err
    assert all((x["way"], x["stable"], x["random"]) == ("calls", "0", "0") for x in rows)
    assert t.term() == 0


def test_refused():
    t = target("pv3")
    W = ["volume-write", "--overwrite"]
    for args, why in ((["volume-write"], "--overwrite"), (["volume-read", "--overwrite"], "is for volume-write"),
                      (["volume-read", "--stable"], "for volume-write"), ([*W, "--windows", "--stable"], "flushes each write"),
                      ([*W, "--windows", "--random"], "no --random"), ([*W, "--seed", "1"], "of --random"),
                      ([*W, "-b"], "--bidirectional"), ([*W, "-e"], "no --events"), ([*W, "--lat", "--rate", "9"], "for bandwidth"),
                      ([*W, "-t", "33"], "32 at most"), (["volume-read", "--verify-data"], "and volume-write"),
                      ([*W, "-I", "8"], "--inline_size"),
                      ([*W, "--stable", "--flush-every", "2"], "not both"), ([*W, "--range", "5"], "OFFSET:BYTES"),
                      ([*W, "-l", "2"], "--post_list"),
                      ([*W, "--reversed"], "--reversed"), ([*W, "--quorum", "1"], "for log-append"), ([*W, "--windows", "-a"], "not --all"),
                      ([*W, "--windows", "--sizes", "4096:1"], "no --random or --sizes"), (["write", "--random"], "for volume-read")):
        rc, _, err = client(t, *args, url="10.0.0.1" if args[0] == "write" else DISK)
        assert rc == 2 and why in err and len(err.splitlines()) < 3, (args, rc, err)
    for args, why in (([*W, "--range", "62M:1M", "-s", "2M"], "each connection needs"), ([*W, "--range", "1G:1M"], "ends at octet"),
                      ([*W, "--windows", "-s", "1000"], "multiple of 4096"), ([*W, "--windows", "-s", "2M"], "multiple of 4096")):
        rc, _, err = client(t, *args, "-n", "10")
        assert rc == 1 and why in err, (args, rc, err)
    rc, _, err = client(t, "volume-read", "-n", "10", url="weft://10.0.0.1/other")
    assert rc == 1 and "export other" in err, err
    rc, _, err = client(t, "volume-read", "-n", "10", url="10.0.0.1")
    assert rc == 2 and "weft://HOST/EXPORT" in err, err
    # Nothing was written by all of that.
    assert not any(data("pv3"))
    assert t.term() == 0


def jain(got):
    return sum(got) ** 2 / (len(got) * sum(x * x for x in got))


def test_fair():
    """64 connections share staging memory for a few of them: each gets about as much as any other. Jain's index is 1 when all
    get the same, and 1/64 when one gets all."""
    t = target("pv4", size="256M", staging="8M")
    for args in (["volume-read", "-s", "256K", "-t", "4"], ["volume-read", "-s", "64K", "-t", "4", "--random"],
                 ["volume-write", "--overwrite", "-s", "64K", "-t", "4"]):
        r = one(t, *args, "-q", "64", "-D", "4")
        got = r["messages_of_qp"]
        index = jain(got)
        print(f"# {' '.join(args)}: Jain's index {index:.4f}, {min(got)} to {max(got)} messages of each of {len(got)} connections")
        assert len(got) == 64 and sum(got) == r["iterations"], r
        assert index >= 0.9, got
    assert t.term() == 0


def test_few_windows():
    """Four windows for four connections, the first of which opens all of them: it gives back what the others wait for."""
    t = target("pv5", size="64M", staging="8M")
    for args in (["volume-write", "--overwrite", "--verify-data"], ["volume-read"]):
        r = one(t, *args, "--windows", "-s", "64K", "-t", "4", "-q", "4", "-D", "4")
        got = r["messages_of_qp"]
        print(f"# {args[0]} --windows: Jain's index {jain(got):.4f}, {min(got)} to {max(got)} messages of each of {len(got)} connections")
        assert jain(got) >= 0.9, got
    # More connections than windows: the target says so.
    rc, _, err = client(t, "volume-read", "--windows", "-q", "9", "-D", "4")
    assert rc == 1 and "all windows are in use" in err, err
    assert t.term() == 0


if __name__ == "__main__":
    main([test_writes, test_figures, test_refused, test_fair, test_few_windows])
