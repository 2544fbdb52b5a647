# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the end-to-end tests: a scratch folder, targets and clients over net_memif, TAP.

Every process is started here and killed by its own id. The scratch folder is removed at exit.
"""
import atexit
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

BUILD = os.path.abspath(sys.argv[1])
APPS = os.path.join(BUILD, "apps")
TMP = tempfile.mkdtemp(prefix="weft-e2e.")
PROCS = []
FAILED = (1, 5, 6)  # statuses of a weft-cp whose transfer failed; test_cp.py looks at which
os.environ["WEFT_CONSOLE_HISTORY"] = ""  # a test keeps nothing in the home of whoever runs it


def end_all():
    """Kill all processes of the test, and remove EAL's folder of each killed one: with its telemetry socket, or empty."""
    for p in PROCS:
        if p.poll() is None:
            p.kill()
            p.wait()
        for run in ("/run", os.environ.get("XDG_RUNTIME_DIR") or "/tmp"):
            shutil.rmtree(f"{run}/dpdk/weft-{p.pid}", ignore_errors=True)
    PROCS.clear()


def _cleanup():
    end_all()
    shutil.rmtree(TMP, ignore_errors=True)


atexit.register(_cleanup)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def app(name):
    return os.path.join(APPS, name.removeprefix("weft-"), name)


def path(name):
    return os.path.join(TMP, name)


def sha(p):
    with open(p, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def make_file(name, size, seed):
    """Pseudo-random content without a zero octet, so that the progress is visible on the medium."""
    out = bytearray()
    x = seed
    block = bytearray()
    for i in range(65536):
        x = (x * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        block.append(((x >> 33) & 0xFF) or 1)
    while len(out) < size:
        out += len(out).to_bytes(8, "big").replace(b"\0", b"\1") + block
    with open(path(name), "wb") as f:
        f.write(out[:size])
    return path(name)


def memif(i, role, sock):
    return (f"net_memif{i},role={role},id=0,socket={sock},socket-abstract=no,"
            "bsize=2048,rsize=10")


class Target:
    """A weft-target with `ports` memif ports and the exports {name: {key: value}}."""

    def __init__(self, name, exports, ports=1, extra="", keepalive_ms=500, exe=None, port_extra="", args=()):
        self.name = name
        self.args = args
        self.ports = ports
        self.conf = path(f"{name}.ini")
        self.exe = exe or app("weft-target")
        with open(self.conf, "w") as f:
            for i in range(ports):
                f.write(f"[port p{i}]\ndev = {memif(i, 'server', self.sock(i))}\n"
                        f"address = 10.0.{i}.1/24\n{port_extra}")
            # The default is one socket for all targets of the host.
            control = "" if re.search(r"^control = ", extra, re.M) else "control = off\n"
            f.write(f"[target]\nkeepalive_ms = {keepalive_ms}\n{control}{extra}\n")
            for e, keys in exports.items():
                f.write(f"[export {e}]\n")
                for k, v in keys.items():
                    f.write(f"{k} = {v}\n")
        self.proc = None

    def sock(self, i):
        return path(f"{self.name}.{i}.sock")

    def spawn(self):
        """Start the target without waiting for it."""
        for i in range(self.ports):
            if os.path.exists(self.sock(i)):
                os.unlink(self.sock(i))
        self.log = path(f"{self.name}.log")
        with open(self.log, "w") as log:
            self.proc = subprocess.Popen([self.exe, "-c", self.conf, *self.args], stderr=log,
                                         stdout=log, stdin=subprocess.DEVNULL)
        PROCS.append(self.proc)

    def start(self, ok=True):
        self.spawn()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with open(self.log) as f:
                text = f.read()
            if "ready" in text:
                return self
            if self.proc.poll() is not None:
                break
            time.sleep(0.01)
        if ok:
            rc = self.proc.poll()
            raise AssertionError(f"target did not become ready, {'in 20 s' if rc is None else f'and ended with {rc}'}: {text[-2000:]}")
        return self

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def term(self):
        self.proc.send_signal(signal.SIGTERM)
        return self.proc.wait(timeout=20)

    def logged(self):
        with open(self.log) as f:
            return f.read()

    def client_args(self, port=0, addr=2):
        return ["--dev", memif(0, "client", self.sock(port)), "--address", f"10.0.{port}.{addr}/24"]

    def cp_start(self, src, dst, port=0, addr=2, args=()):
        """Start a weft-cp that fails with its connection."""
        p = subprocess.Popen([app("weft-cp"), *self.client_args(port, addr), "--reconnect", "0", *args, src, dst],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             stdin=subprocess.DEVNULL)
        PROCS.append(p)
        return p

    def cp(self, src, dst, port=0, addr=2, args=(), timeout=60):
        p = self.cp_start(src, dst, port, addr, args)
        out, err = p.communicate(timeout=timeout)
        return p.returncode, out, err

    def push(self, src, export, **kw):
        rc, out, err = self.cp(src, f"weft://10.0.{kw.get('port', 0)}.1/{export}",
                               args=["--json"], **kw)
        assert rc == 0, f"push failed: {err}\n--- target:\n{self.logged()[-1500:]}"
        return json.loads(out)

    def pull(self, export, name, **kw):
        dst = path(name)
        rc, out, err = self.cp(f"weft://10.0.{kw.get('port', 0)}.1/{export}", dst,
                               args=["--json"], **kw)
        assert rc == 0, f"pull failed: {err}\n--- target:\n{self.logged()[-1500:]}"
        return dst


def run(cmd, timeout=60, **kw):
    p = subprocess.run(cmd, capture_output=True, text=True, timeout=timeout,
                       stdin=kw.pop("stdin", subprocess.DEVNULL), **kw)
    return p.returncode, p.stdout, p.stderr


class Skip(Exception):
    pass


def cpu_seconds():
    """What this process and those of its children that have ended used of the processors."""
    return sum(os.times()[:4])


def main(cases):
    want = sys.argv[2:]
    n = bad = 0
    for fn in cases:
        name = fn.__name__.removeprefix("test_")
        if want and not any(name.startswith(w) for w in want):
            continue
        n += 1
        began, used = time.monotonic(), cpu_seconds()
        try:
            fn()
            print(f"ok {n} {name}", flush=True)
        except Skip as e:
            print(f"ok {n} {name} # SKIP {e}", flush=True)
        except BaseException as e:  # noqa: BLE001 - a test reports every exception
            bad += 1
            print(f"not ok {n} {name}", flush=True)
            for line in (traceback.format_exc() + str(e)).splitlines():
                print(f"# {line}", flush=True)
            if isinstance(e, (KeyboardInterrupt, SystemExit)):
                break
        finally:
            end_all()
            print(f"# {name}: {time.monotonic() - began:.1f} s, {cpu_seconds() - used:.1f} s of CPU", flush=True)
    print(f"1..{n}")
    sys.exit(1 if bad else 0)
