# SPDX-License-Identifier: BSD-3-Clause
"""Two unmodified RDMA programs over weft, each with its own end of a net_memif. For the tests in this folder.

    with rig.Rig(build) as r:
        s, c = r.pair(["rping", "-s", ...], ["rping", "-c", ...])
        rig.check("what is expected" in c.out, c)

A test file gives its cases to rig.main(). A case that needs programs that are not installed is skipped, with their package.
"""
import ctypes
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

SERVER, CLIENT = "10.9.0.1", "10.9.0.2"
SERVER6, CLIENT6 = "fd09::1", "fd09::2"
PERFTEST_PORT = 18515
# Which package has a program; for the reason of a skip.
PACKAGES = {"rping": "rdmacm-utils", "ucmatose": "rdmacm-utils", "rdma_server": "rdmacm-utils", "rdma_client": "rdmacm-utils",
            "rdma_xserver": "rdmacm-utils", "rdma_xclient": "rdmacm-utils", "cmtime": "rdmacm-utils", "rstream": "rdmacm-utils",
            "riostream": "rdmacm-utils", "rcopy": "rdmacm-utils", "udaddy": "rdmacm-utils", "ibv_devices": "ibverbs-utils",
            "ibv_devinfo": "ibverbs-utils", "ib_write_bw": "perftest", "qperf": "qperf", "fio": "fio", "iperf": "iperf",
            "fi_pingpong": "libfabric-bin", "fi_info": "libfabric-bin", "tgtd": "tgt", "tgtadm": "tgt",
            "iscsi-inq": "libiscsi-bin", "iscsi-test-cu": "libiscsi-bin", "qemu-system-x86_64": "qemu-system-x86", "mpirun": "openmpi-bin",
            "mpicc": "libopenmpi-dev", "nft": "nftables"}
libc = ctypes.CDLL(None, use_errno=True)


class Fail(Exception):
    """A check that did not hold."""


class Skip(Exception):
    """Something that a case needs is not here."""


def check(cond, *what):
    """Fail with what was seen unless cond holds. Ends are shown with all they said."""
    if not cond:
        raise Fail("\n".join(w.told() if isinstance(w, End) else str(w) for w in what) or "a check failed")


def until(cond, *ends, timeout=30):
    """Wait until cond() holds. A Fail when the time is over, or when one of the ends has ended."""
    end = time.monotonic() + timeout
    while not cond():
        check(time.monotonic() < end and all(e.p.poll() is None for e in ends), "it did not come", *ends)
        time.sleep(0.02)


def need(*programs):
    """Skip unless these programs are installed."""
    for p in programs:
        if shutil.which(p) is None:
            raise Skip(f"{PACKAGES.get(p, p)} is not installed")


def die_with_us():
    """Between fork and exec: the program ends with the test."""
    libc.prctl(1, signal.SIGKILL)


class End:
    """A program that runs at one end. `out` and `err` grow while it runs."""

    def __init__(self, argv, env=None, stdin=subprocess.DEVNULL):
        self.argv, self.out, self.err = argv, "", ""
        self.p = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  errors="replace", env=dict(os.environ, **(env or {})), preexec_fn=die_with_us,
                                  start_new_session=True)
        self.readers = [threading.Thread(target=self.read, args=(f, name), daemon=True)
                        for f, name in ((self.p.stdout, "out"), (self.p.stderr, "err"))]
        for t in self.readers:
            t.start()

    def read(self, f, name):
        """Collect one of the program's streams."""
        for line in f:
            setattr(self, name, getattr(self, name) + line)

    def wait(self, timeout=60):
        """Wait for its end. Returns its exit status; a Fail when the time is over."""
        try:
            rc = self.p.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Fail(f"it did not end in {timeout} s\n" + self.told()) from None
        for t in self.readers:
            t.join(5)
        return 0 if self.is_rping_over(rc) else rc

    def is_rping_over(self, rc):
        """Whether it is rping that was over, and lost its own race: behind the last event its one thread asks for the next one while
        the other destroys the channel, with any device. Then it exits with 255, and its work was done."""
        return rc == 255 and "rping" in self.argv and self.err.endswith("DISCONNECT EVENT...\nrdma_get_cm_event: Bad file descriptor\n")

    def family(self):
        """The ids of its process and of all that it has started: fio's jobs are in sessions of their own."""
        pids = [self.p.pid]
        for pid in pids:
            try:
                with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
                    pids += map(int, f.read().split())
            except OSError:
                pass  # it has ended
        return pids

    def kill(self, sig=signal.SIGKILL):
        """End it, and what it started."""
        for kill, pid in [(os.kill, pid) for pid in self.family()[1:]] + [(os.killpg, self.p.pid)]:
            try:
                kill(pid, sig)
            except ProcessLookupError:
                pass
        self.p.wait(10)

    def told(self):
        """What it was and said."""
        return f"$ {shlex.join(self.argv)}\n(exit status {self.p.poll()})\n{self.out[-3000:]}{self.err[-3000:]}"


def telemetry(e, command, pid=None):
    """What an end that was started with `telemetry = yes`, or a process of it, answers to a command of its telemetry."""
    base = "/var/run/dpdk" if os.geteuid() == 0 else os.path.join(os.environ.get("XDG_RUNTIME_DIR", "/tmp"), "dpdk")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(10)
        s.connect(f"{base}/weft-{pid or e.p.pid}/dpdk_telemetry.v2")
        s.recv(16384)
        s.sendall(command.encode())
        return json.loads(s.recv(1 << 20))[command.split(",", maxsplit=1)[0]]


def listens(e, port):
    """Whether an end that was started with `telemetry = yes` listens on a port."""
    for pid in e.family():
        try:
            if telemetry(e, f"/weft/local_ports,0,{port}", pid)["listeners"] > 0:
                return True
        except (OSError, ValueError, KeyError, TypeError):
            pass  # it has not opened its device, or never does
    return False


class Spaces:
    """Two network namespaces, in which the kernel has the addresses of both ends, too: for programs that meet by a socket
    before they use RDMA, as qperf and fi_pingpong do. Needs root."""

    def __init__(self):
        if os.geteuid() != 0:
            raise Skip("needs root (network namespaces)")
        self.names = [f"wv{os.getpid() % 1000000}{x}" for x in "sc"]
        for ns in self.names:
            self.ip("netns", "add", ns)
        self.ip("-n", self.names[0], "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", self.names[1])
        for ns, address in zip(self.names, (SERVER, CLIENT)):
            self.ip("-n", ns, "addr", "add", address + "/24", "dev", "v0")
            for link in "lo", "v0":
                self.ip("-n", ns, "link", "set", link, "up")

    @staticmethod
    def ip(*args):
        """ip(8)."""
        subprocess.run(["ip", *args], check=True, capture_output=True)

    def wrap(self, role):
        """What a command begins with to run at this end."""
        return ["ip", "netns", "exec", self.names[role != "server"]]

    def end(self):
        """Remove them."""
        for ns in self.names:
            subprocess.run(["ip", "netns", "del", ns], check=False, capture_output=True)


class User:
    """A user without rights, for both ends: no capability, no locked memory, no group."""

    ID = 65534

    def __init__(self, folder):
        if os.geteuid() == 0:
            os.chown(folder, self.ID, self.ID)

    @classmethod
    def wrap(cls, _role):
        """What a command begins with to run as this user."""
        drop = ["setpriv", f"--reuid={cls.ID}", f"--regid={cls.ID}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
        return ["prlimit", "--memlock=65536", *(drop if os.geteuid() == 0 else ["setpriv"]), "--no-new-privs"]

    def end(self):
        """Nothing is left."""


class Rig:
    """Where a case runs: a folder for the sockets of its ports, and the programs that it started. spaces: each end in a
    network namespace. user: as a user without rights."""

    def __init__(self, build, spaces=False, user=False):
        self.run = os.path.join(os.path.abspath(build), "apps/verbs/weft-run")
        if not os.path.exists(self.run):
            raise Skip("weft-run was not built (libibverbs-dev, librdmacm-dev)")
        self.env = self.sanitized(os.path.join(os.path.dirname(self.run), "libweft_verbs.so"))
        self.hold = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_hold.so")
        self.tmp = tempfile.mkdtemp(prefix="weft-verbs-")
        self.ends, self.n = [], 0
        self.address = {"server": SERVER + "/24", "client": CLIENT + "/24"}
        self.spaces = Spaces() if spaces else User(self.tmp) if user else None

    @staticmethod
    def sanitized(library):
        """The environment for a library that was built with AddressSanitizer: its runtime in front. Programs are not built so, and
        leave what they have allocated to their end."""
        with open(library, "rb") as f:
            if b"__asan_init" not in f.read():
                return {}
        runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
        return {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0:exitcode=98",
                "UBSAN_OPTIONS": "print_stacktrace=1"}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for e in self.ends:
            if e.p.poll() is None:
                e.kill()
        if self.env and exc[0] is None:
            for e in self.ends:
                check("AddressSanitizer" not in e.err and "runtime error:" not in e.err, e)
        if self.spaces:
            self.spaces.end()
        shutil.rmtree(self.tmp, ignore_errors=True)

    def path(self, name):
        """A file in the case's folder."""
        return os.path.join(self.tmp, name)

    def port(self, role, k=None, weft=None):
        """The port options of one end of pair k, by default the latest. weft: lines for the section of that name of a configuration."""
        sock = self.path(f"memif{self.n if k is None else k}")
        address = self.address[role]
        dev = f"net_memif0,role={role},id=0,socket={sock},socket-abstract=no"
        if weft is None:
            return ["--dev", dev, "--address", address]
        keys = "".join(f"address{'6' if ':' in a else ''} = {a}\n" for a in address.split(","))
        with open(self.path(role + ".ini"), "w", encoding="utf-8") as f:
            f.write(f"[weft]\n{weft}\n[port p0]\ndev = {dev}\n{keys}")
        return ["--config", self.path(role + ".ini")]

    def start(self, role, argv, options=(), weft=None, **how):
        """Start a program over weft at one end."""
        wrap = self.spaces.wrap(role) if self.spaces else ()
        env = dict(self.env, **how.pop("env", None) or {})
        e = End([*wrap, self.run, *self.port(role, weft=weft), *options, *argv], env=env, **how)
        self.ends.append(e)
        return e

    def server(self, argv, settle=True, **how):
        """Start a server, and wait until its port is there: a net_memif client needs it."""
        self.n += 1
        e = self.start("server", argv, **how)
        if settle:
            self.settled(e)
        return e

    def settled(self, e, timeout=15):
        """Wait until the end has its port open."""
        end = time.monotonic() + timeout
        while not os.path.exists(self.path(f"memif{self.n}")):
            check(e.p.poll() is None, "the server ended", e)
            check(time.monotonic() < end, "the server opens no port", e)
            time.sleep(0.02)
        time.sleep(0.2)

    def client(self, argv, **how):
        """Start a client of the latest server."""
        return self.start("client", argv, **how)

    def pair(self, server, client, timeout=60, server_rc=0, client_rc=0, role_options=None, **how):
        """Run both ends until they end. The exit statuses are checked, unless they are None. role_options: of weft-run, by role."""
        need(server[0], client[0])
        options = role_options or {"server": (), "client": ()}
        s = self.server(server, options=options["server"], **how)
        c = self.client(client, options=options["client"], **how)
        rc = c.wait(timeout)
        check(client_rc is None or rc == client_rc, f"the client's exit status is {rc}", c, s)
        rc = s.wait(timeout)
        check(server_rc is None or rc == server_rc, f"the server's exit status is {rc}", s, c)
        return s, c

    def perftest(self, server, client, timeout=120, server_rc=0, client_rc=0):
        """Run both ends of perftest with -R until they end, as pair() does.

        perftest says that it waits before it listens, and connects twice: its server answers the last message of the first
        connection before it listens for the second one (perftest's issue 93). So each connection of the client waits for its
        listener: a client that comes between ends, and so does the server when another one comes then.
        """
        need(next(x for x in server if x.startswith("ib_")))
        gate = self.path("gate")
        s = self.server(server, weft="telemetry = yes")
        until(lambda: listens(s, PERFTEST_PORT), s, timeout=timeout)
        preload = ":".join(filter(None, (self.env.get("LD_PRELOAD"), self.hold)))
        c = self.client(client, env={"LD_PRELOAD": preload, "WEFT_TEST_HOLD": gate})
        until(lambda: os.path.exists(gate + ".waiting"), s, c, timeout=timeout)
        until(lambda: listens(s, PERFTEST_PORT), s, c, timeout=timeout)
        with open(gate + ".go", "wb"):
            pass
        rc = [e.wait(timeout) for e in (c, s)]
        check(client_rc is None or rc[0] == client_rc, f"the client's exit status is {rc[0]}", c, s)
        check(server_rc is None or rc[1] == server_rc, f"the server's exit status is {rc[1]}", s, c)
        return s, c


def main(cases):
    """Run the cases: functions of one argument, the path of the build. Their first lines of documentation name them. TAP."""
    build, only = sys.argv[1], sys.argv[2:]
    cases = [f for f in cases if not only or any(o in f.__name__ for o in only)]
    print(f"1..{len(cases)}", flush=True)
    bad = 0
    for n, f in enumerate(cases, 1):
        name = (f.__doc__ or f.__name__).strip().splitlines()[0].rstrip(".")
        try:
            f(build)
            print(f"ok {n} {name}", flush=True)
        except Skip as e:
            print(f"ok {n} {name} # SKIP {e}", flush=True)
        except Exception as e:  # pylint: disable=broad-except
            bad += 1
            said = str(e) if isinstance(e, Fail) else traceback.format_exc()
            print(f"not ok {n} {name}\n" + "\n".join("# " + line for line in said.splitlines()), flush=True)
    sys.exit(bad > 0)
