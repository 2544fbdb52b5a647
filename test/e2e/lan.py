# SPDX-License-Identifier: BSD-3-Clause
"""A network of many programs that start and end: a network namespace with one bridge, and a veth for each program.

net_memif joins two processes once: when one of them ends, the peer's port is useless. Here a killed program starts
again on its interface, and all programs reach each other. The namespace is removed with its last process.
"""
import os
import subprocess
import sys

from weft_e2e import Skip, Target, path

DEV = "net_af_packet0,iface={},blocksz=65536,framesz=2048,framecnt=512"
_made = set()


def enter():
    """Run this program in a network namespace of its own, if possible. Call this first."""
    if os.environ.get("WEFT_LAN"):
        return
    for how in (["unshare", "-n"], ["unshare", "-Urn"]):
        try:
            if subprocess.run([*how, "true"], capture_output=True, check=False).returncode == 0:
                os.environ["WEFT_LAN"] = "1"
                os.execvp(how[0], [*how, sys.executable, *sys.argv])
        except FileNotFoundError:
            break
    os.environ["WEFT_LAN"] = "none"


def sh(*cmd):
    subprocess.run(cmd, check=True, capture_output=True)


def dev(name):
    """The port of a program's interface, which is created at the first call. name: at most 10 octets."""
    if os.environ.get("WEFT_LAN") != "1":
        raise Skip("no network namespace can be made")
    if not _made:
        for key in ("all", "default"):
            subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{key}.disable_ipv6=1"], capture_output=True, check=False)
        sh("ip", "link", "add", "lan", "type", "bridge")
        sh("ip", "link", "set", "lan", "up")
    if name not in _made:
        _made.add(name)
        # DPDK numbers a fanout group by pid ^ index, and refuses two groups with one number. These indices differ by
        # more than pids do.
        sh("ip", "link", "add", name, "index", str(4096 * len(_made)), "type", "veth", "peer", "name", "b-" + name)
        sh("ip", "link", "set", "b-" + name, "master", "lan")
        for one in (name, "b-" + name):
            subprocess.run(["ethtool", "-K", one, "tx", "off", "tso", "off", "gso", "off", "gro", "off"],
                           capture_output=True, check=False)
            sh("ip", "link", "set", one, "up")
    return DEV.format(name)


class LanTarget(Target):
    """A weft-target of the network, at 10.0.0.N."""

    def __init__(self, name, n, exports, extra="", keepalive_ms=500, exe=None, weft="telemetry = yes\n"):
        super().__init__(name, exports, ports=0, extra=extra, keepalive_ms=keepalive_ms, exe=exe)
        self.addr = f"10.0.0.{n}"
        with open(self.conf) as f:
            text = f.read()
        with open(self.conf, "w") as f:
            f.write(f"[weft]\nmemory_mb = 64\n{weft}[tcp]\nmax_conns = 64\n"
                    f"[port p0]\nmbufs = 2048\ndev = {dev(name)}\naddress = {self.addr}/24\n{text}")

    def start(self, ok=True):
        """Start again if the process id happens to give a fanout group that is in use."""
        for _ in range(3):
            super().start(ok=False)
            if self.proc.poll() is None or "cannot be opened" not in self.logged():
                break
        return super().start(ok) if self.proc.poll() is not None else self

    def client_args(self, port=0, addr=200):
        return ["--dev", dev(f"c{addr}"), "--address", f"10.0.0.{addr}/24"]


__all__ = ["LanTarget", "dev", "enter", "path"]
