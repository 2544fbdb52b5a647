#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""net_memif clients connect and disconnect while weft-target starts, serves and ends. The target keeps running.

WEFT_CHURN_ROUNDS starts (25 unless set) of one target. Clients of three kinds run all the time: some disconnect at
once, some after each step of memif's handshake, some send invalid messages.
"""
import array
import contextlib
import multiprocessing
import os
import random
import socket
import struct
import time

from weft_e2e import PROCS, Target, main, make_file, path, sha

ROUNDS = int(os.environ.get("WEFT_CHURN_ROUNDS", "25"))
MSG_BYTES = 128
VERSION = 2 << 8
HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, DISCONNECT = 2, 3, 4, 5, 6, 8
REGION_BYTES = 1 << 20


def msg(kind, body=b""):
    return (struct.pack("<H", kind) + body).ljust(MSG_BYTES, b"\0")


def send(s, data, fd=None):
    anc = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
    s.sendmsg([data], anc)


def handshake(s, steps):
    """A client's side of memif's handshake, up to `steps`."""
    region, irq = os.memfd_create("region"), os.eventfd(0)
    os.ftruncate(region, REGION_BYTES)
    todo = [(msg(INIT, struct.pack("<HIB", VERSION, 0, 0)), None),
            (msg(ADD_REGION, struct.pack("<HQ", 0, REGION_BYTES)), region)]
    for flags in (1, 0):
        todo.append((msg(ADD_RING, struct.pack("<HHHIBH", flags, 0, 0, 65536 * flags, 10, 0)), irq))
    todo += [(msg(CONNECT, b"churn"), None), (msg(DISCONNECT), None)]
    try:
        s.recv(MSG_BYTES)
        for data, fd in todo[:steps]:
            send(s, data, fd)
            s.recv(MSG_BYTES)
    finally:
        os.close(region)
        os.close(irq)


def churn(sock, kind, count, stop):
    rnd = random.Random(kind)
    while not stop.is_set():
        with contextlib.suppress(OSError), \
                socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(0.05)
            s.connect(sock)
            with count.get_lock():
                count.value += 1
            if kind == "handshake":
                handshake(s, rnd.randrange(7))
            elif kind == "junk":
                for _ in range(rnd.randrange(4)):
                    s.send(rnd.randbytes(rnd.choice((1, 2, 127, MSG_BYTES, 4096))))
        # otherwise no other process would run on a small computer
        time.sleep(0.0005)


def test_clients_leave_while_it_starts():
    exports = {e: path(f"ch.{e}") for e in "ab"}
    t = Target("ch", {e: {"path": p, "size": "8M"} for e, p in exports.items()})
    stop, counts, procs = multiprocessing.Event(), {}, []
    for kind in ("leave", "handshake", "junk"):
        counts[kind] = multiprocessing.Value("L", 0)
        p = multiprocessing.Process(target=churn, args=(t.sock(0), kind, counts[kind], stop), daemon=True)
        p.start()
        procs.append(p)
    try:
        for i in range(ROUNDS):
            t.start()
            time.sleep(0.05)
            assert t.proc.poll() is None, f"round {i}: ended by {t.proc.poll()}: {t.logged()[-1500:]}"
            rc = t.term()
            assert rc == 0, f"round {i}: ended with {rc}: {t.logged()[-1500:]}"
            PROCS.remove(t.proc)
            # At every second start the exports are created again.
            for p in exports.values() if i % 2 else ():
                os.unlink(p)
    finally:
        stop.set()
        for p in procs:
            p.join()
    for kind, n in counts.items():
        print(f"# {n.value} clients: {kind}")
        assert n.value >= ROUNDS, f"only {n.value} clients of kind {kind} in {ROUNDS} rounds"
    t.start()
    src = make_file("ch.src", 100000, 5)
    t.push(src, "a")
    assert sha(t.pull("a", "ch.out")) == sha(src)


if __name__ == "__main__":
    main([test_clients_leave_while_it_starts])
