#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The exit statuses of docs/exit-status.md, one after the other. test_exit_status.py BUILD [CASE...]"""
import os
import re
import shutil
import signal
import subprocess

from test_control import FULL, Controlled, line, objects
from weft_e2e import TMP, app, main, make_file, path, run

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "exit-status.md")
PROGRAMS = ("weft-target", "weft-ctl", "weft-cp", "weft-fsck")


def page():
    """{program: {the statuses that the page has}}"""
    with open(PAGE) as f:
        rows = [[c.strip() for c in x.strip().strip("|").split(" |")] for x in f if re.match(r"\| \d+ \|", x)]
    return {p: {int(r[0]) for r in rows if len(r) > k + 1 and r[k + 1]} for k, p in enumerate(PROGRAMS)}


def ends(status, *cmd, said=True):
    """The program ends with this status, and says one line when that is an error."""
    p = subprocess.run(cmd, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert p.returncode == status, (cmd, p.returncode, p.stdout, p.stderr)
    assert not said or (p.stderr.count("\n") == 1 and p.stderr.startswith(os.path.basename(cmd[0]) + ": ")), (cmd, p.stderr)
    return status


def test_page():
    """weft-ctl's errors are on the page; no two programs' columns are empty."""
    _, out, _ = run([app("weft-ctl"), "--reference"])
    ctl = {int(x) for x in re.findall(r"^\| (?:-\d+)? ?\| .*?\| (\d+) \|", out, re.M)} | {0}
    assert page()["weft-ctl"] == ctl, (page()["weft-ctl"], ctl)
    _, out, _ = run([app("weft-ctl"), "--help"])
    assert {int(x) for x in re.findall(r"^  (\d+) ", out, re.M)} == ctl, out


def test_target():
    seen = {ends(2, app("weft-target")), ends(2, app("weft-target"), "--nix"), ends(1, app("weft-target"), "-c", path("no.ini"))}
    with open(path("bad.ini"), "w") as f:
        f.write("[target]\nnix = 1\n")
    seen.add(ends(1, app("weft-target"), "--check-config", "-c", path("bad.ini")))
    for sig in (signal.SIGTERM, signal.SIGINT):
        t = Controlled(f"ta{sig}", objects("ta", "a")).start()
        seen.add(ends(0, app("weft-target"), "--size", "-c", t.conf, said=False))
        t.proc.send_signal(sig)
        assert t.proc.wait(timeout=20) == 0
    assert seen == page()["weft-target"], seen


def test_ctl():
    t = Controlled("ct", objects("ct", "a"), extra=f"state = {TMP}\n").start()
    ctl = [app("weft-ctl"), "-s", t.socket]
    with open(path("ct.set"), "w") as f:
        f.write("[export n]\nsize = 64K\npath = n.weft\n")
    seen = {ends(0, *ctl, "status", said=False), ends(2, *ctl), ends(2, *ctl, "nix"), ends(5, *ctl, "offline", "nix"),
            ends(3, app("weft-ctl"), "-s", path("none"), "status"), ends(10, *ctl, "diff", path("ct.set"), said=False),
            ends(0, *ctl, "apply", path("ct.set"), said=False), ends(0, *ctl, "diff", path("ct.set"), said=False),
            ends(2, *ctl, "loglevel", "x"), ends(1, *ctl, "diff", path("ct.none")),
            ends(7, *ctl, "export", "create", "a", "size=64K", "path=b.weft"),
            ends(0, *ctl, "offline", "n", said=False), ends(6, *ctl, "export", "resize", "n", "1M")}
    held = [t.client() for _ in range(65)]
    assert str(FULL) in line(held[64])
    seen.add(ends(9, *ctl, "status"))
    for s in held:
        s.close()
    # 4 is test_control's strangers; 8 takes a minute.
    assert seen | {4, 8} == page()["weft-ctl"], seen
    assert t.term() == 0


def test_cp():
    t = Controlled("cp", objects("cp", "a")).start()
    src = make_file("cp.src", 3000, 1)
    seen = {2: ends(2, app("weft-cp")), 1: t.cp(src, "weft://10.0.0.1/nix")[0], 0: t.cp(src, "weft://10.0.0.1/a")[0]}
    assert all(k == v for k, v in seen.items()) and set(seen) <= page()["weft-cp"], seen
    assert t.term() == 0


def test_fsck():
    t = Controlled("fs", {"a": {"path": path("fs.a"), "size": "256K"}}).start()
    for seed in (1, 2):
        t.push(make_file("fs.src", 50000, seed), "a")
    fsck = [app("weft-fsck"), "--quiet"]
    seen = {ends(8, *fsck, path("fs.a"), said=False)}  # in use
    assert t.term() == 0
    seen |= {ends(0, *fsck, path("fs.a"), said=False), ends(16, *fsck, "--nix"), ends(8, *fsck, path("fs.none"), said=False)}
    shutil.copy(path("fs.a"), path("fs.b"))
    with open(path("fs.b"), "r+b") as f:  # a wrong UUID is left, another field of the superblock is mended
        f.seek(16)
        octet = f.read(1)
        f.seek(16)
        f.write(bytes([octet[0] ^ 1]))
    got = subprocess.run([*fsck, path("fs.b")], capture_output=True, timeout=60).returncode
    assert got == 4, got
    seen.add(got)
    got = subprocess.run([*fsck, "--repair", path("fs.b")], capture_output=True, timeout=60).returncode
    assert got in (1, 4), got
    assert seen | {got} <= page()["weft-fsck"], seen


if __name__ == "__main__":
    main([test_page, test_target, test_ctl, test_cp, test_fsck])
