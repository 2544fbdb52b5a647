# SPDX-License-Identifier: BSD-3-Clause
"""
Explore every state of a model, breadth first: what is found first has the shortest trace.

A model has start(), canon(state): the one that stands for all that differ in names alone; steps(state): (name, state, fault), those
without fault first, the most urgent one first; look(state), which raises Wrong; stuck(state): why it must not be that nothing happens
any more without a fault, or None; and live: whether that is asked.
"""
import time
from collections import deque


class Wrong(Exception):
    """An invariant does not hold."""


class Result:
    """What came of it: wrong (None: nothing), trace, states, steps, depth, seconds of the processor,
    whole (all was explored)."""

    def __init__(self):
        self.wrong = None
        self.trace = []
        self.states = self.steps = self.depth = 0
        self.seconds = 0.0
        self.whole = True


class Explorer:
    """States seen of one model, and how they were come by."""

    def __init__(self, model, limit):
        self.m = model
        self.limit = limit
        self.result = Result()
        first = model.canon(model.start())
        self.ids = {first: 0}
        self.states, self.parent, self.depth, self.follow = [first], [0], [0], [-1]
        self.todo = deque([0])

    def run(self):
        """Explore."""
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
        """The steps to a state, in which each target keeps its number, and the one behind it that is wrong, if it is a step."""
        path, m = [], self.m
        while i > 0:
            path.append(self.states[i])
            i = self.parent[i]
        s, trace = m.start(), []
        for want in reversed(path):
            for name, s2, _ in m.steps(s):
                if m.canon(s2) == want:
                    trace.append(name)
                    s = s2
                    break
        try:
            for name, s2, _ in m.steps(s):
                trace.append(name)
                m.look(s2)
                trace.pop()
        except Wrong as e:
            text = str(e)
        self.result.wrong, self.result.trace = text, trace

    def cycle(self):
        """A state from which going on without faults comes back to itself."""
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
    """All states that can be reached, or the first wrong one; not many more than limit."""
    return Explorer(model, limit).run()
