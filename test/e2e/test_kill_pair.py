#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 of a target with two workers that serves two initiators, or of one or both initiators. Each export holds a
prefix of what its initiator committed, with everything acknowledged. test_kill_pair.py BUILD [CASE...]

kill_rounds.py explains the seeds.
"""
import random
import time

from kill_rounds import SEED, Rounds, rounds
from test_kill import BROKEN, Writer, check_medium, file_mechanism, nothing_left
from weft_e2e import Target, main, path


class Pair(Rounds):
    """Rounds of one target and the initiators of its two exports."""

    KINDS = ["target"] * 8 + ["one"] * 4 + ["initiators"] * 2 + ["all"] * 3 + ["takeover"] * 2 + ["recovery"] * 3

    def __init__(self, name, seed, exe=None, verify=True):
        self.rnd = random.Random(seed)
        media = {e: path(f"{name}.{e}") for e in ("a", "b")}
        self.t = Target(name, {e: {"path": m, "size": "4M", "persist": "file"} for e, m in media.items()}, ports=4,
                        keepalive_ms=500, extra="[weft]\nworkers = 2", exe=exe)
        t0 = time.monotonic()
        self.t.start()
        self.start_s = time.monotonic() - t0
        self.mechanism = file_mechanism(self.t)
        self.seen = {k: 0 for k in ("commits", "ahead", "record only", "birth", "both commit", *self.KINDS)}
        self.writers = [Writer(self.rnd, self.t, e, m, (2 * i, 2 * i + 1), self.seen, verify)
                        for i, (e, m) in enumerate(media.items())]

    def begin(self):
        """Start an initiator for each export. In most rounds both are active."""
        for w in self.writers:
            w.probe = w.probe or w.new_probe()
        if self.rnd.random() < 0.8:
            for w in self.writers:
                w.is_up(w.probe)
            before = [w.probe.acks for w in self.writers]
            for w, n in zip(self.writers, before):
                w.probe.wait(lambda w=w, n=n: w.probe.acks > n)
            self.seen["both commit"] += 1

    def take(self, w):
        p, w.probe = w.probe, None
        return p

    def killed(self, *writers):
        for w in writers:
            w.probe.kill()
        for w in writers:
            p = self.take(w)
            p.gone()
            w.judge(p)

    def target_killed(self, kind, at):
        at.moment(at.probe)
        if kind == "all":
            order = self.rnd.sample([self.t.proc, *(w.probe.p for w in self.writers)], 3)
            for p in order:
                p.kill()
                time.sleep(self.rnd.choice((0, self.rnd.uniform(0, 0.002))))
            self.t.proc.wait()
        else:
            self.t.kill()
        for w in self.writers:
            p = self.take(w)
            if kind == "all":
                p.gone()
            else:
                p.bereaved()
            w.judge(p)
        if kind == "recovery":
            self.t.spawn()
            time.sleep(self.rnd.uniform(0, self.start_s * 1.2))
            self.t.kill()
            for w in self.writers:
                check_medium(w.medium, w.last, w.last)
        self.t.start()

    def round(self):
        kind = self.rnd.choice(self.KINDS)
        self.seen[kind] += 1
        self.begin()
        w = self.rnd.choice(self.writers)
        if kind in ("target", "all", "recovery"):
            return self.target_killed(kind, w)
        w.moment(w.probe)
        if kind == "one":
            return self.killed(w)
        if kind == "initiators":
            return self.killed(*self.writers)
        second = w.new_probe()
        w.moment(w.probe)
        p = self.take(w)
        p.kill()
        p.gone()
        w.judge(p, others=True)
        w.is_up(second)
        w.probe = second
        return None

    def said(self):
        return f"two workers; {self.seen}"

    def end(self):
        for w in self.writers:
            w.finish()
        assert "DAMAGED" not in self.t.logged(), self.t.logged()
        assert self.t.term() == 0


def test_two_initiators():
    """Neither export loses acknowledged data, whichever of the three processes is killed."""
    n = rounds(10)
    run = Pair("kp", SEED)
    run.survive(n)
    assert n < 100 or (run.seen["ahead"] and run.seen["record only"] and run.seen["both commit"] > n // 2), run.seen
    nothing_left()


def test_two_initiators_without_flush():
    """A target whose Flush does nothing is detected by the data that a kill takes away."""
    run = Pair("kq", SEED, exe=BROKEN, verify=False)
    lost = run.caught(15)
    assert "was acknowledged, the medium ends with" in lost, lost


if __name__ == "__main__":
    main([test_two_initiators, test_two_initiators_without_flush])
