# SPDX-License-Identifier: BSD-3-Clause
"""Which tests belong to a rule, and how one test runs without leaving anything behind."""
import ctypes
import glob
import json
import os
import re
import resource
import select
import signal
import subprocess
import time

SUITES = ("unit", "sim", "access")
CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
CPU_FACTOR, CPU_EXTRA_S = 5, 3     # processor time of a mutant: at most factor * the original's + extra
WALL_FACTOR, WALL_EXTRA_S = 8, 15  # the same of wall-clock time, which a busy machine prolongs
MAX_OUT_BYTES = 1 << 28
NO_END = "fail: no end of computing"
libc = ctypes.CDLL(None, use_errno=True)


def programs(src, build):
    """{program: folder of its main source} of the C programs of SUITES."""
    def info(what):
        with open(os.path.join(build, "meson-info", f"intro-{what}.json"), encoding="utf-8") as f:
            return json.load(f)
    run = {os.path.relpath(t["cmd"][0], os.path.realpath(build)) for t in info("tests")
           if {s.split(":")[-1] for s in t["suite"]} & set(SUITES)}
    found = {}
    for target in info("targets"):
        path = os.path.relpath(target["filename"][0], os.path.realpath(build))
        if target["type"] != "executable" or path not in run:
            continue
        for part in target["target_sources"]:
            for source in part.get("sources", ()):
                name = os.path.relpath(source, os.path.realpath(src))
                if os.path.basename(name).startswith("test_"):
                    found[path] = os.path.dirname(name)
    return found


def ledger(src):
    """{(document, section): {(name of a program's file, case or None), ...}} of the conformance tables."""
    named = {}
    for path in [os.path.join(src, "docs", "conformance.md")] + glob.glob(os.path.join(src, "docs/conformance/*.md")):
        document = os.path.basename(path)[:-3]
        with open(path, encoding="utf-8") as f:
            rows = [line for line in f if line.startswith("| ")]
        for row in rows:
            cells = row.split("|")
            tests = {tuple((n.split(":", 1) + [None])[:2]) for n in re.findall(r"`([a-z0-9_]+(?::[^`]+)?)`", cells[-2])}
            keys = [(document, cells[1].strip())]
            if document == "conformance":
                keys = [("rfc" + m[0], m[1]) for m in re.findall(r"RFC (\d+)(?: s([\d.]+\d|\d))?", row)]
            for key in keys:
                named.setdefault(key, set()).update(("test_" + name, case) for name, case in tests)
    return named


def named_for(book, rules):
    """The tests (file, case) that the conformance tables name for these rules: for a section and those below it."""
    found = set()
    for document, section in rules:
        for (d, s), names in book.items():
            if d == document and (s == section or section and s.startswith(section + ".")):
                found |= names
    return found


def own_room(room):
    """In the child: its own /tmp and /run, its limits, and its own process group, which kill() ends."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 30, 4 << 30))
    if os.geteuid() == 0 and libc.unshare(CLONE_NEWNS) == 0:
        libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        for name in ("tmp", "run"):
            libc.mount(os.path.join(room, name).encode(), b"/" + name.encode(), None, MS_BIND, None)


def run(argv, room, cpu_s, wall_s, env=None):
    """(verdict, processor seconds). Verdict: "pass"; "fail: why", at the first failed case; or "time"."""
    for name in ("tmp", "run", "cwd"):
        os.makedirs(os.path.join(room, name), exist_ok=True)

    def child():
        own_room(room)
        if cpu_s:
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s) + 1))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         cwd=os.path.join(room, "cwd"), preexec_fn=child,
                         env={**os.environ, "TMPDIR": "/tmp" if os.geteuid() == 0 else os.path.join(room, "tmp"),
                              **(env or {})})
    why, tail, n_bytes, until = None, b"", 0, time.monotonic() + wall_s
    try:
        while why is None:
            if not select.select([p.stdout], [], [], max(0, until - time.monotonic()))[0]:
                why = "time"
                break
            data = os.read(p.stdout.fileno(), 65536)
            if not data:
                break
            n_bytes += len(data)
            tail = (tail + data)[-65536:]
            m = re.search(rb"^(not ok[^\n]*|Bail out![^\n]*)", tail, re.M)
            if m or n_bytes > MAX_OUT_BYTES:
                why = "fail: " + (m.group(1).decode(errors="replace") if m else "no end of output")
    finally:
        if why:
            kill(p)
        try:
            p.wait(max(1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            why = why or "time"
        kill(p)
        p.wait()
        p.stdout.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if why is None and p.returncode == -signal.SIGXCPU:
        why = NO_END
    if why is None and p.returncode not in (0, 77):
        why = f"fail: exit {p.returncode}"
    subprocess.run(["rm", "-rf"] + [os.path.join(room, n) for n in ("tmp", "run", "cwd")], check=False)
    return why or "pass", used


def kill(p):
    """End the test and all processes that it started: its process group."""
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def limits(cost):
    """(processor seconds, wall seconds) that a mutant may use if the original used cost = (cpu, wall)."""
    return CPU_FACTOR * cost[0] + CPU_EXTRA_S + 1, WALL_FACTOR * cost[1] + WALL_EXTRA_S
