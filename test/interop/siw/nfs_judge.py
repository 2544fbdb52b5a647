# SPDX-License-Identifier: BSD-3-Clause
"""Judge the capture of run_nfs.py: RPC-over-RDMA version 1 as tshark dissects it, our messages compared with Linux's."""
import struct

from kernel_net import check
from siw_judge import complaint, fields, marked, numbers

FIELDS = ["frame.number", "tcp.stream", "ip.src", "tcp.flags", "_ws.malformed", "_ws.expert.severity", "_ws.expert.message",
          "iwarp_rdma.opcode", "rpcordma.xid", "rpcordma.version", "rpcordma.flow_control", "rpcordma.msg_type", "rpcordma.reads_count",
          "rpcordma.writes_count", "rpcordma.reply_count", "rpcordma.position", "rpcordma.rdma_length", "rpc.program",
          "rpc.msgtyp", "nfs.procedure_v3", "nfs.status3"]
MSG, NOMSG = 0, 1  # RDMA_MSG and RDMA_NOMSG (RFC 8166 s4.2)
READ, WRITE, READDIR = 6, 7, 16
SENDS = {3, 4, 5, 6}
ERROR, ERR_VERS = 4, 1
INLINE = 1024  # RFC 8166 s3.3.2


def first(text):
    """A field's first value; -1 if there is none."""
    return (numbers(text) or [-1])[0]


def swapped(file, stream_no, out):
    """A copy of a capture in which two successive frames of one sender, in the middle of a stream, are exchanged."""
    payload = [(int(v["frame.number"]) - 1, v["ip.src"]) for v in fields(file, ["frame.number", "ip.src"], "-Y",
                                                                         f"tcp.stream == {stream_no} && tcp.len > 1000")]
    pairs = [i for (i, a), (j, b) in zip(payload, payload[1:]) if j == i + 1 and a == b]
    check(pairs, "no two long frames follow each other")
    at = pairs[len(pairs) // 2]
    with open(file, "rb") as f:
        head, rest = f.read(24), f.read()
    check(head[:4] == b"\xd4\xc3\xb2\xa1", "not a pcap of this machine")
    frames, pos = [], 0
    while pos < len(rest):
        when, (captured, length) = rest[pos:pos + 8], struct.unpack_from("<II", rest, pos + 8)
        frames.append((when, struct.pack("<II", captured, length) + rest[pos + 16:pos + 16 + captured]))
        pos += 16 + captured
    (t0, a), (t1, b) = frames[at:at + 2]
    frames[at:at + 2] = (t0, b), (t1, a)
    with open(out, "wb") as f:
        f.write(head + b"".join(when + frame for when, frame in frames))


class Message:
    """Content of one RPC-over-RDMA header and of the message behind it."""

    def __init__(self, v, ours):
        self.frame, self.stream, self.ours = v["frame.number"], int(v["tcp.stream"]), ours
        self.xid, self.vers, self.credits, self.type = (first(v["rpcordma." + f]) for f in ("xid", "version", "flow_control", "msg_type"))
        self.reads, self.writes, self.reply = (first(v[f"rpcordma.{f}_count"]) for f in ("reads", "writes", "reply"))
        self.position, self.length = first(v["rpcordma.position"]), first(v["rpcordma.rdma_length"])
        self.program, self.is_reply, self.proc = (first(v[f]) for f in ("rpc.program", "rpc.msgtyp", "nfs.procedure_v3"))
        self.status = first(v["nfs.status3"])


class Capture:
    """weft: its address. runs: the purpose of each connection, in order."""

    def __init__(self, file, weft, runs):
        self.file, self.weft, self.runs = file, weft, runs
        self.frames = fields(file, FIELDS, "-Y", "tcp")
        self.short = fields(file, ["tcp.stream", "ip.src", "iwarp_rdma.opcode", "tcp.payload"], "-Y", "iwarp_rdma && tcp.len < 300")
        self.messages = [Message(v, v["ip.src"] == weft) for v in self.frames if v["rpcordma.version"]]

    def of(self, run, ours, proc=None):
        return [m for m in self.messages
                if m.stream == self.runs.index(run) and m.ours == ours and (proc is None or m.proc == proc)]

    def connections(self):
        """One connection for each run: no side connects again, neither after a refused version nor otherwise."""
        seen = sum(first(v["tcp.flags"]) & 0x12 == 0x02 for v in self.frames)  # SYN without ACK
        check(seen == len(self.runs), f"{seen} connections instead of {len(self.runs)}")

    def decoded(self):
        """Every Send of ours is dissected, except two of version 2. Its content is a call, and each call has one reply."""
        lost = [self.runs[int(v["tcp.stream"])] for v in self.frames
                if v["ip.src"] == self.weft and SENDS & set(numbers(v["iwarp_rdma.opcode"])) and not v["rpcordma.version"]]
        check(lost == ["falls back", "version 2 alone"], f"not taken for RPC-over-RDMA: {lost[:10]}")
        for run in set(self.runs) - {"version 2 alone"}:
            calls, replies = self.of(run, True), self.of(run, False)
            check(calls and len(calls) == len(replies), f"{run}: {len(calls)} calls, {len(replies)} replies")
            check([m.xid for m in calls] == [m.xid for m in replies], f"{run}: xids differ")
            check(all(m.vers == 1 and m.credits > 0 for m in calls + replies), f"{run}: version or credits")
            # For a call with a Read list tshark waits for the rest, for Linux's calls as for ours.
            strange = [m.frame for m in calls if (m.program, m.is_reply) != (100003, 0) and not m.reads]
            strange += [m.frame for m in replies if (m.program, m.is_reply) != (100003, 1)]
            check(not strange, f"{run}: not NFS: frames {strange[:10]}")

    def reordered(self):
        """The result does not depend on the order of frames."""
        for run in ("reads", "writes"):
            other = self.file + ".swapped"
            swapped(self.file, self.runs.index(run), other)
            Capture(other, self.weft, self.runs).decoded()

    def reads(self, sizes):
        """A Write list of one chunk with the requested length. It is returned with the length that was written."""
        for run in ("reads", "reads in place"):
            calls, replies = self.of(run, True, READ), self.of(run, False, READ)
            check(all((m.type, m.reads, m.writes, m.reply) == (MSG, 0, 1, 0) for m in calls + replies), f"{run}: chunk lists")
            check([m.length for m in calls] == [*sizes, 1 << 20, 4, 100], f"{run}: asked for {[m.length for m in calls]}")
            check([m.length for m in replies] == [*sizes, 1000, 4, 0], f"{run}: written {[m.length for m in replies]}")
            check(all(m.status == 0 for m in replies), f"{run}: a status")

    def writes(self, sizes):
        """A Read list of one chunk at the data's position, without its padding. Data that fit are sent inline."""
        calls = [m for m in self.of("writes", True) if m.reads or m.proc == WRITE]
        chunked = [m for m in calls if m.reads]
        check(len(calls) == len(sizes), f"{len(calls)} calls of WRITE")
        check([m.length for m in chunked] == [n for n in sizes if n >= INLINE - 24], f"by chunks: {[m.length for m in chunked]}")
        check(all((m.type, m.writes, m.reply) == (MSG, 0, 0) for m in calls), "chunk lists")
        check(len({m.position for m in chunked}) == 1 and chunked[0].position > 0 and chunked[0].position % 4 == 0,
              f"positions {[m.position for m in chunked]}")
        check(all(m.status == 0 for m in self.of("writes", False, WRITE)), "a status")

    def longs(self):
        """A Reply chunk where the reply may be long, and used when it is. A chunk at position zero for a long call."""
        for run, proc in (("long replies", READ), ("listing", READDIR)):
            calls, replies = self.of(run, True, proc), self.of(run, False, proc)
            check(all((m.reads, m.writes) == (0, 0) for m in calls), f"{run}: chunk lists")
            check(sum(m.reply for m in calls) == sum(m.reply for m in replies) > 0, f"{run}: Reply chunks")
            used = [m for m in replies if m.type == NOMSG]
            check(used and all(m.reply == 1 and m.length > INLINE and m.status == 0 for m in used), f"{run}: Reply chunks")
        calls = [m for m in self.of("long calls", True) if m.type == NOMSG]
        check(calls and all((m.reads, m.position) == (1, 0) and m.length > INLINE for m in calls), "long calls")

    def sends(self, run, n):
        """The first n Sends of a connection: (ours, first words of the message)."""
        out = []
        for v in self.short:
            if int(v["tcp.stream"]) == self.runs.index(run) and first(v["iwarp_rdma.opcode"]) in SENDS:
                octets = bytes.fromhex(v["tcp.payload"])[20:-4]
                out.append((v["ip.src"] == self.weft, [int.from_bytes(octets[i:i + 4], "big") for i in range(0, len(octets), 4)]))
        return out[:n]

    def fallback(self):
        """Linux answers version 2 with an error in that version, and the connection continues."""
        for run in ("falls back", "version 2 alone"):
            (ours, asked), (theirs, said), *rest = self.sends(run, 4)
            check(ours and not theirs and asked[1] == 2, f"{run}: does not begin with version 2")
            check(said[0] == asked[0] and said[1] == 2 and said[3:7] == [ERROR, ERR_VERS, 1, 1], f"{run}: answered by {said}")
            check([w[1] for _, w in rest] == ([1, 1] if run == "falls back" else []), f"{run}: goes on with {rest}")

    def unmarked(self):
        """tshark marks none of our messages as malformed. It marks Linux's replies whose data are elsewhere, as between
        two Linuxes."""
        bad = [v for v in self.frames if v["ip.src"] == self.weft and marked(v)]
        check(not bad, bad and complaint(self.file, bad))
        theirs = [v for v in self.frames if v["ip.src"] != self.weft and marked(v)]
        strange = [v["frame.number"] for v in theirs
                   if not (first(v["rpcordma.writes_count"]) == 1 and first(v["nfs.procedure_v3"]) == READ)]
        check(not strange, f"Linux's frames {strange[:10]}")


def cases(capture, sizes):
    return [("one connection for each run", capture.connections),
            ("tshark: our calls, their replies", capture.decoded),
            ("tshark: the same when frames have changed places", capture.reordered),
            ("tshark: READ has a Write list", lambda: capture.reads(sizes)),
            ("tshark: WRITE has a Read list", lambda: capture.writes(sizes)),
            ("tshark: Reply chunks, and calls at position zero", capture.longs),
            ("what Linux says to version 2", capture.fallback),
            ("tshark: nothing of ours is marked", capture.unmarked)]
