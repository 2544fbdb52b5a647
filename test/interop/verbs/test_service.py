#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The type of service of an id (RDMA_OPTION_ID_TOS), in the packets of a capture: test_service.py BUILD [CASE...]. TAP."""
import os
import socket
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import CLIENT, CLIENT6, SERVER, SERVER6, check  # noqa: E402

PORT = 7199
PACKET = 6  # the block of a pcapng file
SYN = 2
DSCP = 0xfc  # the other two bits are ECN's (RFC 3168 section 5)


def segments(file):
    """[(source, type of service or traffic class, flags, octets of data)] of the TCP segments of a pcapng file."""
    with open(file, "rb") as f:
        data = f.read()
    at, got = 0, []
    while at < len(data):
        kind, size = struct.unpack_from("=II", data, at)
        kept = struct.unpack_from("=I", data, at + 20)[0] if kind == PACKET else 0
        packet, at = data[at + 28 + 14:at + 28 + kept], at + size
        if packet and packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_TCP:
            source, tos = socket.inet_ntop(socket.AF_INET, packet[12:16]), packet[1]
            tcp = packet[4 * (packet[0] & 15):struct.unpack_from("!H", packet, 2)[0]]
        elif packet and packet[0] >> 4 == 6 and packet[6] == socket.IPPROTO_TCP:
            source, tos = socket.inet_ntop(socket.AF_INET6, packet[8:24]), struct.unpack_from("!H", packet)[0] >> 4 & 255
            tcp = packet[40:40 + struct.unpack_from("!H", packet, 4)[0]]
        else:
            continue
        got.append((source, tos, tcp[13], len(tcp) - 4 * (tcp[12] >> 4)))
    return got


def connect(build, to, listener=None, accepted=None, active=None, own=False):
    """Connect ucmatose, or `own` program, to a program that listens, and capture until both wait for the other's message. The
    numbers are types of service; what is None is not set. Returns the segments of the server and of the client."""
    rig.need("ucmatose")
    program = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_objects")
    if not os.path.exists(program):
        raise rig.Skip("not built (libibverbs-dev, librdmacm-dev)")
    with rig.Rig(build) as r:
        r.address = {"server": f"{SERVER}/24,{SERVER6}/64", "client": f"{CLIENT}/24,{CLIENT6}/64"}
        file = r.path("seen.pcapng")
        serve = [str(tos) for tos in (listener, accepted) if tos is not None]
        s = r.server([program, "wait-server", to, *serve], weft="telemetry = yes")
        rig.until(lambda: rig.listens(s, PORT), s)
        rig.telemetry(s, f"/weft/capture,p0,{file}")
        tos = [] if active is None else [str(active)] if own else ["-t", str(active)]
        argv = [program, "wait-client", to, *tos] if own else ["ucmatose", "-s", to, "-p", str(PORT), *tos]
        c = r.client(argv)
        rig.until(lambda: "waits" in s.out and (not own or "waits" in c.out), s, c)
        check(rig.telemetry(s, "/weft/capture_stop,p0")["dropped"] == 0, "packets are missing from the capture")
        seen = segments(file)
    server = [x[1:] for x in seen if x[0] in (SERVER, SERVER6)]
    client = [x[1:] for x in seen if x[0] in (CLIENT, CLIENT6)]
    # a handshake, and both ends' start of MPA
    for side in server, client:
        check(sum(flags & SYN != 0 for _, flags, _ in side) == 1 and any(n > 0 for _, _, n in side), seen)
    return server, client


def kinds(side):
    """The DSCP octets of a side's segments."""
    return {tos & DSCP for tos, _, _ in side}


def active(build):
    """ucmatose -t: all segments of the client have its type of service, and those of the server have none; IPv4 and IPv6"""
    for to in SERVER, SERVER6:
        server, client = connect(build, to, active=0xb8)
        check(kinds(client) == {0xb8} and kinds(server) == {0}, to, server, client)


def passive(build):
    """The type of service of a listener is in its SYN-ACK and in all segments of what it accepts; IPv4 and IPv6"""
    for to in SERVER, SERVER6:
        server, client = connect(build, to, listener=0x28)
        check(kinds(server) == {0x28} and kinds(client) == {0}, to, server, client)


def accepted(build):
    """An id of a request with a type of service of its own: the listener's until it is accepted, then its own; 0 is one, too"""
    for own, want in (0x68, 0x68), (0, 0):
        server, client = connect(build, SERVER, listener=0x28, accepted=own, active=0x88, own=True)
        check(kinds(x for x in server if x[1] & SYN) == {0x28} and kinds(x for x in server if x[2] > 0) == {want}, server)
        check(kinds(server) == {0x28, want} and kinds(client) == {0x88}, server, client)


def ecn(build):
    """The two bits of ECN in a type of service are not the program's"""
    server, client = connect(build, SERVER, listener=0x2b, active=0x6b, own=True)
    check(kinds(server) == {0x28} and kinds(client) == {0x68}, server, client)
    check(all(tos & 3 == 0 for tos, flags, _ in server + client if flags & SYN), server, client)


if __name__ == "__main__":
    rig.main([active, passive, accepted, ecn])
