#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A Ceph cluster whose messenger is RDMA, over weft: test_ceph.py BUILD [CASE...]. TAP.

The mon, three OSDs and Ceph's tools are Debian's. They share one address by a weft-portd, which no kernel has: nothing of them
can go another way. Clients are on the same side, and behind a second weft-portd at the other end of a net_memif.
"""
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import SERVER, check  # noqa: E402
from test_portd import Sides, counts  # noqa: E402

CLUSTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../ceph/cluster")
TOOLS = ("ceph-mon", "ceph-osd", "ceph", "rados", "rbd", "ceph-authtool", "monmaptool")
OSDS, MIB = 3, 1 << 20
# Ceph registers send and receive buffers of all connections; its own sizes are for hosts with tens of GiB.
CONF = """ms type = async+rdma
ms async rdma device name = weft0
ms async rdma type = iwarp
ms async rdma cm = true
ms async rdma buffer size = 65536
ms async rdma send buffers = 256
ms async rdma receive buffers = 8192
ms async rdma receive queue len = 128
ms async rdma support srq = {srq}
"""


class Ceph(Sides):
    """The cluster is up behind the server's daemon. srq: whether its queue pairs share a receive queue."""

    def __init__(self, build, srq=False):
        super().__init__(build)
        try:
            self.folder = self.path("c")
            with open(self.path("global.conf"), "w", encoding="utf-8") as f:
                f.write(CONF.format(srq=str(srq).lower()))
            self.cluster("up")
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def __exit__(self, *exc):
        try:
            self.cluster("down", wrapped=False)
        finally:
            super().__exit__(*exc)

    def cluster(self, what, wrapped=True):
        """Start what does not run, or stop all. The daemons are the script's children and stay when it has ended."""
        env = dict(os.environ, CLUSTER_ADDR=SERVER, CLUSTER_CONF=self.path("global.conf"), **self.env)
        argv = [*([self.run, *self.port("server")] if wrapped else []), CLUSTER, what, self.folder]
        p = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=180, check=False)
        check(p.returncode == 0, f"cluster {what}: {p.returncode}\n{p.stderr[-2000:]}{self.logs()}")

    def logs(self):
        """The last lines that the daemons wrote."""
        said = ""
        for name in sorted(os.listdir(os.path.join(self.folder, "log"))) if os.path.isdir(self.folder) else ():
            with open(os.path.join(self.folder, "log", name), errors="replace", encoding="utf-8") as f:
                said += f"-- {name}\n" + "".join(f.readlines()[-6:])
        return said

    def tool(self, role, *argv, timeout=60):
        """Run one of Ceph's tools at a side to its end; what it printed."""
        e = self.start(role, [argv[0], "-c", os.path.join(self.folder, "ceph.conf"), *argv[1:]])
        check(e.wait(timeout) == 0, e, self.logs())
        return e.out

    def pid(self, name):
        """The process of a daemon."""
        with open(os.path.join(self.folder, "run", name + ".pid"), encoding="ascii") as f:
            return int(f.read())

    def draw(self, name, octets):
        """A file of octets that are drawn, and their hash."""
        data = random.Random(name).randbytes(octets)
        with open(self.path(name), "wb") as f:
            f.write(data)
        return hashlib.sha256(data).hexdigest()

    def read_back(self, role, name):
        """The hash of an object that is read at a side."""
        self.tool(role, "rados", "-p", "rbd", "get", name, self.path("back"))
        with open(self.path("back"), "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()


def objects(build):
    """A mon and three OSDs, and objects that clients of both sides write and read"""
    with Ceph(build) as r:
        check(counts(r.daemon["server"])["processes"] == 1 + OSDS, counts(r.daemon["server"]))
        for role, other in ("server", "client"), ("client", "server"):
            name = "of_" + role
            want = r.draw(name, 32 * MIB)
            before = counts(r.daemon["server"])["out_bytes"]
            r.tool(role, "rados", "-p", "rbd", "put", name, r.path(name))
            # From the client to an OSD, and from there to the two others. What the client behind the other daemon sends is from the wire.
            moved = counts(r.daemon["server"])["out_bytes"] - before
            check(moved > (OSDS - (role == "client")) * 32 * MIB, f"{moved} octets by weft-portd")
            for reader in role, other:
                check(r.read_back(reader, name) == want, f"the {role}'s object at the {reader} is another one")


def images(build):
    """An RBD image, imported at one side and exported at the other"""
    with Ceph(build, srq=True) as r:
        want = r.draw("disk", 48 * MIB)
        r.tool("client", "rbd", "import", "--no-progress", r.path("disk"), "rbd/disk")
        r.tool("client", "rbd", "snap", "create", "--no-progress", "rbd/disk@then")
        r.tool("server", "rbd", "export", "--no-progress", "rbd/disk@then", r.path("back"))
        with open(r.path("back"), "rb") as f:
            check(hashlib.sha256(f.read()).hexdigest() == want, "the image is another one")
        check("disk" in r.tool("server", "rbd", "ls"), "no image")


def killed(build):
    """kill -9 of an OSD under load: writes go on, and all is there when it has come back"""
    with Ceph(build) as r:
        want = r.draw("kept", 8 * MIB)
        r.tool("client", "rados", "-p", "rbd", "put", "kept", r.path("kept"))
        e = r.start("client", ["rados", "-c", os.path.join(r.folder, "ceph.conf"), "-p", "rbd", "bench", "15", "write", "-b", "65536", "-t",
                               "8", "--no-cleanup"])
        time.sleep(3)
        os.kill(r.pid("osd1"), signal.SIGKILL)
        rig.until(lambda: counts(r.daemon["server"])["processes"] == OSDS, e)
        check(e.wait(90) == 0, e, r.logs())
        check(r.read_back("client", "kept") == want, "an object is another one while an OSD is away")
        r.cluster("up")
        check(counts(r.daemon["server"])["processes"] == 1 + OSDS, counts(r.daemon["server"]))
        check(r.read_back("server", "kept") == want, "an object is another one")
        wrote = int(e.out.split("Total writes made:")[1].split()[0])
        named = r.tool("server", "rados", "-p", "rbd", "ls").count("benchmark_data_")
        check(named >= wrote > 100, f"{wrote} objects were acknowledged, {named} are there", e)


if __name__ == "__main__":
    missing = [t for t in TOOLS if shutil.which(t) is None]
    if missing:
        print(f"1..0 # SKIP no {', '.join(missing)} (.ci/deps ceph)")
        sys.exit(0)
    rig.main([objects, images, killed])
