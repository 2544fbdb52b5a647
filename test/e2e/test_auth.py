#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Host authentication of the real programs (draft s5.2.6). test_auth.py BUILD [CASE...]"""
import os
import re

from test_visible import Telemetry
from weft_e2e import BUILD, Target, app, main, make_file, memif, path, run, sha

MB = 1 << 20


def key(name, mode=0o600):
    with open(path(name), "w") as f:
        f.write(f"the key of {name}, long enough for anybody who asks\n")
    os.chmod(path(name), mode)
    return path(name)


def start(name, mode, ports=1):
    t = Target(name, {"demo": {"path": path(f"{name}.weft"), "size": "8M", "persist": "file"}},
               extra=f"host_auth = {mode}\n[client alice]\nkey_file = {key('alice')}\n"
               f"[client bob]\nkey_file = {key('bob')}\n", ports=ports)
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write("[weft]\ntelemetry = yes\n" + text)
    t.start()
    return t, Telemetry(t.proc.pid)


def fails(t, src, *words, args=()):
    rc, out, err = t.cp(src, "weft://10.0.0.1/demo", args=list(args))
    assert rc == 1, (rc, out, err)
    lines = [x for x in err.splitlines() if x.strip()]
    assert len(lines) == 1, err
    for w in words:
        assert w in lines[0], (w, err)


def test_required():
    """Who has the key is served; a wrong key, a strange name and nobody at all are refused and counted."""
    t, tel = start("req", "required", ports=2)
    src = make_file("req1", MB, 1)
    # Somebody who was let in notices nothing of the others.
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
    assert len(re.findall(r"refused: it does not show who it is", log)) == 1, log
    now = tel.ask("/weft/target/clients")
    assert now == {"host_auth": "required", "known": 2, "passed": 2, "refused": 3}, now
    back = path("req.out")
    rc, out, err = t.cp("weft://10.0.0.1/demo", back, args=["--auth", alice])
    assert rc == 0, err
    assert sha(back) == sha(src)
    assert t.term() == 0


def test_optional():
    """Who does not try is served, who tries and fails is not."""
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
    """Without a name nothing is served, by neither version: the second knows no way to show one (RFC 8166)."""
    t, tel = start("other", "required")
    for n, version in enumerate(("2", "1"), 1):
        rc, out, err = run([os.path.join(BUILD, "test", "e2e", "rpc_probe"), memif(0, "client", t.sock(0)),
                            "10.0.0.2/24", "10.0.0.1", "demo", version])
        assert rc == 1 and err.startswith("rpc_probe: OPEN: "), (rc, out, err)
        assert tel.ask("/weft/target/clients")["refused"] == n
    assert "granted" not in t.logged()
    assert t.term() == 0


def test_none():
    """A client that wants to know who the target is does not talk to one that does not tell."""
    t, _ = start("none", "none")
    src = make_file("none1", MB, 3)
    fails(t, src, "the target does not authenticate anybody", args=["--auth", f"bob:{key('bob')}"])
    t.push(src, "demo")
    assert t.term() == 0


def test_keys():
    """Keys that others can read, and names that are none."""
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
    main([test_required, test_optional, test_other_calls, test_none, test_keys])
