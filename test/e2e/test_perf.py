#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-perf as an instrument: shapes of traffic, what both sides count, output, conditions. test_perf.py BUILD [CASE...]"""
import csv
import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

from test_programs import perf, perf_server
from test_visible import Telemetry
from weft_e2e import PROCS, Skip, app, main, memif, path, run

VERBS = ("write", "read", "send", "write-imm")


def until_busy(p, seconds=1.0):
    """Wait until a client has used so much of its CPU: then it polls, and is well beyond its start. On a busy machine that takes as
    long as it takes; a client that uses no more for a minute does nothing."""
    most, end = 0.0, time.monotonic() + 60
    while time.monotonic() < end and p.poll() is None:
        with open(f"/proc/{p.pid}/stat", encoding="ascii") as f:
            used = sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
        if used > seconds:
            return
        if used > most:
            most, end = used, time.monotonic() + 60
        time.sleep(0.05)
    raise AssertionError("the client does nothing")


def until_moved(p, messages):
    """Wait until a client_shown() has sent so many messages. Those of the first 1000 iterations are not measured. Then it is well
    beyond its start, however much of a processor it wants, or gets. A client that sends no more for a minute does nothing."""
    sent, end = 0, time.monotonic() + 60
    while sent < messages:
        assert p.poll() is None and time.monotonic() < end, (sent, p.poll())
        time.sleep(0.05)
        try:
            tel = Telemetry(p.pid)
            now = sum(n for w in range(len(tel.ask("/weft/workers") or []))
                      for name, n in (tel.ask(f"/weft/messages,{w}") or {}).items() if name.endswith("_out"))
        except (OSError, ValueError):  # it has not begun yet
            continue
        if now > sent:
            sent, end = now, time.monotonic() + 60


def one(sock, *args):
    return json.loads(perf(sock, *args, "--json"))["results"][0]


def client(sock, *args, **kw):
    p = subprocess.Popen([app("weft-perf"), *args, "--dev", memif(0, "client", sock), "--address", "10.0.0.2/24", "10.0.0.1"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, **kw)
    PROCS.append(p)
    return p


def client_shown(sock, *args):
    """A client whose counters until_moved() can read."""
    conf = path("shown.ini")
    with open(conf, "w", encoding="ascii") as f:
        f.write(f"[weft]\ntelemetry = yes\n[port p0]\ndev = {memif(0, 'client', sock)}\naddress = 10.0.0.2/24\n")
    p = subprocess.Popen([app("weft-perf"), *args, "-c", conf, "10.0.0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         stdin=subprocess.DEVNULL)
    PROCS.append(p)
    return p


def on_terminal(sock, columns, *args, rows=0, status=0):
    """What weft-perf writes to a terminal of so many columns. After so many rows of 4096 octets Ctrl-C is typed there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = subprocess.Popen([app("weft-perf"), *args, "--dev", memif(0, "client", sock), "--address", "10.0.0.2/24", "10.0.0.1"],
                         stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                         preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    PROCS.append(p)
    os.close(theirs)
    text, typed = b"", False
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        text += more
        if rows and not typed and len(re.findall(rb"\n 4096 .*\n", text)) >= rows:
            typed = True
            os.write(ours, b"\x03")
    os.close(ours)
    assert p.wait(timeout=60) == status, text
    return text.decode().replace("\r\n", "\n")


def test_perf_shapes():
    """Several QPs, lists, inline data, few completions: each message arrives, and both sides count the same octets."""
    sock = path("shape.sock")
    perf_server(sock)
    for test in VERBS:
        for shape in (["-q", "4"], ["-t", "64", "-Q", "16"], ["-t", "32", "-l", "8"], ["-I", "100"], ["-t", "1"],
                      ["-q", "3", "-t", "7", "-Q", "5", "-l", "3", "-r", "16"]):
            if test == "read" and "-I" in shape:
                continue
            r = one(sock, test, "-s", "64", "-n", "1000", *shape)
            qps = int(shape[shape.index("-q") + 1]) if "-q" in shape else 1
            assert (r["iterations"], r["qps"]) == (1000 * qps, qps), (test, shape, r)
            if test in ("write", "send"):
                # beside the test's messages: the message that ends the measured part, and a Read to see Writes placed
                extra = r["server"]["received_bytes"] - 64 * r["iterations"]
                assert 0 <= extra <= 64 * qps, (test, shape, r)
            # both sides agree: no warning says that they do not
            assert not any("disagree" in w for w in r["warnings"]), (test, shape, r)
    for shape in (["--lat"], ["-b"], ["-b", "-q", "2", "-e"], ["-b", "-r", "4", "-t", "4"], ["-s", "200000"], ["--sizes", "64:1,128:1"]):
        for test in ("write", "send", "write-imm"):
            if test == "write" and "-r" in shape:
                continue
            size = [] if "-s" in shape or "--sizes" in shape else ["-s", "64"]
            w = one(sock, test, "-n", "500", *size, *shape)["warnings"]
            assert not any("disagree" in x for x in w) and ("--lat" not in shape or any("99.9 %" in x for x in w)), (test, shape, w)


def test_perf_both_ways():
    sock = path("both.sock")
    perf_server(sock)
    for test in VERBS:
        for n in (["-n", "3000"], ["-D", "1"]):
            r = one(sock, test, "-s", "1024", "-b", "-q", "2", *n)
            assert r["bidirectional"] and r["server"]["sent_messages"] > 100, (test, r)
            assert r["server"]["sent_bytes"] == 1024 * r["server"]["sent_messages"], r
            ours = r["iterations"] / r["seconds"] / 1e6
            assert r["mmsg_s"] > ours * 1.01, (test, r)


def test_perf_reversed():
    """--reversed: the server sends, as many messages as were asked for or for the time; both sides count the same octets."""
    sock = path("rev.sock")
    perf_server(sock)
    for test in VERBS:
        for shape in ([], ["-q", "3", "-t", "16", "-r", "16"], ["-t", "64", "-l", "8", "-Q", "16"], ["-e", "-q", "2"]):
            r = one(sock, test, "--reversed", "-s", "64", "-n", "1000", *shape)
            n = 1000 * r["qps"]
            assert r["reversed"] and r["iterations"] == r["server"]["sent_messages"] == n, (test, shape, r)
            assert r["server"]["sent_bytes"] == 64 * n and abs(r["mmsg_s"] * r["seconds"] * 1e6 / n - 1) < 1e-3 + 1e-6 / r["seconds"], (
                test, shape, r)
            # what the server sends is received here, or read from here
            octets = r["rdmap"]["sent_bytes" if test == "read" else "received_bytes"]
            assert 64 * n <= octets <= 64 * n + (16 * n if test == "write-imm" else 0) + 1000 * r["qps"], (test, shape, r)
            assert not any("disagree" in w for w in r["warnings"]), (test, shape, r)
        r = one(sock, test, "--reversed", "-s", "4096", "-D", "1")
        assert 0.9 < r["seconds"] < 3 and r["iterations"] > 0 and r["average_mb_s"] == r["peak_mb_s"], (test, r)
    for test in ("send", "write-imm"):
        r = one(sock, test, "--reversed", "--use-srq", "-q", "3", "-r", "48", "-s", "64", "-n", "500")
        assert r["iterations"] == 1500, r
    p = client(sock, "write", "--reversed", "-D", "60", "--json")
    until_busy(p)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    r = json.loads(out)["results"][0]
    assert p.returncode == 0 and r["interrupted"] and 0.2 < r["seconds"] < 55, (p.returncode, out, err)
    assert one(sock, "send", "-n", "500")["iterations"] == 500


def test_perf_posted_receives():
    """--recv_post_list: receives in lists, at both ends; no message finds none, and both sides count the same."""
    sock = path("rlist.sock")
    perf_server(sock)
    for test in ("send", "write-imm"):
        for shape in (["--recv_post_list", "8"], ["--recv_post_list", "64", "-r", "4"], ["--recv_post_list", "3", "-r", "5", "-q", "3"],
                      ["--recv_post_list", "16", "-b", "-r", "8"], ["--recv_post_list", "7", "--reversed", "-r", "9", "-e"]):
            r = one(sock, test, "-s", "64", "-n", "2000", *shape)
            assert r["iterations"] == 2000 * r["qps"] and r["recv_post_list"] == int(shape[1]), (test, shape, r)
            assert not any("disagree" in w for w in r["warnings"]), (test, shape, r)


def test_perf_margin():
    """-f: of a duration the first and last seconds are sent and not measured."""
    sock = path("margin.sock")
    perf_server(sock)
    for test in ("write", "send", "read"):
        began = time.monotonic()
        r = one(sock, test, "-s", "512", "-q", "2", "-D", "5", "-f", "1")
        assert 3 <= r["seconds"] < 4 and r["margin_s"] == 1 and time.monotonic() - began >= 5, (test, r)
        assert abs(r["mmsg_s"] * r["seconds"] * 1e6 / r["iterations"] - 1) < 1e-3, (test, r)
        if test != "read":
            assert 0 <= r["server"]["received_bytes"] - 512 * r["iterations"] <= 64 * r["qps"], (test, r)
        assert not any("disagree" in w for w in r["warnings"]), (test, r)


def test_perf_wait_server():
    """A client that finds no server tries again for the time that it is told."""
    lan = path("late.sock")
    began = time.monotonic()
    p = perf_server(lan)
    # the port is there, and nothing listens on another port number
    rc, _, err = run([app("weft-perf"), "write", "-n", "10", "-p", "18516", "--dev", memif(0, "client", lan), "--address", "10.0.0.2/24",
                      "10.0.0.1"], timeout=60)
    assert rc == 1 and "refused: nothing listens there; is weft-perf --server running? Check the address and --port" in err, (rc, err)
    assert len(err.splitlines()) == 1, err
    # and at another address nothing answers
    rc, _, err = run([app("weft-perf"), "write", "-n", "10", "--timeout", "2", "--dev", memif(0, "client", lan), "--address",
                      "10.0.0.2/24", "10.0.0.77"], timeout=60)
    assert rc == 1 and "nothing answers there; is weft-perf --server running? Check" in err and len(err.splitlines()) == 1, (rc, err)
    p.terminate()
    p.wait()
    perf_server(lan)
    began = time.monotonic()
    rc, _, err = run([app("weft-perf"), "write", "-n", "10", "-p", "18516", "--wait_server", "3", "--dev", memif(0, "client", lan),
                      "--address", "10.0.0.2/24", "10.0.0.1"], timeout=60)
    assert rc == 1 and "refused" in err and time.monotonic() - began > 3, (rc, err)


def test_perf_second_client():
    """net_memif has one client at a time. A second one says so, and what to do."""
    sock = path("second.sock")
    perf_server(sock)
    first = client(sock, "write", "-D", "60", "--rate_limit", "100")
    until_busy(first)
    rc, out, err = run([app("weft-perf"), "write", "-n", "10", "--timeout", "3", "--dev", memif(0, "client", sock), "--address",
                        "10.0.0.3/24", "10.0.0.1"], timeout=60)
    assert rc == 1, (rc, out, err)
    assert "takes no client now" in err and "end the other client, or give each a socket of its own" in err, (rc, out, err)
    assert len(err.splitlines()) == 1, err
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=30) == 0


def test_perf_rate_is_iterations_by_time():
    """The rate, the bandwidth and the time of a row agree; so does a watch outside of the program."""
    sock = path("agree.sock")
    perf_server(sock)
    for test in ("write", "read", "send"):
        r = one(sock, test, "-s", "4096", "-D", "2")
        assert abs(r["mmsg_s"] * r["seconds"] * 1e6 / r["iterations"] - 1) < 1e-3, r
        assert abs(r["average_mb_s"] / (r["mmsg_s"] * 4096) - 1) < 1e-3, r
        assert 2 <= r["seconds"] < 2.5 and r["peak_mb_s"] >= r["average_mb_s"], r
    # -a and the size alone measure the same: the same number of messages in a comparable time
    rows = json.loads(perf(sock, "write", "-a", "-n", "2000", "--json"))["results"]
    for r in rows:
        assert r["iterations"] == 2000 and r["server"]["received_bytes"] >= 2000 * r["bytes"], r


def test_perf_two_clients():
    """A server goes on for ever, and serves clients that come while others are served."""
    sock = path("more.sock")
    perf_server(sock)
    for _ in range(3):
        assert one(sock, "send", "-n", "500", "-q", "2")["iterations"] == 1000
    rc, _, err = run([app("weft-perf"), "write", "-q", "257", "10.0.0.1"])
    assert rc == 2 and "--qp" in err, err


def test_perf_output():
    sock = path("out.sock")
    perf_server(sock)
    rows = list(csv.DictReader(io.StringIO(perf(sock, "write", "-s", "512", "-n", "2000", "--csv"))))
    assert len(rows) == 1 and rows[0]["bytes"] == "512" and float(rows[0]["average_mb_s"]) > 0, rows
    assert rows[0]["t_avg_us"] == "" and rows[0]["rx_depth"] == "" and rows[0]["round"] == "0", rows
    assert list(rows[0])[-6:] == ["margin_s", "ended", "interrupted", "way", "stable", "random"], rows
    assert rows[0]["ended"] == rows[0]["interrupted"] == "0" and rows[0]["way"] == "", rows
    rows = list(csv.DictReader(io.StringIO(perf(sock, "send", "-s", "512", "-D", "1", "--rounds", "2", "-t", "32", "-l", "4", "-Q", "8",
                                                "-r", "64", "--csv"))))
    assert [(r["round"], r["workers"], r["post_list"], r["cq_mod"], r["rx_depth"], r["rate_asked"]) for r in rows] == [
        (n, "1", "4", "8", "64", "0.000") for n in "12"] and "worst_10ms_mb_s" in rows[0], rows
    row, = csv.DictReader(io.StringIO(perf(sock, "send", "--rate_limit", "500", "-D", "1", "--csv")))
    assert float(row["rate_asked"]) == 500, row
    rows = list(csv.DictReader(io.StringIO(perf(sock, "read", "--lat", "-n", "20000", "--csv"))))
    assert 0 < float(rows[0]["t_p50_us"]) <= float(rows[0]["t_p999_us"]) and rows[0]["t_p99999_us"] == "", rows
    r = one(sock, "read", "--lat", "--rate", "500", "-D", "2")
    assert r["iterations"] == 1000, r
    r = one(sock, "read", "--lat", "-n", "2000", "--perform_warm_up")
    assert r["samples_beyond"] == {"t_p50_us": 1000, "t_p90_us": 200, "t_p99_us": 20, "t_p999_us": 2}, r
    assert set(r["samples_beyond"]) == {k for k in r if k.startswith("t_p")}, r
    out = perf(sock, "read", "--lat", "-n", "2000", "-H")
    samples = [int(m.group(1)) for m in re.finditer(r"^ +[\d.]+ +(\d+) +[\d.]+ %$", out, re.M)]
    assert sum(samples) == 2000 and "99.9 % below" in out, out
    assert re.search(r"BW average\[Gb/sec\]", perf(sock, "write", "-n", "1000", "--report_gbits"))
    file = path("out.json")
    perf(sock, "write", "-n", "1000", "--out", file)
    with open(file, encoding="utf-8") as f:
        assert json.load(f)["results"][0]["iterations"] == 1000
    rc, _, err = run([app("weft-perf"), "write", "--out", file, "--dev", memif(0, "client", sock), "--address", "10.0.0.2/24",
                      "10.0.0.1"])
    assert rc == 1 and "exists" in err and len(err.splitlines()) == 1, err


def test_perf_terminal():
    """Nothing is wider than the terminal, and no figure is missing: what does not fit stands in a second line. In a pipe a row is one
    line, in perftest's order of columns."""
    sock = path("term.sock")
    perf_server(sock)
    for args in (["write", "-s", "64", "-n", "3000"], ["write", "-n", "300", "--report_gbits"], ["send", "--lat", "-n", "3000"],
                 ["read", "-a", "-n", "5"], ["write", "-b", "--report-both", "-n", "2000"], ["read", "--lat", "-n", "2000", "-H"],
                 ["commit", "--lat", "-n", "2000"], ["write", "-n", "500", "--no-crc", "--markers"], ["read", "--lat", "-n", "20", "-U"],
                 ["write", "-s", "16M", "-n", "2"]):
        pipe = perf(sock, *args).splitlines()
        titles = re.findall(r"99\.?9?% percentile\[usec\]|BW \S+|\S+", pipe[0])
        want = (["#bytes", "#iterations", "t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]", "t_stdev[usec]",
                 "99% percentile[usec]", "99.9% percentile[usec]", "cycles/msg"] if "--lat" in args else
                ["#bytes", "#iterations", *((f"BW {x}[{'Gb' if '--report_gbits' in args else 'MB'}/sec]") for x in ("peak", "average")),
                 "MsgRate[Mpps]", "cycles/msg"])
        assert titles == want and len(pipe[1].split()) == len(want) and pipe[1][0] == " " != pipe[1][1], (args, pipe)
        for columns in (80, 120, 200):
            # without the line that shows how a long run goes
            lines = re.sub(r"\r[^\r\n]*\x1b\[K", "", on_terminal(sock, columns, *args)).splitlines()
            assert max(map(len, lines)) <= columns, (args, columns, lines)
            two = "--lat" in args and columns < 140
            head, row = " ".join(lines[:1 + two]), " ".join(lines[1 + two:2 + 2 * two])
            assert head.split() == pipe[0].split() and len(row.split()) == len(want), (args, columns, lines)
            if two:
                assert all(lines[i].startswith(" " * 8) for i in (1, 3)), lines
    # a long line of text is broken between words
    said = "samples lie beyond the 99.9 % percentile; with --iters 10000 it is more than chance"
    assert any(said in line for line in on_terminal(sock, 200, "read", "--lat", "-n", "200").splitlines())
    narrow = on_terminal(sock, 60, "write", "--workers", "2", "-q", "2", status=1).splitlines()
    assert len(narrow) == 2 and max(map(len, narrow)) <= 60 and " ".join(line.strip() for line in narrow) == (
        "weft-perf: --workers 2: it takes --config, with as many [worker NAME] sections"), narrow
    narrow = on_terminal(sock, 60, "read", "--lat", "-n", "200").splitlines()
    assert max(map(len, narrow)) <= 60 and said in " ".join(line.strip() for line in narrow), narrow


def test_perf_rounds_named():
    """With --rounds each row has its round in the last column, and so has what is said of a round."""
    sock = path("rounds.sock")
    perf_server(sock)
    rc, out, err = run([app("weft-perf"), "read", "--lat", "-n", "200", "--rounds", "2", "--dev", memif(0, "client", sock), "--address",
                        "10.0.0.2/24", "10.0.0.1"], timeout=60)
    rows = out.splitlines()
    assert rc == 0 and rows[0].endswith(" cycles/msg round") and [r.split()[-1] for r in rows[1:]] == ["1", "2"], (rc, out, err)
    for n in (1, 2):
        assert f"read of 64 octets, round {n}: " in err, err
    assert "round" not in perf(sock, "write", "-n", "200")


def test_perf_live():
    """Each second a line on a terminal says how a long run goes, in each kind of test, and is erased; in a pipe there is none."""
    sock = path("live.sock")
    perf_server(sock)
    for args, what in ((["write", "-s", "64"], "64 octets: "), (["write", "-s", "64", "-b"], "sent "), (["read", "--lat"], "us each"),
                       (["read", "--lat", "--rate", "500"], "answers/s"), (["write", "-s", "512", "--verify-data"], "compared "),
                       (["commit"], "MB/s"), (["rpc", "--lat"], "round trips/s")):
        text = on_terminal(sock, 80, *args, "-D", "3")
        shown = re.findall(r"\r(\d[^\r\n]*)\x1b\[K", text)
        assert shown and all(what in line and "s so far" in line and len(line) < 80 for line in shown), (args, text)
        assert any(re.search(r", \d s left", line) for line in shown), (args, shown)
        assert "\r\x1b[K" in text, (args, text)
    p = client(sock, "read", "--lat", "-D", "2")
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0 and "\r" not in out + err and "so far" not in err, (out, err)


def test_perf_lat_duration():
    """Latency for a time: as many messages as there are in it."""
    sock = path("latd.sock")
    perf_server(sock)
    for args in (["send"], ["read"], ["write"], ["write-imm"], ["fetch-add"], ["commit"], ["rpc"], ["two-sided"], ["log-append"],
                 ["send", "-e"]):
        began = time.monotonic()
        r = one(sock, *args, "--lat", "-D", "1")
        assert 1 <= r["seconds"] < 3 and r["iterations"] > 0 and time.monotonic() - began < 60, (args, r)
        assert abs(r["t_avg_us"] * r["iterations"] / r["seconds"] / 1e6 * (2 if args[0] in ("send", "write", "write-imm") else 1)
                   - 1) < 0.02, (args, r)
    p = client(sock, "read", "--lat", "-D", "60", "--json")
    until_busy(p)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=20)
    assert p.returncode == 0 and json.loads(out)["results"][0]["interrupted"], (out, err)


def test_perf_no_peak():
    """-N: no peak, in perftest's row a 0. -F says nothing of the frequency."""
    sock = path("peak.sock")
    perf_server(sock)
    r = one(sock, "write", "-n", "3000", "-N", "-F")
    assert "peak_mb_s" not in r and "worst_10ms_mb_s" not in r and r["average_mb_s"] > 0, r
    assert perf(sock, "write", "-n", "3000", "--noPeak", "--CPU-freq").splitlines()[1].split()[2] == "0.00"
    row, = csv.DictReader(io.StringIO(perf(sock, "write", "-n", "3000", "-N", "--csv")))
    assert row["peak_mb_s"] == "" and float(row["average_mb_s"]) > 0, row


def test_perf_lcore():
    """The thread of the first worker, which is the program's first one, runs on the worker's lcore at either side."""
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one CPU")
    sock = path("lcore.sock")

    def conf(role, address):
        with open(path(f"lcore-{role}.ini"), "w", encoding="ascii") as f:
            f.write(f"[weft]\nlcores = 0\n[port p0]\ndev = {memif(0, role, sock)}\naddress = {address}\n[worker w0]\nlcore = 1\n")
        return path(f"lcore-{role}.ini")

    def cpus(p):
        with open(f"/proc/{p.pid}/status", encoding="ascii") as f:
            return re.search(r"Cpus_allowed_list:\t(.*)", f.read()).group(1)
    s = subprocess.Popen([app("weft-perf"), "--server", "-c", conf("server", "10.0.0.1/24")], stderr=subprocess.PIPE, text=True,
                         stdin=subprocess.DEVNULL)
    PROCS.append(s)
    assert "waiting" in s.stderr.readline()
    p = subprocess.Popen([app("weft-perf"), "write", "-D", "60", "-c", conf("client", "10.0.0.2/24"), "10.0.0.1"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    PROCS.append(p)
    until_busy(p)
    assert (cpus(s), cpus(p)) == ("1", "1"), (cpus(s), cpus(p))
    p.send_signal(signal.SIGINT)
    assert p.wait(timeout=30) == 0


def test_perf_expect():
    sock = path("expect.sock")
    perf_server(sock)
    at = ["--dev", memif(0, "client", sock), "--address", "10.0.0.2/24", "10.0.0.1"]
    for args, what, rc_wanted in ((["read", "--lat", "-n", "1000"], "p99<1s,min>1ns,p99.9<1s,retrans<1000", 0),
                                  (["read", "--lat", "-n", "999"], "p99.9<1s", 3),
                                  (["read", "--lat", "-n", "500"], "p99<1ns", 3),
                                  (["write", "-n", "500"], "bw>1K,rate>1,cycles>0", 0),
                                  (["write", "-n", "500"], "bw>9000G", 3),
                                  (["write", "-n", "500"], "p99<1s", 3)):
        rc, _, err = run([app("weft-perf"), *args, "--expect", what, *at])
        assert rc == rc_wanted, (args, what, rc, err)
        assert (rc == 0) or "does not meet" in err, err
        # a percentile that no sample lies beyond, and one that few do
        assert ("p99.9 needs --iters 1000 or more" in err) == ("999" in args), err
        assert ("1 sample lies beyond p99.9 of --expect; with --iters 10000" in err) == ("1000" in args), err
        # the figure is in the unit that was asked for
        for asked, figure in (("p99<1ns", r"p99<1ns: it is \d+(\.\d+)? ns\n"), ("bw>9000G", r"bw>9000G: it is \d+\.\d+G\n")):
            assert (what != asked) or re.search(figure, err), err
    for bad in ("p99<20", "p99=20us", "nonsense<1", "bw>9G,", "bw>9us", "p0<1us", "p100<1us", "bw>x", ""):
        rc, _, err = run([app("weft-perf"), "write", "--expect", bad, *at])
        assert rc == 2 and "--expect" in err, (bad, rc, err)


def test_perf_refused():
    """Options that exclude each other: one line, before anything is opened."""
    for args, why in ((["write", "--lat", "-q", "2"], "one message at a time"), (["commit", "-q", "2"], "takes no --qp"),
                      (["fetch-add", "-b"], "same word"), (["write", "-t", "4", "-Q", "8"], "never complete"),
                      (["write", "-t", "4", "-l", "8"], "does not fit"), (["write", "--json", "--csv"], "not both"),
                      (["write", "-H"], "--lat"), (["write", "--run_infinitely", "-n", "5"], "Ctrl-C"),
                      (["write", "--lat", "--rate", "5"], "no answer of its own"),
                      (["rpc", "--rate", "5"], "takes no rate"),
                      (["write", "--rate_limit", "5X"], "no rate"), (["write", "-n", "5", "-D", "1"], "not both"),
                      (["write", "--rate_limit", "5", "-l", "4"], "at its time"),
                      (["send", "-r", "16", "-l", "13"], "in quarters"), (["write", "-b", "--run_infinitely"], "one direction"),
                      (["commit", "--verify-data"], "--verify-data is for"),
                      (["write", "--verify-data", "-b"], "round by round"), (["write", "-I", "5000"], "--inline_size"),
                      (["write", "-r", "1"], "--rx-depth"), (["write", "--lat", "-e"], "no completion where it arrives"),
                      (["write", "-U"], "is for --lat"), (["write", "--report-both"], "--bidirectional"),
                      (["read", "--lat", "-U", "-n", "20M"], "--iters"), (["read", "--lat", "-U", "-n", "20000000"], "keeps each sample"),
                      (["write", "--use-srq"], "no receives"), (["send", "--use-srq", "-q", "5", "-r", "16"], "equal share"),
                      (["send", "--use-srq", "-q", "2", "-r", "16", "-l", "7"], "in quarters"), (["rpc", "-e"], "takes no --events"),
                      (["log-append", "-e"], "takes no --events"), (["read", "--lat", "-U", "-D", "5"], "not --duration"),
                      (["read", "--lat", "-N"], "is for bandwidth"), (["fetch-add", "--reversed"], "--reversed is for write"),
                      (["write", "--reversed", "-b"], "one bandwidth"), (["write", "--reversed", "--run_infinitely"], "no --bidirectional"),
                      (["write", "--sizes", "64:1", "--reversed"], "in one direction"), (["write", "-o", "4"], "--outs is for read"),
                      (["read", "-o", "257"], "--outs"), (["write", "--recv_post_list", "4"], "for send and write-imm"),
                      (["send", "--recv_post_list", "4", "--use-srq"], "no --lat"), (["send", "--recv_post_list", "65"], "from 1 to 64"),
                      (["write", "-f", "2"], "takes a --duration of more than 4"), (["write", "-D", "4", "-f", "2"], "more than 4"),
                      (["write", "-b", "-D", "9", "-f", "2"], "of the client"), (["atomic-write", "--verify-data"], "--verify-data is for"),
                      (["log-append", "--timeout", "9", "weft://10.0.0.1/x"], "for a weft-perf server")):
        rc, out, err = run([app("weft-perf"), *args, *([] if args[-1].startswith("weft:") else ["10.0.0.1"])])
        assert rc == 2 and why in err and out == "", (args, rc, out, err)


def test_perf_forever():
    """A row each second until Ctrl-C, then the row of all of it."""
    sock = path("ever.sock")
    perf_server(sock)
    p = client(sock, "write", "-s", "4096", "--run_infinitely")
    until_busy(p, 4.0)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=20)
    rows = [line.split() for line in out.splitlines() if re.match(r" 4096 ", line)]
    assert p.returncode == 0 and len(rows) >= 3, (p.returncode, out, err)
    assert abs(int(rows[-1][1]) / sum(int(r[1]) for r in rows[:-1]) - 1) < 0.6, out
    # the cycles of a second are not measured
    assert {r[5] for r in rows[:-1]} == {"-"} and int(rows[-1][5]) > 0, out
    for form in ("--json", "--csv"):
        p = client(sock, "write", "-s", "4096", "--run_infinitely", form)
        until_busy(p, 4.0)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=20)
        assert p.returncode == 0 and len(re.findall(r"^ 4096 .* -$", err, re.M)) >= 2 and "#bytes" in err, (p.returncode, out, err)
        rows = json.loads(out)["results"] if form == "--json" else list(csv.DictReader(io.StringIO(out)))
        assert len(rows) == 1 and float(rows[0]["cycles_per_message"]) > 0, out
    # On a terminal "^C" stands in a line of its own, and the last row is named.
    lines = on_terminal(sock, 80, "write", "-s", "4096", "--run_infinitely", rows=2).splitlines()
    at = lines.index("^C")
    assert lines[at + 1].startswith(" 4096 ") and max(map(len, lines)) <= 80, lines
    assert re.fullmatch(r" the last row is the total of \d+\.\d s", lines[at + 2]), lines


def test_perf_interrupted():
    """Ctrl-C in a run: what was measured is printed, and marked."""
    sock = path("cut.sock")
    perf_server(sock)
    p = client(sock, "write", "-s", "4096", "-D", "60", "--json")
    until_busy(p)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=20)
    r = json.loads(out)["results"][0]
    assert p.returncode == 0 and r["interrupted"] and 0.2 < r["seconds"] < 55, (p.returncode, out, err)
    assert "interrupted after" in err, err
    for args, marked in ((["-D", "60"], r" interrupted after \d+\.\d of 60 s"),
                         (["-n", "900000000", "-q", "2"], r" interrupted after \d+ of 1800000000 iterations")):
        p = client(sock, "write", "-s", "4096", *args)
        until_busy(p)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=20)
        assert p.returncode == 0 and re.fullmatch(marked, out.splitlines()[-1]) and out.splitlines()[-2].startswith(" 4096 "), (out, err)
    p = client(sock, "write", "-s", "4096", "-D", "60", "--csv")
    until_busy(p)
    p.send_signal(signal.SIGINT)
    row, = csv.DictReader(io.StringIO(p.communicate(timeout=20)[0]))
    assert row["interrupted"] == "1" and row["ended"] == "0", row


def test_perf_mix():
    """The shares of sizes and of tests are exact over a thousand messages, by the server's count of octets."""
    sock = path("mix.sock")
    perf_server(sock)
    for test in ("write", "send"):
        r = one(sock, test, "--sizes", "64:80,4096:15,32K:5", "-n", "2000", "-q", "2")
        mean = 0.8 * 64 + 0.15 * 4096 + 0.05 * 32768
        assert abs(r["bytes"] - mean) < 1e-3 and r["sizes"] == "64:80,4096:15,32K:5", r
        assert 0 <= r["server"]["received_bytes"] - mean * r["iterations"] <= 64 * r["qps"], r
        assert abs(r["average_mb_s"] / (r["mmsg_s"] * mean) - 1) < 1e-3, r
    # A message names the size that the row has.
    rc, out, err = run([app("weft-perf"), "write", "--sizes", "64:80,4096:15,32K:5", "-n", "1000", "--expect", "bw>9000G", "--dev",
                        memif(0, "client", sock), "--address", "10.0.0.2/24", "10.0.0.1"])
    assert rc == 3 and "\n 2304 " in out and "32768" not in err, (rc, out, err)
    assert "write of 2304 octets on average does not meet bw>9000G" in err, err
    r = one(sock, "mix", "--mix", "write:70,read:30", "-s", "512", "-n", "3000")
    assert (r["test"], r["mix"], r["iterations"]) == ("mix", "write:70,read:30", 3000), r
    assert 0 <= r["server"]["received_bytes"] - 512 * 2100 <= 64, r
    r = one(sock, "mix", "--mix", "write:1,read:1,fetch-add:1,atomic-write:1", "--sizes", "1:1,10K:3", "-n", "1000")
    assert r["iterations"] == 1000, r
    for args, why in ((["write", "--mix", "write:1"], "test named mix"), (["mix"], "--mix write:70,read:30"),
                      (["mix", "--mix", "write:0"], "VALUE:SHARE"), (["mix", "--mix", "send:1"], "VALUE:SHARE"),
                      (["write", "--sizes", "64"], "VALUE:SHARE"), (["write", "--sizes", ""], "empty"),
                      (["write", "--sizes", "64:1", "-s", "5"], "in place of"), (["write", "--sizes", "1:1", "--lat"], "bandwidth")):
        rc, out, err = run([app("weft-perf"), *args, "--dev", memif(0, "client", sock), "--address", "10.0.0.2/24", "10.0.0.1"])
        assert rc == 2 and why in err, (args, rc, out, err)


def test_perf_verify():
    """--verify-data compares each octet: it finds none wrong, and one that another program has changed."""
    sock, file = path("verify.sock"), path("verify.pmem")
    for shape in (["-s", "1"], ["-s", "100", "-q", "3"], ["-s", "4099", "-t", "16", "-l", "4"], ["-s", "200K", "-t", "4"],
                  ["-s", "64", "-I", "64"]):
        if shape == ["-s", "1"]:
            s = perf_server(sock)
        for test in VERBS:
            if "-I" in shape and test == "read":
                continue
            r = one(sock, test, "--verify-data", "-n", "300", *shape)
            assert r["verified_messages"] == r["iterations"] == 300 * r["qps"], r
    for test in ("fetch-add", "cmp-swap"):
        for shape in ([], ["-q", "3", "-t", "7"], ["-t", "64", "-l", "8"], ["-e"]):
            r = one(sock, test, "--verify-data", "-n", "500", *shape)
            assert r["verified_messages"] == r["iterations"] == 500 * r["qps"], (test, shape, r)
    s.terminate()
    s.wait()
    # The server's memory is a file that this program changes meanwhile.
    perf_server(sock, "--medium", f"pmem:{file}", env={**os.environ, "PMEM_IS_PMEM_FORCE": "1"})
    # A Send is compared when it has come, so the change would have to fall into that moment.
    for test in ("write", "read", "write-imm"):
        p = client(sock, test, "--verify-data", "-D", "60", "-s", "4096", "-t", "8")
        end = time.time() + 80
        while p.poll() is None and time.time() < end:
            if os.path.exists(file) and os.path.getsize(file) > 8192:
                with open(file, "r+b") as f:
                    for at in range(0, 4096, 8):
                        f.seek(at)
                        f.write(b"X")
        out, err = p.communicate(timeout=30)
        assert p.returncode == 1 and ("instead of 0x" in err or "with other octets" in err), (test, p.returncode, out, err)
    for test in ("fetch-add", "cmp-swap"):
        p = client(sock, test, "--verify-data", "-D", "60", "-t", "8")
        until_busy(p)
        with open(file, "r+b") as f:
            f.write(b"X" * 8)
        out, err = p.communicate(timeout=30)
        assert p.returncode == 1 and re.search(r"operation \d+ found 6365935209750747224 in the server's word", err), (test, out, err)


def test_perf_rate_limit():
    """The rate that was asked for, within 2 %, in messages and in bits, also over several QPs."""
    sock = path("limit.sock")
    os.sched_setaffinity(0, {0})
    perf_server(sock)
    os.sched_setaffinity(0, {1} if os.cpu_count() > 1 else {0})
    try:
        for args, rate in ((["-s", "256", "--rate_limit", "5K"], 5000), (["-s", "1000", "--rate_limit", "16Mb"], 2000),
                           (["-s", "64", "-q", "3", "--rate_limit", "3000"], 3000)):
            for test in ("write", "send"):
                r = one(sock, test, "-D", "2", *args)
                assert r["rate_asked"] == rate and r["rate_error_percent"] < 2, r
                # An end without a CPU cannot keep the rate. weft-perf says so itself.
                if max(r["waited_percent"], r["server"]["waited_percent"]) < 5:
                    assert r["rate_error_percent"] > -2 and abs(r["mmsg_s"] * 1e6 / rate - 1) < 0.02, r
    finally:
        os.sched_setaffinity(0, range(os.cpu_count()))


def test_perf_no_omission():
    """A server that stands still for 300 ms in the middle delays each message that was due meanwhile. An open loop shows all of
    them, where one message at a time shows one."""
    sock = path("omit.sock")
    os.sched_setaffinity(0, {0})
    s = perf_server(sock)
    os.sched_setaffinity(0, {1} if os.cpu_count() > 1 else {0})
    try:
        for test in ("read", "send"):
            p = client(sock, test, "--lat", "--rate", "1000", "-n", "6000", "-t", "1000", "--json")
            for _ in range(3):  # one of them at least when the client has begun
                time.sleep(1.5)
                s.send_signal(signal.SIGSTOP)
                time.sleep(0.3)
                s.send_signal(signal.SIGCONT)
            out, err = p.communicate(timeout=60)
            assert p.returncode == 0, err
            r = json.loads(out)["results"][0]
            # Each time some 300 of the 6000 messages, the longest 300 ms late, evenly.
            assert r["t_avg_us"] > 6000 and r["t_p99_us"] > 200000 and r["t_max_us"] > 290000, r
    finally:
        os.sched_setaffinity(0, range(os.cpu_count()))


def test_perf_samples():
    """-U: each sample, in the order of the messages, on the terminal, in JSON and CSV; they are those of the summary."""
    sock = path("samples.sock")
    perf_server(sock)
    for args in (["send", "--lat"], ["read", "--lat"], ["write", "--lat"], ["read", "--lat", "--rate", "2000", "-t", "16"],
                 ["rpc", "--lat"], ["send", "--lat", "-e"]):
        size = [] if args[0] == "rpc" else ["-s", "64"]
        r = one(sock, *args, *size, "-n", "500", "-U")
        t = r["samples_us"]
        assert len(t) == r["iterations"] == 500 and "samples_of_worker" not in r, (args, len(t))
        assert (min(t), max(t)) == (r["t_min_us"], r["t_max_us"]) and abs(sum(t) / 500 - r["t_avg_us"]) < 0.002, (args, r)
        assert abs(sorted(t)[249] / r["t_typical_us"] - 1) < 0.02, (args, sorted(t)[249], r)
    out = perf(sock, "read", "--lat", "-s", "64", "-n", "200", "-U")
    head, samples = out.split("#, usec\n")
    assert "t_typical" in head and [int(line.split(", ")[0]) for line in samples.splitlines()] == list(range(1, 201)), out
    assert f"{max(float(line.split(', ')[1]) for line in samples.splitlines()):.2f}" in head, out
    rows = list(csv.DictReader(io.StringIO(perf(sock, "read", "--lat", "-s", "64", "-n", "200", "-U", "--csv"))))
    assert len(rows) == 200 and [int(row["sample"]) for row in rows] == list(range(1, 201)), rows
    assert all(float(row["t_us"]) > 0 and (row["test"], row["bytes"], row["worker"]) == ("read", "64", "0") for row in rows), rows
    assert "samples_us" not in one(sock, "read", "--lat", "-n", "200")


def test_perf_report_both():
    """With -b each direction by itself: their sum is the average, and the server's is what it says that it sent."""
    sock = path("rb.sock")
    perf_server(sock)
    r = one(sock, "write", "-s", "1024", "-n", "3000", "-b", "-q", "2")
    assert abs((r["sent_mb_s"] + r["received_mb_s"]) / r["average_mb_s"] - 1) < 1e-3 and r["received_mb_s"] > 0, r
    assert abs((r["sent_mmsg_s"] + r["received_mmsg_s"]) / r["mmsg_s"] - 1) < 1e-3, r
    assert abs(r["sent_mmsg_s"] * 1e6 * r["seconds"] / r["iterations"] - 1) < 1e-3, r
    out = perf(sock, "write", "-s", "1024", "-n", "3000", "-b", "--report-both").splitlines()
    total, sent, received = out[1].split(), out[2].split(), out[3].split()
    assert (sent[0], received[0]) == ("sent", "received"), out
    assert abs(float(sent[1]) + float(received[1]) - float(total[3])) < 0.05, out
    # in the columns of the table: the figures end where the headings end
    ends = [line.index(figure, at) + len(figure) for line, figure, at in
            ((out[0], "BW average[MB/sec]", 0), (out[1], total[3], 36), (out[2], sent[1], 36), (out[3], received[1], 36))]
    assert len(set(ends)) == 1, (ends, out)
    rows = list(csv.DictReader(io.StringIO(perf(sock, "write", "-n", "500", "-b", "--csv"))))
    assert float(rows[0]["sent_mb_s"]) > 0 and float(rows[0]["received_mb_s"]) > 0, rows
    assert "sent_mb_s" not in one(sock, "write", "-n", "500")


def test_perf_srq():
    """The receives of all QPs come from one SRQ, of the server and with -b and --lat of the client: as many as -r for all, no message
    finds none, and each octet arrives."""
    sock = path("srq.sock")
    perf_server(sock)
    for test in ("send", "write-imm"):
        for shape in ([], ["-q", "4", "-r", "16"], ["-q", "3", "-r", "100", "-b"], ["-q", "2", "-r", "64", "-l", "8", "-t", "32", "-e"],
                      ["-q", "256"], ["-q", "2", "-b", "-e", "-r", "9"]):
            r = one(sock, test, "--use-srq", "-s", "64", "-n", "500", *shape)
            assert r["use_srq"] and r["iterations"] == 500 * r["qps"], (test, shape, r)
            assert r["rx_depth"] == (int(shape[shape.index("-r") + 1]) if "-r" in shape else 4096), r
            if test == "send" and "-b" not in shape:
                assert 0 <= r["server"]["received_bytes"] - 64 * r["iterations"] <= 64 * r["qps"], r
        for events in ([], ["-e"]):
            assert one(sock, test, "--use-srq", "--lat", "-n", "200", "-r", "8", *events)["iterations"] == 200
            assert one(sock, test, "--use-srq", "--verify-data", "-s", "100", "-n", "300", "-q", "3", "-r", "48",
                       *events)["verified_messages"] == 900
    # without it a QP has its receives for itself
    assert not one(sock, "send", "-n", "500", "-q", "4", "-r", "4")["use_srq"]


def with_workers(name, role, n, address):
    """A configuration file with n workers that share a port and sleep when they are idle."""
    with open(path(f"{name}.ini"), "w", encoding="ascii") as f:
        f.write(f"[weft]\ntelemetry = yes\n[port p0]\ndev = {memif(0, role, path('workers.sock'))}\naddress = {address}\n")
        for i in range(n):
            f.write(f"[worker w{i}]\nports = p0\nspin = no\n")
    return path(f"{name}.ini")


def test_perf_workers():
    """Two workers a side, which sleep when they are idle: the QPs are spread over them, and all messages, octets and samples are in
    the sums. What one worker measures is in the time of both."""
    conf = with_workers("ws", "server", 2, "10.0.0.1/24")
    s = subprocess.Popen([app("weft-perf"), "--server", "--workers", "2", "-c", conf], stderr=subprocess.PIPE, text=True,
                         stdin=subprocess.DEVNULL)
    PROCS.append(s)
    assert "waiting" in s.stderr.readline()
    conf = with_workers("wc", "client", 2, "10.0.0.2/24")

    def two(*args):
        rc, out, err = run([app("weft-perf"), *args, "--workers", "2", "--json", "-c", conf, "10.0.0.1"], timeout=120)
        assert rc == 0, (args, rc, err)
        r = json.loads(out)["results"][0]
        assert r["workers"] == 2, r
        return r
    for events in ([], ["-e"]):
        for test in VERBS:
            for shape in ([], ["-q", "5", "-t", "16"], ["-q", "4", "-b"]):
                r = two(test, "-s", "64", "-n", "2000", *shape, *events)
                assert r["qps"] == (int(shape[1]) if shape else 2) and r["iterations"] == 2000 * r["qps"], (test, shape, events, r)
                assert abs(r["mmsg_s"] * r["seconds"] * 1e6 / r["iterations"] - 1) < 1e-3 or "-b" in shape, r
                if test in ("write", "send"):
                    extra = r["server"]["received_bytes"] - 64 * r["iterations"]
                    # with -b also acknowledgements, of eight octets for a quarter of 4096 receives
                    acks = 8 * r["server"]["sent_messages"] // 1024 if "-b" in shape else 0
                    assert 0 <= extra <= 64 * r["qps"] + acks, (test, shape, events, r)
            if test != "write" or not events:
                r = two(test, "--lat", "-s", "64", "-n", "300", *events)
                t = two("read", "--lat", "-s", "64", "-n", "50", "-U", *events)
                assert t["samples_of_worker"] == [50, 50] and len(t["samples_us"]) == 100, t
                assert r["iterations"] == 600 and 0 < r["t_min_us"] <= r["t_typical_us"] <= r["t_max_us"], r
            assert two(test, "--verify-data", "-s", "100", "-n", "300", "-q", "3", *events)["verified_messages"] == 900
        r = two("send", "--use-srq", "-s", "64", "-n", "2000", "-q", "4", "-r", "32", "-b", *events)
        assert r["iterations"] == 8000 and r["server"]["sent_messages"] > 0, r
    r = two("send", "-s", "64", "-D", "2", "--rate_limit", "600", "-q", "3", "-e")
    assert r["rate_asked"] == 600 and r["rate_error_percent"] < 2 and r["iterations"] < 1260, r
    # what weft-perf measures with one worker goes on
    for args in (["write", "-n", "500"], ["commit", "-n", "100"], ["rpc", "-n", "100"], ["log-append", "-n", "100"]):
        rc, out, err = run([app("weft-perf"), *args, "--json", "-c", conf, "10.0.0.1"], timeout=60)
        assert rc == 0 and json.loads(out)["results"][0]["workers"] == 1, (args, rc, out, err)
    for args, why, want in ((["write", "--workers", "3", "-c", conf], "fewer [worker NAME]", 1),
                            (["write", "--workers", "2", "--dev", "x", "--address", "10.0.0.2/24"], "it takes --config", 1),
                            (["write", "--workers", "2", "-q", "1", "-c", conf], "needs --qp 2", 2),
                            (["write", "--workers", "2", "--lat", "-q", "4", "-c", conf], "one message at a time", 2),
                            (["commit", "--workers", "2", "-c", conf], "takes no --qp, --workers", 2),
                            (["write", "--workers", "9", "-c", conf], "--workers", 2)):
        rc, out, err = run([app("weft-perf"), *args, "10.0.0.1"])
        assert rc == want and why in err and len(err.splitlines()) == 1, (args, rc, out, err)
    # Ctrl-C, and a server that dies: each thread ends
    for what in ("ctrl-c", "dies"):
        p = subprocess.Popen([app("weft-perf"), "send", "-s", "64", "-D", "60", "-q", "2", "--workers", "2", "-e", "--rate_limit", "500",
                              "--json", "-c", conf, "10.0.0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        PROCS.append(p)
        until_moved(p, 2500)
        if what == "ctrl-c":
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=60)
            assert p.returncode == 0 and json.loads(out)["results"][0]["interrupted"], (p.returncode, out, err)
        else:
            s.kill()
            out, err = p.communicate(timeout=60)
            assert p.returncode == 1 and "send bandwidth" in err, (p.returncode, out, err)


def test_perf_mpa():
    """CRC and markers on and off: both ends report what they agreed on, and they agree; each octet arrives."""
    sock = path("mpa.sock")
    perf_server(sock)
    for args in ([], ["--no-crc"], ["--markers"], ["--no-crc", "--markers"]):
        want = {"revision": 2, "crc": "--no-crc" not in args, "markers_in": "--markers" in args, "markers_out": "--markers" in args}
        for test in (["send"], ["write", "--verify-data"], ["read", "--lat"], ["write", "-b", "-q", "2"]):
            r = one(sock, *test, "-s", "3000", "-n", "300", *args)
            assert r["mpa"] == r["server"]["mpa"] == want, (test, args, r)
            assert (r["no_crc"], r["markers"]) == (not want["crc"], want["markers_in"]), r
    out = perf(sock, "write", "-n", "100", "--no-crc", "--markers")
    assert "MPA: this side without CRC, markers received and sent; server without CRC, markers received and sent" in out, out
    assert "MPA" not in perf(sock, "write", "-n", "100")
    assert one(sock, "rpc", "-n", "100", "--no-crc")["mpa"]["crc"] is False
    # [mpa] of one end asks for neither; the other end's options are for both
    conf = path("mpa.ini")
    with open(conf, "w", encoding="ascii") as f:
        f.write(f"[port p0]\ndev = {memif(0, 'client', sock)}\naddress = 10.0.0.2/24\n[mpa]\nmarkers = yes\n")
    rc, out, err = run([app("weft-perf"), "write", "-n", "100", "--json", "-c", conf, "10.0.0.1"])
    r = json.loads(out)["results"][0]
    assert rc == 0 and r["mpa"] == {"revision": 2, "crc": True, "markers_in": True, "markers_out": False}, (rc, r, err)
    assert r["server"]["mpa"] == {"revision": 2, "crc": True, "markers_in": False, "markers_out": True}, r


def test_perf_events():
    """Completions by event: in each test and both modes, the same counts; the threads of both sides sleep. One server serves clients
    that poll and clients that sleep one after the other, and says that it is busy while it serves the other kind."""
    sock = path("events.sock")
    perf_server(sock)
    for test in (*VERBS, "fetch-add"):
        size = [] if test == "fetch-add" else ["-s", "64"]
        for shape in ([], ["-q", "3", "-t", "7", "-Q", "5", "-l", "3", "-r", "16"], ["-t", "128", "-Q", "128"]):
            r = one(sock, test, *size, "-n", "1000", "-e", *shape)
            assert r["events"] and r["iterations"] == 1000 * r["qps"], (test, shape, r)
        if test != "write":
            r = one(sock, test, "--lat", *size, "-n", "300", "-e")
            assert r["events"] and r["iterations"] == 300 and 0 < r["t_min_us"] <= r["t_typical_us"], r
        assert not one(sock, test, *size, "-n", "300")["events"]  # the server polls again
    for test in VERBS:
        r = one(sock, test, "-s", "1024", "-b", "-q", "2", "-n", "1000", "-e")
        assert r["bidirectional"] and r["server"]["sent_bytes"] == 1024 * r["server"]["sent_messages"] > 0, r
        r = one(sock, test, "--verify-data", "-s", "100", "-n", "300", "-e")
        assert r["verified_messages"] == 300, r
    for test in ("flush", "verify", "commit"):
        assert one(sock, test, "-n", "300", "-e")["iterations"] == 300
        assert one(sock, test, "--lat", "-n", "100", "-e")["iterations"] == 100
    # a busy machine makes it slower than its limit, and nothing makes it faster
    r = one(sock, "send", "-s", "64", "-n", "150", "--rate_limit", "50", "-e")
    assert r["iterations"] == 150 and r["seconds"] > 2.8 and r["cpu_percent"] < 50 and r["server"]["cpu_percent"] < 50, r
    r = one(sock, "send", "--lat", "--rate", "100", "-n", "200", "-e")
    assert r["iterations"] == 200 and r["cpu_percent"] < 60, r


def test_perf_events_end():
    """Ctrl-C, and a server that dies, while both sides sleep."""
    sock = path("asleep.sock")
    s = perf_server(sock)
    at = ["send", "-s", "64", "--rate_limit", "500", "-D", "60", "-e", "--json"]
    p = client_shown(sock, *at)
    until_moved(p, 1500)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0 and json.loads(out)["results"][0]["interrupted"], (p.returncode, out, err)
    p = client_shown(sock, *at)
    until_moved(p, 1500)
    s.kill()
    out, err = p.communicate(timeout=60)
    assert p.returncode == 1 and "weft-perf: 10.0.0.1:18515: send bandwidth" in err, (p.returncode, out, err)


def test_perf_lists_do_not_stop():
    """Lists and completions that do not fit each other exactly still make progress."""
    sock = path("lists.sock")
    perf_server(sock)
    for test in ("write", "send"):
        for shape in (["-t", "100", "-l", "64", "-Q", "100"], ["-t", "5", "-l", "3", "-Q", "5"], ["-t", "64", "-l", "64", "-Q", "64"],
                      ["-t", "64", "-r", "16", "-l", "12", "-Q", "40"], ["-t", "128", "-r", "4", "-Q", "128"]):
            assert one(sock, test, "-s", "64", "-n", "3000", *shape)["iterations"] == 3000, (test, shape)
        one(sock, test, "-s", "64", "-n", "3000", "-b", "-t", "100", "-l", "64", "-Q", "100")


def test_perf_ctrl_c():
    """Ctrl-C in the loops of latency: what was measured is printed, or one line says that nothing was."""
    sock = path("ctrlc.sock")
    perf_server(sock)
    for args in (["write", "--lat", "-n", "100000000"], ["read", "--lat", "--rate", "1000", "-D", "100"],
                 ["commit", "--lat", "-n", "100000000"], ["rpc", "--lat", "-n", "100000000"]):
        p = client_shown(sock, *args, "--json")
        until_moved(p, 8000 if args[0] == "commit" else 2000)  # a commit is five messages
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0 and "interrupted after" in err, (args, p.returncode, out, err)
        assert json.loads(out)["results"][0]["interrupted"], (args, out)


def test_perf_sides():
    """A failed run leaves no file. Options of the other side are refused."""
    file = path("none.json")
    rc, _, err = run([app("weft-perf"), "write", "-n", "10", "--out", file, "--dev", memif(0, "server", path("no.sock")), "--address",
                      "10.0.0.2/24", "10.0.0.1"], timeout=60)
    assert rc == 1 and not os.path.exists(file), (rc, err)
    # --out is opened before anything is measured, and a run that cannot begin leaves no file
    for out_file, dev, why in ((path("no/such/out.json"), "net_null0", "No such file or directory"), ("/proc/out.json", "net_null0", ""),
                               (file, "net_nonsense0", "nonsense")):
        rc, out, err = run([app("weft-perf"), "write", "--out", out_file, "--dev", dev, "--address", "10.0.0.2/24", "10.0.0.1"])
        assert rc == 1 and out == "" and why in err and len(err.splitlines()) == 1, (rc, out, err)
        assert not os.path.exists(out_file), out_file
    for args, why in ((["--server", "--lat"], "the test is the client's"), (["--server", "-s", "64"], "the test is the client's"),
                      (["write", "--once", "10.0.0.1"], "options of --server")):
        rc, out, err = run([app("weft-perf"), *args])
        assert rc == 2 and why in err and out == "", (args, rc, out, err)


def test_perf_refusals():
    """The server says what keeps it busy, and a program that is no weft-perf server is called that."""
    sock = path("refusals.sock")
    s = perf_server(sock, "--medium", f"file:{path('refusals.data')}")
    at = ["--dev", memif(0, "client", sock), "--address", "10.0.0.2/24", "10.0.0.1"]
    rc, out, err = run([app("weft-perf"), "write", "-n", "100", "-q", "2", *at])
    assert rc == 1 and "the server said: busy: its --medium serves one QP at a time" in err, (rc, out, err)
    assert one(sock, "write", "-n", "100")["iterations"] == 100
    s.kill()
    s.wait()
    other = subprocess.Popen([app("weft-ping"), "-s", "-p", "18515", "--dev", memif(0, "server", sock), "--address", "10.0.0.1/24"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
    PROCS.append(other)
    line = other.stdout.readline()
    assert "waiting" in line, line
    rc, out, err = run([app("weft-perf"), "write", "-n", "100", *at])
    assert rc == 1 and "10.0.0.1:18515: write bandwidth of 65536 octets: " in err, (rc, out, err)
    assert "no weft-perf server of this version (it must be " in err, (rc, out, err)


def test_perf_server_dies():
    sock = path("dies.sock")
    s = perf_server(sock)
    p = client(sock, "write", "-s", "4096", "-D", "60", "-q", "2")
    until_busy(p)
    s.kill()
    out, err = p.communicate(timeout=60)
    assert p.returncode == 1 and "weft-perf: 10.0.0.1:18515: write bandwidth" in err, (p.returncode, out, err)
    # what was measured until then is marked below its row, and in the last columns of CSV
    assert re.fullmatch(r" ended after \d+\.\d of 60 s", out.splitlines()[-1]), out
    s = perf_server(sock)
    p = client(sock, "write", "-s", "4096", "-D", "60", "--csv")
    until_busy(p)
    s.kill()
    row, = csv.DictReader(io.StringIO(p.communicate(timeout=60)[0]))
    assert row["ended"] == "1" and row["interrupted"] == "0" and int(row["iterations"]) > 0, row


def test_perf_server_ends():
    """A server that is stopped closes its connections in order: a client knows at once, in each kind of test and while it waits, and
    says so in one line."""
    sock = path("ends.sock")
    for args in (["write", "-s", "4096", "-q", "2"], ["read", "-s", "64", "-t", "1"], ["send", "-s", "64", "--rate_limit", "2"],
                 ["send", "--lat"], ["write", "--lat"], ["read", "--lat", "--rate", "2"], ["send", "-e", "--rate_limit", "50"],
                 ["write-imm", "-b"], ["write", "--reversed"], ["send", "--reversed"], ["write", "--verify-data"], ["commit"], ["rpc"],
                 ["two-sided", "--lat"], ["log-append"]):
        for sig in (signal.SIGTERM, signal.SIGINT) if args[0] == "send" else (signal.SIGTERM,):
            s = perf_server(sock)
            p = (client_shown if "-e" in args else client)(sock, *args, "-D", "60")
            if "-e" in args:
                until_moved(p, 1010)
            else:
                until_busy(p, 0.5)
            began = time.monotonic()
            s.send_signal(sig)
            out, err = p.communicate(timeout=60)
            took = time.monotonic() - began
            # a client that waits for its patience takes 10 s
            assert p.returncode == 1 and took < 5, (args, p.returncode, took, out, err)
            said = [line for line in err.splitlines() if line.startswith("weft-perf: 10.0.0.1:18515: ")]
            assert len(said) == 1, (args, err)
            assert said[0].endswith(": the server was stopped: it closed the connection") or args == ["log-append"], (args, err)
            assert s.wait(timeout=20) == 0, args


def killed_amid(sock, args, rows=0, seconds=0.0):
    """The document of a client whose server is killed when it has printed so many rows, or has used so much of its CPU. None: nothing
    was measured by then."""
    s, file = perf_server(sock), path("kept.json")
    p = client(sock, *args, "--out", file)
    for _ in range(rows):
        while not re.match(r" 4096 .*\n", p.stdout.readline()):
            assert p.poll() is None, p.stderr.read()
    if seconds:
        until_busy(p, seconds)
    s.kill()
    _, err = p.communicate(timeout=60)
    assert p.returncode == 1, err
    if not os.path.exists(file):
        return None
    with open(file, encoding="utf-8") as f:
        doc = json.load(f)
    os.unlink(file)
    assert doc["complete"] is False and doc["failed"] in err, (args, doc, err)
    # What was used is divided by the time in which it was used, also where the client has waited for the server behind the last message.
    for r in doc["results"]:
        assert 0 < r["cpu_percent"] < 101 and max(r["waited_percent"], r["busy_percent"]) < 101, r
    return doc


def test_perf_keeps_what_was_measured():
    """A server that dies in the middle: the rounds before are kept, the run under way as far as it came, and both are marked."""
    sock = path("kept.sock")
    doc = killed_amid(sock, ["write", "-s", "4096", "-n", "2000", "--rounds", "1000"], rows=2)
    assert [r["round"] for r in doc["results"]] == list(range(1, len(doc["results"]) + 1)) and len(doc["results"]) >= 2, doc
    r, = killed_amid(sock, ["write", "-s", "4096", "-q", "2", "--run_infinitely"], rows=2)["results"]
    assert r["ended"] and r["iterations"] > 0 and r["seconds"] > 1 and "server" not in r, r
    for args in (["read", "--lat", "-n", "100000000"], ["send", "--lat", "--rate", "1000", "-D", "600"]):
        doc, seconds = None, 1.0
        # Nothing shows from outside when the warm-up of a latency test is over.
        while doc is None and seconds < 60:
            doc = killed_amid(sock, args, seconds=seconds)
            seconds *= 2
        r, = doc["results"]
        assert r["ended"] and r["iterations"] > 0 and r["seconds"] > 0 and "server" not in r, (args, r)
    perf_server(sock)
    assert json.loads(perf(sock, "write", "-n", "500", "--json"))["complete"]


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
