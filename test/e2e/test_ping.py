#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-ping as client and as server over memif, against itself and against peers that break rping's protocol.

test_ping.py BUILD [CASE...]
"""
import json
import os
import re
import select
import signal
import subprocess
import time

from weft_e2e import BUILD, PROCS, app, main, memif, path, run

PROBE = os.path.join(BUILD, "test", "e2e", "ping_probe")
SRV = "10.0.0.1/24,fd00::1/64"
CLI = "10.0.0.2/24,fd00::2/64"


def data(seq, size=64):
    head = f"rdma-ping-{seq}: "
    return head + "".join(chr(65 + (seq + i) % 58) for i in range(size - len(head) - 1))


class Proc:
    """A process whose output is awaited line by line."""

    def __init__(self, cmd):
        self.p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE)
        PROCS.append(self.p)
        self.read = {"stdout": b"", "stderr": b""}

    def line(self, word, stream="stderr", seconds=20):
        end = time.monotonic() + seconds
        fd = getattr(self.p, stream).fileno()
        while time.monotonic() < end:
            line, nl, rest = self.read[stream].partition(b"\n")
            if nl:
                self.read[stream] = rest
                if word in line.decode():
                    return line.decode()
                continue
            if not select.select([fd], [], [], 1)[0]:
                continue
            more = os.read(fd, 65536)
            assert more, f"ended without '{word}'"
            self.read[stream] += more
        raise AssertionError(f"no '{word}' in {seconds} s")

    def end(self, seconds=30):
        out, err = self.p.communicate(timeout=seconds)
        return self.p.returncode, (self.read["stdout"] + out).decode(), (self.read["stderr"] + err).decode()

    def term(self, seconds=20):
        self.p.send_signal(signal.SIGTERM)
        return self.end(seconds)


def server(sock, *args, address=SRV):
    s = Proc([app("weft-ping"), "-s", *args, "--dev", memif(0, "server", sock), "--address", address])
    s.line("waiting")
    return s


def cmd(sock, *args, host="10.0.0.1", address=CLI, i=0):
    return [app("weft-ping"), "-c", *args, "-a", host, "--dev", memif(i, "client", sock), "--address", address]


def ping(sock, *args, **kw):
    return run(cmd(sock, *args, **kw), timeout=60)


def probe_server(kind, sock):
    p = Proc([PROBE, "server", kind, memif(0, "server", sock), SRV, "10.0.0.1"])
    p.line("listening", "stdout")
    return p


def probe_client(kind, sock, host="10.0.0.1"):
    return Proc([PROBE, "client", kind, memif(0, "client", sock), CLI, host])


def one_line(err, *words):
    got = err.strip().splitlines()
    assert len(got) == 1, err
    assert all(w in got[0] for w in words), (words, got[0])


def test_ping():
    """One client, IPv4: rping's lines on both sides, and an orderly end."""
    sock = path("a.sock")
    s = server(sock, "-v", "-V")
    rc, out, err = ping(sock, "-v", "-V", "-C", "5")
    assert rc == 0 and err == "", err
    lines = out.splitlines()
    assert lines[:5] == [f"ping data: {data(i)}" for i in range(5)], out
    assert re.search(r"#bytes.*#iterations.*t_min.*t_avg.*t_typical.*99%.*t_max", lines[5]), out
    row = lines[6].split()
    assert row[:2] == ["64", "5"] and len(lines) == 7, out
    t_min, avg, p50, p99, t_max = map(float, row[2:])
    assert 0 < t_min <= p50 <= p99 <= t_max and t_min <= avg <= t_max, out
    rc, out, err = s.end()
    assert rc == 0 and out.splitlines() == [f"server ping data: {data(i)}" for i in range(5)], (rc, out, err)
    one_line(err, "10.0.0.2:", "5 pings, left in order")


def test_families():
    """IPv6, global and link-local, a server on one address only, and the port number."""
    sock = path("b.sock")
    s = server(sock, "-P", "-p", "7999")
    assert ping(sock, "-p", "7999", "-C", "3", "-V", host="fd00::1")[0] == 0
    rc, out, err = ping(sock, "-C", "3")
    assert rc == 1
    one_line(err, "10.0.0.1:7174", "no server listens there; start rping -s")
    assert s.term()[0] == 0
    s = server(sock, "-P", "-a", "fd00::1")
    assert ping(sock, "-C", "3", "-V", host="fd00::1", address="fd00::2/64")[0] == 0
    rc, out, err = ping(sock, "-C", "3")
    assert rc == 1, "a server on fd00::1 answered on 10.0.0.1"
    assert s.term()[0] == 0


def test_sizes():
    """From the smallest size to many segments, in the units of -S. The server's -S is its buffer size."""
    sock = path("c.sock")
    s = server(sock, "-P", "-V", "-S", "1M")
    for size, n in (("23", 23), ("24", 24), ("1442", 1442), ("65535", 65535), ("64K", 65536), ("1M", 1 << 20)):
        rc, out, err = ping(sock, "-C", "8", "-V", "-S", size, "--json")
        r = json.loads(out)
        assert rc == 0 and r["bytes"] == n and r["pings"] == 8 and r["error"] is None, (out, err)
    assert s.term()[0] == 0


def test_json():
    sock = path("d.sock")
    s = server(sock, "--json")
    rc, out, err = ping(sock, "-C", "200", "--json", "--mpa-rev", "1")
    r = json.loads(out)
    assert rc == 0 and r["role"] == "client" and r["pings"] == 200 and r["verified"] is False, out
    assert 0 < r["t_min_us"] <= r["t_p50_us"] <= r["t_p99_us"] <= r["t_max_us"], out
    assert r["t_min_us"] <= r["t_avg_us"] and r["seconds"] > 0 and r["t_stdev_us"] >= 0, out
    rc, out, err = s.end()
    r = json.loads(out)
    assert rc == 0 and (r["role"], r["clients"], r["failed"], r["pings"]) == ("server", 1, 0, 200), out


def test_quiet():
    sock = path("e.sock")
    s = server(sock, "-P")
    assert ping(sock, "-C", "2", "-q") == (0, "", "")
    rc, out, err = ping(sock, "-C", "2", "-d")
    assert rc == 0 and "connected: IRD 1, ORD 1" in err and "ping 1: write to: STag 0x" in err, err
    assert s.term()[0] == 0


def test_interrupted():
    """Without -C the client pings until SIGINT. Then it prints the summary and ends with status 0."""
    sock = path("f.sock")
    s = server(sock, "-P")
    c = Proc(cmd(sock, "-v", "-V"))
    c.line("rdma-ping-20: ", "stdout")
    c.p.send_signal(signal.SIGINT)
    rc, out, err = c.end()
    assert rc == 0 and "#iterations" in out and err == "", (rc, err)
    s.line("left in order")
    assert s.term()[0] == 0


def test_slow_reader():
    """The output of -v is not read: the ping waits, but the connection and other clients are not affected."""
    sock = path("sr.sock")
    s = server(sock, "-P", "-v", "-S", "64K")
    c = Proc(cmd(sock, "-C", "6", "-V", "-S", "30000", "--timeout", "20"))
    time.sleep(5)  # longer than keepalive needs to give a silent peer up
    assert c.p.poll() is None, c.end()
    for i in range(6):
        assert s.line("rdma-ping-", "stdout") == "server ping data: " + data(i, 30000)
    rc, out, err = c.end()
    assert rc == 0, err
    s.line("6 pings, left in order")
    # The same for the client's output.
    c = Proc(cmd(sock, "-C", "6", "-v", "-S", "30000"))
    for i in range(6):
        assert s.line("rdma-ping-", "stdout") == "server ping data: " + data(i, 30000)
        if i == 3:
            time.sleep(5)
        assert c.line("rdma-ping-", "stdout") == "ping data: " + data(i, 30000)
    assert c.end()[0] == 0
    s.line("6 pings, left in order")
    assert s.term()[0] == 0


def test_persistent():
    """Clients one after another, and clients at the same time. Without -P only the first is served."""
    sock = path("g.sock")
    s = server(sock, "-P", "-V")
    for n in (1, 10, 100):
        assert ping(sock, "-C", str(n), "-V")[0] == 0
        assert f" {n} ping" in s.line("left in order")
    assert s.term()[0] == 0
    # Two ports for two clients at the same time.
    conf = path("g.ini")
    with open(conf, "w") as f:
        for i in range(2):
            f.write(f"[port p{i}]\ndev = {memif(i, 'server', path(f'g{i}.sock'))}\naddress = 10.0.{i}.1/24\n")
    for args, second in ((["-P"], 0), ([], 1)):
        s = Proc([app("weft-ping"), "-s", *args, "--config", conf])
        s.line("waiting")
        held = probe_client("hold", path("g0.sock"))
        held.line("done", "stdout")
        rc, out, err = ping(path("g1.sock"), "-C", "3", "-V", host="10.0.1.1", address="10.0.1.2/24")
        assert rc == second, err
        if second:
            one_line(err, "10.0.1.1:7174: the server refuses: it has as many clients as it takes")
            s.line("refused: there is a client (-P takes more)")
        held.p.stdin.close()
        s.line("10.0.0.2:", seconds=5)
        held.line("end: status 0", "stdout")
        rc = s.term()[0] if args else s.end()[0]
        assert rc == 0


def test_config_picks_the_port():
    """A client's configuration may have many ports: the port that reaches the server is opened, or the port of -I."""
    sock = path("h.sock")
    s = server(sock, "-P")
    conf = path("h.ini")
    with open(conf, "w") as f:
        f.write(f"[port far]\ndev = {memif(1, 'client', path('nobody.sock'))}\naddress = 10.9.0.2/24\n"
                f"[port near]\ndev = {memif(0, 'client', sock)}\naddress = 10.0.0.2/24\naddress6 = fd00::2/64\n")
    base = [app("weft-ping"), "-c", "-C", "2", "--config", conf]
    for more in (["-a", "10.0.0.1"], ["-a", "fd00::1"], ["-a", "10.0.0.1", "-I", "10.0.0.2"]):
        rc, out, err = run([*base, *more])
        assert rc == 0, err
    for more, words in ((["-a", "10.0.0.1", "-I", "10.9.0.2"], ["no port reaches 10.0.0.1", "far"]),
                        (["-a", "10.0.0.1", "-I", "10.0.0.3"], ["10.0.0.3 is the address of no port"]),
                        (["-a", "10.0.0.2"], ["own port near"]),
                        (["-a", "192.0.2.1"], ["no port reaches 192.0.2.1"])):
        rc, out, err = run([*base, *more])
        assert rc == 1, more
        one_line(err, *words)
    assert s.term()[0] == 0


def test_too_large():
    """A ping larger than the server's buffer: both sides say what to do, and the server continues."""
    sock = path("i.sock")
    s = server(sock, "-P")
    rc, out, err = ping(sock, "-S", "3000", "-C", "3", "--json")
    assert rc == 1
    one_line(err, "10.0.0.1:7174: ping 0: the server closed the connection", "3000 octets", "-S")
    r = json.loads(out)
    assert r["pings"] == 0 and r["t_min_us"] is None and r["error"] in err, out
    s.line("10.0.0.2:").index("3000 octets, and there is room for 100; start the server with -S 3000")
    assert ping(sock, "-C", "3")[0] == 0
    assert s.term()[0] == 1, "a client failed"


# What a client reports of servers that break the protocol at the second ping, and what the servers saw.
BAD_SERVERS = {
    "corrupt": ["ping 1: the answer differs from what was sent, first at octet 42 of 64: 0x"],
    "short": ["ping 1: a message of 8 octets instead of 16; is that an rping server?"],
    "early": ["ping 1: a message that is not due; is that an rping server?"],
    "long": ["ping 1: we ended the connection: DDP layer: untagged buffer error: message longer than the receive"],
    "overread": ["ping 1: we ended the connection: ", "base or bounds violation"],
    "overwrite": ["ping 1: we ended the connection: DDP layer: tagged buffer error: base or bounds violation"],
    "deaf": ["ping 1: the server ended the connection: DDP layer: untagged buffer error: no buffer: "
             "no receive posted, or more requests than IRD",
             "is its -S smaller"],
    "leave": ["ping 1: the server closed the connection", "is its -S smaller"],
    "reject": ["10.0.0.1:7174: the server refuses: no pings today"],
    "silent": ["ping 1: no answer within 1 s"],
}


def test_bad_servers():
    for kind, words in BAD_SERVERS.items():
        sock = path(f"bs-{kind}.sock")
        p = probe_server(kind, sock)
        rc, out, err = ping(sock, "-V", "-C", "3", "--timeout", "1")
        assert rc == 1, (kind, out, err)
        one_line(err, *words)
        if kind != "reject":
            assert out.splitlines()[1].split()[1] == ("2" if kind == "corrupt" else "1"), (kind, out)
        p.end()


def test_verification_is_asked_for():
    """Without -V the corrupted answer is accepted, as by rping."""
    sock = path("nv.sock")
    p = probe_server("corrupt", sock)
    rc, out, err = ping(sock, "-C", "3")
    assert rc == 0, err
    p.end()


def test_server_dies():
    sock = path("sd.sock")
    p = probe_server("die", sock)
    begin = time.monotonic()
    rc, out, err = ping(sock, "-C", "3")
    assert rc == 1
    one_line(err, "10.0.0.1:7174: ping 1: ", "the link is down")
    assert time.monotonic() - begin < 6, "took long to notice"
    p.end()


BAD_CLIENTS = {
    "short": ["ping 1: a message of 8 octets instead of 16; is that an rping client?"],
    "early": ["ping 1: a message that is not due; is that an rping client?"],
    "lie": ["ping 1: the client ended the connection: ", "base or bounds violation"],
    "grow": ["ping 1: 100 octets were offered and room for 101; is that an rping client?"],
    "data": ["ping 1: the data is not a ping's, first at octet 50 of 100: 0x21 instead of 0x"],
    "leave": ["ping 1: the client left in the middle of it"],
}


def test_bad_clients():
    """A persistent server reports the fault of each client and serves the next."""
    sock = path("bc.sock")
    s = server(sock, "-P", "-V")
    for kind, words in BAD_CLIENTS.items():
        c = probe_client(kind, sock)
        line = s.line("10.0.0.2:")
        assert all(w in line for w in words), (kind, line)
        rc, out, err = c.end()
        assert "done" not in out and "end: " in out, (kind, out, err)
        c = probe_client("honest", sock)
        c.line("done", "stdout")
        assert " 3 pings, left in order" in s.line("10.0.0.2:")
        c.end()
    assert s.term()[0] == 1


def test_client_dies():
    """Keepalive detects a client that is killed during a ping. Other clients are served meanwhile and afterwards."""
    sock = path("cd.sock")
    s = server(sock, "-P")
    c = probe_client("die", sock)
    c.end()
    assert ping(sock, "-C", "3", "-V")[0] == 0
    line = s.line("ping 1: ", seconds=20)
    assert "the connection is lost: " in line or "left in the middle" in line, line
    assert ping(sock, "-C", "3", "-V")[0] == 0
    assert s.term()[0] == 1


def test_usage():
    dev = ["--dev", memif(0, "client", path("u.sock")), "--address", CLI]
    for args, word in (([], "-s (server) and -c (client)"), (["-s", "-c"], "-s (server) and -c (client)"),
                       (["-c", *dev], "-a ADDRESS"), (["-c", "-a", "10.0.0.1"], "--config"),
                       (["-s", *dev, "-S", "22"], "-S"), (["-s", *dev, "-S", "17M"], "-S"),
                       (["-s", *dev, "-C", "0"], "-C"), (["-s", *dev, "-p", "65536"], "-p"),
                       (["-s", *dev, "-I", "10.0.0.2"], "-I"), (["-c", "-a", "10.0.0.1", "-P", *dev], "-P"),
                       (["-c", "-a", "10.0.0.1", "-v", "--json", *dev], "--json"),
                       (["-c", "-a", "fd00::1", "-I", "10.0.0.2", *dev], "two families"),
                       (["-c", "-a", "::", *dev], "name the server"), (["-s", *dev, "more"], "more")):
        rc, out, err = run([app("weft-ping"), *args])
        assert rc == 2 and out == "", (args, rc, out, err)
        one_line(err, "weft-ping: ", word, "--help")
    rc, out, err = run([app("weft-ping"), "--help"])
    assert rc == 0 and err == "" and max(map(len, out.splitlines())) <= 110, out
    for o in ("-s", "-c", "-a ", "-I ", "-p ", "-S ", "-C ", "-v ", "-V ", "-d ", "-P ", "-q,", "--json", "--timeout",
              "--mpa-rev", "--settle", "--config", "--dev", "--address", "--mtu", "--version"):
        assert f"  {o}" in out, f"--help has no {o}"
    assert run([app("weft-ping"), "--version"])[1].startswith("weft-ping ")
    rc, out, err = run([app("weft-ping"), "-s", "-a", "10.0.0.9", "--dev", memif(0, "server", path("u2.sock")),
                        "--address", SRV])
    assert rc == 1
    one_line(err, "10.0.0.9 is the address of no port")


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
