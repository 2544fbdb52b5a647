#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Linux kernel's TCP as the peer of lib/netif and lib/tcp, over real frames. TAP.

    run_kernel_tcp.py TCP_PEER [--soak] [--only PREFIX] [--list]

Needs root: it creates network namespaces and removes them at the end. --soak: every port, family, direction and
impairment with 1 GiB each; otherwise a part of that which ends within 90 s.
"""
import argparse
import os
import shutil
import signal
import socket
import struct
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from kernel_judge import few, judge  # noqa: E402
from kernel_net import (K4, K6, PORT, Busy, Capture, Fail, Job, Rig, World, check, recv_all, send_all, sh,  # noqa: E402
                        ss, tcp_info, veth)

MIB = 1 << 20
GIB = 1 << 30
LOSS = ("--loss-ppm", "10000", "--reorder-ppm", "5000")
LINGER = ("--linger-ms", "2000")  # the kernel's last FIN may be lost several times: 200 ms, 400 ms, 800 ms


def connect_arg(rig, family, port=PORT):
    return "--connect", f"{rig.addr(family)[0]},{port}"


# ---- Plausible values ----

def sane_kernel(i, family, mtu=1500, clean=True, quiet=True):
    """Check the kernel's own values of a connection with us. clean: nothing impaired the path; quiet: nor took a core away
    for long."""
    mss = mtu - (40 if family == 4 else 60) - 12
    check(i["timestamps"] and i["sack"] and i["wscale_ok"], f"options not agreed on: {i['options']:#x}")
    check(i["snd_mss"] == mss, f"kernel's MSS is {i['snd_mss']}, not {mss}")
    check(0 < i["rtt"] < 300000, f"kernel's rtt is {i['rtt']} us")
    check(i["snd_wscale"] > 0, "our window is not scaled")
    if clean and quiet:
        for k in ("total_retrans", "dsack_dups"):
            check(i[k] <= few(i["data_segs_out"]), f"kernel's {k} is {i[k]} of {i['data_segs_out']} segments on a clean path")
    if clean:
        check(i["reord_seen"] == 0, "kernel saw reordering on a clean path")


def sane_weft(rep, clean=True, quiet=True):
    """Check our values. clean: nothing impaired the path; quiet: nor took a core away for long."""
    t, n = rep["tcp"], rep["netif"]
    for k in ("rx_bad", "blind_drops", "acks_out_of_range", "sack_blocks_bad", "no_mbuf"):
        check(t[k] == 0, f"{k} = {t[k]}")
    # The end that closes last forgets the connection with the last ACK. A segment that the impairment or a computer
    # without a free core delayed beyond that causes a RST (RFC 9293 s3.10.7.1).
    check(t["resets_out"] <= (0 if clean and quiet else 1), f"resets_out = {t['resets_out']}")
    for k in ("rx_bad_ip", "rx_cut", "rx_bad_ip_cksum", "rx_bad_tcp_cksum", "rx_no_mbuf", "tx_no_route"):
        check(n[k] == 0, f"netif {k} = {n[k]}")
    if clean:
        check(t["paws_drops"] == 0, f"paws_drops = {t['paws_drops']}")
    if clean and quiet:
        for k in ("retrans_segs", "spurious_retrans", "rx_out_of_window"):
            check(t[k] <= few(t["segs_out"] + t["segs_in"]),
                  f"{k} = {t[k]} on a clean path, tlp_probes = {t['tlp_probes']}, rtos = {t['rtos']}")


def rate(n, t0):
    return f"{n / (time.monotonic() - t0) / 1e6:.0f} MB/s"


# ---- Transfers ----

def transfer(rig, family, to, opener, n, args=(), capture=None, timeout=120):
    """Transfer n octets to the kernel ('kernel') or to us ('weft'); opener opens the connection. Returns the observed
    values."""
    clean = not any(a.endswith("-ppm") for a in args)
    cap = Capture(rig, capture) if capture else None
    do = "discard" if to == "weft" else "source"
    t0 = time.monotonic()
    more = ["--do", do, "--bytes", str(n), *args]
    if not clean:
        more += LINGER
    if opener == "weft":
        ls = rig.listen(family, timeout=timeout)
        peer = rig.peer(*connect_arg(rig, family), *more, timeout=timeout)
        busy = Busy()
        s, _ = ls.accept()
        ls.close()
        s.settimeout(timeout)
    else:
        peer = rig.peer("--listen", str(PORT), *more, timeout=timeout)
        busy = Busy()
        s = rig.connect(family, timeout=timeout)
    if to == "weft":
        count, digest = send_all(s, n)
        s.shutdown(socket.SHUT_WR)
        check(s.recv(1) == b"", "octets that nobody sent")
    else:
        count, digest = recv_all(s)
    took = rate(n, t0)
    busy.end()
    info = tcp_info(s)
    s.close()
    rep = peer.report()
    check(rep["conns"] == 1, f"{rep['conns']} connections")
    c = rep["conn"][0]
    check(count == n, f"the kernel had {count} of {n} octets")
    check((c["in"] if to == "weft" else c["out"]) == n, f"we had {c['in']} in, {c['out']} out of {n}")
    check((c["sha256_in"] if to == "weft" else c["sha256_out"]) == digest, "SHA-256 differs")
    quiet = clean and not busy.disturbs(rep)
    if "--mtu" not in args and not any(a in ("--no-timestamps", "--no-sack", "--no-wscale") for a in args):
        sane_kernel(info, family, clean=clean, quiet=quiet)
    sane_weft(rep, clean, quiet)
    if not clean:
        check(rep["impaired"]["rx_lost"] + rep["impaired"]["tx_lost"] > n // 1448 // 200, "nothing was lost")
    if cap:
        judge(cap.stop(), rig.ours(), clean, quiet)
    t = rep["tcp"]
    print(f"# {took}; kernel: rtt {info['rtt']} us, cwnd {info['snd_cwnd']}, resent {info['total_retrans']}, needlessly "
          f"{info['dsack_dups']}; weft: srtt {c['info']['srtt_us']} us, cwnd {c['info']['cwnd']}, {c['info']['cc']}, resent "
          f"{t['retrans_segs']}, RTOs {t['rtos']}, needlessly {t['spurious_retrans']}")
    return info, rep


def both_ways(rig, family, n, args=()):
    """Both directions of one connection at once."""
    peer = rig.peer("--listen", str(PORT), "--do", "both", "--bytes", str(n), *args, timeout=120)
    busy = Busy()
    s = rig.connect(family, timeout=120)
    job = Job(send_all, s, n)
    got, digest = recv_all(s, n)
    sent, sent_digest = job.result(120)
    busy.end()
    s.shutdown(socket.SHUT_WR)
    check(s.recv(1) == b"", "octets that nobody sent")
    s.close()
    rep = peer.report()
    c = rep["conn"][0]
    check((got, digest) == (n, c["sha256_out"]), "to the kernel: not what was sent")
    check((sent, sent_digest) == (n, c["sha256_in"]), "to us: not what was sent")
    sane_weft(rep, not args, bool(args) or not busy.disturbs(rep))


# ---- Small cases ----

def ss_case(rig, family):
    """ss -ti during a transfer shows the negotiated options."""
    peer = rig.peer("--listen", str(PORT), "--do", "both", "--bytes", str(64 * MIB))
    s = rig.connect(family)
    recv_all(s, MIB)
    send_all(s, MIB)
    rows = ss(rig, rig.addr(family)[1] if family == 4 else f"[{rig.addr(family)[1]}]")
    check(len(rows) == 1, f"{len(rows)} connections in ss")
    r = rows[0]
    print("# ss: " + ", ".join(f"{k}:{v}" if v else k for k, v in r.items()))
    for word in ("ts", "sack", "cubic"):
        check(word in r, f"'{word}' is not in {sorted(r)}")
    check(r.get("mss") == str(1500 - (40 if family == 4 else 60) - 12), f"mss is {r.get('mss')}")
    check("," in r.get("wscale", ""), "no wscale")
    check(float(r["rtt"].split("/")[0]) < 300, f"rtt {r['rtt']} ms")
    recv_all(s, 63 * MIB)
    s.close()
    peer.report()


def echo_case(rig, family, args=()):
    peer = rig.peer("--listen", str(PORT), "--do", "echo", *args)
    s = rig.connect(family)
    for n in (1, 2, 535, 1447, 1448, 1449, 4096, 65536, 1 * MIB):
        job = Job(send_all, s, n)
        got = recv_all(s, n)
        check(got == job.result(), f"{n} octets come back changed")
    s.shutdown(socket.SHUT_WR)
    check(s.recv(1) == b"", "octets that nobody sent")
    peer.report()


def half_close_theirs(rig, family):
    """The kernel closes its direction first and continues to receive (RFC 9293 s3.6)."""
    n = 8 * MIB
    peer = rig.peer("--listen", str(PORT), "--do", "both", "--bytes", str(n), "--gap-us", "100")
    s = rig.connect(family)
    sent = send_all(s, 100000)
    s.shutdown(socket.SHUT_WR)
    got = recv_all(s)
    rep = peer.report()
    c = rep["conn"][0]
    check(got == (n, c["sha256_out"]) and sent == (c["in"], c["sha256_in"]), "not what was sent")
    check(c["eof"] and rep["tcp"]["resets_out"] == 0, "no orderly end")


def half_close_ours(rig, family):
    """We close first and continue to receive."""
    peer = rig.peer("--listen", str(PORT), "--do", "both", "--bytes", "1000")
    s = rig.connect(family)
    got = recv_all(s)
    time.sleep(0.3)
    sent = send_all(s, 4 * MIB)
    s.shutdown(socket.SHUT_WR)
    rep = peer.report()
    c = rep["conn"][0]
    check(got == (1000, c["sha256_out"]) and sent == (c["in"], c["sha256_in"]), "not what was sent")


def reset_theirs(rig, family):
    peer = rig.peer("--listen", str(PORT), "--do", "discard", "--expect-err", "104")
    s = rig.connect(family)
    send_all(s, 100000)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    rep = peer.report()
    check(rep["tcp"]["resets_in"] >= 1, "no RST counted")


def reset_ours(rig, family):
    peer = rig.peer("--listen", str(PORT), "--do", "discard", "--abort-after", "500000")
    s = rig.connect(family)
    try:
        send_all(s, 64 * MIB)
        raise Fail("the kernel did not notice the RST")
    except ConnectionResetError:
        pass
    rep = peer.report()
    check(rep["tcp"]["resets_out"] >= 1, "no RST counted")


def refused_by_us(rig, family):
    peer = rig.peer("--listen", str(PORT), "--do", "discard", timeout=20)
    s = rig.socket(family, timeout=5)
    try:
        s.connect((rig.addr(family)[1], PORT + 1))
        raise Fail("connected where nobody listens")
    except ConnectionRefusedError:
        pass
    s = rig.connect(family)
    s.close()
    peer.report()


def refused_by_kernel(rig, family):
    rep = rig.peer(*connect_arg(rig, family, PORT + 9), "--expect-err", "111", timeout=20).report()
    check(rep["conn"][0]["err"] == -111, f"ended with {rep['conn'][0]['err']}")


def urgent(rig, family):
    """Urgent octets remain in the stream (RFC 6093 s5)."""
    import hashlib
    peer = rig.peer("--listen", str(PORT), "--do", "discard")
    s = rig.connect(family)
    h = hashlib.sha256()
    for piece, flags in ((b"a" * 3000, 0), (b"!", socket.MSG_OOB), (b"b" * 5000, 0), (b"?", socket.MSG_OOB), (b"c", 0)):
        s.send(piece, flags)
        h.update(piece)
        time.sleep(0.05)
    s.close()
    rep = peer.report()
    check(rep["conn"][0]["sha256_in"] == h.hexdigest(), f"{rep['conn'][0]['in']} octets in, not those sent")
    check(rep["tcp"]["urgent_in"] >= 1, "urgent_in = 0")


def zero_window(rig, family, pause_s=3.0):
    """A reader that pauses long enough for several window probes (RFC 9293 s3.8.6.1), and then continues."""
    n = 16 * MIB
    ls = rig.socket(family)
    ls.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    ls.bind((rig.addr(family)[0], PORT))
    ls.listen(1)
    peer = rig.peer(*connect_arg(rig, family), "--do", "source", "--bytes", str(n))
    s, _ = ls.accept()
    s.settimeout(60)
    time.sleep(pause_s)
    t0 = time.monotonic()
    got = recv_all(s)
    took = time.monotonic() - t0
    s.close()
    rep = peer.report()
    check(got == (n, rep["conn"][0]["sha256_out"]), "not what was sent")
    t = rep["tcp"]
    check(t["zero_window_probes"] >= 2, f"{t['zero_window_probes']} probes in {pause_s} s")
    check(t["rtos"] == 0 or t["rtos"] <= t["zero_window_probes"], f"{t['rtos']} RTOs")
    check(took < 15, f"took {took:.1f} s after the window opened")
    print(f"# {t['zero_window_probes']} probes, {t['zero_windows_in']} zero windows, {took:.2f} s for the rest")


def slow_reader(rig, family):
    """A reader that reads little at a time: no silly windows, no stall (RFC 9293 s3.8.6.2)."""
    n = 2 * MIB
    ls = rig.socket(family)
    ls.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
    ls.bind((rig.addr(family)[0], PORT))
    ls.listen(1)
    peer = rig.peer(*connect_arg(rig, family), "--do", "source", "--bytes", str(n))
    s, _ = ls.accept()
    s.settimeout(20)
    import hashlib
    h, got = hashlib.sha256(), 0
    while True:
        piece = s.recv(7000)
        if not piece:
            break
        h.update(piece)
        got += len(piece)
        time.sleep(0.002)
    s.close()
    rep = peer.report()
    check((got, h.hexdigest()) == (n, rep["conn"][0]["sha256_out"]), "not what was sent")
    check(rep["tcp"]["segs_out"] < 6 * n // 1448, f"{rep['tcp']['segs_out']} segments for {n} octets")


def keepalive(rig, family):
    """Keepalive probes in both directions on an idle connection (RFC 9293 s3.8.4)."""
    peer = rig.peer("--listen", str(PORT), "--do", "idle", "--keepalive-ms", "700")
    s = rig.connect(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for o, v in ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 2)):
        s.setsockopt(socket.IPPROTO_TCP, o, v)
    time.sleep(2.5)
    check(tcp_info(s)["state"] == 1, "no longer established")
    s.close()
    rep = peer.report()
    check(rep["tcp"]["keepalive_probes"] >= 1, "no probe of ours")
    check(rep["tcp"]["keepalive_drops"] == 0, "keepalive gave up on a live peer")


def keepalive_dead(rig, family):
    """A peer that disappeared is detected: -ETIMEDOUT after the probes."""
    peer = rig.peer("--listen", str(PORT), "--do", "idle", "--keepalive-ms", "600", "--expect-err", "110", timeout=20)
    s = rig.connect(family)
    time.sleep(0.2)
    if family == 4:
        sh("ip", "-n", rig.ns, "addr", "del", K4 + "/24", "dev", rig.dev)
    else:
        sh("ip", "-n", rig.ns, "addr", "del", K6 + "/64", "dev", rig.dev)
    try:
        rep = peer.report()
    finally:
        rig.addresses()
    s.close()
    check(rep["tcp"]["keepalive_drops"] == 1, f"keepalive_drops = {rep['tcp']['keepalive_drops']}")


def many_in(rig, family, n):
    """n connections one after another from the kernel, an echo on each."""
    peer = rig.peer("--listen", str(PORT), "--do", "echo", "--conns", str(n), "--time-wait-ms", "100")
    t0 = time.monotonic()
    for i in range(n):
        s = rig.connect(family, timeout=10)
        msg = b"%08d" % i * 8
        s.sendall(msg)
        check(s.recv(4096) == msg, f"connection {i}: wrong answer")
        if i % 10 == 9:  # every tenth ends by RST
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            s.shutdown(socket.SHUT_WR)
            check(s.recv(1) == b"", f"connection {i}: octets that nobody sent")
        s.close()
        rig.world.socks.remove(s)
    took = time.monotonic() - t0
    rep = peer.report(ok=False)
    check(rep["conns"] == n and rep["tcp"]["conns_accepted"] == n, f"{rep['conns']} of {n}")
    check(rep["failed"] == n // 10, f"{rep['failed']} ended by RST, not {n // 10}")
    check(rep["tcp"]["conns_now"] == rep["tcp"]["time_wait_now"], f"{rep['tcp']['conns_now']} connections are left")
    print(f"# {n / took:.0f} connections/s")


def many_out(rig, family, n):
    """n connections of ours, eight at a time, to a kernel that accepts them."""
    ls = rig.listen(family)

    def serve():
        for i in range(n):
            s, _ = ls.accept()
            s.settimeout(10)
            got = 0
            while got < 64:
                k = len(s.recv(64))
                check(k > 0, f"connection {i} ends early")
                got += k
            s.close()

    job = Job(serve)
    peer = rig.peer(*connect_arg(rig, family), "--do", "source", "--bytes", "64", "--conns", str(n), "--parallel", "8",
                    "--time-wait-ms", "50")
    job.result()
    rep = peer.report()
    check(rep["conns"] == n and rep["tcp"]["conns_opened"] == n, f"{rep['conns']} of {n}")
    # While the kernel's link address is resolved, only a few SYNs are parked for it.
    check(rep["tcp"]["rtos"] <= rep["netif"]["tx_unresolved"], f"{rep['tcp']['rtos']} RTOs")
    print(f"# {n / rep['seconds']:.0f} connections/s")


def time_wait_ours(rig, family):
    """The same source port is used again at once, while our end is in TIME-WAIT (RFC 9293 s3.6.1, RFC 6191)."""
    peer = rig.peer("--listen", str(PORT), "--do", "source", "--bytes", "10", "--conns", "20", "--time-wait-ms", "20000")
    for i in range(20):
        s = rig.socket(family, timeout=2)
        s.bind((rig.addr(family)[0], 41000))
        try:
            s.connect((rig.addr(family)[1], PORT))
        except OSError as e:
            raise Fail(f"connection {i} from the same port: {e}") from None
        got, _ = recv_all(s)
        check(got == 10, f"{got} octets")
        s.close()
        time.sleep(0.01)
    rep = peer.report()
    check(rep["tcp"]["time_wait_reused"] == 19, f"time_wait_reused = {rep['tcp']['time_wait_reused']}")


def time_wait_theirs(rig, family):
    """The kernel closes first, so that it has the TIME-WAIT. Its port is bound again at once."""
    peer = rig.peer("--listen", str(PORT), "--do", "discard", "--conns", "20")
    for _ in range(20):
        s = rig.connect(family, timeout=5)
        s.sendall(b"x" * 10)
        s.close()
    rep = peer.report()
    check(rep["bytes_in"] == 200 and rep["tcp"]["time_wait_now"] == 0, "our end is in TIME-WAIT")


def cookies(rig, family):
    """Every handshake with a SYN cookie (RFC 4987 s3.6): window scale and SACK are preserved in the timestamp or not
    used."""
    peer = rig.peer("--listen", str(PORT), "--do", "echo", "--conns", "5", "--cookies", "always")
    for _ in range(5):
        s = rig.connect(family)
        job = Job(send_all, s, 300000)
        check(recv_all(s, 300000) == job.result(), "octets come back changed")
        s.close()
    rep = peer.report()
    check(rep["tcp"]["syn_cookies_ok"] == 5, f"syn_cookies_ok = {rep['tcp']['syn_cookies_ok']}")


def options_off(rig, family):
    """Each option switched off on our side, then on the kernel's."""
    for arg, bit in (("--no-timestamps", "timestamps"), ("--no-sack", "sack"), ("--no-wscale", "wscale_ok")):
        info, _ = transfer(rig, family, "weft", "kernel", 4 * MIB, (arg,))
        check(not info[bit], f"{arg}: the kernel has it all the same")
        transfer(rig, family, "kernel", "weft", 4 * MIB, (arg,))
    for key, name in (("timestamps", "tcp_timestamps"), ("sack", "tcp_sack"), (None, "tcp_window_scaling")):
        sh("ip", "netns", "exec", rig.ns, "sysctl", "-qw", f"net.ipv4.{name}=0")
        try:
            peer = rig.peer("--listen", str(PORT), "--do", "both", "--bytes", str(4 * MIB))
            s = rig.connect(family)
            job = Job(send_all, s, 4 * MIB)
            got = recv_all(s, 4 * MIB)
            sent = job.result()
            s.close()
            c = peer.report()["conn"][0]
            check(got[1] == c["sha256_out"] and sent[1] == c["sha256_in"], f"{name}=0: not what was sent")
            check(not c["info"][key] if key else c["info"]["snd_wscale"] == 0, f"{name}=0: we have it all the same")
        finally:
            sh("ip", "netns", "exec", rig.ns, "sysctl", "-qw", f"net.ipv4.{name}=1")


def ecn(rig, family):
    """ECN requested by the kernel, then by us (RFC 3168 s6.1.1)."""
    sh("ip", "netns", "exec", rig.ns, "sysctl", "-qw", "net.ipv4.tcp_ecn=1")
    try:
        for opener in ("kernel", "weft"):
            info, rep = transfer(rig, family, "kernel", opener, 4 * MIB, ("--ecn", "on"))
            check(info["ecn"] and rep["conn"][0]["info"]["ecn"], f"opened by {opener}: no ECN")
    finally:
        sh("ip", "netns", "exec", rig.ns, "sysctl", "-qw", "net.ipv4.tcp_ecn=2")


def simultaneous_reset_storm(rig, family):
    """Sockets closed with unread data: the kernel sends a RST, and our stack stays usable."""
    peer = rig.peer("--listen", str(PORT), "--do", "source", "--bytes", str(4 * MIB), "--conns", "20")
    for _ in range(19):
        s = rig.connect(family)
        s.recv(1000)
        s.close()
    s = rig.connect(family)
    got = recv_all(s)
    s.close()
    rep = peer.report(ok=False)
    check(got[0] == 4 * MIB and rep["conns"] == 20, f"{got[0]} octets, {rep['conns']} connections")
    check(rep["failed"] == 19, f"{rep['failed']} ended by RST")


def pmtu(world, exe, family):
    """A router with a narrower link behind it (RFC 1191, RFC 8201), which becomes narrower still."""
    rig = Rig(world, "af_packet", exe)  # its kernel is the router
    far = world.space(f"far{family}")
    inner, outer = f"wi{family}x{world.tag % 100000}", f"wo{family}x{world.tag % 100000}"
    veth(rig.ns, inner, far, outer, 1400)
    f4, f6 = "10.78.0.2", "fd78::2"
    for ns, dev, a4, a6 in ((rig.ns, inner, "10.78.0.1", "fd78::1"), (far, outer, f4, f6)):
        sh("ip", "-n", ns, "addr", "add", a4 + "/24", "dev", dev)
        sh("ip", "-n", ns, "addr", "add", a6 + "/64", "dev", dev, "nodad")
    sh("ip", "netns", "exec", rig.ns, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
    sh("ip", "-n", far, "route", "add", "default", "via", "10.78.0.1")
    sh("ip", "-n", far, "-6", "route", "add", "default", "via", "fd78::1")
    with world.inside(far):
        ls = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6)
    world.socks.append(ls)
    # Otherwise the MSS of its link would tell us before any router does.
    ls.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1440)
    sh("ip", "-n", far, "link", "set", outer, "mtu", "1500")
    ls.settimeout(30)
    ls.bind((f4 if family == 4 else f6, PORT))
    ls.listen(1)
    n = 48 * MIB
    peer = rig.peer("--connect", f"{f4 if family == 4 else f6},{PORT}", "--gateway", K4, "--gateway6", K6, "--do",
                    "source", "--bytes", str(n))
    s, _ = ls.accept()
    s.settimeout(30)
    import hashlib
    h, got = hashlib.sha256(), 0
    while True:
        piece = s.recv(1 << 20)
        if not piece:
            break
        if got < n // 4 <= got + len(piece):
            sh("ip", "-n", rig.ns, "link", "set", inner, "mtu", "1300")
        h.update(piece)
        got += len(piece)
    s.close()
    rep = peer.report()
    c = rep["conn"][0]
    check((got, h.hexdigest()) == (n, c["sha256_out"]), "not what was sent")
    check(rep["tcp"]["pmtu_lowered"] >= 2, f"pmtu_lowered = {rep['tcp']['pmtu_lowered']}")
    check(c["info"]["pmtu"] == 1300, f"path MTU is {c['info']['pmtu']}")


def jumbo(world, exe, family):
    rig = Rig(world, "af_packet", exe, mtu=9000)
    for to, opener in (("weft", "kernel"), ("kernel", "weft")):
        info, rep = transfer(rig, family, to, opener, 32 * MIB, ("--mtu", "9000"))
        mss = 9000 - (40 if family == 4 else 60) - 12
        check(info["snd_mss"] == mss and rep["conn"][0]["info"]["mss"] == mss,
              f"MSS {info['snd_mss']} and {rep['conn'][0]['info']['mss']}")


def vlan(world, exe, family):
    """Tagged frames: the tag is inserted and removed by the port or by us. Frames of another VLAN are ignored."""
    rig = Rig(world, "af_packet", exe, vlan=5)
    try:
        for args in (("--vlan", "5"), ("--vlan", "5", "--vlan-in-software")):
            transfer(rig, family, "weft", "kernel", 4 * MIB, args, capture="vlan")
            transfer(rig, family, "kernel", "weft", 4 * MIB, args, capture="vlan")
            transfer(rig, family, "kernel", "kernel", MIB, (*args, *LOSS))
            peer = rig.peer("--listen", str(PORT), "--do", "echo", *args)
            s = rig.connect(family)
            for tag in (b"\x81\x00\x00\x06", b"\x81\x00\x00\x00", b""):  # another VLAN, a priority tag only, no tag
                for _ in range(10):
                    rig.switch.trunk.send(rig.mac() + b"\x02\0\0\0\0\x01" + tag + b"\x08\x00" + bytes(46))
            s.sendall(b"x" * 1000)
            check(recv_all(s, 1000)[0] == 1000, "no echo")
            s.close()
            rep = peer.report()
            check(rep["netif"]["rx_vlan"] == 30, f"rx_vlan = {rep['netif']['rx_vlan']}")
        check(rig.switch.foreign == 0, f"{rig.switch.foreign} frames of ours have not our tag")
    finally:
        rig.switch.close()


def link_local(rig):
    """Between the link-local addresses, which need the scope of an interface (RFC 4007 s6)."""
    rig = rig.link_local()
    transfer(rig, 6, "weft", "kernel", 8 * MIB, capture="ll")
    transfer(rig, 6, "kernel", "weft", 8 * MIB, capture="ll")
    transfer(rig, 6, "kernel", "kernel", 2 * MIB, LOSS)


# ---- The list ----

def cases(soak):
    """(name, port kind, function of a rig)"""
    out = []

    def add(name, kind, fn):
        out.append((name, kind, fn))

    def xfer(kind, family, to, opener, n, args=(), capture=False):
        name = f"{kind} v{family} {n // MIB} MiB to {to}, {opener} connects" + (" " + " ".join(args) if args else "") + (
            ", captured" if capture else "")
        add(name, kind, lambda rig: transfer(rig, family, to, opener, n, args, "cap" if capture else None,
                                             240 if soak else 60))

    # The short run: 1 GiB in each direction once over the plainest port, and each direction and family once over the
    # others; all small cases over IPv4; over IPv6 those that do not test a timer or an option.
    for kind in ("af_packet", "af_xdp", "tap"):
        for family in (4, 6):
            first = kind == "af_packet" and family == 4
            for to, opener in (("weft", "kernel"), ("kernel", "weft"), ("weft", "weft"), ("kernel", "kernel")):
                if soak or to != opener and (kind == "af_packet" or (to == "weft") == (family == 6)):
                    xfer(kind, family, to, opener, GIB if soak or first else 32 * MIB)
                if soak:
                    for cc in ("cubic", "newreno"):
                        xfer(kind, family, to, opener, GIB, (*LOSS, "--cc", cc))
            if not soak:
                to = ("weft", "kernel") if kind == "af_packet" else ("weft",) if family == 4 else ("kernel",)
                for t in to:
                    xfer(kind, family, t, "kernel", (48 if first else 8) * MIB, LOSS)
    for family in (4, 6):
        v = f"v{family} "

        def small(name, fn, *args, both=False, family=family, v=v):
            if soak or both or family == 4:
                add(v + name, "af_packet", lambda rig: fn(rig, family, *args))
        for to, opener in (("weft", "kernel"), ("kernel", "weft")):
            xfer("af_packet", family, to, opener, (32 if soak else 8) * MIB, capture=True)
            if soak or family == 4:
                xfer("af_packet", family, to, opener, 4 * MIB, (*LOSS, "--dup-ppm", "2000"), capture=True)
        small("ss -ti", ss_case, both=True)
        small("echo of every size", echo_case, both=True)
        small("echo, small segments, no delay", echo_case, ("--segment", "100"), both=True)
        small("both ways at once", both_ways, (256 if soak else 32) * MIB, both=True)
        small("both ways at once --loss", both_ways, (64 if soak else 8) * MIB, (*LOSS, *LINGER), both=True)
        small("half-close by the kernel", half_close_theirs, both=True)
        small("half-close by us", half_close_ours, both=True)
        small("RST by the kernel", reset_theirs, both=True)
        small("RST by us", reset_ours, both=True)
        small("RST storm", simultaneous_reset_storm, both=True)
        small("refused by us", refused_by_us, both=True)
        small("refused by the kernel", refused_by_kernel, both=True)
        small("urgent octets", urgent, both=True)
        small("zero window", zero_window, *((10.0,) if soak else ()))
        small("slow reader", slow_reader, both=True)
        small("keepalive both ways", keepalive)
        small("keepalive to a dead peer", keepalive_dead, both=True)
        small("many connections in", many_in, 1000, both=True)
        small("many connections out", many_out, 1000, both=True)
        small("TIME-WAIT at our end, port reused", time_wait_ours, both=True)
        small("TIME-WAIT at the kernel's end", time_wait_theirs, both=True)
        small("SYN cookies", cookies, both=True)
        small("options left out", options_off)
        small("ECN", ecn, both=True)
        add(v + "path MTU", None, lambda w, exe, family=family: pmtu(w, exe, family))
        add(v + "jumbo frames", None, lambda w, exe, family=family: jumbo(w, exe, family))
        if soak or family == 4:
            add(v + "VLAN", None, lambda w, exe, family=family: vlan(w, exe, family))
    add("v6 link-local", "af_packet", link_local)
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("tcp_peer")
    ap.add_argument("--soak", action="store_true")
    ap.add_argument("--only", action="append", help="cases whose name begins so")
    ap.add_argument("--list", action="store_true")
    args = ap.parse_args()
    todo = [c for c in cases(args.soak) if not args.only or any(c[0].startswith(o) for o in args.only)]
    if args.list:
        print("\n".join(c[0] for c in todo))
        return 0
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root (network namespaces, packet sockets)")
        return 0
    for tool in ("ip", "ss", "ethtool", "tcpdump", "tshark", "sysctl"):
        if shutil.which(tool) is None:
            print(f"1..0 # SKIP {tool} is not installed")
            return 0

    def leave(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(143)

    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, leave)
    world = World()
    failed = 0
    try:
        rigs = {}
        try:
            probe = world.space("probe")
            veth(probe, f"wx{world.tag % 100000}", probe, f"wy{world.tag % 100000}")
        except (Fail, OSError) as e:
            print(f"1..0 # SKIP cannot make namespaces or veth: {str(e).splitlines()[0]}")
            return 0
        print(f"1..{len(todo)}", flush=True)
        for i, (name, kind, fn) in enumerate(todo, 1):
            t0 = time.monotonic()
            try:
                if kind is None:
                    fn(world, args.tcp_peer)
                else:
                    if kind not in rigs:
                        rigs[kind] = Rig(world, kind, args.tcp_peer)
                    fn(rigs[kind])
                verdict, text = "ok", ""
            except Exception as e:
                failed += 1
                verdict = "not ok"
                text = str(e) if isinstance(e, Fail) else traceback.format_exc()
            print(f"{verdict} {i} {name} # {time.monotonic() - t0:.1f} s", flush=True)
            for line in text.splitlines():
                print("#   " + line, flush=True)
            world.close_sockets()
            for p in list(world.procs):
                world.reap(p, signal.SIGKILL)
                text = p.stderr.read() if p.stderr and not p.stderr.closed else ""
                print("#   left behind: " + " ".join(map(str, p.args[:9])) + ": " + str(text)[-300:])
    finally:
        world.close()
    print(f"# retransmissions were judged in {Busy.judged} of {Busy.asked} transfers over a path without impairment")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
