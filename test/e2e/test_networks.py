#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several networks and VLANs on one port, and a target that listens on some of them. test_networks.py BUILD [CASE...]"""

import subprocess
import time

from test_visible import Telemetry
from weft_e2e import PROCS, Target, app, main, make_file, path, run, sha


def dev(role, sock):
    return f"net_memif0,role={role},id=0,socket={sock},socket-abstract=no"


def config(role, sock, host, workers=1):
    return (f"[weft]\ntelemetry = yes\nworkers = {workers}\n[port p0]\ndev = {dev(role, sock)}\naddress = 10.0.0.{host}/24\n"
            f"[network seven]\nvlan = 7\naddress = 10.7.0.{host}/24\naddress6 = fd00:7::{host}/64\n"
            f"[network extra]\nvlan = 7\naddress = 10.7.0.{host}0/32\n"
            f"[network nine]\nport = p0\nvlan = 9\naddress = 10.9.0.{host}/24\n")


def target(name, more, workers=1):
    t = Target(name, {})
    with open(t.conf, "w") as f:
        f.write(config("server", t.sock(0), 1, workers) + more + f"[export demo]\npath = {path(name + '.exp')}\nsize = 64M\n")
    t.start()
    client = path(name + ".client.ini")
    with open(client, "w") as f:
        f.write(config("client", t.sock(0), 2))
    return t, client


def test_each_network_carries_files():
    t, client = target("nets", "[target]\nlisten_on = 10.0.0.1, 10.7.0.0/24, fd00:7::/64\n", workers=2)
    ready = next(line for line in t.logged().splitlines() if "ready:" in line)
    for word in ("10.0.0.1:7471 (p0)", "10.7.0.1:7471 (p0, VLAN 7)", "[fd00:7::1]:7471 (p0, VLAN 7)",
                 "10.7.0.10:7471 (p0, VLAN 7)"):
        assert word in ready, ready
    assert "10.9.0.1" not in ready, ready
    for i, host in enumerate(("10.0.0.1", "10.7.0.1", "[fd00:7::1]", "10.7.0.10")):
        src, out = make_file(f"nets.{i}", 300000 + i, i), path(f"nets.{i}.out")
        url = f"weft://{host}/demo"
        for a, b in ((src, url), (url, out)):
            rc, _, err = run([app("weft-cp"), "-q", "-c", client, a, b])
            assert rc == 0, f"{host}: {err}\n--- target:\n{t.logged()[-1500:]}"
        assert sha(src) == sha(out), host
    rc, _, err = run([app("weft-cp"), "-q", "-c", client, src, "weft://10.9.0.1/demo"])
    assert rc != 0 and "refused" in err.lower(), err
    st = Telemetry(t.proc.pid).ask("/weft/netif,0,0")
    networks = [n.replace(" tentative", "") for n in st["networks"]]
    assert networks[:5] == ["10.0.0.1/24 vlan 0", "10.7.0.1/24 vlan 7", "fd00:7::1/64 vlan 7", "10.7.0.10/32 vlan 7",
                            "10.9.0.1/24 vlan 9"], st
    assert [n.split("/")[0].split("%")[-1] for n in st["networks"][6:]] == ["7", "9"], st
    assert st["rx_vlan"] == 0, st
    assert t.term() == 0


def test_selftest():
    """The key of the configuration: net_ring, which is a loopback by itself, has a frame of each family back."""
    for asked in ("yes", "no"):
        t = Target(f"self{asked}", {})
        with open(t.conf, "w") as f:
            f.write("[weft]\ntelemetry = yes\n[port p0]\ndev = net_ring0\naddress = 10.0.0.1/24\n"
                    f"selftest = {asked}\n[export demo]\npath = {path('self.exp')}\nsize = 1M\n")
        t.start()
        st = Telemetry(t.proc.pid).ask("/weft/port,p0")
        assert st["selftest_frames"] == (2 if asked == "yes" else 0) and st["selftest_wrong"] == 0, st
        assert t.term() == 0


def test_console_shows_networks():
    t, client = target("netc", "")
    script = path("netc.cli")
    with open(script, "w") as f:
        f.write("show port\nquit\n")
    rc, out, err = run([app("weft-console"), "-c", client, "-f", script])
    assert rc == 0, out + err
    for word in ("10.0.0.2/24, untagged", "10.7.0.2/24, VLAN 7", "fd00:7::2/64, VLAN 7", "10.9.0.2/24, VLAN 9"):
        assert word in out, out
    assert out.count("fe80::") == 3, out
    assert t.term() == 0


def test_untagged_client_stays_out():
    """A client that sends without a tag does not reach a network of a VLAN."""
    t, _ = target("netu", "")
    ping = subprocess.Popen([app("weft-ping"), "-c", "--dev", dev("client", t.sock(0)), "--address", "10.7.0.2/24", "-a", "10.7.0.1"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
    PROCS.append(ping)
    tel, end = Telemetry(t.proc.pid), time.monotonic() + 20
    while tel.ask("/weft/netif,0,0")["arp_bad"] < 2:
        assert time.monotonic() < end, tel.ask("/weft/netif,0,0")
        time.sleep(0.05)
    ping.terminate()
    out, _ = ping.communicate(timeout=20)
    assert "bytes from" not in out, out
    assert tel.ask("/weft/netif,0,0")["arp_tx"] <= 5, "an answer to the question"
    assert t.term() == 0


main([test_each_network_carries_files, test_selftest, test_console_shows_networks, test_untagged_client_stays_out])
