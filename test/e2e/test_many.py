#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hundreds of exports, and thousands: they are served, listed, changed as a set and counted, and the one above the limit is refused in
one line."""
import json
import os
import re
import time

from test_control import request
from test_control_exports import restart, stateful
from weft_e2e import BUILD, main, make_file, path

MOST = 4096  # CONF_EXPORTS_MAX
VOLUMES = int(os.environ.get("WEFT_MANY_VOLUMES", "24"))
OBJECTS = int(os.environ.get("WEFT_MANY_OBJECTS", "600"))
SMALL = {"persist": "volatile", "size": 24576}


def sections(names, **keys):
    return "".join(f"[export {n}]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items()) for n in names)


def applied(t, name, text, *words, ok=0):
    with open(path(name), "w") as f:
        f.write(text)
    return t.ctl("apply", path(name), *words, ok=ok, timeout=120)


def listed(t):
    """The names that weft-cp lists: by pages, each of them whole."""
    rc, out, err = t.cp("weft://10.0.0.1/", "--list", args=["--json"])
    assert rc == 0, err
    rows = json.loads(out)
    assert all(r["mechanism"] for r in rows), rows[:2]
    return [r["name"] for r in rows]


def begin(name):
    """Volumes and objects of the configuration."""
    exports = {f"v{i}": {"format": "volume", "path": path(f"{name}.v{i}"), "size": "2M"} for i in range(VOLUMES)}
    exports |= {f"o{i}": SMALL for i in range(OBJECTS)}
    exports["last"] = {"path": path(f"{name}.last"), "size": "64K"}
    return stateful(name, exports)


def on_cpu(t):
    """Nanoseconds that the target has had on a processor, all threads together."""
    ns = 0
    for task in os.listdir(f"/proc/{t.proc.pid}/task"):
        with open(f"/proc/{t.proc.pid}/task/{task}/schedstat", encoding="ascii") as f:
            ns += int(f.read().split()[0])
    return ns


def idle(t, began):
    """What thousands of volumes without operations take: at most 1 % of a core, and of a build for tests 2 %."""
    with open(os.path.join(BUILD, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as f:
        release = any(o["name"] == "buildtype" and o["value"] == "release" for o in json.load(f))
    ready = time.monotonic() - began
    time.sleep(1)
    was, at = on_cpu(t), time.monotonic()
    time.sleep(10)
    share = (on_cpu(t) - was) / 1e7 / (time.monotonic() - at)
    with open(f"/proc/{t.proc.pid}/status", encoding="ascii") as f:
        said = f.read()
    mib, threads = (int(re.search(rf"^{k}:\s+(\d+)", said, re.M)[1]) for k in ("RssAnon", "Threads"))
    print(f"# {VOLUMES} volumes and {OBJECTS} objects: ready after {ready:.1f} s, {mib >> 10} MiB, {threads} threads, "
          f"idle {share:.2f} % of a core", flush=True)
    assert share <= (1 if release else 2), share


def start(t):
    """Start it, which takes longer than most, as each new volume is made durable."""
    t.spawn()
    end = time.monotonic() + 20 + VOLUMES * 0.2
    while "ready:" not in t.logged() and t.proc.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    assert "ready:" in t.logged(), t.logged()[-2000:]
    return t


def test_served():
    """The first and the last one are written to and read; all are listed, shown and counted; a set of as many is made and deleted."""
    began = time.monotonic()
    t = start(begin("sv"))
    if VOLUMES >= 1000:
        idle(t, began)
    names = [f"v{i}" for i in range(VOLUMES)] + [f"o{i}" for i in range(OBJECTS)] + ["last"]
    assert " more\n" in t.logged().split("ready:")[1], t.logged()[-300:]
    assert listed(t) == names
    src = make_file("sv.src", 9000, 5)
    for export in ("v0", f"v{VOLUMES - 1}", "last"):
        t.push(src, export)
        with open(t.pull(export, "sv.out"), "rb") as out, open(src, "rb") as f:
            assert out.read(9000) == f.read(), export
    rows = t.ctl("exports")["exports"]
    assert [r["name"] for r in rows] == names and {r["state"] for r in rows} == {"served"}
    more = [f"m{i}" for i in range(OBJECTS)]
    text = sections(more, **SMALL)
    assert len(applied(t, "sv.set", text)["changes"]) >= len(more)
    assert applied(t, "sv.set", text) == {"changed": False, "changes": []}
    assert listed(t) == names + more
    assert t.ctl("dump")["exports"].count("[export ") == len(more)
    # A name that was deleted makes room for another one.
    line = applied(t, "sv.less", sections(more[1:], **SMALL), ok=2)
    assert "--confirm m0" in line, line
    applied(t, "sv.less", sections(more[1:] + ["other"], **SMALL), "--confirm", "m0")
    assert set(listed(t)) == set(names + more[1:] + ["other"])
    # Too many deletions for their names to fit one line.
    line = applied(t, "sv.none", "", ok=2)
    assert f"{len(more)} exports would be deleted" in line and "diff" in line, line
    if VOLUMES < 100:
        restart(t)
    assert len(listed(t)) == len(names) + len(more)
    assert t.term() == 0, t.logged()[-2000:]


def test_first_start():
    """Volumes that are made at the start wait for the disk together: one after the other they would wait twice each. Two of one file:
    the first one of the configuration has it. What --strict refuses leaves no files."""
    n, most = 32, 16  # volumes; at once (AHEAD_THREADS)
    exports = {f"f{i}": {"format": "volume", "path": path(f"fs.f{i}"), "size": "2M"} for i in range(n)}
    os.symlink(os.path.dirname(path("fs")), path("fs.link"))
    exports["again"] = exports["f3"] | {"path": path("fs.link/fs.f3")}
    trace = path("fs.trace")
    t = stateful("fs", exports)
    os.environ.update(LD_PRELOAD=os.path.join(BUILD, "test", "e2e", "libio_trace.so"), WEFT_IO_TRACE=trace, WEFT_IO_DELAY_US="20000")
    try:
        t.start()
    finally:
        for k in ("LD_PRELOAD", "WEFT_IO_TRACE", "WEFT_IO_DELAY_US"):
            del os.environ[k]
    with open(trace, encoding="utf-8") as f:
        syncs = sorted((int(w[2]), int(w[1])) for w in map(str.split, f) if w[0] == "sync" and "/fs.f" in w[5])
    assert len(syncs) == 2 * n, len(syncs)
    one_by_one, last = 0, 0  # the longest row of syncs of which each begins behind the end of the one before
    for ended, begun in syncs:
        if begun >= last:
            one_by_one, last = one_by_one + 1, ended
    print(f"# {len(syncs)} syncs of {n} volumes: {one_by_one} one behind the other", flush=True)
    assert one_by_one <= 4 * 2 * n // most, one_by_one
    rows = {r["name"]: r["state"] for r in t.ctl("exports")["exports"]}
    assert [k for k, v in rows.items() if v != "served"] == ["again"], rows
    # Threads begin with the first request that needs one: of volumes without operations none has any.
    names = []
    for task in os.listdir(f"/proc/{t.proc.pid}/task"):
        with open(f"/proc/{t.proc.pid}/task/{task}/comm", encoding="ascii") as f:
            names.append(f.read().strip())
    assert len(names) < n, sorted(names)
    t.push(make_file("fs.src", 100000, 3), "f7")
    told = re.findall(r"export (f\d+): \S+, [^\n]*; new$", t.logged(), re.M)
    assert told == [f"f{i}" for i in range(len(told))] and told, t.logged()[:3000]
    restart(t)
    rows = {r["name"]: r["state"] for r in t.ctl("exports")["exports"]}
    assert [k for k, v in rows.items() if v != "served"] == ["again"], rows
    assert t.term() == 0, t.logged()[-2000:]
    for e in list(exports.values())[:n]:
        os.unlink(e["path"])
    t = stateful("fs2", exports)
    t.args = ["--strict"]
    t.start(ok=False)
    assert t.proc.wait(30) == 1 and "in use by another export" in t.logged(), t.logged()
    left = [e["path"] for e in exports.values() if os.path.exists(e["path"])]
    assert not left, left


def test_limit():
    """As many as may be; one more is refused in one line, and counted."""
    t = stateful("li").start()
    text = sections([f"x{i}" for i in range(MOST)], **SMALL)
    assert len(applied(t, "li.set", text)["changes"]) >= MOST
    line = applied(t, "li.more", text + sections(["more"], **SMALL), ok=2)
    assert f"{MOST} sections [export NAME] at most" in line, line
    line = t.ctl("export", "create", "one", "size=24K", "persist=volatile", ok=1)
    assert f"{MOST}" in line, line
    row = [r for r in t.ctl("limits")["limits"] if r["limit"] == "exports"][0]
    assert (row["now"], row["max"]) == (MOST, MOST), row
    assert len(listed(t)) == MOST
    assert t.term() == 0, t.logged()[-2000:]


def test_long_request():
    """A request longer than 4 MiB is refused; thousands of short ones in one piece are answered; and the memory of long ones, which
    all clients share, is given back."""
    t = stateful("lr").start()
    ask = request("status").encode()
    s = t.client()
    s.settimeout(60)
    pad = b" " * (1 << 20)
    for _ in range(20):
        s.sendall(pad + ask + b"\n")
        got = b""
        while not got.endswith(b"\n"):
            got += s.recv(65536)
        assert b'"result"' in got, got[:200]
    s.close()
    s = t.client()
    s.settimeout(60)
    try:
        for _ in range(5):
            s.sendall(pad)
    except (BrokenPipeError, ConnectionResetError):
        pass
    got = s.recv(65536)
    assert b"longer than 4194304" in got, got
    s.close()
    assert t.term() == 0


main([test_served, test_first_start, test_limit, test_long_request])
