#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 at random moments of the two programs of a remote log (lib/log over driver "file"). The medium holds a log
whose records have no gap and include everything acknowledged.

test_kill_log.py BUILD [CASE...]

The medium is checked by docs/log-format.md alone, not by the library. The next writer finds the same by RDMA Reads.
kill_rounds.py explains the seeds.
"""
import errno
import functools
import os
import random
import re
import struct
import subprocess
import time

from kill_rounds import SEED, Lost, Rounds, rounds
from test_kill import Probe, crc32c, nothing_left
from weft_e2e import BUILD, PROCS, main, memif, path

EXE = os.path.join(BUILD, "test", "e2e", "log_probe")
BROKEN = EXE + "-noflush"
BYTES = 4 << 20
DEPTH_MAX, RECORD_MAX = 64, 6000  # log_probe.c


@functools.lru_cache(4096)
def record_of(n):
    size = 8 + ((n * 0x9e3779b97f4a7c15 & (1 << 64) - 1) >> 33) % RECORD_MAX
    return n.to_bytes(8, "big") + bytes((n * 31 + i * 7 + (i >> 8)) & 0xff for i in range(8, size))


def check(page, off, epoch, value):
    """The check of a word, by docs/log-format.md."""
    return crc32c(page[48:80] + struct.pack(">IQQ", off, epoch, value)) & 0xffff


def words_on(page, ring_off, ring):
    """Positions of tail and head; (0, 0): there is no record yet."""
    card, tail, head = (int.from_bytes(page[at:at + 8], "big") for at in (4096, 4160, 4224))
    if card == 0:
        return 0, 0  # not opened yet
    epoch = card >> 32
    if card & 0xffff != check(page, 4096, epoch, card >> 16):
        raise Lost(f"the card {card:016x} is damaged")
    if tail == 0 or tail >> 24 == (1 << 40) - 1:
        return 0, 0

    def whole(word):
        stamp = epoch & ~0xff | word >> 16 & 0xff
        return stamp if stamp >= epoch else stamp + 0x100

    off = (tail >> 24) * 8
    at = ring_off + off
    _, pos, _, _, _, size = struct.unpack_from(">8sQQQQI", page, at)
    if pos % ring != off or tail & 0xffff != check(page, 4160, whole(tail), pos):
        raise Lost(f"the tail {tail:016x} is damaged, or what it names: {pos}")
    end = pos + 64 + (size + 7) // 8 * 8
    end += ring - end % ring if ring - end % ring < 64 else 0
    back = (end - (head >> 24) * 8) % ring
    for first in (end - back, end - back - ring):
        if head & 0xffff == check(page, 4224, whole(head), first) and end - first <= ring:
            return pos, first
    raise Lost(f"the head {head:016x} is damaged; tail {pos}")


def log_on(medium, lives_are=1):
    """Numbers of the first and the last record, by docs/log-format.md; (0, 0): none. All headers are checked, and the
    data of the last record. lives_are: the lives that all headers must have; None: any."""
    with open(medium, "rb") as f:
        page = f.read(BYTES)
    if page[:8] == bytes(8):
        return 0, 0  # never formatted completely
    if page[:12] != b"WEFTLOG1\0\0\0\2" or crc32c(page[:4092]) != int.from_bytes(page[4092:4096], "big"):
        raise Lost("the superblock is damaged")
    used, ring_off, ring = struct.unpack_from(">QQQ", page, 16)
    if ring_off != 8192 or used != ring_off + ring or used > BYTES:
        raise Lost("the superblock says nonsense")
    log_id = page[48:56]
    tail, head = words_on(page, ring_off, ring)
    if tail == 0:
        return 0, 0
    numbers, pos, after, seen = [], tail, None, 0
    while pos >= head and pos != 0:
        at = ring_off + pos % ring
        h = page[at:at + 64]
        if crc32c(h[:60]) != int.from_bytes(h[60:], "big"):
            raise Lost(f"the header at {pos} is damaged; tail {tail}, head {head}")
        ident, position, seq, _, prev, size, kind, crc, lives = struct.unpack_from(">8sQQQQIIIQ", h)
        if ident != log_id or position != pos or kind not in (1, 3) or lives_are not in (None, lives) or \
                (after is not None and seq != after - 1):
            raise Lost(f"what is at {pos} is no record of the log, or not the one before {after}")
        if kind == 1:
            data = page[at + 64:at + 64 + size]
            n = int.from_bytes(data[:8], "big")
            if data[8:] != record_of(n)[8:]:
                raise Lost(f"record {n} has other octets")
            if seen < 4 and crc32c(data) != crc:
                raise Lost(f"record {n}: checksum wrong")
            if numbers and n != numbers[-1] - 1:
                raise Lost(f"record {n} is followed by {numbers[-1]}")
            numbers.append(n)
            seen += 1
        after, pos = seq, prev
    return (numbers[-1], numbers[0]) if numbers else (0, 0)


class Host:
    """The log's target, with the members of Target that Probe uses."""

    def __init__(self, name, exe):
        self.name, self.exe, self.medium, self.proc = name, exe, path(name + ".log.medium"), None

    def sock(self, _):
        return path(self.name + ".sock")

    def start(self):
        if os.path.exists(self.sock(0)):
            os.unlink(self.sock(0))
        with open(path(self.name + ".err"), "w") as err:
            self.proc = subprocess.Popen([self.exe, "target", memif(0, "server", self.sock(0)), "10.0.0.1/24", self.medium,
                                          str(BYTES)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True)
        PROCS.append(self.proc)
        line = self.proc.stdout.readline()
        assert line.startswith("ready "), line + open(path(self.name + ".err")).read()
        return line[6:].strip()

    def kill(self):
        self.proc.kill()
        self.proc.wait()
        self.proc.stdout.close()


class Writer(Probe):
    """One process of the log's writer."""

    ENDS = ("log_probe: the link is down", "log_probe: disconnected")

    def __init__(self, t, addr, depth, verify, kill_in=0):
        self.depth, self.kill_in = depth, kill_in
        self.args = [EXE, "write", memif(0, "client", t.sock(0)), f"10.0.0.{addr}/24", "10.0.0.1", str(depth)]
        self.args += ["verify"] if verify else []
        self.args += ["kill", str(t.proc.pid), str(kill_in)] if kill_in else []
        self.spawn()

    def bereaved(self):
        if self.found is None:
            self.kill()
            return self.gone()
        self.drain()
        err = self.said()
        if self.p.returncode != 1 or not (err in self.ENDS or err.startswith("log_probe: target lost")):
            raise Lost(f"log_probe ended with {self.p.returncode}: {err}")
        return None


class Run(Rounds):
    """Rounds of a target and its writers."""

    KINDS = ("target", "target", "target", "writer", "writer", "both", "at once", "at once")

    def __init__(self, name, seed, exe=EXE, verify=None):
        self.rnd, self.verify = random.Random(seed), verify
        self.t = Host(name, exe)
        self.mechanism = self.t.start()
        self.addr, self.last, self.begun, self.birth_s = 1, 0, 0, 0.3
        self.seen = {k: 0 for k in ("records", "ahead", "birth", "longest", *self.KINDS)}

    def new_writer(self, kill_in=0):
        self.addr = self.addr % 200 + 2
        verify = self.rnd.random() < 0.3 if self.verify is None else self.verify
        return Writer(self.t, self.addr, self.rnd.choice((1, 2, 4, 8, 16, 64)), verify, kill_in)

    def is_up(self, p):
        """The writer has opened the log. It must have found everything acknowledged before."""
        p.connected()
        self.birth_s = time.monotonic() - p.born
        if p.found < self.last:
            raise Lost(f"{self.last} was acknowledged or found before, now {p.found} is found")

    def moment(self, p):
        how = self.rnd.choice(("birth", "acks", "acks", "time", "time"))
        if how == "birth":
            self.seen["birth"] += 1
            time.sleep(self.rnd.uniform(0, self.birth_s * 1.2))
            p.read(0)
            return
        self.is_up(p)
        if how == "time":
            end = time.monotonic() + self.rnd.uniform(0, 0.15)
            while (left := end - time.monotonic()) > 0:
                p.read(left)
            return
        want = p.acks + self.rnd.choice((0, 1, 2, self.rnd.randrange(300)))
        p.wait(lambda: p.acks >= want)

    def judge(self, p):
        acked = max(self.last, p.acked or 0)
        self.seen["records"] += p.acks
        first, last = log_on(self.t.medium)
        # A writer that did not report the content has begun nothing. A running target may since have executed
        # operations of the writer before it.
        begun = self.begun = max(self.begun, acked if p.found is None else acked + p.depth)
        if last < acked:
            raise Lost(f"{acked} was acknowledged, the log on the medium ends with {last}")
        if last > begun:
            raise Lost(f"the log on the medium ends with {last}, {begun} was the last to be begun")
        self.seen["ahead"] += last > acked
        self.seen["longest"] = max(self.seen["longest"], last - first + 1)
        # What is on the medium stays. A running target may add operations that were under way.
        self.last = last

    def round(self):
        kind = self.rnd.choice(self.KINDS)
        self.seen[kind] += 1
        p = self.new_writer(self.rnd.choice((1, 2, self.rnd.randrange(1, 400))) if kind == "at once" else 0)
        if kind == "at once":
            self.is_up(p)
            p.bereaved()
            self.t.kill()
        else:
            self.moment(p)
            first, second = self.rnd.sample((p.p, self.t.proc), 2)
            if kind == "writer":
                p.kill()
            elif kind == "target":
                self.t.proc.kill()
            else:
                first.kill()
                time.sleep(self.rnd.choice((0, self.rnd.uniform(0, 0.002))))
                second.kill()
            if kind == "target":
                self.t.kill()
                p.bereaved()
            else:
                p.gone()
                if kind == "both":
                    self.t.kill()
        if self.t.proc.poll() is None:
            # Data of the killed writer may still be on the way. The next writer or the next kill checks them.
            acked = max(self.last, p.acked or 0)
            self.seen["records"] += p.acks
            self.last = acked
            self.begun = max(self.begun, acked if p.found is None else acked + p.depth)
            if log_on_living(self.t.medium) < acked:
                raise Lost(f"{acked} was acknowledged, the log on the medium ends before it")
            return
        self.judge(p)
        self.t.start()

    def end(self):
        p = self.new_writer()
        self.is_up(p)
        p.wait(lambda: p.acks >= 20)
        p.kill()
        p.gone()
        self.t.kill()
        self.judge(p)

    def said(self):
        s = self.seen
        return (f"{s['records']} records acknowledged, up to {s['longest']} in the log; killed: target {s['target']}, writer "
                f"{s['writer']}, both {s['both']}, target at the moment of an acknowledgement {s['at once']}; before the log was open "
                f"{s['birth']}; the medium was ahead of the acknowledgement {s['ahead']}")


def log_on_living(medium):
    """The last number while the target may still write: words and records may change during the check."""
    for tries in range(50):
        try:
            return log_on(medium)[1]
        except Lost:
            if tries == 49:
                raise
            time.sleep(0.01)
    return 0


def test_log():
    """Kills during thousands of appends: no acknowledged record is lost, none is incomplete, and there is no gap."""
    n = rounds(25)
    run = Run("kl", SEED)
    run.survive(n)
    assert run.seen["records"] > 10 * n, run.said()
    nothing_left()


def caught(within, verify, by):
    """The message by which a target without Flush is detected. Any other failure fails the test."""
    run = Run(f"kn-{verify}", SEED, exe=BROKEN, verify=verify)
    lost = run.caught(within, f", {'with' if verify else 'without'} Verify", stuck=True)
    assert re.search(by, lost), f"seed {SEED}: {lost}"


def test_log_without_flush():
    """A target whose Flush does nothing is detected: with Verify at once, without Verify by what a kill takes away."""
    # WEFT_WC_HASH_MISMATCH, reported as WEFT_LOG_EV_LOST, for the first record that a writer makes durable.
    caught(5, True, f"log_probe: opening: target lost: {re.escape(os.strerror(errno.EILSEQ))}$")
    caught(8, False, r"^\d+ was acknowledged(, the log on the medium ends | or found before, now )")


if __name__ == "__main__":
    main([test_log, test_log_without_flush])
