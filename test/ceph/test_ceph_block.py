#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The block driver "rbd" on a Ceph cluster of this host: test_ceph_block.py BUILD BLOCK_DRIVERS BLOCK_CEPH BLOCK_SNAP.
TAP.

Starts a cluster of one mon and three OSDs (test/ceph/cluster) in a folder that is removed at the end. Runs the cases that
every block driver has to pass (the programs BLOCK_DRIVERS and BLOCK_SNAP), and those of a cluster whose parts are killed
(BLOCK_CEPH). At the end no process of the cluster and no weft-rbd is left.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(sys.argv[1])
TOOLS = ("ceph-mon", "ceph-osd", "ceph", "rados", "rbd", "ceph-authtool", "monmaptool")
n = bad = 0


def result(ok, what, notes=()):
    """Print one TAP line and its notes."""
    global n, bad
    n += 1
    bad += not ok
    print(f"{'ok' if ok else 'not ok'} {n} {what}")
    for line in notes:
        print(f"# {line}")
    sys.stdout.flush()


def left(words):
    """Processes whose command line has all of the words."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(w in line for w in words):
            found.append(f"{pid} {line}")
    return found


def cases(program, prefix, env):
    """Run a program's cases, those with a prefix or all, and pass their results on."""
    global n, bad
    p = subprocess.run([program] + ([prefix] if prefix else []), env=env, capture_output=True, text=True, timeout=600, check=False)
    before = n
    for line in p.stdout.splitlines():
        m = re.match(r"(ok|not ok) \d+ (.*)", line)
        if m:
            n += 1
            bad += m[1] != "ok"
            print(f"{m[1]} {n} {os.path.basename(program)}: {m[2]}")
        elif line.startswith("#"):
            print(line)
    if p.returncode != 0:
        for line in p.stderr.splitlines()[-20:]:
            print(f"# {line}")
    if p.returncode not in (0, 1) or n == before:
        result(False, f"{os.path.basename(program)} ended with status {p.returncode}")


def main():
    if not os.path.exists(os.path.join(BUILD, "apps", "rbd", "weft-rbd")):
        print("1..0 # SKIP weft-rbd is not built: librbd-dev is missing (.ci/deps ceph)")
        return 0
    missing = [t for t in TOOLS if shutil.which(t) is None]
    if missing:
        print(f"1..0 # SKIP no {', '.join(missing)} (.ci/deps ceph)")
        return 0
    folder = tempfile.mkdtemp(prefix="weft-ceph-")
    cluster = os.path.join(HERE, "cluster")
    try:
        up = subprocess.run([cluster, "up", folder], capture_output=True, text=True, timeout=180, check=False)
        result(up.returncode == 0, "a cluster starts", up.stderr.splitlines()[-10:])
        if up.returncode == 0:
            env = dict(os.environ, WEFT_TEST_CEPH=os.path.join(folder, "ceph.conf"), WEFT_TEST_CEPH_DIR=folder,
                       WEFT_TEST_CEPH_TOOLS=HERE)
            cases(sys.argv[2], "ceph", env)
            cases(sys.argv[3], "", env)
            cases(sys.argv[4], "ceph", env)  # last: its image has snapshots
    finally:
        subprocess.run([cluster, "down", folder], timeout=60, check=False)
        shutil.rmtree(folder, ignore_errors=True)
    rest = left([folder]) + left(["weft-rbd", folder])
    result(not rest, "no process is left", rest)
    result(not os.path.exists(folder), "no file is left")
    print(f"1..{n}")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
