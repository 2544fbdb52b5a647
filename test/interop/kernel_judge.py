# SPDX-License-Identifier: BSD-3-Clause
"""Judge a capture by tshark's expert information, and by what RFC 9293 and its options allow in each segment."""
import subprocess

from kernel_net import PORT, Fail, check

FIN, SYN, RST, ACK = 1, 2, 4, 16
FIELDS = ["frame.number", "ip.src", "ipv6.src", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw", "tcp.len",
          "tcp.flags", "tcp.window_size_value", "tcp.options.wscale.shift", "tcp.options.mss_val",
          "tcp.options.sack_perm", "tcp.options.sack_le", "tcp.options.sack_re", "tcp.options.timestamp.tsval",
          "tcp.options.timestamp.tsecr", "frame.len"]


SEVERITY_ERROR = 0x800000
DISORDER = ["lost_segment", "retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order"]
NEVER = ["ack_lost_segment", "zero_window"]
EXPERT = ["_ws.malformed", "_ws.expert.severity", "tcp.checksum.status", "ip.checksum.status",
          *("tcp.analysis." + x for x in DISORDER + NEVER + ["duplicate_ack"])]


def few(segments):
    """How many of so many segments may be sent again on a path without impairment, whoever counts: even on a quiet computer
    weft may stop once for longer than a probe timeout (RFC 8985 s7), or a queue of the kernel may overflow."""
    return 3 + segments // 1000


def frames(file):
    """Every frame as {field: text}, in one pass of tshark."""
    names = FIELDS + EXPERT
    # The stream is random: a dissector that guesses by content would sooner or later find its protocol in it.
    r = subprocess.run(["tshark", "-n", "-r", file, "-d", f"tcp.port=={PORT},data", "-o",
                        "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-o", "tcp.relative_sequence_numbers:FALSE",
                        "-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=,",
                        *[x for f in names for x in ("-e", f)]],
                       capture_output=True, text=True, timeout=120)
    if r.returncode != 0:
        raise Fail("tshark: " + r.stderr.strip())
    return [dict(zip(names, line.split("|"))) for line in r.stdout.splitlines()]


def source(v):
    # After a comma: the packet that an ICMP error quotes.
    return (v["ip.src"] or v["ipv6.src"]).split(",")[0]


def expert(all_frames, ours, clean):
    """tshark's expert information about our segments; ours: addresses."""
    found = {}

    def note(what, v):
        found.setdefault(what, []).append(v["frame.number"])
    verified = 0
    for v in all_frames:
        mine = source(v) in ours
        if mine:
            worst = max((int(x, 0) for x in v["_ws.expert.severity"].split(",") if x), default=0)
            if v["_ws.malformed"] or worst >= SEVERITY_ERROR:
                note("malformed", v)
            if "0" in v["tcp.checksum.status"].split(",")[:1] or "0" in v["ip.checksum.status"].split(",")[:1]:
                note("bad checksum", v)
            verified += v["tcp.checksum.status"] == "1"
            for x in NEVER:
                if v["tcp.analysis." + x]:
                    note(x, v)
            if clean and v["tcp.analysis.duplicate_ack"]:
                note("few: duplicate_ack", v)
        if clean:
            for x in DISORDER:
                if v["tcp.analysis." + x]:
                    note("few: " + x, v)
    check(verified > 3, f"only {verified} checksums verified")
    for what, where in found.items():
        check(what.startswith("few: ") and len(where) <= few(len(all_frames)),
              f"tshark finds {what} in {len(where)} frames: {', '.join(where[:8])}")


def rel(v, base):
    d = (v - base) & 0xffffffff
    return d - (1 << 32) if d & 0x80000000 else d


class Side:
    def __init__(self):
        self.isn = self.wscale = self.mss = None
        self.ts = self.sack = False
        self.end = 0       # after the highest octet sent, relative to the ISN
        self.edge = None   # highest ACK + window announced, relative to the ISN of the other side
        self.tsval = None
        self.newest = self.edge_before = None  # the newest timestamp; the edge announced with older ones
        self.tsvals = set()
        self.frames = self.data = 0
        self.fin = None


def segments(all_frames, ours, ordered):
    """Check the segments from `ours` (addresses) against what the other end has announced. Returns {port pair: Side}
    and faults."""
    conns, faults = {}, []
    for v in all_frames:
        if not v["tcp.seq_raw"] or "," in v["ip.src"] + v["ipv6.src"]:
            continue

        def num(name):
            return int(v[name].split(",")[0], 0) if v[name] else None
        mine = source(v) in ours
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
                # Frames may be reordered: a segment with a newer timestamp was sent later.
                if tsval is not None and (me.newest is None or rel(tsval, me.newest) > 0):
                    me.newest, me.edge_before = tsval, me.edge
                past = me.edge if ordered else me.edge_before if tsval == me.newest else None
                if past is not None and a + window < past:
                    fault(f"takes back {past - a - window} octets of its window")
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


def judge(file, ours, clean=True, quiet=True):
    """clean: nothing impaired the path; quiet: nor took a core away for long, so that few retransmissions are expected."""
    all_frames = frames(file)
    expert(all_frames, ours, clean and quiet)
    return segments(all_frames, ours, clean)
