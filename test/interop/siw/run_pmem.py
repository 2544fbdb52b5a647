#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-target on a virtual NVDIMM in a QEMU guest. TAP.

The export is on a file system with DAX, where libpmem flushes cache lines instead of calling the kernel. The guest is
killed while clients push, and booted again. docs/interop.md explains the test.

run_pmem.py BUILD [--list]

The guest is that of run_siw.py (WEFT_SIW_CACHE), with weft-target of BUILD in it. Seeds are printed; WEFT_TEST_SEED=N
repeats the choices of one.
"""
import argparse
import hashlib
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from kernel_net import K4, W4, check  # noqa: E402
from siw_guest import Guest, die_with_us, with_rig  # noqa: E402
from guest import pack  # noqa: E402

PAGE, MIB = 4096, 1 << 20
NVDIMM_BYTES = 128 * MIB
RING, DEPTH = 256, 8  # test/e2e/commit_probe.c
KILLS = 3
STEPPED = 32  # WATCH_STEPPED of pmem_watch.c
SEED = int(os.environ.get("WEFT_TEST_SEED") or time.time_ns() % 10**6)
CONF = f"""[weft]
memory_mb = 64
[port p0]
dev = net_af_packet0,iface=eth0,blocksz=16384,framesz=2048,framecnt=512,qdisc_bypass=0
address = {K4}/24
mbufs = 4096
[target]
keepalive_ms = 5000
[export object]
path = /pmem/object
size = 20M
persist = pmem
[export demo]
path = /pmem/demo
size = 4M
[export file]
path = /tmp/file
size = 1M
"""


class Rig:
    def __init__(self, world, build_dir, cache, logs):
        self.world, self.build = world, build_dir
        self.nvdimm = os.path.join(world.tmp, "nvdimm")
        with open(self.nvdimm, "wb") as f:
            f.truncate(NVDIMM_BYTES)
        initrd = pack(world.tmp, os.path.join(cache, "initramfs.cpio"),
                      [os.path.join(build_dir, f) for f in ("apps/target/weft-target", "test/interop/pmem_watch.so")],
                      {"/etc/weft-target.ini": CONF}, ("bus_vdev", "mempool_ring", "net_af_packet"))
        self.ns = world.space("pmem")
        self.guest = Guest(world, self.ns, cache, logs, initrd=initrd, nvdimm=self.nvdimm, modules="pmem")
        self.rnd = random.Random(SEED)
        self.said, self.clients = "", 0
        self.committed, self.generation, self.acked = None, 0, 0
        self.push_s = 1.0

    def boot(self):
        self.guest.boot()
        self.up()

    def up(self):
        self.guest.wait_up()
        rc, out = self.guest.run("mount | grep ' /pmem '")
        check(rc == 0 and "dax" in out, f"no file system with DAX: {out}\n" + self.guest.run("dmesg | tail -n 20")[1])

    def start_target(self, env=""):
        """The target's log."""
        rc, out = self.guest.run(
            f"rm -f /tmp/watch; cd /weft; export LD_LIBRARY_PATH=/weft; {env} "
            "LD_PRELOAD=/weft/pmem_watch.so WEFT_PMEM_WATCH=/tmp/watch setsid ./weft-target "
            "-c /etc/weft-target.ini </dev/null >/tmp/target.log 2>&1 & echo $! >/tmp/target.pid; "
            "for i in $(seq 400); do grep -q ready: /tmp/target.log && break; kill -0 $(cat /tmp/target.pid) || break; "
            "usleep 50000; done; cat /tmp/target.log", timeout=60)
        self.said += out + "\n"
        check("ready:" in out, "weft-target does not start in the guest: " + out[-1000:])
        return out

    def stop_target(self):
        self.guest.run("kill $(cat /tmp/target.pid); for i in $(seq 100); do kill -0 $(cat /tmp/target.pid) || break; "
                       "usleep 50000; done")

    def watched(self):
        words = self.guest.run("cat /tmp/watch")[1].split()
        return {k: int(v) for k, v in zip(words[::2], words[1::2])}

    # Clients run on the host, at the other end of the guest's wire.

    def device(self):
        return f"net_af_packet0,iface={self.guest.dev},blocksz=16384,framesz=2048,framecnt=2048,qdisc_bypass=0"

    def cidr(self):
        """A new address for each client, so that no state of the former one matters."""
        self.clients += 1
        return W4.rsplit(".", 1)[0] + f".{10 + self.clients}/24"

    def spawn(self, *args, **kw):
        return self.world.spawn(self.ns, [os.path.join(self.build, args[0]), *args[1:]], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_us, **kw)

    def cp(self, src, dst):
        return self.spawn("apps/cp/weft-cp", "--dev", self.device(), "--address", self.cidr(), "--quiet", "--wait", "10",
                          src, dst)

    def probe(self):
        return self.spawn("test/e2e/commit_probe", self.device(), self.cidr(), K4, "demo", str(DEPTH))

    def copied(self, p, timeout=60):
        out, err = p.communicate(timeout=timeout)
        self.world.procs.remove(p)
        self.said += f"weft-cp ({p.returncode}): {out}{err}\n"
        return p.returncode == 0

    def object(self, n, size):
        name = os.path.join(self.world.tmp, f"object.{n}")
        content = random.Random(n).randbytes(size)
        with open(name, "wb") as f:
            f.write(content)
        return name, content

    def push(self, n, size):
        name, content = self.object(n, size)
        t0 = time.monotonic()
        check(self.copied(self.cp(name, f"weft://{K4}/object")), "the push has failed")
        self.push_s = time.monotonic() - t0
        self.committed, self.generation = content, self.generation + 1

    def pull(self):
        name = os.path.join(self.world.tmp, "pulled")
        check(self.copied(self.cp(f"weft://{K4}/object", name)), "the pull has failed")
        with open(name, "rb") as f:
            return f.read()


# ---- The cases ----

def boots(rig):
    """ext4 with DAX on a namespace of the virtual NVDIMM."""
    rig.up()


def takes_pmem(rig):
    """libpmem takes the mapping for persistent memory. The export that is configured as an ordinary file is one."""
    log = rig.start_target()
    for name in ("object", "demo"):  # with driver "pmem" and with "auto"
        check(f"export {name}: /pmem/{name}, libpmem on DAX, " in log, f"export {name} is not on DAX")
    check("export file: /tmp/file, libpmem" not in log, "an ordinary file was taken for persistent memory")
    check(rig.watched()["is_pmem"] == 2, f"is_pmem: {rig.watched()}")


def writes_lines_back(rig):
    """A Flush is pmem_persist(), that is clwb for the lines of the range, without a system call."""
    before = rig.watched()
    rig.push(0, 3 * MIB)
    check(rig.pull() == rig.committed, "not what was pushed")
    after = rig.watched()
    print(f"# libpmem: {after}", flush=True)
    check(after["persist"] >= before["persist"] + 3 * MIB // (256 << 10), f"{after}: too few calls for so many blocks")
    check(after["msync"] == 0, f"{after}: a system call")
    # Formatting was executed in single steps, a superblock for each export. The push adds the page of the slot's
    # header, and the commit word.
    check(before["stepped"] < STEPPED, f"{before}: formatting has used up what is stepped through")
    check(after["clwb"] > before["clwb"] and after["clwb"] >= 64, f"{before}, then {after}: too few clwb")
    check(after["clflushopt"] == after["clflush"] == 0, f"{after}: other instructions than clwb")


def watch_can_tell(rig):
    """Without clwb libpmem uses clflushopt, and the watch detects it."""
    rig.stop_target()
    rig.start_target("PMEM_NO_CLWB=1")
    rig.push(1, 100_000)
    after = rig.watched()
    check(after["clflushopt"] >= 1 and after["clwb"] == 0, f"{after}")
    rig.stop_target()
    rig.start_target()


def power(rig, log):
    """After a boot the object is the old one or the new one, complete."""
    m = re.search(r"export object: .*; generation (\d+), .*checksum good", log)
    check(m and "DAMAGED" not in log, "the object is damaged")
    return int(m[1])


def killed_while_pushing(rig):
    name, content = rig.object(100 + rig.generation, rig.rnd.randrange(100_000, 6 * MIB))
    p = rig.cp(name, f"weft://{K4}/object")
    time.sleep(rig.push_s * rig.rnd.uniform(0.1, 1.1))
    done = p.poll() == 0
    rig.guest.kill()
    if p.poll() is None:
        p.kill()
    done = rig.copied(p) or done
    rig.boot()
    generation = power(rig, rig.start_target())
    rig.said += f"acknowledged: {done}, generation before {rig.generation}, now {generation}\n"
    check(generation - rig.generation in ((1,) if done else (0, 1)), "neither the old object nor the new one")
    if generation != rig.generation:
        rig.committed, rig.generation = content, generation
    check(rig.pull() == rig.committed, "the object is not the one of its generation")


def records(nvdimm):
    """The numbers of all complete records, wherever the file system has placed them."""
    out = set()
    with open(nvdimm, "rb") as f:
        while page := f.read(PAGE):
            n = struct.unpack_from(">Q", page)[0]
            if 0 < n < 1 << 32 and hashlib.sha256(page[:-32]).digest() == page[-32:]:
                out.add(n)
    return out


def killed_while_committing(rig):
    p = rig.probe()
    up = p.stdout.readline()
    check(up.startswith("up "), "commit_probe: " + up + (p.stderr.read() if p.poll() is not None else ""))
    found = acked = int(up[3:])
    check(found >= rig.acked, f"{rig.acked} was acknowledged, {found} is found")
    for _ in range(rig.rnd.randrange(50, 400)):
        acked = int(p.stdout.readline())
    time.sleep(rig.rnd.uniform(0, 0.005))
    rig.guest.kill()
    time.sleep(0.05)  # everything that has arrived is acknowledged
    p.kill()
    rest = p.stdout.read().split("\n")[:-1]
    rig.world.reap(p)
    rig.acked = int(rest[-1]) if rest else acked
    whole = records(rig.nvdimm)
    rig.boot()
    rig.start_target()
    p = rig.probe()
    now = int(p.stdout.readline()[3:])
    rig.world.reap(p, signal.SIGKILL)
    rig.said += f"found {found}, acknowledged {rig.acked}, now {now}\n"
    print(f"# seed {SEED}: {rig.acked - found} commits acknowledged; the medium ends {now - rig.acked} behind the last", flush=True)
    check(rig.acked <= now <= rig.acked + DEPTH, f"{rig.acked} was acknowledged, the medium ends with {now}")
    lack = [n for n in range(max(1, now - RING + 1 + DEPTH), now + 1) if n not in whole]
    check(not lack, f"the medium ends with {now}, but these records are not whole: {lack}")


CASES = [("the guest is up, with a file system on a virtual NVDIMM with DAX", boots),
         ("libpmem takes it for persistent memory", takes_pmem),
         ("a Flush writes cache lines back by clwb", writes_lines_back),
         ("without clwb it is clflushopt", watch_can_tell)]
CASES += [(f"killed while {'committing' if i % 2 == 0 else 'pushing'}, {i + 1}",
           (killed_while_committing, killed_while_pushing)[i % 2]) for i in range(KILLS)]


def use(rig, tap, _):
    def said():
        return f"seed {SEED}\n" + rig.said + (rig.guest.run("dmesg | tail -n 20")[1] if rig.guest.alive() else "")
    for name, fn in CASES:
        rig.said = ""
        if not tap.case(name, lambda fn=fn: fn(rig), said, 300):
            break  # later cases would have no meaning


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("build")
    ap.add_argument("--list", action="store_true")
    args = ap.parse_args()
    if args.list:
        print("\n".join(name for name, _ in CASES))
        return 0
    return with_rig(os.path.abspath(args.build), "pmem", (("cpio", "cpio"),), Rig, use)


if __name__ == "__main__":
    sys.exit(main())
