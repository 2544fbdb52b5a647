#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-perf sweep between two processes over memif: a whole sweep that compare reads, Ctrl-C, a server that is not there, progress on a
terminal alone, wrong command lines. test_sweep_run.py BUILD [CASE...]"""
import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from perf_docs import weft_perf  # noqa: E402
from weft_e2e import PROCS, app, main, memif, path, run  # noqa: E402

PLAN = "[sweep]\ntests = write, read\nmodes = bandwidth, latency\nsizes = 64, 4K\ndepths = 1, 8\nrounds = 2\niterations = 200\n"


def server(sock):
    p = subprocess.Popen([app("weft-perf"), "--server", "--dev", memif(0, "server", sock), "--address", "10.0.0.1/24"],
                         stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    PROCS.append(p)
    assert "waiting" in p.stderr.readline()
    return p


def sweep(name, text, *args):
    """The command for a plan, with the socket's and the folder's names taken from `name`."""
    with open(path(f"{name}.ini"), "w", encoding="utf-8") as f:
        f.write(text)
    return [app("weft-perf"), "sweep", path(f"{name}.ini"), "--dev", memif(0, "client", path(f"{name}.sock")), "--address",
            "10.0.0.2/24", "--out", path(f"{name}.out"), "10.0.0.1", *args]


def results(name):
    with open(path(f"{name}.out/results.json"), encoding="utf-8") as f:
        return json.load(f)


def test_whole():
    server(path("w.sock"))
    rc, out, err = run(sweep("w", PLAN), timeout=120)
    d = results("w")
    warned = sum(bool(r["warnings"]) for r in d["results"])
    # 200 round trips have no ten samples beyond the 99.9 % percentile
    assert rc == 0 and out.endswith(f"24 of 24 runs measured, {warned} with warnings\n") and err == "", (rc, out, err)
    assert warned >= 8 and d["sweep"]["warned"] == warned, d
    jobs = [(r["test"], r["mode"], r["bytes"], r["depth"]) for r in d["results"]]
    assert d["complete"] and d["failed"] == [] and len(jobs) == 24 and jobs[:12] == jobs[12:] and len(set(jobs)) == 12, d
    assert [r["round"] for r in d["results"]] == [1] * 12 + [2] * 12
    assert all(r["iterations"] == 200 for r in d["results"])
    assert all(r["average_mb_s"] > 0 if r["mode"] == "bandwidth" else 0 < r["t_typical_us"] for r in d["results"])
    assert d["machine"]["cpus"] == os.cpu_count() and d["sweep"]["done"] == 24 and d["sweep"]["seconds"] > 0, d
    with open(path("w.out/results.csv"), newline="", encoding="utf-8") as f:
        lines = list(csv.DictReader(f))
    for line, r in zip(lines, d["results"], strict=True):
        assert line["status"] == "ok" and line["test"] == r["test"] and int(line["bytes"]) == r["bytes"], (line, r)
        assert all(float(line[k]) == v for k, v in r.items() if isinstance(v, float)), (line, r)
        assert line["warnings"] == "; ".join(r["warnings"]), (line, r)
    assert sorted(os.listdir(path("w.out"))) == ["index.html", "results.csv", "results.json"]
    rc, out, err = weft_perf("compare", path("w.out/results.json"), path("w.out/results.json"))
    assert rc == 0 and out.count("too few rounds") == 13 and err == "", (rc, out, err)
    # a second time into the same folder
    rc, out, err = run(sweep("w", PLAN))
    assert rc == 1 and "has results of another sweep" in err and "--force" in err, (rc, out, err)


def test_qps():
    """Several QPs are points of their own, in the document and on the page, and compare names them."""
    server(path("q.sock"))
    plan = "[sweep]\ntests = write\nsizes = 64, 4K\ndepths = 8\nqps = 1, 3\nrounds = 2\niterations = 200\n"
    rc, out, err = run(sweep("q", plan), timeout=60)
    assert rc == 0 and "8 of 8 runs" in out and err == "", (rc, out, err)
    assert [(r["bytes"], r["qps"]) for r in results("q")["results"][:4]] == [(64, 1), (4096, 1), (64, 3), (4096, 3)]
    with open(path("q.out/index.html"), encoding="utf-8") as f:
        text = f.read()
    assert "depth 8, qps 1" in text and "depth 8, qps 3" in text and "bidirectional" not in text, text
    assert "write 4096 d 8 qps 3" in weft_perf("compare", path("q.out/results.json"), path("q.out/results.json"))[1]


def test_shapes():
    """Events, both directions and lists are points of their own, and compare tells them apart."""
    server(path("s.sock"))
    plan = ("[sweep]\ntests = write\nsizes = 64\ndepths = 16\nevents = no, yes\nbidirectional = no, yes\npost_lists = 0, 4\nrounds = 2\n"
            "iterations = 200\n[sweep paced]\ntests = read\nsizes = 64\nrates = 0, 2000\niterations = 200\nrounds = 2\n")
    rc, out, err = run(sweep("s", plan), timeout=100)
    assert rc == 0 and "20 of 20 runs" in out, (rc, out, err)
    got = [(r["events"], r["bidirectional"], r["post_list"]) for r in results("s")["results"][:8]]
    assert got == [(e, b, p) for e in (False, True) for b in (False, True) for p in (0, 4)], got
    assert [r["rate_asked"] for r in results("s")["results"][8:10]] == [0, 2000]
    out = weft_perf("compare", path("s.out/results.json"), path("s.out/results.json"))[1]
    assert out.count("too few rounds") == 10 + 1 and "several" not in out, out


def test_interrupted():
    server(path("i.sock"))
    p = subprocess.Popen(sweep("i", PLAN.replace("rounds = 2", "rounds = 500\nduration = 1")), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    PROCS.append(p)
    partial, end = path("i.out/results.partial.json"), time.monotonic() + 60
    while not os.path.exists(partial) or os.path.getsize(partial) == 0:
        assert time.monotonic() < end and p.poll() is None
        time.sleep(0.05)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    assert p.returncode == 1 and err == "", (p.returncode, out, err)
    assert re.search(r" of 6000 runs measured, (\d+ with warnings, )?interrupted\n", out), out
    d = results("i")
    assert not d["complete"] and d["sweep"]["ended"] == "interrupted" and 0 < len(d["results"]) == d["sweep"]["done"] < 6000, d["sweep"]
    with open(path("i.out/index.html"), encoding="utf-8") as f:
        assert f"Incomplete: {d['sweep']['done']} of 6000 runs were measured; interrupted." in f.read()
    assert not os.path.exists(partial)


def test_terminal():
    """Progress on a terminal, in 80 columns, erased at the end."""
    server(path("t.sock"))
    outer, inner = pty.openpty()
    p = subprocess.Popen(sweep("t", PLAN), stdout=subprocess.PIPE, stderr=inner, stdin=subprocess.DEVNULL)
    PROCS.append(p)
    os.close(inner)
    shown = b""
    while True:
        try:
            part = os.read(outer, 4096)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(outer)
    assert p.wait(timeout=60) == 0, (p.returncode, shown, p.stdout.read())
    lines = shown.decode().split("\r")
    assert any(line.startswith("1 of 24: write bw 64 d 1, round 1") for line in lines), shown
    assert any(line.startswith("24 of 24, ") and " left: " in line for line in lines), shown
    assert max(len(line.replace("\x1b[K", "")) for line in lines) < 80 and lines[-1] == "\x1b[K", shown


def test_no_server():
    """No server answers: three runs fail, the rest is not tried, and the folder says so."""
    server(path("n.sock"))
    rc, out, err = run(sweep("n", PLAN, "-p", "9"), timeout=60)
    assert rc == 1 and "0 of 24 runs measured, given up" in out and err.count("\n") == 3, (rc, out, err)
    d = results("n")
    assert d["results"] == [] and len(d["failed"]) == 3 and d["failed"][0]["why"], d
    rc, out, err = weft_perf("compare", path("n.out/results.json"), path("n.out/results.json"))
    assert rc == 1 and "has no result" in err, (rc, err)


def test_wrong():
    def refused(why, cmd, status):
        rc, out, err = run(cmd)
        assert rc == status and out == "" and why in err, (cmd, rc, out, err)
        assert err.count("\n") == 1 and err.startswith("weft-perf sweep: "), (cmd, err)
    bad = sweep("b", "[sweep]\ntests = nonsense\n")
    refused("b.ini:2: tests: 'nonsense' is no test", bad, 1)
    assert not os.path.exists(path("b.out"))
    good = sweep("g", PLAN)
    refused("--out: which folder", [a for a in good if a not in ("--out", path("g.out"))], 2)
    refused("a PLAN and a HOST are needed", good[:-1], 2)
    refused("a PLAN and a HOST are needed", [*good, "more"], 2)
    refused("neither an IPv4 nor an IPv6 address", [*good[:-1], "nowhere"], 2)
    refused("unknown option", [*good, "--nonsense"], 2)
    refused("cannot be created", [*good, "--out", path("absent/out")], 1)
    refused("is a directory", [*good[:2], path("."), *good[3:]], 1)
    rc, out, _ = weft_perf("sweep", "--help")
    assert rc == 0 and out.startswith("Usage: weft-perf sweep PLAN"), out


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
