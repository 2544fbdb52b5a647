#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Host authentication of the real programs (draft s5.2.6). test_auth.py BUILD [CASE...]"""
import os
import re
import signal
import subprocess
import time
import urllib.request

from test_metrics import free_port
from test_visible import Telemetry
from weft_e2e import BUILD, FAILED, PROCS, Target, app, main, make_file, memif, path, run, sha

MB = 1 << 20


def key(name, mode=0o600):
    with open(path(name), "w") as f:
        f.write(f"the key of {name}, long enough for anybody who asks\n")
    os.chmod(path(name), mode)
    return path(name)


def start(name, mode, ports=1, extra=""):
    t = Target(name, {"demo": {"path": path(f"{name}.weft"), "size": "8M", "persist": "file"}},
               extra=f"host_auth = {mode}\n{extra}[client alice]\nkey_file = {key('alice')}\n"
               f"[client bob]\nkey_file = {key('bob')}\n", ports=ports)
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write("[weft]\ntelemetry = yes\n" + text)
    t.start()
    return t, Telemetry(t.proc.pid)


def fails(t, src, *words, args=()):
    rc, out, err = t.cp(src, "weft://10.0.0.1/demo", args=list(args))
    assert rc in FAILED, (rc, out, err)
    lines = [x for x in err.splitlines() if x.strip()]
    assert len(lines) == 1, err
    for w in words:
        assert w in lines[0], (w, err)


def test_required():
    """A client with the right key is served. A client with a wrong key, an unknown name or no name is refused and
    counted."""
    t, tel = start("req", "required", ports=2)
    src = make_file("req1", MB, 1)
    # Refusals of other clients do not disturb an accepted client.
    slow = t.cp_start(src, "weft://10.0.1.1/demo", port=1,
                      args=["--rate", "512K", "--block", "64K", "--auth", f"bob:{key('bob')}"])
    alice = f"alice:{key('alice')}"
    rc, out, err = t.cp("--list", "weft://10.0.0.1", args=["--auth", alice])
    assert rc == 0 and "demo" in out, (out, err)
    fails(t, src, "does not know this name, or has another key", args=["--auth", f"alice:{key('wrong')}"])
    fails(t, src, "does not know this name, or has another key", args=["--auth", f"carol:{key('wrong')}"])
    fails(t, src, "does the target want --auth?")
    out, err = slow.communicate(timeout=60)
    assert slow.returncode == 0, err
    log = t.logged()
    assert len(re.findall(r"refused: it does not show that it is alice", log)) == 1, log
    assert len(re.findall(r"refused: it does not show that it is carol", log)) == 1, log
    assert len(re.findall(r"refused: it does not authenticate", log)) == 1, log
    now = tel.ask("/weft/target/clients")
    assert now == {"host_auth": "required", "known": 2, "passed": 2, "refused": 3, "late": 0, "held_off": 0, "held_off_net": 0,
                   "held_off_replaced": 0}, now
    back = path("req.out")
    rc, out, err = t.cp("weft://10.0.0.1/demo", back, args=["--auth", alice])
    assert rc == 0, err
    assert sha(back) == sha(src)
    assert t.term() == 0


def sighup(t):
    reads = t.logged().count("SIGHUP")
    t.proc.send_signal(signal.SIGHUP)
    end = time.monotonic() + 20
    while t.logged().count("SIGHUP") == reads:
        assert time.monotonic() < end, "SIGHUP was not heard"
        time.sleep(0.02)


def edit(t, old, new):
    with open(t.conf) as f:
        text = f.read()
    assert text.count(old) == 1, text
    with open(t.conf, "w") as f:
        f.write(text.replace(old, new))
    sighup(t)


def test_reload():
    """SIGHUP reads the clients and their keys again: a changed key, a new client, a removed client, and a file that
    cannot be read."""
    t, tel = start("rel", "required", ports=2)
    src = make_file("rel1", MB, 3)
    big = make_file("rel2", 3 * MB, 4)
    alice = f"alice:{key('alice')}"
    rc, _, err = t.cp(src, "weft://10.0.0.1/demo", args=["--auth", alice])
    assert rc == 0, err
    # The key changes: an existing connection stays, and new connections need the new key.
    slow = t.cp_start(big, "weft://10.0.1.1/demo", port=1,
                      args=["--rate", "1M", "--block", "64K", "--auth", alice])
    end = time.monotonic() + 20
    while t.logged().count("granted to") < 2 and time.monotonic() < end:
        time.sleep(0.02)
    edit(t, f"key_file = {path('alice')}\n", f"key_file = {key('alice2')}\n")
    fails(t, src, "does not know this name, or has another key", args=["--auth", alice])
    rc, out, err = t.cp("--list", "weft://10.0.0.1", args=["--auth", f"alice:{path('alice2')}"])
    assert rc == 0, err
    out, err = slow.communicate(timeout=60)
    assert slow.returncode == 0, err
    # One client is added. Another one, which is connected, is removed.
    slow = t.cp_start(big, "weft://10.0.1.1/demo", port=1,
                      args=["--rate", "1M", "--block", "64K", "--auth", f"bob:{key('bob')}"])
    while t.logged().count("granted to") < 3 and time.monotonic() < end + 60:
        time.sleep(0.02)
    # Another one of its, which waits for the writer's place and has sent no block yet.
    passed = tel.ask("/weft/target/clients")["passed"]
    waits = t.cp_start(src, "weft://10.0.0.1/demo", args=["--wait", "60", "--auth", f"bob:{path('bob')}"])
    while tel.ask("/weft/target/clients")["passed"] == passed and time.monotonic() < end + 60:
        time.sleep(0.02)
    edit(t, f"[client bob]\nkey_file = {path('bob')}", f"[client carol]\nkey_file = {key('carol')}")
    for cut in (slow, waits):
        out, err = cut.communicate(timeout=60)
        assert cut.returncode == 5 and "nothing was committed" in err, (cut.returncode, err)
    assert "client bob is no longer configured" in t.logged(), t.logged()
    fails(t, src, "does not know this name", args=["--auth", f"bob:{key('bob')}"])
    rc, _, err = t.cp(src, "weft://10.0.0.1/demo", args=["--auth", f"carol:{key('carol')}"])
    assert rc == 0, err
    # A configuration that cannot be read changes nothing.
    edit(t, f"key_file = {path('carol')}", f"key_file = {path('nothing')}")
    assert "nothing was changed" in t.logged() and "client carol" in t.logged(), t.logged()
    rc, _, err = t.cp(src, "weft://10.0.0.1/demo", args=["--auth", f"carol:{path('carol')}"])
    assert rc == 0, err
    assert tel.ask("/weft/target/clients")["known"] == 2
    assert t.term() == 0


def midway(t, who, how):
    p = subprocess.Popen([os.path.join(BUILD, "test", "e2e", "rpc_probe"), memif(0, "client", t.sock(0)), "10.0.0.2/24",
                          "10.0.0.1", who, "2", how], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    PROCS.append(p)
    return p


def test_reload_midway():
    """SIGHUP between a client's first message and its proof: the new list of clients decides."""
    t, tel = start("mid", "required")
    for n, (who, old, new, end) in enumerate((
            ("alice", None, None, "served"),
            ("alice", f"key_file = {path('alice')}\n", f"key_file = {key('alice2')}\n", "refused"),
            ("bob", f"[client bob]\nkey_file = {path('bob')}", f"[client carol]\nkey_file = {key('carol')}", "refused"))):
        p = midway(t, f"{who}:{path(who)}", "ask")
        assert p.stdout.readline() == "asked\n", p.communicate()
        if old:
            edit(t, old, new)
        out, err = p.communicate("go\n", timeout=60)
        assert out == f"{end}\n", (n, out, err)
        now = tel.ask("/weft/target/clients")
        assert (now["passed"], now["refused"]) == (1, n), now
    log = t.logged()
    assert "refused: it does not show that it is alice" in log and "refused: it does not show that it is bob" in log, log
    assert t.term() == 0


def test_optional_late():
    """With optional authentication the deadline begins when the client begins to authenticate, however late that is."""
    t, tel = start("oplate", "optional", extra="auth_timeout_ms = 700\n")
    p = midway(t, f"alice:{key('alice')}", "late")
    at = time.monotonic()
    out, err = p.communicate(timeout=60)
    took = time.monotonic() - at
    assert out == "closed\n" and took > 1.5, (out, err, took)
    assert tel.ask("/weft/target/clients")["late"] == 1
    assert "did not authenticate within 700 ms" in t.logged()
    assert t.term() == 0


def test_optional():
    """With optional authentication a client that does not try is served. A client that tries and fails is refused."""
    t, tel = start("opt", "optional")
    src = make_file("opt1", MB, 2)
    t.push(src, "demo")
    rc, out, err = t.cp(src, "weft://10.0.0.1/demo", args=["--auth", f"bob:{key('bob')}"])
    assert rc == 0, err
    fails(t, src, "host authentication as bob failed", args=["--auth", f"bob:{key('wrong')}"])
    now = tel.ask("/weft/target/clients")
    assert (now["passed"], now["refused"]) == (1, 1), now
    assert sha(t.pull("demo", "opt.out")) == sha(src)
    assert t.term() == 0


def test_other_calls():
    """A client without a name is refused in either version. Version 1 has no authentication (RFC 8166)."""
    t, tel = start("other", "required")
    for n, version in enumerate(("2", "1"), 1):
        rc, out, err = run([os.path.join(BUILD, "test", "e2e", "rpc_probe"), memif(0, "client", t.sock(0)),
                            "10.0.0.2/24", "10.0.0.1", "demo", version])
        assert rc == 1 and err.startswith("rpc_probe: OPEN: "), (rc, out, err)
        assert tel.ask("/weft/target/clients")["refused"] == n
    assert "granted" not in t.logged()
    assert t.term() == 0


def test_none():
    """A client with --auth does not use a target that does not authenticate itself."""
    t, _ = start("none", "none")
    src = make_file("none1", MB, 3)
    fails(t, src, "the target does not authenticate clients", args=["--auth", f"bob:{key('bob')}"])
    t.push(src, "demo")
    assert t.term() == 0


def test_held_off():
    """An address that fails repeatedly is rejected for a time that grows. Other addresses are served. Later the right
    key is accepted from this address."""
    t, tel = start("held", "required", ports=2)
    src = make_file("held1", MB, 4)
    alice = f"alice:{key('alice')}"
    for _ in range(5):
        fails(t, src, "does not know this name", args=["--auth", f"alice:{key('wrong')}"])
    fails(t, src, "the target refuses connections now", args=["--auth", alice])
    rc, out, err = t.cp("--list", "weft://10.0.1.1", port=1, args=["--auth", alice])
    assert rc == 0 and "demo" in out, (out, err)
    now = tel.ask("/weft/target/clients")
    assert (now["passed"], now["refused"], now["held_off"]) == (1, 5, 1), now
    assert "has to wait" in t.logged()
    time.sleep(1)
    rc, out, err = t.cp("--list", "weft://10.0.0.1", args=["--auth", alice])
    assert rc == 0 and "demo" in out, (out, err)
    # a success forgets earlier failures
    fails(t, src, "does not know this name", args=["--auth", f"alice:{key('wrong')}"])
    rc, out, err = t.cp("--list", "weft://10.0.0.1", args=["--auth", alice])
    assert rc == 0, err
    assert t.term() == 0


def test_late():
    """A connection that shows no proof is closed after auth_timeout_ms. An authenticated connection stays."""
    port = free_port()
    t, tel = start("late", "required", ports=2, extra=f"auth_timeout_ms = 700\nmetrics = {port}\n")
    src = make_file("late1", MB, 5)
    slow = t.cp_start(src, "weft://10.0.1.1/demo", port=1,
                      args=["--rate", "512K", "--block", "64K", "--auth", f"bob:{key('bob')}"])
    at = time.monotonic()
    rc, out, err = run([os.path.join(BUILD, "test", "e2e", "rpc_probe"), memif(0, "client", t.sock(0)),
                        "10.0.0.2/24", "10.0.0.1", "-", "2"])
    took = time.monotonic() - at
    assert rc == 0 and out == "closed\n" and 0.5 < took < 15, (rc, out, err, took)
    assert tel.ask("/weft/target/clients")["late"] == 1
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as r:
        assert "\nweft_auth_late_total 1\n" in r.read().decode()
    assert "did not authenticate within 700 ms" in t.logged()
    out, err = slow.communicate(timeout=60)
    assert slow.returncode == 0, err
    assert tel.ask("/weft/target/clients")["late"] == 1
    assert t.term() == 0


def test_known_as():
    """The values of known_as, the addresses by which clients call the target, are checked at start-up."""
    for n, (places, ok) in enumerate((("192.0.2.1:443, [2001:db8::1]:7471", True), ("here:1", False), ("10.0.0.1:0", False))):
        t, _ = start(f"as{n}", "required", extra=f"known_as = {places}\n") if ok else (None, None)
        if ok:
            assert t.term() == 0
            continue
        t = Target(f"as{n}", {"demo": {"persist": "volatile", "size": "1M"}},
                   extra=f"host_auth = required\nknown_as = {places}\n[client alice]\nkey_file = {key('alice')}\n")
        t.start(ok=False)
        assert t.proc.wait(timeout=20) == 1
        assert f'known_as: "{places}" is no address and port' in t.logged(), t.logged()


def test_keys():
    """Key files that others can read, and invalid names, are refused."""
    t = Target("keys", {"demo": {"persist": "volatile", "size": "1M"}},
               extra=f"host_auth = required\n[client eve]\nkey_file = {key('open', 0o644)}\n")
    t.start(ok=False)
    assert t.proc.wait(timeout=20) == 1
    assert "client eve: key_file" in t.logged() and "open to others" in t.logged(), t.logged()
    for arg, words in ((":x", "NAME:KEYFILE"), ("bob", "NAME:KEYFILE"), ("b b:x", "letters, digits"),
                       (f"bob:{key('open2', 0o644)}", "open to others"), ("bob:/nowhere", "No such file")):
        rc, _, err = run([app("weft-cp"), "--auth", arg, "--list", "weft://10.0.0.1"])
        assert rc == 2 and words in err, (arg, rc, err)


if __name__ == "__main__":
    main([test_required, test_reload, test_reload_midway, test_optional, test_optional_late, test_other_calls, test_none, test_held_off,
          test_late, test_known_as, test_keys])
