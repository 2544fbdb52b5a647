#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/wireshark/iwarp_ext.lua in tshark, on captures of the programs and on captures that the test writes.

test_wireshark.py BUILD [CASE...]
"""
import os
import re
import shutil
import struct
import subprocess
import sys

from weft_e2e import PROCS, Skip, app, main, make_file, memif, path, run

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
LUA = [os.path.join(TOP, "docs", "wireshark", n) for n in ("iwarp_ext.lua", "rpcordma2.lua")]
sys.path.insert(0, os.path.join(TOP, "test", "interop"))
from iwarp_peer import crc32c  # noqa: E402
from test_visible import Telemetry, start  # noqa: E402


def tshark(file, *args, lua=True):
    if shutil.which("tshark") is None:
        raise Skip("tshark is not installed")
    if "with Lua" not in run(["tshark", "--version"])[1]:
        raise Skip("tshark has no Lua")
    scripts = [a for n in LUA for a in ("-X", f"lua_script:{n}")] if lua else []
    rc, out, err = run(["tshark", "-r", file, *scripts, *args])
    assert rc == 0 and "Lua: Error" not in err and ".lua:" not in err, err
    return out


def fields(file, flt, *names):
    """For each frame and field: the list of its values."""
    args = ["-Y", flt, "-T", "fields", "-E", "aggregator=,"]
    for n in names:
        args += ["-e", n]
    return [[v.split(",") if v else [] for v in line.split("\t")] for line in tshark(file, *args).splitlines()]


def no_lua_errors(file):
    assert tshark(file, "-Y", "_ws.lua.error") == ""


# ---- Written captures: one connection, with every FPDU at a chosen place ----

def fpdu(ulpdu):
    """RFC 5044 s4: length, ULPDU, pad, CRC."""
    out = struct.pack(">H", len(ulpdu)) + ulpdu
    out += bytes(-len(out) % 4)
    return out + struct.pack("<I", crc32c(out))


def untagged(op, qn, body=b"", msn=1, mo=0, last=True):
    """RFC 5041 s4.3, RFC 5040 s4.1 (the opcode with the draft's fifth bit)."""
    return struct.pack(">BBIIII", 0x41 if last else 0x01, 0x40 | op, 0, qn, msn, mo) + body


def tagged(op, body, stag=7, to=0):
    return struct.pack(">BBIQ", 0xC1, 0x40 | op, stag, to) + body


def place(stag, length, to, rest=b""):
    return struct.pack(">IIQ", stag, length, to) + rest


FLUSH = untagged(0x0C, 1, place(0x11223344, 4096, 0x8000, struct.pack(">I", 3)))
IMM = untagged(0x08, 0, bytes(range(8)))
IMM_SE = untagged(0x09, 0, bytes(range(8, 16)))
VERIFY = untagged(0x0E, 1, place(0x55667788, 65536, 1 << 40, bytes.fromhex("cafef00d")))
VERIFY_NONE = untagged(0x0E, 1, place(0x55667788, 1, 2))
AWRITE = untagged(0x10, 1, place(0x99AABBCC, 8, 0x40, bytes.fromhex("0102030405060708")))
FLUSHED = untagged(0x0D, 3)
VERIFIED = untagged(0x0F, 3, bytes.fromhex("cafef00d"))
AWRITTEN = untagged(0x11, 3)
READ = untagged(0x01, 1, struct.pack(">IQIIQ", 1, 2, 3, 4, 5))
SEND = untagged(0x03, 0, bytes(range(200)))


class Conn:
    """A pcap file with one TCP connection in it, MPA started up."""

    def __init__(self, name, markers=0):
        self.pos = [0, 0] if markers else None  # position of the next FPDU in the stream
        self.f = open(path(name), "wb")
        self.f.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        self.seq, self.n = [1000, 5000], 0
        self.packet(0, b"", 0x02)
        self.packet(1, b"", 0x12)
        self.packet(0, b"MPA ID Req Frame" + struct.pack(">BBH", 0x40 | markers, 1, 0))
        self.packet(1, b"MPA ID Rep Frame" + struct.pack(">BBH", 0x40 | markers, 1, 0))

    def packet(self, way, data, flags=0x18):
        ends = [(b"\x0a\0\0\x02", 40000), (b"\x0a\0\0\x01", 7471)]
        (sa, sp), (da, dp) = ends[way], ends[1 - way]
        tcp = struct.pack(">HHIIBBHHH", sp, dp, self.seq[way], self.seq[1 - way], 0x50, flags, 65535, 0, 0) + data
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), self.n, 0, 64, 6, 0, sa, da)
        frame = bytes(12) + b"\x08\0" + ip + tcp
        self.f.write(struct.pack("<IIII", self.n, 0, len(frame), len(frame)) + frame)
        self.n += 1
        self.seq[way] += len(data) + (1 if flags & 2 else 0)

    def send(self, way, *ulpdus):
        self.packet(way, b"".join(self.marked(way, u) if self.pos else fpdu(u) for u in ulpdus))

    def marked(self, way, ulpdu):
        """RFC 5044 s4.3: a marker every 512 octets with the distance from the start of the FPDU. The CRC covers all."""
        out, begin = bytearray(), self.pos[way]
        plain = struct.pack(">H", len(ulpdu)) + ulpdu
        for part in (plain + bytes(-len(plain) % 4), None):
            part = struct.pack("<I", crc32c(bytes(out))) if part is None else part
            for i in range(0, len(part), 2):
                if (begin + len(out)) % 512 == 0:
                    out += struct.pack(">HH", 0, len(out))
                    if i == 0 and len(part) == 4 and len(out) > 4:
                        part = struct.pack("<I", crc32c(bytes(out)))
                out += part[i:i + 2]
        self.pos[way] += len(out)
        return bytes(out)

    def done(self):
        self.f.close()
        return self.f.name


def test_every_operation():
    """RFC 7306 s6; draft-talpey-rdma-commit-02 s2.1.1, s2.2.1, s2.3.1: the fields of each message, alone in its
    segment."""
    c = Conn("ops.pcap")
    for way, u in ((0, IMM), (0, IMM_SE), (0, FLUSH), (0, VERIFY), (0, VERIFY_NONE), (0, AWRITE), (1, FLUSHED),
                   (1, VERIFIED), (1, AWRITTEN)):
        c.send(way, u)
    f = c.done()
    got = fields(f, "iwarp_ext", "iwarp_ext.opcode")
    assert [int(x[0][0], 0) for x in got] == [8, 9, 12, 14, 14, 16, 13, 15, 17], got
    assert fields(f, "iwarp_ext.imm.data", "iwarp_ext.imm.data") == [[["0001020304050607"]], [["08090a0b0c0d0e0f"]]]
    got = fields(f, "iwarp_ext.flush.flags.persistent == 1 and iwarp_ext.flush.flags.visible == 1 and "
                 "iwarp_ext.flush.flags.region == 0", "iwarp_ext.flush.stag", "iwarp_ext.flush.length",
                 "iwarp_ext.flush.offset", "iwarp_ext.flush.flags")
    assert got == [[["0x11223344"], ["4096"], ["0x0000000000008000"], ["0x00000003"]]], got
    got = fields(f, "iwarp_ext.verify.stag", "iwarp_ext.verify.stag", "iwarp_ext.verify.length",
                 "iwarp_ext.verify.offset", "iwarp_ext.verify.hash")
    assert got == [[["0x55667788"], ["65536"], ["0x0000010000000000"], ["cafef00d"]],
                   [["0x55667788"], ["1"], ["0x0000000000000002"], []]], got
    assert fields(f, "iwarp_ext.verify.result", "iwarp_ext.verify.result") == [[["cafef00d"]]]
    got = fields(f, "iwarp_ext.atomic_write.data", "iwarp_ext.atomic_write.stag", "iwarp_ext.atomic_write.length",
                 "iwarp_ext.atomic_write.offset", "iwarp_ext.atomic_write.data")
    assert got == [[["0x99aabbcc"], ["8"], ["0x0000000000000040"], ["0102030405060708"]]], got
    text = tshark(f)
    for name in ("Immediate Data", "Immediate Data with SE", "Flush Request", "Flush Response", "Verify Request",
                 "Verify Response", "Atomic Write Request", "Atomic Write Response"):
        assert "{" + name + "}" in text, (name, text)
    # Wireshark misreads the last one, and nothing else.
    assert len(tshark(f, "-Y", "_ws.malformed").splitlines()) == 1
    assert tshark(f, "-Y", "_ws.malformed and not iwarp_ext.opcode == 17") == ""
    assert tshark(f, "-Y", "iwarp_ext.bad_length") == ""
    no_lua_errors(f)


def test_flags_of_flush():
    c = Conn("flags.pcap")
    for v in range(8):
        c.send(0, untagged(0x0C, 1, place(1, 2, 3, struct.pack(">I", v))))
    f = c.done()
    got = fields(f, "iwarp_ext.flush.flags", "iwarp_ext.flush.flags.persistent", "iwarp_ext.flush.flags.visible",
                 "iwarp_ext.flush.flags.region")
    flat = [[int(x[0] in ("1", "True")) for x in row] for row in got]
    assert flat == [[v & 1, v >> 1 & 1, v >> 2 & 1] for v in range(8)], got


def test_terminates():
    """RFC 5040 s4.8: our three codes are named. Wireshark itself names the others."""
    c = Conn("term.pcap")
    for way, word in ((1, 0x020A), (1, 0x020B), (1, 0x020C), (1, 0x0206), (1, 0x0101), (1, 0x120A), (1, 0x200B)):
        c.send(way, untagged(0x07, 2, struct.pack(">HBB", word, 0, 0)))
    f = c.done()
    got = fields(f, "iwarp_ext.term.code", "iwarp_ext.term.code", "frame.number")
    assert [int(x[0][0], 0) for x in got] == [0x0A, 0x0B, 0x0C] and [x[1] for x in got] == [["5"], ["6"], ["7"]], got
    out = tshark(f)
    for name in ("{Flush failed}", "{Hash mismatch}", "{Verify could not read the medium}"):
        assert name in out, out
    no_lua_errors(f)


def test_several_in_a_segment():
    """A commit posted at once and its answers. After an Atomic Write Response: a short Send and an empty FPDU."""
    c = Conn("many.pcap")
    c.send(0, tagged(0, bytes(100)), FLUSH, VERIFY, AWRITE, FLUSH)
    c.send(1, FLUSHED, VERIFIED, AWRITTEN, FLUSHED, READ, AWRITTEN, SEND, IMM)
    c.send(1, untagged(0x03, 0, b"short"), IMM_SE)
    c.send(1, b"", VERIFIED, b"", IMM)
    f = c.done()
    got = fields(f, "iwarp_ext", "iwarp_ext.opcode")
    ops = [[int(v, 0) for v in row[0]] for row in got]
    assert ops == [[12, 14, 16, 12], [13, 15, 17, 13, 17, 8], [9], [15, 8]], ops
    assert fields(f, "frame.number == 6", "iwarp_rdma.srcstag")[0][0][-1:] == ["0x00000004"]
    out = tshark(f, "-Y", "frame.number == 6")
    assert "{Flush Response; Verify Response; Atomic Write Response; Flush Response; Atomic Write Response; " \
        "Immediate Data}" in out, out
    no_lua_errors(f)


def test_markers():
    """Connections with markers, one FPDU in each segment (Wireshark 4.0 cannot parse more)."""
    c = Conn("markers.pcap", markers=0x80)
    for _ in range(40):
        for u in (IMM, FLUSH, VERIFY):
            c.send(0, u)
        c.send(1, FLUSHED)
    c.send(1, AWRITTEN)
    f = c.done()
    assert tshark(f, "-Y", "iwarp_mpa.markers") != "" and "Bad CRC" not in tshark(f, "-O", "iwarp_mpa")
    ops = [int(v, 0) for row in fields(f, "iwarp_ext", "iwarp_ext.opcode") for v in row[0]]
    assert ops == [8, 12, 14, 13] * 40 + [17], ops
    assert set(v for row in fields(f, "iwarp_ext.verify.hash", "iwarp_ext.verify.hash") for v in row[0]) == {"cafef00d"}
    no_lua_errors(f)


def test_over_segments():
    """FPDUs that begin in one segment and end in another. Messages in parts are named and not parsed."""
    c = Conn("split.pcap")
    stream = b"".join(fpdu(u) for u in (FLUSH, VERIFY, AWRITE, IMM))
    for i in range(0, len(stream), 40):
        c.packet(0, stream[i:i + 40])
    c.send(0, untagged(0x0E, 1, place(1, 2, 3), last=False))
    c.send(0, untagged(0x0E, 1, bytes(32), mo=16))
    f = c.done()
    ops = [int(v, 0) for row in fields(f, "iwarp_ext", "iwarp_ext.opcode") for v in row[0]]
    assert ops == [12, 14, 16, 8, 14, 14], ops
    assert len(fields(f, "iwarp_ext.verify.length", "iwarp_ext.verify.length")) == 1
    assert tshark(f).count("Verify Request (part)") == 2
    no_lua_errors(f)


def test_reserved_bits():
    """RFC 5040 s4.1: reserved bits of a Write, a Read Request and a Send are ignored, so these are not our messages."""
    c = Conn("rsv.pcap")
    c.send(0, tagged(0x10, bytes(40)))
    c.send(0, untagged(0x11, 1, READ[18:]))
    c.send(0, untagged(0x13, 0, bytes(200)))
    assert tshark(c.done(), "-Y", "iwarp_ext") == ""


def test_wrong_lengths():
    """Each message truncated and extended by every number of octets: the fault is reported, and there is no Lua error."""
    c = Conn("len.pcap")
    good = wrong = 0
    for u in (IMM, FLUSH, FLUSHED, VERIFY, VERIFIED, AWRITE, AWRITTEN):
        op, n = u[1] & 0x1F, len(u) - 18
        for m in range(0, 100):
            body = (u[18:] + bytes(100))[:m]
            right = {0x0E: 16 <= m <= 80, 0x0F: 1 <= m <= 64}.get(op, m == n)
            good, wrong = good + right, wrong + (not right)
            c.send(0, u[:18] + body)
    f = c.done()
    assert len(tshark(f, "-Y", "iwarp_ext").splitlines()) == good + wrong
    assert len(tshark(f, "-Y", "iwarp_ext.bad_length").splitlines()) == wrong
    no_lua_errors(f)


def test_torn():
    """Octets without an FPDU after a misread response, and truncated FPDUs: no field is invented, and there is no Lua
    error."""
    c = Conn("torn.pcap")
    whole = fpdu(AWRITTEN) + fpdu(IMM)
    for n in range(len(fpdu(AWRITTEN)), len(whole)):
        c.packet(1, whole[:n])
    c = Conn("torn2.pcap")
    for fill in (0x00, 0x41, 0xFF):
        c.packet(1, fpdu(AWRITTEN) + bytes([fill]) * 60)
    f = c.done()
    assert tshark(f, "-Y", "iwarp_ext.imm.data") == ""
    no_lua_errors(f)
    no_lua_errors(path("torn.pcap"))


# ---- Captures of the programs ----

class Console:
    """A weft-console that executes one command at a time."""

    def __init__(self, dev, address):
        self.p = subprocess.Popen([app("weft-console"), "--dev", dev, "--address", address], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        PROCS.append(self.p)

    def say(self, *lines):
        self.p.stdin.write("".join(line + "\n" for line in lines))
        self.p.stdin.flush()

    def until(self, pattern):
        seen = ""
        for line in self.p.stdout:
            seen += line
            m = re.search(pattern, line)
            if m:
                return m
        raise AssertionError(f"no '{pattern}' in: {seen}")

    def end(self):
        return self.p.communicate("quit\n", timeout=30)[0]


def marked(file):
    """Frames that Wireshark marks as malformed, except Atomic Write Responses. It marks short Sends of siw, too."""
    return tshark(file, "-Y", "_ws.malformed and not iwarp_ext.opcode == 17")


def test_push():
    """A captured push of weft-cp: a Flush and a Verify for each block, the commit, and no marked frame."""
    f = path("push.pcapng")
    t, tel = start("ws", {"demo": {"path": path("ws.exp"), "size": "4M"}})
    assert tel.ask(f"/weft/capture,p0,{f}") == f
    rc, out, err = t.cp(make_file("ws.src", 300000, 3), "weft://10.0.0.1/demo", args=["--block", "64K"])
    assert rc == 0, err
    st = tel.ask("/weft/capture_stop,p0")
    assert st["dropped"] == 0 and st["error"] == 0, st
    t.term()
    ops = [int(v, 0) for row in fields(f, "iwarp_ext", "iwarp_ext.opcode") for v in row[0]]
    n = {op: ops.count(op) for op in range(12, 18)}
    assert n[12] == n[13] >= 6 and n[14] == n[15] >= 5 and n[16] == n[17] == 1, n
    assert tshark(f, "-Y", "iwarp_ext.flush.flags.persistent == 1") != ""
    assert marked(f) == "" and tshark(f, "-Y", "iwarp_ext.bad_length") == ""
    hashes = {v for row in fields(f, "iwarp_ext.verify.hash", "iwarp_ext.verify.hash") for v in row[0]}
    results = {v for row in fields(f, "iwarp_ext.verify.result", "iwarp_ext.verify.result") for v in row[0]}
    assert hashes == results, (hashes, results)
    no_lua_errors(f)


def test_ping():
    """A captured weft-ping: rping's messages in rping's order, and no marked frame."""
    sock, f = path("wp.sock"), path("ping.pcapng")
    conf = path("wp.ini")
    with open(conf, "w") as c:
        c.write(f"[weft]\ntelemetry = yes\n[port p0]\ndev = {memif(0, 'server', sock)}\naddress = 10.0.0.1/24\n")
    p = subprocess.Popen([app("weft-ping"), "-s", "-P", "--config", conf], stderr=subprocess.PIPE, text=True)
    PROCS.append(p)
    assert any("telemetry: " in line for line in iter(p.stderr.readline, ""))
    tel = Telemetry(p.pid)
    assert tel.ask(f"/weft/capture,p0,{f}") == f
    rc, out, err = run([app("weft-ping"), "-c", "-V", "-C", "3", "-S", "3000", "-a", "10.0.0.1", "--dev",
                        memif(0, "client", sock), "--address", "10.0.0.2/24"])
    assert rc == 1 and "ping 0" in err, err
    rc, out, err = run([app("weft-ping"), "-c", "-V", "-C", "3", "-a", "10.0.0.1", "--dev",
                        memif(0, "client", sock), "--address", "10.0.0.2/24"])
    assert rc == 0, err
    st = tel.ask("/weft/capture_stop,p0")
    assert st["dropped"] == 0 and st["error"] == 0, st
    p.terminate()
    p.wait(timeout=20)
    assert tshark(f, "-Y", "_ws.malformed or iwarp_ext") == ""
    # As in captures of rping: IRD 1, ORD 1, no private data.
    assert fields(f, "iwarp_mpa.req", "iwarp_mpa.privatedata") == [[["00010001"]]] * 2
    # 3: Send, 1: Read Request, 2: Read Response, 0: Write.
    for stream, want in ((0, [3]), (1, [3, 1, 2, 3, 3, 0, 3] * 3)):
        ops = [int(v, 0) for row in fields(f, f"tcp.stream == {stream} and iwarp_ddp_rdmap", "iwarp_rdma.opcode")
               for v in row[0]]
        assert ops == want, (stream, ops)
    sends = [v for row in fields(f, "tcp.stream == 1 and iwarp_rdma.opcode == 3 and ip.src == 10.0.0.2", "data")
             for v in row[0]]
    assert len(sends) == 6 and all(len(v) == 32 and v.endswith("00000040") for v in sends), sends


def test_console_posts():
    """One operation of each kind by weft-console, captured at the responder. A wrong hash ends in our Terminate."""
    sock, f = path("wc.sock"), path("console.pcapng")
    a = Console(memif(0, "server", sock), "10.0.0.1/24")
    a.say(f"register file {path('wc.exp')} 65536", "listen 7471")
    stag = a.until(r"stag (0x[0-9a-f]+)").group(1)
    a.until("listening")
    b = Console(memif(0, "client", sock), "10.0.0.2/24")
    a.say(f"capture port p0 {f}", "show port")
    a.until("tx ")
    b.say("connect 10.0.0.1 7471", "register memory 8192", "fill 1 0 4096 hello", f"post write 1 1 0 4096 {stag} 0",
          f"post flush 1 {stag} 0 4096 p", "wait 5000", f"post atomic-write 1 {stag} 8 0x1122334455667788",
          f"post cmp-swap 1 {stag} 4096 0 7", f"post fetch-add 1 {stag} 4096 2", "post imm 1 0x1122", "wait 5000",
          f"post verify 1 {stag} 0 4096", "post send 1 greetings", "wait 5000",
          f"post verify 1 {stag} 0 4096 00000000", "wait 5000")
    b.until("(?i)hash mismatch")
    a.say("capture stop p0")
    a.until("captured")
    b.end()
    a.end()
    assert fields(f, "iwarp_ext.flush.flags", "iwarp_ext.flush.stag", "iwarp_ext.flush.length",
                  "iwarp_ext.flush.flags.persistent")[0] == [[stag], ["4096"], ["1"]]
    data = fields(f, "iwarp_ext.atomic_write.data", "iwarp_ext.atomic_write.offset", "iwarp_ext.atomic_write.data")
    assert data == [[["0x0000000000000008"], ["1122334455667788"]]], data
    assert fields(f, "iwarp_ext.imm.data", "iwarp_ext.imm.data") == [[["0000000000001122"]]]
    # Wireshark's own dissector knows RFC 7306's Atomics.
    name = "iwarp_rdma.atomic."

    def values(field):
        """The values in all frames. Several FPDUs may be in one frame."""
        return [int(v, 0) for row in fields(f, name + field, name + field) for v in row[0]]

    ones = 2**64 - 1
    assert values("remote_stag") == [int(stag, 0)] * 2 and values("remote_tagged_offset") == [4096] * 2
    assert values("swap_data") == [7] and values("swap_mask") == [ones]
    # s5.2.1: in a FetchAdd they are zero and all ones.
    assert values("compare_data") == [0, 0] and values("compare_mask") == [ones, ones]
    assert values("add_data") == [2] and values("add_mask") == [0]
    assert len(values("request_identifier")) == 2
    assert values("original_request_identifier") == values("request_identifier")
    assert values("original_remote_data_value") == [0, 7]
    assert fields(f, "iwarp_ext.verify.hash", "iwarp_ext.verify.hash")[-1] == [["00000000"]]
    assert [int(x[0][0], 0) for x in fields(f, "iwarp_ext.term.code", "iwarp_ext.term.code")] == [0x0B]
    # A message of nine octets: siw's short Sends are marked in the same way.
    assert len(marked(f).splitlines()) <= 1 and "Send" in (marked(f) or "Send"), marked(f)
    no_lua_errors(f)


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
