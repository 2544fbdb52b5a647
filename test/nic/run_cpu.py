#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft's programs on an old processor, in a QEMU guest. TAP.

The processor is a Nehalem: the oldest that the default build is for (DPDK's -march=corei7), without AVX, AVX2, AES and
PCLMUL. The programs start there, and do their work over net_memif. docs/interop.md explains the test.

run_cpu.py BUILD

The guest is that of run_nic.py, without its NICs.
"""
import contextlib
import json
import os
import shutil
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "guest"))

from guest import Tap, build, end_by_signals, missing, pack  # noqa: E402
from kernel_net import World, check  # noqa: E402
from nic_guest import RECIPE, NicGuest  # noqa: E402

CPU = "Nehalem"
PROGRAMS = ("apps/target/weft-target", "apps/cp/weft-cp", "apps/ping/weft-ping", "apps/perf/weft-perf",
            "apps/console/weft-console", "test/nic/avx2_probe")
DRIVERS = ("bus_pci", "bus_vdev", "mempool_ring", "net_memif", "net_null", "net_ring")
PUSHED_BYTES = 2 << 20
SIGILL = 128 + 4
HASHES = {"crc32c": "", "crc64-xz": "", "crc64-ecma-182": "", "sha256": "", "hmac-sha256": "hash_key_file = /tmp/key\n"}
PORT = "[weft]\nmemory_mb = 64\n[port p0]\ndev = net_memif0,role=%s,socket=%s,socket-abstract=yes\naddress = %s/24\n%s"
IN = "LD_LIBRARY_PATH=/weft /weft/"


class Old:
    """The guest, and what is in it."""

    def __init__(self, world, build_dir, cache, logs):
        content = os.urandom(PUSHED_BYTES)
        initrd = pack(world.tmp, os.path.join(cache, "initramfs.cpio"), [os.path.join(build_dir, p) for p in PROGRAMS],
                      {"/weft/pushed": content}, DRIVERS)
        self.guest = NicGuest(world, world.space("cpu"), cache, logs, initrd, [], iommu=False, cpu=CPU)
        self.said = ""

    def good(self, command, timeout=60):
        out = self.guest.good(command, timeout)
        self.said += out + "\n"
        return out

    def ini(self, name, role, address, more="", sock="weft"):
        self.guest.write(f"/tmp/{name}.ini", PORT % (role, sock, address, more))
        return f"/tmp/{name}.ini"

    @contextlib.contextmanager
    def serving(self, program, ready):
        """A program that serves; `ready` is a word that it says."""
        self.good(f"job start server {ready} 60 /weft/{program}", 75)
        try:
            yield
        finally:
            rc, out = self.guest.run("job stop server TERM 20", 40)
            self.said += out + "\n"
        check(rc == 0, f"{program.split()[0]} ended with {rc}: {out[-400:]}")


def is_old(old):
    """The processor has none of the instructions that the default build must not need, and refuses them."""
    flags = set(old.guest.good("sed -n 's/^flags[^:]*: //p' /proc/cpuinfo | head -n 1").split())
    check({"sse4_2", "popcnt"} <= flags, f"not the baseline: {sorted(flags)}")
    check(not flags & {"avx", "avx2", "aes", "pclmulqdq", "bmi1", "bmi2", "movbe", "fma", "rdrand"}, f"too new: {sorted(flags)}")
    rc, out = old.guest.run(f"{IN}avx2_probe")
    check(rc == SIGILL, f"AVX2 did not end by SIGILL: status {rc}: {out}")


def starts(old):
    """Every program says its version, and a configuration is checked, which starts EAL."""
    for p in ("weft-target", "weft-cp", "weft-ping", "weft-perf", "weft-console"):
        check("weft" in old.good(f"{IN}{p} --version"), f"{p} --version")
    conf = old.ini("check", "server", "10.0.0.1", "[export v]\nsize = 4M\npersist = volatile\n")
    old.good(f"{IN}weft-target --check-config -c {conf}")
    # net_ring: a port from a driver that needs nothing outside the process.
    old.guest.write("/tmp/ring.ini", "[weft]\nmemory_mb = 64\n[port p0]\ndev = net_ring0\naddress = 10.0.0.1/24\n"
                    "[export v]\nsize = 4M\npersist = volatile\n")
    with old.serving("weft-target -c /tmp/ring.ini", "ready:"):
        pass


def push_and_pull(old, which):
    """As apps/quickstart does it, with each hash of the Verify."""
    old.good("head -c 32 /weft/pushed >/tmp/key; chmod 600 /tmp/key; rm -f /tmp/demo /tmp/pulled")
    conf = old.ini("target", "server", "10.0.0.1",
                   f"[export demo]\npath = /tmp/demo\nsize = 8M\nhash = {which}\n{HASHES[which]}", which)
    client = old.ini("client", "client", "10.0.0.2", "", which)
    with old.serving(f"weft-target -c {conf}", "ready:"):
        key = " --hash-key /tmp/key" if HASHES[which] else ""
        old.good(f"{IN}weft-cp -q -c {client}{key} /weft/pushed weft://10.0.0.1/demo", 90)
        old.good(f"{IN}weft-cp -q -c {client}{key} weft://10.0.0.1/demo /tmp/pulled", 90)
        old.good("cmp /weft/pushed /tmp/pulled")


def ping(old):
    server, client = old.ini("ps", "server", "10.0.0.1", "", "ping"), old.ini("pc", "client", "10.0.0.2", "", "ping")
    with old.serving(f"weft-ping -s -V -P --config {server}", "waiting"):
        said = json.loads(old.good(f"{IN}weft-ping -c -V --json -C 100 -a 10.0.0.1 --config {client}"))
    check(said["pings"] == 100, f"{said['pings']} of 100 pings")


def perf(old):
    server, client = old.ini("fs", "server", "10.0.0.1", "", "perf"), old.ini("fc", "client", "10.0.0.2", "", "perf")
    with old.serving(f"weft-perf --server -c {server}", "waiting"):
        for test in ("write", "read", "send", "cmp-swap"):
            size = [] if test == "cmp-swap" else ["-s", "4096"]
            r = json.loads(old.good(f"{IN}weft-perf {test} {' '.join(size)} -n 200 --json -c {client} 10.0.0.1 2>/dev/null"))["results"][0]
            check(r["iterations"] == 200, f"{test}: {r}")


def main():
    why = missing(("qemu-system-x86_64", "qemu-system-x86"), ("ip", "iproute2"), ("cpio", "cpio"))
    if why is None and len(sys.argv) != 2:
        sys.exit(__doc__)
    build_dir = os.path.abspath(sys.argv[1])
    with open(os.path.join(build_dir, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as f:
        options = {o["name"]: o["value"] for o in json.load(f)}
    if options["march"]:
        why = f"the programs are built with -Dmarch={options['march']}"
    if why is None:
        cache = os.environ.get("WEFT_NIC_CACHE") or os.path.join(build_dir, "nic-guest")
        why = build(cache, RECIPE)
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    end_by_signals()
    tap, logs, world = Tap(), os.path.join(build_dir, "meson-logs", "cpu"), None
    shutil.rmtree(logs, ignore_errors=True)
    os.makedirs(logs)
    try:
        world = World()
        old = Old(world, build_dir, cache, logs)

        def said():
            return old.said + old.guest.run("dmesg | tail -n 8")[1]
        cases = [("the processor has no AVX", is_old), ("every program starts", starts),
                 *((f"push and pull, {h}", lambda old, h=h: push_and_pull(old, h)) for h in HASHES),
                 ("weft-ping", ping), ("weft-perf", perf)]
        if tap.case(f"a guest with a {CPU} is up", old.guest.wait_up, lambda: ""):
            for name, fn in cases:
                old.said = ""
                tap.case(name, lambda fn=fn: fn(old), said)
        old.guest.close()
    except OSError as e:
        if tap.n == 0:
            print(f"1..0 # SKIP cannot make a namespace or a tap: {e}")
            return 0
        raise
    finally:
        if world is not None:
            world.close()
    if tap.failed == 0:
        shutil.rmtree(logs, ignore_errors=True)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
