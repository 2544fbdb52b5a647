#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Metrics over HTTP: the format, what a push, a pull, a window and a bad call count, health, alarms, the dashboard, and readers that are
slow, many or send garbage."""
import ctypes
import http.client
import json
import os
import random
import re
import shutil
import socket
import subprocess
import time

import prom
from test_visible import Telemetry
from weft_e2e import BUILD, PROCS, Skip, Target, app, main, make_file, memif, path, run

HERE = os.path.dirname(os.path.abspath(__file__))
APPS = os.path.join(HERE, "..", "..", "apps", "target")
DOC = os.path.join(HERE, "..", "..", "docs", "metrics.md")
MIB = 1 << 20
SEED = int(os.environ.get("WEFT_TEST_SEED", "0")) or random.randrange(1, 1 << 30)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Metered(Target):
    """A target with metrics."""

    def __init__(self, name, exports, extra="", **kw):
        self.http = free_port()
        super().__init__(name, exports, extra=f"metrics = {self.http}\n{extra}", **kw)

    def get(self, where, method="GET"):
        """Status and text."""
        c = http.client.HTTPConnection("127.0.0.1", self.http, timeout=20)
        c.request(method, where)
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r.status, text

    def metrics(self):
        """Samples of now: {name: {labels: value}}."""
        time.sleep(0.06)  # a text may be 50 ms old
        status, text = self.get("/metrics")
        assert status == 200
        return prom.parse(text)[1]

    def value(self, name, **labels):
        """The sum of the samples with these labels."""
        series = self.metrics().get(name, {})
        return sum(v for k, v in series.items() if labels.items() <= dict(k).items())


def objects(name, *exports):
    return {e: {"path": path(f"{name}.{e}"), "size": "8M"} for e in exports}


def volume(name, size="16M"):
    return {"v": {"path": path(f"{name}.v"), "size": size, "format": "volume"}}


def volume_probe(t, *words):
    exe = os.path.join(BUILD, "test", "e2e", "volume_probe")
    p = subprocess.run([exe, memif(0, "client", t.sock(0)), "10.0.0.2/24", "10.0.0.1", *words],
                       capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
    assert p.returncode == 0, (p.stdout, p.stderr)
    return p.stdout


def test_reference():
    """The table of docs/metrics.md is the program's; each metric that is served is in it, and the other way round."""
    rc, out, _ = run([app("weft-target"), "--help-metrics"])
    with open(DOC) as f:
        assert rc == 0 and f.read().endswith(out), "docs/metrics.md does not end with the output of weft-target --help-metrics"
    t = Metered("ref", objects("ref", "a") | volume("ref")).start()
    t.push(make_file("ref.src", 100000, 1), "a")
    types, samples = prom.parse(t.get("/metrics")[1])
    table = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", out, re.M))
    assert types == table
    labels = dict(re.findall(r"^\| `(\w+)` \| \w+ \| [^|]* \| ([^|]*) \|", out, re.M))
    for name, series in samples.items():
        base = name if name in labels else re.sub("_(bucket|sum|count)$", "", name)
        for k in series:
            assert {n for n, _ in k} - {"le"} == set(labels[base].split()), (name, k)


# What telemetry calls the counters that a worker and a port have in the metrics.
OF_WORKER = {"polls_total": "polls", "busy_polls_total": "busy_polls", "connections_total": "conns_total",
             "received_segments_total": "segs_in", "sent_segments_total": "segs_out", "retransmitted_segments_total": "retrans_segs",
             "retransmission_timeouts_total": "rtos", "crc_errors_total": "crc_errors", "received_messages_total": "msgs_in",
             "sent_messages_total": "msgs_out", "received_terminates_total": "terminates_in", "sent_terminates_total": "terminates_out"}
OF_PORT = {"received_packets_total": ["rx_packets"], "received_bytes_total": ["rx_bytes"], "sent_packets_total": ["tx_packets"],
           "sent_bytes_total": ["tx_bytes"], "bad_packets_total": ["rx_bad"], "dropped_packets_total": ["rx_dropped", "tx_dropped"],
           "missed_packets_total": ["rx_missed"]}
OF_EXPORT = {"reads_total": "rpc_reads", "read_bytes_total": "rpc_read_bytes", "writes_total": "rpc_writes",
             "written_bytes_total": "rpc_write_bytes", "refused_total": "rpc_refused", "files_lost_total": "files_lost"}


def test_each_metric():
    """What each metric shows that no other case looks at: beside telemetry, and beside what clients did."""
    begun = time.time()
    t = Metered("em", objects("em", "a", "b") | volume("em"), extra="[weft]\ntelemetry = yes\n").start()
    size = 300000
    t.push(make_file("em.src", size, 1), "a")
    before = t.value("weft_client_sent_bytes_total", client="10.0.0.2")
    assert 0 < before < size
    t.pull("a", "em.out")
    assert size <= t.value("weft_client_sent_bytes_total", client="10.0.0.2") - before < 1.2 * size
    assert "done" in volume_probe(t, "v", "order", "5", "20")
    # A client that holds windows until it is killed.
    exe = os.path.join(BUILD, "test", "e2e", "volume_probe")
    held = subprocess.Popen([exe, memif(0, "client", t.sock(0)), "10.0.0.2/24", "10.0.0.1", "v", "windows", "1", "3", "0"],
                            stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    PROCS.append(held)
    assert "opened 3" in held.stdout.readline()
    os.rename(path("em.b"), path("em.gone"))
    end = time.monotonic() + 30
    while t.value("weft_export_files_lost_total", export="b") == 0 or t.value("weft_connections") != 1:
        assert time.monotonic() < end
    tel = Telemetry(t.proc.pid)

    def counted():
        """Each counter as telemetry has it."""
        w, p, m = tel.ask("/weft/worker,0"), tel.ask("/weft/port,p0"), tel.ask("/weft/messages,0")
        out = {f"weft_worker_{k}": w[n] for k, n in OF_WORKER.items()}
        out |= {f"weft_port_{k}": sum(p[n] for n in of) for k, of in OF_PORT.items()}
        out["weft_worker_poll_seconds_count"] = w["busy_polls"]
        for way, name in (("in", "received"), ("out", "sent")):
            out[f"weft_client_{name}_messages_total"] = sum(n for k, n in m.items() if k.endswith("_" + way))
        for k, n in OF_EXPORT.items():
            out[f"weft_export_{k}"] = sum(tel.ask(f"/weft/target/export,{e}").get(n, 0) for e in ("a", "b", "v"))
        out["weft_export_range_waits_total"] = tel.ask("/weft/target/export,v")["range_waits"]
        return out

    low, m, high = counted(), t.metrics(), counted()

    def now(name):
        return sum(m[name].values())

    for name, least in low.items():
        assert least <= now(name) <= high[name], (name, least, now(name), high[name])
    for name in ("weft_export_read_bytes_total", "weft_export_written_bytes_total",
                 "weft_client_received_messages_total", "weft_client_sent_messages_total"):
        assert now(name) > 0, name
    assert now("weft_export_written_bytes_total") >= 20 * MIB and now("weft_export_files_lost_total") == 1
    assert m["weft_export_info"] == {(("export", e), ("format", "volume" if e == "v" else "object")): 1 for e in ("a", "b", "v")}
    assert m["weft_info"] == {(("version", run([app("weft-target"), "--version"])[1].split()[-1]),): 1}
    assert begun <= now("weft_start_time_seconds") <= time.time()
    assert now("weft_connections") == now("weft_worker_connections") == now("weft_client_connections") == 1
    assert now("weft_client_windows") == now("weft_worker_windows") == 3 and now("weft_clients_left_out") == 0
    assert now("weft_worker_windows_limit") == 128 and now("weft_worker_staging_free_bytes") <= 128 * MIB
    assert 0 <= now("weft_worker_call_memory_bytes") <= now("weft_worker_call_memory_limit_bytes") == 64 * MIB
    assert now("weft_port_speed_bytes") == tel.ask("/weft/port,p0")["speed_mbps"] * 1e6 / 8 > 0
    assert 0 < now("weft_worker_poll_seconds_sum") < time.time() - begun and 0 < now("weft_metrics_render_seconds") < 5
    t.get("/livez")
    assert sum(t.metrics()["weft_metrics_requests_total"].values()) == now("weft_metrics_requests_total") + 2
    # Each metric is looked at by some test of the programs.
    with open(DOC, encoding="utf-8") as f:
        names = re.findall(r"^\| `(weft_\w+)` \|", f.read(), re.M)
    said = "".join(open(os.path.join(HERE, n), encoding="utf-8").read() for n in os.listdir(HERE) if n.endswith(".py"))
    for tables in (("weft_worker_", OF_WORKER), ("weft_port_", OF_PORT), ("weft_export_", OF_EXPORT)):
        said += " ".join(tables[0] + k for k in tables[1])
    said += "weft_client_received_messages_total weft_client_sent_messages_total"
    assert len(names) > 70 and not [n for n in names if n not in said], [n for n in names if n not in said]


def test_push_and_pull():
    """A push is counted at its Flush, a pull at its durable WRITEs; both have times and a client. Counters do not go back."""
    t = Metered("pp", objects("pp", "a", "b")).start()
    src = make_file("pp.src", 3 * MIB, 2)
    assert t.value("weft_export_flushed_bytes_total") == 0
    t.push(src, "a")
    pushed = t.value("weft_export_flushed_bytes_total", export="a", by="push")
    assert 3 * MIB < pushed < 4 * MIB and t.value("weft_export_flushed_bytes_total", by="call") == 0, pushed
    rc, _, err = t.cp(src, "weft://10.0.0.1/b", args=["--pull"])
    assert rc == 0, err
    pulled = t.value("weft_export_flushed_bytes_total", export="b", by="call")
    assert 3 * MIB < pulled < 4 * MIB and t.value("weft_export_flushed_bytes_total", export="b", by="push") <= 64, pulled
    m = t.metrics()
    ops = {(dict(k)["export"], dict(k)["operation"]): v for k, v in m["weft_operation_seconds_count"].items()}
    assert ops["a", "push"] == m["weft_export_flushes_total"][("by", "push"), ("export", "a")] > 3, ops
    assert ops["b", "write"] > 3 and ops["a", "push_verify"] > 3, ops
    stages = {(dict(k)["operation"], dict(k)["stage"]): v for k, v in m["weft_stage_seconds_sum"].items()}
    assert stages["push", "medium"] > 0 and stages["write", "medium"] > 0 and stages["write", "wire"] > 0, stages
    # The slowest one is an operation that there was; its stages are not longer than it.
    slow = {}
    for k, v in m["weft_slowest_operation_seconds"].items():
        d = dict(k)
        slow.setdefault(d["operation"], {"who": (d["export"], d["client"])})[d["stage"]] = v
    for op, export in (("push", "a"), ("write", "b")):
        assert slow[op]["who"][0] == export and slow[op]["who"][1].startswith("10.0.0.2:"), slow
        parts = sum(v for s, v in slow[op].items() if s not in ("who", "all"))
        assert 0 < slow[op]["all"] and parts <= slow[op]["all"] * 1.001 + 1e-6, slow
    # The octets of a client whose connections have all ended stay, and grow with the next one.
    me = (("authenticated", "no"), ("client", "10.0.0.2"))
    before = m["weft_client_received_bytes_total"][me]
    assert m["weft_client_connections"][me] == 0 and before > 6 * MIB, before
    slow_push = t.cp_start(make_file("pp.slow", 2 * MIB, 3), "weft://10.0.0.1/a", args=["--rate", "1M"])
    last, met = before, False
    while slow_push.poll() is None:
        m = t.metrics()
        now = m["weft_client_received_bytes_total"][me]
        met = met or (m["weft_client_connections"][me] == 1 and m["weft_client_grants"][me] == 1)
        assert now >= last, (now, last)
        last = now
        time.sleep(0.1)
    assert met and t.value("weft_client_received_bytes_total", client="10.0.0.2") >= before + 2 * MIB
    assert t.term() == 0


def test_kept():
    """Samples are kept from scrape to scrape, and written again when their values change: after drawn changes of few exports and of many,
    a text has each sample once, in the order of the exports, with the value that they have."""
    draw = random.Random(SEED)
    n = 40
    state = path("kp.state")
    os.mkdir(state)
    t = Metered("kp", {}, extra=f"state = {state}\ncontrol = {path('kp.sock')}\n").start()

    def ctl(*words):
        rc, out, err = run([app("weft-ctl"), "--socket", path("kp.sock"), *words])
        assert rc == 0, (words, err, f"seed {SEED}")
        return out

    def write_set(names):
        with open(path("kp.set"), "w") as f:
            f.write("".join(f"[export {e}]\npath = {files[e]}\nsize = 1M\n" for e in names))
        gone = set(re.findall(r"^\[export (.*)\]", ctl("dump"), re.M)) - set(names)
        ctl("apply", path("kp.set"), *[w for e in gone for w in ("--confirm", e)])

    names = [f"e{i}" for i in range(n)]
    files = {e: e + ".weft" for e in names}
    write_set(names)
    pushes = dict.fromkeys(names, 0)
    src = make_file("kp.src", 10000, 3)
    for turn in range(14):
        what = draw.choice(("nothing", "push", "push", "many", "rename", "delete", "add", "offline"))
        some = draw.choice(names)
        if what in ("push", "many"):
            for e in [some] if what == "push" else draw.sample(names, 5):
                rc, _, err = t.cp(src, f"weft://10.0.0.1/{e}", args=["--pull"])
                assert rc == 0, (e, err)
                pushes[e] += 1
        elif what == "rename":
            new = f"{some}-{'x' * draw.randrange(1, 20)}{turn}"
            ctl("export", "rename", some, new)
            names[names.index(some)] = new
            pushes[new], files[new] = pushes.pop(some), files.pop(some)
        elif what == "delete":
            names.remove(some)
            del pushes[some]
            write_set(names)
        elif what == "add":
            names.append(f"n{turn}")
            pushes[f"n{turn}"], files[f"n{turn}"] = 0, f"n{turn}.weft"
            write_set(names)
        elif what == "offline":
            ctl("offline", some)
        time.sleep(0.06)
        text = t.get("/metrics")[1]
        m = prom.parse(text)[1]
        rows = {r["name"]: r for r in json.loads(ctl("exports", "--json"))["exports"]}
        assert sorted(rows) == sorted(names), (what, f"seed {SEED}")
        for family in ("info", "up", "held", "capacity_bytes", "grants", "reads_total", "written_bytes_total", "files_lost_total"):
            listed = re.findall(rf'^weft_export_{family}{{export="([^"]*)"[^}}]*}} \d+$', text, re.M)
            assert sorted(listed) == sorted(names), (what, family, f"seed {SEED}")
            assert len(re.findall(rf"^weft_export_{family}\b", text, re.M)) == len(names), (what, family, f"seed {SEED}")
        written = {dict(k)["export"]: v for k, v in m["weft_export_writes_total"].items()}
        up = {dict(k)["export"]: v for k, v in m["weft_export_up"].items()}
        ops = {dict(k)["export"]: v for k, v in m.get("weft_operation_seconds_count", {}).items() if ("operation", "write") in k}
        for e in names:
            assert (written[e] > 0) == (ops.get(e, 0) > 0) == (pushes[e] > 0), (what, e, pushes[e], written[e], f"seed {SEED}")
            assert up[e] == (rows[e]["state"] == "served"), (what, e, rows[e], f"seed {SEED}")
        if what == "offline":
            ctl("online", some)
    assert t.term() == 0, t.logged()


def test_volume():
    """Calls and windows of a volume, by export and stage."""
    t = Metered("vo", volume("vo") | objects("vo", "a")).start()
    assert "done" in volume_probe(t, "v", "order", "5", "3")
    m = t.metrics()
    ops = {dict(k)["operation"]: v for k, v in m["weft_operation_seconds_count"].items() if dict(k)["export"] == "v"}
    assert set(ops) == {"read", "write", "flush"} and ops["flush"] == 3, ops
    assert ops["read"] == t.value("weft_export_reads_total", export="v") and ops["write"] == t.value("weft_export_writes_total", export="v")
    assert t.value("weft_export_flushes_total", export="v", by="call") >= 3 and t.value("weft_export_flushes_total", by="push") == 0
    stages = {(dict(k)["operation"], dict(k)["stage"]): v for k, v in m["weft_stage_seconds_count"].items()}
    for op, stage in (("read", "staging"), ("read", "medium"), ("read", "answer"), ("write", "wire"), ("write", "medium"),
                      ("flush", "medium")):
        assert 0 < stages[op, stage] <= ops[op], (op, stage, stages)
    assert "done" in volume_probe(t, "v", "spread", "7", "24", "0", "1")
    m = t.metrics()
    pushes = m["weft_export_flushes_total"][("by", "push"), ("export", "v")]
    assert pushes > 0 and m["weft_operation_seconds_count"][("export", "v"), ("operation", "push")] == pushes
    slow = {dict(k)["export"]: dict(k)["client"] for k in m["weft_slowest_operation_seconds"] if dict(k)["operation"] == "push"}
    assert list(slow) == ["v"] and slow["v"].startswith("10.0.0.2:"), slow
    assert t.value("weft_export_flushes_total", export="a") == 0


def test_rate():
    """Calls that wait for the limits of their export spend that time in a stage of its own."""
    t = Metered("rt", {"v": volume("rt")["v"] | {"max_ops_per_s": "50"}, "a": objects("rt", "a")["a"] | {"max_bytes_per_s": "8M"}}).start()
    assert "done" in volume_probe(t, "v", "order", "5", "3")
    rc, _, err = t.cp(make_file("rt.src", 3 * MIB, 1), "weft://10.0.0.1/a", args=["--pull"])
    assert rc == 0, err
    m = t.metrics()

    def seconds(op, stage):
        return m["weft_stage_seconds_sum"].get((("operation", op), ("stage", stage)), 0)

    for op, least in (("read", 0.0005), ("write", 0.05), ("flush", 0.0005)):
        waited, other = seconds(op, "rate"), seconds(op, "credit") + seconds(op, "staging")
        print(f"# {op}: {waited:.3f} s for the limits, {other:.3f} s for memory")
        assert waited > least and other < waited / 2, (op, m["weft_stage_seconds_sum"])


def test_health():
    t = Metered("he", objects("he", "a", "b")).start()
    assert t.get("/livez") == (200, "live\n") and t.get("/readyz") == (200, "ready\n") and t.get("/stopz") == (200, "safe\n")
    assert t.get("/readyz", "HEAD") == (200, "")
    push = t.cp_start(make_file("he.src", 2 * MIB, 5), "weft://10.0.0.1/a", args=["--rate", "1M"])
    end = time.monotonic() + 10
    while t.get("/stopz")[0] == 200:
        assert time.monotonic() < end and push.poll() is None
        time.sleep(0.02)
    status, text = t.get("/stopz")
    assert status == 503 and text.startswith("not safe\nexport a: 1 grants"), text
    assert push.wait(timeout=30) == 0
    assert t.get("/stopz")[0] == 200 and t.value("weft_safe_to_stop") == 1
    # An export whose file is lost: ready still, and said; without any: not.
    os.rename(path("he.a"), path("he.gone"))
    end = time.monotonic() + 10
    while t.value("weft_export_up", export="a") == 1:
        assert time.monotonic() < end
    status, text = t.get("/readyz")
    assert status == 200 and "export a: " in text, text
    os.rename(path("he.b"), path("he.gone2"))
    while t.get("/readyz")[0] == 200:
        assert time.monotonic() < end + 10
        time.sleep(0.05)
    assert "no export is served" in t.get("/readyz")[1] and t.value("weft_ready") == 0


PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17


def test_hang():
    """A worker that does not poll: metrics are served all the same, and after three seconds the target does not live, until it polls."""
    t = Metered("ha", objects("ha", "a")).start()
    assert t.get("/livez")[0] == 200
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    tid = worker_thread(t)
    if libc.ptrace(PTRACE_SEIZE, tid, None, None) != 0:
        raise Skip(f"this host allows no ptrace: {os.strerror(ctypes.get_errno())}")
    assert libc.ptrace(PTRACE_INTERRUPT, tid, None, None) == 0
    os.waitpid(tid, 0x40000000)  # __WALL
    try:
        begun, status = time.monotonic(), 200
        while status == 200:
            status, text = t.get("/livez")
            assert time.monotonic() - begun < 8
            time.sleep(0.1)
        assert status == 503 and text.startswith("worker 0 has not polled for ") and time.monotonic() - begun > 2.5, text
        late = t.value("weft_metrics_late_workers_total")
        assert late >= 1 and t.get("/readyz")[0] == 200
    finally:
        libc.ptrace(PTRACE_DETACH, tid, None, None)
    while t.get("/livez")[0] != 200:
        assert time.monotonic() - begun < 16
    assert t.term() == 0


def worker_thread(t):
    for tid in os.listdir(f"/proc/{t.proc.pid}/task"):
        with open(f"/proc/{t.proc.pid}/task/{tid}/comm") as f:
            if f.read() == "w0\n":
                return int(tid)
    raise AssertionError("no thread w0")


def test_alarms():
    """Each alarm is silent for a healthy target, and fires when its fault is there."""
    t = Metered("al", objects("al", "a") | volume("al")).start()
    t.push(make_file("al.src", MIB, 6), "a")
    before = t.metrics()
    t.push(make_file("al.src", MIB, 7), "a")
    now = t.metrics()
    for s in (before, now):
        s["up"] = {(("job", "weft"),): 1}
    faults = {
        "WeftDown": {"up": 0},
        "WeftExportDown": {"weft_export_up": 0},
        "WeftMediumFails": {"weft_export_bad_ranges_total": 1},
        "WeftDamagedBlocks": {"weft_export_damaged_blocks_total": 3},
        "WeftLateDevice": {"weft_export_late_operations_total": 1},
        "WeftSlowMedium": {"weft_stage_seconds_bucket": lambda k, v: v if float(dict(k)["le"]) >= 1 else 0},
        "WeftPortDown": {"weft_port_up": 0},
        "WeftLossyNetwork": {"weft_worker_retransmitted_segments_total": 1e6},
        "WeftStagingShort": {"weft_worker_staging_waiting": 2},
        "WeftRefusesConnections": {"weft_worker_refused_connections_total": 1},
        "WeftGuessing": {"weft_auth_refused_total": 21},
    }
    alarms = prom.rules(os.path.join(APPS, "weft-alerts.yml"))
    assert set(alarms) == set(faults)
    now["weft_port_up"] = {k: 1 for k in now["weft_port_up"]}  # a memif without its client is down
    for alarm, expr in alarms.items():
        for name in re.findall(r"\bweft_\w+", expr):
            assert name in now, f"{alarm}: no metric {name}"
        healthy = prom.Promql(before, now, 60).value(expr)
        assert not healthy, (alarm, healthy)
        ill = dict(now)
        for name, v in faults[alarm].items():
            ill[name] = {k: v(k, x) if callable(v) else v for k, x in now[name].items()}
        assert prom.Promql(before, ill, 60).value(expr), f"{alarm} does not fire"
    # An operator's word keeps an alarm silent.
    held = dict(now, weft_export_up={k: 0 for k in now["weft_export_up"]}, weft_export_held={k: 1 for k in now["weft_export_up"]})
    assert not prom.Promql(before, held, 60).value(alarms["WeftExportDown"])
    with open(DOC) as f:
        text = f.read()
    assert all(f"| {alarm} |" in text for alarm in alarms)


def test_promtool():
    exe = shutil.which("promtool")
    if exe is None:
        raise Skip("there is no promtool: apt-get install -y --no-install-recommends prometheus")
    rc, out, err = run([exe, "check", "rules", os.path.join(APPS, "weft-alerts.yml")])
    assert rc == 0, out + err
    t = Metered("pt", objects("pt", "a") | volume("pt")).start()
    t.push(make_file("pt.src", MIB, 8), "a")
    p = subprocess.run([exe, "check", "metrics"], input=t.get("/metrics")[1], capture_output=True, text=True, timeout=60, check=False)
    assert p.returncode == 0 and not p.stderr, p.stdout + p.stderr


def test_dashboard():
    """Every metric of the dashboard exists, with the labels that it names; panels do not overlap."""
    t = Metered("da", objects("da", "a") | volume("da")).start()
    t.push(make_file("da.src", MIB, 9), "a")
    samples = t.metrics()
    labels = {n: {x for k in s for x, _ in k} for n, s in samples.items()}
    with open(os.path.join(APPS, "weft-grafana.json")) as f:
        board = json.load(f)
    seen, room = set(), set()
    for p in board["panels"]:
        g = p["gridPos"]
        cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert not cells & room and g["x"] + g["w"] <= 24, p["title"]
        room |= cells
        for target in p["targets"]:
            names = re.findall(r"\bweft_\w+", target["expr"])
            assert names, target
            seen |= set(names)
            known = set().union(*(labels[n] for n in names if n in labels)) | {"instance"}
            assert all(n in samples for n in names), [n for n in names if n not in samples]
            for by in re.findall(r"by \(([^)]*)\)", target["expr"]) + re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert set(by.replace(" ", "").split(",")) <= known, (p["title"], by, known)
            assert target["expr"].count("(") == target["expr"].count(")")
    assert len(seen) > 15 and len({p["id"] for p in board["panels"]}) == len(board["panels"])


def rss(t):
    with open(f"/proc/{t.proc.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) * 1024


def connect(t):
    s = socket.create_connection(("127.0.0.1", t.http), timeout=10)
    return s


def test_garbage():
    """Requests at random: an honest client is served between them, each of them ends, and nothing is kept."""
    t = Metered("ga", objects("ga", "a")).start()
    rng = random.Random(SEED)
    t.metrics()
    before, open_ones = rss(t), []
    lines = [b"GET /metrics HTTP/1.1", b"POST / HTTP/1.1", b"GET /%00%ff/../../etc/passwd HTTP/1.1", b"GET / HTTP/9.9",
             b"\x16\x03\x01\x02\x00",
             b"GET " + b"/" * 20000 + b" HTTP/1.1", b"HEAD /metrics HTTP/1.0", b"OPTIONS * HTTP/1.1", b"", b"\0" * 100]
    for i in range(300):
        s = connect(t)
        s.settimeout(0.1)
        head = rng.choice(lines)
        more = rng.choice([b"", b"Host: x\r\n", b"Host: x\r\nContent-Length: 99999999999999999999\r\n",
                           b"X: " + b"y" * rng.randrange(40000) + b"\r\n", b"Host: x\r\nTransfer-Encoding: chunked\r\n",
                           rng.randbytes(rng.randrange(3000)), b"Host: x\r\nContent-Length: 1000\r\n"])
        try:
            s.sendall(head + b"\r\n" + more + b"\r\n" + rng.randbytes(rng.randrange(2000)))
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
        except OSError:
            pass
        open_ones = open_ones[-10:] + [s]
        if i % 50 == 0:
            assert t.get("/livez")[0] == 200, f"seed {SEED}"
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert t.get("/metrics", method)[0] == 405
    assert t.get("/nix")[0] == 404
    end = time.monotonic() + 15
    while t.value("weft_metrics_connections") > 1:  # that of the question
        assert time.monotonic() < end, f"seed {SEED}"
        time.sleep(0.5)
    m = t.metrics()
    assert m["weft_metrics_refused_total"][()] >= 5 and rss(t) < before + 8 * MIB, (rss(t) - before, f"seed {SEED}")
    assert t.term() == 0


def test_live_is_shared():
    """However often /livez is asked for, the workers are asked twenty times a second at most."""
    t = Metered("ls", objects("ls", "a")).start()
    c = http.client.HTTPConnection("127.0.0.1", t.http, timeout=20)
    was, begun = t.value("weft_worker_busy_polls_total"), time.monotonic()
    for _ in range(3000):
        c.request("GET", "/livez")
        assert c.getresponse().read() == b"live\n"
    asked, took = t.value("weft_worker_busy_polls_total") - was, time.monotonic() - begun
    print(f"# 3000 answers in {took:.2f} s, {asked:.0f} polls of the worker had something to do")
    assert asked < 300 + 300 * took, (asked, took)


def test_many():
    """More connections than there may be: the idle ones give way, and an honest client is served at once."""
    t = Metered("mn", objects("mn", "a")).start()
    held = []
    for _ in range(200):
        held.append(connect(t))
    begun = time.monotonic()
    for _ in range(5):
        assert t.get("/livez") == (200, "live\n")
    assert time.monotonic() - begun < 3
    m = t.metrics()
    assert m["weft_metrics_connections"][()] <= 32 and m["weft_metrics_closed_total"][(("why", "pushed_out"),)] >= 100, m
    for s in held:
        s.close()
    # Half a request: its connection ends after ten seconds, whatever it sends in between.
    half = connect(t)
    half.settimeout(1)
    half.sendall(b"GET / HTTP/1.1\r\n")
    begun, ended = time.monotonic(), None
    while time.monotonic() - begun < 20 and ended is None:
        try:
            half.sendall(b"X: y\r\n")
            if half.recv(100) == b"":
                ended = time.monotonic() - begun
        except socket.timeout:
            pass
        except ConnectionError:
            ended = time.monotonic() - begun
    assert ended is not None and 8 < ended < 14, ended
    assert t.value("weft_metrics_closed_total", why="slow") == 1


def test_slow_readers():
    """Readers that take nothing: the others are served, memory is bounded, and each of them ends after ten seconds."""
    t = Metered("sl", objects("sl", *"abcdefgh")).start()
    for e in "abcdefgh":
        t.push(make_file("sl.src", 100000, 1), e)
    t.metrics()
    before, slow = rss(t), []
    for _ in range(20):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.connect(("127.0.0.1", t.http))
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 300)  # far more than buffers of the kernel hold
        slow.append(s)
    begun = time.monotonic()
    while time.monotonic() - begun < 5:
        one = time.monotonic()
        assert t.get("/metrics")[0] == 200 and time.monotonic() - one < 2
        assert rss(t) < before + 48 * MIB, rss(t) - before
        time.sleep(0.2)
    end = time.monotonic() + 15
    while t.value("weft_metrics_closed_total", why="slow") < 20:
        assert time.monotonic() < end, t.metrics()["weft_metrics_closed_total"]
        time.sleep(0.3)
    for s in slow:
        s.close()


def test_configuration():
    """Off by default; what is wrong is said in one line; a port that is taken ends the start."""
    t = Target("co", objects("co", "a")).start()
    assert "metrics:" not in t.logged()
    with open(f"/proc/{t.proc.pid}/net/tcp") as f:
        mine = {os.readlink(f"/proc/{t.proc.pid}/fd/{n}") for n in os.listdir(f"/proc/{t.proc.pid}/fd")}
        assert not [line for line in f if f"socket:[{(line.split() + [''] * 10)[9]}]" in mine]
    t.term()
    for text, why in (("nix", "write 127.0.0.1:9471"), ("127.0.0.1", "write"), ("::1:80", "write"), ("1.2.3.4:0", "write"),
                      ("127.0.0.1:65536", "write"), ("[127.0.0.1:80", "write"), ("127.0.0.1:9471x", "write")):
        t = Target("cw", objects("cw", "a"), extra=f"metrics = {text}")
        rc, _, err = run([app("weft-target"), "--check-config", "-c", t.conf])
        assert rc == 1 and why in err and "metrics" in err and err.count("\n") == 1, (text, err)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        t = Target("ct", objects("ct", "a"), extra=f"metrics = 127.0.0.1:{s.getsockname()[1]}").start(ok=False)
        assert t.proc.wait(timeout=20) == 1 and "another program has this port" in t.logged(), t.logged()
    t = Target("c6", objects("c6", "a"), extra=f"metrics = [::1]:{free_port()}").start()
    assert "metrics: http://[::1]:" in t.logged()
    assert t.proc.poll() is None and t.term() == 0


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
