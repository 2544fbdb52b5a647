#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""NVMe hosts prove their names to weft-target by DH-HMAC-CHAP (NVMe Base 2.0 s8.13), by secrets of a file: the right one, a wrong one,
one that changes at SIGHUP; faults of the file; and secrets are in nothing that the target tells."""
import base64
import hashlib
import hmac
import math
import os
import signal
import struct
import sys
import tarfile
import zlib

sys.dont_write_bytecode = True
from lan import enter  # noqa: E402
from test_nvmf_tcp import DISCOVERY, HOST, NQN, Disks, Queue  # noqa: E402
from test_offline import edit, until  # noqa: E402
from weft_e2e import main, path, run  # noqa: E402

OTHER = HOST.replace("1111", "2222")
AUTH_SEND, AUTH_RECEIVE, REQUIRED = 5, 6, 0x191
FAILURE = 0xf1
# ffdhe2048 (RFC 7919 A.1), from the digits of e
EULER = sum(((1 << 2100) // math.factorial(i) for i in range(400))) >> 2100 - 1918
PRIME = (1 << 2048) - (1 << 1984) + ((EULER + 560316) << 64) - 1


def secret(octet):
    """A key of 32 octets, and as text."""
    key = bytes([octet]) * 31 + b"\xa5"
    return key, "DHHC-1:00:" + base64.b64encode(key + struct.pack("<I", zlib.crc32(key))).decode() + ":"


KEY, TEXT = secret(1)
CTRL, CTRL_TEXT = secret(2)
NEW, NEW_TEXT = secret(3)


def response(key, challenge, seq, role, own, peer):
    return hmac.new(key, challenge + struct.pack("<IHB", seq, 7, 0) + role + own.encode() + b"\0" + peer.encode(), hashlib.sha256).digest()


class Host(Queue):
    """A queue whose host sets CC.EN when it has proved its name, and not with Connect."""

    proved, nqn = False, NQN

    def do(self, opcode, nsid=0, *args, **kw):
        return super().do(opcode, nsid, *args, **kw) if (opcode, nsid) != (0x7f, 0) or self.proved else (0, 0)

    def tell(self, message):
        assert self.do(0x7f, AUTH_SEND, 0xe90101 << 8, len(message), data=message)[0] == 0

    def hear(self):
        assert self.do(0x7f, AUTH_RECEIVE, 0xe90101 << 8, 4096, room=4096)[0] == 0
        return self.data

    def prove(self, key, ctrl=None, group=1):
        """0, or the reason of the failure. With SHA-256, and no group or ffdhe2048; ctrl: the controller's key, which it must have."""
        self.tell(struct.pack("<BBxxHBBBBBB30s30s", 0, 0, 7, 0, 1, 1, 0, 1, 1, b"\1", bytes([group])))
        m = self.hear()
        if m[1] == FAILURE:
            return m[7]
        assert m[:2] == b"\1\1" and m[6] == 32 and m[8:10] == bytes([1, group]), m[:16]
        size, seq = struct.unpack_from("<HI", m, 10)
        assert size == 256 * group
        theirs, ours, public = m[16:48], b"\x77" * 32, b""
        shared = None
        if group:
            x = int.from_bytes(os.urandom(64), "big")
            public = pow(2, x, PRIME).to_bytes(256, "big")
            shared = hashlib.sha256(pow(int.from_bytes(m[48:48 + 256], "big"), x, PRIME).to_bytes(256, "big")).digest()
        bound = (lambda c: hmac.new(shared, c, hashlib.sha256).digest()) if group else bytes
        self.tell(struct.pack("<BBxxHBxBxHI", 1, 2, 7, 32, ctrl is not None, size, 9 if ctrl else 0)
                  + response(key, bound(theirs), seq, b"HostHost", self.host, self.nqn) + ours + public)
        m = self.hear()
        if m[1] == FAILURE:
            return m[7]
        assert m[:2] == b"\1\3" and m[8] == (ctrl is not None), m[:16]
        if ctrl:
            assert m[16:48] == response(ctrl, bound(ours), 9, b"Controller", self.nqn, self.host)
            self.tell(struct.pack("<BBxxH10x", 1, 4, 7))
        self.proved = True
        return 0


def connect(t, host=HOST, **kw):
    q = Host(t, host=host, **kw)
    q.host = host
    return q


def discover(t, host=HOST):
    """An admin queue of discovery."""
    q = connect(t, host, subnqn=DISCOVERY)
    q.nqn = DISCOVERY
    return q


def shown(q):
    """The NQNs that the discovery log has."""
    q.proved = True
    assert q.do(0x7f, 0, cdw11=0x14, cdw12=0x460001)[0] == 0
    assert q.do(2, 0, 0x70 | 4095 << 16, room=16384)[0] == 0
    at = range(1024, 1024 * (1 + struct.unpack_from("<Q", q.data, 8)[0]), 1024)
    return {q.data[i + 256:i + 512].rstrip(b"\0").decode() for i in at}


def secrets(t, *lines, mode=0o600, more=""):
    with open(path(t.name_ + more + ".dhchap"), "w") as f:
        f.write("# hosts\n\n" + "".join(line + "\n" for line in lines))
    os.chmod(f.name, mode)


class Guarded(Disks):
    def __init__(self, name, n, *lines):
        super().__init__(name, n, hosts="any")
        edit(self, "hosts = any", f"hosts = any\nsecrets = {path(name + '.dhchap')}")
        secrets(self, *lines)


def test_proof():
    """The right secret works on each queue, in both directions; wrong ones and hosts without a line are refused, told and counted."""
    t = Guarded("a1", 1, f"{HOST} {TEXT} {CTRL_TEXT}", f"{OTHER}  {NEW_TEXT}").start()
    admin = connect(t)
    assert admin.status == 0 and admin.result >> 17 & 1
    assert admin.do(6, 0, 1, room=4096)[0] & 0x7ff == REQUIRED
    assert admin.prove(KEY, CTRL) == 0
    assert admin.do(0x7f, 0, cdw11=0x14, cdw12=0x460001)[0] == 0
    io = connect(t, qid=1, cntlid=admin.cntlid)
    assert io.read(0, 512) & 0x7ff == REQUIRED
    assert io.prove(KEY) == 0
    assert io.write(0, b"a" * 4096) == 0 and io.read(0, 4096) == b"a" * 4096
    t.counts(auth_done=2, auth_failed_proof=0)
    (number, _), = t.tel("nvmf_controller").items()
    seen = t.tel("nvmf_controller", number)
    assert seen["must_prove"] == 1 and seen["proved"] == 1, seen
    # the secret of another host; a proof of the controllers' that there is none for
    assert connect(t).prove(NEW) == 1
    assert connect(t, host=OTHER).prove(NEW, CTRL) == 1
    assert connect(t, host=OTHER).prove(NEW) == 0
    t.counts(auth_done=3, auth_failed_proof=2)
    until(t, f"host {HOST} was refused, as it has not proved its name: its secret is wrong")
    assert connect(t, host=HOST.replace("1111", "3333")).status & 0x7ff == 0x184
    assert io.read(0, 4096) == b"a" * 4096
    # nothing tells a secret
    out = path("a1.tar.gz")
    t.ctl("support-bundle", out)
    with tarfile.open(out) as tar:
        told = b"".join(tar.extractfile(m).read() for m in tar if m.isfile())
    assert b"secrets = (removed)" in told
    told += t.logged().encode() + "".join(str(t.tel(x)) for x in ("nvmf", "nvmf_controller", "nvmf_subsystem")).encode()
    for word in (TEXT, CTRL_TEXT, NEW_TEXT):
        assert word[10:30].encode() not in told
    assert t.term() == 0


def test_reload():
    """SIGHUP: a host whose line has changed connects again by the new secret; others stay; a wrong file changes nothing."""
    t = Guarded("a2", 2, f"{HOST} {TEXT}", f"{OTHER} {TEXT}").start()
    mine, other = connect(t), connect(t, host=OTHER)
    assert mine.prove(KEY) == 0
    assert other.prove(KEY) == 0
    secrets(t, f"{HOST} {NEW_TEXT[:-3]}A=:", f"{OTHER} {TEXT}")
    t.proc.send_signal(signal.SIGHUP)
    until(t, f"{path('a2.dhchap')}:3: the host's secret: its ")
    secrets(t, f"{HOST} {NEW_TEXT}", f"{OTHER} {TEXT}")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "its secrets were read again")
    assert mine.ended()
    assert other.do(0x7f, 0, cdw11=0x14, cdw12=0x460001)[0] == 0
    assert connect(t).prove(KEY) == 1
    assert connect(t).prove(NEW) == 0
    edit(t, f"secrets = {path('a2.dhchap')}\n", "")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "its hosts need not prove their names any more")
    assert other.ended()
    q = Queue(t)
    assert q.status == 0 and not q.result >> 17 & 1
    assert t.term() == 0


def test_group():
    """A host without a group is refused, unless secrets_group allows it, which SIGHUP changes for those that connect afterwards."""
    t = Guarded("a4", 4, f"{HOST} {TEXT} {CTRL_TEXT}").start()
    first = connect(t)
    assert first.prove(KEY, CTRL) == 0
    assert connect(t).prove(KEY, group=0) == 5
    until(t, f"host {HOST} was refused, as it has not proved its name: it offers no group that secrets_group allows")
    t.counts(auth_done=1, auth_failed_group=1)
    edit(t, "hosts = any", "hosts = any\nsecrets_group = null")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "its secrets were read again")
    assert connect(t).prove(KEY, CTRL, group=0) == 0
    assert connect(t).prove(KEY) == 0
    assert first.do(0x7f, 0, cdw11=0x14, cdw12=0x460001)[0] == 0
    assert t.term() == 0


def test_discovery():
    """Discovery shows what the host may use that it is told; with discovery_secrets the host proves its name first."""
    t = Guarded("a5", 5, f"{HOST} {TEXT}").start()
    # a name is a claim here
    q = discover(t)
    assert q.status == 0 and not q.result >> 17 & 1
    assert shown(q) == {DISCOVERY, NQN}
    assert shown(discover(t, OTHER)) == {DISCOVERY}
    edit(t, "[nvmf]", f"[nvmf]\ndiscovery_secrets = {path('a5d.dhchap')}")
    secrets(t, f"{HOST} {NEW_TEXT} {CTRL_TEXT}", f"{OTHER} {CTRL_TEXT}", more="d")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "discovery: its secrets were read again")
    assert q.ended()
    q = discover(t)
    assert q.status == 0 and q.result >> 17 & 1
    assert q.do(2, 0, 0x70 | 255 << 16, room=1024)[0] & 0x7ff == REQUIRED
    assert q.prove(NEW, CTRL) == 0
    assert shown(q) == {DISCOVERY, NQN}
    assert discover(t).prove(KEY) == 1
    other = discover(t, OTHER)
    assert other.prove(CTRL) == 0 and shown(other) == {DISCOVERY}
    assert discover(t, HOST.replace("1111", "3333")).status & 0x7ff == 0x184
    assert connect(t).prove(KEY) == 0
    # a file that is wrong changes nothing; a line that has changed ends the host's asking; it is there from the start
    secrets(t, f"{HOST} x", more="d")
    t.proc.send_signal(signal.SIGHUP)
    until(t, f"{path('a5d.dhchap')}:3: ")
    assert shown(q) == {DISCOVERY, NQN}
    secrets(t, f"{HOST} {TEXT}", more="d")
    rc, _, err = run([t.exe, "-c", t.conf, "--check-config"])
    assert rc == 0, err
    assert "changes with a restart" not in t.logged(), t.logged()
    assert t.term() == 0
    t.start()
    q = discover(t)
    assert q.prove(KEY) == 0 and shown(q) == {DISCOVERY, NQN}
    edit(t, f"discovery_secrets = {path('a5d.dhchap')}\n", "")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "discovery: its hosts need not prove their names any more")
    assert q.ended()
    assert shown(discover(t)) == {DISCOVERY, NQN}
    assert "changes with a restart" not in t.logged(), t.logged()
    assert t.term() == 0


def test_files():
    """Faults of the file are told with its name and line before the target serves anything."""
    t = Guarded("a3", 3, "")
    name = path("a3.dhchap")
    for lines, mode, want in (((f"{HOST} {TEXT}",), 0o640, f"{name}: is open to others (mode 640); chmod 600 it"),
                              (("",), 0o600, f"{name}: it has no host"),
                              (("alice " + TEXT,), 0o600, f"{name}:3: it does not begin with the NQN of a host"),
                              ((HOST,), 0o600, f"{name}:3: no secret; write HOSTNQN DHHC-1:hh:BASE64:"),
                              ((f"{HOST} {TEXT} {CTRL_TEXT} x",), 0o600, f"{name}:3: more than an NQN and two secrets"),
                              ((f"{HOST} {TEXT}", f"{HOST} {NEW_TEXT}"), 0o600, f"{name}:4: this host has a line before"),
                              ((f"{HOST} {TEXT} {TEXT}",), 0o600, f"{name}:3: both secrets are the same; make another one"),
                              ((f"{HOST} {TEXT[:-1]}",), 0o600, f"{name}:3: the host's secret: it is not of the form DHHC-1:hh:BASE64:")):
        secrets(t, *lines, mode=mode)
        rc, _, err = run([t.exe, "-c", t.conf, "--check-config"])
        assert rc != 0 and want in err, (want, err)
        assert TEXT[10:30] not in err
    secrets(t, f"{HOST} {TEXT}")
    rc, _, err = run([t.exe, "-c", t.conf, "--check-config"])
    assert rc == 0, err


if __name__ == "__main__":
    enter()
    main([test_proof, test_reload, test_group, test_discovery, test_files])
