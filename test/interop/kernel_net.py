# SPDX-License-Identifier: BSD-3-Clause
"""Network namespaces, kernel sockets in them, and tcp_peer processes: the base of run_kernel_tcp.py."""
import contextlib
import copy
import ctypes
import hashlib
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)

K4, W4, K6, W6 = "10.77.0.1", "10.77.0.2", "fd77::1", "fd77::2"
PORT = 5077


class Fail(Exception):
    """The case has failed, for the reason in the text."""


def check(cond, text):
    if not cond:
        raise Fail(text)


def sh(*args, ok=True):
    r = subprocess.run(args, capture_output=True, text=True, timeout=30)
    if ok and r.returncode != 0:
        raise Fail(f"{' '.join(args)}: {r.stderr.strip()}")
    return r.stdout


# ---- A computer that others use, too ----

class Busy:
    """How much of the time since its creation tasks of this computer waited for a core."""

    #: From this share on, retransmissions say nothing about either TCP: an end without a core for a few milliseconds is
    #: late with ACKs, and loses what its ring does not hold. Octets, options, windows and checksums are judged always.
    LIMIT = 0.2
    judged, asked = 0, 0

    def __init__(self):
        self.t0, self.before, self.of_all = time.monotonic(), self.waited_s(), 0.0

    @staticmethod
    def waited_s():
        """Pressure of Linux (some task waits), and what the host of a virtual machine took of each core."""
        total = 0.0
        with contextlib.suppress(OSError, AttributeError), open("/proc/pressure/cpu", encoding="ascii") as f:
            total += int(re.search(r"^some .*total=(\d+)", f.read(), re.M).group(1)) / 1e6
        with open("/proc/stat", encoding="ascii") as f:
            total += int(f.readline().split()[8]) / os.sysconf("SC_CLK_TCK") / os.cpu_count()
        return total

    def end(self):
        """The transfer is complete."""
        self.of_all = (self.waited_s() - self.before) / max(time.monotonic() - self.t0, 1e-3)

    def disturbs(self, rep):
        """Whether retransmissions cannot be judged. Says so. rep: of the tcp_peer, whose thread knows how long it waited."""
        share = max(self.of_all, rep["late_s"] / max(rep["seconds"], 1e-3))
        Busy.asked += 1
        Busy.judged += share < self.LIMIT
        if share >= self.LIMIT:
            print(f"# retransmissions are not judged: a task waited for a core {share:.0%} of the time")
        return share >= self.LIMIT


# ---- Namespaces ----

def sweep():
    """Remove namespaces that a killed run left."""
    def dead(pid):
        return pid.isdigit() and not os.path.exists(f"/proc/{pid}")
    for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else ():
        if name.startswith("wefttcp-") and dead(name.rsplit("-", 1)[1]):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
    for name in os.listdir(tempfile.gettempdir()):
        if name.startswith("weft-kernel.") and dead(name.split(".")[1]):
            shutil.rmtree(os.path.join(tempfile.gettempdir(), name), ignore_errors=True)


class World:
    """All namespaces and processes of one run. close() removes them."""

    def __init__(self):
        self.tag = os.getpid()
        self.spaces, self.procs, self.socks = [], [], []
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)
        sweep()
        self.tmp = tempfile.mkdtemp(prefix=f"weft-kernel.{self.tag}.")

    def space(self, what):
        name = f"wefttcp-{what}-{self.tag}"
        sh("ip", "netns", "add", name)
        self.spaces.append(name)
        sh("ip", "-n", name, "link", "set", "lo", "up")
        with self.inside(name):
            for key, value in {"net/ipv4/tcp_no_metrics_save": "1", "net/ipv6/conf/default/router_solicitations": "0",
                               "net/ipv6/conf/default/accept_dad": "0"}.items():
                with contextlib.suppress(OSError), open("/proc/sys/" + key, "w") as f:
                    f.write(value)
        return name

    @contextlib.contextmanager
    def inside(self, name):
        """Sockets and processes created inside belong to the namespace, wherever they are used later."""
        fd = os.open(f"/run/netns/{name}", os.O_RDONLY)
        try:
            if libc.setns(fd, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            yield
        finally:
            os.close(fd)
            if libc.setns(self.home, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns back")

    def spawn(self, name, args, **kw):
        with self.inside(name):
            p = subprocess.Popen(args, **kw)
        self.procs.append(p)
        return p

    def reap(self, p, sig=signal.SIGTERM, timeout=10):
        if p.poll() is None:
            p.send_signal(sig)
        try:
            p.wait(timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        if p in self.procs:
            self.procs.remove(p)

    def close_sockets(self):
        for s in self.socks:
            with contextlib.suppress(OSError):
                s.close()
        self.socks.clear()

    def close(self):
        # A signal may arrive twice, to the process and to its group. Neither may interrupt this.
        for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(sig, signal.SIG_IGN)
        self.close_sockets()
        for p in list(self.procs):
            self.reap(p, signal.SIGKILL)
        for name in self.spaces:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, start_new_session=True)
        self.spaces.clear()
        shutil.rmtree(self.tmp, ignore_errors=True)


def veth(a_ns, a, b_ns, b, mtu=1500):
    """Create a veth pair that behaves like a wire: complete checksums, and no frame beyond the MTU."""
    sh("ip", "-n", a_ns, "link", "add", a, "type", "veth", "peer", "name", b, "netns", b_ns)
    for ns, dev in ((a_ns, a), (b_ns, b)):
        sh("ip", "netns", "exec", ns, "ethtool", "-K", dev, "tx", "off", "tso", "off", "gso", "off", "gro", "off")
        # The kernel sends from its process or from an ACK's interrupt, so frames on the queues of two CPUs could be
        # reordered. With receive packet steering a connection's frames wait in one queue.
        queue = f"/sys/class/net/{dev}/queues/rx-0/rps_cpus"
        sh("ip", "netns", "exec", ns, "sh", "-c", f"echo {(1 << min(os.cpu_count(), 31)) - 1:x} > {queue}", ok=False)
        sh("ip", "-n", ns, "link", "set", dev, "mtu", str(mtu), "up")


class Switch(threading.Thread):
    """Two ports of a bridge (IEEE 802.1Q): ours for tagged frames of one VLAN, and the kernel's as its access port. Not
    every kernel has VLAN interfaces."""

    SOL_PACKET, PACKET_AUXDATA, VLAN_VALID, OUTGOING = 263, 8, 0x10, 4

    def __init__(self, rig, dev_w, vlan):
        super().__init__(daemon=True)
        self.vlan, self.foreign = vlan, 0
        ns = rig.world.space(f"s{len(rig.world.spaces)}")
        trunk, access = "t" + dev_w, "a" + dev_w
        with rig.world.inside(ns):
            for which in ("all", "default"):
                with open(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6", "w") as f:
                    f.write("1")
        veth(rig.ns_w, dev_w, ns, trunk)
        veth(ns, access, rig.ns, rig.dev)
        self.trunk, self.access = self._port(rig, ns, trunk), self._port(rig, ns, access)
        self.end_r, self.end_w = os.pipe()
        self.start()

    def _port(self, rig, ns, dev):
        with rig.world.inside(ns):
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        s.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
        s.setsockopt(self.SOL_PACKET, self.PACKET_AUXDATA, 1)
        s.bind((dev, 3))
        return s

    def _frame(self, s):
        """(frame without its tag, VLAN of the tag or None); nothing for an outgoing frame."""
        frame, aux, _, addr = s.recvmsg(2048, socket.CMSG_SPACE(20), socket.MSG_DONTWAIT)
        status, _, _, _, _, tci, _ = struct.unpack("IIIHHHH", aux[0][2][:20])
        return (frame, tci & 0xfff if status & self.VLAN_VALID else None) if addr[2] != self.OUTGOING else (None, None)

    def run(self):
        while True:
            ready, _, _ = select.select((self.trunk, self.access, self.end_r), (), ())
            if self.end_r in ready:
                return
            for s in ready:
                frame, vid = self._frame(s)
                if frame is None:
                    continue
                if s is self.access:
                    self.trunk.send(frame[:12] + struct.pack(">HH", 0x8100, self.vlan) + frame[12:])
                elif vid == self.vlan:
                    self.access.send(frame)
                elif frame[12:14] != b"\x88\xb5":  # instead of a frame that --loss-ppm drops
                    self.foreign += 1

    def close(self):
        os.write(self.end_w, b"x")
        self.join()
        for fd in (self.end_r, self.end_w):
            os.close(fd)
        self.trunk.close()
        self.access.close()


class Rig:
    """One port of ours, connected to the kernel."""

    def __init__(self, world, kind, tcp_peer, mtu=1500, vlan=0):
        self.world, self.kind, self.exe, self.mtu = world, kind, tcp_peer, mtu
        self.k6, self.w6, self.scope = K6, W6, 0
        n = len(world.spaces)
        self.ns = world.space(f"k{n}")
        if kind == "tap":
            self.ns_w, self.dev = self.ns, f"wt{n}x{world.tag % 100000}"
            self.port = f"net_tap0,iface={self.dev}"
            return
        self.ns_w = world.space(f"w{n}")
        self.dev, dev_w = f"wk{n}x{world.tag % 100000}", f"ww{n}x{world.tag % 100000}"
        # no kernel address at our end, because the kernel would answer for us
        with world.inside(self.ns_w):
            for which in ("all", "default"):
                with open(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6", "w") as f:
                    f.write("1")
        self.dev_w = dev_w
        if vlan:
            self.switch = Switch(self, dev_w, vlan)
        else:
            veth(self.ns_w, dev_w, self.ns, self.dev, mtu)
        self.addresses()
        if kind == "af_packet":
            # The ring holds a whole receive window, so that bursts lose nothing. Blocks are whole frames for the
            # driver, and whole pages for the kernel.
            block, size, count = (16384, 2048, 2048) if mtu <= 1500 else (20480, 10240, 1024)
            self.port = f"net_af_packet0,iface={dev_w},blocksz={block},framesz={size},framecnt={count}"
        else:
            self.port = f"net_af_xdp0,iface={dev_w}"

    def addresses(self):
        sh("ip", "-n", self.ns, "addr", "replace", K4 + "/24", "dev", self.dev)
        sh("ip", "-n", self.ns, "addr", "replace", K6 + "/64", "dev", self.dev, "nodad")

    def mac(self):
        """Our hardware address."""
        return bytes.fromhex(json.loads(sh("ip", "-n", self.ns_w, "-j", "link", "show", self.dev_w))[0]["address"]
                             .replace(":", ""))

    def link_local(self):
        """The same port with the link-local addresses of both ends (RFC 4291 s2.5.6)."""
        rig = copy.copy(self)
        m = self.mac()
        rig.w6 = socket.inet_ntop(socket.AF_INET6, b"\xfe\x80" + bytes(6) + bytes([m[0] ^ 2]) + m[1:3] + b"\xff\xfe" + m[3:])
        link = json.loads(sh("ip", "-n", self.ns, "-j", "addr", "show", "dev", self.dev))[0]
        rig.k6 = [a["local"] for a in link["addr_info"] if a.get("scope") == "link" and a["family"] == "inet6"][0]
        rig.scope = link["ifindex"]
        return rig

    def ours(self):
        return W4, self.w6

    def addr(self, family):
        return (K4, W4) if family == 4 else (self.k6, self.w6)

    def peer(self, *args, local=f"{W4}/24,{W6}/64", timeout=60):
        return Peer(self, [*args, "--timeout", str(timeout)], local)

    # Kernel sockets

    def socket(self, family, timeout=60):
        with self.world.inside(self.ns):
            s = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_STREAM)
        self.world.socks.append(s)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # independent of the default, which a namespace cannot change
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        s.settimeout(timeout)
        return s

    def listen(self, family, port=PORT, **kw):
        s = self.socket(family, **kw)
        s.bind(("", port))  # a tap has no address before tcp_peer has created it
        s.listen(1024)
        return s

    def connect(self, family, port=PORT, **kw):
        s = self.socket(family, **kw)
        s.connect((self.addr(family)[1], port) if family == 4 else (self.addr(family)[1], port, 0, self.scope))
        return s


class Peer:
    """A tcp_peer process."""

    def __init__(self, rig, args, local):
        self.rig = rig
        self.p = rig.world.spawn(rig.ns_w, [rig.exe, *args, rig.port, local], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        if rig.kind == "tap":
            self._tap()
        line = self.p.stdout.readline()
        if line.strip() not in ("listening", "connecting"):
            raise Fail("tcp_peer did not start: " + line + self.p.communicate()[1])
        if rig.kind == "tap":
            sh("ip", "-n", rig.ns, "link", "set", rig.dev, "up")
            rig.addresses()

    def _tap(self):
        for _ in range(100):
            if subprocess.run(["ip", "-n", self.rig.ns, "link", "show", self.rig.dev], capture_output=True).returncode == 0:
                return
            time.sleep(0.05)

    def stop(self):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)

    def report(self, ok=True, timeout=90):
        """Wait for the end of the process. Returns its report."""
        try:
            out, err = self.p.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.p.kill()
            out, err = self.p.communicate()
            raise Fail(f"tcp_peer did not end: {out}{err}") from None
        self.rig.world.procs.remove(self.p)
        try:
            rep = json.loads(out)
        except ValueError:
            raise Fail(f"tcp_peer: status {self.p.returncode}: {out}{err}") from None
        if ok and self.p.returncode != 0:
            short = {k: v for k, v in rep["tcp"].items() if v} | {k: v for k, v in rep["netif"].items() if v}
            raise Fail(f"tcp_peer: status {self.p.returncode}: {err.strip()} {short} {rep['conn'][:2]}")
        rep["stderr"] = err
        return rep


# ---- What the kernel's end of a connection does ----

BLOCK = random.Random(77).randbytes(4 << 20)
CHUNK = 256 << 10


def send_all(s, n):
    """Send n octets without early repetition. Returns (octets, sha256)."""
    h, sent = hashlib.sha256(), 0
    while sent < n:
        at = (sent // CHUNK * 4099) % (len(BLOCK) - CHUNK)
        piece = memoryview(BLOCK)[at:at + min(CHUNK, n - sent)]
        s.sendall(piece)
        h.update(piece)
        sent += len(piece)
    return sent, h.hexdigest()


def recv_all(s, n=None):
    """Receive up to the end of the stream, or n octets. Returns (octets, sha256)."""
    h, got, buf = hashlib.sha256(), 0, bytearray(1 << 20)
    view = memoryview(buf)
    while n is None or got < n:
        k = s.recv_into(view, len(buf) if n is None else min(len(buf), n - got))
        if k == 0:
            break
        h.update(view[:k])
        got += k
    return got, h.hexdigest()


class Job(threading.Thread):
    """Run fn(*args) in a thread. result() returns its value or raises its exception."""

    def __init__(self, fn, *args):
        super().__init__(daemon=True)
        self.fn, self.fn_args, self.value, self.error = fn, args, None, None
        self.start()

    def run(self):
        try:
            self.value = self.fn(*self.fn_args)
        except BaseException as e:  # raised again by result()
            self.error = e

    def result(self, timeout=90):
        self.join(timeout)
        check(not self.is_alive(), f"{self.fn.__name__} does not end")
        if self.error is not None:
            raise self.error
        return self.value


_INFO = struct.Struct("<8B24I4Q6I4Q2I2Q4I")
_NAMES = ("state ca_state retransmits probes backoff options wscale flags rto ato snd_mss rcv_mss unacked sacked lost "
          "retrans fackets last_data_sent last_ack_sent last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar "
          "snd_ssthresh snd_cwnd advmss reordering rcv_rtt rcv_space total_retrans pacing_rate max_pacing_rate "
          "bytes_acked bytes_received segs_out segs_in notsent_bytes min_rtt data_segs_in data_segs_out delivery_rate "
          "busy_time rwnd_limited sndbuf_limited delivered delivered_ce bytes_sent bytes_retrans dsack_dups reord_seen "
          "rcv_ooopack snd_wnd").split()


def tcp_info(s):
    raw = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    i = dict(zip(_NAMES, _INFO.unpack(raw.ljust(_INFO.size, b"\0"))))
    i["timestamps"], i["sack"], i["wscale_ok"], i["ecn"] = (bool(i["options"] & b) for b in (1, 2, 4, 8))
    i["snd_wscale"], i["rcv_wscale"] = i["wscale"] & 15, i["wscale"] >> 4
    return i


def ss(rig, peer):
    """The output of `ss -ti` for each connection with this address, as {name: text}."""
    out = sh("ip", "netns", "exec", rig.ns, "ss", "-tinoH", "dst", peer)
    rows = []
    for line in out.replace("\n\t", " ").splitlines():
        row = {w: "" for w in line.split() if ":" not in w}
        row.update(w.split(":", 1) for w in line.split() if re.match(r"[a-z_]+:", w))
        rows.append(row)
    return rows


# ---- Captures ----

class Capture:
    """A capture of whole frames at the kernel's end."""

    def __init__(self, rig, name):
        self.rig, self.file = rig, os.path.join(rig.world.tmp, name + ".pcap")
        self.p = rig.world.spawn(rig.ns, ["tcpdump", "-B", "131072", "-s", "0", "-U", "-i", rig.dev, "-w", self.file,
                                          "ip or ip6 or arp"], stderr=subprocess.PIPE, text=True)
        line = self.p.stderr.readline()
        while line and "listening on" not in line:
            line = self.p.stderr.readline()
        check(line, "tcpdump did not start")

    def stop(self):
        """The capture file. Fails when frames are missing from it."""
        time.sleep(0.3)
        self.p.send_signal(signal.SIGINT)
        err = self.p.communicate(timeout=20)[1]
        self.rig.world.procs.remove(self.p)
        m = re.search(r"(\d+) packets? dropped by kernel", err)
        check(m and m.group(1) == "0", "tcpdump has missed frames: " + err)
        return self.file
