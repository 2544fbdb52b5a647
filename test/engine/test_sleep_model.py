#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every interleaving of a worker's sleep with what may end it: no wake-up is lost.

The model has the steps of weft_engine_sleep() and sleep_nap() (lib/engine/engine_sleep.c), of weft_work_wake()
(lib/worker), and of a port with a receive interrupt. Another thread posts work, packets arrive, at any moment.
Memory is sequentially consistent, as the fences of both sides make it for the two words that matter.

A state is bad when the worker sleeps, something waits for it, and nothing that is under way will wake it: it would
sleep until its time is over. Each way to get the order wrong is a mutant that must be found. TAP.
"""
import sys
from collections import namedtuple

PACKETS, POSTS = 2, 2

# at: the worker's next step. armed: the interrupt is on. fired: the port's descriptor is readable. queue: packets in
# the ring. sleeping: the word of weft_work_wake(). work: posts in the queue. wake: the worker's eventfd is readable.
# packets, posts: still to come. poster: the next step of the other thread; "": between two posts.
State = namedtuple("State", "at armed fired queue sleeping work wake packets posts poster")
FIRST = State("arm", 0, 0, 0, 0, 0, 0, PACKETS, POSTS, "")

MUTANTS = {
    "sleeps without the poll behind the arming": "no-poll",
    "polls first and arms then": "arm-late",
    "looks for work first and says that it sleeps then": "flag-late",
    "another thread looks whether it sleeps first and posts then": "post-late",
    "the descriptor of the port is read before the sleep": "drained",
    "the interrupt is not armed again for the next sleep": "armed-once",
}


def worker(s, mutant):
    """The states behind the worker's next step; none: it sleeps."""
    if s.at == "arm":
        if mutant == "arm-late":
            return [s._replace(at="poll")]
        if mutant == "armed-once" and s.posts + s.packets < PACKETS + POSTS:
            return [s._replace(at="poll")]
        # A port that has packets already does not interrupt for them.
        return [s._replace(at="poll", armed=1)]
    if s.at == "poll":  # weft_worker_poll(): with something to do the worker does not sleep
        if mutant == "no-poll":
            return [s._replace(at="flag")]
        busy = s.queue or s.work
        s = s._replace(queue=0, work=0)
        if mutant == "arm-late":
            return [s._replace(at="disarm" if busy else "flag", armed=1)] if busy else [s._replace(at="arm2")]
        return [s._replace(at="disarm" if busy else "flag")]
    if s.at == "arm2":
        return [s._replace(at="flag", armed=1)]
    if s.at == "flag":
        if mutant == "flag-late":
            return [s._replace(at="disarm" if s.work else "flag2")]
        if mutant == "drained":
            s = s._replace(fired=0)
        return [s._replace(at="look", sleeping=1)]
    if s.at == "flag2":
        return [s._replace(at="sleep", sleeping=1)]
    if s.at == "look":  # set `sleeping`, then look once more
        return [s._replace(at="awake" if s.work else "sleep")]
    if s.at == "sleep":  # ppoll()
        return [s._replace(at="awake", wake=0)] if s.fired or s.wake else []
    if s.at == "awake":
        return [s._replace(at="disarm", sleeping=0)]
    if s.at == "disarm":
        return [s._replace(at="after", armed=0, fired=0)]
    return [s._replace(at="arm", queue=0, work=0)]  # "after": the poll behind the sleep


def others(s, mutant):
    """The states behind a step of the port or of the other thread."""
    if s.packets:
        # An armed interrupt fires once; the driver arms it again.
        yield s._replace(packets=s.packets - 1, queue=s.queue + 1, fired=s.fired or s.armed, armed=0)
    if mutant == "post-late":
        if s.poster == "" and s.posts:
            yield s._replace(posts=s.posts - 1, poster="asleep" if s.sleeping else "awake")
        elif s.poster:
            yield s._replace(poster="", work=s.work + 1, wake=s.wake or s.poster == "asleep")
        return
    if s.poster == "" and s.posts:
        yield s._replace(posts=s.posts - 1, work=s.work + 1, poster="look")
    elif s.poster == "look":
        yield s._replace(poster="write" if s.sleeping else "")
    elif s.poster == "write":
        yield s._replace(poster="", wake=1)


def explore(mutant):
    """All states; the first bad one, or None."""
    seen, todo = {FIRST}, [FIRST]
    while todo:
        s = todo.pop()
        own = worker(s, mutant)
        if not own and (s.queue or s.work) and s.poster == "":
            return len(seen), s
        for t in own + list(others(s, mutant)):
            if t not in seen:
                seen.add(t)
                todo.append(t)
    return len(seen), None


def main():
    n = bad = 0
    states, lost = explore("")
    n, bad = 1, bad + (lost is not None)
    print(f"{'not ok' if lost else 'ok'} 1 no wake-up is lost: {states} states")
    if lost:
        print(f"# {lost}")
    for what, mutant in MUTANTS.items():
        n += 1
        states, lost = explore(mutant)
        bad += lost is None
        print(f"{'ok' if lost else 'not ok'} {n} found: {what}")
    print(f"1..{n}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
