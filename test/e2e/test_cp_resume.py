#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-cp that is interrupted and goes on: --resume after a kill -9 of either side or a silent network, and --retries.

test_cp_resume.py BUILD [CASE...]. WEFT_TEST_SEED=N repeats the choices, WEFT_KILL_ROUNDS=N is the number of draws.
"""
import json
import os
import random
import signal
import time

from cp_runs import BLOCK, EXPORTS, MIB, await_link, await_moved, await_taken, copy, octets, server, spawn, url, whole
from kill_rounds import SEED, rounds
from weft_e2e import PROCS, Target, main, make_file, path, sha

PAGE = 4096
SLOTS = (32, 40)  # where the first page of an object's export says where its slots are (docs/export-format.md)


class Draw:
    """A transfer that is interrupted at a drawn moment, and what it left."""

    def __init__(self, t, n):
        self.rng = random.Random(f"{SEED}.{n}")
        self.t = t
        self.export = self.rng.choice(EXPORTS)
        self.push = self.rng.random() < 0.6
        self.victim = self.rng.choice(("client", "target", "network"))
        self.way = ("--pull",) if self.push and self.rng.random() < 0.3 else ()
        self.restart = self.victim == "target" or self.rng.random() < 0.7
        self.size = self.rng.randrange(3 * MIB, 6 * MIB)
        self.src = make_file("rs.src", self.size, SEED + n)
        self.out = path("rs.out")
        self.part = path(".rs.out.weft-cp.part")

    def __repr__(self):
        return f"seed {SEED}: {self.export} {'push' if self.push else 'pull'} {self.way} of {self.size}, {self.victim}, {self.restart}"

    def args(self):
        if self.push:
            return (*self.way, self.src, url(self.export))
        length = ("--length", str(self.size)) if self.export == "disk" else ()
        return (*length, url(self.export), self.out)

    def interrupt(self):
        """Begin, and stop one side in the middle. The statuses of a client that was not killed itself."""
        t = self.t
        rate = self.size / 1.0
        p = spawn(t, "-q", "--resume", "--timeout", "1", "--rate", str(int(rate)), *self.args())
        # From before the first octet to after the last one. A target that hangs before there is a link holds up DPDK's own
        # connect() to its memif, which --timeout does not end: that is not of these draws.
        octets = int(self.rng.uniform(-0.1, 1.1) * self.size)
        if self.victim == "network":
            await_link(p)
        await_moved(p, octets, self.src, None if self.push else self.part)
        time.sleep(self.rng.uniform(0, 0.05))
        if self.victim == "client":
            p.kill()
        elif self.victim == "target":
            t.kill()
        else:
            t.proc.send_signal(signal.SIGSTOP)
        err = p.communicate(timeout=20)[1].decode()
        done = p.returncode == 0
        assert done or p.returncode == {"client": -signal.SIGKILL}.get(self.victim, 5), (self, p.returncode, err)
        if self.victim == "network":
            t.proc.send_signal(signal.SIGCONT)
        return done

    def word(self):
        """The commit word of an object's export; a volume has none."""
        if self.export == "disk":
            return 0
        with open(path("rs.demo"), "rb") as f:
            f.seek(PAGE)
            return int.from_bytes(f.read(8), "big")

    def data_at(self):
        """Where the medium has the data of a push: behind the volume's superblock; in the slot that the commit word does not name."""
        if self.export == "disk":
            return MIB
        with open(path("rs.demo"), "rb") as f:
            head = f.read(PAGE)
        word = self.word()
        at = SLOTS[0 if word == 0 else 1 - word % 2]
        return int.from_bytes(head[at:at + 8], "big") + PAGE

    def medium(self):
        with open(path(f"rs.{self.export}"), "rb") as f:
            f.seek(self.data_at())
            return f.read(self.size)

    def damage(self, file, at, length):
        """Change an octet of a block that is there."""
        if length == 0:
            return
        with open(file, "r+b") as f:
            f.seek(at + self.rng.randrange(length))
            octet = f.read(1)
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([octet[0] ^ 0x20]))

    def equal(self, there):
        """Octets of the blocks of weft-cp that are the source's."""
        data = octets(self.src)
        cuts = [*range(0, self.size, BLOCK), self.size]
        if self.push and self.export == "disk" and not self.way:
            cuts.append(self.size - self.size % PAGE)  # a window has whole pages
        cuts = sorted(set(cuts))
        return sum(b - a for a, b in zip(cuts, cuts[1:]) if data[a:b] == there[a:b])

    def have(self):
        """Octets of whole blocks at the beginning that the interrupted transfer has left where they belong."""
        data, there = octets(self.src), self.medium() if self.push else octets(self.part) if os.path.exists(self.part) else b""
        n = 0
        while n < self.size and data[n:n + BLOCK] == there[n:n + BLOCK]:
            n += BLOCK
        return min(n, self.size)

    def play(self):
        t = self.t
        if not self.push:
            copy(t, "-q", self.src, url(self.export))
        else:
            copy(t, "-q", make_file("rs.old", self.size, SEED - 1), url(self.export))
        word = self.word()
        done = self.interrupt()
        if done and not self.push:
            os.unlink(self.out)
            if self.victim == "target":
                t.start()
            return 0
        want = None
        if not self.push:
            self.damage(self.part, 0, self.have())
            want = self.equal(octets(self.part)) if os.path.exists(self.part) else 0
        if self.restart:
            # The medium is looked at, and damaged, while no target has it open.
            t.kill()
            # A client that was killed may have committed, and not have ended yet.
            if self.push and (done or self.word() != word):
                want = self.size
            elif self.push:
                self.damage(path(f"rs.{self.export}"), self.data_at(), self.have())
                want = self.equal(self.medium())
            t.start()
        report = json.loads(copy(t, "--json", "--resume", *self.args())[1])
        assert report["bytes"] == self.size, (self, report)
        # A target that goes on may have more in its memory than on its medium.
        assert want is None or report["resumed_bytes"] == want, (self, report["resumed_bytes"], want, done)
        got = whole(t, self.export, self.size) if self.push else self.out
        assert sha(got) == sha(self.src), self
        assert not os.path.exists(self.part), self
        if not self.push:
            os.unlink(self.out)
        return 0 if done else report["resumed_bytes"]


def test_resume():
    """Kill -9 or silence at a drawn moment, a block damaged meanwhile; --resume moves exactly the blocks that are not there."""
    t = server("rs")
    n = rounds(5)
    kept = interrupted = 0
    for i in range(n):
        try:
            got = Draw(t, i).play()
        except BaseException:
            print(f"# seed {SEED}, draw {i}", flush=True)
            raise
        kept += got
        interrupted += got > 0
        PROCS[:] = [p for p in PROCS if p.poll() is None]
    print(f"# seed {SEED}: {n} draws, {interrupted} had something to resume: {kept / MIB:.1f} MiB were not moved again", flush=True)
    assert interrupted >= n // 4, "hardly any draw was interrupted in the middle"


def test_resume_twice():
    """--resume of what is there already commits nothing; a push of another file with the same name and time is no match."""
    t = server("rt")
    f = make_file("rt.src", 2 * MIB, 3)
    for export in EXPORTS:
        copy(t, f, url(export))
        report = json.loads(copy(t, "--json", "--resume", f, url(export))[1])
        assert report["resumed_bytes"] == 2 * MIB and report.get("generation", 1) == 1, report
    for n, way in enumerate(((), ("--pull",))):
        when = os.stat(f)
        with open(f, "r+b") as o:
            o.seek(MIB)
            o.write(b"other%d" % n)
        os.utime(f, ns=(when.st_atime_ns, when.st_mtime_ns))
        for export in EXPORTS:
            # The slot that the push takes has what was pushed before the last time.
            there = 2 * MIB - BLOCK if n or export == "disk" else 0
            report = json.loads(copy(t, "--json", *way, "--resume", f, url(export))[1])
            assert report["resumed_bytes"] == there, (way, export, report)
            assert sha(whole(t, export, 2 * MIB)) == sha(f)
            # A pipe that brings the same again
            there = 2 * MIB - BLOCK if export == "demo" else 2 * MIB
            report = json.loads(copy(t, "--json", *way, "--resume", "-", url(export), stdin=octets(f))[1])
            assert report["resumed_bytes"] == there, (way, export, report)


def test_memory_and_medium():
    """What the medium has and the target's memory has not is not there: the memory goes to the medium later."""
    t = server("mm")
    want = make_file("mm.want", 2 * MIB, 5)
    copy(t, want, url("demo"))
    copy(t, make_file("mm.two", MIB, 6), url("demo"))
    # In the memory of the first slot alone
    copy(t, "--pull", "--no-flush", "--no-verify", make_file("mm.three", 2 * MIB, 7), url("demo"))
    copy(t, path("mm.two"), url("demo"))
    report = json.loads(copy(t, "--json", "--resume", want, url("demo"))[1])
    assert report["resumed_bytes"] == 0 and report["slot"] == 0, report
    assert sha(whole(t, "demo", 2 * MIB)) == sha(want)


def test_header_medium():
    """An object that is in the target's memory alone is there only when its header is on the medium, too: the target may be killed."""
    t = server("hm")
    want = make_file("hm.want", 2 * MIB, 8)
    copy(t, "--pull", "--no-flush", "--no-verify", want, url("demo"))
    copy(t, "--resume", want, url("demo"))
    t.kill()
    t.start()
    assert sha(whole(t, "demo", 2 * MIB)) == sha(want)


def test_partial_file():
    """The partial file of a pull: of one weft-cp at a time, without a trace at the end, of no use without --resume."""
    t = server("pf")
    f = make_file("pf.src", 2 * MIB, 4)
    part = path(".pf.out.weft-cp.part")
    for export in EXPORTS:
        copy(t, f, url(export))
        length = ("--length", "2M") if export == "disk" else ()
        with open(part, "wb") as o:
            o.write(b"x" * MIB + octets(f)[MIB:] + b"too long")
        copy(t, *length, url(export), path("pf.out"))
        assert os.path.getsize(part) == 2 * MIB + 8 and sha(path("pf.out")) == sha(f)
        report = json.loads(copy(t, "--json", "--resume", *length, url(export), path("pf.out"))[1])
        assert report["resumed_bytes"] == MIB and sha(path("pf.out")) == sha(f) and not os.path.exists(part), report
    # The file that is replaced may not be written to: the partial file may.
    os.chmod(path("pf.out"), 0o440)
    p = spawn(t, "--resume", "--block", "64K", "--rate", "256K", url("demo"), path("pf.out"))
    while not os.path.exists(part):
        time.sleep(0.02)
    assert "another weft-cp writes its partial file" in copy(t, "--resume", url("demo"), path("pf.out"), status=6)[2]
    await_moved(p, 200000, None, part)
    p.send_signal(signal.SIGTERM)
    assert p.wait(timeout=10) == 143 and os.path.getsize(part) > 0
    assert os.stat(part).st_mode & 0o777 == 0o640
    # A file of another name or another user is not written to, and stays.
    os.link(part, path("pf.link"))
    assert "has other names" in copy(t, "--resume", url("demo"), path("pf.out"), status=1)[2]
    os.unlink(path("pf.link"))
    if os.geteuid() == 0:
        os.chown(part, 12345, -1)
        assert "belongs to another user" in copy(t, "--resume", url("demo"), path("pf.out"), status=1)[2]
        os.chown(part, 0, -1)
    assert os.path.getsize(part) > 0
    assert "no/folder" in copy(t, "--resume", url("demo"), path("no/folder/out"), status=1)[2]
    # A hole of the volume where the partial file has data
    with open(path("pf.hole"), "wb") as o:
        o.truncate(2 * MIB)
    copy(t, path("pf.hole"), url("disk"))
    with open(part, "wb") as o:
        o.write(octets(f))
    copy(t, "--resume", "--length", "2M", url("disk"), path("pf.out"))
    assert octets(path("pf.out")) == bytes(2 * MIB) and os.stat(path("pf.out")).st_mode & 0o7777 == 0o440


def test_rights():
    """An export without flush, or without verify: a pull is resumed with what is granted."""
    t = server("ri")
    f = make_file("ri.src", 2 * MIB, 9)
    copy(t, f, url("demo"))
    for rights, there in (("read,flush,verify", MIB), ("read,verify", MIB), ("read,flush", 0), ("read", 0)):
        t.term()
        t = Target("ri", {"demo": {"path": path("ri.demo"), "size": "33M", "rights": rights}}).start()
        with open(path(".ri.out.weft-cp.part"), "wb") as o:
            o.write(octets(f)[:MIB])
        report = json.loads(copy(t, "--json", "--resume", url("demo"), path("ri.out"))[1])
        assert report["resumed_bytes"] == there and sha(path("ri.out")) == sha(f), (rights, report)
    t.term()
    # A volume. A pull holds no right that it does not use: the operator takes write away, and nothing is revoked.
    keys = {"path": path("rv.disk"), "size": "33M", "format": "volume", "rights": "read,write,flush,verify"}
    for rights, there in (("read,write,verify", MIB), ("read,write", 0)):
        t = Target("rv", {"disk": keys}).start()
        copy(t, f, url("disk"))
        t.term()
        with open(t.conf) as c:
            text = c.read()
        with open(t.conf, "w") as c:
            c.write(text.replace("read,write,flush,verify", rights))
        t.start()
        with open(path(".rv.out.weft-cp.part"), "wb") as o:
            o.write(octets(f)[:MIB])
        p = spawn(t, "--json", "--resume", "--rate", "1M", "--length", "2M", url("disk"), path("rv.out"))
        time.sleep(0.5)
        with open(t.conf, "w") as c:
            c.write(text.replace("read,write,flush,verify", rights.replace("write,", "").replace(",write", "")))
        t.proc.send_signal(signal.SIGHUP)
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0, err
        assert json.loads(out)["resumed_bytes"] == there and sha(path("rv.out")) == sha(f), (rights, out)
        assert "keeps" not in t.logged() and "revoked" not in t.logged() and "export disk: grants" in t.logged(), t.logged()
        assert t.term() == 0


def test_retries():
    """A target that is killed, or ended in order, and started again during a copy: weft-cp ends with success, and the sums are equal."""
    t = server("re")
    f = make_file("re.src", 6 * MIB, 5)
    part = path(".re.out.weft-cp.part")
    for export, ways in zip(EXPORTS, (("push", "pull"), ("push", "fetch", "pull"))):
        length = ("--length", "6M") if export == "disk" else ()
        for way in ways:
            args = (*length, url(export), path("re.out")) if way == "pull" else \
                (*(("--pull",) if way == "fetch" else ()), f, url(export))
            if way != "pull":
                copy(t, "-q", make_file("re.old", 6 * MIB, 6), url(export))
            p = spawn(t, "--json", "--retries", "9", "--retry-wait", "0.2", "--timeout", "2", "--rate", "6M", *args)
            await_moved(p, 3 * MIB, f, part if way == "pull" else None)
            if way == "pull":
                assert t.term() == 0
            else:
                t.kill()
            time.sleep(0.5)
            t.start()
            out, err = p.communicate(timeout=60)
            assert p.returncode == 0, (export, way, err)
            report = json.loads(out)
            assert report["resumed_bytes"] > 0 and b"again in" in err, (export, way, err, report)
            assert sha(path("re.out") if way == "pull" else whole(t, export, 6 * MIB)) == sha(f), (export, way)


def test_retries_keyed():
    """A pull without the key of the export's hash: --retries reads all again, --resume needs the key."""
    key = path("rk.key")
    with open(key, "w") as o:
        o.write("a key that is long enough for this export\n")
    os.chmod(key, 0o600)
    keyed = {"hash": "hmac-sha256", "hash_key_file": key}
    t = Target("rk", {"demo": {"path": path("rk.demo"), "size": "9M", **keyed},
                      "disk": {"path": path("rk.disk"), "size": "4M", "format": "volume", **keyed}}).start()
    f = make_file("rk.src", 3 * MIB, 8)
    part = path(".rk.out.weft-cp.part")
    for export in EXPORTS:
        copy(t, "-q", "--hash-key", key, f, url(export))
        args = (*(("--length", "3M") if export == "disk" else ()), url(export), path("rk.out"))
        p = spawn(t, "--json", "--retries", "9", "--retry-wait", "0.2", "--timeout", "2", "--rate", "6M", *args)
        await_moved(p, MIB, None, part)
        t.kill()
        t.start()
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0 and b"again in" in err, (export, p.returncode, err)
        assert json.loads(out)["resumed_bytes"] == 0 and sha(path("rk.out")) == sha(f), (export, out)
        with open(part, "wb") as o:
            o.write(octets(f)[:MIB])
        assert "give its key with --hash-key" in copy(t, "--resume", *args, status=1)[2]
        report = json.loads(copy(t, "--json", "--resume", "--hash-key", key, *args)[1])
        assert report["resumed_bytes"] == MIB and sha(path("rk.out")) == sha(f), (export, report)


def test_retries_end():
    """The waits grow, the retries end, a failure that stays is not tried again, and a pipe is read once."""
    t = server("rn")
    f = make_file("rn.src", MIB, 7)
    err = copy(t, "--retries", "3", f, url("none"), status=1)[2]
    assert err.count("\n") == 1, err
    t.kill()
    began = time.monotonic()
    err = copy(t, "--retries", "3", "--retry-wait", "0.2", f, url("demo"), status=5)[2]
    assert err.count("again in") == 3 and err.count("\n") == 4 and "no retry is left" in err, err
    assert time.monotonic() - began >= 0.75 * (0.2 + 0.4 + 0.8)
    t.start()
    p = spawn(t, "--retries", "3", "--retry-wait", "0.1", "-", url("demo"), stdin=-1)
    p.stdin.write(b"octets")
    p.stdin.flush()
    await_taken(p)
    t.kill()
    p.stdin.close()
    p.stdin = None
    err = p.communicate(timeout=20)[1].decode()
    assert p.returncode == 5 and err.count("\n") == 1 and "a pipe was read or written" in err, (p.returncode, err)


if __name__ == "__main__":
    main([fn for name, fn in list(globals().items()) if name.startswith("test_")])
