#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-cp: standard input and output, several files, --verify-only, a limit of the rate, the progress bar, exit statuses.

test_cp.py BUILD [CASE...]. test_cp_resume.py is for what is interrupted, and goes on.
"""
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

from cp_runs import BLOCK, EXPORTS, MIB, await_taken, copy, granted, octets, server, spawn, url, whole
from weft_e2e import PROCS, Target, app, main, make_file, path, run, sha


def test_stdin():
    """A pipe of unknown length into an object and into a volume, with whole pages and without, by either way."""
    t = server("in")
    for n in (0, 4096, 3 * MIB + 4097):
        f = make_file("in.src", n, n + 1)
        for export in EXPORTS:
            for way in ((), ("--pull",)):
                out = copy(t, *way, "--json", "-", url(export), stdin=octets(f))[1]
                report = json.loads(out)
                assert report["bytes"] == n and report["source"] == "-" and report["verified"], report
                assert sha(whole(t, export, n)) == sha(f), (n, export, way)


def test_stdin_slow():
    """A pipe that has nothing for longer than the target's keepalive: both sides wait, and nothing is lost."""
    t = server("slow")
    data = octets(make_file("slow.src", 600000, 2))
    for export in EXPORTS:
        p = spawn(t, "-q", "-", url(export), stdin=subprocess.PIPE)
        for piece, pause in ((data[:5], 0.1), (data[5:300001], 1.2), (data[300001:], 0)):
            p.stdin.write(piece)
            p.stdin.flush()
            time.sleep(pause)
        p.stdin.close()
        assert p.wait(timeout=30) == 0, p.stderr.read()
        assert octets(whole(t, export, len(data))) == data


def test_pipe_timeout():
    """A pipe that pauses for longer than --timeout is no target that does not answer."""
    t = server("pt")
    data = octets(make_file("pt.src", 3 * MIB, 6))
    for export in EXPORTS:
        for args in (("-", url(export)), ("--verify-only", "-", url(export))):
            p = spawn(t, "-q", "--timeout", "0.5", *args, stdin=subprocess.PIPE)
            for piece in (data[:BLOCK + 5], data[BLOCK + 5:]):
                p.stdin.write(piece)
                p.stdin.flush()
                await_taken(p)
                time.sleep(1.3)
            p.stdin.close()
            assert p.wait(timeout=30) == 0, (args, p.stderr.read())
        length = ("--length", "3M") if export == "disk" else ()
        p = spawn(t, "-q", "--timeout", "0.5", "--block", "64K", *length, url(export), "-")
        got = os.read(p.stdout.fileno(), 1000)
        time.sleep(1.3)
        got += p.stdout.read()
        assert p.wait(timeout=30) == 0 and got == data, p.stderr.read()


def test_stdin_length():
    """--length of standard input: fewer octets are an error and commit nothing, more are not read. What does not fit is refused."""
    t = server("len")
    data = octets(make_file("len.src", MIB + 77, 3))
    for export in EXPORTS:
        copy(t, "--length", "1M", "-", url(export), stdin=data)
        assert octets(whole(t, export, MIB)) == data[:MIB]
        err = copy(t, "--length", "2M", "-", url(export), stdin=data, status=1)[2]
        assert f"ends at octet {len(data)}, --length says {2 * MIB}" in err, err
        err = copy(t, "-", url(export), stdin=bytes(17 * MIB), status=1)[2]
        assert "more octets than fit" in err, err
    assert octets(whole(t, "demo", MIB)) == data[:MIB], "an object that was not committed"
    err = copy(t, "-", url("demo"), stdin=os.open(path("."), os.O_RDONLY), status=1)[2]
    assert "is a directory" in err, err


def test_stdout():
    """Nothing but data on standard output: holes as zeros, the report on standard error."""
    t = server("out")
    f = path("out.src")
    with open(f, "wb") as o:
        o.write(b"a" * 5000)
        o.seek(3 * MIB)
        o.write(b"b" * 70001)
    for export in EXPORTS:
        copy(t, f, url(export))
        length = () if export == "demo" else ("--length", str(os.path.getsize(f)))
        _, out, err = copy(t, *length, url(export), "-", text=False)
        assert out == octets(f), export
        assert b"pulled" in err, err
        _, out, err = copy(t, "--json", *length, url(export), "-", text=False)
        assert out == octets(f) and json.loads(err)["bytes"] == len(out)
        _, out, err = copy(t, "-q", *length, url(export), "-", text=False)
        assert out == octets(f) and err == b"", err
        with open(path("out.file"), "wb") as o:
            assert copy(t, "-q", *length, url(export), "-", stdout=o)[0] == 0
        assert sha(path("out.file")) == sha(f)
        with open("/dev/full", "wb") as o:
            err = copy(t, *length, url(export), "-", stdout=o, status=1)[2]
        assert "standard output: cannot be written: No space left" in err, err


def test_stdout_slow():
    """A reader that takes its time, longer than the target's keepalive, gets all; one that leaves ends the pull."""
    t = server("sl")
    f = make_file("sl.src", 3 * MIB, 4)
    for export in EXPORTS:
        copy(t, f, url(export))
        p = spawn(t, "-q", "--block", "64K", "--length", str(3 * MIB), url("disk"), "-") if export == "disk" else \
            spawn(t, "-q", "--block", "64K", url("demo"), "-")
        got = os.read(p.stdout.fileno(), 1000)
        time.sleep(1.5)
        got += p.stdout.read()
        assert p.wait(timeout=30) == 0, p.stderr.read()
        assert got == octets(f)
        p = spawn(t, "-q", "--block", "64K", url(export), "-")
        os.read(p.stdout.fileno(), 1000)
        p.stdout.close()
        assert p.wait(timeout=30) == 1
        err = p.stderr.read().decode()
        assert err.count("\n") == 1 and "standard output: cannot be written: Broken pipe" in err, err


NOT_WHOLE = "; what was written is not whole\n"


def test_stdout_damaged():
    """An object whose data are damaged goes to standard output before that is known; the line says what that means."""
    t = server("sd", size="4M")
    copy(t, make_file("sd.src", 2 * MIB, 13), url("demo"))
    t.kill()
    with open(path("sd.demo"), "r+b") as o:
        o.seek(octets(path("sd.demo")).index(octets(path("sd.src"))[:64]) + MIB)
        o.write(b"damage")
    t.start()
    _, out, err = copy(t, url("demo"), "-", status=1, text=False)
    assert len(out) == 2 * MIB and b"the checksum of its data is wrong" in err and err.decode().endswith(NOT_WHOLE), err
    err = copy(t, url("demo"), path("sd.out"), status=1)[2]
    assert err.endswith("the checksum of its data is wrong; nothing was written\n"), err
    # Nothing has gone there.
    assert "not whole" not in copy(t, url("none"), "-", status=1)[2]


def test_stdout_lost():
    """An export that is lost in the middle, whatever is asked for then: data of an object, extents of a volume."""
    t = server("so")
    f = path("so.src")
    with open(f, "wb") as o:
        for i in range(32):
            o.seek(2 * i * 65536)
            o.write(b"d" * 65536)
        # The 64th extent is a hole of many blocks.
        o.seek(12 * MIB)
        o.write(b"e" * MIB)
    for export, asked in zip(EXPORTS, ("read failed", "its extents: ")):
        copy(t, f, url(export))
        p = spawn(t, "--ignore-revoke", *(("--length", "13M") if export == "disk" else ()), url(export), "-")
        got = 0
        while got < 63 * 65536:
            got += len(os.read(p.stdout.fileno(), 63 * 65536 - got))
        os.unlink(path(f"so.{export}"))
        while f"export {export}: LOST" not in t.logged():
            assert p.poll() is None, p.stderr.read()
            time.sleep(0.01)
        p.stdout.read()
        assert p.wait(timeout=20) != 0
        err = p.stderr.read().decode()
        assert asked in err and err.endswith(NOT_WHOLE) and err.count("written") == 1, err


def test_signals():
    """SIGINT and SIGTERM: 128 + the signal, one line, also while a pipe or a retry is awaited; an object keeps its generation."""
    t = server("sig")
    f = make_file("sig.src", MIB, 5)
    copy(t, f, url("demo"))
    gone = Target("sig2", {})
    for args, stdin in (((f, url("demo"), "--rate", "100K"), subprocess.DEVNULL), (("-", url("demo")), subprocess.PIPE),
                        ((f, url("demo"), "--rate", "100K", "--retries", "3"), subprocess.DEVNULL)):
        for sig, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with granted(t):
                p = spawn(t, "--block", "4K", *args, stdin=stdin)
            p.send_signal(sig)
            _, err = p.communicate(timeout=10)
            assert p.returncode == status, (args, p.returncode, err)
            assert err.count(b"\n") == 1 and err.startswith(b"weft-cp: interrupted"), err
    p = spawn(gone, f, url("demo"), "--retries", "3", "--retry-wait", "20")
    assert b"again in" in p.stderr.readline()
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=10)[1]
    assert p.returncode == 130 and err == b"weft-cp: interrupted\n", (p.returncode, err)
    assert sha(whole(t, "demo", MIB)) == sha(f)


def child(p):
    """The process that makes the attempt of a weft-cp of several files."""
    while True:
        with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
            pids = f.read().split()
        if pids:
            return pids[0]
        assert p.poll() is None, p.communicate()
        time.sleep(0.005)


def test_signal_between():
    """A signal that comes when one file has been copied and others have not; SIGCHLD ignored by the program that starts weft-cp."""
    t = server("sb")
    os.mkdir(path("sb"))
    files = [make_file(f"sb/{n}", MIB, 5) for n in EXPORTS]
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    p = spawn(t, *files, url(""))
    signal.signal(signal.SIGCHLD, old)
    pid = child(p)
    p.send_signal(signal.SIGSTOP)
    while True:
        with open(f"/proc/{pid}/stat") as f:
            if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                break
        time.sleep(0.005)
    p.send_signal(signal.SIGTERM)
    p.send_signal(signal.SIGCONT)
    _, err = p.communicate(timeout=10)
    assert p.returncode == 143 and err == b"weft-cp: interrupted: 1 of 2 files were not copied\n", (p.returncode, err)
    assert sha(whole(t, "demo", MIB)) == sha(files[0])


def test_names():
    """Several files and folders go to the exports of their names, several exports to files of theirs."""
    t = Target("na", {n: {"path": path(f"na.{n}"), "size": "4M"} for n in ("one", "two", "three")}).start()
    os.makedirs(path("na/deep/deeper"))
    for i, name in enumerate(("na/one", "na/deep/two", "na/deep/deeper/three")):
        make_file(name, 100000 + i, i)
    copy(t, path("na"), "weft://10.0.0.1/")
    os.mkdir(path("na.out"))
    _, out, _ = copy(t, "--json", *[url(n) for n in ("one", "two", "three")], path("na.out/"))
    assert [json.loads("{" + d)["bytes"] for d in out.split("{", 1)[1].split("\n{")] == [100000, 100001, 100002]
    for name, at in (("one", "na/one"), ("two", "na/deep/two"), ("three", "na/deep/deeper/three")):
        assert sha(path(f"na.out/{name}")) == sha(path(at))
    copy(t, "--verify-only", path("na"), "weft://10.0.0.1/")
    # Some fail: the others go all the same, and each failure has a line.
    make_file("na/two", 200000, 9)
    make_file("na/four", 10, 9)
    os.unlink(path("na/deep/two"))
    os.symlink("nowhere", path("na/three.link"))
    _, _, err = copy(t, "-q", path("na"), path("na.no"), "weft://10.0.0.1/", status=4)
    lines = err.splitlines()
    assert len(lines) == 3, err
    for word in ("na/three.link: No such file", 'na/four: weft://10.0.0.1:7471: no export "four"', "na.no: cannot be read: No such file"):
        assert word in err, (word, err)
    assert sha(whole(t, "two", 200000)) == sha(path("na/two"))
    # A name that is there twice: nothing is done.
    make_file("na/deep/one", 10, 9)
    assert "would both go to" in copy(t, path("na"), "weft://10.0.0.1/", status=2)[2]
    assert sha(whole(t, "one", 100000)) == sha(path("na/one"))


def test_verify_only():
    """--verify-only tells equal from different, of objects and volumes, and moves no data."""
    t = server("vo")
    f = make_file("vo.src", 2 * MIB + 5, 6)
    _, _, err = copy(t, "--verify-only", f, url("demo"), status=3)
    assert "holds nothing yet" in err, err
    for export in EXPORTS:
        copy(t, f, url(export))
        report = json.loads(copy(t, "--json", "--verify-only", f, url(export))[1])
        assert report["op"] == "verify" and report["bytes"] == 2 * MIB + 5, report
        copy(t, "--verify-only", url(export), f)
        copy(t, "--verify-only", "-", url(export), stdin=octets(f))
        other = bytearray(octets(f))
        other[BLOCK + 9] ^= 1
        other[-1] ^= 1
        with open(path("vo.other"), "wb") as o:
            o.write(other)
        err = copy(t, "--verify-only", path("vo.other"), url(export), status=3)[2]
        assert err.count("\n") == 1 and f"first in the block at octet {BLOCK}, in blocks of {BLOCK + 5} octets" in err, err
    for cut in (MIB, 2 * MIB + 4):
        with open(path("vo.cut"), "wb") as o:
            o.write(octets(f)[:cut])
        copy(t, "--verify-only", path("vo.cut"), url("demo"), status=3)
        copy(t, "--verify-only", path("vo.cut"), url("disk"))
    with open(path("vo.long"), "wb") as o:
        o.write(octets(f) + b"more")
    copy(t, "--verify-only", path("vo.long"), url("demo"), status=3)
    # A pipe that goes on behind the volume's end
    copy(t, "-q", url("disk"), path("vo.whole"))
    data = octets(path("vo.whole"))
    copy(t, "--verify-only", "-", url("disk"), stdin=data)
    copy(t, "--verify-only", "--length", str(len(data)), "-", url("disk"), stdin=data + b"m")
    err = copy(t, "--verify-only", "-", url("disk"), stdin=data + b"m", status=3)[2]
    assert f"first in the block at octet {len(data)}, in blocks of 1 octets" in err, err
    assert sha(whole(t, "demo", 2 * MIB + 5)) == sha(f)


def test_verify_endless():
    """--verify-only looks at a source to the end of what the export has: neither an endless one nor one that stays open keeps it."""
    t = server("ve", size="4M")
    f = make_file("ve.src", 2 * MIB + 5, 12)
    copy(t, f, url("demo"))
    copy(t, "-q", url("disk"), path("ve.whole"))
    data = {"demo": octets(f), "disk": octets(path("ve.whole"))}
    for export in EXPORTS:
        with open("/dev/zero", "rb") as zeros:
            err = copy(t, "--verify-only", "-", url(export), stdin=zeros, status=3, timeout=20)[2]
        assert "differs from export" in err, err
        p = spawn(t, "--verify-only", "-", url(export), stdin=subprocess.PIPE)
        p.stdin.write(data[export] + b"m")
        p.stdin.flush()
        assert p.wait(timeout=20) == 3
        err = p.stderr.read().decode()
        assert f"first in the block at octet {len(data[export])}, in blocks of 1 octets" in err, err
    with open(f, "ab") as o:
        o.write(b"more")
    err = copy(t, "--verify-only", f, url("demo"), status=3)[2]
    assert f"first in the block at octet {2 * MIB + 5}, in blocks of 4 octets" in err, err


def test_verify_retransmits():
    """--verify-only reports the segments that it had to send again: the target does not run for a time."""
    t = server("vr")
    data = octets(make_file("vr.src", 2 * BLOCK, 11))
    for export in EXPORTS:
        copy(t, "-q", "-", url(export), stdin=data)
        p = spawn(t, "--json", "--verify-only", "-", url(export), stdin=subprocess.PIPE)
        p.stdin.write(data[:BLOCK])
        p.stdin.flush()
        await_taken(p)
        t.proc.send_signal(signal.SIGSTOP)
        p.stdin.write(data[BLOCK:])
        p.stdin.flush()
        await_taken(p)
        time.sleep(1)  # longer than it waits for an acknowledgment
        t.proc.send_signal(signal.SIGCONT)
        out, err = p.communicate(timeout=30)
        assert p.returncode == 0, err
        report = json.loads(out)
        assert report["bytes"] == 2 * BLOCK and report["retransmits"] > 0, report


def rates(t, f, export, mib):
    """Copy at 8 MiB a second, both ways: the part of that rate which was had each time."""
    length = () if export == "demo" else ("--length", f"{mib}M")
    for args in ((f, url(export)), ("--pull", f, url(export)), (*length, url(export), path("ra.out"))):
        report = json.loads(copy(t, "--json", "--block", "64K", "--rate", "8M", *args)[1])
        yield report["bytes"] / report["seconds"] / (8 * MIB), args


def test_rate():
    """--rate is not exceeded, and what is there does not count."""
    t = server("ra")
    f = make_file("ra.src", 4 * MIB, 7)
    for export in EXPORTS:
        for rate, args in rates(t, f, export, 4):
            assert rate <= 1.05, (export, args, rate)
        report = json.loads(copy(t, "--json", "--resume", "--rate", "1M", f, url(export))[1])
        assert report["resumed_bytes"] == 4 * MIB and report["seconds"] < 3, report


def test_kept_rate():
    """--rate is kept within 5 %; on a machine without other work."""
    t = server("rk", size="64M")
    f = make_file("rk.src", 24 * MIB, 7)
    for export in EXPORTS:
        for rate, args in rates(t, f, export, 24):
            print(f"# {export} {args}: {rate:.3f}", flush=True)
            assert 0.95 <= rate <= 1.05, (export, args, rate)


def test_progress():
    """The bar and the time that is left, on a terminal only."""
    t = server("pr")
    f = make_file("pr.\033[31msrc", 2 * MIB, 8)
    ours, theirs = pty.openpty()
    p = spawn(t, "--block", "64K", "--rate", "1M", f, url("demo"), stderr=theirs)
    os.close(theirs)
    said = b""
    while select.select([ours], [], [], 10)[0]:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    assert p.wait(timeout=10) == 0
    # No control character of a name comes to a terminal.
    assert b"pr.?[31msrc [" in said and b"\033[31m" not in said + p.stdout.read(), said
    left = [int(n) for n in re.findall(rb" (\d+) s left", said)]
    # Two seconds in all: a busy machine may make a few drawings guess too much.
    assert left and left[-1] <= 1 and sorted(left)[len(left) // 2] <= 2, (left, said)
    p = spawn(t, "--rate", "4M", f, url("demo"))
    assert p.communicate(timeout=30)[1] == b""


def test_completion():
    """bash completes the options of --help, files, and the beginning of an address."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "apps", "cp", "weft-cp.bash")
    os.mkdir(path("bc"))
    for name in ("alpha", "beta"):
        make_file(f"bc/{name}", 10, 1)
    for words, want in ((["--re"], {"--reconnect", "--resume", "--retries", "--retry-wait", "--remove-snapshot"}), (["--rate", ""], set()),
                        (["--resume", path("bc/al")], {path("bc/alpha")}), ([path("bc/alpha"), "we"], {"weft://"})):
        line = " ".join(f"'{w}'" for w in [app("weft-cp"), *words])
        rc, out, err = run(["bash", "-c", f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _weft_cp; "
                            'printf "%s\\n" "${COMPREPLY[@]}"'])
        assert rc == 0 and not err and set(out.split()) == want, (words, out, err)


def test_statuses():
    """The exit statuses that --help lists, each with one line."""
    t = server("st")
    f = make_file("st.src", 1000, 9)
    copy(t, f, url("demo"))
    for args in (("--resume", "--no-verify", f, url("demo")), ("--verify-only", "--resume", f, url("demo")), ("--resume", url("demo"), "-"),
                 ("--verify-only", url("demo"), "-"), ("--retries", "x", f, url("demo")), ("--retry-wait", "0", f, url("demo")),
                 (f, f, url("demo")), (url("demo"), url("disk"), path("st.out")), ("-", "weft://10.0.0.1/"), (f, "weft://10.0.0.1"),
                 ("--length", "5", f, f, "weft://10.0.0.1/"), (f,), (), ("--list", "--resume", "weft://10.0.0.1"),
                 (url("demo"), path("st.none/")), ("--verify-only", "--pull", f, url("demo"))):
        err = copy(t, *args, status=2)[2]
        assert err.count("\n") == 1, (args, err)
    copy(t, f, url("none"), status=1)
    copy(t, path("st.none"), url("demo"), status=1)
    copy(t, make_file("st.other", 1000, 10), "--verify-only", url("demo"), status=3)
    copy(t, f, path("st.none"), "weft://10.0.0.1/", status=4)
    copy(t, "--timeout", "0.5", f, "weft://10.0.0.9/demo", status=5)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "weft-cp.md"), encoding="utf-8") as doc:
        table = {n for row in re.findall(r"^\| (\d[\d, ]*) \|", doc.read(), re.M) for n in row.split(", ")}
    assert table == set(re.findall(r"^  (\d+)  ", copy(t, "--help")[1], re.M)) | {"143"}, table
    with granted(t):
        p = spawn(t, "--block", "4K", "--rate", "50K", make_file("st.long", MIB, 1), url("demo"))
    busy = Target("st2", {"demo": {"path": path("st2.demo"), "size": "4M"}}, ports=2).start()
    with granted(busy):
        q = spawn(busy, "--block", "4K", "--rate", "50K", path("st.long"), url("demo"))
    copy(busy, f, "weft://10.0.1.1/demo", port=1, status=6)
    q.kill()
    q.wait()
    t.kill()
    err = p.communicate(timeout=10)[1]
    assert p.returncode == 5, (p.returncode, err)
    assert all(p.poll() is not None for p in PROCS if p is not busy.proc)


if __name__ == "__main__":
    # What is judged on a machine without other work has to be named.
    main([fn for name, fn in list(globals().items()) if name.startswith("test_") and (name != "test_kept_rate" or sys.argv[2:])])
