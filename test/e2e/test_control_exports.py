#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Exports that are made and changed while others are served, and kept over a restart and over a kill at any step."""
import json
import os
import random
import shutil
import subprocess
import threading
import time

from test_control import Controlled, objects, request
from weft_e2e import BUILD, PROCS, app, main, make_file, memif, path, run, sha

MIB = 1 << 20
SEED = int(os.environ.get("WEFT_TEST_SEED", "0")) or random.randrange(1, 1 << 30)
ROUNDS = int(os.environ.get("WEFT_KILL_ROUNDS", "12"))
SHIM = os.path.join(BUILD, "test", "e2e", "libkill_at.so")


def stateful(name, exports=None, **kw):
    """A target with a state directory, and perhaps exports of its configuration."""
    os.mkdir(path(f"{name}.state"))
    return Controlled(name, exports or {}, extra=f"state = {path(name + '.state')}\n{kw.pop('extra', '')}", **kw)


def state_of(t, *names):
    """What a restart has to keep, by name."""
    rows = [r for r in t.ctl("exports")["exports"] if not names or r["name"] in names]
    return {r["name"]: tuple(r[k] for k in ("state", "format", "configured", "place", "capacity_bytes", "access", "limits")) for r in rows}


def object_capacity(size):
    """docs/export-format.md"""
    return (size - 8192) // 2 // 4096 * 4096 - 4096


def restart(t):
    assert t.term() == 0, t.logged()
    t.start()


def test_life():
    """Without an export in the file: one is made, pushed to, renamed, limited, taken offline, deleted, found again."""
    t = stateful("li").start()
    src = make_file("li.src", 300000, 1)
    assert t.ctl("exports")["exports"] == []
    for changed in (True, False):
        assert t.ctl("export", "create", "a", "size=4M", "path=a.weft") == {"name": "a", "state": "served", "changed": changed}
    t.push(src, "a")
    assert t.ctl("export", "create", "v", "size=16M", "path=v.img", "format=volume")["state"] == "served"
    t.push(src, "v")
    assert t.ctl("export", "create", "r", "size=1M", "persist=volatile")["state"] == "served"
    restart(t)
    assert sha(t.pull("a", "li.out")) == sha(src) and set(state_of(t)) == {"a", "v", "r"}
    t.ctl("export", "rename", "a", "b")
    assert sha(t.pull("b", "li.out")) == sha(src)
    rc, _, err = t.cp("weft://10.0.0.1/a", path("li.none"))
    assert rc == 1 and 'no export "a"' in err, err
    for changed in (True, False):
        assert t.ctl("export", "set", "b", "rights=read,verify")["changed"] == changed
    rc, _, err = t.cp(src, "weft://10.0.0.1/b")
    assert rc == 1 and "only read,verify is granted" in err, err
    t.ctl("export", "set", "b", "rights=read,write,flush,verify", "hash=sha256")
    assert t.row("b")["hash"] == "sha256"
    t.push(src, "b")
    t.ctl("offline", "b")
    before = state_of(t)
    restart(t)
    assert state_of(t) == before and t.row("b")["state"] == "held"
    t.ctl("export", "rename", "b", "c")
    restart(t)
    assert t.row("c")["state"] == "held"
    t.ctl("online", "c")
    restart(t)
    assert sha(t.pull("c", "li.out")) == sha(src)
    assert "confirm is not the name" in t.ctl("export", "delete", "c", "--confirm", "b", ok=2)
    for e in ("c", "v", "r"):
        assert t.ctl("export", "delete", e, "--confirm", e)["state"] == "deleted"
        assert "no export is named" in t.ctl("export", "delete", e, "--confirm", e, ok=5)
    assert t.ctl("exports")["exports"] == []
    # The file is as it was: another export has it.
    t.ctl("export", "create", "d", "path=a.weft")
    assert sha(t.pull("d", "li.out")) == sha(src)
    assert t.term() == 0


def test_resize():
    """An object keeps its content, in whichever slot it is, and so does a volume. What would be lost is refused."""
    t = stateful("rz").start()
    t.ctl("export", "create", "o", "size=1M", "path=o.weft")
    t.ctl("export", "create", "v", "size=8M", "path=v.img", "format=volume")
    t.ctl("export", "create", "s", "size=8M", "path=s.img", "format=volume", "checksums=yes")
    t.ctl("export", "create", "l", "size=8M", "path=l.log", "format=log")
    t.ctl("export", "create", "m", "size=1M", "persist=volatile")
    for pushes in (1, 2, 3):  # the object is in slot 0, then in slot 1, then in slot 0
        src = make_file("rz.src", 300000 + pushes, pushes)
        t.push(src, "o")
        for size in (2 * MIB, 3 * MIB + 4096, 700 * 1024 + pushes, MIB):
            small = size < t.row("o")["capacity_bytes"] * 2
            if small:
                assert "--shrink" in t.ctl("export", "resize", "o", str(size), ok=2)
            for changed in (True, False):
                got = t.ctl("export", "resize", "o", str(size), *(["--shrink"] if small else []))
                assert got == {"name": "o", "state": "served", "changed": changed}, got
            assert t.row("o")["capacity_bytes"] == object_capacity(size) and os.path.getsize(path("rz.state/o.weft")) == size
            assert sha(t.pull("o", "rz.out")) == sha(src), (pushes, size)
    before = state_of(t)
    assert "has room for" in t.ctl("export", "resize", "o", "500K", "--shrink", ok=1)
    assert state_of(t) == before and sha(t.pull("o", "rz.out")) == sha(src)
    t.push(src, "v")
    assert t.ctl("export", "resize", "v", "20M")["changed"] and t.row("v")["capacity_bytes"] == 19 * MIB
    rc, _, err = t.cp(src, "weft://10.0.0.1/v", args=["--offset", str(19 * MIB - 300003)])
    assert rc == 0, err
    t.ctl("export", "resize", "v", "4M", "--shrink")
    assert t.row("v")["capacity_bytes"] == 3 * MIB and os.path.getsize(path("rz.state/v.img")) == 4 * MIB
    rc, _, err = t.cp("weft://10.0.0.1/v", path("rz.out"), args=["--length", "300003"])
    assert rc == 0 and sha(path("rz.out")) == sha(src), err
    before = state_of(t)
    for e in "slm":
        assert "keep their size" in t.ctl("export", "resize", e, "16M", ok=2)
    assert "no export" in t.ctl("export", "resize", "none", "16M", ok=5)
    assert "size" in t.ctl("export", "resize", "o", "16X", ok=2) and "size" in t.ctl("export", "resize", "o", "1", "--shrink", ok=2)
    t.ctl("offline", "o")
    assert "say online" in t.ctl("export", "resize", "o", "2M", ok=6)
    t.ctl("online", "o")
    restart(t)
    assert state_of(t) == before and sha(t.pull("o", "rz.out")) == sha(src)
    # What another size was given to, is not taken for a resize.
    t.ctl("export", "delete", "o", "--confirm", "o")
    assert "leave size out" in t.ctl("export", "create", "o", "size=2M", "path=o.weft", ok=1)
    t.ctl("export", "create", "o", "path=o.weft")
    assert t.ctl("export", "resize", "o", "2M")["changed"] and sha(t.pull("o", "rz.out")) == sha(src)
    assert t.term() == 0


def test_left_among_the_held():
    """A kill in the middle of a delete or a rename leaves a name among the held. An export that gets the name later is
    served after a restart all the same."""
    t = stateful("lh").start()
    t.ctl("export", "create", "b", "size=1M", "path=b.weft")
    t.kill()
    with open(path("lh.state/held"), "w") as f:
        f.write("a\nc\n")
    t.start()
    t.ctl("export", "create", "a", "size=1M", "path=a.weft")
    t.ctl("export", "rename", "b", "c")
    restart(t)
    assert {r["name"]: r["state"] for r in t.ctl("exports")["exports"]} == {"a": "served", "c": "served"}
    assert t.term() == 0


def test_dump():
    """What dump prints makes the same exports at another target, and is the same there."""
    a, b = stateful("da").start(), stateful("db").start()
    a.ctl("export", "create", "o", "size=1M", f"path={path('da.o')}", "rights=read,write", "max_ops_per_s=70")
    a.ctl("export", "create", "v", "size=8M", f"path={path('da.v')}", "format=volume", "allow_from=10.0.0.0/24,fd00::/64")
    text = a.ctl("dump")["exports"]
    rc, out, _ = run([app("weft-ctl"), "-s", a.socket, "dump"])
    assert rc == 0 and out == text and "allow_from = 10.0.0.0/24,fd00::/64" in text, out
    assert a.term() == 0
    for section in text.split("\n\n"):
        head, *keys = section.strip().splitlines()
        b.ctl("export", "create", head[len("[export "):-1], *(k.replace(" = ", "=", 1) for k in keys))
    assert b.ctl("dump")["exports"] == text
    assert b.term() == 0
    none = Controlled("dn", objects("dn", "a")).start()
    assert "state directory" in none.ctl("dump", ok=1)
    assert none.term() == 0


def test_cut_stays_out():
    """A volume made at run time that was cut is not made longer again: by online, a start, or a resize that goes on."""
    t = stateful("cu").start()
    for e in "vw":
        t.ctl("export", "create", e, "size=8M", f"path={e}.img", "format=volume")
    for e, n in (("v", 4 * MIB), ("w", 0)):
        t.ctl("offline", e)
        os.truncate(path(f"cu.state/{e}.img"), n)
        err = t.ctl("online", e, ok=1)
        assert "was cut" in err and "restore it from a backup" in err, err
        assert os.path.getsize(path(f"cu.state/{e}.img")) == n
    os.unlink(path("cu.state/w.img"))
    t.ctl("online", "w")
    assert t.term() == 0
    with open(path("cu.state/exports.ini")) as f:
        table = f.read()
    for size in ("8M", "16M"):
        with open(path("cu.state/exports.ini"), "w") as f:
            f.write("".join(f"size = {size}\n" if x.startswith("size") else x for x in table.splitlines(True)))
        t.start()
        assert t.row("w")["state"] == "served" and os.path.getsize(path("cu.state/w.img")) == int(size[:-1]) * MIB
        err = t.ctl("online", "v", ok=1)
        assert "was cut: it needs 8388608 octets, and has 4194304" in err and "truncate -s 8388608" in err, err
        assert os.path.getsize(path("cu.state/v.img")) == 4 * MIB
        assert t.term() == 0


def test_clients_stay():
    """Pushes and a reader of other exports notice nothing of a hundred changes; slots are used again."""
    t = stateful("cs", objects("cs", "conf"), ports=2).start()
    src, out = make_file("cs.src", 3 * MIB // 2, 2), make_file("cs.small", 1000, 3)
    over, pushes = threading.Event(), []

    def pushing():
        """One push after the other, a second each, until the changes are over, however long they take."""
        while not over.is_set():
            p = t.cp_start(src, "weft://10.0.0.1/conf", args=["--rate", "1500K"])
            _, err = p.communicate(timeout=120)
            pushes.append((p.returncode, err))
    pusher = threading.Thread(target=pushing, daemon=True)
    pusher.start()
    for i in range(34):
        e = f"e{i}"
        t.ctl("export", "create", e, "size=64K", f"path=e{i % 3}.weft")
        if i % 7 == 0:
            t.push(out, e, port=1)
            assert sha(t.pull(e, "cs.out", port=1)) == sha(out)
        t.ctl("export", "rename", e, f"f{i}")
        t.ctl("export", "delete", f"f{i}", "--confirm", f"f{i}")
    for i in range(31):
        t.ctl("export", "create", f"g{i}", "size=64K", f"path=g{i}.weft")
    over.set()
    pusher.join(timeout=150)
    assert pushes and all(rc == 0 for rc, _ in pushes), pushes
    assert sha(t.pull("conf", "cs.out")) == sha(src)
    restart(t)
    assert len(state_of(t)) == 32
    assert t.term() == 0


def test_clients_that_hold():
    """Keys that need another opening wait for the clients; rights apply at once; a deletion ends grants."""
    t = stateful("ch", ports=2, extra="revoke_ms = 300").start()
    t.ctl("export", "create", "a", "size=4M", "path=a.weft")
    held = subprocess.Popen([os.path.join(BUILD, "test", "e2e", "grant_probe"), memif(0, "client", t.sock(1)), "10.0.1.2/24", "10.0.1.1",
                             "a"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    PROCS.append(held)
    assert held.stdout.readline().startswith("granted")
    before = state_of(t)
    assert "clients have 1 grants" in t.ctl("export", "set", "a", "hash=sha256", ok=6)
    assert "clients have 1 grants" in t.ctl("export", "resize", "a", "8M", ok=6)
    t.ctl("export", "rename", "a", "b")
    assert t.row("b")["grants"] == 1 and t.row("b")["hash"] == "crc32c"
    t.ctl("export", "rename", "b", "a")
    assert state_of(t) == before
    t.ctl("export", "delete", "a", "--confirm", "a")
    assert t.ctl("exports")["exports"] == [] and t.ctl("status")["grants"] == 0
    held.kill()
    assert t.term() == 0


def test_refused():
    """What does not fit changes nothing, and one line says where and what to do."""
    os.mkdir(path("rf.dir"))
    t = stateful("rf", objects("rf", "conf")).start()
    foreign = make_file("rf.foreign", 4 * MIB, 5)
    other = Controlled("ro", objects("ro", "x")).start()  # it has the file, which only an opening finds out
    t.ctl("export", "create", "a", "size=4M", f"path={path('rf.a')}")
    with open(path("rf.state/exports.ini")) as f:
        text = f.read()
    for words, rc, want in (
            (["create", "conf", "size=4M", "path=i"], 7, f"{t.conf}:"),
            (["create", "a", "size=8M", f"path={path('rf.a')}"], 7, "is there already"),
            (["create", "b", f"path={path('rf.a')}"], 7, "export a has it"),
            (["create", "b", f"path={path('rf.conf')}"], 7, "export conf has it"),
            (["create", "b", "size=4M", f"path={foreign}"], 1, "not a weft export"),
            (["create", "b", "path=none"], 1, "add size"),
            (["create", "b", "size=4M", f"path={path('rf.dir')}"], 1, "directory"),
            (["create", "b", "size=x", "path=b"], 2, "is not a size"),
            (["create", "b", "size=4M", f"path={path('ro.x')}"], 6, "in use by another"),
            (["create", "b", "nix=1"], 2, "unknown key"),
            (["create", "b", "size=4M", "path=b ; x"], 2, "not a value"),
            (["create", "b", "size=4M", "path=b\n[export c]"], 2, "not a value"),
            (["create", "b]", "path=b"], 2, "bad name"),
            (["create", "x" * 41, "path=b"], 2, "too long"),
            (["create", "b", "size=9999T", "path=b"], 1, "export b"),
            (["create", "b", "size=4M", "path=b", "rights=read,flush", "persist=volatile"], 2, "volatile"),
            (["create", "b", "a=1", "a=2"], 2, "given twice"),
            (["create", "b"], 2, "keys is missing"),
            (["set", "conf", "rights=read"], 1, f"{t.conf}:"),
            (["set", "a", "size=8M"], 2, "create another"),
            (["set", "a", "rights=red"], 2, "rights"),
            (["set", "none", "rights=read"], 5, "no export"),
            (["rename", "conf", "x"], 1, f"{t.conf}:"),
            (["rename", "a", "conf"], 7, f"{t.conf}:"),
            (["rename", "a", "a"], 7, "already"),
            (["rename", "a", "b/c"], 2, "bad name"),
            (["rename", "none", "b"], 5, "no export"),
            (["delete", "conf", "--confirm", "conf"], 1, f"{t.conf}:")):
        err = t.ctl("export", *words, ok=rc)
        assert want in err, (words, err)
        with open(path("rf.state/exports.ini")) as f:
            assert f.read() == text, words
        assert set(state_of(t)) == {"conf", "a"} and not os.path.exists(path("rf.state/b")), words
    assert other.term() == 0
    assert sha(foreign) == sha(make_file("rf.same", 4 * MIB, 5))
    # The disk of the state is full: nothing changes, and what was there goes on.
    os.rename(path("rf.state"), path("rf.away"))
    err = t.ctl("export", "create", "b", "size=4M", f"path={path('rf.b')}", ok=1)
    assert "nothing was changed" in err and not os.path.exists(path("rf.b")), err
    assert "cannot be written" in t.ctl("export", "delete", "a", "--confirm", "a", ok=1)
    os.rename(path("rf.away"), path("rf.state"))
    src = make_file("rf.src", 300000, 1)
    t.push(src, "a")
    # Another target cannot have the directory.
    other = Controlled("rg", objects("rg", "x"), extra=f"state = {path('rf.state')}").start(ok=False)
    assert other.proc.wait(timeout=20) == 1 and "another target has it" in other.logged(), other.logged()
    # The configuration gets an export of the same name: it wins, and the log has both places.
    assert t.term() == 0
    with open(t.conf, "a") as f:
        f.write(f"[export a]\nsize = 1M\npath = {path('rf.new')}\n")
    t.start()
    assert f"{t.conf}:" in t.logged() and f"{path('rf.state')}/exports.ini:" in t.logged() and "left out" in t.logged()
    assert t.row("a")["place"] == path("rf.new")
    assert t.term() == 0
    none = Controlled("rn", objects("rn", "x")).start()
    assert "state directory" in none.ctl("export", "create", "a", "size=1M", "path=a", ok=1)
    assert none.term() == 0


def test_added_at_reload():
    """What the configuration has now is served after a reload; what cannot be opened is offline, and is tried again."""
    t = stateful("ar", objects("ar", "a")).start()
    t.ctl("export", "create", "s", "size=64K", "path=s.weft")
    os.symlink(path("ar.a"), path("ar.link"))
    with open(t.conf, "a") as f:
        f.write(f"[export b]\nsize = 1M\npath = {path('ar.b')}\n[export c]\nsize = 1M\npath = {path('ar.no/c')}\n"
                f"[export d]\npath = {path('ar.link')}\n")
    t.ctl("reload")
    got = state_of(t)
    assert {k: v[0] for k, v in got.items()} == {"a": "served", "s": "served", "b": "served", "c": "offline"}, got
    os.mkdir(path("ar.no"))
    t.ctl("reload")
    assert t.row("c")["state"] == "served" and t.row("s")["state"] == "served"
    src = make_file("ar.src", 3000, 1)
    for e in "bcs":
        t.push(src, e)
    assert t.term() == 0


class Killed:
    """A target that is killed before a step of a change. Its state directory is set up anew for each round."""

    def __init__(self, name):
        self.t = stateful(name, extra="staging = 8M")
        self.dir = path(f"{name}.state")
        self.at = path(f"{name}.at")
        self.kept = path(f"{name}.kept")

    def start(self):
        os.environ.update({"LD_PRELOAD": SHIM, "WEFT_KILL_AT": self.at})
        try:
            self.t.start()
        finally:
            del os.environ["LD_PRELOAD"], os.environ["WEFT_KILL_AT"]

    def setup(self):
        """What each round starts from: an object with content, a volume, one that is held."""
        self.start()
        t = self.t
        t.ctl("export", "create", "o", "size=256K", "path=o.weft")
        for seed in (6, 7):  # it is in the second slot
            t.push(make_file("kx.src", 50000, seed), "o")
        t.ctl("export", "create", "v", "size=4M", "path=v.img", "format=volume")
        t.ctl("export", "create", "h", "size=64K", "path=h.weft")
        t.ctl("offline", "h")
        self.old = state_of(t)
        assert t.term() == 0
        shutil.copytree(self.dir, self.kept)

    def round(self, words, step=None, wait_s=None):
        """Make a change, and kill at the step, or after a time. Returns whether the target was killed before it answered."""
        shutil.rmtree(self.dir)
        shutil.copytree(self.kept, self.dir)
        for name in os.listdir(self.dir):  # direct I/O finds nothing in the page cache
            fd = os.open(os.path.join(self.dir, name), os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
        self.start()
        old = state_of(self.t)
        assert old == self.old, self.t.logged()
        if step is not None:
            with open(self.at, "w") as f:
                f.write(str(step))
        s = self.t.client()
        s.sendall(words.encode() + b"\n")
        if wait_s is not None:
            time.sleep(wait_s)
            self.t.proc.kill()
        try:
            answer = s.recv(65536)
        except ConnectionResetError:
            answer = b""
        s.close()
        if os.path.exists(self.at):
            os.unlink(self.at)
        done = answer.endswith(b"\n")
        assert not done or "result" in json.loads(answer), (words, answer)
        if not done or wait_s is not None:
            self.t.proc.wait(timeout=20)
        else:
            self.t.kill()  # what was answered is durable
        self.start()
        return old, done

    def check(self, words, new, step, old, done):
        """It is as before or as after, and after an answer it is as after."""
        got = state_of(self.t)
        want = [new] if done else [old, new]
        assert got in want, (SEED, words, step, done, got, want, self.t.ctl("exports"))
        for name in ("o", "p"):
            if name in got and got[name][0] == "served":
                assert sha(self.t.pull(name, "kx.out")) == sha(path("kx.src")), (words, step, name)
        # The next change works, whatever the last one left.
        self.t.ctl("export", "create", "next", "size=64K", "path=next.weft")
        self.t.kill()


def changes(k):
    """{request: the table after it}"""
    k.start()
    base = state_of(k.t)
    assert k.t.term() == 0
    rights = "read,write,flush,verify"

    def but(*gone, **more):
        return {n: v for n, v in base.items() if n not in gone} | more
    return {
        request("export.create", name="n", keys={"size": "64K", "path": "n.weft"}):
            but(n=("served", "object", rights, f"{k.dir}/n.weft", object_capacity(65536), "", "")),
        request("export.create", name="w", keys={"size": "4M", "path": "w.img", "format": "volume"}):
            but(w=("served", "volume", rights, f"{k.dir}/w.img", 3 * MIB, "", "")),
        request("export.set", name="o", keys={"rights": "read,flush,verify"}):
            but(o=base["o"][:2] + ("read,flush,verify",) + base["o"][3:]),
        request("export.set", name="v", keys={"max_ops_per_s": "900", "allow_from": "10.0.0.0/8"}):
            but(v=base["v"][:5] + ("allow_from=10.0.0.0/8", "max_ops_per_s=900")),
        request("export.rename", name="o", to="p"): but("o", p=base["o"]),
        request("export.rename", name="h", to="i"): but("h", i=base["h"]),
        request("export.delete", name="v", confirm="v"): but("v"),
        request("export.delete", name="h", confirm="h"): but("h"),
        request("offline", name="o"): but(o=("held",) + base["o"][1:4] + (0,) + base["o"][5:]),
        request("online", name="h"): but(h=("served",) + base["h"][1:4] + (object_capacity(65536),) + base["h"][5:]),
        request("export.resize", name="o", size="512K"): but(o=base["o"][:4] + (object_capacity(512 * 1024),) + base["o"][5:]),
        request("export.resize", name="o", size=200000, shrink=True): but(o=base["o"][:4] + (object_capacity(200000),) + base["o"][5:]),
        request("export.resize", name="v", size="6M"): but(v=base["v"][:4] + (5 * MIB,) + base["v"][5:]),
    }


def test_kill_at_steps():
    """Before each third step of each change, from one that is drawn on; with 100 rounds and more before each step."""
    rng = random.Random(SEED)
    k = Killed("ke")
    k.setup()
    stride = 3 if ROUNDS < 100 else 1
    steps = 0
    for words, new in changes(k).items():
        for step in range(1 + rng.randrange(stride), 100, stride):
            old, done = k.round(words, step=step)
            k.check(words, new, step, old, done)
            steps += not done
            if done:
                break
        assert step >= 3, (words, step)
    print(f"# {steps} kills, each before another step")
    assert steps >= 80 // stride, steps


def test_kill_at_any_time():
    """The same, at a time that is drawn: between the calls of the library and of its helper threads, too."""
    rng = random.Random(SEED)
    k = Killed("kt")
    k.setup()
    all_changes = list(changes(k).items())
    for n in range(ROUNDS):
        words, new = rng.choice(all_changes)
        wait_s = rng.choice((0.0005, 0.003, 0.02)) * rng.random()
        old, done = k.round(words, wait_s=wait_s)
        k.check(words, new, (n, wait_s), old, done)


if __name__ == "__main__":
    print(f"# WEFT_TEST_SEED={SEED}")
    main([test_life, test_dump, test_left_among_the_held, test_resize, test_cut_stays_out, test_clients_stay, test_clients_that_hold,
          test_refused, test_added_at_reload, test_kill_at_steps, test_kill_at_any_time])
