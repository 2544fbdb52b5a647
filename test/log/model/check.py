# SPDX-License-Identifier: BSD-3-Clause
"""Explore every state of a model, breadth first: the first fault found has the shortest trace.

A model has start(); canon(state), the representative of all states that differ only in names; steps(state), which
yields (name, state, fault), steps without a fault first and the most urgent ones first; look(state), which raises
Wrong; stuck(state), the reason why it is wrong that no step without a fault follows, or None; and live, whether stuck()
is called.
"""
import time
from collections import deque


class Wrong(Exception):
    """An invariant does not hold."""


class Result:
    """Result of an exploration: wrong (None: nothing), trace, states, steps, depth, seconds of processor time, whole
    (every state was explored)."""

    def __init__(self):
        self.wrong = None
        self.trace = []
        self.states = self.steps = self.depth = 0
        self.seconds = 0.0
        self.whole = True


class Explorer:
    """The states of one model that were reached, and how."""

    def __init__(self, model, limit):
        self.m = model
        self.limit = limit
        self.result = Result()
        first = model.canon(model.start())
        self.ids = {first: 0}
        self.states, self.parent, self.depth, self.follow = [first], [0], [0], [-1]
        self.todo = deque([0])

    def run(self):
        """Explore the states."""
        r, begin = self.result, time.process_time()
        i = 0
        try:
            self.m.look(self.states[0])
            while self.todo:
                i = self.todo.popleft()
                self.expand(i)
                if self.limit is not None and len(self.states) >= self.limit:
                    r.whole = False
                    break
            else:
                if self.m.live:
                    i = self.cycle()
                    if i is not None:
                        self.wrong("goes round for ever without a fault", i)
        except Wrong as e:
            self.wrong(str(e), i)
        r.states = len(self.states)
        r.depth = max(self.depth)
        r.seconds = time.process_time() - begin
        return r

    def expand(self, i):
        s, m, r = self.states[i], self.m, self.result
        for _, s2, fault in m.steps(s):
            s2 = m.canon(s2)
            r.steps += 1
            j = self.ids.get(s2)
            if j is None:
                m.look(s2)
                j = len(self.states)
                self.ids[s2] = j
                self.states.append(s2)
                self.parent.append(i)
                self.depth.append(self.depth[i] + 1)
                self.follow.append(-1)
                self.todo.append(j)
            if not fault and self.follow[i] < 0:
                self.follow[i] = j
        if self.follow[i] < 0 and m.live:
            why = m.stuck(s)
            if why is not None:
                raise Wrong("nothing moves any more: " + why)

    def wrong(self, text, i):
        """The steps that lead to a state, and the wrong step behind it, if the fault is in a step. Each target keeps its
        number, unless a step depends on the order of the targets: then the trace says that they are numbered anew."""
        path, m = [], self.m
        while i > 0:
            path.append(self.states[i])
            i = self.parent[i]
        s, trace = m.start(), []
        last = m.canon(s)
        for want in reversed(path):
            got = self.step_to(s, want)
            if got is None:
                got = self.step_to(last, want)
                trace.append("(the targets are numbered anew)")
            trace.append(got[0])
            s, last = got[1], want
        try:
            for name, s2, _ in m.steps(s):
                trace.append(name)
                m.look(s2)
                trace.pop()
        except Wrong as e:
            text = str(e)
        self.result.wrong, self.result.trace = text, trace

    def step_to(self, s, want):
        """The step from a state to one that differs from `want` only in names: (name, state), or None."""
        for name, s2, _ in self.m.steps(s):
            if self.m.canon(s2) == want:
                return name, s2
        return None

    def cycle(self):
        """A state from which steps without faults lead back to itself."""
        mark = [0] * len(self.follow)
        for i in range(len(self.follow)):
            path, j = [], i
            while j >= 0 and mark[j] == 0:
                mark[j] = 1
                path.append(j)
                j = self.follow[j]
            if j >= 0 and mark[j] == 1:
                return j
            for k in path:
                mark[k] = 2
        return None


def explore(model, limit=None):
    """Explore all reachable states, or until the first wrong one; not many more than limit."""
    return Explorer(model, limit).run()
