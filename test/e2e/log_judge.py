# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of real programs demand of a remote log, shared by test_kill_log.py, test_kill_hosts.py and
test_log_host.py: each acknowledged record, by its number, position and writer, is in every later open that succeeds.

Media are read by docs/log-format.md alone, not by the library. The plants at the end write what a fault would leave.
"""
import functools
import struct

from kill_rounds import Lost
from test_kill import Probe, crc32c

DEPTH_MAX, RECORD_MAX = 64, 6000  # log_probe.c; probe.h, less the two numbers


class LogWriter(Probe):
    """A writer of the log: log_probe or log_host_probe."""

    ids = 0  # number of writers that this program has started

    def spawn(self):
        # Records by their number: found in the open log; acknowledged. first: no trim went beyond it.
        self.had, self.got, self.first = {}, {}, 1
        super().spawn()

    def with_number(self):
        """The arguments that give the writer its number. spawn() may start it again."""
        LogWriter.ids += 1
        self.number = LogWriter.ids
        return ["number", str(self.number)]

    def line(self, line):
        word, *rest = line.split()
        if word == b"up":
            self.found = self.acked = int(rest[0])
        elif word == b"had":
            n, at, writer = map(int, rest)
            self.had[n] = at, writer
        elif word == b"trim":
            self.first = max(self.first, int(rest[0]))
        else:
            self.acks += 1
            self.acked = int(word)
            self.got[self.acked] = int(rest[0]), self.number


class Records:
    """The records that a log must hold. A record is (position, number of its writer); the octets follow from these, and
    each reader compares them."""

    def __init__(self):
        self.must = {}  # the records that were acknowledged, or found by an open, and that no trim gave up
        self.first = 1  # the first number that no trim gave up
        self.last = 0
        self.begun = 0  # the highest number that a writer may have appended

    def holds(self, logs, who, quorum=1):
        """At least `quorum` of these logs have each record that must be there, and none has one that was never begun."""
        for n, r in sorted(self.must.items()):
            if sum(log.get(n) == r for log in logs) < quorum:
                have = [log.get(n, "none") for log in logs]
                raise Lost(f"{n} was acknowledged, {who} not have it (position and writer {r}): {', '.join(map(str, have))}; "
                           f"from {[min(log, default=0) for log in logs]} to {[max(log, default=0) for log in logs]}")
        for log in logs:
            self.in_bounds(log, who)

    def in_bounds(self, found, who):
        if max(found, default=0) > self.begun:
            raise Lost(f"{self.begun} was the last to be begun, {who} not end there but with {max(found)}")
        if min(found, default=0) > self.first:
            raise Lost(f"no trim went beyond {self.first}, {who} not begin there but with {min(found)}")

    def add(self, more):
        self.must.update(more)
        self.last = max(self.last, *more, 0)
        self.begun = max(self.begun, self.last)
        self.must = {n: r for n, r in self.must.items() if n >= self.first}

    def opened(self, w):
        """This writer's open has succeeded. What it has found is durable from now on."""
        self.holds([w.had], "the next writer does")
        if w.found != max(w.had, default=0) or len(w.had) != (w.found - min(w.had) + 1 if w.had else 0):
            raise Lost(f"the next writer reports {w.found}, it has found {sorted(w.had)}")
        self.add(w.had)

    def over(self, w):
        """This writer has ended, and all its output was read: what it acknowledged, and how far it may have appended and
        trimmed. If it ended while it was reading the open log, so much of that is judged. Call this before opened() of the
        writer after it."""
        if w.found is None:
            self.in_bounds(w.had, "the next writer does")
        late = {n: r for n, r in {**w.had, **w.got}.items() if n >= self.first and self.must.get(n, r) != r}
        if late:
            n = min(late)
            raise Lost(f"{n} was acknowledged twice: as {self.must[n]} and as {late[n]} (position, writer)")
        self.first = max(self.first, w.first)
        self.add({**w.had, **w.got})
        if w.found is not None:
            self.begun = max(self.begun, (w.acked or 0) + w.depth)


# ---- The log on a medium ----

@functools.lru_cache(4096)
def pattern(n):
    size = 16 + ((n * 0x9e3779b97f4a7c15 & (1 << 64) - 1) >> 33) % RECORD_MAX
    return bytes((n * 31 + i * 7 + (i >> 8)) & 0xff for i in range(16, size))


def record_of(n, writer):
    """The data of a record."""
    return struct.pack(">QQ", n, writer) + pattern(n).translate(bytes(i ^ writer & 0xff for i in range(256)))


def check(page, off, epoch, value):
    """The check of a word, by docs/log-format.md."""
    return crc32c(page[48:80] + struct.pack(">IQQ", off, epoch, value)) & 0xffff


def words_on(page, ring_off, ring):
    """Positions of tail and head; (0, 0): there is no record, or the target does not count."""
    card, tail, head = (int.from_bytes(page[at:at + 8], "big") for at in (4096, 4160, 4224))
    if card == 0:
        return 0, 0  # not opened yet
    epoch = card >> 32
    if card & 0xffff != check(page, 4096, epoch, card >> 16):
        raise Lost(f"the card {card:016x} is damaged")
    if not card >> 31 & 1 or tail == 0 or tail >> 24 == (1 << 40) - 1:
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


def ring_of(page):
    """Offset and length of the ring, or None if the medium was never formatted completely."""
    if page[:8] == bytes(8):
        return None
    if page[:12] != b"WEFTLOG1\0\0\0\2" or crc32c(page[:4092]) != int.from_bytes(page[4092:4096], "big"):
        raise Lost("the superblock is damaged")
    used, ring_off, ring = struct.unpack_from(">QQQ", page, 16)
    if ring_off != 8192 or used != ring_off + ring or used > len(page):
        raise Lost("the superblock says nonsense")
    return ring_off, ring


def headers_on(page, ring_off, ring, lives_are):
    """The headers from the tail's record back to the head's, checked: (position, kind, octets, CRC of the data)."""
    tail, head = words_on(page, ring_off, ring)
    pos, after = tail, None
    while pos >= head and pos != 0:
        at = ring_off + pos % ring
        h = page[at:at + 64]
        if crc32c(h[:60]) != int.from_bytes(h[60:], "big"):
            raise Lost(f"the header at {pos} is damaged; tail {tail}, head {head}")
        ident, position, seq, _, prev, size, kind, crc, lives = struct.unpack_from(">8sQQQQIIIQ", h)
        if ident != page[48:56] or position != pos or kind not in (1, 3) or lives_are not in (None, lives) or \
                (after is not None and seq != after - 1):
            raise Lost(f"what is at {pos} is no record of the log, or not the one before {after}")
        yield pos, kind, size, crc
        after, pos = seq, prev


def log_on(medium, lives_are=1):
    """The records of a target that counts, by docs/log-format.md: (position, writer) by number; empty: none. All headers and
    all octets of data are checked, the CRC of the data for the last four records. lives_are: the lives that all headers must
    have; None: any."""
    with open(medium, "rb") as f:
        page = f.read()
    ring = ring_of(page)
    found, before = {}, None
    for pos, kind, size, crc in headers_on(page, *ring, lives_are) if ring else ():
        if kind != 1:
            continue
        at = ring[0] + pos % ring[1] + 64
        data = page[at:at + size]
        n, writer = struct.unpack_from(">QQ", data) if size >= 16 else (0, 0)
        if data != record_of(n, writer):
            raise Lost(f"record {n} has other octets")
        if len(found) < 4 and crc32c(data) != crc:
            raise Lost(f"record {n}: checksum wrong")
        if before is not None and n != before - 1:
            raise Lost(f"record {n} is followed by {before}")
        found[n] = pos, writer
        before = n
    return found


# ---- Plants: faults that the judges must find ----

def set_word(f, page, off, value, position):
    """Write the tail or the head, as a writer of the card's epoch would."""
    epoch = int.from_bytes(page[4096:4100], "big")
    f.seek(off)
    f.write(struct.pack(">Q", value // 8 << 24 | (epoch & 0xff) << 16 | check(page, off, epoch, position)))


def plant(medium, how, n):
    """Change the log on a medium, so that all its checks still hold. "cut": it ends before record n. "head": it begins
    behind record n. "other": record n has another writer's content. A log that ends before record n is left as it is."""
    with open(medium, "r+b") as f:
        page = f.read()
        ring_off, ring = ring_of(page)
        heads = {pos: (size, kind) for pos, kind, size, _ in headers_on(page, ring_off, ring, None)}
        number = {pos: int.from_bytes(page[ring_off + pos % ring + 64:][:8], "big") for pos in heads if heads[pos][1] == 1}
        pos = next((p for p in number if number[p] == n), None)
        if pos is None:
            return
        if how == "other":
            at = ring_off + pos % ring
            data = record_of(n, LogWriter.ids + 1000)
            head = page[at:at + 48] + struct.pack(">I", crc32c(data)) + page[at + 52:at + 60]
            f.seek(at)
            f.write(head + struct.pack(">I", crc32c(head)) + data)
            return
        to = max(p for p in heads if p < pos) if how == "cut" else min(p for p in heads if p > pos)
        set_word(f, page, 4160 if how == "cut" else 4224, to % ring, to)


def plants(records, media, judge, opens, appends):
    """Plant each fault in the media of a log whose programs have ended: judge() must find it on the media, and opens()
    with the next writer. appends(n): another writer appends so many records, unjudged."""
    judge()
    good = [open(m, "rb").read() for m in media]
    for how in ("cut", "other", "head", "cut, appended again"):
        n = records.last if how == "cut" else records.last - 20
        for m in media:
            plant(m, how.split(",")[0], n)
        if how.endswith("again"):
            appends(40)
        for find in (judge, opens):
            try:
                find()
            except Lost as e:
                print(f"# {how} ({n}): {e}")
                lost = min(records.must) if how == "head" else n
                assert e.args[0].startswith(f"{lost} was acknowledged, "), e
            else:
                raise AssertionError(f"{how} ({n}) is not found by {find.__name__}")
        for m, octets in zip(media, good):
            with open(m, "wb") as f:
                f.write(octets)
    judge()
