#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tickets for logs, tested on the real target: which client gets one, and what it permits. test_tickets.py BUILD
[CASE...]"""
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
sys.dont_write_bytecode = True
from test_flush_waits import Traced  # noqa: E402
from test_auth import key  # noqa: E402
from test_opens import wait_for  # noqa: E402
from test_visible import Telemetry  # noqa: E402
from weft_e2e import BUILD, PROCS, Target, app, main, make_file, memif, path, run  # noqa: E402

READ, WRITE, FLUSH, VERIFY = 0x02, 0x04, 0x10, 0x40
ALL = READ | WRITE | FLUSH
SLOW_S = 2
STALE, BUSY, PERM, INVAL, NOENT = 116, 16, 13, 22, 2


def start(name, extra="", exports=None, ports=2, **keys):
    t = Target(name, {"log": {"format": "log", "path": path(f"{name}.medium"), "size": "1M", "persist": "file", **keys},
                      "demo": {"persist": "volatile", "size": "1M"}, **(exports or {})}, ports=ports, extra=extra)
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        # the RPC connection and the log connection may belong to different workers
        f.write("[weft]\ntelemetry = yes\nworkers = 2\n" + text)
    t.start()
    return t, Telemetry(t.proc.pid)


class Holder:
    """A process of test/access/ticket_probe."""

    def __init__(self, t, port=0, export="log", who=None, addr=9):
        self.p = subprocess.Popen([os.path.join(BUILD, "test", "access", "ticket_probe"), memif(0, "client", t.sock(port)),
                                   f"10.0.{port}.{addr}/24", f"10.0.{port}.1", export, *([who] if who else [])],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        PROCS.append(self.p)

    def tell(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def say(self, line):
        self.tell(line)
        return self.answer()

    def answer(self):
        got = self.p.stdout.readline()
        assert got, "it has ended"
        return got.strip()

    def ticket(self, rights=ALL):
        got = self.say(f"open {rights:x}")
        assert got.startswith("ticket "), got
        return got.split()[1]

    def stag(self, ticket):
        got = self.say(f"bring {ticket}")
        assert got.startswith("granted "), got
        return got.split()[1]

    def quit(self):
        self.p.communicate("quit\n", timeout=30)
        assert self.p.returncode == 0


def tickets(tel):
    return tel.ask("/weft/target/tickets")


def test_once():
    """A ticket is valid once, even while its grant lasts, and guessing finds no other one."""
    t, tel = start("once")
    a = Holder(t)
    tk = a.ticket()
    assert tickets(tel)["now"] == 1
    got = a.say(f"bring {tk}").split()
    assert got[0] == "granted" and int(got[2]) == 1 << 20 and int(got[3], 16) == ALL, got
    assert a.say(f"write {got[1]}") == "ok" and a.say(f"read {got[1]}") == "ok"
    now = tel.ask("/weft/target/export,log")
    assert (now["format"], now["writer"], now["grants_now"]) == ("log", 1, 1) and now["writer_is"].startswith("10.0.0.9:"), now
    b = Holder(t, port=1)
    assert b.say(f"bring {tk}") == f"rejected {STALE}"
    assert a.say(f"bring {tk}") == f"rejected {STALE}"
    assert b.say(f"bring {'0' * 32}") == f"rejected {STALE}"
    assert b.say(f"bring {tk[:30]}{int(tk[30:], 16) ^ 1:02x}") == f"rejected {STALE}"
    # An incomplete request is rejected. Any other private data begin an RPC connection.
    assert b.say("raw 574c4f47") == "rejected 22"
    assert b.say("raw 574c4f47" + "02010000" + "00" * 48) == "rejected 22"
    assert b.say("raw " + "574c4f47" + "01010000" + "00" * 47) == "rejected 22"
    assert b.say("raw 574c4f48" + "01010000" + "00" * 48) == "connected"
    now = tickets(tel)
    assert (now["given"], now["used"], now["unknown"], now["malformed"], now["now"]) == (1, 1, 4, 3, 0), now
    assert tel.ask("/weft/target/grants")["grants"] == 1
    assert t.term() == 0


def test_elsewhere_and_late():
    """A ticket is valid from the requesting address, for a limited time, and while the requesting connection exists."""
    t, tel = start("late", ports=2)
    a, b = Holder(t), Holder(t, port=1)
    tk = a.ticket()
    assert b.say(f"bring {tk}") == f"rejected {STALE}"
    assert tickets(tel)["elsewhere"] == 1
    a.stag(tk)  # the rejected attempt did not use it up
    assert a.say("leave") == "ok"
    wait_for(lambda: tel.ask("/weft/target/export,log")["writer"] == 0)
    tk = a.ticket()
    wait_for(lambda: tickets(tel)["now"] == 0)
    assert tickets(tel)["expired"] == 1
    assert a.say(f"bring {tk}") == f"rejected {STALE}"
    tk = a.ticket()
    assert a.say("hang") == "ok"
    wait_for(lambda: tickets(tel)["left"] == 1)
    assert a.say(f"bring {tk}") == f"rejected {STALE}"
    wait_for(lambda: tel.ask("/weft/target/grants")["grants"] == 0)
    # After the log connection is established, the requesting connection may end.
    wait_for(lambda: a.say(f"open {ALL:x}").startswith("ticket"))
    stag = a.stag(a.ticket())
    assert a.say("hang") == "ok"
    assert a.say(f"write {stag}") == "ok"
    assert t.term() == 0


def test_rights():
    """A grant has the rights that were requested, within the rights of the export. Each format has its own OPEN."""
    t, tel = start("rights", exports={"ro": {"format": "log", "path": path("ro.medium"), "size": "1M", "rights": "read"}}, ports=3)
    a = Holder(t)
    stag = a.stag(a.ticket(READ))
    assert a.say(f"read {stag}") == "ok"
    assert a.say(f"write {stag}") != "ok"
    assert tel.ask("/weft/target/export,log")["writer"] == 0
    r = Holder(t, port=1, export="ro")
    assert r.say(f"open {ALL:x}").startswith(f"refused {PERM} only read is granted"), "rights"
    assert r.say(f"open {READ:x}").startswith("ticket ")
    for line, want in ((f"object {READ:x}", "it holds a log (format = log), not an object"),):
        assert r.say(line) == f"refused {INVAL} {want}"
    o = Holder(t, port=2, export="demo")
    assert o.say(f"open {READ:x}") == f"refused {INVAL} it holds an object (format = object), not a log"
    assert o.say(f"object {READ:x}") == "granted"
    o.quit()
    src = make_file("rights.src", 1000, 1)
    rc, _, err = t.cp(src, "weft://10.0.2.1/log", port=2)
    assert rc == 1 and "it holds a log (format = log), not an object" in err, err
    rc, _, err = t.cp("weft://10.0.2.1/log", path("rights.out"), port=2)
    assert rc == 1 and "it holds a log (format = log), not an object" in err, err
    rc, out, err = t.cp("--list", "weft://10.0.2.1", port=2)
    assert rc == 0 and re.search(r"^log\b.*remote log, direct I/O", out, re.M), (out, err)
    assert t.term() == 0


def test_one_writer():
    """While a client writes, another writer is refused and told when to retry. An idle writer gives way, and its late
    writes are refused."""
    t, tel = start("one", extra="writer_idle_ms = 1000\nrevoke_ms = 300\n")
    a, b = Holder(t), Holder(t, port=1)
    stag = a.stag(a.ticket())
    got = b.say(f"open {ALL:x}")
    assert got.startswith(f"refused {BUSY} another writer holds it"), got
    time.sleep(1.2)
    assert b.say(f"open {ALL:x}").startswith(f"refused {BUSY} another writer holds it and has to give way")
    end = time.monotonic() + 10
    while not (got := b.say(f"open {ALL:x}")).startswith("ticket"):
        assert time.monotonic() < end, got
        time.sleep(0.05)
    # The place is reserved for the second client, and not given to the former writer.
    assert a.say(f"open {ALL:x}").startswith(f"refused {BUSY} it is kept for a client")
    second = b.stag(got.split()[1])
    assert second != stag
    assert a.say(f"write {stag}") == "gone"
    assert b.say(f"write {second}") == "ok"
    now = tel.ask("/weft/target/export,log")
    assert now["writer_yields"] == 1 and now["revocations_invalidated"] == 1 and now["writer_is"].startswith("10.0.1.9:"), now
    assert t.term() == 0


class Slow(Traced):
    """A target with a medium on which each sync is slow."""

    def __init__(self, name):
        super().__init__(name, "file", env={"WEFT_IO_DELAY_US": str(int(SLOW_S * 1e6))})
        with open(self.conf) as f:
            text = f.read()
        with open(self.conf, "w") as f:
            f.write(text.replace("[export demo]\n", "[export log]\nformat = log\n"))


def test_fence():
    """The memory is granted again only when all operations of the former grant are complete, including a flush of the
    medium. The end of the connection is not enough."""
    t = Slow("fence").start()
    a = Holder(t)
    began = time.clock_gettime(time.CLOCK_MONOTONIC)
    assert a.say(f"flush {a.stag(a.ticket())}") == "ok"
    wait_for(lambda: "its grants end" in t.logged())
    assert time.clock_gettime(time.CLOCK_MONOTONIC) < began + SLOW_S
    got = a.say(f"open {ALL:x}")
    assert got.startswith(f"refused {BUSY} "), got
    end = time.monotonic() + 20
    while not (got := a.say(f"open {ALL:x}")).startswith("ticket "):
        assert time.monotonic() < end, got
        time.sleep(0.02)
    granted = time.clock_gettime(time.CLOCK_MONOTONIC)
    syncs = [c for c in t.calls() if c[0] == "sync" and c[1] > began]
    assert syncs and syncs[-1][2] - syncs[-1][1] >= SLOW_S and granted > syncs[-1][2], (syncs, granted)
    a.stag(got.split()[1])
    assert t.term() == 0


def test_taken_back():
    """A grant and its connection end at SIGHUP with fewer rights, and when the file and so the export is removed."""
    t, tel = start("back", extra="revoke_ms = 200\n")
    a = Holder(t)
    stag = a.stag(a.ticket())
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write(text.replace("[export log]\n", "[export log]\nrights = read\n"))
    t.proc.send_signal(signal.SIGHUP)
    wait_for(lambda: tel.ask("/weft/target/export,log")["revocations_invalidated"] == 1)
    wait_for(lambda: tel.ask("/weft/target/export,log")["writer"] == 0)
    assert a.say(f"read {stag}") == "gone"
    stag = a.stag(a.ticket(READ))
    assert a.say(f"read {stag}") == "ok"
    tk = a.ticket(READ)
    # The client is stopped meanwhile, and posts its Read before it sees that the connection has ended.
    a.p.send_signal(signal.SIGSTOP)
    os.unlink(path("back.medium"))
    wait_for(lambda: tel.ask("/weft/target/export,log")["grants_now"] == 0)
    a.tell(f"read {stag}")
    a.p.send_signal(signal.SIGCONT)
    assert a.answer() == "gone"
    assert a.say(f"bring {tk}") == "rejected 6"
    assert a.say(f"open {READ:x}").startswith("refused 6 ")
    assert tel.ask("/weft/target/grants")["grants"] == 0
    assert t.term() == 0


def test_names():
    """With required authentication a ticket is given only to a named client, and is valid only with that client's key.
    Ticket and grant end when the name is removed."""
    t, tel = start("names", ports=3, extra=f"host_auth = required\n[client alice]\nkey_file = {key('alice')}\n"
                   f"[client bob]\nkey_file = {key('bob')}\n")
    a, s = Holder(t, who=f"alice:{path('alice')}"), Holder(t, port=1)
    assert s.say(f"open {ALL:x}").startswith("refused -1")
    tk = a.ticket()
    # An attacker that reads the wire and uses the client's address has no proof.
    assert a.say(f"steal {tk}") == f"rejected {STALE}"
    assert tickets(tel)["unproved"] == 1
    assert s.say(f"bring {tk}") == f"rejected {STALE}"
    stag = a.stag(tk)
    assert a.say(f"write {stag}") == "ok"
    # The log connection does not have to authenticate a second time.
    time.sleep(0.5)
    b = Holder(t, port=2, who=f"bob:{path('bob')}")
    assert b.say(f"open {ALL:x}").startswith(f"refused {BUSY}")
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write(text.replace(f"[client alice]\nkey_file = {path('alice')}\n", ""))
    t.proc.send_signal(signal.SIGHUP)
    wait_for(lambda: "client alice is no longer configured" in t.logged())
    # The log line comes from the main thread. The connection is ended by its worker one poll later.
    wait_for(lambda: a.say(f"write {stag}") == "gone")
    wait_for(lambda: b.say(f"open {ALL:x}").startswith("ticket"))
    b.stag(b.ticket())
    assert t.term() == 0


def test_floods():
    """Thousands of wrong tickets, and as many right ones as one client may have. Other clients are served, and no
    ticket remains."""
    t, tel = start("flood", extra="max_grants_per_client = 32\nmax_opens_per_s = 0\n", ports=2)
    a, b = Holder(t), Holder(t, port=1)
    assert a.say("flood 2000") == "rejected 2000"
    assert tickets(tel)["unknown"] == 2000
    lines = t.logged().count("its ticket")
    assert lines < 1000, lines
    got = [a.say(f"open {READ:x}") for _ in range(64)]
    assert sum(x.startswith("ticket") for x in got) == 32, got
    assert "as many grants as it may" in got[-1], got[-1]
    stag = b.stag(b.ticket())
    assert b.say(f"write {stag}") == "ok"
    wait_for(lambda: tickets(tel)["now"] == 0)
    assert tel.ask("/weft/target/grants")["grants"] == 1
    a.stag(a.ticket(READ))
    assert t.term() == 0


def refused_config(name, text, *words, code=1):
    with open(path(name), "w") as f:
        f.write("[port p0]\ndev = net_null0\naddress = 10.0.0.1/24\n" + text)
    rc, out, err = run([app("weft-target"), "-c", path(name), "--check-config", "--strict"])
    lines = [x for x in err.splitlines() if x.startswith("weft-target: ") and "DPDK's net_null" not in x]
    assert rc == code and len(lines) == 1, (rc, out, err)
    for w in words:
        assert w in lines[0], lines


def test_files():
    """A log is served from a blank file or from a file with a log. Any other file is refused and not changed, also a
    truncated one."""
    with open(path("other"), "wb") as f:
        f.write(b"somebody's data" + bytes(1 << 20))
    with open(path("behind"), "wb") as f:
        f.write(bytes(100000) + b"somebody's data" + bytes(1 << 20))
    with open(path("small"), "wb") as f:
        f.write(bytes(12000))
    log = "[export l]\nformat = log\npath = {}\n"
    refused_config("c1", log.format("other"), "wrong magic", "not touched")
    refused_config("c2", log.format("behind"), "holds something that is not a log", "not touched")
    refused_config("c3", log.format("small"), "too small for a log")
    refused_config("c4", log.format("none"), "does not exist; add size")
    refused_config("c5", log.format("none") + "size = 1M\npersist = volatile\n", "the writer of a log needs Flush")
    refused_config("c6", log.format("none") + "size = 1M\nrights = read,write\n", "add read and flush")
    t = Target("obj", {"demo": {"path": path("obj.weft"), "size": "1M", "persist": "file"}}).start()
    assert t.term() == 0
    refused_config("c7", log.format("obj.weft"), "holds an object, not a log")
    with open(path("c8"), "w") as f:
        f.write("[port p0]\ndev = net_null0\naddress = 10.0.0.1/24\n" + log.format("new") + "size = 1M\n")
    rc, out, err = run([app("weft-target"), "-c", path("c8"), "--check-config"])
    assert rc == 0 and not os.path.exists(path("new")), (out, err)


if __name__ == "__main__":
    main([test_once, test_elsewhere_and_late, test_rights, test_one_writer, test_fence, test_taken_back, test_names, test_floods,
          test_files])
