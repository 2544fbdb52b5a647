#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-target revokes grants (SIGHUP) and reports bad ranges. test_revoke.py BUILD [CASE...]"""
import os
import re
import signal
import subprocess
import time

from cp_runs import await_taken, spawn, url
from test_visible import Telemetry
from weft_e2e import BUILD, FAILED, PROCS, Target, main, make_file, memif, path, sha

MB = 1 << 20


def wait_for(what, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = what()
        if got:
            return got
        time.sleep(0.02)
    raise AssertionError("it did not come")


def start(name, exports, revoke_ms=500):
    for e, keys in exports.items():
        keys.setdefault("path", path(f"{name}.{e}.weft"))
        keys.setdefault("size", "16M")
        keys.setdefault("persist", "file")
    t = Target(name, exports, extra=f"revoke_ms = {revoke_ms}", ports=2)
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write("[weft]\ntelemetry = yes\n" + text)
    t.start()
    return t, Telemetry(t.proc.pid)


def edit(t, pattern, to, more=""):
    """Change the configuration, append `more`, and reload it."""
    with open(t.conf) as f:
        text = f.read()
    new, n = re.subn(pattern, to, text, flags=re.S)
    assert n == 1, text
    with open(t.conf, "w") as f:
        f.write(new + more)
    reads = t.logged().count("SIGHUP")
    t.proc.send_signal(signal.SIGHUP)
    wait_for(lambda: t.logged().count("SIGHUP") > reads)


def slow_push(t, src, export, rate="2M", args=("--ignore-revoke",), **kw):
    """Start a slow push. By default the client ignores the notice of a revocation."""
    return t.cp_start(src, f"weft://10.0.{kw.get('port', 0)}.1/{export}", args=["--rate", rate, *args], **kw)


def granted(t, export, n=1):
    wait_for(lambda: len(re.findall(f"export {export}: \\S+ granted", t.logged())) >= n)


def one_line(err, *words):
    lines = [x for x in err.splitlines() if x.strip()]
    assert len(lines) == 1, err
    for w in words:
        assert w in lines[0], (w, err)


def test_reduced():
    """Reduced rights end a push in progress with a line that says why. The committed object stays, and other exports
    are not affected."""
    t, tel = start("red", {"demo": {"rights": "read,write,flush,verify"}, "other": {}})
    first = make_file("red1", MB, 1)
    t.push(first, "demo")
    big = make_file("red2", 6 * MB, 2)
    p = slow_push(t, big, "demo")
    granted(t, "demo", 2)
    other = slow_push(t, big, "other", rate="4M", port=1)
    granted(t, "other")
    began = time.monotonic()
    edit(t, r"rights = read,write,flush,verify", "rights = read,verify")
    out, err = p.communicate(timeout=30)
    assert p.returncode in FAILED, (p.returncode, out, err)
    assert 0.4 < time.monotonic() - began < 8, "not at the deadline"
    one_line(err, "nothing was committed, the export keeps generation 1")
    assert "access rights violation" in err or "remote access error" in err, err
    log = t.logged()
    assert "export demo: grants read,verify from now on" in log, log
    assert re.search(r"export demo: rights of \S+ will be revoked in 0.5 s; then it keeps read,verify", log), log
    assert re.search(r"export demo: \S+ keeps read,verify", log), log
    out, err = other.communicate(timeout=30)
    assert other.returncode == 0, err
    assert sha(t.pull("demo", "red.out")) == sha(first)
    rc, _, err = t.cp(big, "weft://10.0.0.1/demo")
    assert rc == 1
    one_line(err, "only read,verify is granted")
    now = tel.ask("/weft/target/export,demo")
    assert now["revocations"] == 1 and now["revocations_reduced"] == 1 and now["revocations_invalidated"] == 0, now
    assert now["revocations_told"] == 0, now  # the client ignored the notice, and nothing of the export was damaged
    assert now["grants"] == "read,verify" and now["configured"] == "read,write,flush,verify", now
    assert now["bad_ranges"] == 0 and now["writer"] == 0, now
    assert tel.ask("/weft/target/export,other")["revocations"] == 0
    w = tel.ask("/weft/worker,0")
    w2 = tel.ask("/weft/worker,1") or {}
    assert sum(x.get("refused_after_revoke", 0) for x in (w, w2)) == 1, (w, w2)
    # the right is granted again
    edit(t, r"rights = read,verify", "rights = read,write,flush,verify")
    wait_for(lambda: tel.ask("/weft/target/export,demo")["grants"] == "read,write,flush,verify")
    t.push(big, "demo")
    assert sha(t.pull("demo", "red.out2")) == sha(big)
    assert t.term() == 0


def test_revoked():
    """The grants of an export that is removed from the configuration are revoked completely."""
    t, tel = start("rev", {"keep": {}, "demo": {}})
    first = make_file("rev1", MB, 3)
    t.push(first, "demo")
    big = make_file("rev2", 6 * MB, 4)
    p = slow_push(t, big, "demo")
    granted(t, "demo", 2)
    edit(t, r"\[export demo\].*", "")
    out, err = p.communicate(timeout=30)
    assert p.returncode in FAILED, (p.returncode, out, err)
    # A Write fails by the Terminate, and a Flush or Verify by its completion.
    one_line(err, "nothing was committed, the export keeps generation 1")
    assert "invalid STag" in err or "remote access error" in err, err
    assert re.search(r"export demo: the grant of \S+ is revoked", t.logged()), t.logged()
    rc, _, err = t.cp("weft://10.0.0.1/demo", path("rev.out"))
    assert rc == 1
    one_line(err, "no export")
    t.push(big, "keep")
    now = tel.ask("/weft/target/export,demo")
    assert now["revocations_invalidated"] == 1 and now["grants"] == "nothing" and now["grants_now"] == 0, now
    assert t.term() == 0
    # The file has not changed: with the old configuration it is served again.
    with open(t.conf, "a") as f:
        f.write(f"[export demo]\npath = {path('rev.demo.weft')}\npersist = file\n")
    t.start()
    assert sha(t.pull("demo", "rev.out2")) == sha(first)
    assert t.term() == 0


def test_reads_held():
    """READs that are queued when their grant ends are not answered, because the memory is not theirs any more."""
    for n, (to, says) in enumerate(((None, None), ("flush", "is revoked"), ("write", r":\d+ keeps"),
                                     ("read,verify", None))):
        t = Target(f"held{n}", {"demo": {"rights": "read,write,verify", "size": "16M", "persist": "file",
                                               "path": path(f"held{n}.weft"), "hash": "sha256" if n > 1 else "crc32c"}},
                   extra="revoke_ms = 200", keepalive_ms=20000)
        t.start()
        p = subprocess.Popen([os.path.join(BUILD, "test", "e2e", "rpc_probe"), memif(0, "client", t.sock(0)), "10.0.0.2/24",
                              "10.0.0.1", "demo", "2", "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        PROCS.append(p)
        assert p.stdout.readline() == "held\n", p.communicate()
        if to:
            edit(t, "rights = read,write,verify", f"rights = {to}")
        if says:
            wait_for(lambda: re.search(f"export demo: .*{says}", t.logged()))
        elif to:
            wait_for(lambda: re.search("export demo: grants read,verify from now on", t.logged()))
            time.sleep(0.4)
        out, err = p.communicate("go\n", timeout=60)
        lost = "READs of demo were not answered to the end when its grant ended" in t.logged()
        if says:
            assert out in [f"{i} of 7\n" for i in range(7)] and lost, (out, err, t.logged())
        else:  # all grants, also those that keep the right to read
            assert out == "7 of 7\n" and not lost, (out, err, t.logged())
        assert t.term() == 0


def test_in_time():
    """A client that finishes before the deadline notices nothing."""
    t, tel = start("time", {"demo": {"rights": "read,write,flush,verify"}}, revoke_ms=20000)
    src = make_file("time1", 3 * MB, 5)
    p = slow_push(t, src, "demo")
    granted(t, "demo")
    edit(t, r"rights = read,write,flush,verify", "rights = read,verify")
    out, err = p.communicate(timeout=30)
    assert p.returncode == 0, err
    assert sha(t.pull("demo", "time.out")) == sha(src)
    assert tel.ask("/weft/target/export,demo")["revocations_reduced"] == 0
    assert t.term() == 0


def test_warned():
    """A client that is notified and cannot finish in time gives the grant up before the deadline and says why: push,
    --pull and pull."""
    t, tel = start("warn", {"demo": {"rights": "read,write,flush,verify"}, "other": {}}, revoke_ms=3000)
    first = make_file("warn1", 6 * MB, 7)
    big = make_file("warn2", 7 * MB, 8)
    t.push(first, "demo")
    for told, args in enumerate(((), ("--pull",)), 1):
        p = slow_push(t, big, "demo", rate="512K", args=("--block", "64K", *args))
        granted(t, "demo", told + 1)
        time.sleep(0.5)
        began = time.monotonic()
        edit(t, r"rights = read,write,flush,verify", "rights = read,verify")
        out, err = p.communicate(timeout=30)
        assert p.returncode in FAILED, (p.returncode, out, err)
        assert time.monotonic() - began < 2.5, "it waited for the deadline"
        one_line(err, "the target revokes export demo, 3.0 s after its warning",
                 "nothing was committed, the export keeps generation 1")
        now = tel.ask("/weft/target/export,demo")
        assert now["revocations"] == told and now["revocations_told"] == told, now
        assert now["revocations_reduced"] == 0 and now["revocations_invalidated"] == 0, now
        assert now["grants_now"] == 0 and now["writer"] == 0, now
        edit(t, r"rights = read,verify", "rights = read,write,flush,verify")
        wait_for(lambda: tel.ask("/weft/target/export,demo")["grants"] == "read,write,flush,verify")
    assert sum((tel.ask(f"/weft/worker,{i}") or {}).get("refused_after_revoke", 0) for i in (0, 1)) == 0
    assert sha(t.pull("demo", "warn.out")) == sha(first)
    # a reader, when the grant is revoked completely
    p = t.cp_start("weft://10.0.0.1/demo", path("warn.out2"), args=["--rate", "512K", "--block", "64K"])
    granted(t, "demo", 5)
    time.sleep(0.5)
    edit(t, r"\[export demo\].*?(?=\[export other)", "")
    out, err = p.communicate(timeout=30)
    assert p.returncode in FAILED, (p.returncode, out, err)
    one_line(err, "the target revokes export demo", "nothing was written")
    assert not os.path.exists(path("warn.out2"))
    assert tel.ask("/weft/target/export,demo")["revocations_told"] == 3
    assert t.term() == 0


def test_warned_comparing():
    """The same of --verify-only, while the source is silent, too."""
    t, tel = start("wc", {"demo": {}, "other": {}}, revoke_ms=3000)
    src = make_file("wc1", 6 * MB, 12)
    t.push(src, "demo")
    p = spawn(t, "--block", "64K", "--verify-only", "-", url("demo"), stdin=subprocess.PIPE)
    granted(t, "demo", 2)
    with open(src, "rb") as f:
        p.stdin.write(f.read(MB))
    p.stdin.flush()
    await_taken(p)
    edit(t, r"\[export demo\].*?(?=\[export other)", "")
    p.wait(timeout=2.5)
    err = p.stderr.read().decode()
    assert p.returncode == 6, (p.returncode, err)
    one_line(err, "the target revokes export demo, 3.0 s after its warning", "nothing was changed")
    now = tel.ask("/weft/target/export,demo")
    assert now["revocations_told"] == 1 and now["revocations_invalidated"] == 0, now
    assert t.term() == 0


def test_warned_in_time():
    """A client that is notified finishes before the deadline."""
    t, tel = start("wtime", {"demo": {"rights": "read,write,flush,verify"}}, revoke_ms=20000)
    src = make_file("wtime1", 3 * MB, 9)
    p = slow_push(t, src, "demo", args=())
    granted(t, "demo")
    edit(t, r"rights = read,write,flush,verify", "rights = read,verify")
    out, err = p.communicate(timeout=30)
    assert p.returncode == 0, err
    now = tel.ask("/weft/target/export,demo")
    assert now["revocations_told"] == 1 and now["revocations_reduced"] == 0, now
    assert sha(t.pull("demo", "wtime.out")) == sha(src)
    assert t.term() == 0


def test_lost_meanwhile():
    """The file is removed while a revocation of some or all rights is under way. Every grant ends at once, before its
    deadline."""
    t, tel = start("lost", {"some": {"rights": "read,write,flush,verify"}, "told": {"rights": "write,flush,verify,read"},
                             "all": {}, "good": {}}, revoke_ms=60000)
    old, new = make_file("lost1", 100_000, 10), make_file("lost2", 7 * MB, 11)
    shorter = {"some": (r"rights = read,write,flush,verify", "rights = read,verify"),
               "told": (r"rights = write,flush,verify,read", "rights = read,verify"),
               "all": (r"\[export all\].*?(?=\[export good)", "")}
    for e, change in shorter.items():
        t.push(old, e)
        ignore = () if e == "told" else ("--ignore-revoke",)
        p = slow_push(t, new, e, rate="512K", args=(*ignore, "--block", "64K"))  # takes 14 s
        granted(t, e, 2)
        edit(t, *change)
        wait_for(lambda: re.search(f"export {e}: rights of \\S+ will be revoked in 60.0 s", t.logged()))
        assert p.poll() is None, p.communicate()
        os.unlink(path(f"lost.{e}.weft"))
        began = time.monotonic()
        out, err = p.communicate(timeout=30)
        took = time.monotonic() - began
        assert p.returncode in FAILED and took < 2, (e, p.returncode, took, out, err)
        one_line(err, "nothing was committed, the export keeps generation 1")
        # A Flush may have found the loss before the periodic check did.
        wait_for(lambda: f"export {e}: LOST: {path(f'lost.{e}.weft')} was removed" in t.logged())
        wait_for(lambda: tel.ask(f"/weft/target/export,{e}")["grants_now"] == 0)
        now = tel.ask(f"/weft/target/export,{e}")
        assert now["grants"] == "nothing" and now["writer"] == 0 and now["files_lost"] == 1, now
    t.push(new, "good")
    assert t.term() == 0


def test_bad_configuration():
    """A configuration with an error changes nothing at SIGHUP. A change that needs a restart is reported."""
    t, tel = start("bad", {"demo": {"rights": "read,verify"}})
    edit(t, r"rights = read,verify", "rights = red")
    assert "nothing was changed" in t.logged() and "rights" in t.logged(), t.logged()
    assert tel.ask("/weft/target/export,demo")["grants"] == "read,verify"
    edit(t, r"rights = red", "rights = read,verify")
    wait_for(lambda: t.logged().count("SIGHUP") >= 2)
    assert "restart" not in t.logged(), t.logged()
    edit(t, r"telemetry = yes(.*)keepalive_ms = 500", "telemetry = yes\nmemory_mb = 300\\1credits = 9\nkeepalive_ms = 500\n"
         "known_as = 192.0.2.1:7471\nauth_timeout_ms = 700")
    edit(t, r"rights = read,verify", "rights = read,write,verify\nhash = sha256",
         "[export more]\npersist = volatile\nsize = 1M\nrights = read\n")
    wait_for(lambda: "export more: is served now" in t.logged())
    log = t.logged()
    assert len(re.findall(r"\[\w+\] \w+: changes with a restart", log)) == 8, log
    for key in ("[weft] memory_mb", "[target] credits", "[target] known_as", "[target] auth_timeout_ms"):
        assert f"{key}: changes with a restart" in log, (key, log)
    assert "export demo: more rights than it started with come with a restart" in log, log
    assert "export demo: path, image, ceph, size, format, persist, hash, hash_key_file, checksums, scrub, snapshots and " \
        "numa_node change" in log, log
    assert tel.ask("/weft/target/export,demo")["grants"] == "read,verify"
    assert tel.ask("/weft/target/exports") == {"0": "demo", "1": "more"}
    assert tel.ask("/weft/target/export,more")["grants"] == "read"
    for ask in ("/weft/target/export,none", "/weft/target/export"):
        assert list(tel.ask(ask)) == ["error"], ask
    assert t.term() == 0


def test_bad_range():
    """A Verify with a different digest: one log line, and a counter."""
    for k in ("a", "b"):
        with open(path(f"key.{k}"), "w") as f:
            f.write(f"the key of {k}, long enough for anybody\n")
        os.chmod(path(f"key.{k}"), 0o600)
    t, tel = start("sus", {"demo": {"hash": "hmac-sha256", "hash_key_file": path("key.a")}})
    src = make_file("sus1", MB, 6)
    rc, _, err = t.cp(src, "weft://10.0.0.1/demo", args=["--hash-key", path("key.b")])
    assert rc == 1
    one_line(err, "verify failed")
    lines = [x for x in t.logged().splitlines() if "BAD RANGE" in x]
    assert len(lines) == 1, t.logged()
    assert re.search(r"export demo: BAD RANGE: \d+ octets at offset \d+ of \S*sus.demo.weft: "
                     r"the medium holds something else \(by \S+\)", lines[0]), lines
    now = tel.ask("/weft/target/export,demo")
    assert now["bad_ranges"] == 1 and "hash mismatch" in now["bad_range_0"], now
    assert t.term() == 0


if __name__ == "__main__":
    main([test_reduced, test_revoked, test_reads_held, test_in_time, test_warned, test_warned_comparing, test_warned_in_time,
          test_lost_meanwhile, test_bad_configuration, test_bad_range])
