#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Captures by weft-ctl, and the packets of slow operations, which are kept meanwhile. test_control_capture.py BUILD [CASE...]"""
import json
import os
import shutil
import struct
import subprocess
import tarfile
import time

from test_control import Controlled, objects, schema
from test_medium import made
from test_visible import Telemetry
from weft_e2e import app, main, make_file, path, run

MIB = 1 << 20
SECTION, INTERFACE, PACKET = 0x0a0d0d0a, 1, 6
RING_FILE = 128 << 10


def packets(file):
    """[(seconds since 1970, source, destination)] of the TCP segments of a pcapng file. Addresses are (host, port)."""
    with open(file, "rb") as f:
        data = f.read()
    got, at, units = [], 0, []
    while at < len(data):
        kind, length = struct.unpack_from("=II", data, at)
        assert length >= 12 and length % 4 == 0 and struct.unpack_from("=I", data, at + length - 4)[0] == length, (file, at)
        if kind == SECTION:
            assert struct.unpack_from("=I", data, at + 8)[0] == 0x1a2b3c4d
            units = []
        elif kind == INTERFACE:
            units.append(1e-9)
        elif kind == PACKET:
            iface, high, low, kept = struct.unpack_from("=IIII", data, at + 8)
            frame = data[at + 28:at + 28 + kept]
            if frame[12:14] == b"\x08\x00" and frame[23] == 6:
                ports = struct.unpack_from("!HH", frame, 34)
                ends = [(".".join(map(str, frame[o:o + 4])), p) for o, p in zip((26, 30), ports)]
                got.append(((high << 32 | low) * units[iface], *ends))
        at += length
    return got


def stateful(name, exports, **kw):
    os.mkdir(path(f"{name}.state"))
    return Controlled(name, exports, extra=f"state = {path(name + '.state')}\n{kw.pop('extra', '')}", **kw).start()


def captures(t, port="p0"):
    return next(r for r in t.ctl("capture", "status")["captures"] if r["port"] == port)


def test_start_and_stop():
    """A ring of files in the state directory, bounded; each command twice; a filter; tables."""
    t = stateful("ss", objects("ss", "a"), ports=2)
    fields = schema()
    folder = path("ss.state/captures")
    off = captures(t)
    assert set(off) == fields["capture.status"][1] and not off["on"] and off["file"] == "" and off["files"] is None, off
    assert "which port" in t.ctl("capture", "start", ok=2) and "there are: p0, p1" in t.ctl("capture", "stop", "--port", "x", ok=2)
    start = ["capture", "start", "--port", "p0", "--size", "128K", "--files", "3"]
    first = t.ctl(*start)
    assert set(first) == fields["capture.start"][0] and first["changed"] and first["on"], first
    assert first["file"] == f"{folder}/p0.pcapng" and (first["files"], first["size_bytes"]) == (3, RING_FILE), first
    assert not t.ctl(*start)["changed"]
    assert "has a capture already" in t.ctl(*start[:-1], "4", ok=6)
    t.push(make_file("ss.src", MIB, 1), "a")
    got = captures(t)
    assert got["packets"] > 500 and got["files_begun"] > 3 and got["ended"] == "", got
    assert not captures(t, "p1")["on"]
    files = sorted(os.listdir(folder))
    assert files == [f"p0.pcapng.{i}" for i in range(3)] and os.stat(folder).st_mode & 0o777 == 0o700, files
    for f in files:
        st = os.stat(os.path.join(folder, f))
        assert st.st_size <= RING_FILE and st.st_mode & 0o777 == 0o600, (f, st)
    rc, out, err = run([app("weft-ctl"), "-s", t.socket, "capture", "status"])
    assert rc == 0 and out.split()[:3] == ["port", "on", "file"] and "128.00 KiB" in out, (out, err)
    rc, out, err = run([app("weft-ctl"), "-s", t.socket, "watch", "--interval", "0.2", "--count", "2", "capture", "status"])
    assert rc == 0 and out.count("port ") == 2 and "/s" in out, (out, err)
    end = t.ctl("capture", "stop", "--port", "p0")
    assert set(end) == fields["capture.stop"][0] and end["changed"] and not end["on"] and end["packets"] >= got["packets"], end
    assert not t.ctl("capture", "stop", "--port", "p0")["changed"] and not captures(t)["on"]
    assert sum(len(packets(os.path.join(folder, f))) for f in files) > 50
    # One file, of one client; what was there of the name is gone. What does not fit is dropped.
    t.ctl("capture", "start", "--port", "p1", "--file", "one", "--files", "1", "--size", "1M", "--peer", "10.0.1.3", "--snap", "128")
    t.push(path("ss.src"), "a", port=1, addr=2)
    t.push(path("ss.src"), "a", port=1, addr=3)
    end = t.ctl("capture", "stop", "--port", "p1")
    got = packets(end["file"])
    assert end["file"] == f"{folder}/one" and got and all("10.0.1.3" in (s[0], d[0]) for _, s, d in got), (end, got[:3])
    t.ctl("capture", "start", "--port", "p1", "--file", "one", "--files", "1", "--size", "128K")
    t.push(path("ss.src"), "a", port=1)
    end = t.ctl("capture", "stop", "--port", "p1")
    assert end["dropped"] > 0 and os.path.getsize(end["file"]) <= RING_FILE, end
    assert "control: capture.start by user" in t.logged()
    # There is no room for what another port's capture may write yet.
    fs = os.statvfs(folder)
    part = ["--size", str(min(fs.f_bavail * fs.f_frsize * 6 // 1000, 64 << 30)), "--files", "100"]
    t.ctl("capture", "start", "--port", "p1", *part)
    assert "has room for" in t.ctl("capture", "start", "--port", "p0", *part, ok=1)
    t.ctl("capture", "stop", "--port", "p1")
    # One that runs when the target ends.
    t.ctl("capture", "start", "--port", "p0")
    assert t.term() == 0
    assert os.path.exists(f"{folder}/p0.pcapng.0") and not os.path.exists(f"{folder}/p0.pcapng.1")


def test_refused():
    """Names, sizes, rooms and folders that do not fit: one line each, and nothing is written."""
    t = stateful("rf", objects("rf", "a"))
    folder = path("rf.state/captures")
    for words, rc, want in ((["--file", "../x"], 2, "without a folder"), (["--file", "/etc/x"], 2, "without a folder"),
                            (["--file", ".x"], 2, "without a folder"), (["--file", "x" * 65], 2, "without a folder"),
                            (["--file", "a b"], 2, "without a folder"), (["--file", "p0.pcapng.1"], 2, "no number behind"),
                            (["--size", "64K"], 2, "size is from"),
                            (["--size", "x"], 2, "not a size"), (["--size", "65G"], 2, "size is from"),
                            (["--files", "0"], 2, "from 1 to 100"), (["--files", "101"], 2, "from 1 to 100"),
                            (["--snap", "10"], 2, "from 64"), (["--peer", "nix"], 2, "not an IPv4"),
                            (["--tcp-port", "70000"], 2, "no such TCP port"), (["--port", "p9"], 2, "there are: p0"),
                            (["--size", "64G", "--files", "100"], 1, "has room for")):
        err = t.ctl("capture", "start", *words, ok=rc)
        assert want in err and not captures(t)["on"], (words, err)
    assert not os.path.exists(folder) or os.listdir(folder) == []
    # A folder that others may write to, or that is a link, could lead anywhere.
    os.chmod(folder, 0o777)
    assert "no other user may write to" in t.ctl("capture", "start", ok=1)
    os.rmdir(folder)
    os.mkdir(path("rf.else"))
    os.symlink(path("rf.else"), folder)
    assert "no other user may write to" in t.ctl("capture", "start", ok=1)
    assert os.listdir(path("rf.else")) == []
    os.unlink(folder)
    # A link in place of the file is removed, and not followed.
    os.mkdir(folder, 0o700)
    with open(path("rf.victim"), "w") as f:
        f.write("mine")
    for name in ("p0.pcapng", "p0.pcapng.0", "p0.pcapng.1"):
        os.symlink(path("rf.victim"), os.path.join(folder, name))
    for files in ("1", "2"):
        t.ctl("capture", "start", "--files", files)
        t.ctl("capture", "stop")
    with open(path("rf.victim")) as f:
        assert f.read() == "mine"
    assert t.term() == 0
    # Without a state directory the folder is beside the socket.
    t = Controlled("rs", objects("rs", "a")).start()
    assert t.ctl("capture", "start")["file"] == path("captures/p0.pcapng")
    assert t.term() == 0


def test_room():
    """What the capture of the name has left gives its room to the next one; other files do not."""
    with made() as m:
        folder = m.tmpfs("rm.state", "16M")
        t = m.use(Controlled("rm", objects("rm", "a"), extra=f"state = {folder}\n").start())
        os.mkdir(os.path.join(folder, "captures"), 0o700)
        ring = [os.path.join(folder, "captures", f"p0.pcapng.{i}") for i in range(2)]

        def fill(file, mib):
            with open(file, "wb") as f:
                f.write(b"\1" * (mib * MIB))

        for f in ring:
            fill(f, 5)
        for other in ("one", "p0.pcapng.x"):
            assert "has room for" in t.ctl("capture", "start", "--file", other, "--size", "4M", "--files", "2", ok=1)
        assert "has room for" in t.ctl("capture", "start", "--size", "9M", "--files", "2", ok=1)
        assert [os.path.getsize(f) for f in ring] == [5 * MIB] * 2, "a capture that was refused took the old one"
        # A file that has another name, too, stays, and gives no room.
        os.link(ring[0], os.path.join(folder, "kept"))
        assert "has room for" in t.ctl("capture", "start", "--size", "6M", "--files", "2", ok=1)
        os.unlink(os.path.join(folder, "kept"))
        assert t.ctl("capture", "start", "--size", "6M", "--files", "2")["changed"]
        t.push(make_file("rm.src", MIB, 1), "a")
        assert t.ctl("capture", "stop")["packets"] > 500
        assert t.term() == 0


def test_slow():
    """A slow operation keeps the packets of its connection and its time, and no others; they come out as a file, and in the bundle."""
    t = stateful("sl", {"v": {"path": path("sl.v"), "size": "16M", "format": "volume", "client_bytes_per_s": "1M"},
                        "o": {"path": path("sl.o"), "size": "16M"}}, extra="slow_ms = 100", ports=2)
    src = make_file("sl.src", 600000, 1)
    t.push(src, "v")
    before = t.ctl("slow")
    assert before["slow"] and all(r["packets"] is None for r in before["slow"]), before
    assert "capture start" in t.ctl("slow", "packets", before["slow"][0]["number"], ok=5)
    t.ctl("capture", "start", "--port", "p0")
    time.sleep(0.3)
    # Another client is there meanwhile, on the same port's other address, and is not slow.
    began = time.time()
    other = t.cp_start(make_file("sl.other", 4 * MIB, 2), "weft://10.0.1.1/o", port=1, args=["--rate", "2M"])
    rc, _, err = t.cp("weft://10.0.0.1/v", path("sl.out"), args=["--length", "600000"])
    assert rc == 0, err
    ended = time.time()
    other.communicate(timeout=30)
    end = time.monotonic() + 10
    while True:
        got = [r for r in t.ctl("slow")["slow"] if r["op"] == "read"]
        if got and all(r["packets"] is not None for r in got):
            break
        assert time.monotonic() < end, got
        time.sleep(0.1)
    one = max(got, key=lambda r: r["len_bytes"])
    assert one["packets"] > one["len_bytes"] // 9000 and one["packets_left"] == 0, one
    file = path("sl.pcapng")
    rc, out, err = run([app("weft-ctl"), "-s", t.socket, "slow", "packets", one["number"], file])
    assert rc == 0 and f"{one['packets']} packets" in out and os.stat(file).st_mode & 0o777 == 0o600, (rc, out, err)
    assert "is there already" in run([app("weft-ctl"), "-s", t.socket, "slow", "packets", one["number"], file])[2]
    host, port = one["peer"].rsplit(":", 1)
    kept = packets(file)
    assert len(kept) == one["packets"] and all((host, int(port)) in (s, d) for _, s, d in kept), kept[:3]
    assert all(began - 0.1 < at < ended + 0.1 for at, _, _ in kept), (began, ended, kept[0], kept[-1])
    assert kept[-1][0] - kept[0][0] <= one["total_us"] / 1e6 + 0.05, (kept[0], kept[-1], one)
    if shutil.which("tshark"):
        rc, out, err = run(["tshark", "-r", file])
        assert rc == 0 and out.count("\n") == len(kept), err
    rc, out, err = run([app("weft-ctl"), "-s", t.socket, "--json", "slow", "packets", one["number"]])
    assert rc == 0 and set(json.loads(out)) == schema()["slow.packets"][0], err
    p = subprocess.run([app("weft-ctl"), "-s", t.socket, "slow", "packets", one["number"], "-"], capture_output=True, check=True)
    with open(file, "rb") as f:
        assert p.stdout == f.read()
    for words, rc, want in ((["nix", path("x")], 2, "no number"), (["99-0", path("x")], 2, "no number"),
                            (["0-999999", path("x")], 5, "kept"), ([one["number"]], 2, "FILE is missing"),
                            ([one["number"], "/no/such/x"], 1, "No such file")):
        bad, out, err = run([app("weft-ctl"), "-s", t.socket, "slow", "packets", *words])
        assert bad == rc and want in err and not out, (words, bad, err)
    # They stay when the capture ends, and are in the bundle.
    t.ctl("capture", "stop", "--port", "p0")
    rc, out, err = run([app("weft-ctl"), "-s", t.socket, "support-bundle", path("sl.tar")])
    assert rc == 0 and "data of clients" in out, (out, err)
    with tarfile.open(path("sl.tar")) as tar:
        with open(file, "rb") as f:
            assert tar.extractfile(f"weft-support/slow-{one['number']}.pcapng").read() == f.read()
    assert t.term() == 0


def threads(t):
    """Names of the target's threads."""
    names = []
    for task in os.listdir(f"/proc/{t.proc.pid}/task"):
        with open(f"/proc/{t.proc.pid}/task/{task}/comm") as f:
            names.append(f.read().strip())
    return names


def test_telemetry():
    """Telemetry ends a capture that weft-ctl has started: the stop of weft-ctl ends the rest of it."""
    t = Controlled("tl", objects("tl", "a"), extra="slow_ms = 100\n")
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write("[weft]\ntelemetry = yes\n" + text)
    t.start()
    t.ctl("capture", "start")
    assert "weft-slow" in threads(t) and captures(t)["on"]
    assert "packets" in Telemetry(t.proc.pid).ask("/weft/capture_stop,p0")
    assert not captures(t)["on"] and not t.ctl("capture", "stop")["changed"]
    assert "weft-slow" not in threads(t), threads(t)
    assert t.term() == 0


if __name__ == "__main__":
    main([test_start_and_stop, test_refused, test_room, test_slow, test_telemetry])
