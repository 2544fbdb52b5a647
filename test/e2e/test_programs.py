#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-perf and weft-console against themselves over memif; quickstart. test_programs.py BUILD [CASE...]"""
import json
import os
import re
import subprocess

from weft_e2e import BUILD, PROCS, app, main, make_file, memif, path, run, sha


def perf_server(sock, *args, env=None):
    p = subprocess.Popen([app("weft-perf"), "--server", "--dev", memif(0, "server", sock),
                          "--address", "10.0.0.1/24", *args], env=env, stderr=subprocess.PIPE, text=True,
                         stdin=subprocess.DEVNULL)
    PROCS.append(p)
    line = p.stderr.readline()
    assert "waiting" in line, line + p.stderr.read()
    return p


def perf(sock, *args):
    rc, out, err = run([app("weft-perf"), *args, "--dev", memif(0, "client", sock), "--address",
                        "10.0.0.2/24", "10.0.0.1"], timeout=120)
    assert rc == 0, err
    return out


def test_perf_tests():
    sock = path("perf.sock")
    perf_server(sock)
    for test in ("write", "read", "send", "write-imm", "atomic-write", "fetch-add", "cmp-swap"):
        size = [] if test in ("atomic-write", "fetch-add", "cmp-swap") else ["-s", "64"]
        r = json.loads(perf(sock, test, *size, "-n", "5000", "--json"))["results"]
        assert r[0]["iterations"] == 5000 and r[0]["mmsg_s"] > 0, r
        assert r[0]["cycles_per_message"] > 0, r
        r = json.loads(perf(sock, test, "--lat", *size, "-n", "300", "--json"))["results"]
        assert 0 < r[0]["t_min_us"] <= r[0]["t_typical_us"] <= r[0]["t_max_us"], r
    r = json.loads(perf(sock, "write", "-s", "1M", "-n", "200", "--json"))["results"]
    assert r[0]["average_mb_s"] > 1, r


def test_perf_columns():
    sock = path("perfc.sock")
    perf_server(sock)
    out = perf(sock, "write", "-s", "4096", "-D", "1")
    assert re.search(r"#bytes\s+#iterations\s+BW peak.*BW average.*MsgRate", out), out
    out = perf(sock, "send", "--lat", "-n", "200")
    assert re.search(r"t_min.*t_max.*t_typical.*t_avg.*t_stdev.*99%.*99\.9%", out), out


def test_perf_all_sizes():
    sock = path("perfa.sock")
    perf_server(sock)
    r = json.loads(perf(sock, "write", "-a", "-n", "200", "--json"))["results"]
    assert [x["bytes"] for x in r] == [2**i for i in range(1, 21)]


def test_perf_rpc():
    """Calls by both versions of RPC-over-RDMA. A durable WRITE waits for the medium."""
    sock = path("perfr.sock")
    perf_server(sock, "--medium", f"file:{path('perfr.medium')}")
    for version in (2, 1):
        v = ["--rpc-version", str(version), "--json"]
        for test, size, n in (("rpc", 1, 2000), ("rpc-read", 1 << 20, 20), ("rpc-write", 1 << 20, 20),
                              ("rpc-read", 100, 200), ("rpc-write", 5000, 200), ("rpc-durable", 4096, 100)):
            a = [test, *([] if test == "rpc" else ["-s", str(size)]), "-n", str(n)]
            r = json.loads(perf(sock, *a, "-t", "8", *v))["results"][0]
            assert (r["iterations"], r["bytes"], r["rpc_version"]) == (n, size, version), r
            assert ("file" in r.get("region", "")) == (test == "rpc-durable"), r
            r = json.loads(perf(sock, *a, "--lat", *v))["results"][0]
            assert 0 < r["t_min_us"] <= r["t_typical_us"] <= r["t_max_us"], r
    for args, why in ((["rpc-read", "-s", "2M"], "up to 1048576 octets"), (["rpc", "-t", "65"], "64 at most"),
                      (["write", "--rpc-version", "1"], "for tests by RPC")):
        rc, _, err = run([app("weft-perf"), *args, "10.0.0.1"])
        assert rc == 2 and why in err, (args, err)


PLACE = ("flush", "verify", "commit", "commit-bare", "log-append")


def test_perf_place():
    """Flush, Verify and commits on volatile memory, on a file, and on what libpmem takes for persistent memory."""
    force = {**os.environ, "PMEM_IS_PMEM_FORCE": "1"}
    for i, (medium, env, region) in enumerate(((None, None, "volatile"), (f"file:{path('perf.medium')}", None, "file"),
                                               (f"pmem:{path('perf.pmem')}", force, "libpmem on DAX"))):
        sock = path(f"perfm{i}.sock")
        perf_server(sock, *(["--medium", medium] if medium else []), *(["--hash", "sha256"] if i == 1 else []), env=env)
        for test in PLACE if medium is None else ("commit", "log-append"):
            r = json.loads(perf(sock, test, "-n", "300", "-t", "8", "--json"))["results"][0]
            assert r["iterations"] == 300 and r["bytes"] == 4096 and r["average_mb_s"] > 0, r
            assert region in r["region"] and ("sha256" if i == 1 else "crc32c") in r["region"], r
            assert 0 < r["poll_p50_us"] <= r["poll_p99_us"] <= r["poll_max_us"], r
            r = json.loads(perf(sock, test, "--lat", "-s", "100", "-n", "50", "--json"))["results"][0]
            assert 0 < r["t_min_us"] <= r["t_typical_us"] <= r["t_max_us"], r
        for extra in ((), ("--app-thread",)) if i != 0 else ():
            for test in ("two-sided", "two-sided-2"):
                r = json.loads(perf(sock, test, "--lat", "-n", "50", *extra, "--json"))["results"][0]
                assert r["iterations"] == 50 and 0 < r["t_min_us"] <= r["t_typical_us"], r
    out = perf(sock, "commit", "--lat", "-n", "50")
    assert re.search(r"^ region: libpmem on DAX, hash crc32c$", out, re.M), out
    assert len(json.loads(perf(sock, "commit", "-a", "-n", "100", "-t", "4", "--json"))["results"]) == 20


def test_perf_place_content():
    """The content of the medium after a commit test: the last word, and the last data in their slot."""
    sock, file = path("perfw.sock"), path("perfw.medium")
    perf_server(sock, "--medium", f"file:{file}")
    perf(sock, "commit", "--lat", "-s", "4096", "-t", "4", "-n", "100")
    with open(file, "rb") as f:
        data = f.read()
    # 16 slots followed by the word. 10 iterations to warm up came before.
    assert int.from_bytes(data[16 * 4096:16 * 4096 + 8], "little") == 109, data[16 * 4096:16 * 4096 + 64]
    assert int.from_bytes(data[109 % 16 * 4096:][:8], "little") == 109


def test_perf_place_errors():
    def fails(*args, server=False):
        at = ["--dev", memif(0, "server", path("perfe.sock")), "--address", "10.0.0.1/24"]
        rc, out, err = run([app("weft-perf"), *args, *at] + ([] if server else ["10.0.0.2"]))
        assert rc == 2 and err.startswith("weft-perf: "), (args, rc, out, err)
        return err
    assert "no driver 'nonsense'" in fails("--server", "--medium", "nonsense:/x", server=True)
    assert "which file" in fails("--server", "--medium", "file", server=True)
    assert "no path" in fails("--server", "--medium", "volatile:/x", server=True)
    assert "no hash" in fails("--server", "--hash", "md5", server=True)
    assert "needs a key" in fails("--server", "--hash", "hmac-sha256", server=True)
    assert "--lat" in fails("two-sided")
    assert "two-sided" in fails("commit", "--app-thread")
    assert "up to 8388608 octets" in fails("commit", "-s", "16M")
    sock = path("perfe2.sock")
    perf_server(sock, "--medium", f"file:{path('nowhere')}/x")
    rc, out, err = run([app("weft-perf"), "commit", "-n", "10", "--dev", memif(0, "client", sock), "--address",
                        "10.0.0.2/24", "10.0.0.1"])
    assert rc == 1 and "No such file or directory" in err, (rc, err)


def console(dev, addr, script):
    p = subprocess.Popen([app("weft-console"), "--dev", dev, "--address", addr],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    PROCS.append(p)
    p.stdin.write(script)
    p.stdin.flush()
    return p


def test_console():
    """Two consoles: one listens and registers memory, the other connects and posts every operation."""
    sock = path("con.sock")
    a = console(memif(0, "server", sock), "10.0.0.1/24",
                f"register file {path('con.exp')} 65536\nlisten 7000\nshow regions\n")
    text = ""
    while "listening" not in text:
        line = a.stdout.readline()
        assert line, a.stderr.read()
        text += line
    stag = re.search(r"stag (0x[0-9a-f]+)", text).group(1)
    script = path("con.cli")
    with open(script, "w") as f:
        f.write(f"""# replayable
connect 10.0.0.1 7000
register memory 8192
fill 1 0 4096 hello
post write 1 1 0 4096 {stag} 0
post flush 1 {stag} 0 4096 p
post verify 1 {stag} 0 4096
post atomic-write 1 {stag} 8 0x1122334455667788
post read 1 1 4096 64 {stag} 0
post cmp-swap 1 {stag} 4096 0 7
post fetch-add 1 {stag} 4096 1
post imm 1 0x1122
post send 1 greetings
wait 5000
dump 1 4096 32
show port
show connections
show qps
show regions
show counters
show polls
help post
disconnect 1
quit
""")
    rc, out, err = run([app("weft-console"), "--dev", memif(0, "client", sock), "--address",
                        "10.0.0.2/24", "-f", script])
    assert rc == 0, out + err
    for word in ("verify: ", "hash ", "atomic-write: ", "68 65 6c 6c 6f 68 65 6c  11 22 33 44".replace("  ", " "),
                 "cmp-swap: success, it was 0x0", "fetch-add: success, it was 0x7", "imm: success",
                 "RTS", "crc errors 0", "iterations with work; half below"):
        assert word.lower() in out.lower(), f"'{word}' is missing:\n{out}"
    a.stdin.write("quit\n")
    a.stdin.close()
    rest = a.stdout.read()
    assert "greetings" in rest and "immediate data: 0x0000000000001122" in rest, rest
    assert a.wait(timeout=20) == 0


def test_console_spares_files():
    """The command register never grows an existing file."""
    p = make_file("mine", 1000, 5)
    before = sha(p)
    c = console(memif(0, "server", path("cons.sock")), "10.0.0.1/24", f"register file {p} 4096\n")
    out, err = c.communicate(timeout=30)
    assert c.returncode == 1 and "1000 bytes" in out, out + err
    assert sha(p) == before


def test_console_errors():
    sock = path("cone.sock")
    for script, line in (("nonsense\n", 1), ("help\npost write 1 1 0\n", 2), ("show qps\ndump 3 0 1\n", 2)):
        p = console(memif(0, "server", sock), "10.0.0.1/24", script)
        out, err = p.communicate(timeout=30)
        assert p.returncode == 1 and f"stdin:{line}:" in err, (script, out, err)
        if os.path.exists(sock):
            os.unlink(sock)


def test_quickstart():
    """The command of the README, on a small file, with the programs built already."""
    src = make_file("qs.src", 6 << 20, 9)
    top = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    rc, out, err = run([os.path.join(top, "apps", "quickstart"), src],
                       env={**os.environ, "WEFT_QUICKSTART_BUILD": BUILD}, timeout=110)
    assert rc == 0, out + err
    assert sha(src) in out, out


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
