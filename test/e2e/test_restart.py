#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Restarts and upgrades of a target under load: clients stall, and none fails.

test_restart.py BUILD [CASE...]. WEFT_RESTARTS=N is the number of restarts, and of upgrades, of a case [4; 100 in suite soak].
WEFT_TEST_SEED=N repeats the choices.
"""
import glob
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import time

from cp_runs import EXPORTS, MIB, await_moved, copy, server, spawn, url, whole
from test_nbd import client_role, mortal
from test_volume import volume
from weft_e2e import BUILD, PROCS, Skip, Target, app, main, make_file, memif, path, sha

SEED = int(os.environ.get("WEFT_TEST_SEED", "1"))
RESTARTS = int(os.environ.get("WEFT_RESTARTS", "4"))
LOCKER = """#!/usr/bin/python3
import fcntl, os, sys
if "--check-config" not in sys.argv:
    f = os.open("{disk}", os.O_RDWR)
    os.set_inheritable(f, True)
    fcntl.flock(f, fcntl.LOCK_EX)
os.execv("{real}", ["{real}", *sys.argv[1:]])
"""
LONG = RESTARTS > 9  # suite soak
LARGE, GOAL_MS = 7, 1000


class Rider:
    """A program that uses the volume by the library's link, and must not see that the target ends."""

    def __init__(self, t, seed):
        if os.path.exists(t.sock(0)):
            os.unlink(t.sock(0))
        self.err = open(path(f"rider.{seed}.err"), "w+")
        self.proc = subprocess.Popen([os.path.join(BUILD, "test/e2e/link_probe"), memif(0, "server", t.sock(0)), "10.0.0.2/24", "10.0.0.1",
                                      "disk", str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.err, text=True)
        PROCS.append(self.proc)
        while not os.path.exists(t.sock(0)):
            assert self.proc.poll() is None, self.said()
            time.sleep(0.01)

    def stands(self, n=0):
        """Wait until the link stands again, for the n-th time."""
        end = time.monotonic() + 20
        while self.said().count(": stands") < n or ": stands" not in (self.said().splitlines() or [""])[-1]:
            assert self.proc.poll() is None and time.monotonic() < end, self.said()
            time.sleep(0.02)

    def stalls_ms(self):
        """How long the link did not stand, each time."""
        said = [re.match(r"link_probe: ([0-9.]+) s: (lost|stands)", line) for line in self.said().splitlines()]
        at = [(float(m[1]), m[2]) for m in said if m]
        return [round(1000 * (b[0] - a[0])) for a, b in zip(at, at[1:]) if (a[1], b[1]) == ("lost", "stands")]

    def said(self):
        self.err.seek(0)
        return self.err.read()

    def rides(self):
        assert self.proc.stdout.readline() == "answers\n", self.said()

    def end(self):
        """(operations, reconnects, repeated, rewritten, longest time without an answer in ms)"""
        out = self.proc.communicate(timeout=60)[0].split()
        assert self.proc.returncode == 0 and out[0] == "done", (out, self.said())
        return [int(w) for w in out[1:]]


class Installed(Target):
    """A target whose program and libraries are copies that can be replaced, and that has a control socket."""

    def __init__(self, name, exports, **kw):
        self.root = path(f"{name}.root")
        os.makedirs(os.path.join(self.root, "apps/target"))
        self.install(BUILD)
        self.control = path(f"{name}.control")
        super().__init__(name, exports, exe=self.program(), extra=f"control = {self.control}\ncredits = 64\n{kw.pop('extra', '')}", **kw)

    def program(self):
        return os.path.join(self.root, "apps/target/weft-target")

    def put(self, text_or_file, at):
        if os.path.exists(text_or_file):
            shutil.copy(text_or_file, at + ".new")
        else:
            with open(at + ".new", "w") as f:
                f.write(text_or_file)
            os.chmod(at + ".new", 0o755)
        os.rename(at + ".new", at)

    def install(self, build):
        """What a package does: put other files in the place of those that run."""
        for lib in glob.glob(os.path.join(build, "libweft*.so.?.?")):
            self.put(os.path.realpath(lib), os.path.join(self.root, os.path.basename(lib)))
        self.put(os.path.join(build, "apps/target/weft-target"), self.program())

    def restart(self, status=0):
        """weft-ctl restart: what it said. With success the next program serves when this returns."""
        before = self.logged().count("weft-target: ready:")
        p = subprocess.run([app("weft-ctl"), "--socket", self.control, "restart"], capture_output=True, text=True, timeout=60)
        assert p.returncode == status, (p, self.logged())
        end = time.monotonic() + 20
        while status == 0 and self.logged().count("weft-target: ready:") == before:
            assert self.proc.poll() is None and time.monotonic() < end, self.logged()
            time.sleep(0.01)
        return p.stderr

    def first_answer(self):
        p = subprocess.run([app("weft-ctl"), "--socket", self.control, "status", "--json"], capture_output=True, text=True, timeout=30)
        return json.loads(p.stdout)["pid"]


def end_and_start(t, rng, exe=None):
    """End the target, in order or not, and start it again, as another program if one is given."""
    if rng.random() < 0.5:
        assert t.term() == 0, t.logged()
    else:
        t.kill()
    PROCS[:] = [p for p in PROCS if p.poll() is None]
    t.exe = exe or t.exe
    t.start()


def ride(name, exes):
    rng = random.Random(SEED)
    t = mortal(name, {"disk": volume(f"{name}.disk", "16M")}, extra="credits = 64", keepalive_ms=200)
    rider = Rider(t, SEED)
    t.start()
    rider.rides()
    for i in range(RESTARTS):
        time.sleep(rng.uniform(0.05, 0.3))
        assert rider.proc.poll() is None, rider.said()
        end_and_start(t, rng, exes[(i + 1) % len(exes)])
        if rng.random() < 0.8:  # else the target ends while the link is still being made
            rider.stands()
    time.sleep(0.5)
    ops, reconnects, repeated, rewritten, longest = rider.end()
    print(f"# seed {SEED}: {RESTARTS} ends, {ops} operations, {reconnects} reconnects, {repeated} repeated, {rewritten} written again, "
          f"longest time without an answer {longest} ms", flush=True)
    assert reconnects >= RESTARTS // 2 and ops > 50 * RESTARTS and repeated > 0
    assert t.term() == 0


def previous():
    """A build of the version before volumes had a verifier: WEFT_PREVIOUS, or made from the repository's history."""
    if "WEFT_PREVIOUS" in os.environ:
        return os.environ["WEFT_PREVIOUS"]
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    def git(*args):
        return subprocess.run(["git", "-C", source, *args], capture_output=True, text=True, check=True, timeout=120).stdout.strip()
    try:
        # The parent of the commit that brought the verifier
        rev = git("log", "--diff-filter=A", "--format=%H", "--", "lib/volcall/volcall_link.c").splitlines()[-1] + "^"
        git("worktree", "add", "--detach", path("previous"), rev)
    except (subprocess.CalledProcessError, FileNotFoundError, IndexError):
        raise Skip("no history of the repository here, from which the previous version could be built") from None
    build = path("previous/build")
    try:
        for command in (["meson", "setup", "--buildtype=debugoptimized", build, path("previous")],
                        ["ninja", "-C", build, "-j2", "apps/target/weft-target"]):
            p = subprocess.run(command, capture_output=True, text=True, timeout=3600)
            assert p.returncode == 0, p.stdout[-3000:]
        shutil.move(build, path("previous.build"))
    finally:
        git("worktree", "remove", "--force", path("previous"))
    return path("previous.build")


def test_upgrades():
    """Upgrades to this version and downgrades to the one before, under load."""
    if not LONG and "WEFT_PREVIOUS" not in os.environ:
        raise Skip("suite soak builds the version before")
    ride("up", [app("weft-target"), os.path.join(previous(), "apps/target/weft-target")])


def test_library():
    """A program with a link: no request fails, and all octets are as they were written."""
    ride("rl", [None])


def test_copies():
    """weft-cp without an option: a target that ends in the middle is waited for, and the copy goes on where it was."""
    t = server("rc")
    rng = random.Random(SEED)
    f = make_file("rc.src", 3 * MIB, SEED)
    for export, ways in zip(EXPORTS, (("push", "pull"), ("push", "fetch", "pull")) if LONG else (("push",), ("fetch", "pull"))):
        length = ("--length", "3M") if export == "disk" else ()
        for way in ways:
            args = (*length, url(export), path("rc.out")) if way == "pull" else (*(("--pull",) if way == "fetch" else ()), f, url(export))
            part = None
            p = spawn(t, "--json", "--timeout", "2", "--rate", "6M", *args, reconnect="60")
            if way == "pull":
                part = path(f".weft-cp.{p.pid}.tmp")
            await_moved(p, MIB, f, part)
            end_and_start(t, rng)
            out, err = p.communicate(timeout=60)
            assert p.returncode == 0, (export, way, err)
            report = json.loads(out)
            assert report["resumed_bytes"] > 0 and b"going on when the target is back" in err and err.count(b"\n") == 1, (export, way, err)
            assert sha(path("rc.out") if way == "pull" else whole(t, export, 3 * MIB)) == sha(f), (export, way)
            assert part is None or not os.path.exists(part)


def test_copies_end():
    """A target that does not come back: the copy ends when its time is over, and a pull leaves nothing. A signal ends it at once."""
    t = server("re")
    f = make_file("re.src", 4 * MIB, SEED)
    copy(t, f, url("demo"))
    for args, status in (((url("demo"), path("re.out")), 5), ((url("demo"), path("re.out")), 143)):
        p = spawn(t, "--timeout", "1", "--rate", "4M", *args, reconnect="60" if status == 143 else "1")
        part = path(f".weft-cp.{p.pid}.tmp")
        await_moved(p, MIB, f, part)
        t.kill()
        began = time.monotonic()
        err = ""
        if status == 143:
            err = p.stderr.readline().decode()
            time.sleep(SEED % 3 / 5)
            p.send_signal(signal.SIGTERM)
        err += p.communicate(timeout=30)[1].decode()
        assert p.returncode == status and "for up to" in err, (p.returncode, err)
        assert (status == 143 or time.monotonic() - began >= 1) and not os.path.exists(path("re.out"))
        assert not os.path.exists(part)
        t.start()
    # A transfer that never began is no reason to wait.
    t.kill()
    began = time.monotonic()
    assert "for up to" not in copy(t, "--timeout", "1", f, url("demo"), status=5, reconnect="60")[2]
    assert time.monotonic() - began < 10


def test_in_place():
    """weft-ctl restart: the same process id, and a client that rides over it. A program that is refused, or that ends before it
    serves, leaves the old one serving."""
    t = client_role(Installed("ip", {"disk": volume("ip.disk", "16M")}, keepalive_ms=200))
    rider = Rider(t, SEED)
    t.start()
    rider.rides()
    pid = t.first_answer()
    for i in range(2):
        t.restart()
        assert t.first_answer() == pid == t.proc.pid
        rider.stands(i + 1)
    # It is no program; it refuses the configuration; it hangs up at once.
    for text, why in (("#!/no/such/program\n", "cannot be executed"),
                      ("#!/bin/sh\necho weft-target: t.ini:7: nonsense >&2; exit 2\n", "t.ini:7: nonsense"),
                      ("#!/bin/sh\nkill -9 $$\n", "ended by signal 9")):
        t.put(text, t.program())
        err = t.restart(status=1)
        assert why in err and "this target goes on" in err, err
    assert t.logged().count("ready:") == 3 and t.first_answer() == pid
    # It takes the configuration, and then cannot start: the medium is locked, for it alone.
    real = os.path.join(BUILD, "apps/target/weft-target")
    t.put(LOCKER.format(disk=path("ip.disk"), real=real), t.program())
    t.restart()
    assert "the one of before goes on" in t.logged() and t.first_answer() == pid, t.logged()
    rider.stands(3)
    ops, reconnects, *_ = rider.end()
    print(f"# {ops} operations over {reconnects} reconnects", flush=True)
    assert reconnects == 3 and t.term() == 0


def test_little_memory():
    """The machine has less memory than a second target takes: the check counts what the old one gives back."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skip("unshare -m is not allowed here")
    fake, real = path("lm.meminfo"), os.path.join(BUILD, "apps/target/weft-target")
    inside = "mount --bind {fake} /proc/meminfo && exec {real} \"$@\""

    def available(mib):
        with open(fake, "w") as f:
            f.write(f"MemAvailable: {mib << 10} kB\nSwapFree: 0 kB\nHugePages_Free: 0\nHugepagesize: 2048 kB\n")

    available(1024)
    t = client_role(Installed("lm", {"disk": volume("lm.disk", "16M"), "demo": {"path": path("lm.file"), "size": "64M", "persist": "file"}},
                              extra="staging = 64M\n[weft]\nhugepages = never\n", keepalive_ms=200, args=("--strict",)))
    installed = t.program() + ".real"
    t.put(f"#!/bin/sh\nexec unshare -m --propagation private sh -c '{inside.format(fake=fake, real=installed)}' x \"$@\"\n", path("lm.exe"))
    t.put(real, installed)
    t.exe = path("lm.exe")
    rider = Rider(t, SEED)
    t.start()
    rider.rides()
    pid = t.first_answer()
    available(330)  # of the 370 MiB that a start takes
    check = ["nsenter", "-t", str(pid), "-m", real, "-c", t.conf, "--check-config", "--strict"]
    p = subprocess.run(check, capture_output=True, text=True, timeout=30)
    assert p.returncode == 1 and "not enough memory" in p.stderr, p
    p = subprocess.run([*check, "--beside", str(pid)], capture_output=True, text=True, timeout=30)
    assert p.returncode == 0 and f"is not looked at: process {pid} has it" in p.stdout and "good" in p.stdout, p
    # It has its own memory already.
    available(20)
    os.kill(pid, signal.SIGHUP)
    end = time.monotonic() + 10
    while "SIGHUP" not in t.logged() and time.monotonic() < end:
        time.sleep(0.02)
    assert "SIGHUP: " in t.logged() and "nothing was changed" not in t.logged(), t.logged()
    # What is too much without the old one is refused.
    available(0)
    p = subprocess.run([*check, "--beside", str(pid)], capture_output=True, text=True, timeout=30)
    assert p.returncode == 1 and re.search("not enough memory|more than is available", p.stderr), p
    available(330)
    # What ends gives its memory back: the next program sees that.
    t.put(f"#!/bin/sh\ncase \"$*\" in *--check-config*) ;; *) echo MemAvailable: 1048576 kB > {fake} ;; esac\nexec {real} \"$@\"\n",
          installed)
    t.restart()
    assert t.first_answer() == pid and t.logged().count("ready:") == 2, t.logged()
    rider.stands(1)
    rider.end()
    assert t.term() == 0


def test_large():
    """30 GiB of volumes: the time from the end of a target, in order and by a kill, to the first answer that its client has."""
    if not LONG:
        raise Skip("suite soak measures it, with nothing beside it")
    sizes = {"disk": "16M", **{f"big{i}": "10G" for i in range(3)}}
    extra = {n: volume(f"lg.{n}", s, checksums="yes") for n, s in sizes.items()}
    t = client_role(Installed("lg", extra, keepalive_ms=200, args=("--strict",)))
    rider = Rider(t, SEED)
    t.start()
    rider.rides()
    for i in range(LARGE):
        t.restart()
        rider.stands(i + 1)
    rider.end()
    ordered = rider.stalls_ms()
    assert t.term() == 0
    os.unlink(path("lg.disk"))  # the next rider begins with zeros
    rider = Rider(t, SEED + 1)
    t.start()
    rider.rides()
    killed = []
    for i in range(LARGE):
        # The client hears of the end later than it comes: the time counts from the kill.
        began = time.monotonic()
        t.kill()
        t.start()
        rider.stands(i + 1)
        killed.append(round(1000 * (time.monotonic() - began)))
    rider.end()
    print(f"# 30 GiB: without a connection for {ordered} ms at restarts in order; {killed} ms from a kill to the first answer", flush=True)
    assert t.term() == 0
    assert statistics.median(ordered) < GOAL_MS and statistics.median(killed) < GOAL_MS, (ordered, killed)


if __name__ == "__main__":
    main([fn for name, fn in list(globals().items()) if name.startswith("test_")])
