# SPDX-License-Identifier: BSD-3-Clause
"""The remote log of docs/log-format.md as an explicit-state model: targets, writers and faults.

A state consists of nested tuples. steps() yields its successors, each with the name of its step. A record takes one
place of the ring, or two (`long`). A record that does not fit in front of the ring's end leaves a filler there and
begins the next lap; with `filler`, none fits into the last place of a lap. So the places in front of a filler and behind
it are two positions of one number, and two writers may have put different records at them. A writer's operation at a
target follows from what the writer knows of that target. The model therefore chooses only who acts next, what fails, and
what the application requests.

Merged: an operation and the Flush behind it are one step. This changes only what a power cut can leave, and that is the
state before or after the step. Split: each is a step of its own, memory and medium differ, and a power cut leaves any
subset of the unflushed changes.
"""
from collections import namedtuple
from itertools import product

from check import Wrong

# magic: there is a superblock. card: None (blank) or (epoch, seated, life). tail: position, 0 (none), or -k (begun
# anew; k is the sum of the lives that the target knew). grant: the last join's STag, or 0. tail_by, head_by: the epoch that
# the stamp of the word says, or 0. A configuration that does not look at them leaves these three 0.
Mem = namedtuple("Mem", "magic card tail head grant tail_by head_by ring")
# up: 1, 0 (no power), -1 (removed for good). stale: operations (op, micro step) of a grant that no writer holds any
# longer. shelf: the medium that was replaced.
Target = namedtuple("Target", "up mem med stale shelf")
# st: format, grant, joined, offer, offered, words, claim, claimed, cut, unseat, clear, head, trim, fed, live. kind: member,
# unseated, stranger; for the members of an open: right or other. doing: the operation under way, of which pc micro steps are
# done. hold: the writer keeps records in its window for this target. acked: position of its last record; end: the end of
# that record; seq: the number that it gets next. filled: end of a filler that was written alone (only by a mutant). words: the
# stamps of tail and head are those of this writer.
View = namedtuple("View", "st kind acked head goal arg hold pc doing card knows end seq filled words", defaults=(0, 0, 0, 0, 0))
# phase: new, claim (first: of the first open), opening, open. chain: the right log within the ring. head, hseq: the head,
# and its number. record: position of the opening record. seat: position of the record of the seat under way, or 0.
Writer = namedtuple("Writer", "wid phase first epoch lives chain head dur record views seat hseq", defaults=(1,))
# acked: the acknowledged records, sorted by number. trim: the highest number that any trim requested.
State = namedtuple("State", "targets writers acked trim budget wids")
# n: number. len: places. gap: position of the filler in front, or 0. prev: position of the record before, or 0.
Rec = namedtuple("Rec", "p epoch wid lives n len gap prev")
Fil = namedtuple("Fil", "p n to")  # the header of a filler: the record with this number is at `to`
Body = namedtuple("Body", "p rec")  # the second place of a record
Rot = namedtuple("Rot", "p rec")  # the place of a record that is damaged; no step reads rec
Budget = namedtuple("Budget", "death down gone wipe replace back lost trim second rot cutall")

# Mutants whose open takes the highest position of a head.
BY_POSITION = ("head-in-flight", "open-in-flight", "head-by-position")


class Config:
    """Bounds of a configuration.

        ring: places; last: number of records of a log that is never trimmed; writers: number of writers, one after another
        or at once;
        left: a writer has crashed and left this number of records at one target only;
        trimmed: a writer has crashed, a trim of everything reached one target only, and another target lacks the last record;
        long: numbers of the records that take two places, if they are not openings;
        kept: number of records that are not trimmed in the first state (None: all);
        ahead: writers trim to the place of a record in flight, whatever is in front of it: logs of an earlier release have that;
        stamps: tail and head have stamps;
        middle: a record is damaged between head and tail of a target, and another target has it whole;
        twice: the host has no fence and gives one grant again and again, and the writers compare the grant word;
        lose: number of targets that may have lost their content at one time (None: q - 1);
        the others: how often each fault may happen.
    """

    def __init__(self, name, n, q, ring=8, filler=False, last=3, writers=2, split=False, start="open", records=1, left=0, trimmed=False,
                 membership=False, mutant=None, live=True, lose=None, long=(), kept=None, ahead=False,
                 stamps=False, twice=False, middle=False, **budget):
        self.name, self.n, self.q, self.ring, self.filler = name, n, q, ring, filler
        self.last, self.writers, self.split, self.start, self.records, self.left = last, writers, split, start, records, left
        self.membership, self.mutant, self.live, self.stamps, self.twice = membership, mutant, live, stamps, twice
        self.budget = Budget(**{f: budget.pop(f, 0) for f in Budget._fields})
        assert not budget, budget
        self.lose = q - 1 if lose is None else lose
        self.trimmed, self.long, self.kept, self.ahead, self.middle = trimmed, long, kept, ahead, middle
        self.reserve = writers - 1 or 1  # enough room for this number of openings that are not followed by any record
        self.need = max(q, n - q + 1)
        self.tell = min(q, n - q + 1)  # this number of members of the old lives must know of the new lives
        self.first = ring
        # Whether the targets are interchangeable. They are when lives do not matter.
        self.symmetric = not membership

    def lap(self, p):
        """The begin of the next lap."""
        return p - p % self.ring + self.ring

    def place(self, end, size):
        """Where a record of this size goes, when the one before it ends here."""
        return end if end % self.ring + size <= self.ring - self.filler or end % self.ring == 0 else self.lap(end)

    def same_place(self, end, p):
        """Whether p is that end, or behind a filler that begins there."""
        return p == end or end % self.ring != 0 and p == self.lap(end)


def blank(cfg, magic=1):
    return Mem(magic, None, 0, cfg.first, 0, 0, 0, (None,) * cfg.ring)


def end(r):
    """The end of a record. A filler may follow."""
    return r.p + r.len


def at(cfg, mem, p):
    """The record at a position of a target, or None."""
    r = mem.ring[p % cfg.ring]
    if r.__class__ is not Rec or r.p != p or r.len == 2 and mem.ring[(p + 1) % cfg.ring] != Body(p + 1, r):
        return None
    return r


def header_at(cfg, mem, p):
    """The header at a position of a target, of a record or a filler, or None."""
    r = mem.ring[p % cfg.ring]
    return r if r.__class__ in (Rec, Fil) and r.p == p else None


def number_at(cfg, mem, p):
    """The number of the record that follows this position at a target, or None."""
    last = at(cfg, mem, mem.tail) if mem.tail > 0 else None
    if last is None:
        return None
    if p == end(last):
        return last.n + 1
    r = mem.ring[p % cfg.ring]
    return r.n if r.__class__ in (Rec, Fil) and r.p == p else None


def record_behind(cfg, mem, p):
    """The record that follows this position at a target, if it is whole."""
    r = mem.ring[p % cfg.ring]
    return at(cfg, mem, r.to if r.__class__ is Fil and r.p == p else p)


def places_of(rec, fil):
    """What a record, and the filler in front of it, put into the ring."""
    out = [(rec.p, rec)]
    if rec.len == 2:
        out.append((rec.p + 1, Body(rec.p + 1, rec)))
    if fil:
        out.append((rec.gap, Fil(rec.gap, rec.n, rec.p)))
    return out


def put(cfg, mem, rec):
    ring = list(mem.ring)
    for p, x in places_of(rec, rec.gap):
        ring[p % cfg.ring] = x
    return mem._replace(ring=tuple(ring))


def follow(cfg, last, epoch, wid, lives, opening=False):
    """The record behind this one, or the first."""
    size = 2 if not opening and last is not None and last.n + 1 in cfg.long else 1
    if last is None:
        return Rec(cfg.first, epoch, wid, lives, 1, size, 0, 0)
    p = cfg.place(end(last), size)
    return Rec(p, epoch, wid, lives, last.n + 1, size, end(last) if p != end(last) else 0, last.p)


# ---- The decision of an open ----

def seated(mem):
    return mem.card is not None and mem.card[1]


def damage(cfg, mem):
    """The rule of T1 to T4 that does not hold, or None. A join checks only the superblock, the words and the tail's
    header."""
    if mem.tail > 0:
        last = at(cfg, mem, mem.tail)
        if last is None:
            return "T2: tail names no record"
        if mem.head > end(last):
            return "T3: head is behind the end of the tail's record"
        if end(last) - mem.head > cfg.ring:
            return "T3: head is more than a ring before the end"
    return None


def decide(cfg, looks):
    """Decide an open. looks: {index: Mem}. Returns ("open", right one, lives, members, head, its number), ("first", targets to
    offer a place to), or (reason of the refusal,)."""
    m = cfg.mutant
    empty = all(x.tail == 0 for x in looks.values())
    if len(looks) == cfg.n and empty:
        cards = [x.card for x in looks.values()]
        if all(c is not None for c in cards):
            return ("first", tuple(sorted(looks)) if m == "offer-again" and not any(c[1] for c in cards) else ())
        if not any(c is not None and c[1] for c in cards):
            return ("first", tuple(sorted(looks)))
        if m == "fresh-beside-seated":
            return ("first", tuple(i for i in sorted(looks) if looks[i].card is None))
    right, best = None, None
    looks = {i: x for i, x in looks.items() if damage(cfg, x) is None}
    for i, x in sorted(looks.items()):
        if not seated(x) or x.tail < 0:
            continue
        r = at(cfg, x, x.tail) if x.tail > 0 else None
        key = (0, 0) if r is None else (r.epoch, r.n)
        if m == "longest" and r is not None:
            key = (0, r.n)
        if best is None or key > best:
            right, best = i, key
    if right is None:
        return ("others know more",)
    x = looks[right]
    lives = at(cfg, x, x.tail).lives if x.tail > 0 else (1,) * cfg.n
    members = tuple(i for i in sorted(looks) if seated(looks[i]) and
                    (looks[i].card[2] == lives[i] or m == "no-lives"))
    if len(members) < (cfg.q if m == "need-q" else cfg.need) or right not in members:
        return ("too few members",)
    if any(looks[i].tail < 0 and -looks[i].tail > sum(lives) for i in members):
        return ("others know more",)
    if x.tail == 0:
        return ("open", right, lives, members, x.head, 1)
    last = at(cfg, x, x.tail)
    head, stop = x.head, end(last)
    for i in members:
        h = looks[i].head
        if looks[i].tail <= 0 or h <= head:
            continue
        n = number_at(cfg, looks[i], h)
        if m in BY_POSITION:
            head = h
        elif n == last.n + 1 and cfg.same_place(stop, h):
            head = stop
        elif n is not None and n > last.n:
            return ("a head is behind the end",)
        elif n is not None and n == number_at(cfg, x, h):
            head = h
    if head > stop:
        return ("a head is behind the end",)
    if head == stop:
        return ("open", right, lives, members, head, number_at(cfg, x, head))
    # The number of the record at the head, from any member that has the record whole.
    for i in [right] if m == "head-of-one" else [right, *members]:
        r = record_behind(cfg, looks[i], head)
        if r is not None:
            return ("open", right, lives, members, head, r.n)
    return ("head is damaged",)


def chain_of(cfg, looks, right, head, members=()):
    """The records of the right log, from the head on, or the last one before it. A damaged record is taken from another
    member."""
    mem = looks[right]
    out = []
    p = mem.tail
    while p > 0 and p >= cfg.first:
        r = at(cfg, mem, p)
        lost = mem.ring[p % cfg.ring]
        if r is None and cfg.middle and lost.__class__ is Rot and lost.p == p:
            r = lost.rec  # readers are told that it is damaged
        for i in members:
            r = r or at(cfg, looks[i], p)
        if r is None:
            break
        out.append(r)
        if len(out) > 1 and out[-2].epoch < r.epoch:
            raise Wrong(f"T4: the record at {p} is of a later epoch than the one behind it")
        if p < head:
            break
        p = r.prev
    if out and p >= cfg.first and p > head:
        raise Wrong(f"T4: the record at {p} is not whole")
    for r in out:
        if r.gap and r.gap >= head and not any(looks[i].ring[r.gap % cfg.ring] == Fil(r.gap, r.n, r.p) for i in (right, *members)):
            raise Wrong(f"T4: the filler at {r.gap} is not there")
    return tuple(reversed(out))


# ---- What is known of each state ----

class Judge:
    """Check promises 1 and 2, and T1 to T6, for every content that the media may have. Results are cached, as few
    contents differ."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.known = {}
        self.kept = {}
        self.fine = set()

    def variants(self, t):
        """Every content of a target at the next look: its memory, or a medium that a power cut can leave."""
        got = self.kept.get(t)
        if got is None:
            got = {t.mem}
            if t.med is not t.mem and t.med != t.mem:
                got |= set(media(t))
            if t.shelf is not None:
                got.add(t.shelf)
            for x in got:
                w = damage(self.cfg, x)
                if w is not None and x.magic and seated(x) and x.ring[x.tail % self.cfg.ring].__class__ is not Rot:
                    raise Wrong(w)
                if self.cfg.stamps and x.magic and x.card is not None:
                    self.stamped(x)
            got = tuple(got)
            self.kept[t] = got
        return got

    @staticmethod
    def stamped(x):
        """T5. A word that was never written has no stamp; a target that is seated has written both."""
        for word, by in (("tail", x.tail_by), ("head", x.head_by)):
            if by < x.card[0] and (by or x.card[1]):
                raise Wrong(f"T5: the card is of epoch {x.card[0]}, the {word} of {by or 'none'}")

    def look(self, s):
        cfg = self.cfg
        key = (s.targets, s.acked, s.trim)
        if key in self.fine:
            return
        choices = [self.variants(t) for t in s.targets]
        for i, variants in enumerate(choices):
            for x in variants:
                if seated(x) and x.tail > 0 and at(cfg, x, x.tail) and at(cfg, x, x.tail).lives[i] < x.card[2]:
                    raise Wrong(f"T6: t{i} has life {x.card[2]}, its last record knows {at(cfg, x, x.tail).lives}")
                self.certain(i, x, s)
        idx = range(cfg.n)
        for mask in range(1, 1 << cfg.n):
            which = [i for i in idx if mask >> i & 1]
            if len(which) < cfg.need and not (cfg.mutant == "need-q" and len(which) >= cfg.q):
                continue
            for combo in product(*(choices[i] for i in which)):
                self.one(dict(zip(which, combo)), s)
        self.fine.add(key)

    def certain(self, i, x, s):
        """Check that records which the reader of one image calls certain were acknowledged. Certain is what a trim
        released or, with a quorum of one, every record."""
        cfg = self.cfg
        if cfg.q == 1 or not x.magic or x.tail <= 0 or not seated(x):
            return
        last = at(cfg, x, x.tail)
        if last is None:
            return
        n = number_at(cfg, x, end(last) if cfg.mutant == "image-end" else min(x.head, end(last)))
        if n is not None and n > s.trim_to():
            raise Wrong(f"the image of t{i} is called certain up to number {n}, acknowledged is what is before {s.trim_to()}")

    def one(self, looks, s):
        cfg = self.cfg
        key = (tuple(looks.items()), s.acked, s.trim)
        if self.known.get(key):
            return
        # A target without a magic is formatted by the next writer, so it is blank.
        looks = {i: (x if x.magic else blank(cfg)) for i, x in looks.items()}
        d = decide(cfg, looks)
        if d[0] == "first":
            if s.acked:
                raise Wrong(f"{sorted(looks)} open as a new log, {len(s.acked)} acknowledged records are lost")
        elif d[0] == "open":
            _, right, _, members, head, number = d
            if number > s.trim:
                raise Wrong(f"{sorted(looks)} open with a head at {head}, number {number}, which nobody asked for")
            have = {r.n: r for r in chain_of(cfg, looks, right, head, members)}
            for r in s.acked:
                if not have or r.n > max(have):
                    raise Wrong(f"{sorted(looks)} open at the end {looks[right].tail + 1}: "
                                f"the acknowledged record at {r.p} is lost")
                if r.n >= number and have.get(r.n) != r:
                    raise Wrong(f"{sorted(looks)} open with another record than the acknowledged one at {r.p}")
        elif not cfg.budget.rot and d[0] in ("a head is behind the end", "head is damaged"):
            raise Wrong(f"{sorted(looks)}, whose words are good, are refused: {d[0]}")
        self.known[key] = True


def media(t):
    """Every medium that a power cut can leave: any subset of the unflushed changes."""
    parts = []
    # A word and its stamp are one.
    mem, med = ((m.magic, m.card, (m.tail, m.tail_by), (m.head, m.head_by), m.grant) for m in (t.mem, t.med))
    for a, b in zip(mem, med):
        parts.append((a,) if a == b else (a, b))
    rings = []
    for a, b in zip(t.mem.ring, t.med.ring):
        rings.append((a,) if a == b else (a, b))
    for magic, card, (tail, tail_by), (head, head_by), grant in product(*parts):
        for ring in product(*rings):
            yield Mem(magic, card, tail, head, grant, tail_by, head_by, ring)


# ---- Operations at a target ----

def micro(cfg, op):
    """The micro steps of an operation: (name, kind)."""
    k = op[0]
    if k == "unit":
        if cfg.mutant == "pointer-first":
            return (("append.tail", "A"), ("append.write", "W"), ("append.flush", "F"), ("append.flush-tail", "f"))
        if cfg.mutant == "no-flush":
            return (("append.write", "W"), ("append.tail", "A"), ("append.flush-tail", "f"))
        return (("append.write", "W"), ("append.flush", "F"), ("append.tail", "A"), ("append.flush-tail", "f"))
    if k == "fill":
        return (("append.write", "W"), ("append.flush", "F"))
    if k == "grant":
        return ((op[2], "A"),)
    if k == "words":
        return ((op[2], "T"), (op[2], "H"), (op[2] + "/flush", "w"))
    return ((op[2], "A"), (op[2] + "/flush", "f"))


FIELD = {"fill": "tail", "unit": "tail", "tail": "tail", "head": "head", "card": "card", "magic": "magic", "grant": "grant"}


def effect(cfg, t, op, what):
    """Execute one micro step and return the target with its new memory and medium."""
    mem, med = t.mem, t.med
    f = FIELD.get(op[0])
    if what == "W":
        ring = list(mem.ring)
        for p, new in places_of(op[1], op[3]) if op[0] == "unit" else ((op[1].p, op[1]),):
            old = ring[p % cfg.ring]
            if old is not None and old.__class__ is not Rot and old.p != p:
                q = old.rec.p if old.__class__ is Body else old.p
                for x in (mem, med):
                    if seated(x) and x.tail > 0 and min(x.head, x.tail) <= q <= x.tail:
                        raise Wrong(f"T4: {new.__class__.__name__} at {p} overwrites what is at {q}, which head or tail still name")
            ring[p % cfg.ring] = new
        mem = mem._replace(ring=tuple(ring))
    elif what == "A":
        mem = mem._replace(**{f: op[1].p if op[0] == "unit" else op[1]})
        if cfg.stamps and f in ("tail", "head"):
            mem = mem._replace(**{f + "_by": op[-1]})
    elif what == "T":
        mem = mem._replace(tail_by=op[-1])
    elif what == "H":
        mem = mem._replace(head_by=op[-1])
    elif what == "w":
        med = med._replace(tail=mem.tail, tail_by=mem.tail_by, head=mem.head, head_by=mem.head_by)
    elif what == "F":
        med = med._replace(ring=mem.ring)
    elif what == "f":
        med = med._replace(**{f: getattr(mem, f)})
        if f in ("tail", "head"):
            med = med._replace(**{f + "_by": getattr(mem, f + "_by")})
    return t._replace(mem=mem, med=med)


def run(cfg, t, op, pc):
    """Execute one micro step, or all of them when merged. Returns (target, next micro step, done, name)."""
    todo = micro(cfg, op)
    if not cfg.split:
        for _, what in todo[pc:]:
            t = effect(cfg, t, op, what)
        t = t._replace(med=t.mem)
        return t, len(todo), True, op[2]
    # A Flush of a range changes no word. It is executed together with the following step.
    name, what = todo[pc]
    t = effect(cfg, t, op, what)
    pc += 1
    if what == "F" and pc < len(todo):
        t = effect(cfg, t, op, todo[pc][1])
        name, pc = todo[pc][0], pc + 1
    return t, pc, pc == len(todo), name


# ---- A writer ----

def floor_of(v):
    return min(v.acked, v.head) if v.acked > 0 else v.head


def holds(v):
    return v is not None and v.st in ("fed", "live") and v.hold


def lives_of(w):
    return sum(1 for v in w.views if v is not None and v.st == "live")


def durable_at(w, p):
    return sum(1 for v in w.views if v is not None and v.st == "live" and v.acked >= p)


def end_of(w):
    return w.chain[-1].p if w.chain else 0


def next_n(w):
    return w.chain[-1].n + 1 if w.chain else 1


def next_of(cfg, w, opening=None):
    """The record that is appended next. opening: the lives of an opening."""
    return follow(cfg, w.chain[-1] if w.chain else None, w.epoch, w.wid, opening or w.lives, opening is not None)


def number_in(w, p):
    """The number of the first record of the right log at this position or behind it."""
    for r in w.chain:
        if r.p >= p:
            return r.n
    return next_n(w)


def has_room(cfg, w, r, reserve):
    low = min([floor_of(v) for v in w.views if holds(v)] or [r.p])
    if cfg.mutant != "room-of-live":
        low = min(low, w.head)
    return end(r) + reserve - low <= cfg.ring


def fits(cfg, v, r):
    """Whether a record has room at a target, in front of what its words still name."""
    low = floor_of(v)
    if cfg.mutant == "copy-long" and not v.hold:
        return r.p + 1 - low <= cfg.ring
    if cfg.mutant == "room-wraps" and not v.hold:
        return r.p - low > cfg.ring or end(r) - low <= cfg.ring
    return end(r) - low <= cfg.ring


def rel_of(w):
    """The position up to which every live target has every record."""
    acked = [v.acked for v in w.views if v is not None and v.st == "live"]
    return min(acked) if acked else 0


def source(w, r):
    """Whether the record is available: in the window or from a live target."""
    if r.wid == w.wid and r.p > min([v.acked for v in w.views if holds(v)] or [0]):
        return True
    return any(v is not None and v.st == "live" and v.acked >= r.p and (v.head <= r.p or v.acked == r.p) for v in w.views)


def sources_of(s, w):
    """The content of the live targets."""
    return [t.mem for t, v in zip(s.targets, w.views) if v is not None and v.st == "live"]


def next_rec(cfg, w, v):
    """The record that a target gets next, or None if it is not available."""
    r = wanted(cfg, w, v)
    return r if r is not None and source(w, r) else None


def wanted(cfg, w, v):
    if v.acked > 0:
        for r in w.chain:
            if r.n == v.seq:
                return r
        return None
    for r in w.chain:
        if r.p >= v.head:
            return r
    if cfg.mutant == "reset-empty":
        return None
    return w.chain[-1] if w.chain else None


def missing(cfg, w, v):
    """Whether a catching-up target needs a record that was trimmed in the meantime."""
    return not v.hold and v.seq < w.hseq


def reached(cfg, w, v):
    """Whether the target has the records that its seat requires."""
    if cfg.mutant == "reset-empty" and v.acked < 0 and not any(r.p >= v.head for r in w.chain):
        return True
    if cfg.mutant == "goal-laggard" or v.kind == "member" or cfg.mutant == "goal-unseated" and v.kind == "unseated":
        return v.acked >= rel_of(w) or v.acked >= end_of(w)
    return v.acked >= v.goal


def ops(cfg, w, i):
    """Operations (kind, value, name) under way to a target: at most one unit, and one word besides. With stamps, the writer's
    epoch is the last element."""
    v = w.views[i]
    if v is not None and v.pc:
        return (v.doing,)
    return tuple(by(cfg, w, op) for op in new_ops(cfg, w, i)) if v is not None else ()


def by(cfg, w, op):
    return op + (w.epoch,) if cfg.stamps else op


def new_ops(cfg, w, i):
    v = w.views[i]
    if v.st == "format":
        yield ("magic", 1, "format.magic")
    elif v.st == "grant":
        yield ("grant", 1, "join.grant")
    elif v.st == "words":
        yield ("words", None, "open.words")
    elif v.st == "claim":
        yield ("card", (w.epoch, 1, v.arg), "open.claim")
    elif v.st == "offer":
        yield ("card", (w.epoch, 0, 1), "open.offer")
    elif v.st == "cut":
        yield ("tail", v.arg.p, "join.cut")
    elif v.st == "unseat":
        yield ("card", (v.card[0], 0, v.card[2]), "join.unseat")
    elif v.st == "clear":
        yield ("tail", -v.knows, "join.clear")
    elif v.st == "head":
        yield ("head", w.head, "join.head")
    elif v.st == "trim":
        yield ("head", v.arg, "trim.head")
    elif v.st in ("fed", "live"):
        if v.st == "fed" and missing(cfg, w, v):
            yield ("tail", -v.knows, "join.clear")
            return
        r = next_rec(cfg, w, v)
        if r is not None and cfg.mutant == "filler-unchecked" and not v.hold and r.gap == v.end != 0 and v.filled != r.p:
            yield ("fill", Fil(r.gap, r.n, r.p), "join.feed")
            return
        if r is not None and fits(cfg, v, r):
            # In front of the log of a target that was begun anew, the place of the filler is of a later lap.
            yield ("unit", r, "append.write" if v.hold else "join.feed", r.gap and r.gap >= floor_of(v))
        h = head_for(cfg, w, v, r)
        if h is not None:
            yield ("head", h, "trim.head")
        elif r is not None and not fits(cfg, v, r) and v.st == "fed" and not v.hold and \
                cfg.mutant == "room-of-live":
            yield ("tail", -v.knows, "join.clear")
        if v.st == "fed" and may_seat(cfg, w, i, v):
            if cfg.stamps and not v.words and cfg.mutant != "seat-before-words":
                yield ("words", None, "join.words")
            else:
                yield ("card", (w.epoch, 1, w.lives[i]), "join.seat")


def head_for(cfg, w, v, r):
    """The head that may be written to a target now, or None. r: the record that it gets next."""
    if v.acked <= 0:
        return None
    h = min(w.head, v.end)
    if cfg.mutant == "trim-waits":
        if v.st == "live" and v.end < w.head:
            return None
    elif cfg.mutant == "head-past-filler":
        h = w.head if v.seq >= w.hseq else h
    elif cfg.mutant == "room-wraps" and not v.hold and r is not None and fits(cfg, v, r):
        return None
    return h if h > v.head else None


def may_seat(cfg, w, i, v):
    if not v.hold or not reached(cfg, w, v):
        return False
    if v.kind == "stranger" and cfg.membership and cfg.mutant != "seat-silent":
        if not w.seat or not v.arg:
            return False
        return v.acked >= w.seat and (durable_at(w, w.seat) >= cfg.tell or cfg.mutant == "seat-early")
    return True


def done(cfg, w, i, op):
    """An operation is done. Returns the writer's new view of the target."""
    v = w.views[i]
    k, val = op[0], op[1]
    v = v._replace(pc=0, doing=None)
    if k == "magic":
        return v._replace(st="grant" if cfg.twice else "joined")
    if k == "grant":
        return v._replace(st="joined")
    if k == "words":
        st = v.st if v.st != "words" else "claimed" if cfg.mutant == "claim-before-words" else "claim"
        return v._replace(st=st, words=1)
    if k == "fill":
        return v._replace(filled=val.to)
    if k == "unit":
        v = v._replace(acked=val.p, end=end(val), seq=val.n + 1)
        if v.st == "fed" and not v.hold and v.acked >= rel_of(w):
            v = v._replace(hold=True)
        return v
    if op[2] == "trim.head":
        v = v._replace(head=val)
        return settled(cfg, w, v._replace(arg=None)) if v.st == "trim" else v
    if op[2] == "join.head":
        return v._replace(st="fed", head=val, acked=-1, end=0, seq=number_in(w, val), hold=cfg.mutant == "reset-empty")
    if op[2] == "join.clear":
        return v._replace(st="head", acked=-1, end=0, hold=False)
    if op[2] == "join.cut":
        return settled(cfg, w, v._replace(acked=val, end=end(v.arg), seq=v.arg.n + 1, arg=None))
    if op[2] == "join.unseat":
        return v._replace(st="clear", kind="unseated", card=val)
    if op[2] == "join.seat":
        return v._replace(st="live", kind="member", hold=True, goal=0, arg=None, card=val)
    if op[2] == "open.claim":
        return v._replace(st="words" if cfg.mutant == "claim-before-words" else "claimed", card=val)
    if op[2] == "open.offer":
        return v._replace(st="offered", card=val)
    raise AssertionError(op)


def settled(cfg, w, v):
    """The target's log is part of the right log, or everything in it is trimmed. If its head lags, the head is written
    before any record follows. Returns the view."""
    h = min(w.head, v.end)
    if v.acked > 0 and h > v.head and v.seq >= w.hseq and cfg.mutant != "feed-before-head":
        return v._replace(st="trim", arg=h)
    return v._replace(st="fed", hold=v.acked >= rel_of(w) or v.acked >= end_of(w))


def start_catch(cfg, w, i, mem, sources=()):
    """Compare a joined target with the right log, whose records the writer has or reads from the sources. Returns the view, or
    None if the target is refused."""
    v = w.views[i]
    card = mem.card
    goal = w.dur
    last = at(cfg, mem, mem.tail) if mem.tail > 0 else None
    knows = sum(last.lives) if last is not None else -mem.tail if mem.tail < 0 else cfg.n
    v = v._replace(knows=cfg.n if cfg.mutant == "anew-forgets" else min(knows, sum(w.lives)))
    v = v._replace(goal=goal, hold=False, arg=None, pc=0, head=mem.head, acked=mem.tail, end=0, seq=1, filled=0)
    if last is not None:
        v = v._replace(end=end(last), seq=last.n + 1)
    if card is None:
        return v._replace(kind="stranger", st="clear")
    if card[2] != w.lives[i] and cfg.mutant != "no-lives":
        return None if card[1] else v._replace(kind="stranger", st="clear")
    v = v._replace(kind="member" if card[1] else "unseated", card=card)
    if damage(cfg, mem) is not None:
        return None if cfg.mutant == "head-past-filler" else v._replace(st="unseat")
    if mem.tail <= 0:
        if mem.tail == 0 and w.head == cfg.first and mem.head == cfg.first:
            return settled(cfg, w, v)
        return v._replace(st="clear")
    right = {r.p: r for r in w.chain}
    if cfg.mutant == "compare-laggard":
        low = rel_of(w)
        right = {p: r for p, r in right.items() if p <= low}
    p = mem.tail
    doubt = None  # the record behind this one, if no source has a header there
    while True:
        r = at(cfg, mem, p)
        if r is None:
            return v._replace(st="unseat" if card[1] else "clear")
        unread = cfg.middle and p >= w.head and not (p in right and right[p].wid == w.wid) and \
            not any(header_at(cfg, x, p) for x in sources)
        if not unread and right.get(p) == r or (p < w.head and r.n + 1 == w.hseq and cfg.same_place(end(r), w.head)):
            if doubt is None or cfg.mutant == "cut-in-doubt":
                break
            # The log has a record right behind r. Is it the target's?
            following = [header_at(cfg, x, end(doubt)) for x in sources]
            if not any(x.__class__ is Rec and (x.n, x.prev, x.epoch) == (doubt.n + 1, doubt.p, doubt.epoch) for x in following):
                return None
            r, p = doubt, doubt.p
            break
        doubt = r if unread else None
        if p < w.head or p <= cfg.first:
            return v._replace(st="clear")
        if p < mem.head:
            return v._replace(st="unseat" if card[1] else "clear")
        p = r.prev
    if r.n + 1 < w.hseq:
        return v._replace(st="clear")
    if end(r) < mem.head:
        return v._replace(st="unseat" if card[1] else "clear")
    if p != mem.tail and cfg.mutant != "no-cut":
        return v._replace(st="cut", arg=r)
    return settled(cfg, w, v._replace(acked=p, end=end(r), seq=r.n + 1))


def pending(cfg, w, i):
    """The operations that remain in a target's queue when its stream is lost."""
    v = w.views[i]
    if v is None:
        return ()
    out = []
    for op in ops(cfg, w, i):
        out.append((op, v.pc))
    if len(out) == 1 and out[0][0][0] == "unit":
        # Transactions are pipelined.
        for r in w.chain:
            if r.p > out[0][0][1].p and len(out) < 2 and end(r) - floor_of(v) <= cfg.ring:
                out.append((by(cfg, w, ("unit", r, "append.write", r.gap)), 0))
    return tuple(out)


def replace_at(seq, i, x):
    return seq[:i] + (x,) + seq[i + 1:]


class Model:
    """The steps of a configuration."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.live = cfg.live
        self.look = Judge(cfg).look
        self.ids = {}
        self.claim = "words" if cfg.stamps and cfg.mutant != "claim-before-words" else "claim"  # the begin of a claim

    # ---- Begin ----

    def start(self):
        cfg = self.cfg
        if cfg.start == "new":
            m = blank(cfg, 0 if cfg.split else 1)
            t = Target(1, m, m, (), None)
            return State((t,) * cfg.n, (), (), 1, cfg.budget, 0)
        # An open log with all targets live: an opening and some records.
        ones = (1,) * cfg.n
        recs = []
        for _ in range(cfg.records):
            recs.append(follow(cfg, recs[-1] if recs else None, 1, 1, ones))
        first = recs[0 if cfg.kept is None else -cfg.kept]
        mem = blank(cfg)._replace(card=(1, 1, 1), tail=recs[-1].p, head=first.p, tail_by=int(cfg.stamps),
                                  head_by=int(cfg.stamps), grant=int(cfg.twice))
        for r in recs:
            mem = put(cfg, mem, r)
        v = View("live", "member", mem.tail, first.p, 0, None, True, 0, None, mem.card, end=end(recs[-1]), seq=recs[-1].n + 1)
        if cfg.trimmed:
            lacks = mem._replace(tail=recs[-2].p, ring=tuple(None if r == recs[-1] else r for r in mem.ring))
            has = mem._replace(head=end(recs[-1]))
            ts = tuple(Target(1, m, m, (), None) for m in (lacks,) + (mem,) * (cfg.n - 2) + (has,))
            return State(ts, (), tuple(recs), recs[-1].n + 1, cfg.budget, 1)
        if cfg.left:
            one, r = mem, recs[-1]
            for _ in range(cfg.left):
                r = follow(cfg, r, 1, 1, ones)
                one = put(cfg, one._replace(tail=r.p), r)
            ts = (Target(1, mem, mem, (), None),) * (cfg.n - 1) + (Target(1, one, one, (), None),)
            return State(ts, (), tuple(recs), first.n, cfg.budget, 1)
        chain = tuple(r for r in recs if r.n >= first.n)
        w = Writer(1, "open", False, 1, ones, chain, first.p, mem.tail, recs[0].p, (v,) * cfg.n, 0, first.n)
        return State((Target(1, mem, mem, (), None),) * cfg.n, (w,), tuple(recs), first.n, cfg.budget, 1)

    def canon(self, s):
        """The least of all states that differ only in the order of the targets."""
        n = self.cfg.n
        if not self.cfg.symmetric or n == 1:
            return s
        ids = self.ids
        rows = []
        for i, t in enumerate(s.targets):
            row = (t,) + tuple(w.views[i] for w in s.writers)
            rows.append(ids.setdefault(row, len(ids)))
        if rows == sorted(rows):
            return s
        order = sorted(range(n), key=rows.__getitem__)
        return s._replace(targets=tuple(s.targets[i] for i in order),
                          writers=tuple(w._replace(views=tuple(w.views[i] for i in order)) for w in s.writers))

    # ---- Steps ----

    def steps(self, s):
        """Yield (name, state, fault): steps without a fault first, the most urgent ones first."""
        yield from self.writers_go_on(s)
        yield from self.writers_join(s)
        yield from self.world(s)
        yield from self.stale(s)
        yield from self.faults(s)

    def with_writer(self, s, k, w, targets=None):
        cfg = self.cfg
        if w is not None:
            w = self.alive(w)
        writers = s.writers[:k] + ((w,) if w is not None else ()) + s.writers[k + 1:]
        s2 = s._replace(writers=writers, targets=targets if targets is not None else s.targets)
        if w is None:
            # The operations under way stay in the targets' queues.
            old = s.writers[k]
            ts = list(s2.targets)
            for i in range(cfg.n):
                if old.views[i] is not None:
                    ts[i] = ts[i]._replace(stale=ts[i].stale + pending(cfg, old, i))
            s2 = s2._replace(targets=tuple(ts))
        return self.told(s2)

    def told(self, s):
        """Add the records that the writers have reported as durable to the acknowledged ones."""
        acked = {r.n: r for r in s.acked}
        n = len(acked)
        for w in s.writers:
            if w.phase != "open":
                continue
            for r in w.chain:
                if r.p > w.dur:
                    break
                if r.n in acked:
                    if acked[r.n] != r:
                        raise Wrong(f"two records are acknowledged as number {r.n}: {acked[r.n]} and {r}")
                else:
                    acked[r.n] = r
        if len(acked) == n:
            return s
        return s._replace(acked=tuple(acked[n] for n in sorted(acked)))

    def alive(self, w):
        """Update a writer from its views: what is durable, whether the log is open, and the targets in the window."""
        cfg = self.cfg
        if w.phase in ("opening", "open"):
            need = 1 if cfg.mutant == "early-ack" else cfg.q
            best = w.dur
            for v in w.views:
                if v is not None and v.st == "live" and v.acked > best and durable_at(w, v.acked) >= need:
                    best = v.acked
            if best > w.dur:
                w = w._replace(dur=best)
            if w.phase == "opening" and w.record and w.dur >= w.record:
                w = w._replace(phase="open")
            # Hold the window for a target that has reached the live ones.
            rel = rel_of(w)
            views = w.views
            for i, v in enumerate(views):
                if v is not None and v.st == "fed" and not v.hold and v.acked > 0 and v.acked >= rel:
                    views = replace_at(views, i, v._replace(hold=True))
            if views is not w.views:
                w = w._replace(views=views)
        return w

    def writers_go_on(self, s):
        cfg = self.cfg
        for k, w in enumerate(s.writers):
            if w.phase in ("opening", "open"):
                n = sum(1 for v in w.views if v is not None and v.st not in ("joined", "format", "grant"))
                if lives_of(w) == 0 or n < cfg.q:
                    yield ("writer.failed", self.with_writer(s, k, None), False)
                    return
            elif w.phase == "claim" and self.lost_claim(w):
                yield ("writer.failed", self.with_writer(s, k, None), False)
                return
            got = self.local(s, k, w)
            if got is not None:
                yield got
                return
        for k, w in enumerate(s.writers):
            for i in range(cfg.n):
                v = w.views[i]
                if v is None or s.targets[i].up < 1:
                    continue
                for op in ops(cfg, w, i):
                    yield self.execute(s, k, w, i, op)
        for k, w in enumerate(s.writers):
            if w.phase == "new":
                yield from self.choose(s, k, w)

    def execute(self, s, k, w, i, op):
        cfg = self.cfg
        v = w.views[i]
        t, pc, over, name = run(cfg, s.targets[i], op, v.pc)
        v2 = done(cfg, w, i, op) if over else v._replace(pc=pc, doing=op)
        w2 = w._replace(views=replace_at(w.views, i, v2))
        if over and op[2] == "join.seat" and v.arg:
            w2 = w2._replace(seat=0)
        return (f"{name} w{w.wid} t{i}{self.what(op)}", self.with_writer(s, k, w2, replace_at(s.targets, i, t)), False)

    @staticmethod
    def what(op):
        if op[0] == "words":
            return ""
        return f" record {op[1].p} of epoch {op[1].epoch}" if op[0] == "unit" else f" {op[1]}"

    def lost_claim(self, w):
        kinds = [v.kind for v in w.views if v is not None]
        return "right" not in kinds or len(kinds) - kinds.count(None) < (self.cfg.n if w.first else self.cfg.need)

    def local(self, s, k, w):
        """The step that a writer takes alone and immediately, or None."""
        cfg = self.cfg
        if w.phase == "claim":
            sts = [v.st for v in w.views if v is not None and v.kind]
            if "offered" in sts:
                if "offer" in sts:
                    return None
                views = tuple(v._replace(st=self.claim, arg=1) if v.st == "offered" else v for v in w.views)
                return (f"open.offered w{w.wid}", self.with_writer(s, k, w._replace(views=views)), False)
            enough = cfg.n if w.first else cfg.need
            if cfg.mutant == "claim-one":
                enough = 1
            right = [i for i, v in enumerate(w.views) if v is not None and v.kind == "right"][0]
            if w.views[right].st == "claimed" and sts.count("claimed") >= enough:
                return (f"open.begin w{w.wid}", self.begin(s, k, w, right), False)
        if w.phase in ("opening", "open"):
            for i, v in enumerate(w.views):
                if v is not None and v.st in ("joined", "claimed"):
                    # Compare with the target's current content: no other writer has a grant.
                    w2 = w._replace(views=replace_at(w.views, i, start_catch(cfg, w, i, s.targets[i].mem, sources_of(s, w))))
                    return (f"join.compare w{w.wid} t{i}", self.with_writer(s, k, w2), False)
            if w.phase == "opening" and not w.record:
                r = next_of(cfg, w, w.lives)
                if has_room(cfg, w, r, 0):
                    w2 = w._replace(chain=w.chain + (r,), record=r.p)
                    return (f"open.record w{w.wid} at {r.p}", self.with_writer(s, k, w2), False)
                # If there is no room, the application trims at the open.
                keep = self.keep(s, w)
                if keep is not None:
                    s2, w2 = keep
                    return (f"open.trim w{w.wid} to {w2.head}", self.with_writer(s2, k, w2), False)
            if cfg.membership and w.phase == "open" and not w.seat and cfg.mutant != "seat-silent":
                for i, v in enumerate(w.views):
                    if v is None or v.st != "fed" or v.kind != "stranger" or v.acked < v.goal or not v.hold:
                        continue
                    lives = replace_at(w.lives, i, w.lives[i] + 1)
                    r = next_of(cfg, w, lives)
                    if has_room(cfg, w, r, 0):
                        w2 = w._replace(lives=lives, chain=w.chain + (r,), seat=r.p, views=replace_at(w.views, i, v._replace(arg=1)))
                        return (f"join.seat-record w{w.wid} for t{i} at {r.p}", self.with_writer(s, k, w2), False)
            low = min([v.head for v in w.views if v is not None and v.st == "live"] or [w.head])
            if low > w.head and cfg.mutant != "no-source":
                for v in w.views:
                    r = wanted(cfg, w, v) if v is not None and v.st == "fed" else None
                    if r is not None and not source(w, r):
                        return (f"trim.found w{w.wid} {low}", self.with_writer(s, k, w._replace(head=low, hseq=number_in(w, low))), False)
            if w.seat and not any(v is not None and v.kind == "stranger" and v.arg for v in w.views):
                return (f"join.seat w{w.wid} given up", self.with_writer(s, k, w._replace(seat=0)), False)
        return None

    def keep(self, s, w):
        """An open with a trim: everything acknowledged. The application names the place of the record behind that, if it
        appended one, or the end of the record in front. Returns the state and the writer, or None."""
        cfg = self.cfg
        n = min(s.trim_to(), next_n(w))
        if not w.chain or n <= w.hseq:
            return None
        # The record need not be durable, so the head stays in front of the filler that may be there.
        h = [r.p for r in w.chain if r.n == n and (cfg.ahead or cfg.mutant == "open-in-flight")]
        h = h or [end(r) for r in w.chain if r.n == n - 1]
        return s._replace(trim=max(s.trim, n)), w._replace(head=h[0], hseq=n)

    def begin(self, s, k, w, right):
        v = w.views[right]
        mem = s.targets[right].mem
        v = v._replace(st="live", kind="member", acked=mem.tail, head=mem.head, hold=True, arg=None, seq=1)
        if w.chain:
            v = v._replace(end=end(w.chain[-1]), seq=w.chain[-1].n + 1)
        return self.with_writer(s, k, w._replace(phase="opening", views=replace_at(w.views, right, v), dur=end_of(w)))

    def choose(self, s, k, w):
        cfg = self.cfg
        looks = {i: s.targets[i].mem for i, v in enumerate(w.views) if v is not None and v.st == "joined"}
        if len(looks) < min(cfg.need, cfg.n) or any(v is not None and v.st in ("format", "grant") for v in w.views):
            return
        d = decide(cfg, looks)
        epoch = 1 + max([x.card[0] for x in looks.values() if x.card] +
                        [at(cfg, x, x.tail).epoch for x in looks.values() if x.tail > 0 and at(cfg, x, x.tail)] + [0])
        views = list(w.views)
        if d[0] == "first":
            for i in looks:
                st = "offer" if d[1] and cfg.mutant != "claim-at-once" else self.claim
                views[i] = views[i]._replace(st=st, arg=1, kind="other")
            views[0] = views[0]._replace(kind="right")
            w2 = w._replace(phase="claim", first=True, epoch=epoch, lives=(1,) * cfg.n, chain=(), head=cfg.first,
                            views=tuple(views))
        elif d[0] == "open":
            _, right, lives, members, head, number = d
            for i in members:
                views[i] = views[i]._replace(st=self.claim, arg=looks[i].card[2], kind="right" if i == right else "other")
            w2 = w._replace(phase="claim", epoch=epoch, lives=lives, chain=chain_of(cfg, looks, right, head, members),
                            head=head, hseq=number, views=tuple(views))
        elif cfg.mutant == "refused-for-good":
            w2 = w._replace(phase="refused")
        else:
            return
        yield (f"open.choose w{w.wid} of {sorted(looks)}", self.with_writer(s, k, w2), False)
        keep = self.keep(s, w2) if s.budget.trim and d[0] == "open" else None
        if keep is not None:
            s2, w2 = keep
            s2 = s2._replace(budget=s.budget._replace(trim=s.budget.trim - 1))
            yield (f"open.choose w{w.wid} of {sorted(looks)}, open.trim to {w2.head}", self.with_writer(s2, k, w2), False)

    def writers_join(self, s):
        cfg = self.cfg
        for k, w in enumerate(s.writers):
            for i in range(cfg.n):
                t = s.targets[i]
                if t.up < 1 or w.views[i] is not None:
                    continue
                if any(o.wid > w.wid and o.views[i] is not None for o in s.writers):
                    continue
                if w.phase == "claim":
                    continue
                got = self.join(s, k, w, i)
                if got is not None:
                    yield got

    def join(self, s, k, w, i):
        cfg = self.cfg
        t = s.targets[i]
        stale = t.stale
        writers = list(s.writers)
        # fence.end: a former holder of a grant has lost it, and its operations at this target are done or dropped.
        for j, o in enumerate(writers):
            if j != k and o.views[i] is not None:
                stale = stale + pending(cfg, o, i)
                writers[j] = o._replace(views=replace_at(o.views, i, None))
        if not cfg.twice and cfg.mutant != "no-fence" and not (cfg.mutant == "rejoin-no-fence" and len(s.writers) == 1 and s.wids == w.wid):
            stale = ()
        # join.flush, join.look
        mem, med = t.mem, t.med
        if cfg.split:
            if cfg.mutant == "flush-words":
                med = med._replace(card=mem.card, tail=mem.tail, head=mem.head, tail_by=mem.tail_by, head_by=mem.head_by)
            elif cfg.mutant != "no-step0":
                med = mem._replace(ring=med.ring)
        t = t._replace(stale=stale, med=med)
        epoch = max(mem.card[0] if mem.card else 0,
                    at(cfg, mem, mem.tail).epoch if mem.tail > 0 and at(cfg, mem, mem.tail) else 0)
        s2 = s._replace(targets=replace_at(s.targets, i, t), writers=tuple(writers))
        if w.phase in ("opening", "open"):
            if epoch > w.epoch:
                return (f"join.look w{w.wid} t{i}: overtaken", self.with_writer(s2, k, None), False)
            if mem.card is not None and mem.card[1] and mem.card[2] != w.lives[i] and cfg.mutant != "no-lives":
                return None
        bad = mem.magic and damage(cfg, mem)
        if bad and (w.phase == "new" or cfg.mutant == "head-past-filler"):
            return None
        if cfg.twice and mem.grant and cfg.mutant != "grant-unchecked":
            return None  # no word is used
        st = "format" if not mem.magic else "grant" if cfg.twice else "joined"
        v = View(st, None, 0, 0, 0, None, False, 0, None, mem.card)
        w2 = w._replace(views=replace_at(w.views, i, v))
        if self.in_doubt(s2, w2, i):
            return None
        return (f"join.look w{w.wid} t{i}", self.with_writer(s2, k, w2), False)

    def world(self, s):
        """Steps without a fault: a target boots, a writer opens the log, the application appends or trims."""
        cfg = self.cfg
        for i, t in enumerate(s.targets):
            if t.up == 0:
                yield (f"boot t{i}", s._replace(targets=replace_at(s.targets, i, t._replace(up=1))), False)
        if not s.writers and s.wids < cfg.writers:
            yield (f"writer w{s.wids + 1}", self.new_writer(s), False)
        for k, w in enumerate(s.writers):
            if w.phase != "open":
                continue
            r = next_of(cfg, w)
            full = not has_room(cfg, w, r, cfg.reserve)
            if r.n <= cfg.last and not full:
                yield (f"append w{w.wid} at {r.p}" + " of two places" * (r.len - 1),
                       self.with_writer(s, k, w._replace(chain=w.chain + (r,))), False)
            if s.budget.trim or full:
                yield from self.trims(s, k, w, full)

    def new_writer(self, s):
        cfg = self.cfg
        w = Writer(s.wids + 1, "new", False, 0, (), (), cfg.first, 0, 0, (None,) * cfg.n, 0)
        return s._replace(writers=s.writers + (w,), wids=s.wids + 1)

    def trims(self, s, k, w, full):
        """Trims to the end of the durable records, as the application remembers it, or one record forward: to the end of
        the record in front, or to the place of the record itself, also of one that is in flight."""
        cfg = self.cfg
        stop = max((end(r) for r in w.chain if r.p <= w.dur), default=0)
        places = {(r.n + 1, end(r)) for r in w.chain if w.hseq <= r.n and r.p <= w.dur}
        places |= {(r.n, r.p) for r in w.chain if w.hseq < r.n and (r.p <= w.dur or r.prev == w.dur)}
        ends = [n for n, _ in places]
        if cfg.mutant == "trim-filler" and any(r.gap and (r.n, r.gap) in places for r in w.chain):
            raise Wrong("a trim to the end of a record, in front of a filler, is refused")
        told = set()
        for n, h in sorted(places, reverse=True):
            if not full and n not in (max(ends), min(ends)):
                continue
            # The head never passes the end of what is durable.
            to = h if cfg.mutant == "head-in-flight" or cfg.ahead else min(h, stop)
            if (n, to) in told:
                continue
            told.add((n, to))
            b = s.budget if full else s.budget._replace(trim=s.budget.trim - 1)
            s2 = s._replace(trim=max(s.trim, n), budget=b)
            yield (f"trim.log w{w.wid} to {h}", self.with_writer(s2, k, w._replace(head=to, hseq=n)), False)

    def stale(self, s):
        """Operations that a former grant left in a target's queue are executed until fence.end."""
        cfg = self.cfg
        for i, t in enumerate(s.targets):
            if not t.stale or t.up < 1:
                continue
            op, pc = t.stale[0]
            t2, pc, over, name = run(cfg, t, op, pc)
            left = t.stale[1:] if over else ((op, pc),) + t.stale[1:]
            yield (f"{name} t{i}{self.what(op)}, of a grant that is over",
                   s._replace(targets=replace_at(s.targets, i, t2._replace(stale=left))), True)

    # ---- Faults ----

    def cut_off(self, s, i, queue):
        """End every writer's stream to this target."""
        cfg = self.cfg
        t = s.targets[i]
        writers = list(s.writers)
        stale = t.stale
        for j, o in enumerate(writers):
            if o.views[i] is not None:
                stale = stale + pending(cfg, o, i)
                writers[j] = o._replace(views=replace_at(o.views, i, None))
        t = t._replace(stale=stale if queue else ())
        return s._replace(targets=replace_at(s.targets, i, t), writers=tuple(writers))

    def outside(self, s):
        """Number of targets that do not count now: they were wiped or replaced and do not have every record yet."""
        return sum(1 for t in s.targets if not seated(t.mem) or damage(self.cfg, t.mem))

    def faults(self, s):
        cfg = self.cfg
        b = s.budget
        if b.death:
            for k, w in enumerate(s.writers):
                yield (f"w{w.wid} dies", self.with_writer(s._replace(budget=b._replace(death=b.death - 1)), k, None), True)
        if b.second and len(s.writers) == 1 and s.wids < cfg.writers:
            yield (f"writer w{s.wids + 1}, beside w{s.writers[0].wid}",
                   self.new_writer(s._replace(budget=b._replace(second=b.second - 1))), True)
        if b.cutall and any(t.up > 0 for t in s.targets):
            s2 = s._replace(budget=b._replace(cutall=b.cutall - 1), writers=())
            for combo in product(*(tuple(media(t)) for t in s.targets)):
                ts = tuple(Target(min(t.up, 0), m, m, (), t.shelf) for m, t in zip(combo, s.targets))
                yield ("the power goes everywhere", s2._replace(targets=ts), True)
        for i, t in enumerate(s.targets):
            if b.lost and any(w.views[i] is not None for w in s.writers):
                yield (f"stream to t{i} is lost", self.cut_off(s._replace(budget=b._replace(lost=b.lost - 1)), i, True), True)
            if b.gone and t.up > 0:
                s2 = self.cut_off(s._replace(budget=b._replace(gone=b.gone - 1)), i, False)
                yield (f"t{i} is gone for good", s2._replace(targets=replace_at(s2.targets, i, s2.targets[i]._replace(up=-1))), True)
            if b.down and t.up > 0:
                s2 = self.cut_off(s._replace(budget=b._replace(down=b.down - 1)), i, False)
                for m in media(t):
                    t2 = s2.targets[i]._replace(up=0, mem=m, med=m)
                    yield (f"t{i} loses its power", s2._replace(targets=replace_at(s2.targets, i, t2)), True)
            ok = cfg.n > 1 and self.outside(s) + 1 <= cfg.lose and seated(t.mem)
            if b.wipe and ok and s.acked:
                s2 = self.cut_off(s._replace(budget=b._replace(wipe=b.wipe - 1)), i, False)
                m = blank(cfg)
                yield (f"t{i} loses its memory",
                       s2._replace(targets=replace_at(s2.targets, i, s2.targets[i]._replace(mem=m, med=m, up=1))), True)
            if b.replace and ok and s.acked and i == cfg.n - 1 and t.shelf is None:
                s2 = self.cut_off(s._replace(budget=b._replace(replace=b.replace - 1)), i, False)
                m = blank(cfg)
                yield (f"t{i} is replaced",
                       s2._replace(targets=replace_at(s2.targets, i, s2.targets[i]._replace(mem=m, med=m, up=1, shelf=t.med))),
                       True)
            if b.back and t.shelf is not None and t.up > 0:
                s2 = self.cut_off(s._replace(budget=b._replace(back=b.back - 1)), i, False)
                t2 = s2.targets[i]._replace(mem=t.shelf, med=t.shelf, shelf=t.med)
                yield (f"the other t{i} is back in its place", s2._replace(targets=replace_at(s2.targets, i, t2)), True)
            for p in self.may_rot(s, t) if b.rot else ():
                s2 = self.cut_off(s._replace(budget=b._replace(rot=0)), i, False)
                ring = list(t.mem.ring)
                ring[p % cfg.ring] = Rot(p, ring[p % cfg.ring])
                m = t.mem._replace(ring=tuple(ring))
                what = f"the record at {p}"
                r = at(cfg, t.mem, p)
                if cfg.mutant == "word-unchecked" and r is not None and at(cfg, t.mem, r.prev):
                    # The check of a word detects its damage, like the damage of a record that a word names.
                    m, what = t.mem._replace(tail=r.prev), "the tail word"
                yield (f"{what} of t{i} is damaged",
                       s2._replace(targets=replace_at(s2.targets, i, s2.targets[i]._replace(mem=m, med=m))), True)

    def may_rot(self, s, t):
        """Positions whose record may be damaged: the tail's; the head's, if other targets have it; and records that are
        not in the open log."""
        cfg = self.cfg
        head = record_behind(cfg, t.mem, t.mem.head)
        head = t.mem.head if head is None else head.p
        if cfg.records == 1 and not cfg.left and at(cfg, t.mem, t.mem.tail) and self.outside(s) + 1 <= cfg.lose:
            yield t.mem.tail
        if head < t.mem.tail and at(cfg, t.mem, head) and self.cfg.records > 1:
            yield head
        for p in range(head, t.mem.tail) if cfg.middle and self.outside(s) + 1 <= cfg.lose else ():
            r = at(cfg, t.mem, p)
            if r is not None and any(o is not t and at(cfg, o.mem, p) == r for o in s.targets):
                yield p
        for w in s.writers:
            right = {r.p: r for r in w.chain}
            for p in range(head, t.mem.tail):
                r = at(cfg, t.mem, p)
                if w.phase == "open" and r is not None and p in right and right[p] != r:
                    yield p

    # ---- Conditions of a state without further steps ----

    def stuck(self, s):
        """Why a state in which no step without a fault is possible is not acceptable, or None."""
        cfg = self.cfg
        if not s.writers:
            return None if s.wids >= cfg.writers else "nobody opens the log"
        w = s.writers[-1]
        # If nothing was ever acknowledged, no target was wiped.
        healthy = sum(1 for t in s.targets if t.up > 0 and (seated(t.mem) and not damage(cfg, t.mem) or not s.acked))
        if w.phase != "open":
            return f"the log does not open ({w.phase}), {healthy} targets are well" if healthy >= cfg.need else None
        for i, v in enumerate(w.views):
            if s.targets[i].up < 0 or v is None and (self.replaced(s, w, i) or self.in_doubt(s, w, i)):
                continue
            if v is not None and v.st == "live" and v.acked < 0 and v.head > end_of(w):
                continue  # according to its words the target lacks nothing
            if v is None or v.st != "live" or v.acked < end_of(w):
                if v is not None and v.kind == "stranger" and lives_of(w) < cfg.tell:
                    continue
                return f"t{i} never gets what it lacks"
        if w.dur < end_of(w):
            return "an append is never acknowledged"
        if not has_room(cfg, w, next_of(cfg, w), cfg.reserve):
            return "no room, whatever is trimmed"
        return None

    def in_doubt(self, s, w, i):
        """Whether a target is refused by an open log because a record is damaged where it would be compared."""
        if not self.cfg.middle or w.phase not in ("opening", "open"):
            return False
        w = w._replace(views=replace_at(w.views, i, w.views[i] or View("joined", None, 0, 0, 0, None, False, 0, None, None)))
        mem = s.targets[i].mem
        return seated(mem) and mem.card[2] == w.lives[i] and start_catch(self.cfg, w, i, mem, sources_of(s, w)) is None

    def replaced(self, s, w, i):
        c = s.targets[i].mem.card
        return c is not None and c[2] != w.lives[i]


def trim_to(s):
    """The number up to which every record was acknowledged."""
    return s.acked[-1].n + 1 if s.acked else 1


State.trim_to = trim_to
