#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-target --size beside what a target takes, and a start with too little memory. test_size.py BUILD [CASE...]"""
import os
import re
import subprocess
import time

from weft_e2e import BUILD, PROCS, Target, app, main, memif, path, run

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def target(name, volumes, extra="", port_extra="", **keys):
    return Target(name, {f"v{i}": {"path": path(f"{name}{i}.vol"), "size": "16M", "format": "volume", **keys} for i in range(volumes)},
                  extra=extra + "\n[weft]\nhugepages = never\n", port_extra=port_extra)


def size(t, *args):
    """(exit status, {row: octets})"""
    rc, out, err = run([app("weft-target"), "-c", t.conf, "--size", *args])
    rows = re.findall(r"^(\S.*?) {2,}([\d.]+) (B|[KMGT]iB)  ", out, re.M)
    return rc, {name: float(n) * UNITS[unit] for name, n, unit in rows}


def resident(t):
    """Octets that a target has populated, packet buffers (which EAL shares) aside."""
    with open(f"/proc/{t.proc.pid}/status") as f:
        kib = dict(re.findall(r"^(Rss\w+):\s+(\d+) kB", f.read(), re.M))
    return (int(kib["RssAnon"]) + int(kib["RssFile"])) << 10


def test_size_holds():
    """What a target takes at its start is not more than was said, and not less than two thirds of it."""
    for volumes, keys in ((1, {}), (6, {}), (24, {"checksums": "yes"})):
        t = target(f"sz{volumes}", volumes, "staging = 128M\n", **keys)
        rc, need = size(t)
        assert rc == 0, need
        said = need["needed to start"] - need["packet buffers"]
        took = resident(t.start())
        assert 2 / 3 * said <= took <= said, (volumes, took / 2**20, said / 2**20)
        assert t.term() == 0


def test_size_used():
    """Clients that read and write volumes: they bring at least half of the row `clients`, and, with what they do, at most what the rows
    of clients, calls and operations say together."""
    conns, volumes = 128, 8
    t = target("su", volumes, "staging = 64M\nmax_opens_per_s = 0\ncredits = 32\n")
    rc, need = size(t, "--clients", str(conns))
    assert rc == 0, need
    t.start()
    idle = resident(t)
    config = path("su.client.ini")
    with open(config, "w") as f:
        f.write(f"[port p0]\ndev = {memif(0, 'client', t.sock(0))}\naddress = 10.0.0.2/24\n")
        f.write("".join(f"[network n{i}]\nport = p0\naddress = 10.0.0.{2 + i}/32\n" for i in range(1, 8)))
    p = subprocess.Popen([os.path.join(BUILD, "test", "e2e", "share_probe"), config, "v0", "2",
                          *(f"10.0.0.{2 + i},10.0.0.1,{conns // 8},8,65536" for i in range(8))],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    PROCS.append(p)
    most = 0
    while p.poll() is None:
        most = max(most, resident(t))
        time.sleep(0.02)
    out, err = p.communicate()
    assert p.returncode == 0 and all(int(line.split()[1]) > 0 for line in out.splitlines()), (out, err)
    brought = most - idle
    rows = {k: need[k] for k in ("clients", "calls and answers", "operations of volumes")}
    print(f"# {conns} connections brought {brought / 2**20:.1f} MiB; --size says " +
          ", ".join(f"{k} {v / 2**20:.1f} MiB" for k, v in rows.items()))
    assert rows["clients"] / 2 <= brought <= sum(rows.values()), (brought, rows)
    assert idle <= need["needed to start"] - need["packet buffers"] and most <= need["in all"] - need["packet buffers"], (idle, most, need)
    assert t.term() == 0


def test_size_asked():
    """Volumes and clients that are not there yet."""
    t = target("sz2", 1)
    few, many = size(t, "--clients", "0")[1], size(t, "--volumes", "11", "--clients", "100")[1]
    assert 1 << 20 <= many["volumes"] - few["volumes"] <= 2 << 20, (few, many)
    assert 10 << 20 <= many["operations of volumes"] - few["operations of volumes"] <= 12 << 20, (few, many)
    assert few["clients"] == 0 and abs(many["clients"] - (100 * 72 << 10)) < 1 << 14, (few, many)
    rc, _, err = run([app("weft-target"), "-c", t.conf, "--clients", "3"])
    assert rc == 2 and "--size" in err, err


def test_size_refused():
    """More than the machine has: exit status 1 by --size, and a start that is refused with both figures."""
    t = target("sz3", 1)
    have = int(size(t)[1]["memory, available"])
    t = target("sz3", 1, f"staging = {(have >> 20) + 2048}M\n")
    rc, need = size(t)
    assert rc == 1 and need["needed to start"] > need["memory, available"], need
    t.start(ok=False)
    assert t.proc.wait(10) == 1
    said = t.logged().strip()
    assert said.count("\n") == 0 and re.search(r"a start needs [\d.]+ \w+, [\d.]+ \w+ (are available|its control group)", said), said
    rc, _, err = run([app("weft-target"), "-c", t.conf, "--check-config"])
    assert rc == 1 and "not enough memory" in err, err


if __name__ == "__main__":
    main([test_size_holds, test_size_used, test_size_asked, test_size_refused])
