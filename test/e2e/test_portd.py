#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-portd as a program: its options, its end, its telemetry, and processes that mean no good.

Programs over it are tested in test/interop/verbs. test_portd.py BUILD [CASE...]
"""
import errno
import json
import os
import random
import signal
import socket
import struct
import subprocess
import time
import traceback

from test_visible import Telemetry
from weft_e2e import PROCS, app, main, memif, path, run

MAGIC, VERSION, ANSWER = 0x64707477, 1, 244
NAME = 108  # octets of a net_memif's name
HELLO, CLAIM, RELEASE, MORE = 1, 2, 3, 4
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/visibility.md")


class Daemon:
    """A weft-portd that is ready."""

    def __init__(self, name, *options, tcp=""):
        self.socket, self.wire, conf = path(f"{name}.ctl"), path(f"{name}.wire"), path(f"{name}.ini")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(f"[weft]\ntelemetry = yes\n[port p0]\ndev = {memif(0, 'server', self.wire)}\naddress = 10.0.0.1/24\n"
                    f"address6 = fd00::1/64\n{tcp}")
        self.p = subprocess.Popen([app("weft-portd"), "--config", conf, "--socket", self.socket, "--json", *options],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        PROCS.append(self.p)
        line, self.warned = "", False
        while "ready: " not in line:
            line = self.p.stderr.readline()
            assert line, "weft-portd ended"
            self.warned |= "--max-processes" in line

    def end(self):
        """Let it end; returns its counters."""
        self.p.send_signal(signal.SIGTERM)
        out, err = self.p.communicate(timeout=20)
        assert self.p.returncode == 0, (self.p.returncode, err)
        assert not os.path.exists(self.socket)
        return json.loads(out)

    def fds(self):
        """Open descriptors, when those of processes that have left are closed."""
        return len(os.listdir(f"/proc/{self.p.pid}/fd"))


class Memif:
    """A process' end of its net_memif as far as its first message, by hand."""

    def __init__(self, p):
        at = ANSWER - NAME - 24
        self.id = struct.unpack_from("=I", p.answer, 24)[0]
        name = p.answer[at:at + NAME].rstrip(b"\0")
        self.secret = p.answer[at + NAME:at + NAME + 24]
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.connect(name)  # blocks: the driver's backlog is 1
        self.s.settimeout(20)
        assert struct.unpack_from("=H", self.s.recv(256))[0] == 2, "no greeting"

    def init(self):
        """Ask for the device. The answer is not read."""
        self.s.send(struct.pack("=HHIB24s32s", 3, 0x200, self.id, 0, self.secret, b"test").ljust(128, b"\0"))

    def joined(self):
        """Whether the device took us."""
        return struct.unpack_from("=H", self.s.recv(256))[0] == 1

    def open(self, seconds):
        """Whether the connection stays open for a while."""
        self.s.settimeout(seconds)
        try:
            return self.s.recv(256) != b""
        except socket.timeout:
            return True


class Process:
    """A process that speaks by hand."""

    def __init__(self, d, hello=True):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.settimeout(20)
        self.s.connect(d.socket)
        self.seq = 0
        self.hello = self.ask(HELLO) if hello else None

    def send(self, kind, port=0, **other):
        """Send a request."""
        self.seq += 1
        head = {"magic": MAGIC, "version": VERSION, "kind": kind, "bytes": 24, **other}
        self.s.send(struct.pack("=IHHIIH6x", head["magic"], head["version"], head["kind"], head["bytes"], self.seq, port))

    def ask(self, kind, port=0):
        """Send a request; returns its status and the first port."""
        self.send(kind, port)
        a = self.answer = self.s.recv(4096)
        assert len(a) == ANSWER, "the conversation was ended"
        return struct.unpack_from("=iH", a, 16)

    def ended(self):
        """Whether the daemon has closed the socket."""
        try:
            return self.s.recv(4096) == b""
        except ConnectionResetError:
            return True


class Child:
    """A process of its own that says HELLO, and stays until it is killed."""

    def __init__(self, d):
        r, w = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                p = Process(d)
                os.write(w, struct.pack("=i", p.hello[0]))
                while True:
                    signal.pause()
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.close(w)
        said = os.read(r, 4)
        os.close(r)
        assert len(said) == 4, "no answer"
        self.status = struct.unpack("=i", said)[0]

    def end(self):
        """Kill it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def until(fn, seconds=20):
    """Wait until fn() is true."""
    end = time.monotonic() + seconds
    while not fn():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)


def test_options():
    """Wrong command lines and starts that fail: one line each."""
    dev = ["--dev", memif(0, "server", path("o.wire")), "--address", "10.0.0.1/24"]
    for args, rc_is, word in (([], 2, "--config"), (["--dev", "net_null0"], 2, "--address"), ([*dev, "more"], 2, "'more'"),
                              ([*dev, "--max-processes", "65"], 2, "--max-processes"), ([*dev, "--max-blocks", "0"], 2, "--max-blocks"),
                              ([*dev, "--max-blocks", "65"], 2, "--max-blocks"),
                              ([*dev, "--max-claims", "x"], 2, "--max-claims"), ([*dev, "--mtu", "20000"], 1, "up to 9600"),
                              ([*dev, "--group", "no-such-group"], 1, "no group"), ([*dev, "--socket", "/" + "x" * 200], 1, "octets"),
                              ([*dev, "--socket", "/nonexistent/a/b"], 1, "No such file")):
        rc, out, err = run([app("weft-portd"), *args])
        assert rc == rc_is and out == "", (args, rc, out, err)
        assert err.startswith("weft-portd: ") and word in err and err.count("\n") == 1, (args, err)
    two = path("two.ini")
    with open(two, "w", encoding="utf-8") as f:
        f.write("".join(f"[port p{i}]\ndev = net_null{i}\naddress = 10.0.{i}.1/24\n" for i in range(2)))
    rc, _, err = run([app("weft-portd"), "--config", two])
    assert rc == 1 and "owns one" in err, err
    plain = path("plain")
    with open(plain, "w", encoding="utf-8") as f:
        f.write("precious")
    rc, _, err = run([app("weft-portd"), *dev, "--socket", plain])
    assert rc == 1 and "File exists" in err and os.path.getsize(plain) == 8, err
    rc, out, err = run([app("weft-portd"), "--help"])
    assert rc == 0 and err == "" and max(map(len, out.splitlines())) <= 80, out
    for o in ("--config", "--dev", "--address", "--mtu", "--socket", "--group", "--max-processes", "--max-claims", "--max-blocks", "--json",
              "-q,", "-h,", "--version"):
        assert f"  {o}" in out, f"--help has no {o}"
    assert "can do all that this" in out, "--help does not say what --group gives"
    assert run([app("weft-portd"), "--version"])[1].startswith("weft-portd ")


def test_one_daemon():
    """A socket has one daemon; that of a killed one is taken over."""
    d = Daemon("one")
    rc, _, err = run([app("weft-portd"), "--dev", memif(0, "server", path("one2.wire")), "--address", "10.0.0.1/24", "--socket", d.socket])
    assert rc == 1 and "another weft-portd has this socket" in err and err.count("\n") == 1, err
    d.p.kill()
    d.p.wait()
    assert os.path.exists(d.socket)
    d = Daemon("one")
    assert Process(d).hello[0] == 0
    d.end()


def test_answers():
    """The daemon itself resets connections to ports that no process has."""
    d = Daemon("ans")
    for host in "10.0.0.1", "fd00::1":
        at = time.monotonic()
        rc, _, err = run([app("weft-ping"), "-c", "-C", "1", "-a", host, "-p", "999", "--dev", memif(1, "client", d.wire),
                          "--address", "10.0.0.2/24,fd00::2/64"])
        assert rc == 1 and "no server listens there" in err and time.monotonic() - at < 8, (rc, err, time.monotonic() - at)
    d.end()


def test_telemetry():
    """Each command is described, refuses surplus parameters, and tells of processes."""
    d = Daemon("tel", "--max-processes", "2")
    p = Process(d)
    assert p.ask(CLAIM, 7174)[0] == 0
    tel = Telemetry(d.p.pid)
    with open(DOCS, encoding="utf-8") as f:
        docs = f.read()
    ours = [c for c in tel.ask("/") if c.startswith("/weft/portd")]
    assert len(ours) == 3, ours
    for c in ours:
        assert f"`{c}" in docs, c
        assert list(tel.ask(c + ",9,9")) == ["error"], c
    stats = tel.ask("/weft/portd/stats")
    assert (stats["processes"], stats["claims"], stats["max_processes"]) == (1, 1, 2), stats
    assert tel.ask("/weft/portd/processes") == {"0": f"{os.getpid()} {open('/proc/self/comm', encoding='ascii').read().strip()}"}
    one = tel.ask("/weft/portd/process,0")
    assert one["pid"] == os.getpid() and one["in_full"] == 0 and one["dropped_port"] == 0, one
    assert list(tel.ask("/weft/portd/process,1")) == ["error"]
    for key in [*stats, *one]:
        assert key.split("_")[0] in docs, key
    p.s.close()
    assert d.end()["left"] == 1


def test_dead_time():
    """Ports of a process that has ended are dead as long as the configuration says."""
    for tcp, dead_us in ("", 1000000), ("[tcp]\ntime_wait_us = 60000000\n", 60000000):
        d = Daemon("dead", tcp=tcp)
        assert Telemetry(d.p.pid).ask("/weft/portd/stats")["dead_us"] == dead_us
        d.end()


def test_limit():
    """As many processes come as the daemon says. It says no more than DPDK has ports for."""
    for asked in [], ["--max-processes", "64"]:
        d = Daemon("limit", *asked)
        most = Telemetry(d.p.pid).ask("/weft/portd/stats")["max_processes"]
        assert most >= 16 and d.warned == bool(asked and most < 64), (most, d.warned)
        children = [Child(d) for _ in range(most + 1)]
        try:
            assert [c.status for c in children] == [0] * most + [-errno.EBUSY], [c.status for c in children]
        finally:
            for c in children:
                c.end()
        got = d.end()
        assert (got["came"], got["failed"], got["refused_full"]) == (most, 0, 1), got


def test_duplicate():
    """Of two stations that look at once whether an address is free, not both keep it (RFC 4862 section 5.4.3): one that has heard the
    other's question gives it up, before it has asked itself or behind that. A daemon whose address is given up ends, and says why."""
    d = Daemon("dup")
    other = subprocess.Popen([app("weft-portd"), "-q", "--dev", memif(1, "client", d.wire), "--address", "10.0.0.2/24,fd00::1/64",
                              "--socket", path("dup2.ctl")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    PROCS.append(other)
    both = (d.p, other)
    until(lambda: any(p.poll() is not None for p in both))
    time.sleep(0.5)
    for p in both:
        p.send_signal(signal.SIGTERM)
    got = [(p.communicate(timeout=20)[1], p.returncode) for p in both]
    taken = [rc == 1 and "another station has fd00::1" in err for err, rc in got]
    assert any(taken) and all(t or rc == 0 for t, (_, rc) in zip(taken, got)), got
    assert not os.path.exists(path("dup2.ctl")) and not os.path.exists(d.socket)


def test_coming_and_going():
    """Processes that come and go, most of them killed, leave nothing."""
    d = Daemon("cg")
    stays = Process(d)
    assert stays.ask(CLAIM, 7174)[0] == 0
    before = None
    for i in range(40):
        pid = os.fork()
        if pid == 0:
            try:
                Process(d).ask(CLAIM, 20000 + i)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        if i == 2:
            time.sleep(0.5)
            before = d.fds()
    assert stays.ask(CLAIM, 20039)[0] == 0
    until(lambda: d.fds() <= before)
    got = d.end()
    assert got["came"] == 41 and got["left"] == 41 and got["failed"] == 0, got


def test_strangers():
    """No other user reaches the net_memifs' socket; a killed daemon's directory is taken over, and none is left."""
    d = Daemon("str")
    p = Process(d)
    m = Memif(p)
    m.init()
    assert m.joined()
    at = d.socket + ".d"
    assert os.stat(at).st_mode & 0o7777 == 0o700 and os.listdir(at) == ["m"], os.listdir(at)
    with open("/proc/net/unix", encoding="ascii") as f:
        assert "weft-portd-" not in f.read()
    if os.geteuid() == 0:
        os.chmod(os.path.dirname(d.socket), 0o755)
        pid = os.fork()
        if pid == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                os._exit(s.connect_ex(at + "/m"))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 13
    d.p.kill()
    d.p.wait()
    assert os.path.exists(at + "/m")
    d = Daemon("str", "--group", "nogroup")
    st, sock = os.stat(at), os.stat(at + "/m")
    assert (st.st_mode & 0o7777, sock.st_mode & 0o7777) == (0o770, 0o660) and st.st_gid == sock.st_gid == 65534, (st, sock)
    d.end()
    assert not os.path.exists(at)
    os.symlink("/var/tmp", at)
    rc, _, err = run([app("weft-portd"), "--dev", memif(0, "server", path("str2.wire")), "--address", "10.0.0.1/24", "--socket", d.socket])
    assert rc == 1 and "File exists" in err, err
    os.unlink(at)


def test_one_of_two():
    """Two parts of one process: the end of one leaves the other's net_memif alone."""
    d = Daemon("two")
    parts = [Process(d) for _ in range(2)]
    links = [Memif(p) for p in parts]
    for m in links:
        m.init()
        assert m.joined()
    parts[0].s.close()
    assert links[0].s.recv(256)[:2] in (b"", struct.pack("=H", 8)), "the link of a part that has ended"
    assert links[1].open(1)
    # One with the number of the part that has ended has another secret.
    again = Process(d)
    m = Memif(again)
    assert m.id == links[0].id and m.secret != links[0].secret
    m.init()
    assert m.joined()
    d.end()


def test_memif_at_the_end():
    """Processes that ask for their net_memif while it is removed, and while others come and go."""
    d = Daemon("late", "--max-processes", "12")
    stays = Process(d)
    link = Memif(stays)
    link.init()
    assert link.joined()
    pids = []
    for k in range(6):
        pid = os.fork()
        if pid == 0:
            rc = 1
            try:
                draw = random.Random(k)
                for _ in range(20):
                    p = Process(d)
                    while p.hello[0] == -28:  # all blocks of ports are dead, for a second
                        time.sleep(0.1)
                        p = Process(d)
                    assert p.hello[0] == 0, p.hello
                    m = Memif(p)
                    if draw.random() < 0.3:
                        m.init()
                    p.s.close()
                    if draw.random() < 0.7:
                        time.sleep(draw.uniform(0, 0.06))
                    try:
                        m.init()
                        m.s.recv(256)
                    except OSError:
                        pass
                    if draw.random() < 0.8:
                        m.s.close()
                rc = 0
            except (AssertionError, OSError):
                traceback.print_exc()
            finally:
                os._exit(rc)
        pids.append(pid)
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0
    assert link.open(0.5)
    got = d.end()
    assert got["came"] == 121 and got["left"] == 121 and got["failed"] == 0, got


def test_hostile():
    """Processes that break the protocol, in turn with one that does not."""
    d = Daemon("bad", "--max-processes", "4")
    good = Process(d)
    for k, wrong in enumerate(({"magic": 1}, {"version": 2}, {"kind": 9}, {"bytes": 25}, {"kind": HELLO})):
        p = Process(d)
        assert p.hello[0] == 0
        p.send(**{"kind": CLAIM, **wrong})
        assert p.ended(), wrong
        p.s.close()
        assert good.ask(CLAIM, 7000 + k)[0] == 0
    p = Process(d, hello=False)
    p.s.send(os.urandom(60000))
    assert p.ended()
    # More processes than it takes; a port of another one.
    rest = [Process(d) for _ in range(3)]
    assert Process(d).hello[0] == -16
    assert rest[0].ask(CLAIM, 7000)[0] == -98
    assert rest[0].ask(RELEASE, 7000)[0] == -2
    got = d.end()
    assert got["bad"] == 6 and got["refused_full"] == 1, got


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
