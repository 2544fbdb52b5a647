#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-ctl and the control socket: each command, what only a bad client sends, clients that do not read, a thousand of them."""
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import threading
import time

from weft_e2e import BUILD, FAILED, PROCS, TMP, Target, app, main, make_file, memif, path, run, sha

MIB = 1 << 20
SEED = int(os.environ.get("WEFT_TEST_SEED", "0")) or random.randrange(1, 1 << 30)
FULL, NOT_FOUND, BAD_JSON = -32006, -32002, -32700


class Controlled(Target):
    """A target with a control socket."""

    def __init__(self, name, exports, extra="", **kw):
        self.socket = path(f"{name}.control")
        super().__init__(name, exports, extra=f"control = {self.socket}\n{extra}", **kw)

    def ctl(self, *words, ok=0, timeout=60):
        """Run weft-ctl. The result of --json, or what was printed on standard error. Rates take time: a test asks for them."""
        if words[:1] in (("exports",), ("clients",), ("limits",)) and "--interval-ms" not in words:
            words += ("--interval-ms", "0")
        rc, out, err = run([app("weft-ctl"), "--socket", self.socket, "--json", *words], timeout=timeout)
        assert rc == ok, (words, rc, out, err)
        if rc:
            assert err.startswith("weft-ctl: ") and err.count("\n") == 1 and not out, (out, err)
            return err
        return json.loads(out)

    def client(self):
        """A connection of our own."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(20)
        while True:
            try:
                s.connect(self.socket)
                return s
            except BlockingIOError:  # as many wait as the kernel keeps
                time.sleep(0.001)

    def row(self, name):
        """One export."""
        return self.ctl("exports", name)["exports"][0]


def line(s):
    """Read one line; "" at the end."""
    got = b""
    while not got.endswith(b"\n"):
        more = s.recv(65536, socket.MSG_PEEK)
        if not more:
            break
        end = more.find(b"\n") + 1
        got += s.recv(end or len(more))
    return got.decode()


def ask(s, text):
    """Send a line, and parse the answer."""
    s.sendall(text.encode() + b"\n")
    return json.loads(line(s))


def request(method, n=1, **params):
    return json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params})


def objects(name, *exports):
    return {e: {"path": path(f"{name}.{e}"), "size": "4M"} for e in exports}


def schema():
    """{method: ({fields}, {fields of a row})} of the page that weft-ctl prints."""
    _, out, _ = run([app("weft-ctl"), "--reference"])
    found, method, at = {}, None, None
    for text in out.split("## Errors")[0].splitlines():
        if text.startswith("### "):
            method = text[4:]
            found[method] = (set(), set())
        elif text.startswith("| parameter"):
            at = None
        elif text == "Result:":
            at = 0
        elif text.startswith("Each element of the array"):
            at = 1
        elif text.startswith("| `") and at is not None:
            found[method][at].add(text.split("`")[1])
    return found


def test_empty_lines():
    """A client that sends nothing but empty lines does not keep the socket from others."""
    t = Controlled("el", objects("el", "a")).start()
    s, other = t.client(), t.client()

    def send():
        s.sendall(b"\n" * 2 * MIB)
    sender = threading.Thread(target=send)
    sender.start()
    at = time.monotonic()
    for n in range(20):
        assert ask(other, request("status", n))["id"] == n
    assert time.monotonic() - at < 1.5, "others waited"
    sender.join()
    assert ask(s, "\r\n\n" + request("status", 7))["id"] == 7
    assert t.term() == 0


def test_every_command():
    t = Controlled("ec", objects("ec", "a", "b") | {"v": {"path": path("ec.v"), "size": "16M", "format": "volume"}}).start()
    src = make_file("ec.src", 300000, 1)
    t.push(src, "a")
    pushing = t.cp_start(make_file("ec.big", 1500000, 2), "weft://10.0.0.1/a", args=["--rate", "400K"])
    end = time.monotonic() + 10
    while t.row("a")["grants"] == 0:
        assert time.monotonic() < end
        time.sleep(0.02)
    fields = schema()
    for method in ("status", "exports", "clients", "connections", "limits"):
        got = t.ctl(method)
        rows = next((v for v in got.values() if isinstance(v, list)), None)
        assert {k for k, v in got.items() if not isinstance(v, list)} == fields[method][0], (method, got)
        assert (rows is None) == (not fields[method][1]) and all(set(r) == fields[method][1] for r in rows or []), (method, rows)
        assert rows is None or rows, method
        for more in ([], ["--wide"]):
            more += ["--interval-ms", "100"] if "interval_ms" in got else []
            rc, out, _ = run([app("weft-ctl"), "-s", t.socket, method, *more])
            assert rc == 0 and out.count("\n") >= 2, out
    status = t.ctl("status")
    assert status["pid"] == t.proc.pid and status["exports"] == status["exports_served"] == 3, status
    one = t.ctl("connections")["connections"][0]
    assert one["exports"] == ["a"] and one["grants"] == 1 and one["peer"].startswith("10.0.0.2:") and one["recv_bytes"] > 0, one
    client = t.ctl("clients")["clients"]
    assert [c["client"] for c in client] == ["10.0.0.2"] and not client[0]["authenticated"], client
    assert t.row("a")["writer"] == one["peer"] and t.row("v")["format"] == "volume"
    who = {r["limit"]: r for r in t.ctl("limits")["limits"]}
    assert who["grants of a client"]["who"] == ["10.0.0.2: 1"] and who["exports"]["now"] == 3, who
    # Rates: each round is a line of JSON, or a table of its own.
    rc, out, _ = run([app("weft-ctl"), "-s", t.socket, "watch", "--interval", "0.3", "--count", "3", "connections"])
    assert rc == 0 and out.count("peer ") == 3 and out.count("iB/s") + out.count(" B/s") >= 2, out
    # Drop it: the push fails at once.
    assert t.ctl("drop", one["peer"])["connections"] == 1
    _, err = pushing.communicate(timeout=20)
    assert pushing.returncode in FAILED, err
    assert "no connection" in t.ctl("drop", "10.0.0.2", ok=5)
    assert t.ctl("loglevel")["levels"] == ""
    assert t.ctl("loglevel", "weft.*:info,lib.eal:error")["levels"] == "weft.*:info,lib.eal:error"
    assert "nothing was changed" in t.ctl("loglevel", "weft.*:info,weft.tcp:loud", ok=2)
    assert t.ctl("loglevel")["levels"] == "weft.*:info,lib.eal:error"
    # Out of service and back; each twice.
    for word, state in (("offline", "held"), ("online", "served"), ("drain", "held"), ("online", "served")):
        assert t.ctl(word, "a") == {"name": "a", "state": state, "changed": True}
        assert t.ctl(word, "a") == {"name": "a", "state": state, "changed": False}
        assert t.row("a")["state"] == state
        if state == "held":
            rc, _, err = t.cp(src, "weft://10.0.0.1/a")
            assert rc == 6 and "operator" in err, err
            os.rename(path("ec.a"), path("ec.moved"))  # nothing has it open
            os.rename(path("ec.moved"), path("ec.a"))
            t.ctl("reload")
            assert t.row("a")["state"] == "held"
        else:
            t.push(src, "a")
            assert sha(t.pull("a", "ec.out")) == sha(src)
    # A configuration with an error changes nothing, and the answer says where.
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "a") as f:
        f.write("[export a]\n")
    assert f"{t.conf}:" in t.ctl("reload", ok=1)
    with open(t.conf, "w") as f:
        f.write(text.replace("[export b]", "[export b]\nrights = read,verify"))
    t.ctl("reload")
    assert t.row("b")["rights"] == "read,verify"
    for word in ("offline", "online", "drain", "exports"):
        assert "no export is named" in t.ctl(word, "nix", ok=5)
    pid = t.ctl("stop")["pid"]
    assert pid == t.proc.pid and t.proc.wait(timeout=20) == 0 and "ending: weft-ctl stop" in t.logged()
    t.ctl("status", ok=3)
    assert not os.path.exists(t.socket)


def near(got, want, part=0.4):
    return abs(got - want) <= want * part


def test_rates():
    """Rates of exports and clients over a stated time, and who is at the limits of an export."""
    limits = {"max_bytes_per_s": "1M", "client_ops_per_s": 5000, "max_conns": 3}
    t = Controlled("rt", objects("rt", "b") | {"a": {"path": path("rt.a.weft"), "size": "16M"},
                   "v": {"path": path("rt.v"), "size": "64M", "format": "volume", **limits}}).start()
    # A push by RDMA Writes and Flushes, of which weft-cp keeps the rate; and a write by calls, which the target keeps.
    push = t.cp_start(make_file("rt.a", 7 * MIB, 1), "weft://10.0.0.1/a", args=["--rate", "512K", "--block", "16K"])
    end = time.monotonic() + 10
    while t.row("a")["grants"] == 0:
        assert time.monotonic() < end
        time.sleep(0.02)
    began = time.monotonic()
    got = t.ctl("exports", "--interval-ms", "1500")
    took = time.monotonic() - began
    rows = {r["name"]: r for r in got["exports"]}
    assert 1500 <= got["interval_ms"] <= took * 1000 + 1, (got["interval_ms"], took)
    a = rows["a"]
    assert near(a["write_bytes_per_s"], 512 << 10) and near(a["ops_per_s"], 32) and a["read_bytes_per_s"] == 0, a
    assert [rows["b"][k] for k in ("read_bytes_per_s", "write_bytes_per_s", "ops_per_s")] == [0, 0, 0], rows
    got = t.ctl("clients", "--interval-ms", "1500")
    assert [c["client"] for c in got["clients"]] == ["10.0.0.2"] and got["interval_ms"] >= 1500, got
    assert near(got["clients"][0]["recv_bytes_per_s"], 512 << 10) and got["clients"][0]["ops_per_s"] > 30, got
    # Without a time nothing is measured, and nothing waits for it.
    for method in ("exports", "clients", "limits"):
        got = t.ctl(method, "--interval-ms", "0")
        rates = [v for r in got[method] for k, v in r.items() if k.endswith("_per_s")]
        assert got["interval_ms"] == 0 and set(rates) <= {None} and bool(rates) == (method != "limits"), got
        assert "at most 5000" in t.ctl(method, "--interval-ms", "5001", ok=2)
    # A table says for how long; of watch, it is the interval.
    rc, out, err = run([app("weft-ctl"), "-s", t.socket, "exports", "a"])
    assert rc == 0 and re.match(r"interval_ms  1\d\d\d\nname .* read/s +write/s +ops/s", out) and "iB/s" in out, (out, err)
    rc, out, err = run([app("weft-ctl"), "-s", t.socket, "--json", "watch", "--interval", "0.4", "--count", "3", "clients"])
    lines = [json.loads(x) for x in out.splitlines()]
    assert rc == 0 and len(lines) == 3 and all(400 <= x["interval_ms"] < 2000 for x in lines), (out, err)
    push.kill()
    push.wait()
    # The limit of a volume, and who is at it.
    push = t.cp_start(make_file("rt.src", 12 * MIB, 1), "weft://10.0.0.1/v", args=["--block", "64K"])
    while t.row("v")["grants"] == 0:
        assert time.monotonic() < end + 30
        time.sleep(0.02)
    got = {r["key"]: r for r in t.ctl("limits", "--interval-ms", "1500")["limits"] if r["limit"].startswith("export v: ")}
    assert set(got) == {"max_bytes_per_s", "client_ops_per_s", "max_conns"}, got
    most = got["max_bytes_per_s"]
    assert most["max"] == MIB and near(most["now"], MIB) and most["refused"] > 0, most
    who = re.fullmatch(r"10\.0\.0\.2: (\d+), waits", most["who"][0])
    assert who and near(int(who[1]), MIB), most
    assert 0 < got["client_ops_per_s"]["now"] < 100 and got["max_conns"]["now"] == 1, got
    assert got["max_conns"]["who"] == ["10.0.0.2: 1, waits"], got
    got = t.ctl("exports", "v", "--interval-ms", "1500")["exports"][0]
    assert near(got["write_bytes_per_s"], MIB), got
    push.kill()
    push.wait()
    # A client that leaves meanwhile, and a target that ends.
    with t.client() as s:
        s.sendall((request("exports", interval_ms=3000) + "\n").encode())
    with t.client() as s:
        s.sendall((request("clients", interval_ms=5000) + "\n").encode())
        time.sleep(0.2)
        assert t.term() == 0


def test_rates_anew():
    """An export that is made while rates are measured, in the place of one that was deleted, begins at 0."""
    os.mkdir(path("ra.state"))
    t = Controlled("ra", objects("ra", "a"), extra=f"state = {path('ra.state')}\n").start()
    make = ["export", "create", "v", "size=16M", f"path={path('ra.v')}", "format=volume", "max_bytes_per_s=100M"]
    t.ctl(*make)
    t.push(make_file("ra.src", 4 * MIB, 1), "v")
    asked = subprocess.Popen([app("weft-ctl"), "-s", t.socket, "--json", "limits", "--interval-ms", "1000"], stdout=subprocess.PIPE)
    PROCS.append(asked)
    time.sleep(0.3)
    t.ctl("export", "delete", "v", "--confirm", "v")
    t.ctl(*make)
    now = [r["now"] for r in json.loads(asked.communicate()[0])["limits"] if r["key"] == "max_bytes_per_s"]
    assert now == [0], now
    assert t.term() == 0


def holder(t, export):
    """A client on the second port that holds a grant, does nothing, and serves no calls."""
    p = subprocess.Popen([os.path.join(BUILD, "test", "e2e", "grant_probe"), memif(0, "client", t.sock(1)), "10.0.1.2/24", "10.0.1.1",
                          export], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    PROCS.append(p)
    assert p.stdout.readline().startswith("granted")
    return p


def test_drain_waits():
    """A holder that does nothing loses its grant after revoke_ms, and the export is closed then."""
    t = Controlled("dw", objects("dw", "a"), extra="revoke_ms = 3000", ports=2, keepalive_ms=60000).start()
    src = make_file("dw.src", MIB, 2)
    idle = holder(t, "a")
    assert "stays draining" in t.ctl("drain", "a", "--timeout-ms", "300", ok=6)
    assert t.row("a")["state"] == "draining" and t.row("a")["grants"] == 1 and t.row("a")["rights"] == "nothing"
    rc, _, err = t.cp(src, "weft://10.0.0.1/a")
    assert rc == 1 and err.count("\n") == 1, err
    # Requests of others are served while a drain waits.
    begun = time.monotonic()
    drain = subprocess.Popen([app("weft-ctl"), "-s", t.socket, "drain", "a"], stdout=subprocess.DEVNULL)
    time.sleep(0.1)
    assert t.ctl("status")["exports"] == 1 and time.monotonic() - begun < 1
    assert drain.wait(timeout=20) == 0 and t.row("a")["state"] == "held"
    assert t.ctl("online", "a")["state"] == "served"
    t.push(src, "a")
    # online in the middle of a drain ends it.
    idle.kill()
    idle.wait()
    idle = holder(t, "a")
    drain = subprocess.Popen([app("weft-ctl"), "-s", t.socket, "--json", "drain", "a"], stdout=subprocess.PIPE, text=True)
    while t.row("a")["state"] != "draining":
        time.sleep(0.02)
    assert t.ctl("online", "a") == {"name": "a", "state": "served", "changed": True}
    out, _ = drain.communicate(timeout=20)
    assert json.loads(out)["state"] == "served", out
    idle.kill()
    assert t.term() == 0


def test_command_line():
    """What is wrong with a command line, and how it is said."""
    t = Controlled("cl", objects("cl", "a")).start()
    for words, want in (([], "no command"), (["nix"], "no such command"), (["offline"], "name is missing"),
                        (["status", "a"], "takes no such argument"), (["drain", "a", "--timeout-ms", "x"], "is not a number"),
                        (["drain", "a", "--nix"], "no such option"), (["drain", "a", "--timeout-ms"], "needs a value"),
                        (["watch", "stop"], "changes something"), (["watch", "--interval", "0", "status"], "--interval")):
        rc, out, err = run([app("weft-ctl"), "-s", t.socket, *words])
        assert rc == 2 and want in err and not out, (words, rc, err)
    rc, out, err = run([app("weft-ctl"), "-s", path("cl.none"), "status"])
    assert rc == 3 and "no target has this socket" in err, err
    rc, out, err = run([app("weft-ctl"), "status"], env=os.environ | {"WEFT_CTL_SOCKET": t.socket})
    assert rc == 0 and str(t.proc.pid) in out, err
    for words in (["--help"], ["--version"], ["--commands"], ["drain", "--help"]):
        assert run([app("weft-ctl"), *words])[0] == 0
    assert t.term() == 0


def test_completion():
    """bash completes commands, and the names of exports of a target that runs."""
    t = Controlled("co", objects("co", "alpha", "beta")).start()
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "apps", "ctl", "weft-ctl.bash")
    for words, want in (([""], {"status", "export", "watch"}), (["ex"], {"export", "exports"}), (["export", "re"], {"rename", "resize"}),
                        (["-s", t.socket, "drain", ""], {"alpha", "beta"}), (["-s", t.socket, "export", "set", "b"], {"beta"}),
                        (["-s", t.socket, "export", "create", ""], set()), (["watch", "--interval", "1", "cl"], {"clients"}),
                        (["support-b"], {"support-bundle"}), (["capture", "sta"], {"start", "status"}),
                        (["diff", script[:-5]], {script}), (["apply", "--d"], {"--dry-run"}),
                        (["export", "resize", "beta", "--sh"], {"--shrink"})):
        line = " ".join(f"'{w}'" for w in [app("weft-ctl"), *words])
        rc, out, err = run(["bash", "-c", f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _weft_ctl; "
                            'printf "%s\\n" "${COMPREPLY[@]}"'])
        got = set(out.split())
        assert rc == 0 and not err and (want <= got if words == [""] else want == got), (words, got, err)
    assert t.term() == 0


def test_one_socket_one_target():
    t = Controlled("oa", objects("oa", "a")).start()
    other = Controlled("ob", objects("ob", "a"))
    with open(other.conf) as f:
        text = f.read()
    with open(other.conf, "w") as f:
        f.write(text.replace(other.socket, t.socket))
    other.start(ok=False)
    assert other.proc.wait(timeout=20) == 1 and "another target has this socket" in other.logged(), other.logged()
    assert not os.path.exists(path("ob.a")), "the start has failed, so it leaves no file"
    # A file of another kind is not replaced.
    with open(other.conf, "w") as f:
        f.write(text)
    with open(other.socket, "w") as f:
        f.write("keep")
    other.start(ok=False)
    assert other.proc.wait(timeout=20) == 1 and "a file that is no socket has this name" in other.logged(), other.logged()
    with open(other.socket) as f:
        assert f.read() == "keep"
    assert t.ctl("status")["pid"] == t.proc.pid
    # A killed target leaves its socket, and the next start replaces it.
    t.kill()
    assert os.path.exists(t.socket) and "does not run any more" in t.ctl("status", ok=3)
    t.start()
    assert t.ctl("status")["pid"] == t.proc.pid
    assert os.stat(t.socket).st_mode & 0o777 == 0o600
    for bad in ("control = some/where", f"control = {TMP}/no/such/folder/s", f"control = {t.socket}\ncontrol_group = no-such-group"):
        with open(other.conf, "w") as f:
            f.write(text.replace(f"control = {other.socket}", bad))
        rc, _, err = run([app("weft-target"), "--check-config", "-c", other.conf])
        assert rc == 1 and "control" in err and err.count("\n") == 1, (bad, err)
    assert t.term() == 0


def test_garbage():
    """Lines that are no requests, drawn from a seed: each is answered with an error, and the next request is served."""
    rng = random.Random(SEED)
    t = Controlled("ga", objects("ga", "a")).start()
    good = request("exports", name="a").encode()
    s = t.client()
    for n in range(400):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            kind, at = rng.randrange(3), rng.randrange(len(bad))
            if kind == 0:
                bad[at] = rng.randrange(256)
            elif kind == 1:
                del bad[at:at + rng.randrange(1, 20)]
            else:
                bad[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 200)))
            bad = bad or bytearray(b"x")
        bad = bytes(bad).replace(b"\n", b" ").replace(b"\r", b" ")
        s.sendall(bad + b"\n" + request("status", n=n + 1000000).encode() + b"\n")
        # One that happens to be a notification has no answer.
        answer = json.loads(line(s))
        if answer.get("id") != n + 1000000:
            answer = json.loads(line(s))
        assert answer["id"] == n + 1000000 and answer["result"]["exports"] == 1, (SEED, n, bad, answer)
    # Halves of lines, a line octet by octet, a client that leaves in the middle.
    for octet in good + b"\n":
        s.sendall(bytes([octet]))
    assert json.loads(line(s))["result"]["exports"][0]["name"] == "a"
    for cut in range(1, len(good), 7):
        with t.client() as half:
            half.sendall(good[:cut])
    # Batches: answers in one line; notifications have none.
    batch = [json.loads(request("status", n=1)), 7, json.loads(request("offline", n=2, name="nix")),
             {"jsonrpc": "2.0", "method": "status"}]
    got = ask(s, json.dumps(batch))
    assert [a.get("id") for a in got] == [1, None, 2] and got[2]["error"]["code"] == NOT_FOUND, got
    # A request without an end: it is refused, and the client is closed.
    with t.client() as endless:
        endless.sendall(b"[" * (4 << 20))
        assert json.loads(line(endless))["error"]["data"]["name"] == "too_long" and line(endless) == ""
    # One that says all at once and then reads, by nc's way: half closed.
    with t.client() as closed:
        closed.sendall(good + b"\n" + good + b"\n")
        closed.shutdown(socket.SHUT_WR)
        assert all(json.loads(line(closed))["result"] for _ in range(2)) and line(closed) == ""
    counters = t.ctl("status")
    assert counters["control_bad"] >= 300 and counters["control_too_long"] == 1, counters
    src = make_file("ga.src", 300000, 1)
    t.push(src, "a")
    assert t.term() == 0


def test_slow_readers():
    """Clients that send requests and read nothing hold one answer each. The others are served meanwhile."""
    t = Controlled("sr", {f"e{i:02}": {"path": path(f"sr.{i}"), "size": "64K"} for i in range(30)}).start()
    slow = []
    for _ in range(20):
        s = t.client()
        s.setblocking(False)
        text, sent = (request("exports") + "\n").encode() * 100, 0
        try:
            while sent < 2 * MIB:
                sent += s.send(text)
        except BlockingIOError:
            pass
        slow.append(s)
    begun = time.monotonic()
    before = resident(t)
    for _ in range(20):
        assert len(t.ctl("exports")["exports"]) == 30
    assert time.monotonic() - begun < 10 and resident(t) - before < 16 * MIB
    end = time.monotonic() + 40
    while t.ctl("status")["control_slow"] < len(slow):
        assert time.monotonic() < end, t.ctl("status")
        time.sleep(0.5)
    assert t.ctl("status")["control_clients"] == 1
    for s in slow:
        s.close()
    assert t.term() == 0


def resident(t):
    with open(f"/proc/{t.proc.pid}/statm") as f:
        return int(f.read().split()[1]) * 4096


def test_thousand_clients():
    """64 of 1,000 clients are taken, the others get one error each, and a push goes on meanwhile."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, max(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    t = Controlled("tc", objects("tc", "a")).start()
    src = make_file("tc.src", 3 * MIB // 2, 3)
    push = t.cp_start(src, "weft://10.0.0.1/a", args=["--rate", "1M"])
    clients, taken, refused = [t.client() for _ in range(1000)], [], 0
    for s in clients:
        try:
            s.sendall(request("status").encode() + b"\n")
        except BrokenPipeError:
            pass
        answer = json.loads(line(s))
        if "result" in answer:
            taken.append(s)
        else:
            assert answer["error"]["code"] == FULL and answer["id"] is None and line(s) == "", answer
            refused += 1
    assert len(taken) == 64 and refused == 936, (len(taken), refused)
    assert "as many as it may have" in t.ctl("status", ok=9)
    # The first 64 are served all at once.
    threads = [threading.Thread(target=lambda s=s: [ask(s, request("connections")) for _ in range(20)]) for s in taken]
    for th in threads:
        th.start()
    for th in threads:
        th.join(timeout=60)
    assert json.loads(json.dumps(ask(taken[0], request("status"))))["result"]["control_refused"] == 937
    for s in clients:
        s.close()
    _, err = push.communicate(timeout=60)
    assert push.returncode == 0, err
    assert sha(t.pull("a", "tc.out")) == sha(src)
    assert t.ctl("status")["control_clients"] == 1
    assert t.term() == 0


def test_strangers():
    """Another user is refused, and served when it belongs to control_group."""
    if os.geteuid() != 0:
        return
    for group in ("", "control_group = nogroup"):
        t = Controlled(f"st{len(group)}", objects(f"st{len(group)}", "a"), extra=group).start()
        os.chmod(TMP, 0o755)
        if not group:
            os.chmod(t.socket, 0o666)  # the file's mode is not all that keeps others out
        p = subprocess.run([app("weft-ctl"), "-s", t.socket, "status"], capture_output=True, text=True, user=65534, group=65534,
                           extra_groups=[])
        assert p.returncode == (0 if group else 4), (p.returncode, p.stderr)
        assert group or "user 65534 may not" in p.stderr
        # By another group than its first.
        p = subprocess.run([app("weft-ctl"), "-s", t.socket, "status"], capture_output=True, text=True, user=65533, group=65533,
                           extra_groups=[65532, 65534])
        assert p.returncode == (0 if group else 4), (p.returncode, p.stderr)
        assert t.ctl("status")["control_denied"] == (0 if group else 2)
        assert t.term() == 0


def test_ends_while_asked():
    """SIGTERM while a drain waits: the drain is answered, and the target ends as fast as without it."""
    t = Controlled("ew", objects("ew", "a"), extra="revoke_ms = 60000", ports=2).start()
    p = holder(t, "a")
    drain = subprocess.Popen([app("weft-ctl"), "-s", t.socket, "drain", "a"], stderr=subprocess.PIPE, text=True)
    while t.row("a")["state"] != "draining":
        time.sleep(0.02)
    begun = time.monotonic()
    t.proc.send_signal(signal.SIGTERM)
    _, err = drain.communicate(timeout=20)
    assert drain.returncode == 6 and "the target ends" in err, err
    assert t.proc.wait(timeout=20) == 0 and time.monotonic() - begun < 8
    p.kill()


CASES = [test_every_command, test_rates, test_rates_anew, test_empty_lines, test_drain_waits, test_command_line, test_completion,
         test_one_socket_one_target, test_garbage, test_slow_readers, test_thousand_clients, test_strangers, test_ends_while_asked]

if __name__ == "__main__":
    print(f"# WEFT_TEST_SEED={SEED}")
    main(CASES)
