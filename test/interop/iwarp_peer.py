#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""An iWARP peer on plain kernel sockets, for tests.

An independent reading of RFC 5044 (MPA), RFC 6581 (MPA revision 2), RFC 5041 (DDP) and
RFC 5040 (RDMAP); it shares no code with the stack it is run against. It is slow and it is
strict: whatever a MUST forbids the other side ends the run with a message.

  iwarp_peer.py client ADDR PORT [--rev N] [--fault KIND]
  iwarp_peer.py server ADDR PORT [--rev N]
  iwarp_peer.py selftest

The script both sides follow after start-up (I initiator, R responder):

  I: Send a description of a region           R: the same
  I: Write a pattern into R's region, Read it back, Send "W1"
  R: check the region, Write and Read I's region, Send "W2"
  I: check the region; Send messages of many sizes, which R sends back
  I: Send "QUIT"; R sends it back; I closes
"""

import argparse
import socket
import struct
import sys
import threading

# ---- CRC32c (RFC 5044 s4.4; the polynomial and the vectors are RFC 3720's) ----


def _crc_table():
    table = []
    for n in range(256):
        c = n
        for _ in range(8):
            c = (c >> 1) ^ (0x82F63B78 if c & 1 else 0)
        table.append(c)
    return table


CRC_TABLE = _crc_table()


def crc32c(data):
    c = 0xFFFFFFFF
    table = CRC_TABLE
    for b in data:
        c = (c >> 8) ^ table[(c ^ b) & 0xFF]
    return c ^ 0xFFFFFFFF


class Fault(Exception):
    """The other side broke a rule."""


class Terminated(Exception):
    """The other side sent a Terminate."""

    def __init__(self, layer, etype, code):
        super().__init__(f"Terminate: layer {layer} type {etype} code {code:#x}")
        self.layer, self.etype, self.code = layer, etype, code


class Closed(Exception):
    """The stream ended."""


def must(cond, what):
    if not cond:
        raise Fault(what)


# ---- MPA (RFC 5044) ----

REQ_KEY = b"MPA ID Req Frame"
REP_KEY = b"MPA ID Rep Frame"
FLAG_M, FLAG_C, FLAG_R, FLAG_S = 0x80, 0x40, 0x20, 0x10


class Mpa:
    """Start-up frames, then FPDUs without markers. CRC is always on."""

    def __init__(self, sock, rev=2, ird=8, ord_=8):
        self.sock = sock
        self.rev = rev
        self.ird, self.ord = ird, ord_
        self.peer_ird = self.peer_ord = None
        self.private = b""
        self.corrupt_next = False
        try:
            mss = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        except OSError:
            mss = 1448
        # s4.5: an FPDU fits a segment. Subtract ULPDU_Length, pad and CRC.
        self.mulpdu = min((mss & ~3) - 6, 65000)

    def _read(self, n):
        out = bytearray()
        while len(out) < n:
            piece = self.sock.recv(n - len(out))
            if not piece:
                if out:
                    raise Fault(f"stream ended {n - len(out)} octets early")
                raise Closed()
            out += piece
        return bytes(out)

    def _frame(self, key, rev, private, flags):
        if rev >= 2:
            # RFC 6581 s9: client-server model, so control flags A to D are 0.
            private = struct.pack(">HH", self.ird, self.ord) + private
            flags |= FLAG_S
        return key + struct.pack(">BBH", flags, rev, len(private)) + private

    def _parse(self, key):
        head = self._read(20)
        must(head[:16] == key, f"MPA key {head[:16]!r}")
        flags, rev, pd_len = struct.unpack(">BBH", head[16:])
        must(pd_len <= 512, f"PD_Length {pd_len} (RFC 5044 s7.1.1)")
        must(not flags & 0x0F, f"reserved start-up bits {flags:#x} set")
        private = self._read(pd_len) if pd_len else b""
        if flags & FLAG_S and rev >= 2:
            must(len(private) >= 4, "S flag without enhanced data (RFC 6581 s6)")
            w_ird, w_ord = struct.unpack(">HH", private[:4])
            if not w_ird & 0x8000:
                must(not w_ird & 0x4000 and not w_ord & 0xC000, "flags B, C, D without A (RFC 6581 s9.2)")
            self.peer_ird, self.peer_ord = w_ird & 0x3FFF, w_ord & 0x3FFF
            private = private[4:]
        else:
            must(not flags & FLAG_S, "S flag in revision 1")
        return flags, rev, private

    def initiate(self, private=b""):
        self.sock.sendall(self._frame(REQ_KEY, self.rev, private, FLAG_C))
        flags, rev, self.private = self._parse(REP_KEY)
        must(not flags & FLAG_M, "the reply requires markers")
        if flags & FLAG_R:
            raise Fault("connection rejected")
        must(rev == self.rev, f"reply has revision {rev}, request {self.rev}")
        if self.peer_ird is not None:
            # RFC 6581 s9.1: responder ORD <= initiator IRD.
            must(self.peer_ord <= self.ird, f"responder ORD {self.peer_ord} above our IRD {self.ird}")
            self.ord = min(self.ord, self.peer_ird)

    def respond(self, private=b""):
        flags, rev, self.private = self._parse(REQ_KEY)
        must(not flags & FLAG_M, "the request requires markers")
        must(rev in (1, 2), f"revision {rev}")
        must(rev == self.rev, f"revision {rev}, expected {self.rev}")
        if self.peer_ird is not None:
            self.ord = min(self.ord, self.peer_ird)
            self.ird = max(self.ird, self.peer_ord)
        self.sock.sendall(self._frame(REP_KEY, rev, private, FLAG_C))

    def send(self, ulpdu):
        must(len(ulpdu) <= self.mulpdu, "our own ULPDU is too long")
        fpdu = struct.pack(">H", len(ulpdu)) + ulpdu
        fpdu += bytes(-len(fpdu) % 4)
        crc = crc32c(fpdu)
        if self.corrupt_next:
            crc ^= 0x01000000
            self.corrupt_next = False
        # The CRC is sent with the least significant octet first, as in iSCSI.
        self.sock.sendall(fpdu + struct.pack("<I", crc))

    def recv(self):
        head = self._read(2)
        (n,) = struct.unpack(">H", head)
        pad = -(2 + n) % 4
        rest = self._read(n + pad + 4)
        body, (crc,) = rest[:-4], struct.unpack("<I", rest[-4:])
        must(crc == crc32c(head + body), "FPDU with a bad CRC")
        must(not any(body[n:]), "pad is not zero (RFC 5044 s4.1)")
        return body[:n]


# ---- DDP (RFC 5041) and RDMAP (RFC 5040) ----

T, L, DV = 0x80, 0x40, 0x01
RV = 0x40
WRITE, READ_REQ, READ_RESP, SEND, SEND_INV, SEND_SE, SEND_SE_INV, TERMINATE = range(8)
# Figure 4 of RFC 5040: tagged opcodes, and the queue of the untagged ones.
TAGGED = (WRITE, READ_RESP)
QUEUE = {READ_REQ: 1, SEND: 0, SEND_INV: 0, SEND_SE: 0, SEND_SE_INV: 0, TERMINATE: 2}


class Region:
    def __init__(self, stag, base, size):
        self.stag, self.base, self.mem = stag, base, bytearray(size)

    def check(self, to, n):
        off = to - self.base
        must(0 <= off and off + n <= len(self.mem), f"access to {to:#x}+{n} is out of bounds")
        return off


class Rdmap:
    """One stream: it sends messages, and places received segments."""

    def __init__(self, mpa):
        self.mpa = mpa
        self.msn_out = {0: 1, 1: 1, 2: 1}
        self.msn_in = {0: 1, 1: 1, 2: 1}
        self.regions = {}
        self.messages = []  # received Sends
        self.partial = None  # data of the Send that is arriving
        self.reads = []  # outstanding: [region, next TO, end TO]
        self.reads_done = 0
        self.tagged_open = None  # (opcode, STag, next TO) of an incomplete tagged message

    # -- out --

    def _tagged(self, op, stag, to, data):
        step = self.mpa.mulpdu - 14
        pos = 0
        while True:
            piece = data[pos : pos + step]
            last = pos + len(piece) == len(data)
            head = struct.pack(">BBIQ", T | (L if last else 0) | DV, RV | op, stag, to + pos)
            self.mpa.send(head + piece)
            pos += len(piece)
            if last:
                return

    def _untagged(self, op, data, inv_stag=0):
        qn = QUEUE[op]
        msn = self.msn_out[qn]
        self.msn_out[qn] = (msn + 1) & 0xFFFFFFFF
        step = self.mpa.mulpdu - 18
        pos = 0
        while True:
            piece = data[pos : pos + step]
            last = pos + len(piece) == len(data)
            head = struct.pack(">BBIIII", (L if last else 0) | DV, RV | op, inv_stag, qn, msn, pos)
            self.mpa.send(head + piece)
            pos += len(piece)
            if last:
                return

    def send(self, data, solicited=False):
        self._untagged(SEND_SE if solicited else SEND, data)

    def write(self, stag, to, data):
        self._tagged(WRITE, stag, to, data)

    def read(self, sink, sink_off, size, stag, to):
        """Post a Read into region `sink`. wait_read() completes it."""
        must(len(self.reads) < self.mpa.ord, "more Reads than ORD")
        at = sink.base + sink_off
        self.reads.append([sink, at, at + size])
        self._untagged(READ_REQ, struct.pack(">IQIIQ", sink.stag, at, size, stag, to))

    def terminate(self, layer, etype, code):
        self._untagged(TERMINATE, struct.pack(">BBH", layer << 4 | etype, code, 0))

    # -- in --

    def step(self):
        """Receive and process one FPDU."""
        seg = self.mpa.recv()
        must(len(seg) >= 14, "shorter than any DDP header")
        ctrl, rctrl = seg[0], seg[1]
        op = rctrl & 0x0F
        must(ctrl & 0x03 == 1, f"DDP version {ctrl & 3}")
        must(not ctrl & 0x3C, "reserved DDP bits set")
        must(rctrl >> 6 == 1, f"RDMAP version {rctrl >> 6}")
        must(not rctrl & 0x30, "reserved RDMAP bits set")
        if ctrl & T:
            must(op in TAGGED, f"opcode {op} in a tagged segment")
            self._in_tagged(op, bool(ctrl & L), seg)
        else:
            must(op in QUEUE, f"opcode {op} in an untagged segment")
            must(len(seg) >= 18, "shorter than an untagged header")
            self._in_untagged(op, bool(ctrl & L), seg)

    def _in_tagged(self, op, last, seg):
        stag, to = struct.unpack(">IQ", seg[2:14])
        data = seg[14:]
        must(data or last, "an empty segment that is not the last")
        if self.tagged_open is not None:
            # RFC 5041 s5.2: segments of one message, in order, are contiguous.
            must(self.tagged_open == (op, stag, to), f"tagged message broken off at {to:#x}")
        if op == READ_RESP:
            must(self.reads, "Read Response to nothing")
            sink, at, end = self.reads[0]
            must(stag == sink.stag and to == at, "Read Response out of place")
            off = sink.check(to, len(data))
            sink.mem[off : off + len(data)] = data
            self.reads[0][1] += len(data)
            must(self.reads[0][1] <= end, "Read Response too long")
            must(last == (self.reads[0][1] == end), "Read Response: L flag in the wrong place")
            if last:
                self.reads.pop(0)
                self.reads_done += 1
        elif data:
            must(stag in self.regions, f"Write to STag {stag:#x}")
            region = self.regions[stag]
            off = region.check(to, len(data))
            region.mem[off : off + len(data)] = data
        self.tagged_open = None if last else (op, stag, to + len(data))

    def _in_untagged(self, op, last, seg):
        inv, qn, msn, mo = struct.unpack(">IIII", seg[2:18])
        data = seg[18:]
        must(self.tagged_open is None, "untagged segment inside a tagged message")
        must(qn == QUEUE[op], f"opcode {op} on queue {qn}")
        must(msn == self.msn_in[qn], f"queue {qn}: MSN {msn}, expected {self.msn_in[qn]}")
        if op not in (SEND_INV, SEND_SE_INV):
            must(inv == 0, "Invalidate STag field is not zero")
        have = 0 if self.partial is None else len(self.partial)
        must(mo == have, f"MO {mo}, expected {have}")
        must(data or last, "an empty segment that is not the last")
        self.partial = (self.partial or b"") + data
        if not last:
            return
        whole, self.partial = self.partial, None
        self.msn_in[qn] = (msn + 1) & 0xFFFFFFFF
        if op == READ_REQ:
            self._serve_read(whole)
        elif op == TERMINATE:
            must(len(whole) >= 4, "Terminate without its control word")
            raise Terminated(whole[0] >> 4, whole[0] & 15, whole[1])
        else:
            self.messages.append(whole)

    def _serve_read(self, body):
        must(len(body) == 28, f"Read Request of {len(body)} octets")
        sink, sink_to, size, stag, to = struct.unpack(">IQIIQ", body)
        if size == 0:
            self._tagged(READ_RESP, sink, sink_to, b"")
            return
        must(stag in self.regions, f"Read from STag {stag:#x}")
        region = self.regions[stag]
        off = region.check(to, size)
        self._tagged(READ_RESP, sink, sink_to, bytes(region.mem[off : off + size]))

    # -- waiting --

    def wait_message(self):
        while not self.messages:
            self.step()
        return self.messages.pop(0)

    def wait_reads(self):
        while self.reads:
            self.step()


# ---- The script ----

MAGIC = b"weftiop1"
REGION_BYTES = 100000
PATTERN_OFF, PATTERN_BYTES = 101, 70001
ECHO_SIZES = (1, 2, 3, 4, 5, 64, 1000, 1430, 1431, 5000, 20000)
FAULTS = {
    # The expected Terminate: layer, type, code (RFC 5041 s7.2, RFC 5040 s4.8, RFC 5044 s8).
    "write-stag": (1, 1, 0x00),
    "write-bounds": (1, 1, 0x01),
    "read-stag": (0, 1, 0x00),
    "opcode": (0, 2, 0x06),
    "ddp-version": (1, 2, 0x06),
    "qn": (1, 2, 0x01),
    "crc": (2, 0, 0x02),
}


def pattern(which, n):
    """Octets that differ at every offset. `which` distinguishes the two sides."""
    return bytes((i * 7 + (i >> 8) * 13 + which * 101) & 0xFF for i in range(n))


def describe(region):
    return MAGIC + struct.pack(">IIQ", region.stag, len(region.mem), region.base)


def parse_description(msg):
    must(len(msg) == 24 and msg[:8] == MAGIC, "not a description of a region")
    return struct.unpack(">IIQ", msg[8:])


def push_and_pull(r, which, sink, peer):
    """Write our pattern into the peer's region, and Read it back."""
    stag, size, base = peer
    data = pattern(which, PATTERN_BYTES)
    must(PATTERN_OFF + PATTERN_BYTES <= size, "the peer's region is too small")
    r.write(stag, base + PATTERN_OFF, data)
    half = PATTERN_BYTES // 2
    r.read(sink, 0, half, stag, base + PATTERN_OFF)
    r.read(sink, half, PATTERN_BYTES - half, stag, base + PATTERN_OFF + half)
    r.wait_reads()
    must(bytes(sink.mem[:PATTERN_BYTES]) == data, "what was read is not what was written")


def check_region(region, which):
    got = bytes(region.mem[PATTERN_OFF : PATTERN_OFF + PATTERN_BYTES])
    must(got == pattern(which, PATTERN_BYTES), "the region does not hold what the peer wrote")
    must(not any(region.mem[:PATTERN_OFF]), "octets before the Write were touched")
    must(not any(region.mem[PATTERN_OFF + PATTERN_BYTES :]), "octets behind the Write were touched")


def setup(sock, rev):
    r = Rdmap(Mpa(sock, rev))
    region = Region(0x0ABC1200, 0x7700000000, REGION_BYTES)
    sink = Region(0x0ABC1301, 0, REGION_BYTES)
    for reg in (region, sink):
        r.regions[reg.stag] = reg
    return r, region, sink


def run_fault(r, kind, peer):
    stag, size, base = peer
    if kind == "write-stag":
        r.write(stag ^ 0x00FFFF00, base, b"x" * 100)
    elif kind == "write-bounds":
        r.write(stag, base + size - 50, b"x" * 100)
    elif kind == "read-stag":
        sink = next(iter(r.regions.values()))
        r.read(sink, 0, 100, stag ^ 0x00FFFF00, base)
    elif kind == "opcode":
        # A Read Response, which is always tagged (RFC 5040 s4.1 Figure 4), on queue 0.
        r.mpa.send(struct.pack(">BBIIII", L | DV, RV | 0x2, 0, 0, r.msn_out[0], 0) + b"data1234")
    elif kind == "ddp-version":
        r.mpa.send(struct.pack(">BBIIII", L | 2, RV | SEND, 0, 0, r.msn_out[0], 0) + b"data")
    elif kind == "qn":
        r.mpa.send(struct.pack(">BBIIII", L | DV, RV | SEND, 0, 9, 1, 0) + b"data")
    elif kind == "crc":
        r.mpa.corrupt_next = True
        r.send(b"damaged")
    try:
        while True:
            r.step()
    except Terminated as t:
        want = FAULTS[kind]
        must((t.layer, t.etype, t.code) == want, f"{t}, expected {want}")
    try:
        r.step()
    except (Closed, ConnectionResetError):
        return
    raise Fault("the stream goes on after a Terminate")


def run_initiator(sock, rev, fault=None):
    r, region, sink = setup(sock, rev)
    r.mpa.initiate(b"python initiator")
    r.send(describe(region))
    peer = parse_description(r.wait_message())
    if fault:
        run_fault(r, fault, peer)
        return
    push_and_pull(r, 1, sink, peer)
    r.send(b"W1")
    must(r.wait_message() == b"W2", "expected W2")
    check_region(region, 2)
    for n in ECHO_SIZES:
        r.send(pattern(3, n), solicited=n % 2 == 0)
        must(r.wait_message() == pattern(3, n), f"echo of {n} octets differs")
    r.send(b"QUIT")
    must(r.wait_message() == b"QUIT", "expected QUIT")
    sock.shutdown(socket.SHUT_WR)
    try:
        r.step()
    except Closed:
        return
    raise Fault("data after the end")


def run_responder(sock, rev):
    r, region, sink = setup(sock, rev)
    r.mpa.respond(b"python responder")
    peer = parse_description(r.wait_message())
    r.send(describe(region))
    must(r.wait_message() == b"W1", "expected W1")
    check_region(region, 1)
    push_and_pull(r, 2, sink, peer)
    r.send(b"W2")
    while True:
        msg = r.wait_message()
        r.send(msg)
        if msg == b"QUIT":
            break
    try:
        r.step()
    except Closed:
        return
    raise Fault("data after QUIT")


# ---- Self-test ----


class Hostile:
    """A responder for the self-test of the faults. It answers as RFC 5040 requires."""

    @staticmethod
    def run(sock, answer):
        r, region, _ = setup(sock, 2)
        r.mpa.respond()
        r.wait_message()
        r.send(describe(region))
        try:
            r.step()
        except (Fault, Terminated):
            pass
        r.terminate(*answer)


def in_thread(fn, *args):
    errors = []

    def body():
        try:
            with args[0]:
                fn(*args)
        except Exception as e:  # reported by the caller
            errors.append(e)

    t = threading.Thread(target=body, daemon=True)
    t.start()
    return t, errors


def test_crc():
    # RFC 3720 B.4 (also RFC 7143 A.4): octets in the order on the wire.
    for data, want in (
        (bytes(32), "aa36918a"),
        (b"\xff" * 32, "43aba862"),
        (bytes(range(32)), "4e79dd46"),
        (bytes(range(31, -1, -1)), "5cdb3f11"),
    ):
        must(struct.pack("<I", crc32c(data)).hex() == want, "crc32c vector")


def connected():
    pair = socket.socketpair()
    for s in pair:
        s.settimeout(20)
    return pair


def test_script(rev):
    a, b = connected()
    t, errors = in_thread(run_responder, b, rev)
    run_initiator(a, rev)
    a.close()
    t.join(20)
    must(not errors and not t.is_alive(), f"responder: {errors}")


def test_faults():
    # The checks work: the right Terminate passes, and a wrong one does not.
    for kind, want in FAULTS.items():
        for answer in (want, (want[0], want[1], want[2] ^ 0x10)):
            a, b = connected()
            t, _ = in_thread(Hostile.run, b, answer)
            caught = False
            try:
                run_initiator(a, 2, kind)
            except Fault:
                caught = True
            must(caught == (answer != want), f"{kind}: answer {answer} judged wrongly")
            a.close()
            t.join(20)


def test_damage():
    a, b = connected()
    ma, mb = Mpa(a), Mpa(b)
    ma.corrupt_next = True
    ma.send(b"hello")
    caught = False
    try:
        mb.recv()
    except Fault:
        caught = True
    must(caught, "a bad CRC went unnoticed")
    a.close()
    b.close()


def selftest():
    """TAP."""
    cases = (
        ("crc32c vectors", test_crc),
        ("script, revision 1", lambda: test_script(1)),
        ("script, revision 2", lambda: test_script(2)),
        ("faults and their Terminates", test_faults),
        ("damaged FPDU", test_damage),
    )
    failed = 0
    for n, (name, fn) in enumerate(cases, 1):
        try:
            fn()
            print(f"ok {n} {name}")
        except Exception as e:
            failed += 1
            print(f"not ok {n} {name}\n# {type(e).__name__}: {e}")
    print(f"1..{len(cases)}")
    return 1 if failed else 0


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("mode", choices=("client", "server", "selftest"))
    p.add_argument("addr", nargs="?")
    p.add_argument("port", nargs="?", type=int)
    p.add_argument("--rev", type=int, default=2, choices=(1, 2))
    p.add_argument("--fault", choices=sorted(FAULTS))
    p.add_argument("--timeout", type=float, default=20)
    args = p.parse_args()
    try:
        if args.mode == "selftest":
            return selftest()
        if args.mode == "client":
            with socket.create_connection((args.addr, args.port), timeout=args.timeout) as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                run_initiator(s, args.rev, args.fault)
        else:
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.settimeout(args.timeout)
                listener.bind((args.addr, args.port))
                listener.listen(1)
                print("listening", flush=True)
                s, _ = listener.accept()
                with s:
                    s.settimeout(args.timeout)
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    run_responder(s, args.rev)
    except (Fault, Terminated, Closed, OSError) as e:
        print(f"iwarp_peer: {type(e).__name__}: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
