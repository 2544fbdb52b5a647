#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A configuration with several ports: each is a device. By the programs ports.c and leave.c: test_ports.py BUILD [CASE...]. TAP."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import check  # noqa: E402

NETS = "10.9.0", "10.10.0"


def start(r, build, workers, to):
    """A server behind each of two ports, and the program with both ports."""
    programs = [os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_" + p) for p in ("leave", "ports")]
    if not all(map(os.path.exists, programs)):
        raise rig.Skip("not built (libibverbs-dev, librdmacm-dev)")
    servers, text = [], ""
    for i, net in enumerate(NETS):
        r.address["server"] = net + ".1/24"
        servers.append(r.server([programs[0], "server", net + ".1"], weft="telemetry = yes"))
        rig.until(lambda: rig.listens(servers[-1], 7211), servers[-1])
        dev = f"net_memif{i},role=client,id=0,socket={r.path(f'memif{r.n}')},socket-abstract=no"
        text += f"[port p{i}]\ndev = {dev}\naddress = {net}.2/24\n"
    with open(r.path("two.ini"), "w", encoding="utf-8") as f:
        f.write(text + workers)
    c = rig.End([r.run, "--config", r.path("two.ini"), programs[1], *to], env=r.env)
    r.ends.append(c)
    return servers, c


def devices(c):
    """The words behind "device" of each device."""
    return [line.split()[1:] for line in c.out.splitlines() if line.startswith("device ")]


def two(build):
    """two ports are weft0 and weft1; one loses its link, its context and its connection hear of it, and the other goes on"""
    with rig.Rig(build) as r:
        servers, c = start(r, build, "", [net + ".1" for net in NETS])
        rig.until(lambda: "ready" in c.out, c)
        got = devices(c)
        check([d[0] for d in got] == ["weft0", "weft1"] and got[0][1] != got[1][1] and got[0][2] != got[1][2], c)
        check("10.9.0.1 by weft0\n10.10.0.1 by weft1\n" in c.out, c)
        check(sorted(line for line in c.out.splitlines() if "interface" in line) == ["interface weft0", "interface weft1"], c)
        servers[1].kill()
        check(c.wait(40) == 0 and c.out.endswith("goes on\n"), c)
        rig.until(lambda: "got 64" in servers[0].out, servers[0])


def worker(build):
    """of a configuration with two workers, the ports of the first are devices"""
    with rig.Rig(build) as r:
        workers = "[worker a]\nports = p1\n[worker b]\nports = p0\n"
        _, c = start(r, build, workers, ["10.10.0.1"])
        check(c.wait(40) == 0 and [d[0] for d in devices(c)] == ["weft0"] and "10.10.0.1 by weft0\n" in c.out, c)


if __name__ == "__main__":
    rig.main([two, worker])
