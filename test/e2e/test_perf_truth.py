#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-perf's figures against a path of known delay and rate, the kernel's counters of its interfaces, and tshark on a capture:
within 2 %. test_perf_truth.py BUILD [CASE...]

The path is test/e2e/path_relay.py between two veth pairs: client c0 - c1, relay, s1 - s0 server. It stamps each frame by the kernel's
clock, of which weft-perf knows nothing. So its log is a second watch: the time from one request of the client to the next
contains all that a sample of weft-perf contains, also the time in which an end had no CPU.
"""
import json
import os
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
from lan import DEV, enter, sh  # noqa: E402
from test_wireshark import fields  # noqa: E402
from weft_e2e import PROCS, Skip, app, main, path, run  # noqa: E402

RELAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "path_relay.py")
SIDES = ("c0", "c1", "s0", "s1")
CPUS = sorted(os.sched_getaffinity(0))
# RDMAP's opcodes (RFC 5040 s4.3, RFC 7306 s4, draft-talpey-rdma-commit s2)
WRITE, READ, READ_RESPONSE, SEND, SEND_SE, IMM, ATOMIC, FLUSH, VERIFY, ATOMIC_WRITE = 0, 1, 2, 3, 5, 8, 10, 12, 14, 16
#: answers to the messages of tests in which the client does not say when it begins: replies by Sends of any kind; of a Flush
ANSWERS = {SEND: (3, 4, 5, 6), SEND_SE: (3, 4, 5, 6), WRITE: (13,)}
START, STOP, REPORT = 2, 3, 4  # first octets of weft-perf's own Immediate Data (apps/perf/flow.h)


def within(a, b, share=0.02):
    return abs(a - b) <= share * abs(b)


def interfaces():
    if os.environ.get("WEFT_LAN") != "1":
        raise Skip("no network namespace can be made")
    if "c0" in run(["ip", "-o", "link"])[1]:
        return
    for key in ("all", "default"):
        subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{key}.disable_ipv6=1"], capture_output=True, check=False)
    for i, one in enumerate(("c", "s")):
        # DPDK numbers a fanout group by pid ^ index (test/e2e/lan.py).
        sh("ip", "link", "add", one + "0", "index", str(4096 * (i + 1)), "type", "veth", "peer", "name", one + "1")
    for name in SIDES:
        subprocess.run(["ethtool", "-K", name, "tx", "off", "tso", "off", "gso", "off", "gro", "off"], capture_output=True, check=False)
        sh("ip", "link", "set", name, "up")


def counted():
    """Frames and octets that the kernel has counted on the relay's interfaces."""
    links = json.loads(run(["ip", "-j", "-s", "link"])[1])
    return {x["ifname"]: x["stats64"]["rx"] for x in links if x["ifname"] in ("c1", "s1")}


class Run:
    """One run of weft-perf over a path, and what others saw of it."""

    def __init__(self, args, delay_us=0, rate_bit=0, medium=(), workers=1):
        interfaces()
        pcap, log = path("truth.pcap"), path("truth.json")
        before = counted()
        relay = subprocess.Popen([sys.executable, RELAY, "c1", "s1", "--delay-us", str(delay_us), "--rate-bit", str(rate_bit),
                                  "--pcap", pcap, "--log", log], stdout=subprocess.PIPE, text=True)
        PROCS.append(relay)
        assert relay.stdout.readline() == "relaying\n"
        server = self.start(CPUS[0], ["--server", *medium, *self.port("s0", "10.0.0.1/24", workers)])
        assert "waiting" in server.stderr.readline()
        client = self.start(CPUS[-1], [*args, "--json", *self.port("c0", "10.0.0.2/24", workers), "10.0.0.1"])
        out, self.err = client.communicate(timeout=150)
        assert client.returncode == 0, self.err
        for p in (server, relay):
            p.send_signal(signal.SIGTERM)
            p.wait(timeout=60)
        self.results = json.loads(out)["results"]
        self.result = self.results[0]
        after = counted()
        self.kernel = {k: {n: after[k][n] - before[k][n] for n in ("packets", "bytes")} for k in after}
        with open(log, encoding="ascii") as f:
            kept = json.load(f)
        assert kept["dropped"] == 0, "the relay's socket had no room"
        #: direction, arrival, departure, due time (ns) and octets; a frame of the capture has the number of its place
        self.frames = sorted(kept["frames"], key=lambda r: r[1])
        self.pcap = pcap

    @staticmethod
    def port(interface, address, workers):
        """The options of one port; with several workers a configuration file in which all share it, and sleep when they are idle."""
        if workers == 1:
            return ["--dev", DEV.format(interface), "--address", address]
        with open(path(interface + ".ini"), "w", encoding="ascii") as f:
            f.write(f"[port p0]\ndev = {DEV.format(interface)}\naddress = {address}\n")
            for i in range(workers):
                f.write(f"[worker w{i}]\nports = p0\nspin = no\n")
        return ["--workers", str(workers), "-c", path(interface + ".ini")]

    @staticmethod
    def start(cpu, args):
        p = subprocess.Popen([app("weft-perf"), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             stdin=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
        PROCS.append(p)
        return p

    def had_cpu(self):
        """Whether both sides had their CPUs, by weft-perf's own account."""
        waited = [self.result["waited_percent"], self.result.get("server", {"waited_percent": 0})["waited_percent"]]
        return max(waited) < 5

    def messages(self):
        """Each FPDU as tshark reads it: direction, frame, opcode, last, octets of payload, Immediate Data or "", connection."""
        out, ends = [], {}
        for number, src, stream, seq, tcp_len, last, tagged, rsv, op, length, imm in fields(
                self.pcap, "iwarp_ddp_rdmap", "frame.number", "ip.src", "tcp.stream", "tcp.seq_raw", "tcp.len", "iwarp_ddp.last_flag",
                "iwarp_ddp.tagged_flag", "iwarp_rdma.rsv", "iwarp_rdma.opcode", "iwarp_mpa.ulpdulength", "iwarp_ext.imm.data"):
            # What was sent again is not counted again, also if it is cut into other segments. A segment begins with an FPDU.
            at, end = int(seq[0]), ends.get((src[0], stream[0]))
            old = 0 if end is None else (end - at) % 2 ** 32
            old = 0 if old >= 2 ** 31 else old
            if old < int(tcp_len[0]):
                ends[src[0], stream[0]] = (at + int(tcp_len[0])) % 2 ** 32
            assert len(last) == len(tagged) == len(op) == len(length), (number, last, tagged, op, length)
            imm = iter(imm)
            for i in range(len(op)):
                opcode = int(op[i], 0) | (int(rsv[i], 0) & 1) << 4  # the draft's fifth bit
                data = next(imm, "") if opcode == IMM else ""
                old -= (2 + int(length[i]) + 3) // 4 * 4 + 4  # the FPDU: length, ULPDU, padding, CRC
                if old >= 0:
                    continue
                out.append((0 if src[0] == "10.0.0.2" else 1, int(number[0]) - 1, opcode, last[i] in ("1", "True"),
                            int(length[i]) - (14 if tagged[i] in ("1", "True") else 18), data, stream[0]))
        return out


class Count:
    """What tshark counts of a run: messages by opcode in the measured part, and how long that was."""

    def __init__(self, r, op, skip, octets=None, every=None):
        """every: the messages of one connection; otherwise all of the run.
        op: the opcode of which each message of the test has one, of so many octets if they are given. Where the client does not
        say when the measured part begins, skip of these come before it. It ends with the answer to the last of them."""
        every = every if every is not None else r.messages()
        told = {int(m[5][:2], 16): n for n, m in enumerate(every) if m[0] == 0 and m[2] == IMM and m[5][:2] in ("02", "03")}
        self.r, self.op, self.size = r, op, octets
        if START in told:
            self.part = every[told[START] + 1:told[STOP]]
            end = r.frames[every[told[STOP]][1]][1]
        else:
            mine = [n for n, m in enumerate(every) if self.of_test(m)]
            self.part = every[mine[skip]:]
            answers = [r.frames[m[1]][2] for m in every[mine[-1]:] if m[0] == 1 and m[2] in ANSWERS[op] and m[4] != 16]
            end = answers[0] if octets else answers[-1]
        self.seconds = (end - next(r.frames[m[1]][1] for m in self.part if m[0] == 0)) / 1e9
        self.n = sum(1 for m in self.part if self.of_test(m))

    def of_test(self, m):
        """Whether it is the last segment of the client's message. RPC-over-RDMA has Sends of 16 octets beside the calls."""
        return m[0] == 0 and m[2] == self.op and m[3] and self.size in (None, m[4]) and not (self.op == SEND_SE and m[4] == 16)

    def octets(self, op, way=0):
        return sum(m[4] for m in self.part if m[0] == way and m[2] == op)


def say(text):
    print("# " + text, flush=True)


def test_known_delay():
    """Latency over a path of 50 ms each way. The mean is within 2 % of what the path's log has, also on a busy machine. The
    shortest is not below what the path allows, and within 2 % of it where both ends had their CPUs."""
    delay_ms, n = 50.0, 16
    for args, op, half in ((["write"], WRITE, 2), (["send"], SEND, 2), (["write-imm"], WRITE, 2), (["read"], READ, 1),
                           (["fetch-add"], ATOMIC, 1), (["cmp-swap"], ATOMIC, 1), (["atomic-write"], ATOMIC_WRITE, 1),
                           (["flush"], FLUSH, 1), (["verify"], VERIFY, 1), (["commit"], VERIFY, 1), (["rpc"], SEND_SE, 1)):
        r = Run([*args, "--lat", "-n", str(n)], delay_us=int(delay_ms * 1000))
        seen = Count(r, op, n // 10)
        trip_ms = seen.seconds * 1e3 / n / half
        avg, shortest = r.result["t_avg_us"] / 1e3, r.result["t_min_us"] / 1e3
        held = sum(out - due for _, _, out, due, _ in r.frames) / len(r.frames) / 1e6
        say(f"{args[0]}: average {avg:.2f} ms, by the path's log {trip_ms:.2f} ms, shortest {shortest:.2f} ms; frames left "
            f"{held:.3f} ms late")
        assert seen.n == n and within(avg, trip_ms), (args, seen.n, avg, trip_ms)
        assert shortest >= delay_ms * 2 / half, (args, shortest)
        if r.had_cpu():
            assert within(shortest, delay_ms * 2 / half), (args, shortest)


def check_link(args, r, seen, way):
    """What was used of the link, by the path's log with the overhead that each frame has on a wire; and that it was not full, which is
    said where no end had to wait for its CPU."""
    frames = [f[4] + 24 for f in r.frames[seen.part[0][1]:seen.part[-1][1] + 1] if f[0] == way]
    used, x = sum(frames) * 8 / seen.seconds / 1e6, r.result
    say(f"{' '.join(args)}: {x['used_mbit_s']:.3f} of {x['link_mbit_s']} Mbit/s of the link, by the path's log {used:.3f}")
    assert x["link_mbit_s"] == 10000 and within(x["used_mbit_s"], used), (args, x, used)  # as the kernel says of a veth
    waited = x["waited_percent"] + x["server"]["waited_percent"]
    if abs(waited - 1) > 0.2:
        assert any("link is not full" in w for w in x["warnings"]) == (waited < 1), (args, x)


def test_known_rate():
    """Bandwidth over a path of 40 Mbit/s. A frame of 1514 octets carries 1428 of a Write: 14 are of Ethernet, 20 of IP, 32 of
    TCP with its time stamp, 2 + 14 + 4 of MPA and DDP, whose header has 18 octets in a Send."""
    rate = 40_000_000
    for args, op, data in ((["write", "-n", "240"], WRITE, 1428), (["send", "-n", "240"], SEND, 1424),
                           (["write", "-n", "80", "-q", "3"], WRITE, 1428), (["read", "-n", "240"], READ_RESPONSE, 1428)):
        way = int(args[0] == "read")  # 1: the data come from the server
        r = Run([*args, "-s", "64K", "-t", "16"], delay_us=1000, rate_bit=rate)
        seen = Count(r, READ if way else op, 0)
        known = rate * data / 1514
        path_bit = seen.octets(op, way) * 8 / seen.seconds
        full = sum(f[4] for f in r.frames[seen.part[0][1]:seen.part[-1][1] + 1] if f[0] == way) * 8 / seen.seconds
        got = r.result["average_mb_s"] * 8e6
        say(f"{' '.join(args)}: {got / 1e6:.3f} Mbit/s of data, by the path's log {path_bit / 1e6:.3f}, known {known / 1e6:.3f}; "
            f"peak {r.result['peak_mb_s'] * 8:.3f}")
        assert within(got, path_bit), (args, got, path_bit)
        if within(full, rate, 0.01):  # the ends kept the path full
            assert within(got, known), (args, got, known)
        assert got <= known * 1.02 and r.result["peak_mb_s"] >= r.result["average_mb_s"], r.result
        check_sides(args, r.result)
        check_link(args, r, seen, way)
        # A Write is complete when it is copied, as fast as memory is; the peak counts what was acknowledged. An end that had to wait
        # for its CPU takes several messages at once.
        most = known * (2 if r.had_cpu() else 100)
        assert r.result["peak_mb_s"] * 8e6 <= most, (args, r.result["peak_mb_s"] * 8e6, known)


#: test and options; opcode of which each iteration has so many; kinds of data of each iteration: opcode, direction (1: from the
#: server) and octets
COUNTED = [
    (["write", "-s", "512"], WRITE, 1, [(WRITE, 0, 512)]), (["read", "-s", "512"], READ, 1, [(READ_RESPONSE, 1, 512)]),
    (["send", "-s", "512"], SEND, 1, [(SEND, 0, 512)]), (["write-imm", "-s", "512"], WRITE, 1, [(WRITE, 0, 512)]),
    (["fetch-add"], ATOMIC, 1, []), (["cmp-swap"], ATOMIC, 1, []), (["atomic-write"], ATOMIC_WRITE, 1, []),
    (["flush", "-s", "512"], FLUSH, 1, [(WRITE, 0, 512)]), (["verify", "-s", "512"], VERIFY, 1, []),
    (["commit", "-s", "512"], VERIFY, 1, [(WRITE, 0, 512)]), (["commit-bare", "-s", "512"], ATOMIC_WRITE, 1, [(WRITE, 0, 512)]),
    (["rpc"], SEND_SE, 1, []), (["rpc-read", "-s", "4096"], SEND_SE, 1, [(WRITE, 1, 4096)]),
    (["rpc-write", "-s", "4096"], SEND_SE, 1, [(READ_RESPONSE, 0, 4096)]),
    (["rpc-durable", "-s", "4096"], SEND_SE, 1, [(READ_RESPONSE, 0, 4096)]),
    # beside the data the commit word
    (["two-sided", "-s", "512", "--lat"], SEND, 1, [(WRITE, 0, 512 + 8)]),
    (["two-sided-2", "-s", "512", "--lat"], SEND, 2, [(WRITE, 0, 512 + 8)]),
    (["log-append", "-s", "512", "--lat"], WRITE, 1, [(WRITE, 0, 512 + 64)]),
    (["log-append", "-s", "512"], WRITE, 1, [(WRITE, 0, 512 + 64)])]


def check_kernel(args, r):
    """The kernel has counted what the relay has taken, and so what tshark has read."""
    for way, name in enumerate(("c1", "s1")):
        mine = [f[4] for f in r.frames if f[0] == way]
        assert within(len(mine), r.kernel[name]["packets"]) and within(sum(mine), r.kernel[name]["bytes"]), (args, r.kernel[name])


def check_sides(args, x):
    """What the two sides' RDMAP has counted is the same, but for a few messages of eight octets on each QP, and the server's report."""
    assert not any("disagree" in w for w in x["warnings"]), (args, x["warnings"])
    if "server" not in x:
        return
    here, there = x["rdmap"], x["server"]["rdmap"]
    for a, b in (("sent", "received"), ("received", "sent")):
        assert abs(here[a + "_messages"] - there[b + "_messages"]) <= 9 * x["qps"], (args, here, there)
        assert abs(here[a + "_bytes"] - there[b + "_bytes"]) <= 400 * x["qps"], (args, here, there)


def test_counts():
    """Messages, octets, rate and time of each test, by tshark, by the other side and by the kernel's counters."""
    n = 300
    for args, op, each, data in COUNTED:
        lat, log = "--lat" in args, args[0] == "log-append"
        r = Run([*args, "-n", str(n), *([] if lat else ["-t", "4"])], delay_us=10000 if not lat else 2500)
        seen = Count(r, op, n // 10 * each, data[0][2] if log else None)
        x = r.result
        rate = x["iterations"] / x["seconds"] if lat else x["mmsg_s"] * 1e6
        say(f"{args[0]}: {x['iterations']} messages, {rate:.1f} a second; tshark {seen.n / each:g}, {seen.n / each / seen.seconds:.1f}")
        assert x["iterations"] == n and ("-s" not in args or x["bytes"] == int(args[args.index("-s") + 1])), x
        assert within(seen.n, n * each), (args, seen.n)
        assert within(x["seconds"], seen.seconds) and within(rate, n / seen.seconds), (args, x["seconds"], seen.seconds)
        if not lat:
            assert within(x["average_mb_s"] * 1e6, n * x["bytes"] / seen.seconds), (args, x)
        for opcode, way, octets in data:
            assert within(seen.octets(opcode, way), n * octets), (args, opcode, seen.octets(opcode, way))
            if "server" in x:
                counted_there = x["server"]["rdmap"]["sent_bytes" if way else "received_bytes"]
                assert within(counted_there, seen.octets(opcode, way)), (args, x["server"], seen.octets(opcode, way))
        check_sides(args, x)
        check_kernel(args, r)


#: test and options, workers; the share of each opcode among the messages, and the octets of each message in the mean
SHAPES = [
    (["mix", "--mix", "write:70,read:30", "-s", "512", "-n", "1000"], 1, {WRITE: 0.7, READ: 0.3}, 512),
    (["write", "--sizes", "64:80,4096:15,1K:5", "-n", "1000"], 1, {WRITE: 1}, 0.8 * 64 + 0.15 * 4096 + 0.05 * 1024),
    (["send", "--sizes", "64:50,200:50", "-q", "2", "-n", "1000"], 1, {SEND: 1}, 132),
    (["send", "-s", "512", "-e", "-n", "300"], 1, {SEND: 1}, 512), (["read", "-s", "512", "-e", "-n", "300"], 1, {READ: 1}, 512),
    (["commit", "-s", "512", "-e", "-n", "300"], 1, {VERIFY: 1}, 512),
    (["send", "-s", "512", "--use-srq", "-q", "3", "-r", "48", "-n", "200"], 1, {SEND: 1}, 512),
    (["write", "-s", "512", "-q", "4", "-n", "150"], 2, {WRITE: 1}, 512),
    (["send", "-s", "512", "-q", "2", "-n", "300"], 2, {SEND: 1}, 512)]


def test_shapes():
    """Mixed tests and sizes, events, an SRQ and several workers: messages, octets, rate and time, by tshark and by the other side."""
    for args, workers, shares, mean in SHAPES:
        r = Run([*args, "-t", "8"], delay_us=10000, workers=workers)
        x = r.result
        ops = list(shares)
        seen, n = Count(r, ops[0], 0), x["iterations"]
        found = [Count(r, op, 0).n for op in ops]
        octets = seen.octets(WRITE) + seen.octets(SEND) + seen.octets(READ_RESPONSE, 1)
        say(f"{' '.join(args)}, {workers} worker(s): {n} messages, {x['mmsg_s'] * 1e6:.1f} a second; tshark {'+'.join(map(str, found))}, "
            f"{sum(found) / seen.seconds:.1f}")
        assert n == int(args[args.index("-n") + 1]) * x["qps"] and x["workers"] == workers, x
        # behind Writes comes a Read of each QP
        assert all(within(k, n * shares[op]) or k - n * shares[op] in range(1, x["qps"] + 1) for op, k in zip(ops, found)), (args, found)
        assert within(octets, n * mean) and within(x["bytes"], mean, 1e-6), (args, octets, x["bytes"])
        assert within(x["seconds"], seen.seconds) and within(x["mmsg_s"] * 1e6, n / seen.seconds), (args, x["seconds"], seen.seconds)
        assert within(x["average_mb_s"] * 1e6, octets / seen.seconds), (args, x, octets)
        check_sides(args, x)
        check_kernel(args, r)


def test_reversed():
    """--reversed: messages, rate and octets of the server's direction, by tshark."""
    for args, op in ((["write", "-n", "300"], WRITE), (["send", "-n", "300", "-q", "2"], SEND), (["read", "-n", "200"], READ)):
        size, r = 512, Run([*args, "--reversed", "-s", "512", "-t", "4"], delay_us=10000)
        x, every = r.result, r.messages()
        # the second begin of each connection is that of the measured part
        told = {what: [n for n, m in enumerate(every) if m[0] == 1 and m[5][:2] == f"{what:02x}"] for what in (START, REPORT)}
        begin, end = told[START][x["qps"]], told[REPORT][-1]
        theirs = [m for m in every[begin:end] if m[0] == 1 and m[2] == op and m[3] and (op == READ or m[4] == size)]
        seconds = (r.frames[every[end][1]][1] - r.frames[every[begin][1]][1]) / 1e9
        say(f"{' '.join(args)} --reversed: {x['iterations']} messages, {x['mmsg_s'] * 1e6:.1f} a second; tshark {len(theirs)}, "
            f"{len(theirs) / seconds:.1f}")
        assert x["iterations"] == int(args[2]) * x["qps"] and within(len(theirs), x["iterations"]), (args, x, len(theirs))
        assert within(x["mmsg_s"] * 1e6, x["iterations"] / seconds) and within(x["seconds"], seconds), (args, x, seconds)
        assert within(x["average_mb_s"] * 1e6, size * x["iterations"] / seconds), (args, x)
        check_sides([*args, "--reversed"], x)
        check_kernel([*args, "--reversed"], r)


def test_outs():
    """-o: so many Reads are outstanding, whatever the depth: the path of 20 ms there and back takes as many in that time."""
    for outs in (1, 4):
        r = Run(["read", "-s", "64", "-t", "16", "-o", str(outs), "-n", "60"], delay_us=10000)
        seen, rate = Count(r, READ, 0), r.result["mmsg_s"] * 1e6
        say(f"read -t 16 -o {outs}: {rate:.1f} a second, tshark {seen.n / seen.seconds:.1f}; the path allows {outs / 0.02:.1f}")
        assert within(rate, 60 / seen.seconds) and rate < outs / 0.02 * 1.02, (outs, rate)
        if r.had_cpu():
            assert rate > outs / 0.02 * 0.9, (outs, rate)


def test_both_ways():
    """-b: each direction by itself, by tshark: messages, rate and octets of this side, and what the server says of its own."""
    for test, op in (("write", WRITE), ("send", SEND), ("read", READ)):
        n, size = 300, 512
        r = Run([test, "-b", "-s", str(size), "-n", str(n), "-t", "4"], delay_us=10000)
        x, every = r.result, r.messages()
        seen = Count(r, op, 0, every=every)
        # The server says when it begins, and reports when the Read behind its last message is answered.
        start, done = (next(m for m in every if m[0] == 1 and m[5][:2] == f"{what:02x}") for what in (START, REPORT))
        theirs = [m for m in every[every.index(start):] if m[0] == 1 and m[2] == op and m[3] and (op == READ or m[4] == size)]
        seconds = (r.frames[done[1]][1] - r.frames[start[1]][1]) / 1e9
        sent = x["server"]["sent_messages"]
        say(f"{test} -b: sent {x['sent_mmsg_s'] * 1e6:.1f} a second, tshark {n / seen.seconds:.1f}; received "
            f"{x['received_mmsg_s'] * 1e6:.1f}, tshark {sent / seconds:.1f} ({sent} of {len(theirs)} messages)")
        assert within(seen.n, n) and within(x["sent_mmsg_s"] * 1e6, n / seen.seconds), (test, x, seen.n, seen.seconds)
        assert within(len(theirs), sent) and within(x["received_mmsg_s"] * 1e6, sent / seconds), (test, x, len(theirs), seconds)
        assert within(x["mmsg_s"], x["sent_mmsg_s"] + x["received_mmsg_s"], 1e-3), x
        assert within(x["average_mb_s"] * 1e6, size * (n / seen.seconds + sent / seconds)), (test, x)
        assert x["server"]["sent_bytes"] == size * sent, x
        check_sides([test, "-b"], x)
        check_kernel([test, "-b"], r)


def test_all_sizes():
    """-a and the size alone agree, because each row of -a is within 2 % of the path's log, as a size alone is (counts). No figure of
    either is negative, and the rate is the iterations by the time."""
    n = 20
    r = Run(["read", "-a", "-n", str(n), "-t", "1"], delay_us=12000)
    every = r.messages()
    streams = list(dict.fromkeys(m[6] for m in every))
    assert [x["bytes"] for x in r.results] == [2 ** i for i in range(1, 21)] and len(streams) == 20, streams
    rows, parts = r.results, [Count(r, READ, 0, every=[m for m in every if m[6] == s]) for s in streams]
    for size in (64, 65536):  # a capture takes the place of the one before
        one = Run(["read", "-s", str(size), "-n", str(n), "-t", "1"], delay_us=12000)
        rows.append(one.result)
        parts.append(Count(one, READ, 0))
    for x, seen in zip(rows, parts):
        say(f"read {x['bytes']}: {x['mmsg_s'] * 1e6:.2f} a second, by the path's log {n / seen.seconds:.2f}")
        assert seen.n in (n, n + 1) and within(x["seconds"], seen.seconds), (x, seen.n, seen.seconds)  # a Read more at the end
        assert within(x["mmsg_s"] * 1e6, n / seen.seconds) and within(x["average_mb_s"] * 1e6, n * x["bytes"] / seen.seconds), x
        assert within(seen.octets(READ_RESPONSE, 1), n * x["bytes"] + 1), (x, seen.octets(READ_RESPONSE, 1))
        assert within(x["mmsg_s"] * 1e6, x["iterations"] / x["seconds"], 1e-3), x
        assert all(v >= 0 for k, v in x.items() if isinstance(v, (int, float))), x
        assert all(v >= 0 for v in x["server"].values() if not isinstance(v, dict)), x


def test_rate_limit():
    """The rate that was asked for, by the path's log: within 2 % where both ends had their CPUs, and never more."""
    for args, rate in ((["write", "-s", "256", "--rate_limit", "500"], 500), (["send", "-s", "1000", "--rate_limit", "2Mb"], 250),
                       (["write", "-s", "64", "-q", "3", "--rate_limit", "600"], 600)):
        r = Run([*args, "-D", "3"])
        seen = Count(r, SEND if args[0] == "send" else WRITE, 0)
        say(f"{' '.join(args)}: {r.result['mmsg_s'] * 1e6:.1f} a second, by the path's log {seen.n / seen.seconds:.1f}")
        assert within(seen.n, r.result["iterations"]) and within(r.result["mmsg_s"] * 1e6, seen.n / seen.seconds), (args, r.result)
        assert seen.n / seen.seconds < rate * 1.02 + r.result["qps"], (args, seen.n, seen.seconds)
        if r.had_cpu():
            assert within(seen.n / seen.seconds, rate), (args, seen.n, seen.seconds)


if __name__ == "__main__":
    enter()
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
