#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One writer at a time, and an idle writer gives way, tested on the real target. test_writer.py BUILD [CASE...]"""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
sys.dont_write_bytecode = True
from test_auth import start  # noqa: E402
from test_opens import READ, WRITE, Taker, wait_for  # noqa: E402
from weft_e2e import main, make_file, path, sha  # noqa: E402

MIB = 1 << 20


def alice():
    return ["--auth", f"alice:{path('alice')}"]


def push(t, src, port=0, args=(), wait="0"):
    return t.cp(src, f"weft://10.0.{port}.1/demo", port=port, args=[*args, "--wait", wait])


def slowly(t, src, port=0, args=(), rate="1M"):
    """Start a writer that writes all the time and ignores revocations by the target."""
    before = t.logged().count("granted to")
    p = t.cp_start(src, f"weft://10.0.{port}.1/demo", port=port,
                   args=["--rate", rate, "--block", "64K", "--ignore-revoke", *args])
    wait_for(lambda: t.logged().count("granted to") > before)
    return p


def test_idle_gives_way():
    """An idle writer loses the place to a client that asks, after revoke_ms. The answer says when to try again."""
    t, tel = start("idle", "none", ports=2, extra="writer_idle_ms = 1500\nrevoke_ms = 1000\n")
    src = make_file("idle.src", MIB, 1)
    a = Taker(t, "demo")
    assert a.say(f"take 1 1 {WRITE:x}")[:2] == (1, 0)
    rc, _, err = push(t, src, port=1)
    assert rc == 6 and "is busy: another writer holds it" in err and "in 1." in err, err
    time.sleep(1.5)
    # From now on the idle writer has to give way. It would keep its other rights, but it has none.
    rc, _, err = push(t, src, port=1)
    assert rc == 6 and "has to give way; try again in 1." in err, err
    began = time.monotonic()
    rc, _, err = push(t, src, port=1, wait="20")
    assert rc == 0 and time.monotonic() - began < 5, (err, time.monotonic() - began)
    now = tel.ask("/weft/target/export,demo")
    assert now["writer_yields"] == 1 and now["revocations_invalidated"] == 1 and now["writer_refused"] >= 3, now
    assert t.logged().count("export demo: its writer 10.0.0.9") == 1, t.logged()
    assert sha(t.pull("demo", "idle.out", port=1)) == sha(src)
    assert a.say(f"take 1 1 {WRITE:x}")[:2] == (1, 0)
    a.quit()
    assert t.term() == 0


def test_at_work_stays():
    """A writer that writes slowly does not lose the place to another client of the same kind, however long that one
    waits."""
    t, tel = start("work", "none", ports=2, extra="writer_idle_ms = 500\nrevoke_ms = 100\n")
    p = slowly(t, make_file("work.src", 3 * MIB, 2), rate="512K")
    rc, _, err = push(t, make_file("work.new", MIB, 3), port=1, wait="2")
    assert p.poll() is None, "the writer has ended before the other had its answer"
    assert rc == 6 and "if nothing more comes of it" in err, err
    assert p.communicate(timeout=30)[1] is not None and p.returncode == 0
    now = tel.ask("/weft/target/export,demo")
    assert now["writer_yields"] == 0 and now["revocations"] == 0, now
    assert t.term() == 0


def test_name_goes_before():
    """An authenticated client takes the place from an unauthenticated writer, be it active or idle. Other clients that
    ask in the meantime do not get the place."""
    t, tel = start("name", "optional", ports=3, extra="revoke_ms = 700\n")
    src = make_file("name.src", MIB, 4)
    p = slowly(t, make_file("name.big", 3 * MIB, 5))
    rc, _, err = push(t, src, port=1, args=alice(), wait="20")
    assert rc == 0, err
    _, err = p.communicate(timeout=30)
    assert p.returncode == 1 and err.strip().count("\n") == 0, err
    assert sha(t.pull("demo", "name.out", port=1)) == sha(src)
    a = Taker(t, "demo")
    assert a.say(f"take 1 1 {WRITE | READ:x}")[:2] == (1, 0)
    began = time.monotonic()
    rc, _, err = push(t, src, port=1, args=alice())
    assert rc == 6 and "has to give way; try again in 0." in err, err
    # The former writer keeps its right to read. The place is reserved: neither the former writer nor another client
    # gets it.
    wait_for(lambda: tel.ask("/weft/target/export,demo")["writer"] == 0)
    assert time.monotonic() - began > 0.5
    for taker in (a, Taker(t, "demo", port=2)):
        granted, refused, status, why = taker.say(f"take 1 3 {WRITE:x}")
        assert (granted, refused, status) == (0, 3, 16) and "kept for a client that asked before" in why, why
    rc, _, err = push(t, src, port=1, args=alice())
    assert rc == 0, err
    now = tel.ask("/weft/target/export,demo")
    assert now["writer_yields"] == 2 and now["revocations"] == 2, now
    assert a.say(f"take 1 1 {WRITE:x}")[:2] == (1, 0)
    a.quit()
    assert t.term() == 0


def test_name_is_not_taken():
    """An authenticated writer that writes never loses the place, neither to an unauthenticated client nor to an
    authenticated one."""
    t, tel = start("kept", "optional", ports=3, extra="writer_idle_ms = 500\nrevoke_ms = 100\n")
    # It writes for longer than the two others need, which start late on a machine with other work.
    p = slowly(t, make_file("kept.src", 3 * MIB, 6), args=alice(), rate="384K")
    for args in ((), ["--auth", f"bob:{path('bob')}"]):
        rc, _, err = push(t, make_file("kept.new", MIB, 7), port=1, args=args, wait="1")
        assert p.poll() is None, "the writer has ended before the others had their answer"
        assert rc == 6 and "another writer holds it" in err, err
    _, err = p.communicate(timeout=30)
    assert p.returncode == 0, err
    assert tel.ask("/weft/target/export,demo")["writer_yields"] == 0
    assert t.term() == 0


if __name__ == "__main__":
    main([test_idle_gives_way, test_at_work_stays, test_name_goes_before, test_name_is_not_taken])
