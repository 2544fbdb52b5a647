#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The plug-in of nbdkit: a volume as an NBD server, copied by nbdcopy, through deaths of the target."""
import os
import shutil
import socket
import struct
import subprocess
import time

from test_volume import volume
from weft_e2e import BUILD, PROCS, Skip, Target, app, main, make_file, memif, path, sha

PLUGIN = os.path.join(BUILD, "apps", "nbdkit", "nbdkit-weft-plugin.so")
MIB = 1 << 20


def client_role(t):
    """Make the target's end of the port the client's: a client of net_memif finds no new server."""
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write(text.replace("role=server", "role=client"))
    t.ports = 0  # the socket is not the target's, and stays
    return t


def mortal(name, exports, **kw):
    """A target that is to die."""
    return client_role(Target(name, exports, **kw))


class Nbd:
    """An nbdkit with the plug-in, on a Unix socket. A target that is mortal is started by it."""

    def __init__(self, t, *params, name="nbd", ok=True):
        for tool in ("nbdkit", "nbdcopy", "nbdinfo"):
            if shutil.which(tool) is None:
                raise Skip(f"{tool} is not installed (packages nbdkit, libnbd-bin)")
        if not os.path.exists(PLUGIN):
            raise Skip("the plug-in was not built (package nbdkit-plugin-dev)")
        self.sock, self.log = path(f"{name}.sock"), path(f"{name}.log")
        self.uri = f"nbd+unix:///?socket={self.sock}"
        if os.path.exists(self.sock):
            os.unlink(self.sock)
        with open(self.log, "w") as log:
            self.proc = subprocess.Popen(
                ["nbdkit", "-f", "-U", self.sock, PLUGIN, "export=weft://10.0.0.1/disk",
                 f"dev={memif(0, 'client' if t.ports else 'server', t.sock(0))}", "address=10.0.0.2/24", *params],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        PROCS.append(self.proc)
        if t.ports == 0:
            self.until(t.sock(0))
            t.start()
        if ok:
            self.until(self.sock)

    def until(self, file):
        end = time.monotonic() + 20
        while not os.path.exists(file):
            assert self.proc.poll() is None and time.monotonic() < end, self.logged()
            time.sleep(0.01)

    def logged(self):
        with open(self.log) as f:
            return f.read()

    def term(self):
        self.proc.terminate()
        return self.proc.wait(timeout=30)

    def copy_start(self, src, dst, *args):
        p = subprocess.Popen(["nbdcopy", *args, src, dst], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             stdin=subprocess.DEVNULL)
        PROCS.append(p)
        return p

    def copy(self, src, dst, *args):
        p = self.copy_start(src, dst, *args)
        out = p.communicate(timeout=120)[0]
        assert p.returncode == 0, (out, self.logged())

    def size(self):
        return int(subprocess.run(["nbdinfo", "--size", self.uri], capture_output=True, text=True, check=True, timeout=30).stdout)


class Client:
    """A connection to an nbdkit (the NBD protocol's transmission phase), for requests that nbdcopy does not make."""
    READ, WRITE, FLUSH, FUA = 0, 1, 3, 1

    def __init__(self, n):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(n.sock)
        assert self.read(18)[:16] == b"NBDMAGICIHAVEOPT"
        self.sock.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, 0))  # fixed newstyle without zeroes; the export ""
        self.read(10)

    def read(self, n):
        got = b""
        while len(got) < n:
            part = self.sock.recv(n - len(got))
            assert part, "nbdkit ended the connection"
            got += part
        return got

    def do(self, what, at, data_or_bytes, flags=0):
        data = data_or_bytes if what == self.WRITE else b""
        size = len(data) if what == self.WRITE else data_or_bytes
        self.sock.sendall(struct.pack(">IHHQQI", 0x25609513, flags, what, 1, at, size) + data)
        assert struct.unpack(">IIQ", self.read(16)) == (0x67446698, 0, 1)
        return self.read(size) if what == self.READ else None


def whole(n, name, data, seed):
    """A file as long as the volume, with `data` octets at its beginning and a hole behind."""
    f = make_file(name, data, seed)
    os.truncate(f, n.size())
    return f


def test_copy_in_and_out():
    t = Target("n1", {"disk": volume("n1.disk", "64M")}, extra="credits = 64").start()
    for params in ([], ["verify=yes"]):
        n = Nbd(t, *params)
        f = whole(n, "n1.in", 20 * MIB + 77, 1 + len(params))
        n.copy(f, n.uri, "--flush")
        n.copy(n.uri, path("n1.out"))
        assert sha(f) == sha(path("n1.out"))
        assert n.term() == 0, n.logged()
    # Holes of the file are none on the medium.
    assert os.stat(path("n1.disk")).st_blocks * 512 < 30 * MIB
    assert t.term() == 0


def test_target_dies_while_it_copies():
    t = mortal("n2", {"disk": volume("n2.disk", "128M")}, extra="credits = 64", keepalive_ms=200)
    n = Nbd(t)
    f = whole(n, "n2.in", 100 * MIB, 3)
    for way in ("in", "out"):
        p = n.copy_start(*((f, n.uri, "--flush") if way == "in" else (n.uri, path("n2.out"))))
        deaths = 0
        while p.poll() is None and deaths < 3:
            time.sleep(0.1)
            t.kill()
            t.start()
            deaths += 1
        assert p.wait(timeout=120) == 0, (p.stdout.read(), n.logged())
        assert deaths > 0
    assert sha(f) == sha(path("n2.out"))
    assert n.term() == 0
    assert t.term() == 0


def test_power_fails_before_a_flush():
    """What was answered and not flushed is lost with the target's power. The plug-in does it again."""
    t = mortal("n3", {"disk": volume("n3.disk", "64M")}, extra="credits = 64", keepalive_ms=200)
    n = Nbd(t)
    f = whole(n, "n3.in", 8 * MIB, 4)
    n.copy(f, n.uri, "--flush")
    shutil.copyfile(path("n3.disk"), path("n3.before"))
    g = whole(n, "n3.new", 12 * MIB, 5)
    n.copy(g, n.uri)
    # The medium goes back to its last flush.
    t.kill()
    shutil.copyfile(path("n3.before"), path("n3.disk"))
    t.start()
    one = path("n3.one")
    with open(one, "wb") as o, open(g, "rb") as i:
        o.write(i.read(4096))
    n.copy(one, n.uri, "--flush")
    n.copy(n.uri, path("n3.out"))
    assert sha(g) == sha(path("n3.out"))
    # And it is on the medium now.
    t.kill()
    t.start()
    n.copy(n.uri, path("n3.out"))
    assert sha(g) == sha(path("n3.out"))
    assert n.term() == 0
    assert t.term() == 0


def test_durable_behind_a_copy():
    """A write with FUA replaces what was written before it and not flushed. The plug-in does not bring that back."""
    t = mortal("n5", {"disk": volume("n5.disk", "16M")}, extra="credits = 64", keepalive_ms=200)
    n = Nbd(t)
    c = Client(n)
    c.do(c.WRITE, 0, b"a" * 4096, c.FUA)
    c.do(c.WRITE, 4096, b"b" * 65536)
    c.do(c.WRITE, 8192, b"c" * 4096, c.FUA)
    t.kill()
    t.start()
    assert c.do(c.READ, 0, 69632) == b"a" * 4096 + b"b" * 4096 + b"c" * 4096 + b"b" * 57344
    c.sock.close()
    assert n.term() == 0
    assert t.term() == 0


def failed(c, what, at, n, flags=0):
    """The error of a request that fails (the NBD protocol's numbers)."""
    data = b"x" * n if what == c.WRITE else b""
    c.sock.sendall(struct.pack(">IHHQQI", 0x25609513, flags, what, 1, at, n) + data)
    magic, error, _ = struct.unpack(">IIQ", c.read(16))
    assert magic == 0x67446698 and error != 0, error
    return error


def test_target_is_away_for_long():
    """Operations fail when the time is over, and succeed when the target is back. The next flush tells of what was lost."""
    t = mortal("n6", {"disk": volume("n6.disk", "16M")}, extra="credits = 64", keepalive_ms=200)
    n = Nbd(t, "timeout=2")
    c = Client(n)
    c.do(c.WRITE, 0, b"a" * 4096)
    c.do(c.FLUSH, 0, 0)
    for lost in (False, True):
        if lost:
            c.do(c.WRITE, 4096, b"b" * 4096)
        t.kill()
        began = time.monotonic()
        assert failed(c, c.READ, 0, 4096) == 108  # ESHUTDOWN
        assert 1.5 < time.monotonic() - began < 6
        t.start()
        assert c.do(c.READ, 0, 4096) == b"a" * 4096
        if lost:
            assert failed(c, c.FLUSH, 0, 0) == 5  # EIO
        c.do(c.FLUSH, 0, 0)
    # Another volume of the name is not taken for this one.
    t.kill()
    failed(c, c.READ, 0, 4096)
    os.unlink(path("n6.disk"))
    t.start()
    failed(c, c.READ, 0, 4096)
    assert n.proc.poll() is None
    c.sock.close()
    assert n.term() == 0
    assert t.term() == 0


def test_grant_ends():
    """The export is taken out of service and put back: a disk on it sees a pause."""
    t = mortal("n7", {"disk": volume("n7.disk", "16M")}, extra=f"credits = 64\ncontrol = {path('n7.ctl')}\n", keepalive_ms=200)
    n = Nbd(t)
    c = Client(n)
    c.do(c.WRITE, 0, b"a" * 8192)
    for word in ("offline", "online"):
        p = subprocess.run([app("weft-ctl"), "--socket", path("n7.ctl"), word, "disk"], capture_output=True, text=True, timeout=30)
        assert p.returncode == 0, p
    c.do(c.WRITE, 4096, b"b" * 4096)
    assert c.do(c.READ, 0, 8192) == b"a" * 4096 + b"b" * 4096
    c.do(c.FLUSH, 0, 0)
    c.sock.close()
    assert n.term() == 0
    assert t.term() == 0


def test_rights_and_refusals():
    t = Target("n4", {"disk": volume("n4.disk", "16M", rights="read")}).start()
    n = Nbd(t, "readonly=yes")
    p = n.copy_start(make_file("n4.in", 4096, 6), n.uri)
    assert p.wait(timeout=30) != 0
    n.copy(n.uri, path("n4.out"))
    assert n.term() == 0
    n = Nbd(t, ok=False)
    assert n.proc.wait(timeout=30) != 0 and "only read is granted" in n.logged(), n.logged()
    assert t.term() == 0
    for params, words in ((["export=weft://10.0.0.1"], "give weft://"), (["timeout=0"], "give seconds"),
                          (["config=/nowhere.ini"], "give config=FILE.ini, or dev="), (["what=1"], "unknown parameter")):
        n = Nbd(t, *params, ok=False)
        assert n.proc.wait(timeout=30) != 0 and words in n.logged(), (params, n.logged())


if __name__ == "__main__":
    main([test_copy_in_and_out, test_target_dies_while_it_copies, test_power_fails_before_a_flush, test_durable_behind_a_copy,
          test_target_is_away_for_long, test_grant_ends, test_rights_and_refusals])
