# SPDX-License-Identifier: BSD-3-Clause
"""A Linux guest under QEMU: what is needed for it, its image, its virtual machine, shell and QMP; and TAP."""
import contextlib
import glob
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "interop"))

from kernel_net import Fail, check, libc, sh  # noqa: E402

PR_SET_PDEATHSIG = 1
# Emulation works everywhere and is fast enough. KVM does not work inside every hypervisor.
ACCEL = os.environ.get("WEFT_SIW_ACCEL", "tcg,thread=multi")


def die_with_us():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# ---- What is needed ----

def missing(*programs):
    """The reason why this cannot run here, or None. programs: (program, package) each."""
    if os.geteuid() != 0:
        return "needs root (network namespaces, tap, packet sockets)"
    for tool, package in programs:
        if shutil.which(tool) is None:
            return f"{package} is not installed"
    if not os.path.exists("/dev/net/tun"):
        return "no /dev/net/tun"
    return None


def build(cache, recipe):
    """None, or the reason why there is no guest. Raises Fail when there should be one."""
    r = subprocess.run([os.path.join(HERE, "build"), cache, recipe], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    for line in r.stdout.splitlines():
        print("# guest: " + line, flush=True)
    if r.returncode == 77:
        return r.stderr.strip().splitlines()[-1]
    if r.returncode != 0:
        raise Fail("the guest does not build: " + r.stderr[-2000:])
    return None


def libraries(files):
    """The libraries that the loader would load for these files."""
    out = subprocess.run(["ldd", *files], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", out, re.M))


def pack(tmp, base, programs, texts, drivers):
    """An initramfs of `base` with programs and their libraries in /weft, texts (or octets) and drivers of DPDK. The guest
    hides /tmp, where the build may be."""
    stage = os.path.join(tmp, "stage")
    # The folder in which DPDK looks for drivers. Of hundreds, a few are needed.
    found = [p for d in drivers for p in glob.glob(f"/usr/lib/*/dpdk/pmds-*/librte_{d}.so.*.*")]
    check(len(found) == len(drivers), f"DPDK's drivers are not where they were expected: {found}")
    places = {f: f for f in found} | {f: "/weft/" + os.path.basename(f) for f in programs}
    real = {os.path.realpath(f): f for f in found}
    os.makedirs(stage + "/weft")
    for f in libraries([*programs, *found]):
        if os.path.realpath(f) in real:
            # A driver that is another one's library is one file, so that it is loaded once.
            os.symlink(real[os.path.realpath(f)], stage + "/weft/" + os.path.basename(f))
        else:
            places[f] = f if "/ld-linux" in f else "/weft/" + os.path.basename(f)
    for f, place in places.items():
        os.makedirs(stage + os.path.dirname(place), exist_ok=True)
        shutil.copy(f, stage + place)
    for name, text in texts.items():
        os.makedirs(stage + os.path.dirname(name), exist_ok=True)
        with open(stage + name, "wb") as f:
            f.write(text.encode() if isinstance(text, str) else text)
    names = "\n".join(os.path.relpath(os.path.join(d, n), stage) for d, ds, fs in os.walk(stage) for n in (*ds, *fs))
    out = os.path.join(tmp, "initramfs.cpio")
    with open(out, "wb") as f, open(base, "rb") as b:
        shutil.copyfileobj(b, f)
        f.flush()
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=stage, input=names.encode(), stdout=f, check=True)
    shutil.rmtree(stage)
    return out


# ---- The machine ----

def tap(world, ns, dev, mtu=1500, queues=1):
    """A tap in a namespace: one end for QEMU, the other for one of our ports."""
    sh("ip", "-n", ns, "tuntap", "add", "dev", dev, "mode", "tap", *(["multi_queue"] if queues > 1 else []))
    with world.inside(ns), open(f"/proc/sys/net/ipv6/conf/{dev}/disable_ipv6", "w") as f:
        f.write("1")  # no address of the host at this end, because the host would answer
    sh("ip", "-n", ns, "link", "set", dev, "mtu", str(mtu), "up")


class Shell:
    """A shell in the guest, on a virtio port. One command at a time."""

    def __init__(self, path):
        self.path, self.sock, self.n = path, None, 0

    def connect(self, end):
        """The guest's end is there when this returns, or the time has come."""
        if self.sock is None:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(self.path)

    def run(self, command, timeout):
        """Run a command. Returns (status, output); status 137 when it took longer and was killed."""
        end = time.monotonic() + timeout + 10
        self.connect(end)
        self.n += 1
        mark = f"@@{self.n}@@"
        line = f"timeout -s KILL {timeout} sh -c {shlex.quote(command)} </dev/null 2>&1; rc=$?; echo; echo '{mark}' $rc\n"
        self.sock.sendall(line.encode())
        self.sock.settimeout(timeout + 10)
        got = bytearray()
        while not (m := re.search(rb"\n%s (\d+)\n$" % mark.encode(), got[-40:])):
            check(time.monotonic() < end, f"the guest does not answer: {command}")
            try:
                piece = self.sock.recv(65536)
            except socket.timeout:
                raise Fail(f"the guest does not answer: {command}") from None
            check(piece, "the guest has gone")
            got += piece
        return int(m[1]), got[:-len(m[0])].decode(errors="replace").rstrip("\n")

    def close(self):
        if self.sock is not None:
            self.sock.close()
            self.sock = None


class TcpShell(Shell):
    """A shell in the guest behind a TCP port, a connection for each command."""

    def __init__(self, world, ns, address):
        super().__init__(None)
        self.world, self.ns, self.address = world, ns, address

    def connect(self, end):
        self.close()
        while self.sock is None:
            with self.world.inside(self.ns):
                s = socket.socket()
            s.settimeout(3)
            try:
                s.connect(self.address)
                self.sock = s
            except OSError as e:
                s.close()
                check(time.monotonic() < end, f"the guest does not listen: {e}")
                time.sleep(0.1)


class Qmp:
    """QEMU's monitor."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(path)
        self.file = self.sock.makefile("rw")
        self.file.readline()
        self.events = []
        self.ask("qmp_capabilities")

    def _line(self):
        line = self.file.readline()
        check(line, "QEMU has gone")
        return json.loads(line)

    def ask(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while "event" in (answer := self._line()):
            self.events.append(answer["event"])
        check("return" in answer, f"QEMU: {command} {arguments}: {answer.get('error')}")
        return answer["return"]

    def forget(self, event):
        """Forget that an event was reported."""
        self.events = [e for e in self.events if e != event]

    def happens(self, event, timeout):
        """Whether QEMU reports the event within `timeout` seconds, or has reported it."""
        end = time.monotonic() + timeout
        while event not in self.events and time.monotonic() < end:
            self.ask("query-status")
            time.sleep(0.1)
        return event in self.events

    def close(self):
        self.file.close()
        self.sock.close()


class Machine:
    """A guest: QEMU with a kernel, an initramfs, and what a subclass adds."""

    def __init__(self, world, ns, cache, logs, *, devices, machine="", processors="1", memory="768", append="", initrd=None,
                 shell=None, cpu="max"):
        """cache: the folder of test/guest/build. devices: QEMU's arguments. initrd: used instead of the cache's.
        shell: how to reach it, else a virtio port among the devices, with the socket "shell". cpu: QEMU's model of a
        processor."""
        self.world, self.ns = world, ns
        self.shell = shell or Shell(f"{world.tmp}/shell")
        self.console = os.path.join(logs, "console.log")
        self.args = [
            "qemu-system-x86_64", "-name", "weft-guest", "-accel", ACCEL,
            "-machine", "q35,usb=off,smbus=off,sata=off,vmport=off,hpet=off" + machine, "-cpu", cpu, "-smp", processors,
            "-m", memory, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", os.path.join(cache, "vmlinux"), "-initrd", initrd or os.path.join(cache, "initramfs.cpio"),
            "-append", "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check "
            f"random.trust_cpu=on net.ifnames=0 rdinit=/init {append}",
            "-serial", f"file:{self.console}", *devices]
        self.log = open(os.path.join(logs, "qemu.log"), "w+")
        self.boot()

    def boot(self):
        self.qemu = self.world.spawn(self.ns, self.args, stdin=-3, stdout=self.log, stderr=self.log, preexec_fn=die_with_us)

    def kill(self):
        """Stop the guest as in a power cut. boot() starts it again."""
        self.world.reap(self.qemu, signal.SIGKILL)
        self.shell.close()
        for path in filter(None, (self.shell.path,)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def wait_up(self, timeout=110):
        end = time.monotonic() + timeout
        while self.shell.path and not os.path.exists(self.shell.path):
            if self.qemu.poll() is not None or time.monotonic() > end:
                self.log.seek(0)
                raise Fail("QEMU does not start: " + self.log.read()[-300:])
            time.sleep(0.05)
        self.shell.run("true", timeout)

    def run(self, command, timeout=30):
        return self.shell.run(command, timeout)

    def alive(self):
        return self.qemu.poll() is None

    def close(self):
        self.shell.close()
        with contextlib.suppress(Exception):
            self.world.reap(self.qemu, signal.SIGKILL)
        self.log.close()


# ---- TAP ----

def end_by_signals():
    """SIGTERM and SIGHUP end this program by SystemExit, so that what it made is removed."""
    def leave(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(143)
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, leave)


class Tap:
    """The cases that were run."""

    def __init__(self):
        self.n, self.failed = 0, 0

    def case(self, name, fn, said=lambda: "", width=200, todo="", skips=()):
        """Run a case and print its result; whether it did not fail. said: what to show if it fails. todo: why a failure is
        expected today. skips: an exception by which the case says why it cannot run here."""
        t0, text = time.monotonic(), ""
        try:
            fn()
        except skips as e:
            self.skip(name, e)
            return True
        except Exception as e:
            text = (str(e) if isinstance(e, Fail) else traceback.format_exc()) + "\n"
            with contextlib.suppress(Fail):
                text += said()
        self.n += 1
        if text and not todo:
            self.failed += 1
        note = f"# TODO {todo}" if todo else f"# {time.monotonic() - t0:.1f} s"
        print(f"{'not ok' if text else 'ok'} {self.n} {name} {note}", flush=True)
        for line in text.splitlines()[:60]:
            print("#   " + line[:width], flush=True)
        return not text

    def skip(self, name, why):
        """A case that is not run."""
        self.n += 1
        print(f"ok {self.n} {name} # SKIP {why}", flush=True)

    def end(self):
        """The plan; returns the exit status."""
        print(f"1..{self.n}")
        return 1 if self.failed else 0
