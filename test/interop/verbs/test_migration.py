#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""QEMU migrates a running guest over rdma:, both ends over weft: test_migration.py BUILD [CASE...]. TAP.

The guest is a boot sector that counts: it writes a number to each of 16 pages, then the next number. Its other memory holds
random octets. On the destination the octets are the same, and the guest goes on counting from where it was.
"""
import os
import random
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(os.path.dirname(HERE)), "guest")]

import rig  # noqa: E402
from rig import SERVER, check  # noqa: E402
from guest import Qmp  # noqa: E402

COUNTERS, PAGES, FILL_AT, FILL_BYTES = 0x20000, 16, 0x2000000, 48 << 20
# In real mode. From the label on: ebx++, then ebx to each page of the segment 0x2000.
BOOT = bytes.fromhex("b80020 8ed8 6631db"          # mov ax,0x2000; mov ds,ax; xor ebx,ebx
                     "6643 31ff"                   # next: inc ebx; xor di,di
                     "66891d 81c70010 75f7 ebf1")  # page: mov [di],ebx; add di,0x1000; jnz page; jmp next


def qemu(r, name, *options):
    """The command of one end."""
    return ["qemu-system-x86_64", "-accel", "tcg", "-machine", "pc", "-m", "128", "-nodefaults", "-no-user-config", "-display", "none",
            "-drive", f"if=floppy,format=raw,readonly=on,file={r.path('boot')}", "-boot", "a",
            "-qmp", f"unix:{r.path(name)},server=on,wait=off", *options]


def memory(r, monitor, at, n):
    """Octets of the guest's physical memory."""
    monitor.ask("pmemsave", val=at, size=n, filename=r.path("saved"))
    with open(r.path("saved"), "rb") as f:
        return f.read()


def counters(r, monitor):
    """The numbers in the guest's pages."""
    octets = memory(r, monitor, COUNTERS, PAGES * 4096)
    return [int.from_bytes(octets[i:i + 4], "little") for i in range(0, len(octets), 4096)]


def monitor_of(r, name, e):
    """The monitor of an end, when it is there."""
    rig.until(lambda: os.path.exists(r.path(name)), e)
    return Qmp(r.path(name))


def migrate(build, pin_all):
    """Migrate, and compare."""
    rig.need("qemu-system-x86_64")
    with rig.Rig(build) as r:
        fill = random.Random(os.environ.get("WEFT_TEST_SEED", "1")).randbytes(FILL_BYTES)
        for name, octets in (("boot", BOOT.ljust(510, b"\0") + b"\x55\xaa"), ("fill", fill)):
            with open(r.path(name), "wb") as f:
                f.write(octets)
        # The destination opens its port when it is told to wait; its capabilities are set before that.
        s = r.server(qemu(r, "to", "-incoming", "defer"), settle=False)
        to = monitor_of(r, "to", s)
        c = r.client(qemu(r, "from", "-device", f"loader,file={r.path('fill')},addr={FILL_AT:#x},force-raw=on"))
        start = monitor_of(r, "from", c)
        for m in start, to:
            m.ask("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": pin_all}])
        uri = f"rdma:{SERVER}:4444"
        to.ask("migrate-incoming", uri=uri)
        r.settled(s)
        rig.until(lambda: min(counters(r, start)) > 1000, c, s)
        start.ask("migrate", uri=uri)
        rig.until(lambda: start.ask("query-migrate").get("status") in ("completed", "failed"), c, s, timeout=60)
        how = start.ask("query-migrate")
        check(how["status"] == "completed" and how["ram"]["transferred"] > FILL_BYTES, how, c, s)
        last = counters(r, start)
        check(start.ask("query-status")["status"] == "postmigrate", c)
        rig.until(lambda: to.ask("query-status")["status"] == "running", s)
        check(memory(r, to, FILL_AT, FILL_BYTES) == fill, "the guest's memory differs")
        first = counters(r, to)
        check(min(first) >= min(last), f"the counters were {last}, are {first}")
        time.sleep(0.2)
        check(min(counters(r, to)) > max(first), "the guest does not go on")


def pages(build):
    """QEMU's live migration over rdma:, memory registered as it is sent: the guest's memory, and that it goes on"""
    migrate(build, False)


def pinned(build):
    """QEMU's live migration over rdma: with rdma-pin-all: all memory registered at first"""
    migrate(build, True)


if __name__ == "__main__":
    rig.main([pages, pinned])
