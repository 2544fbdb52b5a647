#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-target serves volumes to hosts by NVMe/TCP: a host of the tests' own on the kernel's TCP, both transports in discovery,
what is seen and ended by weft-ctl, limits, refusals."""
import os
import random
import signal
import socket
import struct
import sys
import time

sys.dont_write_bytecode = True
from lan import LanTarget, enter, sh  # noqa: E402
from test_offline import edit, until  # noqa: E402
from test_visible import Telemetry  # noqa: E402
from weft_e2e import APPS, main, path, run  # noqa: E402

NQN = "nqn.2026-01.org.example:disk"
HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
US = "10.0.0.250"
ICREQ, ICRESP, C2H_TERM, COMMAND, RESPONSE, H2C_DATA, C2H_DATA, R2T = 0, 1, 3, 4, 5, 6, 7, 9
CRC = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82f63b78 if i & 1 else 0)
    CRC.append(i)


def crc32c(data):
    c = 0xffffffff
    for b in data:
        c = c >> 8 ^ CRC[(c ^ b) & 0xff]
    return struct.pack("<I", c ^ 0xffffffff)


class Term(Exception):
    """A C2HTermReq, or the end of the connection: FES, FEI."""


class Queue:
    """A queue of a host."""

    def __init__(self, t, qid=0, cntlid=0xffff, subnqn=NQN, host=HOST, hdgst=False, ddgst=False):
        self.hdgst = self.ddgst = False
        self.s = self.connect(t)
        self.s.sendall(struct.pack("<BBBBIHBBI112x", ICREQ, 0, 128, 0, 128, 0, 0, hdgst | ddgst << 1, 0))
        kind, head, _ = self.get()
        assert kind == ICRESP and head[11] == hdgst | ddgst << 1, head
        self.max = struct.unpack_from("<I", head, 12)[0]
        self.hdgst, self.ddgst, self.cid = hdgst, ddgst, 0
        data = struct.pack("<16sH238x256s256s256x", b"host", cntlid, subnqn.encode(), host.encode())
        self.status, self.result = self.do(0x7f, 1, cdw10=qid << 16, cdw11=31, data=data, inside=True)
        self.cntlid = self.result & 0xffff
        if qid == 0 and self.status == 0:
            assert self.do(0x7f, 0, cdw11=0x14, cdw12=0x460001)[0] == 0

    def connect(self, t):
        return socket.create_connection((t.addr, 8009), timeout=20, source_address=(US, 0))

    def bytes(self, n):
        got = b""
        while len(got) < n:
            more = self.s.recv(n - len(got))
            if not more:
                raise Term(0, 0)
            got += more
        return got

    def get(self):
        """The next PDU: type, header, data."""
        head = self.bytes(8)
        kind, flags, hlen, pdo, plen = struct.unpack("<BBBBI", head)
        rest = self.bytes(plen - 8)
        head += rest[:hlen - 8]
        if kind == C2H_TERM:
            raise Term(*struct.unpack_from("<HI", head, 8))
        if self.hdgst:
            assert rest[hlen - 8:hlen - 4] == crc32c(head), "header digest"
        data = b""
        if kind == C2H_DATA:
            data = rest[pdo - 8:len(rest) - 4 * self.ddgst]
            assert not self.ddgst or rest[-4:] == crc32c(data), "data digest"
            self.last = flags & 4
        return kind, head, data

    def put(self, kind, rest, data=b"", flags=0):
        hlen = 8 + len(rest)
        pdo = hlen + 4 * self.hdgst
        plen = pdo + (len(data) + 4 * self.ddgst if data else 0)
        head = struct.pack("<BBBBI", kind, flags | self.hdgst | (2 if data and self.ddgst else 0), hlen, pdo if data else 0, plen) + rest
        self.s.sendall(head + (crc32c(head) if self.hdgst else b"") + data + (crc32c(data) if data and self.ddgst else b""))

    def do(self, opcode, nsid=0, cdw10=0, cdw11=0, cdw12=0, data=b"", inside=False, room=0):
        """Status and result; what was read is in self.data."""
        self.cid = self.cid % 1000 + 1
        sgl = (0, len(data), 1) if inside else (0, len(data) or room, 0x5a)
        sqe = struct.pack("<BBHI16xQI3xB6I", opcode, 0x40, self.cid, nsid, *sgl, cdw10, cdw11, cdw12, 0, 0, 0)
        self.put(COMMAND, sqe, data if inside else b"")
        self.data = b""
        while True:
            kind, head, got = self.get()
            if kind == R2T:
                cid, tag, off, left = struct.unpack_from("<HHII", head, 8)
                assert cid == self.cid and off + left <= len(data)
                while left:
                    n = min(left, self.max, 100000)
                    self.put(H2C_DATA, struct.pack("<HHII4x", cid, tag, off, n), data[off:off + n], 4 if n == left else 0)
                    off, left = off + n, left - n
            elif kind == C2H_DATA:
                assert struct.unpack_from("<H2xI", head, 8) == (self.cid, len(self.data))
                self.data += got
            else:
                assert kind == RESPONSE, kind
                result, _, _, cid, status = struct.unpack_from("<QHHHH", head, 8)
                assert cid == self.cid
                return status >> 1, result

    def write(self, lba, data, nsid=1, inside=False):
        return self.do(1, nsid, lba, 0, len(data) // 512 - 1, data, inside)[0]

    def read(self, lba, n, nsid=1):
        status, _ = self.do(2, nsid, lba, 0, n // 512 - 1, room=n)
        return self.data if status == 0 else status

    def ended(self):
        """Whether the target has ended it, within some seconds."""
        try:
            self.s.settimeout(10)
            return self.s.recv(1) == b""
        except ConnectionResetError:
            return True


class Disks(LanTarget):
    def __init__(self, name, n, nvmf="", weft="telemetry = yes\n", hosts=HOST):
        super().__init__(name, n, {"disk": {"path": path(name + ".disk"), "size": "16M", "format": "volume"}},
                         extra=f"control = {path(name + '.control')}", weft=weft)
        with open(self.conf, "a") as f:
            f.write(f"[nvmf]\nstaging = 16M\n{nvmf}\n[subsystem {NQN}]\nnamespaces = 1=disk\nhosts = {hosts}\n")
        if "10.0.0.250" not in run(["ip", "-o", "addr"])[1]:
            sh("ip", "addr", "add", f"{US}/24", "dev", "lan")
        self.name_ = name

    def tel(self, what, *args):
        return Telemetry(self.proc.pid).ask(",".join((f"/weft/target/{what}", *map(str, args))))

    def counts(self, **want):
        """Counters, which are as late as the worker shows them."""
        end = time.monotonic() + 5
        while any(self.tel("nvmf")[k] != v for k, v in want.items()):
            assert time.monotonic() < end, (want, self.tel("nvmf"))
            time.sleep(0.02)

    def ctl(self, *args):
        rc, out, err = run([os.path.join(APPS, "ctl", "weft-ctl"), "--socket", path(self.name_ + ".control"), *args])
        assert rc == 0, (args, out, err)
        return out


def test_data():
    """Lengths from 512 octets to 1 MiB, with each kind of digest; on two workers; what is seen of it."""
    t = Disks("t1", 1, weft="telemetry = yes\nworkers = 2\n").start()
    rng = random.Random(5)
    blob = rng.randbytes(1 << 20)
    total = 0
    for digests in range(4):
        how = {"hdgst": bool(digests & 1), "ddgst": bool(digests & 2)}
        admin = Queue(t, **how)
        ios = [Queue(t, 1 + i, admin.cntlid, **how) for i in range(3)]
        for i, n in enumerate((512, 4096, 8192, 131072 + 512, 1 << 20)):
            io = ios[i % 3]
            assert io.write(i, blob[i:i + n].ljust(n, b"x")) == 0
            assert io.read(i, n) == blob[i:i + n].ljust(n, b"x")
            total += n
        assert ios[0].write(9, blob[:4096], inside=True) == 0
        assert ios[1].read(9, 4096) == blob[:4096]
        total += 4096
        assert ios[2].read(1 << 20, 512) & 0x7ff == 0x80
        if digests < 3:
            for q in (*ios, admin):
                q.s.close()
    t.counts(controllers=1, queues=4, errors=4, tcp_accepted=16, rdma_accepted=0, tcp_faults=0, tcp_stalls=0, tcp_overruns=0,
             tcp_aborted=0, tcp_data_digests=0, protocol_errors=0, written_bytes=total, tcp_r2ts=20)
    (number, nqn), = t.tel("nvmf_controller").items()
    assert nqn == HOST
    assert t.tel("nvmf_controller", number)["transport"] == "TCP"
    assert HOST in t.ctl("clients") and "queues of NVMe hosts" in t.ctl("limits")
    # it is dropped
    t.ctl("drop", HOST)
    assert all(q.ended() for q in (*ios, admin))
    again = Queue(t)
    assert again.status == 0 and t.term() == 0
    assert "given up" not in t.logged()


def test_faults():
    """A wrong digest of data fails its command alone; a wrong header ends its connection, and says why."""
    t = Disks("t2", 2).start()
    admin = Queue(t, hdgst=True, ddgst=True)
    io, other = (Queue(t, i, admin.cntlid, hdgst=True, ddgst=True) for i in (1, 2))
    assert io.write(0, b"a" * 4096) == 0
    good = crc32c
    globals()["crc32c"] = lambda d: good(d) if len(d) != 4096 else b"\0\1\2\3"
    try:
        assert io.write(0, b"b" * 4096) == 0x22
        assert io.write(0, b"b" * 4096, inside=True) == 0x22
    finally:
        globals()["crc32c"] = good
    assert io.read(0, 4096) == b"a" * 4096
    io.s.sendall(struct.pack("<BBBBI", H2C_DATA, 3, 24, 28, 0))
    try:
        io.get()
        assert False, "no C2HTermReq"
    except Term as e:
        assert e.args == (1, 4), e.args
    assert io.ended()
    assert other.read(0, 4096) == b"a" * 4096
    t.counts(tcp_data_digests=2, tcp_faults=1)
    assert t.term() == 0


def test_discovery():
    """Discovery by TCP names both transports; a target that is asked not to listen has none of it."""
    t = Disks("t3", 3).start()
    q = Queue(t, subnqn=DISCOVERY)
    assert q.status == 0
    assert q.do(2, 0xffffffff, 0x70 | (1024 // 4 - 1) << 16, room=1024)[0] == 0
    n = struct.unpack_from("<Q", q.data, 8)[0]
    assert q.do(2, 0xffffffff, 0x70 | (1024 * (n + 1) // 4 - 1) << 16, room=1024 * (n + 1))[0] == 0
    found = set()
    for at in range(1024, 1024 * (n + 1), 1024):
        e = q.data[at:at + 1024]
        text = [e[a:b].rstrip(b"\0 ").decode() for a, b in ((32, 64), (256, 512), (512, 768))]
        found.add((e[0], *text))
        assert e[0] != 3 or e[768] == 0, "TSAS: no TLS"
    assert found == {(tr, port, nqn, "10.0.0.3") for tr, port in ((1, "4420"), (3, "8009")) for nqn in (DISCOVERY, NQN)}, found
    # Connect of a host that is not in the list
    assert Queue(t, host=HOST.replace("1111", "2222")).status & 0x7ff == 0x184
    assert t.term() == 0
    edit(t, "staging = 16M", "staging = 16M\ntcp_listen = 0")
    t.start()
    try:
        Queue(t)
        assert False, "it listens"
    except ConnectionRefusedError:
        pass
    assert t.term() == 0
    edit(t, "tcp_listen = 0", "tcp_listen = 4420")
    rc, _, err = run([t.exe, "-c", t.conf, "--check-config"])
    assert rc != 0 and "tcp_listen: 4420 is the port of listen" in err, err
    edit(t, "tcp_listen = 4420", "allow_from = 10.0.0.9")
    t.start()
    try:
        Queue(t)
        assert False, "it was admitted"
    except (Term, ConnectionResetError):
        pass
    until(t, f"allow_from: a host of {US} was refused")
    assert t.tel("nvmf")["refused_address"] == 1
    assert t.term() == 0


def test_ends():
    """A kill: the disk is the same one, and what was answered is there. SIGTERM ends connections in order. Offline, too."""
    t = Disks("t4", 4).start()
    admin = Queue(t)
    io = Queue(t, 1, admin.cntlid)
    assert io.write(5, b"k" * 8192) == 0
    t.proc.send_signal(signal.SIGKILL)
    t.proc.wait()
    t.start()
    admin = Queue(t)
    io = Queue(t, 1, admin.cntlid)
    assert io.read(5, 8192) == b"k" * 8192
    t.ctl("offline", "disk")
    assert io.read(5, 8192) & 0x7ff == 0x82
    t.ctl("online", "disk")
    assert io.read(5, 8192) == b"k" * 8192
    # a host that does not serve its R2T does not keep the export from that
    sqe = struct.pack("<BBHI16xQI3xB6I", 1, 0x40, 7, 1, 0, 8192, 0x5a, 0, 0, 15, 0, 0, 0)
    io.put(COMMAND, sqe)
    assert io.get()[0] == R2T
    t.ctl("offline", "disk")
    assert t.tel("nvmf")["leave_expired"] == 1
    assert io.ended()
    assert t.term() == 0
    assert admin.ended()
    assert "given up" not in t.logged()


if __name__ == "__main__":
    enter()
    main([test_data, test_faults, test_discovery, test_ends])
