# SPDX-License-Identifier: BSD-3-Clause
"""The two slots and the commit word of an export (docs/export-format.md) as an explicit-state model: two pushers, of
which one may have crashed and left operations in the target's queue, a puller that reads while they push, and power
cuts.

An object is (generation, number of the push). Its data are two blocks. The operations of a push are executed in order,
one in a step. A Flush is a step of its own, so memory and medium may differ. A power cut leaves any subset of the
unflushed changes.
"""
from collections import namedtuple
from itertools import product

from check import Wrong

# word: (generation, slot). slots: two of (header, block, block); header (generation, push), block: push.
Mem = namedtuple("Mem", "word a b")
# queue: operations of the current grant; stale: operations of a former grant.
Push = namedtuple("Push", "k step word queue acked")
Pull = namedtuple("Pull", "step word header blocks least")
# done: the newest generation that was acknowledged, and the pushes of it and of later ones; seen: what a pull returned.
State = namedtuple("State", "up mem med push stale pull next acked seen objects death cut taken pulls")

EMPTY = ((0, 0), 0, 0)

MUTANTS = {
    "export-no-step0": "the word is read without a Flush in front of it",
    "export-no-fence": "a grant is given while operations of the one before are in the queue",
    "export-word-first": "the word changes before header and data are flushed",
    "export-no-flush": "header and data are not flushed",
    "export-early-ack": "the answer to the Atomic Write is taken for the acknowledgement",
    "export-same-slot": "a push goes to the slot that the word names",
    "export-pull-once": "the word is not read again behind the data",
    "export-pull-visible": "the word is not flushed before it is read again",
}


class Config:
    """Bounds: number of pushes, and how often each fault may happen."""

    def __init__(self, name, pushes=2, death=1, cut=1, taken=0, pulls=1, mutant=None):
        self.name, self.pushes, self.death, self.cut = name, pushes, death, cut
        self.taken, self.pulls, self.mutant = taken, pulls, mutant


def slot(mem, i):
    return mem.b if i else mem.a


def put(mem, i, what):
    return mem._replace(b=what) if i else mem._replace(a=what)


def media(mem, med):
    """Every medium that a power cut can leave."""
    parts = [(mem.word,) if mem.word == med.word else (mem.word, med.word)]
    for i in (0, 1):
        a, b = slot(mem, i), slot(med, i)
        parts.append(tuple(product(*((x,) if x == y else (x, y) for x, y in zip(a, b)))))
    for word, a, b in product(*parts):
        yield Mem(word, a, b)


def whole(mem):
    """The object that the word names: (generation, push), or (0, 0) for none. Raises Wrong if it is damaged."""
    gen, i = mem.word
    if gen == 0:
        return (0, 0)
    (hgen, k), x, y = slot(mem, i)
    if hgen != gen or x != k or y != k:
        raise Wrong(f"generation {gen} in slot {i} is not whole: header {(hgen, k)}, blocks {x} and {y}")
    return (gen, k)


class Model:
    """The steps of a configuration."""

    live = True

    def __init__(self, cfg):
        self.cfg = cfg
        self.fine = set()

    def start(self):
        c = self.cfg
        m = Mem((1, 0), ((1, 1), 1, 1), EMPTY)
        return State(True, m, m, None, (), None, 2, (1, 1), (1, 1), ((1, 1),), c.death, c.cut, c.taken, c.pulls)

    def canon(self, s):
        return s

    def look(self, s):
        """Check the promises: what a crash leaves is complete, and not older than what was acknowledged or returned by
        a pull."""
        key = (s.mem, s.med, s.acked, s.seen, s.objects)
        if key in self.fine:
            return
        for m in media(s.mem, s.med):
            got = whole(m)
            if got not in s.objects:
                raise Wrong(f"object {got} was never pushed")
            for what, least in (("acknowledged", s.acked), ("returned by a pull", s.seen)):
                if got[0] < least[0] or got[0] == least[0] and got != least:
                    raise Wrong(f"{least} was {what}, a power cut leaves {got}")
        self.fine.add(key)

    def stuck(self, s):
        if s.push is not None:
            return "a push does not end"
        if s.pull is not None:
            return "a pull does not end"
        return None

    # ---- The target ----

    def execute(self, s, op):
        """Execute one operation at the target. Returns (state, name)."""
        kind = op[0]
        mem, med = s.mem, s.med
        if kind == "write":
            _, i, part, what = op
            x = list(slot(mem, i))
            x[part] = what
            mem = put(mem, i, tuple(x))
            name = f"push.{'header' if part == 0 else 'data'} WRITE slot {i}"
        elif kind == "flush":
            _, i, part = op
            x = list(slot(med, i))
            x[part] = slot(mem, i)[part]
            med = put(med, i, tuple(x))
            name = f"push.{'header' if part == 0 else 'data'} FLUSH slot {i}"
        elif kind == "word":
            mem = mem._replace(word=op[1])
            name = f"push.word {op[1]}"
        else:
            med = med._replace(word=mem.word)
            name = "push.flush-word"
        return s._replace(mem=mem, med=med), name

    def post(self, k, old):
        """The operations that a push posts after step 0."""
        m = self.cfg.mutant
        i = old[1] if m == "export-same-slot" else old[1] ^ 1
        new = (old[0] + 1, i)
        data = []
        for part in (1, 2):
            data += [("write", i, part, k), ("flush", i, part)]
        data += [("write", i, 0, (new[0], k)), ("flush", i, 0)]
        word = [("word", new), ("flush-word",)]
        if m == "export-no-flush":
            data = [op for op in data if op[0] != "flush"]
        if m == "export-word-first":
            return tuple(word + data)
        return tuple(data + word)

    # ---- Steps ----

    def steps(self, s):
        """Yield (name, state, fault)."""
        c = self.cfg
        if not s.up:
            yield ("boot", s._replace(up=True), False)
            return
        yield from self.push(s)
        yield from self.pull(s)
        if s.push is None and s.next <= c.pushes + 1:
            # fence.end, fence.give
            stale = s.stale if c.mutant == "export-no-fence" else ()
            yield (f"push {s.next} begins", s._replace(push=Push(s.next, 0, None, (), False), stale=stale, next=s.next + 1), False)
        if s.pull is None and s.pulls:
            yield ("pull begins", s._replace(pull=Pull(0, None, None, (), s.acked), pulls=s.pulls - 1), False)
        if s.stale:
            s2, name = self.execute(s, s.stale[0])
            yield (name + ", of a grant that is over", s2._replace(stale=s.stale[1:]), True)
        if s.push is not None and s.death:
            yield (f"push {s.push.k} dies", s._replace(push=None, stale=s.stale + s.push.queue, death=s.death - 1), True)
        if s.push is not None and s.taken:
            yield (f"push {s.push.k}'s grant is taken", s._replace(push=None, stale=s.stale + s.push.queue, taken=s.taken - 1), True)
        if s.pull is not None and s.death:
            yield ("pull dies", s._replace(pull=None, death=s.death - 1), True)
        if s.cut:
            for m in media(s.mem, s.med):
                yield ("the power goes", s._replace(up=False, mem=m, med=m, push=None, pull=None, stale=(), cut=s.cut - 1), True)

    def push(self, s):
        p = s.push
        if p is None:
            return
        m = self.cfg.mutant
        if p.step == 0:
            med = s.med if m == "export-no-step0" else s.med._replace(word=s.mem.word)
            s2 = s._replace(med=med, push=p._replace(step=1))
            yield (f"push {p.k}: push.flush-old", s2, False)
        elif p.step == 1:
            old = s.mem.word
            obj = (old[0] + 1, p.k)
            s2 = s._replace(push=p._replace(step=2, word=old, queue=self.post(p.k, old)), objects=s.objects + (obj,))
            yield (f"push {p.k}: push.read {old}", s2, False)
        elif p.queue:
            s2, name = self.execute(s, p.queue[0])
            s2 = s2._replace(push=p._replace(queue=p.queue[1:]))
            if m == "export-early-ack" and p.queue[0][0] == "word":
                s2 = s2._replace(acked=max(s.acked, (p.word[0] + 1, p.k)))
            yield (f"push {p.k}: {name}", s2, False)
        else:
            s2 = s._replace(push=None, acked=max(s.acked, (p.word[0] + 1, p.k)))
            yield (f"push {p.k}: push.ack", s2, False)

    def pull(self, s):
        p = s.pull
        if p is None:
            return
        m = self.cfg.mutant
        if p.step == 0:
            yield (f"pull.read-word {s.mem.word}", s._replace(pull=p._replace(step=1, word=s.mem.word)), False)
        elif p.step == 1:
            h = slot(s.mem, p.word[1])[0]
            yield (f"pull.read-header {h}", s._replace(pull=p._replace(step=2, header=h)), False)
        elif p.step in (2, 3):
            x = slot(s.mem, p.word[1])[p.step - 1]
            yield (f"pull.read-data {x}", s._replace(pull=p._replace(step=p.step + 1, blocks=p.blocks + (x,))), False)
        elif p.step == 4:
            med = s.med if m == "export-pull-visible" else s.med._replace(word=s.mem.word)
            yield ("pull.flush-word", s._replace(med=med, pull=p._replace(step=5)), False)
        else:
            yield self.pulled(s, p)

    def pulled(self, s, p):
        """Check the word a second time, then generation and checksum."""
        if s.mem.word != p.word and self.cfg.mutant != "export-pull-once":
            return ("pull.again", s._replace(pull=Pull(0, None, None, (), p.least)), False)
        gen, k = p.header
        if gen != p.word[0] or p.blocks != (k, k):
            raise Wrong(f"a pull finds damage: word {p.word}, header {p.header}, blocks {p.blocks}")
        if p.header[0] < p.least[0]:
            raise Wrong(f"a pull returns {p.header}, {p.least} was acknowledged before it began")
        return (f"pull.done {p.header}", s._replace(pull=None, seen=max(s.seen, p.header)), False)
