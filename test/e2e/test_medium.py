#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Media that are read-only, full, missing or broken, under a real weft-target. One line reports the fault, a failed
Flush ends in the documented Terminate, the target keeps running, and other clients notice nothing.

test_medium.py BUILD [CASE...]

Full and broken media are made by the test: a small tmpfs, and a loop device whose image has no room to grow.
"""
import contextlib
import os
import re
import signal
import time

from test_visible import Telemetry
from weft_e2e import FAILED, Skip, Target, app, end_all, main, make_file, path, run, sha

MIB = 1 << 20


def sh(*args):
    rc, out, err = run(list(args))
    if rc != 0:
        raise OSError(f"{' '.join(args)}: {err.strip()}")
    return out.strip()


@contextlib.contextmanager
def made():
    """Create folders, mounts and devices of a case. At the end, kill the processes that use them and remove them."""
    with contextlib.ExitStack() as stack:
        def folder(name):
            os.mkdir(path(name))
            stack.callback(os.rmdir, path(name))

        def tmpfs(name, size):
            if os.geteuid() != 0:
                raise Skip("needs root (mount)")
            folder(name)
            try:
                sh("mount", "-t", "tmpfs", "-o", f"size={size}", "weft-test", path(name))
            except OSError as e:
                raise Skip(str(e)) from None
            stack.callback(sh, "umount", path(name))
            return path(name)

        def loop(image, size):
            with open(image, "wb") as f:
                f.truncate(size)
            try:
                dev = sh("losetup", "-f", "--show", image)
            except (OSError, FileNotFoundError) as e:
                raise Skip(f"no loop device: {e}") from None
            stack.callback(sh, "losetup", "-d", dev)
            return dev

        def ext4(name, size):
            """A file system on a loop device."""
            dev = loop(path(name + ".img"), size)
            folder(name)
            try:
                sh("mke2fs", "-q", "-F", "-t", "ext4", dev)
                sh("mount", dev, path(name))
            except (OSError, FileNotFoundError) as e:
                raise Skip(str(e)) from None
            stack.callback(sh, "umount", path(name))
            return path(name)

        def use(t):
            stack.callback(end_all)
            return t
        made.tmpfs, made.loop, made.ext4, made.use, made.callback = tmpfs, loop, ext4, use, stack.callback
        yield made


def refused(exports, *words):
    """Check that the target does not start and reports these words in one line."""
    t = Target("refused", exports)
    rc, _, err = run([app("weft-target"), "-c", t.conf])
    assert rc in FAILED and err.strip().count("\n") == 0, err
    for w in words:
        assert w in err, f"'{w}' is not in: {err}"


def test_read_only():
    """An export on a read-only file system, or in a file without write permission, is refused at start-up. The file is
    not changed."""
    with made() as m:
        folder = m.tmpfs("ro", "16M")
        f = os.path.join(folder, "x")
        t = m.use(Target("ro1", {"demo": {"path": f, "size": "4M"}})).start()
        t.push(make_file("ro.src", 100_000, 1), "demo")
        assert t.term() == 0
        before = sha(f)
        sh("mount", "-o", "remount,ro", folder)
        refused({"demo": {"path": f, "size": "4M"}}, f, "Read-only file system")
        refused({"demo": {"path": f + ".new", "size": "4M"}}, f + ".new", "Read-only file system")
        assert sha(f) == before and os.listdir(folder) == ["x"]
        sh("mount", "-o", "remount,rw", folder)
        t.start()
        assert t.term() == 0


def full(folder):
    f = os.path.join(folder, "new")
    refused({"demo": {"path": f, "size": "64M"}}, f, "no space for 64.00 MiB")
    assert not os.path.exists(f), "what cannot be made was left"
    f = os.path.join(folder, "old")
    with open(f, "wb") as h:
        h.write(bytes(MIB))
    refused({"demo": {"path": f, "size": "64M"}}, f, "no space for 64.00 MiB")
    with open(f, "rb") as h:
        assert h.read() == bytes(MIB), "a file that could not grow was changed"


def test_full():
    """Without room for the export, the target refuses to start. No new file remains, and an existing file keeps its
    size."""
    with made() as m:
        full(m.tmpfs("full", "8M"))
        full(m.ext4("full4", 16 * MIB))


def broken(m, push_args=(), **keys):
    """A target with an export on a block device that refuses new blocks from now on, and another export on a file.
    Returns also the object on the broken export, and a function that repairs the device."""
    folder = m.tmpfs("bad", "6M")
    dev = m.loop(os.path.join(folder, "img"), 24 * MIB)
    t = m.use(Target("bad", {"bad": {"path": dev, **keys}, "good": {"path": path("good.exp"), "size": "40M"}}, ports=2))
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write("[weft]\ntelemetry = yes\n" + text)
    t.start()
    assert "to a block device, holds" in t.logged(), t.logged()
    old = make_file("bad.old", 300_000, 5)
    rc, _, err = t.cp(old, "weft://10.0.0.1/bad", args=push_args)
    assert rc == 0, err
    filler = os.path.join(folder, "filler")
    with open(filler, "wb") as f, contextlib.suppress(OSError):
        while True:
            f.write(bytes(65536))
            f.flush()
    return t, old, lambda: os.unlink(filler)


def test_medium_fails():
    """Writes fail: the Flush ends in its Terminate, each side prints one line, the former object stays, a client of
    another export notices nothing, and a repaired medium accepts the next push."""
    with made() as m:
        t, old, mend = broken(m)
        src = make_file("bad.good", 12 * MIB, 6)
        other = t.cp_start(src, "weft://10.0.1.1/good", port=1, args=["--rate", "6M"])
        new = make_file("bad.new", 5 * MIB, 7)
        for _ in range(2):
            rc, _, err = t.cp(new, "weft://10.0.0.1/bad")
            assert rc in FAILED and err.strip().count("\n") == 0, err
            assert "bad" in err and "flush failed" in err.lower() and "generation 1" in err, err
            assert t.proc.poll() is None, "the target has ended: " + t.logged()
        log = t.logged()
        assert log.count("terminated by us: RDMA layer: remote operation error: flush failed") == 2, log
        assert log.count("terminated by us: ") == 2 and len(re.findall(r"the medium failed: [^(]+ \(by ", log)) == 2, log
        assert other.poll() is None, "the other client was done before the medium failed"
        _, err = other.communicate(timeout=60)
        assert other.returncode == 0, err
        assert sha(t.pull("good", "bad.out", port=1)) == sha(src)
        assert sha(t.pull("bad", "bad.out")) == sha(old), "the object before was touched"
        mend()
        t.push(new, "bad")
        assert sha(t.pull("bad", "bad.out")) == sha(new)
        t.kill()
        t.start()
        assert sha(t.pull("bad", "bad.out")) == sha(new)
        assert t.term() == 0


def test_failures_stay():
    """However many mismatches a client with the right to Verify causes, errors of the medium remain in the log."""
    for k in ("a", "b"):
        with open(path(f"med.key.{k}"), "w") as f:
            f.write(f"the key of {k}, long enough for anybody\n")
        os.chmod(path(f"med.key.{k}"), 0o600)
    with made() as m:
        key = ["--hash-key", path("med.key.a")]
        t, _, mend = broken(m, push_args=key, hash="hmac-sha256", hash_key_file=path("med.key.a"))
        tel = Telemetry(t.proc.pid)
        rc, _, err = t.cp(make_file("fs.new", 5 * MIB, 8), "weft://10.0.0.1/bad", args=key)
        assert rc in FAILED and "flush failed" in err.lower(), err
        mend()
        src = make_file("fs.src", 20_000, 9)
        for _ in range(9):
            rc, _, err = t.cp(src, "weft://10.0.0.1/bad", args=["--hash-key", path("med.key.b")])
            assert rc in FAILED and "verify failed" in err, err
        now = tel.ask("/weft/target/export,bad")
        assert now["bad_ranges"] == 10 and now["medium_failures"] == 1, now
        assert "the medium failed" in now["failed_0"] and "failed_1" not in now, now
        assert "hash mismatch" in now["bad_range_7"] and "bad_range_8" not in now, now
        assert t.term() == 0


def test_medium_fails_then_death():
    """After kill -9, data that were not acknowledged because the medium failed are not in the export, and the export is
    valid."""
    with made() as m:
        t, old, mend = broken(m)
        rc, _, err = t.cp(make_file("dd.new", 5 * MIB, 8), "weft://10.0.0.1/bad", args=["--no-verify"])
        assert rc in FAILED, err
        t.kill()
        mend()
        t.start()
        assert "DAMAGED" not in t.logged(), t.logged()
        assert sha(t.pull("bad", "dd.out")) == sha(old)
        assert t.term() == 0


def test_file_vanishes():
    """The file is removed or truncated while the target runs. The target keeps running and other exports are served.
    The export of that file is not served. The next start names the missing file and changes nothing."""
    with made() as m:
        gone, cut, good = path("va.gone"), path("va.cut"), path("va.good")
        t = m.use(Target("va", {"gone": {"path": gone, "size": "4M"}, "cut": {"path": cut, "size": "4M"},
                                "good": {"path": good, "size": "4M"}})).start()
        src = make_file("va.src", 500_000, 9)
        for e in ("gone", "cut", "good"):
            t.push(src, e)
        os.unlink(gone)
        os.truncate(cut, 5000)
        new = make_file("va.new", 600_000, 10)
        for args in ((new, "weft://10.0.0.1/gone"), ("weft://10.0.0.1/gone", path("va.out"))):
            rc, _, err = t.cp(*args)
            assert rc in FAILED and err.strip().count("\n") == 0 and "its file was removed" in err, err
        rc, _, err = t.cp(new, "weft://10.0.0.1/cut")
        assert rc in FAILED and err.strip().count("\n") == 0, err
        t.push(new, "good")
        assert "export cut: LOST" in t.logged(), t.logged()
        assert t.proc.poll() is None, t.logged()
        assert sha(t.pull("good", "va.out")) == sha(new)
        assert t.term() == 0
        assert not os.path.exists(gone)
        os.truncate(cut, 5000)
        refused({"gone": {"path": gone}}, gone, "does not exist")
        refused({"cut": {"path": cut}}, cut, "the file was cut to 5000; not touched")
        assert os.path.getsize(cut) == 5000 and not os.path.exists(gone)


def test_file_taken_away():
    """The file is removed, replaced or moved during a push. One line reports it, the grant ends at once, the push ends
    with one line, no new grant is given, and other exports are served. When the file is moved back, it is served again."""
    with made() as m:
        names = ("removed", "replaced", "moved", "good")
        keys = {e: {"path": path(f"ta.{e}"), "size": "16M", "persist": "file"} for e in names}
        t = m.use(Target("ta", keys, ports=2, extra="revoke_ms = 60000"))
        with open(t.conf) as f:
            text = f.read()
        with open(t.conf, "w") as f:
            f.write("[weft]\ntelemetry = yes\n" + text)
        t.start()
        tel = Telemetry(t.proc.pid)
        old, new = make_file("ta.old", 100_000, 21), make_file("ta.new", 7 * MIB, 22)
        for e in names:
            t.push(old, e)
        away = {"removed": lambda p: os.unlink(p), "moved": lambda p: os.rename(p, p + ".aside"),
                "replaced": lambda p: os.rename(make_file("ta.other", 16 * MIB, 23), p)}
        other = t.cp_start(make_file("ta.src", 7 * MIB, 24), "weft://10.0.1.1/good", port=1, args=["--rate", "1M"])
        for e, take in away.items():
            said = "was replaced by another file" if e == "replaced" else "was removed"
            p = t.cp_start(new, f"weft://10.0.0.1/{e}", args=["--rate", "2M"])
            end = time.monotonic() + 20
            while t.logged().count(f"export {e}: read,write,flush,verify granted") < 2 and time.monotonic() < end:
                time.sleep(0.01)
            take(keys[e]["path"])
            _, err = p.communicate(timeout=20)
            assert p.returncode in FAILED and err.strip().count("\n") == 0 and f"export {e}" in err, err
            # A Flush may find the loss before the periodic check, which runs four times a second.
            lost = f"export {e}: LOST: {keys[e]['path']} {said}"
            while lost not in t.logged() and time.monotonic() < end:
                time.sleep(0.01)
            assert t.logged().count(lost) == 1, t.logged()
            rc, _, err = t.cp(old, f"weft://10.0.0.1/{e}")
            assert rc in FAILED and err.strip().count("\n") == 0 and f"its file {said}" in err, err
            now = tel.ask(f"/weft/target/export,{e}")
            assert now["file"] == said and now["files_lost"] == 1 and now["grants"] == "nothing" and now["writer"] == 0, now
        os.rename(keys["moved"]["path"] + ".aside", keys["moved"]["path"])
        end = time.monotonic() + 10
        while "is there again" not in t.logged() and time.monotonic() < end:
            time.sleep(0.02)
        assert sha(t.pull("moved", "ta.out")) == sha(old)
        t.push(new, "moved")
        assert sha(t.pull("moved", "ta.out")) == sha(new)
        assert tel.ask("/weft/target/export,moved")["file"] == "is there"
        _, err = other.communicate(timeout=60)
        assert other.returncode == 0, err
        assert t.proc.poll() is None and t.term() == 0
        with open(keys["replaced"]["path"], "rb") as f, open(make_file("ta.other", 16 * MIB, 23), "rb") as g:
            assert f.read() == g.read(), "somebody else's file was touched"


def moved_in_short_pushes(persist, env):
    """Pushes of a tenth of a second. During each the file is moved and another one takes its place. No push succeeds,
    and neither file changes."""
    with made() as m:
        p, aside, other = path(f"ms.{persist}"), path(f"ms.{persist}.aside"), path("ms.other")
        os.environ |= env
        try:
            t = m.use(Target("ms", {"demo": {"path": p, "size": "4M", "persist": persist}})).start()
        finally:
            for k in env:
                del os.environ[k]
        old, new = make_file("ms.old", MIB, 31), make_file("ms.new", 150_000, 32)
        t.push(old, "demo")
        for i in range(6):
            make_file("ms.other", 4 * MIB, 33)
            back, granted = t.logged().count("is there again"), t.logged().count("verify granted")
            c = t.cp_start(new, "weft://10.0.0.1/demo", args=["--rate", "1M", "--block", "16K"])
            end = time.monotonic() + 20
            while t.logged().count("verify granted") == granted and time.monotonic() < end:
                time.sleep(0.001)
            os.rename(p, aside)
            if i % 2:
                os.rename(other, p)
            _, err = c.communicate(timeout=20)
            assert c.returncode in FAILED and err.strip().count("\n") == 0, (i, c.returncode, err)
            while t.logged().count("LOST") <= back and time.monotonic() < end:
                time.sleep(0.005)
            os.rename(aside, p)
            while t.logged().count("is there again") == back and time.monotonic() < end:
                time.sleep(0.005)
            assert sha(t.pull("demo", "ms.out")) == sha(old)
        t.push(new, "demo")
        assert sha(t.pull("demo", "ms.out")) == sha(new)
        assert t.term() == 0


def test_file_moved_in_short_pushes():
    moved_in_short_pushes("file", {})


def test_mapped_file_moved_in_short_pushes():
    moved_in_short_pushes("pmem", {})


def test_dax_file_moved_in_short_pushes():
    # As on DAX: short flushes are executed on the polling core, which makes no system call for the file.
    moved_in_short_pushes("pmem", {"PMEM_IS_PMEM_FORCE": "1"})


def test_file_shrinks():
    """The file is truncated again and again during the Verify of a push, to a length that is no multiple of a page, in
    the first block of either slot. The client gets its answer in time, and no helper thread hangs."""
    with made() as m:
        cut, good = path("sh.cut"), path("sh.good")
        t = m.use(Target("sh", {"cut": {"path": cut, "size": "8M"}, "good": {"path": good, "size": "8M"}})).start()
        old, new = make_file("sh.old", 3 * MIB, 11), make_file("sh.new", 3 * MIB, 12)
        t.push(old, "cut")
        slots = 2 * [8192 + 4096, 8192 + ((8 * MIB - 8192) // 2 // 4096 * 4096) + 4096]
        for data in slots:
            p = t.cp_start(new, "weft://10.0.0.1/cut", args=["--rate", "20M"])
            end = time.monotonic() + 20
            while p.poll() is None and time.monotonic() < end:
                os.truncate(cut, data + 100_001)
                time.sleep(0.0005)
            assert p.poll() is not None, "no answer: " + t.logged()[-1000:]
            _, err = p.communicate()
            assert p.returncode in FAILED and err.strip().count("\n") == 0, err
            assert "verify failed" in err or "flush failed" in err or "was cut short" in err, err
            end = time.monotonic() + 10
            while "export cut: LOST" not in t.logged():
                assert time.monotonic() < end, t.logged()
                time.sleep(0.02)
            # The test restores the length. The next round uses another one.
            os.truncate(cut, 8 * MIB)
            t.term()
            t.start()
        t.push(new, "good")
        assert sha(t.pull("good", "sh.out")) == sha(new)
        assert t.proc.poll() is None and t.term() == 0


# Ways in which another program writes to a file in place. The inode stays the same, and in the end length and blocks
# do, too.
IN_PLACE = {
    "copied": lambda p, other: sh("cp", other, p),
    "refilled": lambda p, other: (sh("truncate", "-s", "0", p), sh("fallocate", "-l", str(os.path.getsize(other)), p)),
    "overwritten": lambda p, other: sh("dd", f"if={other}", f"of={p}", "conv=notrunc", "bs=1M", "status=none"),
    "overwritten_behind": lambda p, other: sh("dd", f"if={other}", f"of={p}", "conv=notrunc", "bs=4096", "count=1", "seek=700",
                                              "status=none"),
}


def changed_in_place(persist):
    """While another program writes to the file, nothing is acknowledged, neither for a push under way nor for a new
    one, until SIGHUP opens the file again. A program that only reads the file, opens it for writing without a write, or
    tries to export it, changes nothing."""
    with made() as m:
        names = (*IN_PLACE, "good")
        keys = {e: {"path": path(f"ip.{persist}.{e}"), "size": "4M", "persist": persist} for e in names}
        keys["log"] = {"path": path(f"ip.{persist}.log"), "size": "4M", "persist": persist, "format": "log"}
        t = m.use(Target(f"ip{persist}", keys))
        with open(t.conf) as f:
            text = f.read()
        with open(t.conf, "w") as f:
            f.write("[weft]\ntelemetry = yes\n" + text)
        t.start()
        tel = Telemetry(t.proc.pid)
        old, new, other = make_file("ip.old", MIB, 41), make_file("ip.new", MIB, 42), make_file("ip.other", 4 * MIB, 43)
        for e in names:
            t.push(old, e)
            sh("cp", keys[e]["path"], path("ip.backup"))
            sh("touch", keys[e]["path"])
            with open(keys[e]["path"], "r+b"):
                pass
        refused({"x": {"path": keys["good"]["path"]}}, "is in use")
        time.sleep(0.6)
        assert "LOST" not in t.logged(), t.logged()
        said = {}
        for i, (e, change) in enumerate(IN_PLACE.items()):
            # With or without a push under way. The next push follows at once.
            p = None
            end = time.monotonic() + 20
            if i % 2:
                p = t.cp_start(new, f"weft://10.0.0.1/{e}", args=["--rate", "1M"])
                while t.logged().count(f"export {e}: read,write,flush,verify granted") < 2 and time.monotonic() < end:
                    time.sleep(0.01)
            change(keys[e]["path"], other)
            rc, _, err = t.cp(old, f"weft://10.0.0.1/{e}")
            assert rc in FAILED and err.strip().count("\n") == 0, (e, rc, err)
            if p is not None:
                _, err = p.communicate(timeout=30)
                assert p.returncode in FAILED and err.strip().count("\n") == 0, (e, p.returncode, err)
            while f"export {e}: LOST" not in t.logged() and time.monotonic() < end:
                time.sleep(0.01)
            said[e] = "was written to by another process" if e.startswith("over") else "was "
            assert f"export {e}: LOST: {keys[e]['path']} {said[e]}" in t.logged(), t.logged()
            for args in ((new, f"weft://10.0.0.1/{e}"), (f"weft://10.0.0.1/{e}", path("ip.none"))):
                rc, _, err = t.cp(*args)
                assert rc in FAILED and err.strip().count("\n") == 0 and f"its file {said[e]}" in err, (e, err)
            now = tel.ask(f"/weft/target/export,{e}")
            assert now["served"] == 0 and now["grants"] == "nothing" and now["file"].startswith(said[e]), now
            with open(keys[e]["path"], "rb") as f, open(other, "rb") as g:
                if e in ("copied", "overwritten"):
                    assert f.read() == g.read(), f"{e}: what another program wrote was touched"
        IN_PLACE["copied"](keys["log"]["path"], other)
        end = time.monotonic() + 20
        while f"export log: LOST: {keys['log']['path']} was " not in t.logged():
            assert time.monotonic() < end, t.logged()[-1500:]
            time.sleep(0.02)
        t.push(new, "good")
        assert sha(t.pull("good", "ip.out")) == sha(new)
        # A file that was restored to its content is served again.
        sh("cp", path("ip.backup"), keys["copied"]["path"])
        assert tel.ask("/weft/target/export,copied")["served"] == 0
        t.proc.send_signal(signal.SIGHUP)
        end = time.monotonic() + 20
        while not ("export copied: is served now" in t.logged() and "wrong magic" in t.logged() and
                   "not a log" in t.logged()):
            assert time.monotonic() < end, t.logged()[-1500:]
            time.sleep(0.02)
        assert sha(t.pull("copied", "ip.out")) == sha(old)
        t.push(new, "copied")
        assert sha(t.pull("copied", "ip.out")) == sha(new)
        assert t.proc.poll() is None and t.term() == 0


def test_file_changed_in_place():
    changed_in_place("file")


def test_mapped_file_changed_in_place():
    changed_in_place("pmem")


def mapped(m):
    """A target with an export that maps its file, and another export on a file. Returns also the content of the first."""
    cut, good = path("mp.cut"), path("mp.good")
    for f in (cut, good):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f)
    t = m.use(Target("mp", {"cut": {"path": cut, "size": "16M", "persist": "pmem"}, "good": {"path": good, "size": "40M"}},
                     ports=2))
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write("[weft]\ntelemetry = yes\n" + text)
    t.start()
    old = make_file("mp.old", 5 * MIB, 13)
    t.push(old, "cut")
    return t, cut, old


def cut_under(t, cut, args):
    """Run weft-cp with args while the file is truncated and another client pushes. Returns the one line of weft-cp."""
    src = make_file("mp.src", 12 * MIB, 15)
    other = t.cp_start(src, "weft://10.0.1.1/good", port=1, args=["--rate", "8M"])
    p = t.cp_start(*args[:2], args=args[2:])
    time.sleep(0.5)
    assert p.poll() is None, "over before the file was cut"
    os.truncate(cut, 4 * 4096)
    _, err = p.communicate(timeout=60)
    assert p.returncode in FAILED and err.strip().count("\n") == 0, err
    assert t.proc.poll() is None, "the target has ended: " + t.logged()[-1000:]
    assert other.poll() is None, "the other client was done before"
    _, oerr = other.communicate(timeout=60)
    assert other.returncode == 0, oerr
    assert sha(t.pull("good", "mp.out", port=1)) == sha(src)
    return err


def lost_for_good(t, cut):
    """Lost data are not served, even if the file gets its length back. The next start examines the file again."""
    new = make_file("mp.again", 100_000, 16)
    tel = Telemetry(t.proc.pid)
    # A Flush or Verify may have met the end of the file before any access to a page behind it.
    rc, _, err = t.cp("weft://10.0.0.1/cut", path("mp.none"))
    assert rc in FAILED and err.strip().count("\n") == 0, err
    now = tel.ask("/weft/target/export,cut")
    assert now["served"] == 0 and now["file"] == "was cut short", now
    guard = tel.ask("/weft/guard")
    assert guard["installed"] == 1 and guard["passed_on"] == 0 and guard["unreplaced"] == 0, guard
    os.truncate(cut, 16 * MIB)
    for args in ((new, "weft://10.0.0.1/cut"), ("weft://10.0.0.1/cut", path("mp.none"))):
        rc, _, err = t.cp(*args)
        assert rc in FAILED and err.strip().count("\n") == 0 and "its file was cut short" in err, err
    t.push(new, "good", port=1)
    assert t.term() == 0
    t.start()
    t.push(new, "cut")
    assert sha(t.pull("cut", "mp.out")) == sha(new)
    assert t.term() == 0


def test_mapped_file_cut_in_a_push():
    """SIGBUS on the polling thread at a peer's Write: a Terminate, one line on each side, and all others are served."""
    with made() as m:
        t, cut, _ = mapped(m)
        err = cut_under(t, cut, [make_file("mp.new", 7 * MIB, 14), "weft://10.0.0.1/cut", "--rate", "4M"])
        # One of these comes first: the fault, a Flush, a Verify, or the check that revokes the grant.
        assert any(w in err for w in ("the medium is gone", "flush failed", "could not read the medium", "was cut short",
                                      "revoked", "revokes export cut")), err
        lost_for_good(t, cut)


def test_mapped_file_cut_in_a_pull():
    """The same at a peer's Read: no data are sent that are not in the file."""
    with made() as m:
        t, cut, _ = mapped(m)
        dst = path("mp.got")
        err = cut_under(t, cut, ["weft://10.0.0.1/cut", dst, "--rate", "4M"])
        assert any(w in err for w in ("the medium is gone", "was cut short", "revoked", "revokes export cut")), err
        assert not os.path.exists(dst)
        lost_for_good(t, cut)


if __name__ == "__main__":
    main([test_read_only, test_full, test_medium_fails, test_failures_stay, test_medium_fails_then_death,
          test_file_vanishes, test_file_taken_away, test_file_moved_in_short_pushes,
          test_mapped_file_moved_in_short_pushes, test_dax_file_moved_in_short_pushes, test_file_shrinks,
          test_file_changed_in_place, test_mapped_file_changed_in_place,
          test_mapped_file_cut_in_a_push, test_mapped_file_cut_in_a_pull])
