# SPDX-License-Identifier: BSD-3-Clause
"""Judge a capture: tshark's expert information, and what RFC 9293 and its options allow each segment to say."""
import subprocess

from kernel_net import Fail, check

FIN, SYN, RST, ACK = 1, 2, 4, 16
FIELDS = ["frame.number", "ip.src", "ipv6.src", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw", "tcp.len",
          "tcp.flags", "tcp.window_size_value", "tcp.options.wscale.shift", "tcp.options.mss_val",
          "tcp.options.sack_perm", "tcp.options.sack_le", "tcp.options.sack_re", "tcp.options.timestamp.tsval",
          "tcp.options.timestamp.tsecr", "frame.len"]


def tshark(file, *args):
    r = subprocess.run(["tshark", "-n", "-r", file, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
                        "-o", "tcp.relative_sequence_numbers:FALSE", *args], capture_output=True, text=True, timeout=120)
    if r.returncode != 0:
        raise Fail("tshark: " + r.stderr.strip())
    return r.stdout


def none(file, flt, what):
    found = tshark(file, "-Y", flt).splitlines()
    check(not found, f"{what}: {len(found)} frames: " + " / ".join(found[:4]))


def few(file, flt, what, most=3):
    found = tshark(file, "-Y", flt).splitlines()
    check(len(found) <= most, f"{what}: {len(found)} frames: " + " / ".join(found[:4]))


def expert(file, ours, clean):
    """ours: filter of our frames."""
    none(file, f"({ours}) && (_ws.malformed || _ws.expert.severity == error)", "malformed or an error")
    none(file, f"({ours}) && (tcp.checksum.status == 0 || ip.checksum.status == 0)", "bad checksum")
    good = len(tshark(file, "-Y", f"({ours}) && tcp.checksum.status == 1").splitlines())
    check(good > 3, f"only {good} checksums verified")
    none(file, f"({ours}) && tcp.analysis.ack_lost_segment", "ACKs of what was never sent")
    none(file, f"({ours}) && tcp.analysis.zero_window", "zero windows of ours")
    if clean:
        # On a busy machine we may stand still for longer than the kernel's probe timeout (RFC 8985 s7).
        few(file, "tcp.analysis.lost_segment || tcp.analysis.retransmission || tcp.analysis.fast_retransmission || "
            "tcp.analysis.spurious_retransmission || tcp.analysis.out_of_order", "disorder on a clean path")
        few(file, f"({ours}) && tcp.analysis.duplicate_ack", "duplicate ACKs on a clean path")


def rel(v, base):
    d = (v - base) & 0xffffffff
    return d - (1 << 32) if d & 0x80000000 else d


class Side:
    def __init__(self):
        self.isn = self.wscale = self.mss = None
        self.ts = self.sack = False
        self.end = 0       # behind the highest octet sent, relative to the ISN
        self.edge = None   # highest ACK + window said, relative to the other's ISN
        self.tsval = None
        self.tsvals = set()
        self.frames = self.data = 0
        self.fin = None


def segments(file, ours, clean, ordered):
    """Each connection's segments from `ours` (addresses) against what the other end has said; {port pair: Side}."""
    conns, faults = {}, []
    for line in tshark(file, "-Y", "tcp && !icmp && !icmpv6", "-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E",
                       "aggregator=,", *[x for f in FIELDS for x in ("-e", f)]).splitlines():
        v = dict(zip(FIELDS, line.split("|")))

        def num(name):
            return int(v[name].split(",")[0], 0) if v[name] else None
        src = v["ip.src"] or v["ipv6.src"]
        mine = src in ours
        ports = (num("tcp.srcport"), num("tcp.dstport"))
        key = ports if mine else ports[::-1]
        flags, seq, ack, n = num("tcp.flags"), num("tcp.seq_raw"), num("tcp.ack_raw"), num("tcp.len")

        def fault(text):
            faults.append(f"frame {v['frame.number']}: {text}")
        if flags & SYN and not flags & ACK and (key not in conns or conns[key][0 if mine else 1].isn != seq):
            conns[key] = (Side(), Side())
        if key not in conns:
            continue
        w, k = conns[key]
        me, other = (w, k) if mine else (k, w)
        if flags & RST:
            continue
        me.frames += 1
        tsval, tsecr = num("tcp.options.timestamp.tsval"), num("tcp.options.timestamp.tsecr")
        if flags & SYN:
            me.isn, me.wscale, me.mss = seq, num("tcp.options.wscale.shift"), num("tcp.options.mss_val")
            me.ts, me.sack = tsval is not None, bool(v["tcp.options.sack_perm"])
        if me.isn is None:
            continue
        at = rel(seq, me.isn)
        end = at + n + bool(flags & SYN) + bool(flags & FIN)
        scale = 0 if flags & SYN or me.wscale is None or other.wscale is None else me.wscale
        window = num("tcp.window_size_value") << scale
        if mine:
            if n > 0 and other.edge is not None and at + n > other.edge and n > 1:
                fault(f"{at + n - other.edge} octets beyond the offered window")
            if me.fin is not None and end > me.fin:
                fault("octets behind the FIN")
            if flags & ACK and other.isn is not None:
                a = rel(ack, other.isn)
                if a > other.end:
                    fault(f"acknowledges {a - other.end} octets that were never sent")
                les, res = v["tcp.options.sack_le"], v["tcp.options.sack_re"]
                blocks = list(zip(les.split(","), res.split(","))) if les else []
                if blocks and not (me.sack and other.sack):
                    fault("SACK without permission")
                for i, (le, re_) in enumerate(blocks):
                    lo, hi = rel(int(le), other.isn), rel(int(re_), other.isn)
                    if lo >= hi or hi > other.end:
                        fault(f"SACK block {lo}-{hi} of {other.end} octets")
                    elif i > 0 and lo <= a:
                        fault(f"SACK block {i} {lo}-{hi} at or below the ACK {a}")
                if ordered and me.edge is not None and a + window < me.edge:
                    fault(f"takes back {me.edge - a - window} octets of its window")
            if not flags & SYN and me.ts and other.ts:
                if tsval is None:
                    fault("no timestamp")
                else:
                    if ordered and me.tsval is not None and rel(tsval, me.tsval) < 0:
                        fault(f"timestamp goes back by {rel(me.tsval, tsval)}")
                    if tsecr not in other.tsvals:
                        fault(f"echoes a timestamp {tsecr} that was never sent")
            if n > 0 and other.mss is not None:
                limit = other.mss - (12 if me.ts and other.ts else 0)
                if n > limit:
                    fault(f"{n} octets are more than the MSS {limit}")
        if tsval is not None:
            me.tsval = tsval
            me.tsvals.add(tsval)
        me.end = max(me.end, end)
        me.data += n > 0
        if flags & FIN:
            me.fin = end
        if flags & ACK and other.isn is not None:
            edge = rel(ack, other.isn) + window
            me.edge = edge if me.edge is None else max(me.edge, edge)
    check(conns, "no connection in the capture")
    check(not faults, f"{len(faults)} faults: " + " / ".join(faults[:5]))
    return conns


def judge(file, ours, clean=True):
    flt = " || ".join(("ip.src == " if "." in a else "ipv6.src == ") + a for a in ours)
    expert(file, flt, clean)
    return segments(file, ours, clean, clean)
