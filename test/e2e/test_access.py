#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Access lists of exports: who is served and who is not, by name and by address, from the file and at run time."""
import os
import subprocess
import time

from test_auth import key
from test_control import Controlled
from weft_e2e import main, make_file, path, sha

MIB = 1 << 20


def auth(name):
    return ["--auth", f"{name}:{key(name)}"]


def start(name, exports, **kw):
    os.mkdir(path(f"{name}.state"))
    clients = "".join(f"[client {c}]\nkey_file = {key(c)}\n" for c in ("alice", "bob"))
    return Controlled(name, {e: {"path": path(f"{name}.{e}"), "size": "16M", **keys} for e, keys in exports.items()},
                      extra=f"state = {path(name + '.state')}\nhost_auth = optional\nrevoke_ms = 200\n{clients}", ports=2, **kw).start()


def refused(t, src, export, word, **kw):
    rc, _, err = t.cp(src, f"weft://10.0.{kw.get('port', 0)}.1/{export}", **kw)
    assert rc == 1 and word in err and err.count("\n") == 1, (rc, err)


def served(t, src, export, **kw):
    rc, _, err = t.cp(src, f"weft://10.0.{kw.get('port', 0)}.1/{export}", **kw)
    assert rc == 0, err


def test_lists():
    """Names, addresses and both; OPEN, STAT and LIST; the counter and the log."""
    t = start("ls", {"names": {"allow_clients": "alice, bob"}, "net": {"allow_from": "10.0.1.0/24"},
                     "both": {"allow_clients": "alice", "allow_from": "10.0.0.2, fd00::/64", "format": "volume"},
                     "all": {"allow_clients": "any", "allow_from": "any"}})
    src = make_file("ls.src", 100000, 1)
    served(t, src, "names", args=auth("bob"))
    refused(t, src, "names", "you have not authenticated")
    served(t, src, "net", port=1)
    refused(t, src, "net", "(allow_from) does not have your address")
    served(t, src, "both", args=auth("alice"))
    refused(t, src, "both", "does not have bob", args=auth("bob"))
    refused(t, src, "both", "does not have your address", port=1, args=auth("alice"))
    served(t, src, "all")
    rc, out, err = t.cp("--list", "weft://10.0.0.1", args=auth("bob"))
    lines = {x.split()[0]: x for x in out.splitlines() if x}
    assert rc == 0 and "access list" in lines["net"] and "access list" in lines["both"] and "access list" not in lines["names"], out
    rows = {r["name"]: r for r in t.ctl("exports")["exports"]}
    assert [rows[e]["access_refused"] >= n for e, n in (("names", 1), ("net", 1), ("both", 2))] == [True] * 3, rows
    assert rows["all"]["access_refused"] == 0 and rows["all"]["access"] == ""
    assert rows["both"]["access"] == "allow_clients=alice allow_from=10.0.0.2,fd00::/64", rows["both"]
    assert "export both: refused 10.0.0.2:" in t.logged() and "(bob): not on allow_clients" in t.logged()
    assert t.term() == 0


def test_run_time():
    """Lists change while a client pushes: it stays while it is on them, and loses its grant when it is not. Kept over a
    restart and kill -9."""
    t = start("rt", {"conf": {}})
    src = make_file("rt.src", MIB, 1)
    assert t.ctl("export", "create", "e", "size=8M", "path=e.weft", "allow_from=10.0.0.0/24")["changed"]
    assert not t.ctl("export", "create", "e", "size=8M", "path=e.weft", "allow_from=10.0.0.0/24")["changed"]
    refused(t, src, "e", "(allow_from)", port=1)
    push = t.cp_start(make_file("rt.big", 4 * MIB - 9000, 2), "weft://10.0.0.1/e", args=["--rate", "500K", "--block", "64K"])
    end = time.monotonic() + 10
    while t.row("e")["grants"] == 0:
        assert time.monotonic() < end and push.poll() is None
        time.sleep(0.02)
    for changed in (True, False):
        assert t.ctl("export", "set", "e", "allow_from=10.0.0.2,10.0.1.0/24")["changed"] == changed
    time.sleep(0.3)
    assert push.poll() is None and t.row("e")["grants"] == 1, "the client is on the list"
    t.ctl("export", "set", "e", "allow_clients=alice", "allow_from=any")
    _, err = push.communicate(timeout=60)
    assert push.returncode == 6 and err, err
    for _ in range(2):
        refused(t, src, "e", "not authenticated")
        served(t, src, "e", args=auth("alice"), port=1)
        t.kill()
        t.start()
    assert t.row("e")["access"] == "allow_clients=alice"
    assert "no name of a client" in t.ctl("export", "set", "e", "allow_clients=al ice", ok=2)
    assert "neither an address" in t.ctl("export", "set", "e", "allow_from=10.0.0", ok=2)
    assert "twice" in t.ctl("export", "set", "e", "allow_clients=bob,bob", ok=2)
    t.ctl("export", "set", "e", "allow_clients=any")
    served(t, src, "e")
    # The file's exports: by SIGHUP.
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write(text + "allow_clients = bob\n")
    served(t, src, "conf")
    t.ctl("reload")
    refused(t, src, "conf", "not authenticated")
    served(t, src, "conf", args=auth("bob"))
    with open(t.conf, "w") as f:
        f.write(text)
    t.ctl("reload")
    served(t, src, "conf")
    assert sha(t.pull("conf", "rt.out")) == sha(src)
    assert t.term() == 0


def test_no_names():
    """A list of names without host authentication would let no client in, so it is refused."""
    os.mkdir(path("nn.state"))
    t = Controlled("nn", {}, extra=f"state = {path('nn.state')}\n").start()
    err = t.ctl("export", "create", "e", "size=8M", "path=e.weft", "allow_clients=alice", ok=2)
    assert "no client has a name" in err and t.ctl("exports")["exports"] == []
    t.ctl("export", "create", "e", "size=8M", "path=e.weft")
    assert "no client has a name" in t.ctl("export", "set", "e", "allow_clients=alice", ok=2)
    assert t.term() == 0
    bad = Controlled("nb", {"e": {"path": path("nb.e"), "size": "1M", "allow_clients": "alice"}})
    p = subprocess.run([bad.exe, "-c", bad.conf, "--check-config"], capture_output=True, text=True, timeout=20)
    assert p.returncode != 0 and "allow_clients: no client has a name" in p.stderr, p.stderr


if __name__ == "__main__":
    main([test_lists, test_run_time, test_no_names])
