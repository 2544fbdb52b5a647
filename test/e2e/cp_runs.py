# SPDX-License-Identifier: BSD-3-Clause
"""Runs of weft-cp, shared by test_cp.py and test_cp_resume.py: a target with an object and a volume, and what they hold."""
import contextlib
import fcntl
import os
import subprocess
import termios
import time

from weft_e2e import PROCS, Target, app, path

MIB = 1 << 20
BLOCK = 256 << 10  # of weft-cp
EXPORTS = ("demo", "disk")  # an object, a volume


def server(name, size="16M"):
    """A target that runs. The object's export has room for two of 16 MiB."""
    return Target(name, {"demo": {"path": path(f"{name}.demo"), "size": f"{2 * int(size[:-1]) + 1}M"},
                         "disk": {"path": path(f"{name}.disk"), "size": size, "format": "volume"}}).start()


def url(export):
    return f"weft://10.0.0.1/{export}"


def octets(file):
    with open(file, "rb") as f:
        return f.read()


def spawn(t, *args, port=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, reconnect="0"):
    """Start a weft-cp. By default one that fails with its connection."""
    p = subprocess.Popen([app("weft-cp"), *t.client_args(port), "--reconnect", reconnect, *args], stdin=stdin, stdout=stdout, stderr=stderr)
    PROCS.append(p)
    return p


def copy(t, *args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, status=0, text=True, port=0, timeout=60, reconnect="0"):
    """Run weft-cp, and look at its exit status: (status, what it wrote, what it said)."""
    data = stdin if isinstance(stdin, (bytes, bytearray)) else None
    p = spawn(t, *args, port=port, stdin=subprocess.PIPE if data is not None else stdin, stdout=stdout, reconnect=reconnect)
    out, err = p.communicate(data, timeout=timeout)
    assert p.returncode == status, (args, p.returncode, err, t.logged()[-1500:] if t.proc else "")
    return p.returncode, out.decode() if text and out is not None else out, err.decode() if text else err


def whole(t, export, length):
    """A file with what the export has: the first octets of a volume."""
    out = path(f"whole.{export}")
    if os.path.exists(out):
        os.unlink(out)
    copy(t, *(() if export != "disk" else ("--length", str(length)) if length else ("--length", "1")), url(export), out)
    if length == 0:
        os.truncate(out, 0)
    return out


def at_source(pid, name, octets):
    """Whether the process has the file open, and has read that many octets."""
    try:
        with open(f"/proc/{pid}/io") as io:
            read = int(io.readline().split()[1])
        return read > octets and any(os.path.realpath(f"/proc/{pid}/fd/{n}") == os.path.realpath(name)
                                     for n in os.listdir(f"/proc/{pid}/fd"))
    except (FileNotFoundError, ProcessLookupError):
        return False


def await_moved(p, octets, source=None, part=None):
    """Wait until a weft-cp, or an attempt of it, has read so much of the source of a push, or has written so much of the partial
    file of a pull; or has ended."""
    def moved():
        if part:
            return os.path.exists(part) and os.path.getsize(part) >= octets
        try:
            with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
                return any(at_source(pid, source, octets) for pid in [p.pid, *f.read().split()])
        except (FileNotFoundError, ProcessLookupError):
            return False

    while p.poll() is None and not moved():
        time.sleep(0.005)


def await_link(p):
    """Wait until a weft-cp has shared memory with its target, or has ended. Before that DPDK's own connect() waits for the target."""
    def linked():
        try:
            with open(f"/proc/{p.pid}/maps") as f:
                return "memif_region" in f.read()
        except (FileNotFoundError, ProcessLookupError):
            return False

    while p.poll() is None and not linked():
        time.sleep(0.005)


def await_taken(p):
    """Wait until a weft-cp has taken all that its standard input has, or has ended."""
    while p.poll() is None and fcntl.ioctl(p.stdin, termios.FIONREAD, bytes(4)) != bytes(4):
        time.sleep(0.005)


@contextlib.contextmanager
def granted(t):
    """Start a weft-cp inside; returns when the target has granted it the export."""
    before = t.logged().count(" granted to ")
    yield
    end = time.monotonic() + 20
    while t.logged().count(" granted to ") == before:
        assert time.monotonic() < end, t.logged()
        time.sleep(0.01)
