#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Linux's NVMe hosts (nvme-rdma over siw, nvme-tcp) in the siw guest as users of a volume. TAP.

weft-target serves it, with two workers.
The guest connects by /dev/nvme-fabrics, so it needs no tools of its own. docs/nvmeof.md names the test.

run_nvmf.py BUILD [--tcp] [--kills N] [--resets N] [--list]

The guest is that of run_siw.py. The logs of a failed run are in BUILD/meson-logs/nvmf.
"""
import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from kernel_net import W4, check  # noqa: E402
from siw_guest import Guest, die_with_us, with_rig  # noqa: E402

NQN = "nqn.2026-01.org.example:disk"
MEGABYTES = 256
KILLS, RESETS = 3, 10
REQ_RAHEAD = 1 << 19  # Linux 6.1, enum req_flag_bits
SYS = "/sys/class/nvme/nvme0"
HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
CONF = f"""[weft]
telemetry = yes
workers = 2
[port p0]
dev = {{device}}
address = {W4}/24
[target]
control = {{control}}
[export disk]
format = volume
path = {{disk}}
size = {MEGABYTES}M
[subsystem {NQN}]
namespaces = 1=disk
hosts = {HOST}
serial = WEFT1
"""
CONNECT = (f"traddr={W4},nqn={NQN},nr_io_queues=1,reconnect_delay=1,ctrl_loss_tmo=-1,hostnqn={HOST},"
           "hostid=11111111-2222-3333-4444-555555555555,")
BY = {"rdma": "transport=rdma,trsvcid=4420", "tcp": "transport=tcp,trsvcid=8009"}
FAULTS = ("protocol_errors", "kato_expired", "rdma_rejected", "tcp_rejected", "tcp_header_digests", "tcp_data_digests", "tcp_faults",
          "tcp_terms", "tcp_overruns", "tcp_stalls")
# Each round is acknowledged when its octets are on the medium: then, and only then, the guest keeps a copy elsewhere.
ROUNDS = ("i=0; while [ ! -e /tmp/stop ]; do i=$((i+1)); (echo round $i; head -c 3000 /dev/urandom) >/tmp/w; "
          "dd if=/tmp/w of=/m/f$((i%8)) conv=fsync 2>/dev/null && cp /tmp/w /tmp/ack$((i%8)) && echo $i >/tmp/rounds; done")


class Rig:
    """The guest, and the target with its file."""

    transport, kills, resets = "rdma", KILLS, RESETS

    def __init__(self, world, build, cache, logs):
        self.world, self.build, self.logs = world, build, logs
        self.ns = world.space("nvmf")
        self.guest = Guest(world, self.ns, cache, logs)
        self.target, self.said = None, ""

    def serve(self):
        # frames that bypass the queueing discipline are missing from a capture
        device = f"net_af_packet0,iface={self.guest.dev},blocksz=16384,framesz=2048,framecnt=2048,qdisc_bypass=0"
        conf = os.path.join(self.world.tmp, "nvmf.ini")
        with open(conf, "w") as f:
            f.write(CONF.format(device=device, disk=os.path.join(self.world.tmp, "disk"), control=self.control()))
        args = [os.path.join(self.build, "apps/target/weft-target"), "-c", conf]
        self.target = self.world.spawn(self.ns, args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_us)
        line = ""
        while "ready: " not in line:
            line = self.target.stdout.readline()
            self.said += line
            check(line, "the target does not start")

    def ctl(self, *words):
        p = subprocess.run([os.path.join(self.build, "apps/ctl/weft-ctl"), "--socket", self.control(), *words],
                           capture_output=True, text=True, timeout=30)
        self.said += p.stdout + p.stderr
        check(p.returncode == 0, f"weft-ctl {words[0]} ended with {p.returncode}")

    def control(self):
        return os.path.join(self.world.tmp, "nvmf.control")

    def counters(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(10)
            s.connect(f"/run/dpdk/weft-{self.target.pid}/dpdk_telemetry.v2")
            s.recv(16384)
            s.send(b"/weft/target/nvmf")
            return json.loads(s.recv(16384))["/weft/target/nvmf"]

    def end(self, sig):
        """End the target. Returns what it has said."""
        self.target.send_signal(sig)
        out, _ = self.target.communicate(timeout=30)
        self.world.procs.remove(self.target)
        self.said += out
        return out

    def sh(self, command, timeout=60):
        rc, out = self.guest.run(command, timeout)
        self.said += f"# {command}\n{out}\n"
        check(rc == 0, f"{command} ended with {rc}")
        return out

    def why(self):
        return self.said + (self.guest.run("dmesg | tail -n 8")[1] if self.guest.alive() else "")

    def connect(self, *more):
        """Make the disk."""
        self.sh(f"echo {CONNECT}{','.join((BY[self.transport], *more))} >/dev/nvme-fabrics")
        self.sh("for i in $(seq 100); do [ -b /dev/nvme0n1 ] && exit 0; usleep 100000; done; exit 1")

    def disconnect(self):
        self.sh(f"echo 1 >{SYS}/delete_controller; for i in $(seq 100); do [ -e {SYS} ] || exit 0; usleep 100000; done; exit 1")

    def live(self):
        self.sh(f"for i in $(seq 300); do [ \"$(cat {SYS}/state)\" = live ] && exit 0; usleep 100000; done; exit 1")


def up(rig):
    rig.guest.wait_up()
    rig.serve()


def connects(rig):
    rig.sh("/etc/init insert nvme && mkdir -p /m")
    rig.connect()
    check(rig.sh(f"cat {SYS}/transport").strip() == rig.transport, "another transport")
    blocks = int(rig.sh("cat /sys/block/nvme0n1/size"))
    check(blocks == (MEGABYTES - 1) * 2048, f"{blocks} blocks")
    check(rig.sh(f"cat {SYS}/model").strip() == "weft" and rig.sh(f"cat {SYS}/serial").strip() == "WEFT1", "model, serial")
    check("write back" in rig.sh("cat /sys/block/nvme0n1/queue/write_cache"), "the write cache is not told")


def data(rig):
    rig.sh("head -c 8388608 /dev/urandom >/tmp/a")
    for size, n in ((512, 256), (4096, 512), (65536, 64), (1 << 20, 8)):
        rig.sh(f"dd if=/tmp/a of=/dev/nvme0n1 bs={size} count={n} oflag=direct && dd if=/dev/nvme0n1 of=/tmp/b bs={size} count={n} "
               f"iflag=direct && head -c {size * n} /tmp/a | cmp - /tmp/b")


def discards(rig):
    rig.sh("blkdiscard -o 1048576 -l 4194304 /dev/nvme0n1")
    zeros = rig.sh("dd if=/dev/nvme0n1 bs=1M skip=1 count=4 iflag=direct 2>/dev/null | sha256sum")
    check(zeros == rig.sh("head -c 4194304 /dev/zero | sha256sum"), "not zeros")


def resets(rig):
    for _ in range(rig.resets):
        rig.sh(f"echo 1 >{SYS}/reset_controller")
        rig.live()
    rig.sh("dd if=/dev/nvme0n1 bs=1M count=1 iflag=direct 2>/dev/null | cmp -n 1048576 - /tmp/a")


def no_errors(rig):
    """Linux does not send a read-ahead again whose queue is lost: no program sees that error."""
    for line in re.findall(r".*(?:I/O error|EXT4-fs error).*", rig.sh("dmesg")):
        flags = re.search(r"flags (0x[0-9a-f]+)", line)
        check(flags and int(flags[1], 16) & REQ_RAHEAD, f"an I/O error: {line}")


def away(rig):
    """An export that is out of service for three seconds: writes wait, none fails."""
    rig.sh("(dd if=/tmp/a of=/dev/nvme0n1 bs=4096 count=2048 oflag=direct; echo $? >/tmp/away) </dev/null >/dev/null 2>&1 & "
           "usleep 100000")
    rig.ctl("offline", "disk")
    time.sleep(3)
    rig.sh("[ ! -e /tmp/away ]")
    rig.ctl("online", "disk")
    rig.sh("for i in $(seq 300); do [ -e /tmp/away ] && break; usleep 100000; done; [ \"$(cat /tmp/away)\" = 0 ]")
    rig.sh("dd if=/dev/nvme0n1 bs=1M count=8 iflag=direct 2>/dev/null | cmp -n 8388608 - /tmp/a")
    no_errors(rig)


def killed(rig):
    """What was acknowledged is there after each kill -9, and the host goes on by itself."""
    rig.sh("/bin/mke2fs -q -F -t ext4 /dev/nvme0n1 && mount -t ext4 /dev/nvme0n1 /m")
    rig.sh(f"({ROUNDS}) </dev/null >/dev/null 2>&1 & sleep 2")
    for _ in range(rig.kills):
        rig.end(signal.SIGKILL)
        before = int(rig.sh("cat /tmp/rounds"))
        rig.serve()
        rig.sh(f"for i in $(seq 300); do [ $(cat /tmp/rounds) -gt {before + 3} ] && exit 0; usleep 100000; done; exit 1")
    rig.sh("touch /tmp/stop; sleep 1; umount /m; echo 3 >/proc/sys/vm/drop_caches; mount -t ext4 /dev/nvme0n1 /m")
    rig.sh("for i in $(seq 0 7); do cmp /m/f$i /tmp/ack$i || exit 1; done; umount /m")
    no_errors(rig)


def leaves(rig):
    rig.disconnect()
    time.sleep(0.2)
    seen = rig.counters()
    check(seen["controllers"] == 0 and seen["queues"] == 0, f"something is left: {seen}")
    check(not any(seen[k] for k in FAULTS), f"a fault of the host is counted: {seen}")
    check(seen[f"{rig.transport}_accepted"] > 0, f"another transport was used: {seen}")
    said = rig.end(signal.SIGTERM)
    check(rig.target.returncode == 0 and "given up" not in said, "the target has failed")


def digests(rig):
    """The same data with each kind of digest, several queues, and without SQ flow control."""
    for more in (("hdr_digest",), ("data_digest",), ("hdr_digest", "data_digest"), ("data_digest", "disable_sqflow")):
        rig.disconnect()
        rig.connect(*more)
        data(rig)
    rig.disconnect()
    rig.connect()


CASES = [("the guest is up, the target serves", up),
         ("the host connects: size, names, write cache", connects),
         ("direct writes and reads, 512 octets to 1 MiB", data),
         ("discard", discards),
         ("controller resets", resets),
         ("the export is away for a while", away),
         ("ext4 with fsync, the target killed again and again", killed),
         ("the host leaves", leaves)]


TCP_CASES = [*CASES[:3], ("the same with digests, and without flow control", digests), *CASES[3:]]


class TcpRig(Rig):
    transport = "tcp"


def use(rig, tap, _):
    for name, fn in TCP_CASES if rig.transport == "tcp" else CASES:
        rig.said = ""
        if not tap.case(name, lambda fn=fn: fn(rig), rig.why):
            break


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("build")
    ap.add_argument("--tcp", action="store_true", help="by nvme-tcp")
    ap.add_argument("--kills", type=int, default=KILLS, help=f"kill -9 of the target so often [{KILLS}]")
    ap.add_argument("--resets", type=int, default=RESETS, help=f"resets of the controller [{RESETS}]")
    ap.add_argument("--list", action="store_true")
    args = ap.parse_args()
    if args.list:
        print("\n".join(name for name, _ in (TCP_CASES if args.tcp else CASES)))
        return 0
    Rig.kills, Rig.resets = args.kills, args.resets
    return with_rig(args.build, "nvmf_tcp" if args.tcp else "nvmf", (), TcpRig if args.tcp else Rig, use)


if __name__ == "__main__":
    sys.exit(main())
