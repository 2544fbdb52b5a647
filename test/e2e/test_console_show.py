#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-console shows another program: --attach, show, rates, watch, clear. test_console_show.py BUILD [CASE...]"""
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

from test_console import EXAMPLES, loop, script
from weft_e2e import PROCS, Target, app, main, make_file, path, run

WIDTH = 80
# Nouns of which a target with one client has none.
EMPTY = ("group", "srq", "mw")


def target(name, size="64M"):
    return Target(name, {"demo": {"path": path(f"{name}.exp"), "size": size}}, extra="[weft]\ntelemetry = yes\n").start()


def attached(what, script, args=()):
    """Run a script on the program; returns status, output and errors."""
    with open(path("show.cli"), "w") as f:
        f.write(script)
    env = {**os.environ, "COLUMNS": str(WIDTH)}
    return run([app("weft-console"), "--attach", *([str(what)] if what else []), "-f", path("show.cli"), *args], env=env)


def show(t, line):
    """The objects that `show LINE json` prints."""
    rc, out, err = attached(t.proc.pid, f"show {line} json\n")
    assert rc == 0, (line, out, err)
    return json.loads(out)


class Live:
    """An attached console that is asked line by line."""

    def __init__(self, t):
        self.p = subprocess.Popen([app("weft-console"), "--attach", str(t.proc.pid)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        PROCS.append(self.p)

    def ask(self, line):
        """The JSON that this line prints."""
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        text = ""
        while not text.endswith("\n]\n") and text != "[]\n":
            more = self.p.stdout.readline()
            assert more, text + self.p.stderr.read()
            text += more
        return json.loads(text)


def connected(t):
    """A console that holds a connection with the target."""
    p = subprocess.Popen([app("weft-console"), *t.client_args()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    PROCS.append(p)
    p.stdin.write("connect 10.0.0.1 7471\n")
    p.stdin.flush()
    line = p.stdout.readline()
    assert "established" in line, line + p.stderr.read()
    return p


def nouns(t):
    _, out, _ = attached(t.proc.pid, "show nouns\n")
    return [line.split()[0] for line in out.splitlines()]


def test_ddp_queues():
    """The message numbers of the untagged queues: three Sends and an atomic operation, whose response is on queue 3."""
    rc, out, err = run([app("weft-console"), "-c", loop(), "-f", script("ddp.cli", f"""source {EXAMPLES}/lib/pair.cli
post send $near one x3
post fetch-add $near $far_stag 0 1
wait 5000
show ddp
expect /"q0_tx_msn": 4,/ show ddp $near json
expect /"q1_tx_msn": 2,/ show ddp $near json
expect /"q3_rx_msn": 2,/ show ddp $near json
expect /"q0_rx_msn": 4,/ show ddp $remote json
expect /"q2_tx_msn": 1,/ show ddp $remote json
""")])
    assert rc == 0 and re.search(r"^ +1 +4 +1 +2 +1 +1 +2$", out, re.M), (rc, out, err)


def test_every_noun_while_pushing():
    """Each noun as table and as JSON, while a client pushes."""
    t = target("en")
    src = make_file("en.src", 24 << 20, 3)
    names = nouns(t)
    done = threading.Event()
    failed = []

    def pushes():
        while not done.is_set():
            rc, _, err = t.cp(src, "weft://10.0.0.1/demo")
            if rc != 0:
                failed.append(err)
    thread = threading.Thread(target=pushes)
    thread.start()
    try:
        every_noun(t, names)
    finally:
        done.set()
        thread.join()
    assert not failed, failed


def every_noun(t, names):
    assert len(names) > 25, names
    rc, out, err = attached(t.proc.pid, "".join(f"show {n}\nshow {n} detail\n" for n in names))
    assert rc == 0, out + err
    assert err == "", err
    for n in names:
        rc, out, err = attached(t.proc.pid, f"show {n}\n")
        assert rc == 0 and out.strip() and not err, (n, out, err)
        assert all(len(line) <= WIDTH for line in out.splitlines()), out
        rows = show(t, n)
        assert isinstance(rows, list) and all(isinstance(r, dict) and r for r in rows), (n, rows)
    # Between two pushes there is no connection.
    c = Live(t)
    missing = {n for n in names if n not in EMPTY}
    end = time.monotonic() + 30
    while missing and time.monotonic() < end:
        missing = {n for n in missing if not c.ask(f"show {n} json")}
    assert not missing, missing


def test_connection_in_full():
    """What is shown of a connection, its MPA and RDMAP streams and its neighbour."""
    t = target("cf")
    connected(t)
    tcp = show(t, "tcp where state=ESTABLISHED")
    assert len(tcp) == 1 and tcp[0]["local"] == "10.0.0.1:7471" and tcp[0]["remote"].startswith("10.0.0.2:"), tcp
    assert tcp[0]["mss_bytes"] > 1000 and tcp[0]["srtt_us"] > 0 and tcp[0]["min_rtt_us"] <= tcp[0]["srtt_us"], tcp
    assert tcp[0]["cc"] and tcp[0]["bytes_in"] > 0 and tcp[0]["last_rcv_ms"] < 60000 and "life_timer_us" in tcp[0], tcp
    qp = show(t, "qp")
    assert len(qp) == 1 and qp[0]["state"] == "RTS" and qp[0]["remote"] == tcp[0]["remote"], qp
    assert qp[0]["mpa_rev"] == 2 and qp[0]["crc"] == 1 and 1000 < qp[0]["mulpdu_bytes"] < tcp[0]["mss_bytes"], qp
    assert qp[0]["ird"] > 0 and qp[0]["ord"] > 0 and qp[0]["sq_depth"] > 0 and qp[0]["terminate"] == "", qp
    cq = show(t, "cq")
    assert any(c["number"] == qp[0]["send_cq"] and c["queues"] > 0 for c in cq), (cq, qp)
    neigh = show(t, "neighbours")
    assert [n["connections"] for n in neigh if n["address"] == "10.0.0.2"] == [1], neigh
    assert [r for r in show(t, "routes") if r["destination"] == "10.0.0.0/24" and r["source"] == "10.0.0.1"]
    port = show(t, "ports p0")
    assert port[0]["driver"] == "net_memif" and port[0]["rx_queues"] == 1 and port[0]["link"] == "up", port
    xstats = {x["counter"]: x["value"] for x in show(t, "xstats")}
    assert xstats["rx_good_packets"] > 0, xstats
    assert show(t, "objects")[0]["qps"] == 1
    assert show(t, "timers")[0]["armed"] > 0
    limits = {x["limit"]: x for x in show(t, "limits")}
    assert limits["queue pairs"]["held"] == 1 and limits["not acknowledged"]["of"] > 0, limits


def test_objects_and_conditions():
    """One object by its number or name; conditions; what does not exist."""
    t = target("oc")
    connected(t)
    number = show(t, "qp")[0]["number"]
    assert [q["number"] for q in show(t, f"qp {number}")] == [number]
    assert show(t, f"qp 0/{number}") and show(t, "xstats where counter=rx_q0_* value>0")
    assert show(t, "qp where mulpdu>99999") == []
    _, out, _ = attached(t.proc.pid, f"show qp {number}\n")
    assert "mulpdu_bytes" in out and "ord_stalls" in out, out
    for line, why in (("show qp 77", "there is no '77'"), ("show ports nowhere", "there is no 'nowhere'"),
                      ("show qp where colour=red", "no key 'colour'"), ("show qp 1 2", "not expected"),
                      ("show routes rates", "no counters"), ("clear routes", "no counters"), ("watch show qp", "usage"),
                      ("watch 1 post", "usage")):
        rc, out, err = attached(t.proc.pid, line + "\n")
        assert rc == 1 and why in out and "usage" in out and len(out.splitlines()) == 1, (line, out, err)
    rc, out, err = attached(t.proc.pid, "show nonsense\n")
    assert rc == 1 and not out and "show nouns" in err and len(err.splitlines()) == 2, (out, err)
    for line in ("connect 10.0.0.9 1", "start sink 1", "stop", "inject stop p0", "set congestion cubic",
                 "capture start /tmp/x"):
        rc, out, err = attached(t.proc.pid, line + "\n")
        assert rc == 1 and "--attach" in err and not out, (line, out, err)
    for line in ("post imm 1 1", "rpc serve 1", "show traffic", "show injected", "show captures", "show events"):
        _, _, err = attached(t.proc.pid, line + "\n")
        assert "--attach has none" in err, (line, err)
    # What telemetry has of the same is shown, and one line says why there is nothing else.
    for line, said in (("show windows", "no mw\n"), ("show srqs", "no srq\n"), ("show windows json", "[]\n")):
        assert attached(t.proc.pid, line + "\n") == (0, said, ""), line
    for line, said in (("show logs", "telemetry has no logs; only the program"), ("show rpcs json", "telemetry has no RPC clients")):
        rc, out, err = attached(t.proc.pid, line + "\n")
        assert rc == 1 and not out and said in err.splitlines()[0], (line, out, err)


def test_numbers():
    """One number is one object: those of show qp and show mr are those of show connections and show regions, also when earlier objects
    are gone. What no command names has no such number."""
    rc, out, err = run([app("weft-console"), "-c", loop(), "-f", script("numbers.cli", f"""source {EXAMPLES}/lib/pair.cli
deregister $local
register memory 4096
disconnect $near
wait for disconnected
disconnect $remote
connect 10.0.0.2 7471
rpc serve 7472
rpc connect 10.0.0.2 7472
rpc call $rpc 0x20004543 1 1 hello
wait 5000
expect /^rpc server: connections 1, calls 1, replies 1, errors 0$/ show rpcs
expect /"state": "server"/ show rpcs json
post send $qp two-sided x3
wait 5000
wait until show messages contains /send_in +[3-9]/
allocate window
show connections
echo QPS
show qp json
echo REGIONS
show regions
echo MRS
show mr json
""")])
    assert rc == 0, (out, err)
    conns, rest = out.split("QPS\n")
    qps, rest = rest.split("REGIONS\n")
    regions, mrs = rest.split("MRS\n")
    named = {int(n): (local, remote) for n, local, remote in re.findall(r"^qp (\d+): (\S+) -> (\S+), established", conns, re.M)}
    seen = {q["number"]: (q["local"], q["remote"]) for q in json.loads(qps)}
    assert len(named) == 2 and named == {n: where for n, where in seen.items() if n < 1000}, (named, seen)
    assert len([n for n in seen if n > 1000]) == 2, seen  # both ends of the RPC connection
    named = {int(n): stag for n, stag in re.findall(r"^region (\d+): stag (\S+),", regions, re.M)}
    seen = {r["number"]: r["stag"] for r in json.loads(mrs) if "number" in r}
    assert named == seen and len(named) == 2, (named, seen)


def test_limits():
    """What set limit changes is in show limits, with what is held."""
    rc, out, err = run([app("weft-console"), "-c", loop(), "-f", script("limits.cli", f"""source {EXAMPLES}/lib/pair.cli
set limit half-open 71
set limit time-wait 72
set limit accepts 73
set limit resets 74
set limit challenge-acks 75
show limits json
""")])
    assert rc == 0, (out, err)
    limits = {x["limit"]: x for x in json.loads(out[out.index("[\n"):])}
    for name, of in (("half-open", 71), ("time-wait", 72), ("accepts in a second", 73), ("resets in a second", 74),
                     ("challenge-acks in a second", 75)):
        assert limits[name]["of"] == of and limits[name]["refused"] == 0 <= limits[name]["held"] < 3, (name, limits)
    assert limits["connections"]["held"] == 2 and limits["connections"]["at"] == "0", limits
    rc, out, err = run([app("weft-console"), "-c", loop(), "-f", script("limits.cli", "set limit accepts none\nshow limits\n")])
    assert rc == 0 and re.search(r"^ *accepts in a second .* 0  +- ", out, re.M), (out, err)


def test_watch_and_clear():
    t = target("wc")
    connected(t)
    rc, out, err = attached(t.proc.pid, "watch 0.2 x3 show ports\n")
    assert rc == 0 and out.count("rx_packets") == 3, (out, err)
    begun = time.monotonic()
    rc, out, err = run([app("weft-console"), "--attach", str(t.proc.pid)], stdin=None, input="watch 0.2 show tcp\n")
    assert rc == 0 and "established" in out and time.monotonic() - begun < 10, (out, err)
    before = show(t, "ports")[0]["rx_packets"]
    rc, out, err = attached(t.proc.pid, "clear\nshow ports json\n")
    assert rc == 0 and json.loads(out)[0]["rx_packets"] < before, (out, err)
    assert show(t, "ports")[0]["rx_packets"] >= before


def test_rates():
    """The octets that the rates of a port and of a QP amount to are those that were pushed."""
    t = target("ra")
    size = 24 << 20
    src = make_file("ra.src", size, 5)
    c = Live(t)
    c.ask("rates ports json")
    c.ask("rates tcp-counters json")
    t.push(src, "demo")
    port = c.ask("rates ports json")[0]
    tcp = c.ask("rates tcp-counters json")[0]
    octets = tcp["bytes_in_per_s"] * tcp["seconds"]
    assert size <= octets <= size * 1.1, (size, octets)
    octets = port["rx_bytes_per_s"] * port["seconds"]
    assert size <= octets <= size * 1.1, (size, octets)


def test_attach_errors():
    """Nothing to attach to, a dead socket, something else than telemetry, several programs: one line each."""
    def fails(*args):
        rc, out, err = run([app("weft-console"), *args], stdin=subprocess.DEVNULL)
        assert rc in (1, 2) and not out, (args, out)
        return err
    err = fails("--attach", "weft-none")
    assert "weft-none" in err and "telemetry = yes" in err and len(err.splitlines()) == 1, err
    dead = path("dead.sock")
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(dead)
    s.listen()
    s.close()
    err = fails("--attach", dead)
    assert "has ended" in err and len(err.splitlines()) == 1, err
    err = fails("--attach", path("nowhere.sock"))
    assert "No such file" in err and len(err.splitlines()) == 1, err
    err = fails("--attach", "--dev", "net_null0", "--address", "10.0.0.1/24")
    assert "no stack" in err, err
    a, b = target("two.a"), target("two.b")
    err = fails("--attach")
    assert str(a.proc.pid) in err and str(b.proc.pid) in err and len(err.splitlines()) == 1, err
    assert attached(f"weft-{a.proc.pid}", "show ports\n")[0] == 0


def test_program_ends():
    """The program is killed while a console is attached."""
    t = target("pe")
    c = Live(t)
    assert c.ask("show ports json")
    t.proc.send_signal(signal.SIGKILL)
    t.proc.wait()
    c.p.stdin.write("show ports\nshow tcp\n")
    c.p.stdin.close()
    out = c.p.stdout.read()
    assert c.p.wait(timeout=20) == 1, out
    assert "has ended" in out and len(out.splitlines()) == 1, out


def test_own_stack():
    """The same of the console's own stack, regions included."""
    t = target("os")
    p = path("os.region")
    with open(path("own.cli"), "w") as f:
        f.write(f"connect 10.0.0.1 7471\nregister file {p} 65536\nshow mr\nshow qp 1\nshow regions json\nshow regions\n")
    rc, out, err = run([app("weft-console"), *t.client_args(), "-f", path("own.cli")])
    assert rc == 0, out + err
    assert "medium" in out and "verify" in out and "ord_stalls" in out and '"len_bytes": 65536' in out, out
    assert "region 1: stag" in out, out


def test_more_than_one_answer():
    """Regions that take several answers of telemetry are all shown, each once."""
    t = target("mo")
    with open(path("many.cli"), "w") as f:
        f.write("register memory 4096\n" * 60 + "show mr json\n")
    rc, out, err = run([app("weft-console"), *t.client_args(), "-f", path("many.cli")])
    assert rc == 0, out + err
    rows = json.loads(out[out.index("\n[") + 1:])
    assert [r["number"] for r in rows] == list(range(1, 61)) and len({r["stag"] for r in rows}) == 60, rows


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
