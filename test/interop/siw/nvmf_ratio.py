#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rate and latency of weft-target beside Linux's own NVMe target (nvmet), by RDMA over siw and by TCP, in one run.

nvmf_ratio.py BUILD [--seconds N] [--rounds N] [--by rdma,tcp]

Two guests of one kind on a bridge: one has the host, and the other one has both targets, each on a RAM disk (brd) of its own, one
used after the other. So both targets have the same processor, network interface and medium. weft-target is at an address of its own on
the interface that the guest's kernel uses too, by a packet socket. Rounds alternate. The output has a line for each kind of access: I/O
operations a second and mean latency of each target, and weft's rate divided by nvmet's. Guests without KVM are slow, and their processors
are this computer's: the ratio says something, the rates little.
"""
import argparse
import os
import shutil
import statistics
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from kernel_net import check, sh  # noqa: E402
from siw_guest import Guest, with_rig  # noqa: E402
from guest import pack  # noqa: E402

NQN = "nqn.2026-01.org.example:ram"
NVMET, WEFT = "10.77.0.3", "10.77.0.4"
DISK_MIB = 64
PORTS = {("nvmet", "rdma"): 4420, ("nvmet", "tcp"): 4421, ("weft", "rdma"): 4420, ("weft", "tcp"): 8009}
CONF = f"""[weft]
memory_mb = 96
[port p0]
dev = net_af_packet0,iface=eth0,blocksz=16384,framesz=2048,framecnt=1024,qdisc_bypass=0
address = {WEFT}/24
mbufs = 4096
[nvmf]
staging = 16M
[export disk]
format = volume
path = /dev/ram1
[subsystem {NQN}]
namespaces = 1=disk
hosts = any
"""
SERVE_NVMET = f"""set -e
mkdir -p /c && mount -t configfs c /c
s=/c/nvmet/subsystems/{NQN}; mkdir $s; echo 1 >$s/attr_allow_any_host
mkdir $s/namespaces/1; echo /dev/ram0 >$s/namespaces/1/device_path; echo 1 >$s/namespaces/1/enable
for by in rdma:4420 tcp:4421; do
p=/c/nvmet/ports/${{by#*:}}; mkdir $p
echo ipv4 >$p/addr_adrfam; echo {NVMET} >$p/addr_traddr; echo ${{by%:*}} >$p/addr_trtype; echo ${{by#*:}} >$p/addr_trsvcid
ln -s $s $p/subsystems/{NQN}
done
"""
FIO = ("LD_LIBRARY_PATH=/weft /weft/fio --filename=/dev/nvme0n1 --thread --direct=1 --ioengine=libaio --rw={rw} --bs={bs} "
       f"--iodepth={{depth}} --size={DISK_MIB // 2}m --time_based --runtime={{seconds}} --name=r --minimal")
#: fio's access, block, depth
KINDS = (("randread", "4k", 1), ("randwrite", "4k", 1), ("randread", "4k", 32), ("randwrite", "4k", 32), ("read", "128k", 8),
         ("write", "128k", 8))
#: Fields of fio's terse output, version 3: operations a second, mean latency in microseconds
FIELDS = {"read": (7, 39), "write": (48, 80)}


class Rig:
    """Both guests, on a bridge."""

    def __init__(self, world, build, cache, logs):
        self.world, self.said = world, ""
        base = os.path.join(cache, "initramfs.cpio")
        self.ns = world.space("nvmf")
        sh("ip", "-n", self.ns, "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", self.ns, "link", "set", "br0", "up")
        os.mkdir(os.path.join(logs, "target"))
        # pack() writes one file of a folder
        for d in ("host", "target"):
            os.mkdir(os.path.join(world.tmp, d))
        host = pack(os.path.join(world.tmp, "host"), base, [shutil.which("fio")], {}, [])
        target = pack(os.path.join(world.tmp, "target"), base, [os.path.join(build, "apps/target/weft-target")],
                      {"/etc/weft-target.ini": CONF}, ("bus_vdev", "mempool_ring", "net_af_packet"))
        self.guest = Guest(world, self.ns, cache, logs, initrd=host)
        self.other = Guest(world, self.ns, cache, os.path.join(logs, "target"), initrd=target, number=1, ip4=NVMET)
        for g in (self.guest, self.other):
            sh("ip", "-n", self.ns, "link", "set", g.dev, "master", "br0")

    def sh(self, command, guest=None, timeout=60):
        rc, out = (guest or self.guest).run(command, timeout)
        self.said += f"# {command}\n{out}\n"
        check(rc == 0, f"{command} ended with {rc}: {out[-1000:]}")
        return out

    def why(self):
        return self.said[-3000:]


def up(rig):
    rig.guest.wait_up()
    rig.other.wait_up()
    rig.sh("/etc/init insert nvme")
    rig.sh(f"/etc/init insert nvmet; rmmod brd; insmod /modules/brd.ko rd_nr=2 rd_size={DISK_MIB << 10}", rig.other)
    rig.sh(SERVE_NVMET, rig.other)
    # segments that were put together are too long for the ring of a packet socket
    rig.sh("ethtool -K eth0 gro off", rig.other)
    rig.sh("cd /weft; export LD_LIBRARY_PATH=/weft; setsid ./weft-target -c /etc/weft-target.ini </dev/null >/tmp/target.log 2>&1 & "
           "for i in $(seq 400); do grep -q ready: /tmp/target.log && exit 0; usleep 50000; done; cat /tmp/target.log; exit 1", rig.other)


def measure(rig, target, by, seconds):
    """{kind: (operations a second, latency)} of all kinds."""
    address = NVMET if target == "nvmet" else WEFT
    rig.sh(f"ethtool -K eth0 gro {'on' if target == 'nvmet' else 'off'}", rig.other)
    rig.sh(f"echo transport={by},traddr={address},trsvcid={PORTS[target, by]},nqn={NQN},nr_io_queues=1 >/dev/nvme-fabrics; "
           "for i in $(seq 100); do [ -b /dev/nvme0n1 ] && exit 0; usleep 100000; done; exit 1")
    got = {}
    for rw, bs, depth in KINDS:
        out = rig.sh(FIO.format(rw=rw, bs=bs, depth=depth, seconds=seconds), timeout=60 + 4 * seconds)
        row = next(line for line in out.splitlines() if line.startswith("3;")).split(";")
        rate, latency = FIELDS["write" if "write" in rw else "read"]
        check(row[4] == "0", f"fio: error {row[4]}")
        got[rw, bs, depth] = float(row[rate]), float(row[latency])
    rig.sh("echo 1 >/sys/class/nvme/nvme0/delete_controller; for i in $(seq 100); do [ -e /sys/class/nvme/nvme0 ] || exit 0; "
           "usleep 100000; done; exit 1")
    return got


def compare(rig, by, rounds, seconds):
    runs = {"nvmet": [], "weft": []}
    for _ in range(rounds):
        for target, seen in runs.items():
            seen.append(measure(rig, target, by, seconds))
    print(f"# {by}: I/O operations a second and mean latency, median of {rounds} rounds of {seconds} s")
    for kind in KINDS:
        mid = {t: [statistics.median(r[kind][i] for r in seen) for i in (0, 1)] for t, seen in runs.items()}
        print(f"# {by:4} {kind[0]:9} {kind[1]:>4} depth {kind[2]:<2}  nvmet {mid['nvmet'][0]:7.0f} {mid['nvmet'][1]:8.0f} us"
              f"  weft {mid['weft'][0]:7.0f} {mid['weft'][1]:8.0f} us  ratio {mid['weft'][0] / mid['nvmet'][0]:.2f}", flush=True)
        check(mid["weft"][0] > 0, "nothing was done")


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("build")
    ap.add_argument("--seconds", type=int, default=4, help="of each access [4]")
    ap.add_argument("--rounds", type=int, default=3, help="[3]")
    ap.add_argument("--by", default="rdma,tcp", help="transports [rdma,tcp]")
    args = ap.parse_args()

    def use(rig, tap, _):
        if not tap.case("two guests are up, both targets serve", lambda: up(rig), rig.why):
            return
        for by in args.by.split(","):
            tap.case(f"weft beside nvmet by {by}", lambda by=by: compare(rig, by, args.rounds, args.seconds), rig.why)
        rig.other.close()

    return with_rig(args.build, "nvmf_ratio", (("fio", "fio"),), Rig, use)


if __name__ == "__main__":
    sys.exit(main())
