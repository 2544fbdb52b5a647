#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Exports that cannot be served, from the start or later. The others are served, the reason is reported, and SIGHUP
opens the export again."""
import os
import signal
import subprocess
import time

from test_visible import Telemetry
from weft_e2e import BUILD, FAILED, PROCS, Target, app, main, make_file, memif, path, run, sha

MIB = 1 << 20


def until(t, word, times=1):
    end = time.monotonic() + 10
    while t.logged().count(word) < times:
        assert time.monotonic() < end, f"no '{word}' in: {t.logged()[-1500:]}"
        time.sleep(0.02)


def edit(t, old, new):
    with open(t.conf) as f:
        text = f.read()
    assert old in text
    with open(t.conf, "w") as f:
        f.write(text.replace(old, new))


def with_telemetry(name, exports):
    t = Target(name, exports)
    edit(t, "[port p0]", "[weft]\ntelemetry = yes\n[port p0]")
    t.start()
    return t, Telemetry(t.proc.pid)


def refused(t, export, *words):
    """push, pull and the list report why."""
    for src, dst in ((make_file("of.try", 1000, 1), f"weft://10.0.0.1/{export}"),
                     (f"weft://10.0.0.1/{export}", path("of.none"))):
        rc, out, err = t.cp(src, dst)
        assert rc in FAILED and err.strip().count("\n") == 0 and f"export {export} is not served" in err, err
        for w in words:
            assert w in err, (w, err)
    assert not os.path.exists(path("of.none"))
    p = subprocess.run([app("weft-cp"), *t.client_args(), "--list", "weft://10.0.0.1"],
                       capture_output=True, text=True, timeout=30)
    line = [x for x in p.stdout.splitlines() if export in x]
    assert p.returncode == 0 and len(line) == 1 and words[0] in line[0], (p.stdout, p.stderr)


# The fault of an export, and a word of the reason.
def missing(p):
    return f"{p}/no/such/dir/x", "cannot be opened"


def foreign(p):
    make_file(os.path.basename(p), 4 * MIB, 9)
    return p, "not a weft export"


def folder(p):
    os.mkdir(p)
    return p, "directory"


def shorter(p):
    t = Target("of0", {"x": {"path": p, "size": "4M"}}).start()
    assert t.term() == 0
    os.truncate(p, 2 * MIB)
    return p, "was cut"


FAULTS = {f.__name__: f for f in (missing, foreign, folder, shorter)}


def test_bad_exports_stop_no_other():
    bad = {name: f(path(f"of.{name}")) for name, f in FAULTS.items()}
    exports = {"first": {"path": path("of.first"), "size": "4M"}}
    exports |= {name: {"path": p, "size": "4M"} for name, (p, _) in bad.items()}
    exports["last"] = {"path": path("of.last"), "size": "4M"}
    # With --strict one fault ends the start, and no files of the others are left.
    t = Target("of", exports)
    rc, _, err = run([app("weft-target"), "-c", t.conf, "--strict"])
    assert rc in FAILED and "export missing" in err and not os.path.exists(path("of.first")), err
    t, tel = with_telemetry("of", exports)
    src = make_file("of.src", 200000, 3)
    for e in ("first", "last"):
        t.push(src, e)
    for name, (_, word) in bad.items():
        assert t.logged().count(f"export {name}: OFFLINE: ") == 1, t.logged()
        refused(t, name, "offline", word)
        now = tel.ask(f"/weft/target/export,{name}")
        assert now["served"] == 0 and word in now["why"], now
    every = tel.ask("/weft/target/exports")
    assert sorted(v.split(":")[0] for v in every.values()) == sorted(exports), every
    assert sum("offline" in v for v in every.values()) == len(bad), every
    # The faults remain, so they are reported again. Two are repaired, one of them by another path.
    t.proc.send_signal(signal.SIGHUP)
    until(t, "export missing: OFFLINE", 2)
    os.rmdir(bad["folder"][0])
    edit(t, bad["foreign"][0], path("of.elsewhere"))
    t.proc.send_signal(signal.SIGHUP)
    for name in ("folder", "foreign"):
        until(t, f"export {name}: is served now")
        t.push(src, name)
        assert sha(t.pull(name, "of.out")) == sha(src)
        assert tel.ask(f"/weft/target/export,{name}")["served"] == 1
    refused(t, "missing", "offline")
    for e in ("first", "last"):
        assert sha(t.pull(e, "of.out")) == sha(src)
    assert t.proc.poll() is None and t.term() == 0


def test_all_bad_is_refused():
    t = Target("ab", {e: {"path": path(f"no/such/{e}"), "size": "4M"} for e in "ab"})
    rc, _, err = run([app("weft-target"), "-c", t.conf])
    assert rc in FAILED and err.strip().count("\n") == 0 and "export a" in err, err


def cut_under(persist):
    """The file of a pushed object is truncated, truncated and grown, punched, or replaced: no later push succeeds."""
    def grow(p):
        os.truncate(p, 0)
        os.truncate(p, 4 * MIB)

    def punch(p):
        subprocess.run(["fallocate", "-p", "-o", str(2 * MIB), "-l", "65536", p], check=True)

    ways = {"cut": lambda p: os.truncate(p, MIB), "grown": grow, "punched": punch}
    exports = {w: {"path": path(f"cu.{persist}.{w}"), "size": "4M", "persist": persist} for w in ways}
    exports["good"] = {"path": path(f"cu.{persist}.good"), "size": "4M", "persist": persist}
    t, tel = with_telemetry(f"cu{persist}", exports)
    src = make_file("cu.src", MIB, 4)
    for e in exports:
        t.push(src, e)
    for e, way in ways.items():
        # A writer in the middle of a push is not told of success either.
        p = t.cp_start(make_file("cu.new", MIB, 6), f"weft://10.0.0.1/{e}", args=["--rate", "1M"])
        until(t, f"export {e}: read,write,flush,verify granted", 2)
        way(exports[e]["path"])
        _, err = p.communicate(timeout=30)
        assert p.returncode in FAILED and err.strip().count("\n") == 0, (e, err)
        until(t, f"export {e}: LOST")
        refused(t, e, "was cut short")
        assert tel.ask(f"/weft/target/export,{e}")["served"] == 0
        assert "was cut short" in str(tel.ask("/weft/target/exports"))
    # SIGHUP opens what can be opened: a file with its proper length can.
    os.truncate(exports["cut"]["path"], 4 * MIB)
    t.proc.send_signal(signal.SIGHUP)
    until(t, "export cut: is served now")
    t.push(src, "cut")
    assert sha(t.pull("cut", "cu.out")) == sha(src)
    assert sha(t.pull("good", "cu.out")) == sha(src)
    assert t.proc.poll() is None and t.term() == 0


def test_cut_under_file():
    cut_under("file")


def test_cut_under_pmem():
    cut_under("pmem")


def comes_back(persist):
    """SIGHUP opens a lost export in spite of connected clients: its former writer, which is idle, a reader of it that
    does not answer, and an active client of another export, which notices nothing."""
    exports = {e: {"path": path(f"cb.{persist}.{e}"), "size": "16M", "persist": persist} for e in ("lost", "good")}
    t = Target(f"cb{persist}", exports, ports=4, keepalive_ms=60000)
    t.start()
    old, new = make_file("cb.old", 6 * MIB, 7), make_file("cb.new", 5 * MIB, 8)
    for e in exports:
        t.push(old, e)
    run(["cp", exports["lost"]["path"], path("cb.backup")])
    idle = subprocess.Popen([os.path.join(BUILD, "test", "e2e", "grant_probe"), memif(0, "client", t.sock(1)), "10.0.1.2/24",
                             "10.0.1.1", "lost"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    PROCS.append(idle)
    assert idle.stdout.readline().startswith("granted")
    stopped = t.cp_start("weft://10.0.3.1/lost", path("cb.never"), port=3, args=["--rate", "1M"])
    until(t, "export lost: read", 3)
    time.sleep(0.5)
    stopped.send_signal(signal.SIGSTOP)
    with open(make_file("cb.busy", 7 * MIB, 9), "rb") as f:
        content = f.read()
    busy = subprocess.Popen([app("weft-cp"), *t.client_args(2), "--reconnect", "0", "-", "weft://10.0.2.1/good"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    PROCS.append(busy)
    busy.stdin.write(content[:MIB])  # it works as long as it is given more
    until(t, "export good: read,write,flush,verify granted", 2)
    run(["cp", path("cb.backup"), exports["lost"]["path"]])
    for i in range(3):
        if i > 0:
            run(["cp", path("cb.backup"), exports["lost"]["path"]])
        busy.stdin.write(content[(i + 1) * MIB:(i + 2) * MIB])
        t.proc.send_signal(signal.SIGHUP)
        until(t, "export lost: is served now", i + 1)
        assert sha(t.pull("lost", "cb.out")) == sha(old)
    busy.stdin.write(content[4 * MIB:5 * MIB])
    t.push(new, "lost")
    assert sha(t.pull("lost", "cb.out")) == sha(new)
    assert busy.poll() is None, "the client at work was done before"
    assert idle.poll() is None, "the idle client is gone"
    _, err = busy.communicate(content[5 * MIB:], timeout=90)
    assert busy.returncode == 0, err
    assert sha(t.pull("good", "cb.out")) == sha(path("cb.busy"))
    stopped.kill()
    idle.kill()
    assert t.proc.poll() is None and t.term() == 0


def test_comes_back_file():
    comes_back("file")


def test_comes_back_pmem():
    comes_back("pmem")


if __name__ == "__main__":
    main([test_bad_exports_stop_no_other, test_all_bad_is_refused, test_cut_under_file, test_cut_under_pmem, test_comes_back_file,
          test_comes_back_pmem])
