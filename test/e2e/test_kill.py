#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 at random moments: of the target, of the initiator, of both, of a starting target. The file then holds a
prefix of the committed data that includes everything acknowledged.

test_kill.py BUILD [CASE...]

commit_probe makes thousands of small transactions, weft-cp replaces whole objects. kill_rounds.py explains the seeds.
"""
import contextlib
import fcntl
import glob
import hashlib
import itertools
import os
import random
import re
import select
import signal
import struct
import subprocess
import time

from kill_rounds import SEED, Lost, Rounds, rounds
from weft_e2e import BUILD, FAILED, PROCS, TMP, Target, end_all, main, make_file, memif, path

PAGE = 4096
RING, DEPTH_MAX = 256, 16  # commit_probe.c
BROKEN = os.path.join(BUILD, "test", "e2e", "weft-target-noflush")


def file_mechanism(t):
    """The target's log text on how it makes its export durable: it is an ordinary file, even if libpmem could map it."""
    m = re.search(r"export \w+: .*?, ((?:direct I/O by \w+|buffered I/O and fdatasync) to an ordinary file[^,]*),", t.logged())
    assert m, t.logged()
    return m[1]


# ---- A process that was killed ----

KERNEL_S = 300  # time in which the kernel ends a process, on a busy computer


class Thread:
    """A thread, as /proc describes it."""

    def __init__(self, folder):
        def of(name):
            with open(f"{folder}/{name}") as f:
                return f.read()

        try:
            self.state, *rest = of("stat").rpartition(")")[2].split()
            status = dict(line.split(":\t", 1) for line in of("status").splitlines() if ":\t" in line)
            self.where = of("wchan")
        except ProcessLookupError as e:
            raise FileNotFoundError(folder) from e
        self.name = status["Name"]
        # SIGKILL is pending, or the thread has PF_EXITING or PF_SIGNALED
        killed = (int(status["SigPnd"], 16) | int(status["ShdPnd"], 16)) >> signal.SIGKILL - 1 & 1
        self.dying = bool(killed or int(rest[5]) & 0x404)

    def __repr__(self):
        return f"{self.name} ({self.state}{', dying' * self.dying}, in {self.where})"


def machine():
    with open("/proc/loadavg") as f, open("/proc/pressure/cpu") as g:
        return f"load {f.read().strip()}, cpu {g.readline().strip()}"


def holders(fd):
    """The processes that have the other end of this pipe."""
    pipe, found = os.readlink(f"/proc/self/fd/{fd}"), []
    for other in glob.glob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(other) == pipe and other.split("/")[2] != str(os.getpid()):
                with open("/".join([*other.split("/")[:3], "comm"])) as f:
                    found.append(f.read().strip() + " " + other)
    return found


# ---- Transactions: commit_probe ----

class Probe:
    """One process of commit_probe."""

    def __init__(self, t, port, addr, depth, verify=True, kill_in=0, export="demo"):
        """kill_in: after this number of acknowledgements the probe itself kills the target, sooner than this program
        could."""
        self.depth, self.kill_in = depth, kill_in
        self.args = [os.path.join(BUILD, "test", "e2e", "commit_probe"), memif(0, "client", t.sock(port)),
                     f"10.0.{port}.{addr}/24", f"10.0.{port}.1", export, str(depth)]
        self.args += [] if verify else ["noverify"]
        self.args += ["kill", str(t.proc.pid), str(kill_in)] if kill_in else []
        self.spawn()

    def spawn(self):
        self.p = subprocess.Popen(self.args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        PROCS.append(self.p)
        self.born = time.monotonic()
        self.fd = self.p.stdout.fileno()
        fcntl.fcntl(self.fd, fcntl.F_SETFL, os.O_NONBLOCK)
        self.text, self.found, self.acked, self.acks, self.ended = b"", None, None, 0, False

    def read(self, timeout):
        """Read the probe's output, and wait for some if there is none. Returns False at its end."""
        if not select.select([self.fd], [], [], timeout)[0]:
            return True
        try:
            piece = os.read(self.fd, 65536)
        except BlockingIOError:
            return True
        if not piece:
            self.ended = True
            return False
        *lines, self.text = (self.text + piece).split(b"\n")
        for line in lines:
            self.line(line)
        return True

    def line(self, line):
        if line.startswith(b"up "):
            self.found = self.acked = int(line[3:])
        else:
            self.acks += 1
            self.acked = int(line)

    def wait(self, cond, timeout=20):
        end = time.monotonic() + timeout
        while not cond():
            if not self.read(0.02) or time.monotonic() > end:
                raise AssertionError("commit_probe: " + ("ended: " + self.said() if self.ended else "nothing happens"))

    def connected(self):
        """Wait until the probe has reported the content of the medium."""
        for tries in range(5):
            try:
                return self.wait(lambda: self.found is not None)
            except AssertionError as e:
                # A memif server needs a moment to drop a client that was killed.
                if tries == 4 or "cannot be opened" not in str(e):
                    raise
            time.sleep(0.1)
            self.spawn()

    def said(self):
        return self.p.communicate(timeout=10)[1].decode().strip()

    def drain(self):
        """Read all output until the probe ends, within 20 s. The kernel alone decides when a killed process has ended:
        while it is ending, wait for it and report that. (A thread in close() or bind() of its port waits for an RCU
        grace period, which can take seconds on a busy computer.)"""
        begin, told, wrong = time.monotonic(), 20, 0
        while self.read(0.5):
            late, threads = time.monotonic() - begin, self.threads()
            # The probe may end between the two checks.
            wrong = wrong + 1 if late > 1 and not threads or late > 20 and not all(t.dying for t in threads) else 0
            assert wrong < 3, f"it does not end in {late:.0f} s: {threads}, its pipe is held by {holders(self.fd)}"
            assert late < KERNEL_S, f"behind SIGKILL the kernel does not end it: {threads}; {machine()}"
            if late > told and not wrong:
                print(f"# {late:.0f} s behind SIGKILL the kernel has not ended {self.p.pid}: {threads}; {machine()}", flush=True)
                told = KERNEL_S
        if told > 20:
            print(f"# it has ended {time.monotonic() - begin:.0f} s behind SIGKILL; {machine()}", flush=True)

    def threads(self):
        """The threads that have not ended."""
        try:
            return [t for t in map(Thread, glob.glob(f"/proc/{self.p.pid}/task/*")) if t.state not in "ZX"]
        except FileNotFoundError:
            return self.threads()  # a thread ended during the listing

    def kill(self):
        self.p.kill()

    def gone(self):
        """After a kill: read the remaining output."""
        self.drain()
        self.p.wait()
        self.p.stdout.close()
        self.p.stderr.close()

    def bereaved(self):
        """After the kill of its target: the probe ends by itself if it was connected. Otherwise kill it."""
        if self.found is None:
            self.kill()
            return self.gone()
        self.drain()
        err = self.said()
        if self.p.returncode != 1 or err not in ("commit_probe: the link is down", "commit_probe: disconnected"):
            raise Lost(f"commit_probe ended with {self.p.returncode}: {err}")
        return None


def word_off(medium):
    """Offset of commit_probe's word: the first octets of the data of slot 0."""
    with open(medium, "rb") as f:
        return struct.unpack_from(">Q", f.read(PAGE), 32)[0] + PAGE


def read_word(medium):
    with open(medium, "rb", buffering=0) as f:
        return int.from_bytes(os.pread(f.fileno(), 8, word_off(medium)), "big")


def record_good(fd, base, n):
    rec = os.pread(fd, PAGE, base + (1 + n % RING) * PAGE)
    return int.from_bytes(rec[:8], "big") == n and hashlib.sha256(rec[:-32]).digest() == rec[-32:]


def check_medium(medium, acked, begun, margin=DEPTH_MAX):
    """Check that the medium holds a prefix that includes `acked` and has at most `begun`. Returns its last number, and
    whether the next record is on the medium. margin: number of later records that may have been begun in the oldest
    pages."""
    base = word_off(medium)
    with open(medium, "rb", buffering=0) as f:
        fd = f.fileno()
        word = int.from_bytes(os.pread(fd, 8, base), "big")
        if word < acked:
            raise Lost(f"{acked} was acknowledged, the medium ends with {word}")
        if word > begun:
            raise Lost(f"the word is {word:#x}, {begun} was the last to be begun")
        for n in range(max(1, word - RING + 1 + margin), word + 1):
            if not record_good(fd, base, n):
                raise Lost(f"the medium ends with {word}, but record {n} is not whole")
        return word, record_good(fd, base, word + 1)


class Writer:
    """The initiators of one export, one after the other, on two ports in turn."""

    MOMENTS = ["acks"] * 4 + ["time"] * 4 + ["birth"]

    def __init__(self, rnd, t, export, medium, ports, seen, verify=True):
        self.rnd, self.t, self.export, self.medium, self.ports, self.seen = rnd, t, export, medium, ports, seen
        self.verify = verify
        self.birth_s = 0.2  # start-up time of an initiator, updated below
        self.probe, self.which, self.addr, self.last = None, 0, 1, 0

    def new_probe(self, kill_in=0):
        self.which ^= 1
        self.addr = self.addr % 200 + 2
        return Probe(self.t, self.ports[self.which], self.addr, self.rnd.choice((1, 2, 4, 8, 16)), self.verify, kill_in, self.export)

    def is_up(self, p):
        """The initiator has connected. The content that it found must include everything acknowledged before."""
        p.connected()
        self.birth_s = time.monotonic() - p.born
        if p.found < self.last:
            raise Lost(f"{self.last} was acknowledged or found before, now {p.found} is found")

    def moment(self, p):
        """Let the initiator run for a random time."""
        how = self.rnd.choice(self.MOMENTS)
        if how == "birth" and p.found is None:
            self.seen["birth"] += 1
            time.sleep(self.rnd.uniform(0, self.birth_s))
            p.read(0)
            return
        self.is_up(p)
        if how == "time":
            end = time.monotonic() + self.rnd.uniform(0, 0.12)
            while (left := end - time.monotonic()) > 0:
                p.read(left)
            return
        want = p.acks + self.rnd.choice((0, 1, 2, self.rnd.randrange(500)))
        p.wait(lambda: p.acks >= want)
        # a fraction of a transaction's time after an acknowledgement
        end = time.monotonic() + self.rnd.uniform(0, 0.0006)
        while time.monotonic() < end:
            pass

    def judge(self, p, others=False):
        """Check the medium after the end of p. others: the next writer may have begun."""
        acked = max(self.last, p.acked or 0)
        self.last = acked
        self.seen["commits"] += p.acks
        if others:
            word = read_word(self.medium)
            if word < acked:
                raise Lost(f"{acked} was acknowledged, the medium ends with {word}")
            return
        # An initiator that did not report the content has begun nothing. Only the one before it has.
        begun = acked + DEPTH_MAX if p.found is None else p.acked + p.depth
        alive = self.t.proc.poll() is None
        word, more = check_medium(self.medium, acked, begun, (2 if alive else 1) * DEPTH_MAX)
        self.seen["ahead"] += word > acked
        self.seen["record only"] += more
        if not alive:
            self.last = word  # the word that is on the medium now stays

    def finish(self):
        """Check with one more initiator what the last one left."""
        if self.probe:
            self.probe.kill()
            self.probe.gone()
            self.judge(self.probe)
        p, self.probe = self.new_probe(), None
        self.is_up(p)
        p.wait(lambda: p.acks >= 10)
        p.kill()
        p.gone()
        self.judge(p)


class Run(Writer, Rounds):
    """Rounds of one target and its initiators, killed one after the other."""

    KINDS = ["target"] * 8 + ["initiator"] * 3 + ["takeover"] * 3 + ["both"] * 3 + ["recovery"] * 3

    def __init__(self, name, seed, exe=None, verify=True):
        medium = path(name + ".exp")
        t = Target(name, {"demo": {"path": medium, "size": "4M", "persist": "file"}}, ports=2, keepalive_ms=100, exe=exe)
        seen = {k: 0 for k in ("commits", "ahead", "record only", "birth", "at once", *self.KINDS)}
        super().__init__(random.Random(seed), t, "demo", medium, (0, 1), seen, verify)
        t0 = time.monotonic()
        self.t.start()
        self.start_s = time.monotonic() - t0
        self.mechanism = file_mechanism(self.t)

    def round(self):
        kind = self.rnd.choice(self.KINDS)
        self.seen[kind] += 1
        kill_in = 0
        if self.probe is None and kind in ("target", "recovery") and self.rnd.random() < 0.4:
            kill_in = self.rnd.choice((1, 2, self.rnd.randrange(1, 500)))
        p = self.probe or self.new_probe(kill_in)
        self.probe = None
        if kind == "takeover":
            self.is_up(p)
            second = self.new_probe()
            self.moment(p)
            p.kill()
            p.gone()
            self.judge(p, others=True)
            self.is_up(second)
            self.probe = second
        elif kind == "initiator":
            self.moment(p)
            p.kill()
            p.gone()
            self.judge(p)
        else:
            self.kill_target(p, kind)
            self.judge(p)
            if kind == "recovery":
                self.t.spawn()
                time.sleep(self.rnd.uniform(0, self.start_s * 1.2))
                self.t.kill()
                check_medium(self.medium, self.last, self.last)
            self.t.start()

    def kill_target(self, p, kind):
        if p.kill_in:
            self.seen["at once"] += 1
            self.is_up(p)
            p.bereaved()
            self.t.proc.wait(timeout=10)
            return
        self.moment(p)
        if kind != "both":
            self.t.kill()
            p.bereaved()
            return
        first, second = self.rnd.sample((p.p, self.t.proc), 2)
        first.kill()
        time.sleep(self.rnd.choice((0, self.rnd.uniform(0, 0.002))))
        second.kill()
        p.gone()
        self.t.proc.wait()

    def end(self):
        self.finish()
        assert "DAMAGED" not in self.t.logged(), self.t.logged()
        assert self.t.term() == 0

    def said(self):
        s = self.seen
        return (f"{s['commits']} commits acknowledged; killed: target {s['target']}, initiator {s['initiator']}, with a writer "
                f"waiting {s['takeover']}, both {s['both']}, again while starting {s['recovery']}; before the first commit "
                f"{s['birth']}, at the moment of an acknowledgement {s['at once']}; the medium was ahead of the "
                f"acknowledgement {s['ahead']}, had a record without its commit {s['record only']}")


def eal_folders():
    return set(os.listdir("/run/dpdk")) if os.path.isdir("/run/dpdk") else set()


BEFORE = eal_folders()  # folders of other processes that had the same process id


def nothing_left():
    """Check that no socket and no process of the test remains. The folder is removed at exit."""
    with open("/proc/net/unix") as f:
        left = [line for line in f if TMP in line]
    assert not left, f"sockets left: {left}"
    alive = [p.args[0] for p in PROCS if p.poll() is None]
    assert not alive, f"processes left: {alive}"
    pids = {str(p.pid) for p in PROCS}
    end_all()
    left = [d for d in eal_folders() - BEFORE if d.removeprefix("weft-") in pids]
    assert not left, f"left in /run/dpdk: {left}"


def test_transactions():
    """100 kills among thousands of transactions of 4 KiB: no acknowledged one is lost, and none is incomplete."""
    n = rounds(100)
    run = Run("kt", SEED)
    run.survive(n)
    # The kills hit the interesting moments.
    assert n < 100 or (run.seen["ahead"] and run.seen["record only"] and run.seen["commits"] > 10 * n), run.said()
    nothing_left()


def caught(within, verify):
    """The message that detects a target without Flush."""
    run = Run(f"kb-{verify}", SEED, exe=BROKEN, verify=verify)
    return run.caught(within, f", {'with' if verify else 'without'} Verify", stuck=True)


def test_transactions_without_flush():
    """A target whose Flush does nothing is detected: with Verify at once, without Verify by the data that a kill takes
    away."""
    assert "hash mismatch" in caught(5, verify=True)
    assert "was acknowledged, the medium ends with" in caught(10, verify=False)


# ---- Objects: weft-cp ----

OBJECTS = 8  # different contents, of different sizes


def crc32c_table():
    out = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82f63b78 if i & 1 else 0)
        out.append(i)
    return out


TABLE = crc32c_table()


def crc32c(data):
    c = 0xffffffff
    for b in data:
        c = TABLE[(c ^ b) & 0xff] ^ c >> 8
    return c ^ 0xffffffff


def object_on(medium):
    """(generation, content), computed from docs/export-format.md alone. (0, None) if there was never an object."""
    with open(medium, "rb") as f:
        page = f.read(2 * PAGE)
        word = int.from_bytes(page[PAGE:PAGE + 8], "big")
        if word >> 1 == 0:
            return 0, None
        f.seek(struct.unpack_from(">Q", page, 32 + 8 * (word & 1))[0])
        head = f.read(PAGE)
        magic, _, _, generation, length = struct.unpack_from(">8sIIQQ", head)
        if magic != b"WEFTSLOT" or crc32c(head[:-4]) != int.from_bytes(head[-4:], "big"):
            raise Lost(f"generation {word >> 1}: the header of slot {word & 1} is damaged")
        if generation != word >> 1:
            raise Lost(f"the word says generation {word >> 1}, slot {word & 1} holds {generation}")
        return generation, f.read(length)


class Copies(Rounds):
    """A target, and one weft-cp after the other."""

    def __init__(self, name, seed, exe=None, args=()):
        self.rnd, self.args = random.Random(seed), list(args)
        self.medium = path(name + ".exp")
        self.t = Target(name, {"demo": {"path": self.medium, "size": "6M", "persist": "file"}}, ports=2, keepalive_ms=100,
                        exe=exe)
        self.t.start()
        self.mechanism = file_mechanism(self.t)
        self.files = [make_file(f"{name}.{i}", self.rnd.choice((1, 5000, 300_000, 1_500_000, 2_000_000)) + i, seed + i)
                      for i in range(OBJECTS)]
        self.content = []
        for f in self.files:
            with open(f, "rb") as h:
                self.content.append(h.read())
        self.states = {(None, 0)}  # what the export may hold: (index, generation)
        self.port, self.push_s = 0, 0.5
        self.seen = {"acknowledged": 0, "new all the same": 0, "old": 0}

    def start(self, which):
        self.port ^= 1
        return self.t.cp_start(self.files[which], f"weft://10.0.{self.port}.1/demo", port=self.port,
                               addr=self.rnd.randrange(2, 250), args=["--quiet", "--wait", "10", *self.args])

    def progress(self, p, which):
        """Wait until a random part of the object is on the medium, and a little more. Most of a push's time is program
        start."""
        new = self.content[which]
        off = max(0, min(int(len(new) * self.rnd.choice((0, self.rnd.random(), 1))), len(new) - 16))
        with open(self.medium, "rb", buffering=0) as f:
            slots = struct.unpack_from(">QQ", os.pread(f.fileno(), PAGE, 0), 32)
            while p.poll() is None and not any(os.pread(f.fileno(), 16, at + PAGE + off)[:len(new)] == new[off:off + 16]
                                               for at in slots):
                time.sleep(0.0002)
        time.sleep(self.rnd.choice((0, self.rnd.uniform(0, 0.002))))

    def judge(self, *pushes):
        """Check the export after the pushes, each (weft-cp, index), some of which were killed."""
        done = []
        for p, _ in pushes:
            _, err = p.communicate(timeout=60)
            done.append(p.returncode == 0)
            if p.returncode not in (0, *FAILED, -9) or (p.returncode in FAILED and err.strip().count("\n") != 0):
                raise Lost(f"weft-cp ended with {p.returncode}: {err}")
        # Each push may have been granted the export first or later. A push that was not acknowledged may still be
        # complete.
        possible = set()
        for order in itertools.permutations(range(len(pushes))):
            states = self.states
            for i in order:
                new = {(pushes[i][1], generation + 1) for _, generation in states}
                states = new if done[i] else states | new
            possible |= states
        generation, content = object_on(self.medium)
        now = None if content is None else next((i for i, c in enumerate(self.content) if c == content), -1)
        if (now, generation) not in possible:
            raise Lost(f"{'a push was acknowledged' if any(done) else 'nothing was acknowledged'}, the medium holds object {now} "
                       f"in generation {generation}; possible: {sorted(possible, key=str)}")
        self.seen["acknowledged" if all(done) else "new all the same" if (now, generation) not in self.states else "old"] += 1
        # Data of a killed initiator may still be on the way to the medium of a running target.
        later = {s for s in possible if s[1] > generation} if self.t.proc.poll() is None and not all(done) else set()
        self.states = {(now, generation)} | later

    def round(self):
        held = {now for now, _ in self.states}
        which, then = self.rnd.sample([i for i in range(OBJECTS) if i not in held], 2)
        kind = self.rnd.choice(("target", "target", "initiator", "both", "takeover", "none"))
        t0 = time.monotonic()
        p = self.start(which)
        if kind == "none":
            p.wait(timeout=60)
            self.push_s = time.monotonic() - t0
            return self.judge((p, which))
        if self.rnd.random() < 0.3:
            time.sleep(self.push_s * self.rnd.uniform(0, 1))
        else:
            self.progress(p, which)
        if kind == "initiator":
            p.kill()
            return self.judge((p, which))
        if kind == "takeover":
            second = self.start(then)
            time.sleep(self.rnd.uniform(0, self.push_s))
            p.kill()
            return self.judge((p, which), (second, then))
        self.t.proc.kill()
        if kind == "both":
            p.kill()
        self.t.kill()
        self.judge((p, which))
        self.t.start()
        (_, generation), = self.states
        log = self.t.logged()
        if (f"generation {generation}, " if generation else "empty") not in log or "DAMAGED" in log:
            raise Lost(f"the target has found: {log}")
        return None

    def said(self):
        return self.seen


def test_objects():
    """weft-cp: the export has the old or the new object, complete, and the new one if the push was acknowledged."""
    n = rounds(25)
    run = Copies("ko", SEED)
    run.survive(n)
    src = make_file("ko.last", 100_000, 1)
    run.t.push(src, "demo")
    with open(src, "rb") as f, open(run.t.pull("demo", "ko.out"), "rb") as g:
        assert f.read() == g.read()
    assert run.t.term() == 0
    nothing_left()


def test_objects_without_flush():
    run = Copies("kf", SEED, exe=BROKEN, args=["--no-verify"])
    lost = run.caught(10)
    assert "was acknowledged, the medium holds object None" in lost, lost


if __name__ == "__main__":
    main([test_transactions, test_transactions_without_flush, test_objects, test_objects_without_flush])
