#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""NVMe/TCP with TLS 1.3 and pre-shared keys: `openssl s_client` and GnuTLS, which is what Linux uses, carry the tests' own host. Its keys
are derived by hmac and hashlib. Both derivations, wrong keys, hosts with and without TLS, discovery, reload, and with DH-HMAC-CHAP."""
import base64
import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "nvmf"))
from lan import enter  # noqa: E402
from psk_vectors import derive  # noqa: E402
from test_nvmf_auth import KEY as SECRET, TEXT as SECRET_TEXT, Host  # noqa: E402
from test_nvmf_tcp import DISCOVERY, HOST, NQN, US, Disks, Queue, Term  # noqa: E402
from test_offline import edit, until  # noqa: E402
from weft_e2e import main, path, run  # noqa: E402

OTHER = HOST.replace("1111", "2222")
RFC8446, COMPAT = False, True


def key(octet, size=32, kind=None):
    """A configured key: its octets, and as text."""
    k = bytes([octet]) * (size - 1) + b"\xa5"
    kind = {32: 1, 48: 2}[size] if kind is None else kind
    return k, f"NVMeTLSkey-1:{kind:02}:" + base64.b64encode(k + struct.pack("<I", zlib.crc32(k))).decode() + ":"


ONE, ONE_TEXT = key(1)
TWO, TWO_TEXT = key(2)
PLAIN, PLAIN_TEXT = key(3, kind=0)
BAD, _ = key(9)


class OpenSsl:
    """A session by `openssl s_client`, whose standard input and output are one socket."""

    def __init__(self, addr, identity, psk):
        self.mine, theirs = socket.socketpair()
        self.mine.settimeout(20)
        self.proc = subprocess.Popen(
            ["openssl", "s_client", "-connect", f"{addr}:8009", "-bind", f"{US}:0", "-tls1_3", "-quiet", "-psk_identity", identity, "-psk",
             psk.hex(), "-ciphersuites", "TLS_AES_128_GCM_SHA256"], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL)
        theirs.close()

    def close(self):
        self.mine.close()
        self.proc.kill()
        self.proc.wait()


class GnuTls:
    """A session by libgnutls, which tlshd uses for the handshakes of Linux hosts; a thread for each direction."""

    lib = None

    class Datum(ctypes.Structure):
        _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_uint)]

    def __init__(self, addr, identity, psk):
        g = ctypes.CDLL("libgnutls.so.30")
        for name in ("gnutls_record_recv", "gnutls_record_send"):
            getattr(g, name).restype = ctypes.c_ssize_t
            getattr(g, name).argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
        self.s = socket.create_connection((addr, 8009), timeout=20, source_address=(US, 0))
        self.s.settimeout(None)
        self.mine, self.theirs = socket.socketpair()
        self.mine.settimeout(20)
        cred, self.session = ctypes.c_void_p(), ctypes.c_void_p()
        assert g.gnutls_psk_allocate_client_credentials(ctypes.byref(cred)) == 0
        user, secret = self.Datum(identity.encode(), len(identity)), self.Datum(psk, len(psk))
        assert g.gnutls_psk_set_client_credentials2(cred, ctypes.byref(user), ctypes.byref(secret), 0) == 0
        assert g.gnutls_init(ctypes.byref(self.session), 2) == 0  # GNUTLS_CLIENT
        assert g.gnutls_priority_set_direct(self.session, b"NORMAL:-VERS-ALL:+VERS-TLS1.3:+PSK:+DHE-PSK:+ECDHE-PSK", None) == 0
        assert g.gnutls_credentials_set(self.session, 4, cred) == 0  # GNUTLS_CRD_PSK
        g.gnutls_transport_set_int2(self.session, self.s.fileno(), self.s.fileno())
        self.lib = g
        while (rc := g.gnutls_handshake(self.session)) in (-28, -52):
            pass
        assert rc == 0, rc
        for way in (self.out, self.back):
            threading.Thread(target=way, daemon=True).start()

    def out(self):
        while data := self.theirs.recv(1 << 16):
            at = 0
            while at < len(data):
                n = self.lib.gnutls_record_send(self.session, data[at:], len(data) - at)
                if n <= 0:
                    return
                at += n

    def back(self):
        buf = ctypes.create_string_buffer(1 << 15)
        while (n := self.lib.gnutls_record_recv(self.session, buf, len(buf))) > 0:
            self.theirs.sendall(buf.raw[:n])
        self.theirs.shutdown(socket.SHUT_WR)

    def close(self):
        self.s.shutdown(socket.SHUT_RDWR)
        self.mine.close()


class Secure:
    """Of a queue: TLS below it."""

    def __init__(self, t, *args, key=ONE, kind=1, old=RFC8446, version=1, by=OpenSsl, host=HOST, subnqn=NQN, key_sub=None, **kw):
        self.key, self.by, self.made = (key, kind, old, version), by, (host, key_sub or subnqn)
        super().__init__(t, *args, host=host, subnqn=subnqn, **kw)

    def connect(self, t):
        k, kind, old, version = self.key
        self.tls = self.by(t.addr, *derive(k, kind, old, version, *self.made))
        return self.tls.mine


class TlsQueue(Secure, Queue):
    pass


class TlsHost(Secure, Host):
    pass


def keys(t, *lines, mode=0o600):
    with open(path(t.name_ + ".psk"), "w") as f:
        f.write("# hosts\n" + "".join(line + "\n" for line in lines))
    os.chmod(f.name, mode)


class Tls(Disks):
    def __init__(self, name, n, *lines, tls="required", more=""):
        super().__init__(name, n, nvmf=f"tls = {tls}\n{more}", hosts="any", weft="telemetry = yes\nworkers = 2\n")
        edit(self, "hosts = any", f"hosts = any\ntls_keys = {path(name + '.psk')}")
        keys(self, *lines)


def no_session(t, why, cls=TlsQueue, **kw):
    """It is refused, and one line says why."""
    before = t.logged().count(why)
    try:
        cls(t, **kw)
        assert False, "it was admitted"
    except (Term, ConnectionError):
        pass
    until(t, why)
    assert t.logged().count(why) == before + 1, t.logged()


def test_data():
    """Both derivations and identities, keys of each kind, with digests, by OpenSSL and by GnuTLS; what is seen of it."""
    t = Tls("s1", 1, f"{HOST} {ONE_TEXT}", f"{HOST} {PLAIN_TEXT}").start()
    blob = os.urandom(1 << 20)
    done = old_ones = 0
    for k, kind in ((ONE, 1), (PLAIN, 0)):
        for old in (RFC8446, COMPAT):
            for version in (0, 1):
                for by in (OpenSsl, GnuTls):
                    how = {"key": k, "kind": kind, "old": old, "version": version, "by": by, "hdgst": True, "ddgst": by is OpenSsl}
                    admin = TlsQueue(t, **how)
                    io = TlsQueue(t, 1, admin.cntlid, **how)
                    assert admin.status == io.status == 0
                    for i, n in enumerate((512, 16384, 131072 + 512)):
                        assert io.write(i, blob[i:i + n]) == 0
                        assert io.read(i, n) == blob[i:i + n]
                    done, old_ones = done + 2, old_ones + 2 * old
                    if done < 32:
                        io.tls.close()
                        admin.tls.close()
    t.counts(tls_done=done, tls_compat=old_ones, tls_connections=2, tls_failed=0, tls_faults=0, tls_missing=0, controllers=1, queues=2,
             tcp_faults=0, tcp_data_digests=0)
    (number, _), = t.tel("nvmf_controller").items()
    seen = t.tel("nvmf_controller", number)
    assert seen["tls"] == 1 and seen["must_prove"] == 0, seen
    table = t.ctl("clients")
    assert HOST in table and "tls" in table, table
    assert io.write(9, blob[:4096], inside=True) == 0 and io.read(9, 1 << 20)[:4096] == blob[:4096]
    t.ctl("drop", HOST)
    assert io.ended() and admin.ended()
    # nothing tells a key
    out = path("s1.tar.gz")
    t.ctl("support-bundle", out)
    with tarfile.open(out) as tar:
        told = b"".join(tar.extractfile(m).read() for m in tar if m.isfile())
    assert b"tls_keys = (removed)" in told
    told += t.logged().encode()
    assert ONE_TEXT[18:40].encode() not in told and PLAIN_TEXT[18:40].encode() not in told
    assert t.term() == 0


def test_refused():
    """Each host without a right key is refused by one line that says why."""
    t = Tls("s2", 2, f"{HOST} {ONE_TEXT}", more="tls_derivation = rfc8446").start()
    no_session(t, f"host {HOST} has another key (tried in the derivations of RFC 8446 and of older libnvme (compat))", key=BAD, version=0)
    no_session(t, f"host {HOST} has its key in the derivation of older libnvme (compat), which tls_derivation does not admit", old=COMPAT)
    no_session(t, f"there is no key of host {OTHER} for subsystem {NQN}", host=OTHER)
    no_session(t, "it begins without TLS, which is required", cls=Queue)
    t.counts(tls_failed=3, tls_missing=1, tls_done=0, tls_connections=0, tcp_stalls=0)
    # the key of one host does not prove another one, nor another subsystem
    q = TlsQueue(t, subnqn=DISCOVERY, key_sub=NQN)
    assert q.status & 0x7ff == 0x182 and q.result == 0x10100, (hex(q.status), hex(q.result))
    assert TlsQueue(t).status == 0
    assert t.term() == 0
    edit(t, "tls_derivation = rfc8446", "tls_derivation = compat")
    t.start()
    no_session(t, f"host {HOST} has its key in the derivation of RFC 8446, which tls_derivation does not admit", version=0)
    assert TlsQueue(t, old=COMPAT).status == 0
    assert t.term() == 0
    edit(t, "tls = required\ntls_derivation = compat", "tls = off")
    edit(t, f"\ntls_keys = {path('s2.psk')}", "")
    t.start()
    no_session(t, "it begins with TLS, which is off")
    assert Queue(t).status == 0
    t.counts(tls_unwanted=1)
    assert t.term() == 0


def discovered(t, q):
    """(TREQ, SECTYPE) of the records by TCP."""
    assert q.status == 0
    assert q.do(2, 0xffffffff, 0x70 | (4096 // 4 - 1) << 16, room=4096)[0] == 0
    n = struct.unpack_from("<Q", q.data, 8)[0]
    found = {(e[3], e[768]) for e in (q.data[at:at + 1024] for at in range(1024, 1024 * (min(n, 3) + 1), 1024)) if e[0] == 3}
    return found


def test_discovery():
    """Discovery says whether TLS is required; with `allowed` hosts have it or not."""
    t = Tls("s3", 3, f"{HOST} {ONE_TEXT}").start()
    q = TlsQueue(t, subnqn=DISCOVERY)
    assert discovered(t, q) == {(1, 2)}
    assert struct.unpack_from("<Q", q.data, 8)[0] == 3
    records = [q.data[at:at + 1024] for at in range(1024, 4096, 1024)]
    assert [e[0] for e in records if e[256:512].rstrip(b"\0").decode() == NQN] == [3], "by RDMA as well"
    assert t.term() == 0
    edit(t, "tls = required", "tls = allowed")
    t.start()
    assert discovered(t, TlsQueue(t, subnqn=DISCOVERY)) == discovered(t, Queue(t, subnqn=DISCOVERY)) == {(2, 2)}
    admin, plain = TlsQueue(t), Queue(t)
    assert admin.status == plain.status == 0
    # a queue without TLS is no queue of a controller with TLS
    assert Queue(t, 1, admin.cntlid).status & 0x7ff == 0x184
    until(t, f"host {HOST} was refused for subsystem {NQN}: its connection has no TLS, by which it would prove its name")
    assert TlsQueue(t, 1, admin.cntlid).status == 0
    t.counts(tls_done=3, tls_missing=0)
    assert t.term() == 0


def test_reload():
    """SIGHUP: a host changes to a new key while it is connected; what has lost its key ends; a wrong file changes nothing."""
    t = Tls("s4", 4, f"{HOST} {ONE_TEXT}", f"{OTHER} {TWO_TEXT}").start()
    mine, other = TlsQueue(t), TlsQueue(t, host=OTHER, key=TWO)
    keys(t, f"{HOST} {ONE_TEXT}", f"{HOST} {TWO_TEXT[:-6]}!!!!!:")
    t.proc.send_signal(signal.SIGHUP)
    until(t, f"{path('s4.psk')}:3: the key is not base64; nothing was changed")
    keys(t, f"{HOST} {TWO_TEXT}", f"{HOST} {ONE_TEXT}", f"{OTHER} {TWO_TEXT}")
    t.proc.send_signal(signal.SIGHUP)
    until(t, "its keys of TLS were read again")
    new = TlsQueue(t, key=TWO)
    assert all(q.do(0x18)[0] == 0 for q in (mine, other, new))
    keys(t, f"{HOST} {TWO_TEXT}", f"{OTHER} {TWO_TEXT}")
    t.proc.send_signal(signal.SIGHUP)
    assert mine.ended()
    assert all(q.do(0x18)[0] == 0 for q in (other, new))
    t.counts(tls_gone=1)
    no_session(t, f"there is no key of host {HOST} for subsystem {NQN}")
    assert t.term() == 0


def test_later():
    """SIGHUP brings `tls` and `tls_keys` together, while TLS is off: no host comes without the proof that its subsystem asks for."""
    t = Disks("s7", 7)
    t.start()
    keys(t, f"{HOST} {ONE_TEXT}")
    mine = Queue(t)
    assert mine.status == 0 and Queue(t, host=OTHER).status & 0x7ff == 0x184
    edit(t, "[nvmf]\n", "[nvmf]\ntls = required\n")
    edit(t, f"hosts = {HOST}", f"hosts = any\ntls_keys = {path('s7.psk')}")
    with open(t.conf, "a") as f:
        f.write(f"[subsystem {NQN}-b]\nnamespaces = 1=disk\nhosts = any\ntls_keys = {path('s7.psk')}\n")
    t.proc.send_signal(signal.SIGHUP)
    until(t, f"subsystem {NQN}-b: it comes with a restart, as it has tls_keys, and tls of [nvmf] is off until then")
    until(t, f"subsystem {NQN}: it has no new hosts until these can prove their names")
    assert Queue(t, host=OTHER).status & 0x7ff == 0x184
    q = Queue(t, subnqn=NQN + "-b", host=OTHER)
    assert q.status & 0x7ff == 0x182, hex(q.status)
    assert mine.do(0x18)[0] == 0
    assert t.term() == 0
    t.start()
    no_session(t, "it begins without TLS, which is required", cls=Queue)
    assert TlsQueue(t).status == TlsQueue(t, subnqn=NQN + "-b").status == 0
    assert t.term() == 0


def test_removed():
    """A subsystem goes by SIGHUP: a connection to the discovery subsystem by its key ends at once, on a worker that has nothing to do."""
    t = Tls("s8", 8, f"{HOST} {ONE_TEXT}")
    with open(t.conf) as f:
        first = f.read()
    with open(t.conf, "w") as f:
        f.write(first.replace(NQN, NQN + "-b").replace("s8.psk", "s8b.psk"))
    keys(t, f"{HOST} {ONE_TEXT}")
    os.rename(path("s8.psk"), path("s8b.psk"))
    keys(t, f"{HOST} {TWO_TEXT}")
    with open(t.conf, "a") as f:
        f.write(first[first.index("[subsystem"):])
    t.start()
    q, stays = TlsQueue(t, subnqn=DISCOVERY, key=TWO), TlsQueue(t, subnqn=DISCOVERY)
    assert q.status == stays.status == 0
    time.sleep(1)
    with open(t.conf, "w") as f:
        f.write(first.replace(NQN, NQN + "-b").replace("s8.psk", "s8b.psk"))
    t.proc.send_signal(signal.SIGHUP)
    until(t, f"subsystem {NQN}: gone")
    began = time.monotonic()
    assert q.ended()
    assert time.monotonic() - began < 1, time.monotonic() - began
    assert stays.do(0x18)[0] == 0
    assert t.term() == 0


def test_files():
    """Faults of the file are told with its name and line before the target serves anything."""
    t = Tls("s5", 5, "")
    name = path("s5.psk")
    damaged = ONE_TEXT[:20] + ("A" if ONE_TEXT[20] != "A" else "B") + ONE_TEXT[21:]
    for lines, mode, want in (((f"{HOST} {ONE_TEXT}",), 0o644, f"{name}: is open to others (mode 644); chmod 600 it"),
                              (("",), 0o600, f"{name}: it has no key"),
                              (("alice " + ONE_TEXT,), 0o600, f"{name}:2: it does not begin with the NQN of a host"),
                              ((HOST,), 0o600, f"{name}:2: no key; write HOSTNQN NVMeTLSkey-1:hh:BASE64:"),
                              ((f"{HOST} {ONE_TEXT} x",), 0o600, f"{name}:2: more than an NQN and a key"),
                              ((f"{HOST} {ONE_TEXT}",) * 2, 0o600, f"{name}:3: this host has this key before"),
                              ([f"{HOST} {key(i)[1]}" for i in range(5)], 0o600, f"{name}:6: too many keys of this host; 4 at most"),
                              ((f"{HOST} {damaged}",), 0o600, f"{name}:2: the CRC-32 of the key is wrong")):
        keys(t, *lines, mode=mode)
        rc, _, err = run([t.exe, "-c", t.conf, "--check-config"])
        assert rc != 0 and want in err, (want, err)
        assert ONE_TEXT[18:40] not in err
    keys(t, f"{HOST} {ONE_TEXT}")
    rc, _, err = run([t.exe, "-c", t.conf, "--check-config"])
    assert rc == 0, err


def test_both():
    """TLS and DH-HMAC-CHAP: a host needs both."""
    t = Tls("s6", 6, f"{HOST} {ONE_TEXT}")
    with open(path("s6.dhchap"), "w") as f:
        f.write(f"{HOST} {SECRET_TEXT}\n")
    os.chmod(f.name, 0o600)
    edit(t, "hosts = any", f"hosts = any\nsecrets = {path('s6.dhchap')}")
    t.start()
    q = TlsHost(t)
    q.host = HOST
    assert q.status == 0 and q.result >> 17 & 1
    assert q.do(6, 0, 1, room=4096)[0] & 0x7ff == 0x191
    assert q.prove(SECRET) == 0
    assert q.do(0x7f, 0, cdw11=0x14, cdw12=0x460001)[0] == 0
    t.counts(auth_done=1, tls_done=1)
    (number, _), = t.tel("nvmf_controller").items()
    seen = t.tel("nvmf_controller", number)
    assert seen["tls"] == seen["proved"] == 1, seen
    assert t.term() == 0


if __name__ == "__main__":
    enter()
    main([test_data, test_refused, test_discovery, test_reload, test_later, test_removed, test_files, test_both])
