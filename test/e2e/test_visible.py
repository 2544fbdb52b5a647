#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Looking at a live stack: telemetry, captures, the console. test_visible.py BUILD [CASE...]"""
import json
import os
import shutil
import socket
import stat
import subprocess

from weft_e2e import PROCS, Skip, Target, app, main, path, run

EXPORT = {"demo": {"persist": "volatile", "size": "1M"}}


def runtime_dir(pid):
    base = "/var/run/dpdk" if os.getuid() == 0 else \
        os.path.join(os.environ.get("XDG_RUNTIME_DIR", "/tmp"), "dpdk")
    return os.path.join(base, f"weft-{pid}")


class Telemetry:
    """A client of DPDK's telemetry socket."""

    def __init__(self, pid):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(10)
        self.sock.connect(os.path.join(runtime_dir(pid), "dpdk_telemetry.v2"))
        hello = json.loads(self.sock.recv(16384))
        self.room = hello["max_output_len"]

    def ask(self, cmd):
        self.sock.send(cmd.encode())
        return json.loads(self.sock.recv(self.room))[cmd.split(",")[0]]


class Console:
    """A console client, one command at a time."""

    def __init__(self, t):
        self.p = subprocess.Popen([app("weft-console"), *t.client_args()], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        PROCS.append(self.p)

    def say(self, *lines):
        for line in lines:
            self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def until(self, word):
        seen = ""
        for line in self.p.stdout:
            seen += line
            if word in line:
                return line
        raise AssertionError(f"no '{word}' in: {seen}")

    def end(self):
        out, _ = self.p.communicate("quit\n", timeout=30)
        return out


def start(name, exports=EXPORT):
    t = Target(name, exports)
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write("[weft]\ntelemetry = yes\n" + text)
    t.start()
    assert f"dpdk-telemetry.py -f weft-{t.proc.pid}" in t.logged(), t.logged()
    return t, Telemetry(t.proc.pid)


def test_counters_and_connections():
    t, tel = start("tel")
    assert tel.ask("/weft/workers"), "no worker"
    assert tel.ask("/weft/conns,0") in ({}, None)
    before = tel.ask("/weft/tcp,0")
    assert before["conns_accepted"] == 0 and before["retrans_segs"] == 0, before
    c = Console(t)
    c.say("connect 10.0.0.1 7471")
    c.until("established")
    conns = tel.ask("/weft/conns,0")
    assert len(conns) == 1, conns
    number, text = conns.popitem()
    assert text.startswith("10.0.0.1:7471 10.0.0.2:") and text.endswith("established"), text
    conn = tel.ask(f"/weft/conn,0,{number}")
    for key in ("srtt_us", "rttvar_us", "rto_us", "cwnd_bytes", "mss_bytes", "snd_wnd_bytes"):
        assert conn[key] > 0, (key, conn)
    assert conn["state"] == "established"
    after = tel.ask("/weft/tcp,0")
    assert after["conns_accepted"] == 1 and after["conns_now"] == 1, after
    assert tel.ask("/weft/worker,0")["segs_in"] > 0
    polls = tel.ask("/weft/worker/polls,0")
    assert 0 < polls["p50_ns"] <= polls["p99_ns"] <= polls["max_ns"] <= polls["sum_ns"], polls
    assert polls["polls"] == sum(v for k, v in polls.items() if k.startswith("below_")), polls
    assert tel.ask("/weft/netif,0,0")["rx_packets"] > 0
    for bad in ("/weft/conn,0,999999", "/weft/conn,0", "/weft/tcp,9", "/weft/tcp,x", "/weft/worker/polls,9", "/weft/worker/polls",
                "/weft/netif,0,7"):
        answer = tel.ask(bad)
        assert list(answer) == ["error"] and answer["error"], (bad, answer)
    c.end()


def test_no_failure_is_null():
    """Every command answers an object, or the reason why not, for any argument; and each is in the docs."""
    t, tel = start("nul")
    with open(os.path.join(os.path.dirname(__file__), "../../docs/visibility.md")) as f:
        docs = f.read()
    ours = [c for c in tel.ask("/") if c.startswith("/weft")]
    assert len(ours) >= 15, ours
    for cmd in ours:
        assert f"`{cmd}" in docs, f"{cmd} is not in docs/visibility.md"
        if cmd.split("/")[2:] in (["worker"], ["rdmap"], ["tcp"], ["netif"], ["pools"], ["group"], ["local_ports"], ["conns"], ["conn"]):
            answer = tel.ask(cmd + (",0,99" if cmd in ("/weft/worker", "/weft/rdmap", "/weft/tcp") else ",0,0,0"))
            assert list(answer or ()) == ["error"], (cmd, "surplus parameters", answer)
        for params in ("", ",", ",x", ",99", ",0,99999", ",0,0,0,0,0", ",nothing,/nowhere/f", "," + "9" * 200):
            answer = tel.ask(cmd + params)
            assert answer is not None or cmd == "/weft/conns", (cmd, params)
            if params == ",x" and answer and "guard" not in cmd and not cmd.endswith("s"):
                assert list(answer) == ["error"] and answer["error"], (cmd, params, answer)
    assert t.term() == 0
    t.term()
    assert not os.path.exists(runtime_dir(t.proc.pid)), "telemetry left its directory"


def test_folder_of_all_stays():
    """EAL makes the folder of all DPDK programs and then its own below. It cannot start if another program removes the first one
    in between. So a weft program removes its own only."""
    private = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && { "$@"; ls -A /run/dpdk; }', "x"]
    if run([*private[:-2], "mount -t tmpfs none /run"])[0] != 0:
        raise Skip("no private /run can be made")
    rc, out, err = run([*private, app("weft-perf"), "write", "-n", "1", "--dev", "net_null0", "--address", "10.0.0.1/24", "--timeout", "1",
                        "10.0.0.2"])
    assert rc == 0 and "nothing answers" in err and "weft-" not in out, (rc, out, err)


def captured(file, *args):
    if shutil.which("tshark") is None:
        raise Skip("tshark is not installed")
    rc, out, err = run(["tshark", "-r", file, *args])
    assert rc == 0, err
    return out


def test_capture_of_one_connection():
    t, tel = start("cap")
    file = path("one.pcapng")
    c = Console(t)
    c.say("connect 10.0.0.1 7471")
    c.until("established")
    number, text = tel.ask("/weft/conns,0").popitem()
    first = text.split()[1].split(":")[1]
    c.say("connect 10.0.0.1 7471")
    c.until("established")
    second = [v.split()[1].split(":")[1] for v in tel.ask("/weft/conns,0").values()
              if v.split()[1].split(":")[1] != first][0]
    assert tel.ask(f"/weft/capture,p0,{file},0,{number}") == file
    assert list(tel.ask(f"/weft/capture,p0,{file}")) == ["error"], "two captures of one port"
    assert list(tel.ask(f"/weft/capture,nobody,{file}")) == ["error"]
    c.say("disconnect 1", "disconnect 2", "sleep 300", "show qps")
    c.say("show port")
    c.until("tx ")
    st = tel.ask("/weft/capture_stop,p0")
    assert st["packets"] > 0 and st["dropped"] == 0 and st["error"] == 0, st
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert os.path.getsize(file) == st["file_bytes"], st
    c.end()
    t.term()
    ports = captured(file, "-Y", "tcp", "-T", "fields", "-e", "tcp.port")
    assert first in ports and second not in ports, (first, second, ports)
    assert len(ports.splitlines()) == st["packets"], (st, ports)
    bad = captured(file, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y",
                   "tcp.checksum.status == 0 or ip.checksum.status == 0 or _ws.malformed")
    assert bad == "", bad


def test_console_capture():
    t, tel = start("con")
    file = path("console.pcapng")
    c = Console(t)
    c.say("show port")
    port = c.until("link").split(":")[0].split()[-1]
    c.say(f"capture port {port} {file}", "connect 10.0.0.1 7471")
    c.until("established")
    c.say("disconnect 1", "sleep 100", f"capture stop {port}")
    line = c.until("captured")
    assert int(line[line.index("captured"):].split()[1]) > 5, line
    c.end()
    t.term()
    flags = captured(file, "-Y", "tcp.flags.syn == 1", "-T", "fields", "-e", "tcp.flags.ack")
    assert flags.split() in (["0", "1"], ["False", "True"]), flags
    mpa = captured(file, "-Y", "iwarp_mpa.req or iwarp_mpa.rep")
    assert len(mpa.splitlines()) == 2, mpa


if __name__ == "__main__":
    main([test_counters_and_connections, test_no_failure_is_null, test_folder_of_all_stays, test_capture_of_one_connection,
          test_console_capture])
