#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""blktests' nvme group in the siw guest, with weft-target as its target. TAP: a case for each of its tests.

run_blktests.py BUILD [--tcp] [--only nvme/NNN,...]

blktests (https://github.com/osandov/blktests) is no package of Debian 12: WEFT_BLKTESTS names a checkout, else all is skipped. Its
tests connect to whatever target a program describes (NVME_TARGET_CONTROL), which stands already here. Those that set up Linux's own
target (nvmet) by configfs test that one; they are skipped, each with what it uses of it. The guest has this computer's root file
system below a writable layer (9p, overlayfs), so that bash, fio, nvme-cli and mkfs are those of this computer.
"""
import argparse
import glob
import os
import re
import shlex
import signal
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from kernel_net import W4, Fail, check  # noqa: E402
from run_nvmf import BY, CONNECT, FAULTS, HOST, NQN  # noqa: E402
from run_nvmf_hosts import Target  # noqa: E402
from siw_guest import Guest, with_rig  # noqa: E402

#: What touches nvmet or a local device, and not the target that is described.
OWN = re.compile(r"NVMET_CFS|NVMET_DFS|_(?:create|remove|get|add|enable|disable)_nvmet_\w+|_setup_nvmet_port_ana|_nvmet_passthru\w*"
                 r"|_set_nvmet_(?!blkdev_type)\w+|_nvmet_ns_\w+|_nvme_fcloop_\w+|_require_nvme_trtype_is_loop"
                 r"|_require_test_dev_is_nvme\w*|\btest_device\b|_find_nvme_passthru\w*|--resv_enable|--num-ports|--ports")
#: Tests that cannot be run here. The program that describes the target cannot take it away from within the guest.
CANNOT = {"nvme/061": "it takes the target away and sets it up again; run_nvmf.py does that by kill -9",
          "nvme/068": "it needs delayed_removal_secs of the host's multipath (Linux 6.16), and does not look for it"}
#: Size of the disk that a test believes in, where the least one is not enough for it. The volume has 384 MiB.
SIZES = {"nvme/012": "352m"}
LIMIT_S = 240
TCP_PORT = "8009"
SET_UP = """set -e
/etc/init insert blktests
mkdir -p /h /o /r
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 root /h
mount -t tmpfs o /o && mkdir /o/u /o/w
mount -t overlay overlay -o lowerdir=/h,upperdir=/o/u,workdir=/o/w /r
mount -t proc proc /r/proc && mount -t sysfs sys /r/sys && mount --bind /dev /r/dev
ln -sf /proc/self/fd /dev/fd
mount -t configfs config /r/sys/kernel/config || true
mount -t tmpfs tmp /r/tmp && mount -t tmpfs run /r/run
cp -r /h{blktests} /r/tmp/blktests
printf '#!/bin/sh\\nexit 0\\n' >/r/usr/local/bin/udevadm && chmod 755 /r/usr/local/bin/udevadm
"""
CONTROL = """#!/bin/sh
[ "$1" = config ] || exit 0
case "$2" in
--show-blkdev-type) echo device ;;
--show-trtype) echo {trtype} ;;
--show-hostnqn) echo {host} ;;
--show-hostid) echo {hostid} ;;
--show-host-traddr) ;;
--show-traddr) echo {traddr} ;;
--show-trsvid) echo {port} ;;
--show-subsys-uuid) echo {uuid} ;;
--show-subsysnqn) echo {nqn} ;;
esac
"""


class Rig:
    """The guest with this computer's programs, and a target."""

    transport, tests, mtu, megabytes = "rdma", "", 1500, 384

    def __init__(self, world, build, cache, logs):
        self.world, self.build, self.said = world, build, ""
        self.ns = world.space("nvmf")
        more = ("-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
                "-device", "virtio-9p-pci,fsdev=root,mount_tag=root")
        self.guest = Guest(world, self.ns, cache, logs, more=more)
        self.targets = [Target(self, 0, self.guest.dev)]

    def sh(self, command, timeout=60):
        rc, out = self.guest.run(command, timeout)
        self.said += f"# {command}\n{out}\n"
        check(rc == 0, f"{command} ended with {rc}: {out[-300:]}")
        return out

    def why(self):
        return self.said[-3000:] + (self.guest.run("dmesg | tail -n 20")[1] if self.guest.alive() else "")


def up(rig):
    rig.guest.wait_up()
    rig.targets[0].start()
    rig.sh(SET_UP.format(blktests=shlex.quote(rig.tests)), 120)
    rig.sh(f"echo {CONNECT}{BY[rig.transport]} >/dev/nvme-fabrics; "
           "for i in $(seq 100); do [ -b /dev/nvme0n1 ] && exit 0; usleep 100000; done; exit 1")
    uuid = rig.sh("cat /sys/block/nvme0n1/uuid").strip()
    rig.sh("echo 1 >/sys/class/nvme/nvme0/delete_controller; sleep 1")
    text = CONTROL.format(trtype=rig.transport, host=HOST, hostid=HOST[-36:], traddr=W4, uuid=uuid, nqn=NQN,
                          port=TCP_PORT if rig.transport == "tcp" else "4420")
    rig.sh(f"cat >/r/tmp/control <<'EOF'\n{text}EOF\nchmod 755 /r/tmp/control")


def own(path):
    """What a test uses of nvmet, or None."""
    with open(path, encoding="utf-8") as f:
        found = sorted(set(OWN.findall(re.sub(r"(?m)^\s*#.*", "", f.read()))))
    return ", ".join(found) or None


def run(rig, name):
    """None, or the reason why it was not run. A failure is a Fail."""
    command = (f"cd /tmp/blktests && NVME_TARGET_CONTROL=/tmp/control NVME_IMG_SIZE={SIZES.get(name, '16m')} NVME_NUM_ITER=10 TIMEOUT=10 "
               f"PATH=/usr/local/bin:/usr/sbin:/usr/bin ./check {name} </dev/null")
    rc, out = rig.guest.run(f"chroot /r /bin/bash -c {shlex.quote(command)} 2>&1", LIMIT_S)
    rig.said += f"# {name}: {rc}\n{out}\n"
    text = re.sub(r"\x1b\[[0-9;]*m|\r", "", out)
    skipped = re.search(r"\[not run\]\n((?: +.*\n?)*)", text)
    if skipped:
        return "; ".join(line.strip() for line in skipped[1].splitlines()) or "blktests does not say why"
    check(rc == 0 and "[passed]" in text, f"{name} ended with {rc}: {text[-600:]}")
    return None


def leaves(rig):
    rig.sh("[ -z \"$(ls /sys/class/nvme)\" ]")
    t = rig.targets[0]
    seen = t.tel("nvmf")
    check(seen["controllers"] == 0 and seen["queues"] == 0, f"something is left: {seen}")
    check(not any(seen[k] for k in FAULTS), f"a fault of the host is counted: {seen}")
    check(t.end(signal.SIGTERM) == 0, "the target has failed")


def use(rig, tap, only):
    ran = 0
    if not tap.case("the guest is up, the target serves", lambda: up(rig), rig.why):
        return
    for path in sorted(glob.glob(os.path.join(rig.tests, "tests/nvme/[0-9][0-9][0-9]"))):
        name = "nvme/" + os.path.basename(path)
        if only and name not in only:
            continue
        rig.said = ""
        why = own(path)
        if why:
            why = f"it is about nvmet or a local device: {why}"
        elif name in CANNOT:
            why = CANNOT[name]
        else:
            t0 = time.monotonic()
            try:
                why = run(rig, name)
            except Fail as e:
                tap.case(name, lambda e=e: (_ for _ in ()).throw(e), rig.why)
                continue
            ran += why is None
            print(f"# {name}: {time.monotonic() - t0:.0f} s")
        if why:
            tap.skip(name, why)
        else:
            tap.case(name, lambda: None)
    tap.case("the host leaves", lambda: leaves(rig), rig.why)
    tap.case("some of blktests were run", lambda: check(ran > 0, "none was run"))


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("build")
    ap.add_argument("--tcp", action="store_true", help="by nvme-tcp")
    ap.add_argument("--only", default="", help="tests, with commas between")
    args = ap.parse_args()
    tests = os.environ.get("WEFT_BLKTESTS", "")
    if not os.path.exists(os.path.join(tests, "tests/nvme/rc")):
        print("1..0 # SKIP WEFT_BLKTESTS names no checkout of blktests, which is no package of Debian 12")
        return 0

    class Wanted(Rig):
        transport = "tcp" if args.tcp else "rdma"

    Wanted.tests = os.path.abspath(tests)
    only = {n for n in args.only.split(",") if n}
    tools = (("fio", "fio"), ("nvme", "nvme-cli"), ("mkfs.xfs", "xfsprogs"), ("losetup", "mount"), ("gawk", "gawk"))
    return with_rig(args.build, "blktests" + ("_tcp" if args.tcp else ""), tools, Wanted, lambda rig, tap, _: use(rig, tap, only))


if __name__ == "__main__":
    sys.exit(main())
