#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""MTUs up to 65535 over net_memif: pushes and pulls, ends that differ, buffers that both ends share, and what is refused.
test_mtu.py BUILD [CASE...]"""
import signal
import subprocess
import time

from test_errors import refused
from test_visible import Telemetry
from weft_e2e import PROCS, Target, app, main, make_file, path, run, sha

MIB = 1 << 20
LARGE = 65535


def dev(role, sock, more=""):
    return f"net_memif0,role={role},id=0,socket={sock},socket-abstract=no{more}"


class Pair:
    """A weft-target of one MTU, and its clients of another."""

    def __init__(self, name, mtu, more="", port=""):
        self.t = Target(name, {"demo": {"path": path(name + ".exp"), "size": "64M"}})
        with open(self.t.conf, "w") as f:
            f.write(f"[weft]\ntelemetry = yes\n[port p0]\ndev = {dev('server', self.t.sock(0), more)}\n"
                    f"address = 10.0.0.1/24\naddress6 = fd00::1/64\nmtu = {mtu}\n{port}\n"
                    f"[export demo]\npath = {path(name + '.exp')}\nsize = 64M\n")
        self.t.start()

    def cp(self, mtu, src, dst, more="", six=False):
        # a writer that was killed keeps the export until its keep-alive ends
        rc, _, err = run([app("weft-cp"), "-q", "--retries", "30", "--dev", dev("client", self.t.sock(0), more), "--address",
                          "10.0.0.2/24,fd00::2/64", "--mtu", str(mtu), src, dst])
        assert rc == 0, f"{err}\n--- target:\n{self.t.logged()[-1500:]}"

    def both_ways(self, mtu, size, more="", six=False):
        """Push and pull; octets of a received packet on average, while the target was pushed to."""
        url = "weft://[fd00::1]/demo" if six else "weft://10.0.0.1/demo"
        name = f"{self.t.name}.{mtu}.{six}"
        src, out = make_file(name, size, mtu), path(name + ".out")
        before = self.stats()
        self.cp(mtu, src, url, more)
        after = self.stats()
        self.cp(mtu, url, out, more)
        assert sha(src) == sha(out), "not what was pushed"
        return (after["rx_bytes"] - before["rx_bytes"]) / (after["rx_packets"] - before["rx_packets"])

    def stats(self):
        return Telemetry(self.t.proc.pid).ask("/weft/netif,0,0")


def test_push_and_pull_of_large_frames():
    p = Pair("lg", LARGE)
    for six in (False, True):
        mean = p.both_ways(LARGE, 25 * MIB + 17, six=six)
        assert mean > 40000, f"packets of {mean:.0f} octets on average"
    st = p.stats()
    for bad in ("rx_bad_ip", "rx_cut", "rx_bad_tcp_cksum", "rx_no_mbuf", "tx_no_mbuf"):
        assert st[bad] == 0, st
    assert p.t.term() == 0


def test_ends_that_differ():
    """Each end keeps to what the other can take (RFC 9293 s3.7.1)."""
    for target, client in ((LARGE, 1500), (1500, LARGE), (9000, LARGE)):
        p = Pair(f"df{target}.{client}", target)
        mean = p.both_ways(client, 10 * MIB + 1)
        assert 0.4 * min(target, client) < mean <= min(target, client) + 18, mean
        assert p.t.term() == 0


def test_few_buffers():
    """The fewest mbufs, and a ring of few slots."""
    p = Pair("few", LARGE, port="mbufs = 1024")
    assert p.both_ways(LARGE, 20 * MIB, more=",rsize=3") > 20000
    assert p.t.term() == 0


def test_ring_that_holds_no_frame():
    for mtu, bsize in ((9000, 2048), (LARGE, 10112), (1500, 1024)):
        args = ["--dev", dev("client", path("no.sock"), f",bsize={bsize}"), "--address", "10.0.0.2/24", "--mtu", str(mtu)]
        refused([app("weft-cp"), *args, "weft://10.0.0.1/x", path("no.out")], "bsize", "leave bsize out")
        with open(path("no.ini"), "w") as f:
            f.write(f"[port p0]\ndev = {args[1]}\naddress = 10.0.0.2/24\nmtu = {mtu}\n"
                    "[export v]\nsize = 4M\npersist = volatile\n")
        refused([app("weft-target"), "--check-config", "-c", path("no.ini")], "p0", "bsize", "leave bsize out")


SHARED = ",zero-copy=yes"


def test_shared_buffers():
    """The client's mbufs are the ring's buffers: the same octets arrive, with frames of each length and with few slots."""
    for mtu, more in ((1500, ""), (9000, ""), (LARGE, ""), (9000, ",rsize=6"), (1500, ",rsize=10")):
        p = Pair(f"zc{mtu}.{more[-2:].strip('=')}", mtu)
        for six in (False, True):
            p.both_ways(mtu, 25 * MIB + 17, more=SHARED + more, six=six)
        st = p.stats()
        for bad in ("rx_bad_ip", "rx_cut", "rx_bad_tcp_cksum", "rx_no_mbuf", "tx_no_mbuf"):
            assert st[bad] == 0, (mtu, st)
        assert p.t.term() == 0


def pushing(p, src):
    cp = subprocess.Popen([app("weft-cp"), "-q", "--reconnect", "0", "--dev", dev("client", p.t.sock(0), SHARED), "--address",
                           "10.0.0.2/24", "--mtu", "9000", src, "weft://10.0.0.1/demo"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)
    PROCS.append(cp)
    return cp


def pushed(p, before, octets):
    """Wait until the target has received so many octets."""
    end = time.monotonic() + 30
    while p.stats()["rx_bytes"] < before + octets:
        assert time.monotonic() < end, p.stats()["rx_bytes"]
        time.sleep(0.002)


def test_shared_buffers_of_the_dead():
    """Either end is killed while the other one uses its buffers: the other one serves on, or ends with one line."""
    p = Pair("zk", 9000)
    src = make_file("zk", 30 * MIB, 1)
    for octets in (1000, MIB, 10 * MIB, 20 * MIB):
        before = p.stats()["rx_bytes"]
        cp = pushing(p, src)
        pushed(p, before, octets)
        cp.kill()
        cp.communicate()
        p.both_ways(9000, 5 * MIB, more=SHARED)
    before = p.stats()["rx_bytes"]
    cp = pushing(p, src)
    pushed(p, before, MIB)
    p.t.proc.send_signal(signal.SIGKILL)
    p.t.proc.wait()
    _, err = cp.communicate(timeout=60)
    assert cp.returncode > 0 and err.count("\n") <= 2 and "weft-cp: " in err, (cp.returncode, err)


def of_server(name, *ports):
    """A weft-target whose ports are clients of others' ports."""
    with open(path(name + ".ini"), "w") as f:
        for i, device in enumerate(ports):
            f.write(f"[port p{i}]\ndev = {device.replace('memif0', f'memif{i}')}\naddress = 10.0.{i}.9/24\nmtu = 9000\n")
        f.write(f"[worker w0]\nports = {','.join(f'p{i}' for i in range(len(ports)))}\n[export v]\nsize = 4M\n"
                "persist = volatile\n")
    with open(path(name + ".log"), "w") as log:
        t = subprocess.Popen([app("weft-target"), "-c", path(name + ".ini")], stderr=log, stdout=subprocess.DEVNULL)
    PROCS.append(t)
    return t


def test_shared_buffers_of_two_ports():
    """Each port hands over the memory, and the driver closes what it has handed over: it must not be EAL's own descriptor."""
    a, b = Pair("za", 9000), Pair("zb", 9000)
    t = of_server("two", dev("client", a.t.sock(0), SHARED), dev("client", b.t.sock(0), SHARED))
    # frames of both arrive: neighbour discovery sends some
    for p in (a, b):
        pushed(p, 0, 100)
    t.terminate()
    assert t.wait(timeout=30) == 0
    for p in (a, b):
        assert p.t.term() == 0


def test_shared_buffers_of_a_second_try():
    """The server is another client's when this one comes: it tries again, with the memory and not with what else has its number."""
    p = Pair("zt", 9000)
    src = make_file("zt", 30 * MIB, 1)
    for i in range(3):
        before = p.stats()["rx_bytes"]
        held = of_server(f"held{i}", dev("client", p.t.sock(0)))
        pushed(p, before, 100)
        cp = pushing(p, src)
        time.sleep(0.5)  # it is refused at least once
        held.kill()
        held.wait()
        _, err = cp.communicate(timeout=60)
        assert cp.returncode == 0, err
    assert p.t.term() == 0


def test_shared_buffers_that_rings_would_hold():
    """Or rings that are too short for the driver to fill them again."""
    for rsize in (5, 14):
        with open(path("sh.ini"), "w") as f:
            f.write(f"[port p0]\ndev = {dev('client', path('sh.sock'), SHARED)},rsize={rsize}\naddress = 10.0.0.2/24\n"
                    "[export v]\nsize = 4M\npersist = volatile\n")
        refused([app("weft-target"), "--check-config", "-c", path("sh.ini")], f"rsize={rsize}", "rings of all queues")


def test_memory_that_holds_no_mbufs():
    with open(path("mem.ini"), "w") as f:
        f.write(f"[weft]\nmemory_mb = 96\n[port p0]\ndev = {dev('server', path('mem.sock'))}\naddress = 10.0.0.2/24\n"
                f"mtu = {LARGE}\n[export v]\nsize = 4M\npersist = volatile\n")
    for args in (["--check-config"], []):
        refused([app("weft-target"), *args, "-c", path("mem.ini")], "p0", "2048 mbufs", f"{LARGE} octets", "129 MiB",
                "raise memory_mb (96)")


def test_limits_of_the_key():
    for bad in ("575", "65536", "-1"):
        with open(path("lim.ini"), "w") as f:
            f.write(f"[port p0]\ndev = {dev('server', path('lim.sock'))}\naddress = 10.0.0.2/24\nmtu = {bad}\n")
        refused([app("weft-target"), "--check-config", "-c", path("lim.ini")], "lim.ini:4", "mtu", "576")
        rc, _, err = run([app("weft-ping"), "--dev", dev("client", path("lim.sock")), "--address", "10.0.0.2/24", f"--mtu={bad}",
                          "10.0.0.1"])
        assert rc == 2 and "--mtu" in err, err


main([test_push_and_pull_of_large_frames, test_ends_that_differ, test_few_buffers, test_ring_that_holds_no_frame,
      test_shared_buffers, test_shared_buffers_of_the_dead, test_shared_buffers_of_two_ports, test_shared_buffers_of_a_second_try,
      test_shared_buffers_that_rings_would_hold,
      test_memory_that_holds_no_mbufs, test_limits_of_the_key])
