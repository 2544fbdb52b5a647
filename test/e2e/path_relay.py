#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A path of known delay and rate between two interfaces, which keeps a log of what it did.

    path_relay.py IF_A IF_B --delay-us N [--rate-bit N] --pcap FILE --log FILE

Each frame that the kernel receives on one interface leaves the other one N microseconds later, by the kernel's time stamp of
its arrival. With a rate it takes as long as its octets take at that rate, behind the frames before it. Prints "relaying". At
SIGTERM it writes the frames with their times of arrival (pcap, nanoseconds), and as JSON: for each frame the direction (0: from
IF_A), the arrival and the departure in nanoseconds, the time at which it was due, and its octets; and the frames that the kernel
dropped for want of room.
"""
import argparse
import collections
import json
import os
import select
import signal
import socket
import struct
import sys
import time

SO_TIMESTAMPNS = 35
SOL_PACKET, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING = 263, 6, 23


class Side:
    """What arrives on one interface, and leaves the other one."""

    def __init__(self, name):
        self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        for opt in (socket.SO_RCVBUF, 33):  # SO_RCVBUFFORCE, where it is allowed
            try:
                self.sock.setsockopt(socket.SOL_SOCKET, opt, 32 << 20)
            except OSError:
                pass
        self.sock.bind((name, 0))
        self.sock.setblocking(False)
        self.queue = collections.deque()
        self.free_ns = 0  # when the last frame has been sent at the rate

    def take(self, delay_ns, rate):
        """Queue all that has arrived: (due, arrival, frame)."""
        while True:
            try:
                frame, anc, _, _ = self.sock.recvmsg(65536, 64)
            except BlockingIOError:
                return
            s, ns = next(struct.unpack("@ll", d) for level, kind, d in anc if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS))
            arrival = s * 10 ** 9 + ns
            self.free_ns = max(arrival, self.free_ns) + (len(frame) * 8 * 10 ** 9 // rate if rate else 0)
            self.queue.append((self.free_ns + delay_ns, arrival, frame))


def relay(sides, args, log, stop):
    while not stop:
        due = min((s.queue[0][0] for s in sides if s.queue), default=None)
        wait = 0.2 if due is None else max(0.0, (due - time.time_ns()) / 1e9)
        select.select([s.sock for s in sides], [], [], min(wait, 0.2))
        for s in sides:
            s.take(args.delay_us * 1000, args.rate_bit)
        for way, s in enumerate(sides):
            while s.queue and s.queue[0][0] <= time.time_ns():
                due, arrival, frame = s.queue.popleft()
                try:
                    sides[1 - way].sock.send(frame)
                except OSError as e:  # an interface that is gone
                    print(f"a frame cannot be sent: {e}", file=sys.stderr)
                log.append((way, arrival, time.time_ns(), due, frame))


def write(args, log, sides):
    with open(args.pcap, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for _, arrival, _, _, frame in sorted(log, key=lambda r: r[1]):
            f.write(struct.pack("<IIII", arrival // 10 ** 9, arrival % 10 ** 9, len(frame), len(frame)) + frame)
    dropped = sum(struct.unpack("II", s.sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1] for s in sides)
    with open(args.log, "w", encoding="ascii") as f:
        json.dump({"dropped": dropped, "frames": [[way, arrival, out, due, len(frame)] for way, arrival, out, due, frame in log]}, f)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("interface", nargs=2)
    ap.add_argument("--delay-us", type=int, default=0)
    ap.add_argument("--rate-bit", type=int, default=0, help="bits a second of the frames, without preamble and gap; 0: any")
    ap.add_argument("--pcap", required=True)
    ap.add_argument("--log", required=True)
    args = ap.parse_args()
    try:  # a relay that waits for its CPU would not keep its delay
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        pass
    sides, log, stop = [Side(name) for name in args.interface], [], []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    print("relaying", flush=True)
    relay(sides, args, log, stop)
    write(args, log, sides)


if __name__ == "__main__":
    main()
