#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A running weft-target waits for its medium before it answers. test_flush_waits.py BUILD [CASE...]

A library preloaded into the target records each call, and delays the slow ones. A client that has received its last
Flush Response cannot have it before these calls have returned (draft-talpey-rdma-commit-02 section 2.1).
"""
import os
import time

from weft_e2e import BUILD, Skip, Target, app, main, make_file, path, sha

MIB = 1 << 20
DELAY_S = 0.5


class Traced(Target):
    def __init__(self, name, persist, exe=None, env=None):
        self.medium = path(f"{name}.exp")
        self.trace = path(f"{name}.trace")
        keys = {"path": self.medium, "size": "8M", "persist": persist}
        super().__init__(name, {"demo": keys}, exe=exe)
        with open(app("weft-target"), "rb") as f:
            if b"__asan_init" in f.read():
                raise Skip("nothing is preloaded before the address sanitizer")
        self.env = {"LD_PRELOAD": os.path.join(BUILD, "test", "e2e", "libio_trace.so"),
                    "WEFT_IO_TRACE": self.trace, "WEFT_IO_DELAY_US": str(int(DELAY_S * 1e6)), **(env or {})}

    def start(self, ok=True):
        saved = dict(os.environ)
        os.environ.update(self.env)
        try:
            return super().start(ok)
        finally:
            os.environ.clear()
            os.environ.update(saved)

    def calls(self):
        """The calls to the medium: (call, begun, ended, offset, length), times in seconds."""
        out = []
        with open(self.trace) as f:
            for line in f:
                call, begun, ended, off, n, where = line.rstrip("\n").split(" ", 5)
                if where in ("-", self.medium):
                    out.append((call, int(begun) / 1e9, int(ended) / 1e9, int(off), int(n)))
        return out

    def traced_push(self, src):
        """The target's calls until the push was done, the time when it was done, and all later calls."""
        with open(self.trace, "w"):
            pass
        rc, out, err = self.cp(src, "weft://10.0.0.1/demo", args=["--no-verify"])
        done = time.clock_gettime(time.CLOCK_MONOTONIC)
        assert rc == 0, f"{err}\n{self.logged()[-1500:]}"
        at_once = self.calls()
        time.sleep(3 * DELAY_S)
        return at_once, done, self.calls()


def judge(calls, done, size, waits, writes):
    """What is wrong with a push of `size` octets, or None."""
    if any(c[0] == "failed" for c in calls):
        return "a call failed"
    if any(c[2] > done for c in calls):
        return "a call had not returned"
    slow = [c for c in calls if c[0] == waits]
    if len(slow) < 2:
        return "the data and the commit word were not both asked for"
    if waits != "sync":
        return None if sum(c[4] for c in slow) >= size else "not all of it was asked for"
    written = [c for c in calls if c[0] in writes]
    if sum(c[4] for c in written) < size:
        return "not all of it was written"
    if sum(c[4] for c in written) > size + 64 * 1024:
        return "more was written than was dirty"
    if max(c[2] for c in written) > max(c[1] for c in slow):
        return "no sync behind the last write"
    return None


def test_file():
    """The dirty pages are written, then fdatasync runs, and all calls return before the push is done."""
    t = Traced("fi", "file").start()
    size = 2 * MIB + 77
    for i in range(2):
        src = make_file("fi.src", size, 5 + i)
        at_once, done, later = t.traced_push(src)
        assert judge(at_once, done, size, "sync", ("write", "uring")) is None, \
            (judge(at_once, done, size, "sync", ("write", "uring")), at_once, done)
        assert at_once == later, "something came after the response"
        assert not [c for c in later if c[0] in ("msync", "persist")], later
    assert sha(t.pull("demo", "fi.out")) == sha(src)
    t.kill()


def test_msync():
    """A mapping that is not on DAX: msync returns before the push is done."""
    t = Traced("ms", "pmem")
    if t.start(ok=False).proc.poll() is not None:
        if "driver pmem cannot make this medium durable" in t.logged():  # its own words, for a file without O_DIRECT
            raise Skip("no O_DIRECT here: " + t.logged()[-200:])
        raise AssertionError("target did not become ready: " + t.logged()[-2000:])
    assert "ready" in t.logged(), t.logged()[-2000:]
    if "libpmem on DAX" in t.logged():
        raise Skip("the scratch folder is on DAX")
    assert "libpmem msync to a file that is not on DAX" in t.logged(), t.logged()[-2000:]
    size = 1 * MIB + 5
    src = make_file("ms.src", size, 6)
    at_once, done, later = t.traced_push(src)
    assert judge(at_once, done, size, "msync", ()) is None, (judge(at_once, done, size, "msync", ()), at_once, done)
    assert at_once == later
    assert not [c for c in later if c[0] != "msync"], later
    t.kill()


def test_persistent_memory():
    """A mapping that libpmem takes for persistent memory: cache lines are written back, without msync or a write."""
    t = Traced("pm", "auto", env={"PMEM_IS_PMEM_FORCE": "1"}).start()
    size = 1 * MIB + 5
    src = make_file("pm.src", size, 7)
    at_once, done, later = t.traced_push(src)
    assert judge(at_once, done, size, "persist", ()) is None, (judge(at_once, done, size, "persist", ()), at_once, done)
    assert at_once == later
    assert not [c for c in later if c[0] != "persist"], later
    assert sha(t.pull("demo", "pm.out")) == sha(src)
    t.kill()


def test_wrong_targets_are_caught():
    """A target that answers without a flush, and one that answers before the flush is done."""
    size = 2 * MIB
    src = make_file("wt.src", size, 8)
    for exe in ("weft-target-noflush", "weft-target-early"):
        t = Traced("wt", "file", exe=os.path.join(BUILD, "test", "e2e", exe)).start()
        at_once, done, later = t.traced_push(src)
        for calls in (at_once, later):
            wrong = judge(calls, done, size, "sync", ("write", "uring"))
            assert wrong is not None, (exe, calls, done)
        asked = [c for c in later if c[0] == "sync"]
        assert bool(asked) == (exe == "weft-target-early"), (exe, later)
        t.kill()


if __name__ == "__main__":
    main([test_file, test_msync, test_persistent_memory, test_wrong_targets_are_caught])
