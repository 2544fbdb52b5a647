#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Limits of exports: a rate is kept within 5 % by calls, in windows, by pushes and by pulls; a greedy client, and one that opens and
closes grants all the time, leaves 15 others their shares; connections. WEFT_LIMITS_WORKERS: workers of the target, 2."""
import json
import os
import subprocess
import time

from test_control import Controlled, ask, request
from weft_e2e import BUILD, PROCS, app, main, make_file, memif, path, sha

MIB = 1 << 20
WORKERS = int(os.environ.get("WEFT_LIMITS_WORKERS", "2"))


def start(name, exports, **kw):
    os.mkdir(path(f"{name}.state"))
    t = Controlled(name, {e: {"path": path(f"{name}.{e}"), **keys} for e, keys in exports.items()}, keepalive_ms=20000,
                   extra=f"state = {path(name + '.state')}\ncredits = 32\n", **kw)
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write(f"[weft]\nworkers = {WORKERS}\n{text}")
    return t.start()


def perf(t, *args, export="v", port=0):
    p = subprocess.Popen([app("weft-perf"), args[0], *t.client_args(port), *args[1:], "--json", f"weft://10.0.{port}.1/{export}"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    PROCS.append(p)
    return p


def near(t, export, what, want, of):
    """What the target charges in a second, once it runs: within 5 %. A machine that is busy gets three tries."""
    s = t.client()

    def read():
        row = ask(s, request("exports", name=export))["result"]["exports"][0]
        return row[what], time.monotonic()

    time.sleep(1)
    for _ in range(3):
        was = read()
        time.sleep(1.2)
        now = read()
        got = (now[0] - was[0]) / (now[1] - was[1])
        print(f"# {of}: {got:.0f} {what} in a second, wanted {want}")
        if 0.95 * want <= got <= 1.05 * want:
            s.close()
            return
    raise AssertionError((of, got, want))


def test_rates():
    """By calls and in windows, octets and operations; the client's own figures agree."""
    t = start("lr", {})
    t.ctl("export", "create", "v", "size=64M", "path=v.img", "format=volume", "max_bytes_per_s=8M")
    for args in (["volume-read", "-s", "64K", "-t", "8"], ["volume-write", "--overwrite", "-s", "16K", "-t", "8", "-q", "4"],
                 ["volume-read", "--windows", "-s", "64K", "-t", "8"],
                 ["volume-write", "--overwrite", "--windows", "-s", "64K", "-t", "8"]):
        p = perf(t, *args, "-D", "5")
        near(t, "v", "charged_bytes", 8 * MIB, " ".join(args))
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0, err
        r = json.loads(out)["results"][0]
        assert r["iterations"] * (65536 if "64K" in args else 16384) <= 8 * MIB * 1.05 * (r["seconds"] + 0.5), r
    assert t.row("v")["waits"] > 0
    assert t.ctl("export", "set", "v", "max_bytes_per_s=0", "max_ops_per_s=500")["changed"]
    assert t.row("v")["limits"] == "max_ops_per_s=500"
    p = perf(t, "volume-read", "-s", "4K", "-t", "16", "-D", "5")
    near(t, "v", "charged_ops", 500, "operations")
    t.ctl("export", "set", "v", "max_ops_per_s=0", "client_ops_per_s=900")  # while the client runs
    near(t, "v", "charged_ops", 900, "operations of the client")
    t.ctl("export", "set", "v", "client_ops_per_s=0")  # what waits goes on
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0 and t.row("v")["waiting"] == 0, err
    t.kill()
    t.start()
    assert t.row("v")["limits"] == ""
    assert t.term() == 0


def test_push_and_pull():
    """Pushes are charged at their Flushes, pulls at their RDMA Reads; the content is right."""
    t = start("lp", {"o": {"size": "32M", "max_bytes_per_s": "2M"}})
    src = make_file("lp.src", 6 * MIB, 1)
    for push in (True, False):
        p = t.cp_start(*((src, "weft://10.0.0.1/o") if push else ("weft://10.0.0.1/o", path("lp.out"))), args=["--block", "64K"])
        at = time.monotonic()
        near(t, "o", "charged_bytes", 2 * MIB, "push" if push else "pull")
        _, err = p.communicate(timeout=60)
        took = time.monotonic() - at
        assert p.returncode == 0 and 2.4 < took, (took, err)
    assert sha(path("lp.out")) == sha(src)
    # Clients that die while their requests wait.
    for words in (("weft://10.0.0.1/o", path("lp.dead")), (src, "weft://10.0.0.1/o")):
        p = t.cp_start(*words)
        end = time.monotonic() + 10
        while t.row("o")["waiting"] == 0:
            assert time.monotonic() < end and p.poll() is None
            time.sleep(0.01)
        p.kill()
        p.wait()
        t.ctl("drop", "10.0.0.2")
        while t.row("o")["waiting"] or t.row("o")["conns"]:
            assert time.monotonic() < end + 10
            time.sleep(0.02)
    # The end of a grant does not wait for the rate.
    p = t.cp_start(src, "weft://10.0.0.1/o")
    time.sleep(0.7)
    assert t.row("o")["grants"] == 1
    at = time.monotonic()
    t.ctl("offline", "o")
    assert time.monotonic() - at < 2.5
    p.communicate(timeout=60)
    t.ctl("online", "o")
    assert sha(t.pull("o", "lp.again")) == sha(src)
    assert t.term() == 0


def test_fair():
    """A client with many connections and deep queues, and three with little: each of the three gets 0.9 of its share."""
    t = start("lf", {}, ports=4)
    t.ctl("export", "create", "v", "size=64M", "path=v.img", "format=volume", "max_ops_per_s=400")
    small = [perf(t, "volume-read", "-s", "4K", "-t", "4", "-D", "5", port=i) for i in (1, 2, 3)]
    greedy = perf(t, "volume-read", "-s", "4K", "-t", "32", "-q", "8", "-D", "5", port=0)
    near(t, "v", "charged_ops", 400, "the sum")
    got = []
    for p in [*small, greedy]:
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0, err
        r = json.loads(out)["results"][0]
        got.append(r["iterations"] / 5)
    print(f"# operations in a second: {[round(g) for g in got]}; a share is 100")
    assert min(got[:3]) >= 0.9 * 100, got
    assert t.term() == 0


def test_sixteen():
    """16 clients of one program, of which the first is greedy, or greedy and opens and closes its grants all the time: with a limit of
    the sum the others get 0.9 of their shares; with a limit of each client it is kept within 5 %."""
    t = start("ls", {}, ports=2)
    with open(t.conf) as f:
        text = f.read().replace("[target]\n", "[target]\nmax_opens_per_s = 0\n", 1)
    t.kill()
    with open(t.conf, "w") as f:
        f.write(text)
    t.start()
    t.ctl("export", "create", "v", "size=64M", "path=v.img", "format=volume")
    config, addresses = path("ls.client.ini"), []
    with open(config, "w") as f:
        for port in range(2):
            f.write(f"[port p{port}]\ndev = {memif(port, 'client', t.sock(port))}\naddress = 10.0.{port}.2/24\n")
        for i in range(16):
            addresses.append((f"10.0.{i % 2}.{2 + i // 2}", f"10.0.{i % 2}.1"))
            if i >= 2:
                f.write(f"[network n{i}]\nport = p{i % 2}\naddress = {addresses[i][0]}/32\n")
    off = ["max_ops_per_s=0", "max_bytes_per_s=0", "client_ops_per_s=0"]
    for limit, what, want, first, others in (
            ("max_ops_per_s=1600", "charged_ops", 1600, "8,32,4096", "1,8,4096"),
            ("max_bytes_per_s=32M", "charged_bytes", 32 * MIB, "8,32,65536", "1,8,16384"),
            ("max_ops_per_s=1600", "charged_ops", 1600, "4,16,4096,churn", "1,8,4096"),
            ("client_ops_per_s=100", "charged_ops", 1600, "4,16,4096,churn", "1,8,4096")):
        t.ctl("export", "set", "v", *off)
        t.ctl("export", "set", "v", limit)
        for _ in range(3):  # as near() does: a machine that is busy has no time for 1,600 reads in a second
            p = subprocess.Popen([os.path.join(BUILD, "test", "e2e", "share_probe"), config, "v", "5",
                                  *(f"{a},{b},{others if i else first}" for i, (a, b) in enumerate(addresses))],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
            PROCS.append(p)
            near(t, "v", what, want, f"16 clients, {limit}, the first with {first}: the sum")
            out, err = p.communicate(timeout=60)
            assert p.returncode == 0, err
            share = want / 16
            got = [int(line.split()[1]) / 5 / share for line in out.splitlines()]
            if what == "charged_bytes":
                got = [n * int((others if i else first).split(",")[2]) for i, n in enumerate(got)]
            opens = int(out.split()[2]) / 5
            print(f"# of its share the first client had {got[0]:.2f}, with {opens:.0f} OPENs in a second; the others {min(got[1:]):.2f} to "
                  f"{max(got[1:]):.2f}")
            if min(got[1:]) >= 0.9 and ("client" not in limit or (max(got) <= 1.05 and min(got[1:]) >= 0.95)):
                break
        else:
            raise AssertionError((limit, got))
    assert t.term() == 0


def test_connections():
    t = start("lc", {}, ports=2)
    t.ctl("export", "create", "v", "size=64M", "path=v.img", "format=volume", "max_conns=2")
    p = perf(t, "volume-read", "-s", "4K", "-q", "2", "-D", "3")
    end = time.monotonic() + 10
    while t.row("v")["conns"] < 2:
        assert time.monotonic() < end and p.poll() is None
        time.sleep(0.02)
    rc, _, err = t.cp("weft://10.0.1.1/v", path("lc.out"), port=1, args=["--length", "4K"])
    assert rc == 1 and "max_conns" in err, err
    _, err = p.communicate(timeout=60)
    assert p.returncode == 0 and t.row("v")["conns_refused"] >= 1, err
    end = time.monotonic() + 10
    while t.row("v")["conns"] > 0:
        assert time.monotonic() < end
        time.sleep(0.02)
    rc, _, err = t.cp("weft://10.0.1.1/v", path("lc.out"), port=1, args=["--length", "4K"])
    assert rc == 0, err
    assert t.term() == 0


if __name__ == "__main__":
    main([test_rates, test_push_and_pull, test_fair, test_sixteen, test_connections])
