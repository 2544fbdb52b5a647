#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A set of exports in place of those that were made at run time: what differs is printed, and it is done as a whole or not at all."""
import json
import os
import random
import re
import stat

from test_control import Controlled, objects, request, schema
from test_control_exports import MIB, ROUNDS, SEED, Killed, object_capacity, restart, state_of, stateful
from test_medium import made
from weft_e2e import app, main, make_file, path, run, sha

DIFFERS = 10
RIGHTS = "read,write,flush,verify"


def section(name, **keys):
    return f"[export {name}]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items())


def write(name, *sections):
    """A file of sections. Returns its path."""
    with open(path(name), "w") as f:
        f.write("\n".join(sections))
    return path(name)


def differs(t, file):
    """The changes that diff prints, each as a tuple."""
    rc, out, err = run([app("weft-ctl"), "-s", t.socket, "--json", "diff", file])
    assert rc in (0, DIFFERS) and not err, (rc, err)
    got = rows(json.loads(out))
    assert (rc == DIFFERS) == bool(got), (rc, got)
    return got


def rows(got):
    return [tuple(r[k] for k in ("change", "export", "key", "was", "now")) for r in got["changes"]]


def begin(name, **kw):
    """A target with an object that has content, a volume, and one that is held."""
    t = stateful(name, **kw).start()
    t.ctl("export", "create", "o", "size=256K", "path=o.weft")
    t.ctl("export", "create", "v", "size=4M", "path=v.img", "format=volume")
    t.ctl("export", "create", "h", "size=64K", "path=h.weft")
    t.ctl("offline", "h")
    src = make_file(f"{name}.src", 50000, 6)
    t.push(src, "o")
    return t, src


def test_diff_and_apply():
    """Each kind of change; said twice it changes nothing; it is there after a restart; the dump is the file again."""
    t, src = begin("da")
    place = path("da.state")
    same = write("da.same", t.ctl("dump")["exports"])
    assert differs(t, same) == []
    row = {"change", "export", "key", "was", "now"}
    assert schema()["diff"] == ({"differs"}, row) and schema()["apply"] == ({"changed"}, row)
    assert t.ctl("apply", same) == {"changed": False, "changes": []}
    new = write("da.new", section("n", path="n.weft", size="64K"), section("v", size="6M", path="v.img", format="volume",
                max_ops_per_s=900), section("o", path="o.weft", rights="read,verify"),
                section("w", path="w.img", size="4M", format="volume"))
    want = [("delete", "h", "", f"{place}/h.weft", ""),
            ("create", "n", "path", "", f"{place}/n.weft"), ("create", "n", "size", "", "65536"), ("create", "n", "rights", "", RIGHTS),
            ("create", "w", "path", "", f"{place}/w.img"), ("create", "w", "format", "", "volume"),
            ("create", "w", "size", "", str(4 * MIB)),
            ("create", "w", "rights", "", RIGHTS),
            ("set", "o", "rights", RIGHTS, "read,verify"),
            ("resize", "v", "size", str(4 * MIB), str(6 * MIB)), ("set", "v", "max_ops_per_s", "", "900")]
    got = differs(t, new)
    assert sorted(got) == sorted(want), got
    # They are printed in the order in which they are done: what revokes grants comes late.
    assert [(r[0], r[1]) for r in got if r[1] in "ov"] == [("resize", "v"), ("set", "v"), ("set", "o")], got
    old = state_of(t)
    # As a table, and from standard input.
    with open(new) as f:
        rc, out, err = run([app("weft-ctl"), "-s", t.socket, "diff", "-"], stdin=f)
    assert rc == DIFFERS and out.split()[:3] == ["change", "export", "key"] and out.count("\n") == len(want) + 1, (rc, out, err)
    rc, out, err = run([app("weft-ctl"), "-s", t.socket, "diff", same])
    assert rc == 0 and not out and not err, (rc, out, err)
    dry = t.ctl("apply", new, "--dry-run")
    assert not dry["changed"] and sorted(rows(dry)) == sorted(want) and state_of(t) == old
    for confirm in ([], ["--confirm", "v"], ["--confirm", ""]):
        assert "say --confirm h" in t.ctl("apply", new, *confirm, ok=2)
    assert state_of(t) == old and not os.path.exists(f"{place}/n.weft")
    done = t.ctl("apply", new, "--confirm", "h")
    assert done["changed"] and sorted(rows(done)) == sorted(want)
    assert t.ctl("apply", new, "--confirm", "h") == {"changed": False, "changes": []}
    for _ in range(2):
        assert {e: r[0] for e, r in state_of(t).items()} == {"n": "served", "v": "served", "o": "served", "w": "served"}
        assert t.row("v")["capacity_bytes"] == 5 * MIB and t.row("o")["configured"] == "read,verify"
        assert sha(t.pull("o", "da.out")) == sha(src)
        restart(t)
    t.push(make_file("da.small", 9000, 1), "n")
    t.push(src, "w")
    assert re.findall(r"^\[export (.)\]", t.ctl("dump")["exports"], re.M) == list("nvow")
    assert os.path.exists(f"{place}/h.weft")
    # Back again: the name that is deleted leaves its file to another name; a smaller volume needs a word.
    back = write("da.back", section("v", size="4M", path="v.img", format="volume"), section("o", size="256K", path="o.weft"),
                 section("m", path="n.weft"))
    assert "--shrink" in t.ctl("apply", back, "--confirm", "n,w", ok=2)
    assert t.ctl("apply", back, "--confirm", "w,n", "--shrink")["changed"]
    assert sha(t.pull("m", "da.out")) == sha(path("da.small")) and t.row("v")["capacity_bytes"] == 3 * MIB
    assert differs(t, back) == []
    # None at all.
    none = write("da.none", "; nothing\n")
    assert t.ctl("apply", none, "--confirm", "m,o,v")["changed"] and t.ctl("exports")["exports"] == []
    assert t.term() == 0


def test_refused():
    """What does not fit is said in one line, and nothing of the set is done."""
    t, src = begin("ar", exports=objects("ar", "conf"), ports=2)
    t.ctl("export", "create", "s", "size=8M", "path=s.img", "format=volume", "checksums=yes")
    base = t.ctl("dump")["exports"]
    old = state_of(t)
    foreign = make_file("ar.foreign", MIB, 5)
    with open(path("ar.state/exports.ini")) as f:
        table = f.read()

    def but(a, b, *more):
        assert a in base
        return "\n".join([base.replace(a, b, 1), *more])
    good = section("n", path="n.weft", size="64K")
    for text, rc, want in (
            (but("size = 262144", "size = 300000", section("b", path=foreign, size="1M")), 1, "not a weft export"),
            (but("size = 262144", "size = 300000", section("b", path="none")), 1, "add size"),
            ("\n".join([base, good, section("b", path="n.weft", size="64K")]), 7, "export n has it"),
            ("\n".join([base, good, section("b", path="o.weft", size="256K")]), 7, "export o has it"),
            ("\n".join([base, good, section("b", path=path("ar.conf"))]), 7, "export conf has it"),
            ("\n".join([base, good, section("conf", path="x", size="64K")]), 7, f"{t.conf}:"),
            ("\n".join([base, good, section("b", path="b", size="9999T")]), 1, "export b"),
            # Each of them has room alone.
            ("\n".join([base, *(section(f"b{i}", path=f"b{i}", size=str(free(path("ar.state")) // 2)) for i in range(3))]), 1, "export b"),
            ("\n".join([base, *(section(f"b{i}", path=f"b{i}", size="64K") for i in range(4092))]), 1, "4096 at most"),
            ("\n".join([base, good, section("b", path="b", size="x")]), 2, "line "),
            ("\n".join([base, good, section("b", path="b", size="64K", nix=1)]), 2, "unknown key"),
            ("\n".join([base, good, good]), 2, "second section"),
            ("\n".join([base, good, "[target]\nlisten = 5\n"]), 2, "not an [export NAME]"),
            ("\n".join([base, good, section("b", path="b", size="64K", allow_clients="alice")]), 2, "host_auth"),
            (but("o.weft", "x.weft", good), 2, "as the medium was made"),
            (but("size = 262144", "size = 70000", good), 2, "--shrink"),
            (but("size = 65536", "size = 128K", good), 6, "say online"),
            (but("size = 8388608", "size = 16M", good), 2, "keep their size"),
            ("\n".join([base, good, "x"]), 2, "line ")):
        err = t.ctl("apply", write("ar.set", text), ok=rc)
        assert want in err, (text, err)
        assert state_of(t) == old and not os.path.exists(path("ar.state/n.weft")), text
        with open(path("ar.state/exports.ini")) as f:
            assert f.read() == table, text
    # An object that would not fit, and more than one volume that would be cut.
    assert "has an object of" in t.ctl("apply", write("ar.set", but("size = 262144", "size = 60000", good)), "--shrink", ok=1)
    t.ctl("export", "create", "v2", "size=4M", "path=v2.img", "format=volume")
    two = t.ctl("dump")["exports"].replace("size = 4194304", "size = 3M")
    assert "one at most" in t.ctl("apply", write("ar.set", two), "--shrink", ok=2)
    # The table cannot be written.
    os.mkdir(path("ar.state/exports.ini.new"))
    plus = write("ar.set", t.ctl("dump")["exports"].replace("size = 262144", "size = 1M"), section("n", path=path("ar.n"), size="64K"))
    old = state_of(t)
    assert "nothing was changed" in t.ctl("apply", plus, ok=1)
    assert state_of(t) == old and not os.path.exists(path("ar.n"))
    os.rmdir(path("ar.state/exports.ini.new"))
    assert t.ctl("apply", plus)["changed"] and t.row("n")["state"] == "served"
    assert sha(t.pull("o", "ar.out")) == sha(src)
    for words, rc in ((["diff"], 2), (["diff", path("ar.nix")], 1), (["diff", "/"], 1), (["apply", "/dev/zero"], 1)):
        t.ctl(*words, ok=rc)
    assert t.term() == 0
    none = Controlled("ax", objects("ax", "x")).start()
    assert "state directory" in none.ctl("diff", plus, ok=1)
    assert none.term() == 0


def free(where):
    fs = os.statvfs(where)
    return fs.f_bavail * fs.f_frsize


def test_fails_in_the_middle():
    """A step that fails takes back what was done before it: sizes, deletions, rights, files."""
    key = path("fm.key")
    with open(key, "w") as f:
        f.write("a key that is long enough for a client and for a hash\n")
    os.chmod(key, 0o600)
    t, src = begin("fm", extra=f"host_auth = optional\n[client alice]\nkey_file = {key}\n")
    old, dump = state_of(t), t.ctl("dump")["exports"]
    other = Controlled("fz", {"x": {"path": path("fz.x"), "size": "4M"}}).start()  # it has the file, which only an opening finds out
    text = write("fm.set", section("o", path="o.weft", rights="read"), section("n", path="n.weft", size="64K"),
                 section("x", path=path("fz.x"), size="4M"))
    for _ in range(2):
        assert "in use by another" in t.ctl("apply", text, "--confirm", "v,h", ok=6)
        assert state_of(t) == old and t.ctl("dump")["exports"] == dump and not os.path.exists(path("fm.state/n.weft"))
        assert sha(t.pull("o", "fm.out")) == sha(src)
        restart(t)
    t.push(src, "v")
    # Sizes: the last one that is opened again has the key of a client, which is found out behind its opening.
    t.ctl("export", "create", "q", "size=64K", "path=q.weft")
    old, dump = state_of(t), t.ctl("dump")["exports"]
    more = dump.replace("size = 262144", "size = 512K").replace("size = 4194304", "size = 6M")
    err = t.ctl("apply", write("fm.set2", more.replace("q.weft", f"q.weft\nhash = hmac-sha256\nhash_key_file = {key}")), ok=7)
    assert "client alice" in err and t.ctl("dump")["exports"] == dump, err
    assert state_of(t) == old and sha(t.pull("o", "fm.out")) == sha(src), state_of(t)
    assert t.ctl("apply", write("fm.set2", more))["changed"] and t.row("v")["capacity_bytes"] == 5 * MIB
    assert other.term() == 0
    assert t.ctl("apply", text, "--confirm", "v,h,q")["changed"]
    assert t.row("x")["state"] == "served" and t.term() == 0


def draw(k, base, rng):
    """(request, what state_of() tells behind it): a set that is drawn, with at least two changes."""
    text, want, deleted, changed = [], {}, [], 0

    def keep(name, size, at, **keys):
        nonlocal changed
        row = list(base[name])
        what = rng.choice(["keep", "delete", "limit", "resize", "rights"] if name != "h" else ["keep", "delete", "limit"])
        changed += what != "keep"
        if what == "delete":
            return deleted.append(name)
        if what == "limit":
            keys["max_ops_per_s"] = 900
            row[6] = "max_ops_per_s=900"
        elif what == "rights":
            keys["rights"] = row[2] = "read,flush,verify"
        elif what == "resize":
            size *= 2
            row[4] = size - MIB if name == "v" else object_capacity(size)
        text.append(section(name, path=at, size=size, **keys))
        want[name] = tuple(row)
    keep("o", 256 << 10, "o.weft")
    keep("v", 4 << 20, "v.img", format="volume")
    keep("h", 64 << 10, "h.weft")
    if changed < 2 or rng.random() < 0.5:
        text.append(section("n", path="n.weft", size="64K"))
        want["n"] = ("served", "object", RIGHTS, f"{k.dir}/n.weft", object_capacity(65536), "", "")
    if changed < 2 or rng.random() < 0.5:
        text.append(section("w", path="w.img", size="4M", format="volume"))
        want["w"] = ("served", "volume", RIGHTS, f"{k.dir}/w.img", 3 * MIB, "", "")
    rng.shuffle(text)
    return request("apply", exports="\n".join(text), confirm=",".join(deleted)), want


def test_kill_between_steps():
    """Sets that are drawn, each killed before a step that is drawn: the old set or the new one, never a third."""
    rng = random.Random(SEED)
    k = Killed("kp")
    k.setup()
    k.start()
    base = state_of(k.t)
    assert k.t.term() == 0
    killed = 0
    for n in range(ROUNDS):
        words, new = draw(k, base, rng)
        step = rng.randrange(1, 30)
        old, done = k.round(words, step=step)
        k.check(words, new, (n, step), old, done)
        killed += not done
    print(f"# {killed} of {ROUNDS} sets were killed before they were answered")
    assert killed >= ROUNDS // 10, killed


def test_block_device():
    """The blocks of a device are its own: the room beside its name, here of 1 MiB, does not count."""
    with made() as m:
        size = 64 * MIB
        dev = os.path.join(m.tmpfs("bd.names", "1M"), "dev")
        os.mknod(dev, stat.S_IFBLK | 0o600, os.stat(m.loop(path("bd.image"), size)).st_rdev)
        t, _ = begin("bd")
        m.use(t)
        file = write("bd.set", t.ctl("dump")["exports"], section("dev", path=dev, size=size))
        rc, _, err = run([app("weft-ctl"), "-s", t.socket, "apply", "--dry-run", file])
        assert rc == 0, err
        assert t.term() == 0


def calls(t):
    """System calls of the target that read."""
    with open(f"/proc/{t.proc.pid}/io") as f:
        return int(re.search(r"syscr: (\d+)", f.read())[1])


def test_keys():
    """Exports that come do not read the keys of all clients again, for each of them. One with a client's key is refused."""
    exports, clients, reads = 40, 24, {}
    for n in range(clients):
        with open(path(f"ky.{n}"), "w") as f:
            f.write("%064x" % (n + 1))
        os.chmod(path(f"ky.{n}"), 0o600)
    for n in (1, clients):
        names = "".join(f"[client c{i}]\nkey_file = {path(f'ky.{i}')}\n" for i in range(n))
        t = stateful(f"ky{n}", extra=f"host_auth = optional\n{names}").start()
        file = write("ky.set", *[section(f"x{i}", persist="volatile", size="24K") for i in range(exports)])
        before = calls(t)
        t.ctl("apply", file)
        reads[n] = calls(t) - before
        if n == clients:
            line = t.ctl("export", "create", "same", "size=24K", "persist=volatile", "hash=hmac-sha256",
                         f"hash_key_file={path('ky.3')}", ok=7)
            assert "client c3 and export same have the same key" in line, line
        assert t.term() == 0
    assert reads[clients] < reads[1] + exports * clients / 4, reads


if __name__ == "__main__":
    print(f"# WEFT_TEST_SEED={SEED}")
    main([test_diff_and_apply, test_refused, test_fails_in_the_middle, test_kill_between_steps, test_block_device, test_keys])
