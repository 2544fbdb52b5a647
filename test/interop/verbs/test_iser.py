#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tgtd's iSER target with libiscsi's initiators, each over weft: test_iser.py BUILD [CASE...]. TAP."""
import hashlib
import os
import random
import re
import socket
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import rig  # noqa: E402
from rig import SERVER, check  # noqa: E402

# Programs of libiscsi 1.19 with memory of malloc() that is zero (GLIBC's tunable glibc.malloc.perturb): its iSER part takes what
# it has not set for the head of a list (its commit b4ba920 mends that), and crashes or not as the memory happens to be.
ZEROED = {"MALLOC_PERTURB_": "255"}
SECOND = "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test-2"
TARGET, INITIATOR, MIB = "iqn.2026-11.weft:t", "iqn.2026-11.weft:i", 1 << 20
SEED = os.environ.get("WEFT_TEST_SEED", "1")


class Target:
    """tgtd with one disk of 16 MiB, LUN 1."""

    def __init__(self, r):
        rig.need("tgtd", "tgtadm", "iscsi-inq")
        self.disk = r.path("disk")
        with open(self.disk, "wb") as f:
            f.write(random.Random("disk " + SEED).randbytes(16 * MIB))
        with socket.socket() as s:
            # tgtd wants a portal of the kernel, too.
            s.bind(("127.0.0.1", 0))
            portal = "127.0.0.1:%d" % s.getsockname()[1]
        self.env = {"TGT_IPC_SOCKET": r.path("ipc")}
        self.tgtd = r.server(["tgtd", "-f", "--iscsi", "portal=" + portal], settle=False, env=self.env)
        rig.until(lambda: self.admin("--op", "show", "--mode", "target").returncode == 0, self.tgtd)
        for args in (("--op", "new", "--mode", "target", "--targetname", TARGET),
                     ("--op", "new", "--mode", "logicalunit", "--lun", "1", "--backing-store", self.disk),
                     ("--op", "bind", "--mode", "target", "--initiator-address", "ALL"),
                     ("--op", "bind", "--mode", "target", "--initiator-name", INITIATOR),
                     ("--op", "bind", "--mode", "target", "--initiator-name", SECOND)):
            p = self.admin(*args, "--tid", "1")
            check(p.returncode == 0, p.stdout + p.stderr, self.tgtd)
        r.settled(self.tgtd)

    def admin(self, *args):
        """tgtadm."""
        return subprocess.run(["tgtadm", "--lld", "iser", *args], capture_output=True, text=True, env=dict(os.environ, **self.env),
                              check=False)


def told(build):
    """iscsi-inq and iscsi-readcapacity16 tell the disk that tgtd has"""
    with rig.Rig(build) as r:
        t = Target(r)
        for program, wants in (("iscsi-inq", (r"^Vendor:IET\s*$", r"^Product:VIRTUAL-DISK\s*$")),
                               ("iscsi-readcapacity16", (r"^Total size:16777216$",))):
            c = r.client([program, "-i", INITIATOR, f"iser://{SERVER}/{TARGET}/1"], env=ZEROED)
            check(c.wait() == 0, c, t.tgtd)
            for want in wants:
                check(re.search(want, c.out, re.M), f"no line like {want}", c)


def contents(build):
    """A program of libiscsi writes and reads: the octets are on tgtd's disk, and no other octet has changed"""
    with rig.Rig(build) as r:
        t = Target(r)
        with open(t.disk, "rb") as f:
            before = f.read()
        c = r.client([sys.executable, os.path.join(HERE, "iser_disk.py"), INITIATOR, TARGET, SERVER + ":3260", "1", SEED],
                     env=ZEROED)
        check(c.wait() == 0, c, t.tgtd)
        with open(t.disk, "rb") as f:
            after = f.read()
        expect = bytearray(before)
        rows = [line.split() for line in c.out.splitlines()]
        check(len(rows) == 5, c)
        for lba, n, digest in rows:
            piece = after[int(lba) * 512:int(lba) * 512 + int(n)]
            check(hashlib.sha256(piece).hexdigest() == digest, f"LBA {lba}: not what was written", c)
            check(piece != before[int(lba) * 512:int(lba) * 512 + int(n)], f"LBA {lba}: as it was before")
            expect[int(lba) * 512:int(lba) * 512 + int(n)] = piece
        check(after == bytes(expect), "octets outside of what was written have changed")


def suite(build):
    """iscsi-test-cu, tests of Read10, Write10 and Read16; of reservations, with two sessions of a process"""
    rig.need("iscsi-test-cu")
    with rig.Rig(build) as r:
        t = Target(r)
        for test in ("SCSI.Read10.Simple", "SCSI.Read10.BeyondEol", "SCSI.Write10.Simple", "SCSI.Read16.Simple",
                     "SCSI.ProutReserve.AccessEA", "SCSI.ProutReserve.AccessWE", "SCSI.ProutReserve.AccessEARO"):
            c = r.client(["iscsi-test-cu", "-i", INITIATOR, "--dataloss", "--test=" + test, f"iser://{SERVER}/{TARGET}/1"], env=ZEROED)
            check(c.wait() == 0 and re.search(r"^\s+tests\s+1\s+1\s+1\s+0\s", c.out, re.M), f"{test} does not pass", c, t.tgtd)


if __name__ == "__main__":
    rig.main([told, contents, suite])
