#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The device, and rping over it: test_rping.py BUILD [CASE...]. TAP."""
import os
import random
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import CLIENT, SERVER, check  # noqa: E402


def ping_text(n, size):
    """The data of rping's n-th ping: a header, and the printable characters from the n-th on."""
    start = 65 + n
    text = f"rdma-ping-{n}: "
    c = start
    while len(text) < size - 1:
        text += chr(c)
        c = c + 1 if c < 122 else 65
    return text[:size - 1]


def devices(build):
    """ibv_devices lists weft0 alone, with a GUID that stays."""
    rig.need("ibv_devices")
    guids = []
    for _ in range(2):
        with rig.Rig(build) as r:
            e = r.start("server", ["ibv_devices"])
            check(e.wait() == 0, e)
            rows = re.findall(r"^\s*(\S+)\s+([0-9a-f]{16})$", e.out, re.M)
            check(len(rows) == 1 and rows[0][0] == "weft0", e)
            guids.append(rows[0][1])
    check(guids[0] == guids[1] and int(guids[0], 16) >> 56 & 3 == 2, f"GUIDs: {guids}")


def devinfo(build):
    """ibv_devinfo tells an active iWARP port."""
    rig.need("ibv_devinfo")
    with rig.Rig(build) as r:
        e = r.start("server", ["ibv_devinfo", "-v"])
        check(e.wait() == 0, e)
        for want in (r"transport:\s+iWARP \(1\)", r"state:\s+PORT_ACTIVE \(4\)", r"link_layer:\s+Ethernet", r"gid_tbl_len:\s+1$",
                     r"GID\[\s*0\]:\s+fe80:0000:", r"atomic_cap:\s+ATOMIC_HCA", r"max_sge:\s+32$"):
            check(re.search(want, e.out, re.M), f"no line like {want}", e)


def verbose(build):
    """rping -v: the server reads each ping's data, the client gets it back."""
    with rig.Rig(build) as r:
        s, c = r.pair(["rping", "-s", "-v", "-C", "3", "-a", SERVER], ["rping", "-c", "-v", "-C", "3", "-a", SERVER])
        want = [ping_text(n, 64) for n in range(3)]
        check(re.findall(r"^ping data: (.*)$", c.out, re.M) == want, f"wanted {want}", c)
        check(re.findall(r"^server ping data: (.*)$", s.out, re.M) == want, f"wanted {want}", s)


def verify(build):
    """rping -V: 300 pings of 60000 octets, each compared by the client."""
    with rig.Rig(build) as r:
        s, c = r.pair(["rping", "-s", "-C", "300", "-S", "60000", "-a", SERVER],
                      ["rping", "-c", "-V", "-C", "300", "-S", "60000", "-a", SERVER])
        check("data mismatch" not in c.out + c.err, c)
        check("DISCONNECT EVENT" in s.out + s.err, s)


def persistent(build):
    """rping -P: one server, clients one after the other, from any address and to one."""
    rig.need("rping")
    with rig.Rig(build) as r:
        s = r.server(["rping", "-s", "-P", "-v"])
        c = r.client(["rping", "-c", "-v", "-C", "2", "-a", SERVER, "-I", CLIENT])
        check(c.wait() == 0, c)
        check(re.findall(r"^ping data: (.*)$", c.out, re.M) == [ping_text(n, 64) for n in range(2)], c)
        check(s.p.poll() is None, "the persistent server ended", s)


def no_listener(build):
    """rping to a port without a listener is rejected."""
    rig.need("rping")
    with rig.Rig(build) as r:
        r.server(["rping", "-s", "-P", "-p", "7180"])
        c = r.client(["rping", "-c", "-C", "1", "-a", SERVER, "-p", "7181"])
        check(c.wait() != 0, c)
        check("RDMA_CM_EVENT_REJECTED" in c.out + c.err, c)


def killed(build):
    """An end that is killed at any time: the other one hears of it, and a new pair starts at once"""
    rig.need("rping")
    draw = random.Random(int(os.environ.get("WEFT_TEST_SEED", "1")))
    for n in range(6):
        with rig.Rig(build) as r:
            s = r.server(["rping", "-s", "-C", "100000000"])
            c = r.client(["stdbuf", "-oL", "rping", "-c", "-v", "-V", "-C", "100000000", "-a", SERVER])
            rig.until(lambda c=c: "ping data" in c.out, c)
            time.sleep(draw.uniform(0, 0.7))
            dead, left = (c, s) if n % 2 == 0 else (s, c)
            dead.kill()
            left.wait(40)
            check("DISCONNECT EVENT" in left.out + left.err, left)


def memcheck(build):
    """valgrind finds nothing wrong at either end of rping and of ib_send_bw"""
    rig.need("valgrind", "rping", "ib_send_bw")
    for program, server, client in (("rping", ["-s", "-C", "3", "-a", SERVER], ["-c", "-C", "3", "-a", SERVER]),
                                    ("ib_send_bw", ["-R", "-n", "30", "-F"], ["-R", "-n", "30", "-F", SERVER])):
        for role in range(2):
            with rig.Rig(build) as r:
                grind = ["valgrind", "-q", "--error-exitcode=99", program]
                run = r.pair if program == "rping" else r.perftest
                s, c = run([*(grind if role == 0 else [program]), *server], [*(grind if role == 1 else [program]), *client], timeout=90)
                check("==" not in s.err + c.err, program, s, c)


def no_configuration(build):
    """Without a port there is one line that says what to do, and no program starts."""
    run = os.path.join(build, "apps/verbs/weft-run")
    if not os.path.exists(run):
        raise rig.Skip("weft-run was not built")
    env = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    p = subprocess.run([run, "true"], capture_output=True, text=True, env=env, check=False)
    check(p.returncode == 1 and len(p.stderr.splitlines()) == 1 and "no configuration" in p.stderr, p.stderr)
    p = subprocess.run([run, "--dev", "net_memif0", "--address", "10.9.0.300/24", "true"], capture_output=True, text=True, env=env,
                       check=False)
    check(p.returncode == 1 and len(p.stderr.splitlines()) == 1 and "10.9.0.300" in p.stderr, p.stderr)


def bad_ports(build):
    """A device that is not there ends weft-run; a port in use and too little memory are one line and ENODEV in the program"""
    rig.need("rping")
    serve = ["rping", "-s", "-C", "1", "-a", SERVER]
    with rig.Rig(build) as r:
        p = subprocess.run([r.run, "--dev", "net_af_packet0,iface=nosuch0", "--address", "10.9.0.1/24", *serve], capture_output=True,
                           text=True, check=False, timeout=30)
        check(p.returncode == 1 and len(p.stderr.splitlines()) == 1 and "no such network interface" in p.stderr, p.stderr)
        first = r.server(serve)
        second = r.start("server", serve)
        ends = [(second, "another process serves that socket")]
        if not r.env:  # AddressSanitizer takes more for itself
            ends.append((r.server(["prlimit", "--as=400000000", *serve], settle=False), "memory"))
        for e, why in ends:
            check(e.wait(30) != 0, e)
            lines = [x for x in e.err.splitlines() if x.startswith("weft: ")]
            check(len(lines) == 1 and why in lines[0] and "rdma_bind_addr: No such device" in e.err, e)
        check(first.p.poll() is None, "the first server has ended", first)


def print_env(build):
    """--print-env prints what a shell can evaluate, and a program started by hand finds the device."""
    rig.need("ibv_devices")
    with rig.Rig(build) as r:
        e = r.start("server", [], options=["--print-env"])
        check(e.wait() == 0 and "LD_PRELOAD" in e.out, e)
        p = subprocess.run(["bash", "-c", e.out + "exec ibv_devices"], capture_output=True, text=True, check=False)
        check(p.returncode == 0 and "weft0" in p.stdout, p.stdout + p.stderr)


if __name__ == "__main__":
    rig.main([devices, devinfo, verbose, verify, persistent, no_listener, killed, memcheck, no_configuration, bad_ports, print_env])
