#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A real weft-target on a veth pair, attacked by kernel sockets and by hping3: test_hostile_veth.py BUILD [CASE...]

Three network namespaces: the target's, a client's, and the attackers', which bridges the other two. An honest client
pushes at a steady rate, and the attackers' kernel pings. Each case prints the resources that were held and the
throughput.
"""
import contextlib
import json
import os
import random
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("e2e", "interop"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))

from iwarp_peer import crc32c  # noqa: E402
from kernel_net import World, sh, veth  # noqa: E402
from weft_e2e import PROCS, Skip, app, main, make_file, path  # noqa: E402

TARGET, CLIENT, KERNEL, PORT = "10.88.0.1", "10.88.0.3", "10.88.0.2", 7471
RATE_MIB, PUSH_MIB = 16, 40  # of the honest client, which leaves a processor to the attackers
FILE_MIB = 1024              # sparse; two slots of it
ADDRS = 300                  # number of the attackers' addresses
GONE_S = 25                  # by then every deadline of the target has passed
DEV = "net_af_packet0,iface={},blocksz=16384,framesz=2048,framecnt=2048"
WORKER_MIB, CONN_MIB = 80, 0.13  # memory of a worker and of a connection, at most
BACK_MIB = 12                    # memory that may stay with the allocator
XDR = struct.Struct(">I")


# ---- The target and its resources ----

class Net:
    """Namespaces, the bridge, and a target with this number of workers."""

    def __init__(self, workers):
        self.workers = workers
        self.world = World()
        try:
            self._up()
        except BaseException:
            self.world.close()
            raise

    def _up(self):
        w = self.world
        self.k, self.t, self.c = (w.space(x) for x in ("hk", "ht", "hc"))
        for ns in (self.t, self.c, self.k):
            with w.inside(ns):
                for which in ("all", "default"):
                    with open(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6", "w") as f:
                        f.write("1")
        sh("ip", "-n", self.k, "link", "add", "br0", "type", "bridge")
        for ns, dev in ((self.t, "ht0"), (self.c, "hc0")):
            veth(ns, dev, self.k, "k" + dev)
            sh("ip", "-n", self.k, "link", "set", "k" + dev, "master", "br0")
        batch = [f"addr add {KERNEL}/16 dev br0", "link set br0 up"]
        batch += [f"addr add {a}/16 dev br0" for a in self.attackers()]
        subprocess.run(["ip", "-n", self.k, "-batch", "-"], input="\n".join(batch), text=True, check=True)
        self.conf = path(f"hostile{self.workers}.ini")
        with open(self.conf, "w") as f:
            f.write(f"[weft]\ntelemetry = yes\nworkers = {self.workers}\nlog_level = weft.*:critical\n"
                    f"[port p0]\ndev = {DEV.format('ht0')}\naddress = {TARGET}/16\n"
                    # State left by lost resets ends before GONE_S: SYNs within 15 s, start-up and its end within 20 s.
                    "[tcp]\nsyn_retries = 3\nfin_wait2_us = 10000000\nuser_timeout_us = 10000000\n"
                    "[target]\nkeepalive_ms = 1000\n"
                    "[export e]\npersist = volatile\nsize = 128M\nrights = read,write,verify\n"
                    f"[export f]\npath = {path(f'hostile{self.workers}.img')}\npersist = file\nsize = {FILE_MIB}M\n"
                    "rights = read,write,flush,verify\n")
        self.log = path(f"hostile{self.workers}.log")
        with open(self.log, "w") as log:
            self.proc = w.spawn(self.t, [app("weft-target"), "-c", self.conf], stdout=log, stderr=log,
                                stdin=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while "ready" not in self.logged():
            assert self.proc.poll() is None and time.monotonic() < end, "target: " + self.logged()
            time.sleep(0.02)
        self.tel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.tel.settimeout(20)
        base = "/var/run/dpdk" if os.getuid() == 0 else os.path.join(os.environ.get("XDG_RUNTIME_DIR", "/tmp"), "dpdk")
        self.tel.connect(f"{base}/weft-{self.proc.pid}/dpdk_telemetry.v2")
        self.room = json.loads(self.tel.recv(16384))["max_output_len"]
        self.push()  # once to each slot, so that their memory is allocated
        quiet, (_, said) = self.push()
        assert quiet > 0, said
        self.quiets = {"e": quiet}
        time.sleep(1)
        self.base = self.held()
        self.base_mib = self.rss_mib()

    @staticmethod
    def attackers():
        return [f"10.88.{1 + i // 250}.{1 + i % 250}" for i in range(ADDRS)]

    def logged(self):
        with open(self.log) as f:
            return f.read()

    def ask(self, cmd):
        self.tel.send(cmd.encode())
        return json.loads(self.tel.recv(self.room))[cmd.split(",")[0]]

    def held(self):
        """(mbufs in use, connections)"""
        pools = self.ask("/weft/pools,0")
        return (pools["rx_in_use"] + pools["tx_in_use"],
                sum(self.ask(f"/weft/tcp,{i}")["conns_now"] for i in range(self.workers)))

    def rss_mib(self):
        with open(f"/proc/{self.proc.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024

    def conns(self):
        """All information of each connection."""
        return [self.ask(f"/weft/conn,{w},{i}") for w in range(self.workers)
                for i in self.ask(f"/weft/conns,{w}") if i.isdigit()]

    def cp(self, *args):
        p = self.world.spawn(self.c, [app("weft-cp"), "--dev", DEV.format("hc0"), "--address", f"{CLIENT}/16", *args],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        PROCS.append(p)
        return p

    def quiet(self, export):
        """Octets per second of a push without an attack."""
        if export not in self.quiets:
            self.push(export=export)
            got, (_, said) = self.push(export=export)
            assert got > 0, said
            self.quiets[export] = got
            self.base, self.base_mib = self.held(), self.rss_mib()
        return self.quiets[export]

    def push(self, during=lambda: None, export="e"):
        """Octets per second of one push, and the result of `during` in that time. A push to the file is durable and
        verified."""
        src = make_file("src", PUSH_MIB << 20, 7)
        begin = time.monotonic()
        p = self.cp("--rate", f"{RATE_MIB}M", "--json", *(["--no-flush"] if export == "e" else []), src,
                    f"weft://{TARGET}/{export}")
        seen = []
        while p.poll() is None and time.monotonic() - begin < 40:
            seen.append(during())
            time.sleep(0.2)
        if p.poll() is None:
            p.kill()
        out, err = p.communicate()
        took = time.monotonic() - begin
        return (PUSH_MIB * 2**20 / took if p.returncode == 0 else 0), (seen, out + err)

    def ping(self, seconds):
        n = int(seconds * 20)
        return self.world.spawn(self.k, ["ping", "-n", "-i", "0.05", "-c", str(n), "-W", "2", "-I", KERNEL, TARGET],
                                stdout=subprocess.PIPE, text=True)

    def close(self):
        alive = self.proc.poll() is None
        self.world.close()
        self.tel.close()
        shutil.rmtree(f"/var/run/dpdk/weft-{self.proc.pid}", ignore_errors=True)
        assert alive, "the target has ended: " + self.logged()[-1000:]


NETS = {}


def net(workers):
    if os.getuid() != 0:
        raise Skip("network namespaces need root")
    if workers not in NETS:
        drop()
        NETS[workers] = Net(workers)
    return NETS[workers]


def drop():
    while NETS:
        NETS.popitem()[1].close()


# ---- Attackers: threads with kernel sockets, and hping3 ----

class Attack(threading.Thread):
    """Run fn(attack) until over() is true. At the end all sockets made by fn are closed, half of them by a reset."""

    def __init__(self, n, fn, count, addrs):
        super().__init__(daemon=True)
        self.n, self.fn, self.count = n, fn, count
        self.addrs = n.attackers()[:addrs]
        self.socks, self.stop, self.error = [], threading.Event(), None
        self.ns = os.open(f"/run/netns/{n.k}", os.O_RDONLY)

    def run(self):
        # a thread may be in another namespace than the process
        from kernel_net import CLONE_NEWNET, libc
        try:
            assert libc.setns(self.ns, CLONE_NEWNET) == 0
            self.fn(self)
        except Exception as e:  # noqa: BLE001 - told by end()
            self.error = e

    def socket(self, i, **opts):
        s = socket.socket()
        for name, value in opts.items():
            s.setsockopt(*{"maxseg": (socket.IPPROTO_TCP, socket.TCP_MAXSEG),
                           "rcvbuf": (socket.SOL_SOCKET, socket.SO_RCVBUF)}[name], value)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        s.bind((self.addrs[i % len(self.addrs)], 0))
        s.setblocking(False)
        self.socks.append(s)
        s.connect_ex((TARGET, PORT))
        return s

    def open(self, **opts):
        """Open all connections. Returns those that were established within two seconds."""
        new = {self.socket(i, **opts) for i in range(self.count)}
        up, end = set(), time.monotonic() + 2
        while new - up and time.monotonic() < end and not self.stop.is_set():
            _, ready, _ = select.select((), new - up, (), 0.2) if len(new) < 900 else ((), (), ())
            for s in ready:
                up.add(s)
        return [s for s in up if s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0]

    def started(self, socks):
        """Connections whose MPA start-up has finished."""
        done = []
        for s in socks:
            with contextlib.suppress(OSError):
                s.send(mpa_request())
        for s in socks:
            if self.stop.is_set():
                break
            ready, _, _ = select.select((s,), (), (), 0.5)
            with contextlib.suppress(OSError):
                if ready and len(s.recv(20)) == 20:
                    done.append(s)
        return done

    def end(self):
        self.stop.set()
        self.join(20)
        for i, s in enumerate(self.socks):
            if i % 2:
                with contextlib.suppress(OSError):
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        os.close(self.ns)
        if self.error is not None:
            raise self.error


def mpa_request():
    return b"MPA ID Req Frame" + struct.pack(">BBH", 0x40, 1, 0)


def fpdu(ulpdu):
    m = struct.pack(">H", len(ulpdu)) + ulpdu
    m += bytes(-len(m) % 4)
    return m + struct.pack("<I", crc32c(m))


def untagged(op, qn, msn, payload):
    return fpdu(struct.pack(">BBIIII", 0x41, 0x40 | op, 0, qn, msn, 0) + payload)


def call(proc, args, xid=7, msn=1):
    head = (xid, 1, 8, 0, 0, 0, 0, xid, 0, 2, 0x2057EF70, 1, proc, 0, 0, 0, 0)
    return untagged(3, 0, msn, b"".join(map(XDR.pack, head)) + args)


def send(s, data):
    """Whether the datagram was sent."""
    try:
        return s.send(data) == len(data)
    except OSError:
        return False


def half_fpdu(a):
    up = a.started(a.open())
    head = struct.pack(">HBBIIII", 60000, 0x01, 0x43, 0, 0, 1, 0)
    for s in up:
        send(s, head)
    for _ in range(15):
        for s in up:
            send(s, bytes(1400))
        time.sleep(0.01)
    a.stop.wait()


def by_octets(a):
    up = a.started(a.open())
    head = struct.pack(">HBBIIII", 60000, 0x01, 0x43, 0, 0, 1, 0)
    for s in up:
        send(s, head)
    while not a.stop.wait(0.05):
        for s in up:
            send(s, b"x")


def silent(a):
    a.open()
    a.stop.wait()


def slow(a):
    up = a.open()
    for octet in mpa_request()[:16]:
        for s in up:
            send(s, bytes([octet]))
        if a.stop.wait(0.3):
            return
    a.stop.wait()


def opened(a, up, at=80, rights=2, export=b"e"):
    """(socket, STag) of the connections to which the export was granted. The handle is at offset 76."""
    args = XDR.pack(1) + export + b"\0\0\0" + XDR.pack(rights) + XDR.pack(0)
    for s in up:
        send(s, call(2, args))
    for s in up:
        ready, _, _ = select.select((s,), (), (), 0.5)
        with contextlib.suppress(OSError):
            got = s.recv(4096) if ready else b""
            # length, DDP's header, 28 octets of RFC 8166, 24 of an accepted reply, status, handle, STag
            if len(got) >= 84 and got[72:76] == bytes(4):
                yield s, got[at:at + 4]


def reads(a, length, n, **opts):
    up = list(opened(a, a.started(a.open(**opts))))
    for s, stag in up:
        for i in range(n):
            sink = struct.pack(">IQI", 1, 0, length)
            send(s, untagged(1, 1, 1 + i, sink + stag + struct.pack(">Q", 4096)))
    a.stop.wait()


def unread(a):
    reads(a, 1 << 20, 12)


def small_segments(a):
    reads(a, 1 << 20, 12, maxseg=88)


def zero_window(a):
    reads(a, 1400, 60, rcvbuf=2304)


def verifies(a):
    """Verifies of 64 MiB, again and again, each for a few octets."""
    for s, stag in list(opened(a, a.started(a.open()), rights=66)):
        for i in range(60):
            send(s, untagged(0xE, 1, 1 + i, stag + struct.pack(">IQ", 64 << 20, 4096)))
    a.stop.wait()


def flushes(a):
    """Flushes of a whole file, each for a few octets: 50 in flight on each connection, and one more for each answer."""
    got = {s: stag for s, stag in opened(a, a.started(a.open()), rights=0x12, export=b"f")}
    sent, part = dict.fromkeys(got, 0), dict.fromkeys(got, 0)

    def ask(s, n):
        for _ in range(n):
            sent[s] += 1
            send(s, untagged(0xC, 1, sent[s], got[s] + struct.pack(">IQI", (FILE_MIB - 8) << 19, 4096, 1)))
    for s in got:
        ask(s, 50)
    while not a.stop.is_set():
        for s in select.select(list(got), (), (), 0.2)[0]:
            try:
                part[s] += len(s.recv(65536))
            except OSError:
                del got[s]
                continue
            n, part[s] = divmod(part[s], len(untagged(0xD, 1, 0, b"")))
            ask(s, n)


def parts(a):
    up = a.started(a.open())
    for i in range(40):
        head = b"".join(map(XDR.pack, (0x77, 2, 8, 9, (1 << 20) - 960 * i)))
        for s in up:
            send(s, untagged(3, 0, 1 + i, head + XDR.pack(0x77) + bytes(956)))
        if a.stop.wait(0.02):
            return
    a.stop.wait()


def replies(a, drip):
    """READ calls of 1 MiB each with a Reply chunk: the answers are copies that wait for the window."""
    up = a.started(a.open(rcvbuf=2304))
    got = {s: handle for s, handle in opened(a, up, 76)}
    for k in range(70):
        xid = 100 + k
        head = (xid, 1, 8, 0, 0, 0, 1, 1, 0x1234, 2 << 20, 0, 0, xid, 0, 2, 0x2057EF70, 1, 5, 0, 0, 0, 0)
        for s, handle in got.items():
            send(s, untagged(3, 0, 2 + k, b"".join(map(XDR.pack, head)) + handle + struct.pack(">QI", 0, 1 << 20)))
        if a.stop.wait(0.004):
            return
    while not a.stop.wait(0.5):
        for s in got if drip else ():
            with contextlib.suppress(OSError):
                s.recv(600)


def replies_unread(a):
    replies(a, False)


def replies_dripped(a):
    replies(a, True)


def half_closed(a):
    for s in a.started(a.open()):
        with contextlib.suppress(OSError):
            s.shutdown(socket.SHUT_WR)
    a.stop.wait()


def churn(a):
    rnd, i = random.Random(5), 0
    while not a.stop.wait(0.002):
        s = a.socket(i)
        i += 1
        time.sleep(0.001)
        send(s, rnd.choice((b"", mpa_request(), rnd.randbytes(64), mpa_request() + untagged(7, 2, 1, bytes(4)))))
        if len(a.socks) > 64:
            a.socks.pop(0).close()


CONN = {  # attack: function, connections, addresses
    "half_fpdu": (half_fpdu, 270, 270),
    "fpdu_by_octets": (by_octets, 270, 270),
    "silent": (silent, 300, 4),
    "silent_many": (silent, 300, 300),
    "slow_startup": (slow, 300, 4),
    "unread": (unread, 24, 24),
    "small_segments": (small_segments, 24, 24),
    "zero_window": (zero_window, 100, 100),
    "verifies": (verifies, 100, 2),
    "flushes": (flushes, 200, 2),
    "rpc_parts": (parts, 200, 200),
    "replies_unread": (replies_unread, 40, 4),
    "replies_dripped": (replies_dripped, 40, 4),
    "half_closed": (half_closed, 200, 200),
    "churn": (churn, 0, 50),
}

# Ten thousand packets per second, limited in number.
FLOODS = {
    "syn": ["-S", "-p", str(PORT), "-a", "10.88.1.1"],
    "syn_spoofed": ["-S", "-p", str(PORT), "--rand-source"],
    "ack": ["-A", "-p", str(PORT), "--rand-source"],
    "xmas": ["-F", "-S", "-R", "-P", "-A", "-U", "-X", "-Y", "-p", str(PORT), "--rand-source"],
    "icmp": ["-1", "--rand-source"],
    "udp": ["-2", "-p", str(PORT), "--rand-source"],
    "fragments": ["-S", "-p", str(PORT), "-d", "1200", "-f", "-a", "10.88.1.2"],
}


# ---- A case ----

def judge(name, n, attack, leave):
    export = "f" if name == "flushes" else "e"
    quiet = n.quiet(export)
    attack()
    time.sleep(1)
    ping = n.ping(2.5)
    try:
        got, (seen, said) = n.push(lambda: (*n.held(), n.rss_mib()), export)
        calls = n.ask("/weft/target/calls")
        listed = n.cp("--list", f"weft://{TARGET}")
        out, err = listed.communicate(timeout=30)
        pings = ping.communicate(timeout=30)[0]
    finally:
        n.world.reap(ping)
        leave()
    m = re.search(r"(\d+) packets transmitted, (\d+) received", pings)
    lost = int(m.group(1)) - int(m.group(2))
    end = time.monotonic() + GONE_S
    while (after := n.held()) > n.base and (after[0] > n.base[0] or after[1] > n.base[1]) and time.monotonic() < end:
        time.sleep(0.2)
    while (mib := n.rss_mib()) > n.base_mib + BACK_MIB and time.monotonic() < end:
        time.sleep(0.2)
    most = [max(x[i] for x in seen) if seen else 0 for i in (0, 1, 2)]
    print(f"# {name:16} {n.workers}  held {most[0] - n.base[0]:5} mbufs {most[1]:4} conns {most[2] - n.base_mib:4.0f} MiB  "
          f"goodput {100 * got / quiet:3.0f}% of {quiet / 1e6:.1f} MB/s  pings lost {lost} of {m.group(1)}  "
          f"list {'served' if listed.returncode == 0 else 'refused'}",
          flush=True)
    assert got > quiet / 2, f"{got:.0f} of {quiet:.0f} octets a second: {said}"
    assert lost == 0, pings
    assert listed.returncode == 0, out + err
    assert after[0] <= n.base[0] and after[1] <= n.base[1], f"held {n.base} before, {after} after: {n.conns()}"
    # docs/limits.md: calls, answers and FPDUs of all addresses, and the share of each connection.
    limit = n.workers * WORKER_MIB + most[1] * CONN_MIB
    assert most[2] - n.base_mib <= limit, f"{most[2]:.0f} MiB, {n.base_mib:.0f} before"
    assert mib <= n.base_mib + BACK_MIB, f"{n.base_mib:.0f} MiB before, {mib:.0f} after"
    assert calls["most_bytes"] <= calls["limit_bytes"] and ("replies" not in name or calls["held_bytes"] > 0), calls
    assert n.proc.poll() is None, n.logged()


def conn_case(name, workers):
    def case():
        n = net(workers)
        fn, count, addrs = CONN[name]
        a = Attack(n, fn, count, addrs)
        judge(name, n, a.start, a.end)
    case.__name__ = f"test_{name}_w{workers}"
    return case


def flood_case(name, workers):
    def case():
        if shutil.which("hping3") is None:
            raise Skip("no hping3 (Debian package hping3)")
        n = net(workers)
        procs = []

        def begin():
            procs.append(n.world.spawn(n.k, ["hping3", "-q", "-i", "u100", "-c", "80000", *FLOODS[name], TARGET],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL))
        judge(name, n, begin, lambda: n.world.reap(procs[0]))
    case.__name__ = f"test_{name}_w{workers}"
    return case


def last():
    """The targets still run, and stop when asked."""
    drop()


# with two workers: attacks that use the port's buffers
SHARED = ("syn_spoofed", "ack", "fragments", "half_fpdu", "silent_many", "unread", "zero_window")
CASES = [make(name, w) for w in (1, 2) for table, make in ((FLOODS, flood_case), (CONN, conn_case)) for name in table
         if w == 1 or name in SHARED]
last.__name__ = "test_targets_end"
try:
    main(CASES + [last])
finally:
    for left in NETS.values():
        left.world.close()
