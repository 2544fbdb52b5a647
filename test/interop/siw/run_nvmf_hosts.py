#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Linux's NVMe hosts in the siw guest, with more than run_nvmf.py asks of them. TAP.

run_nvmf_hosts.py BUILD queues|paths|reservations|tools [--tcp] [--list]

queues        a guest of four processors uses four I/O queues, over two workers of weft-target: fio verifies, also while the
              controller is reset
paths         two weft-targets that serve one volume in turn: Linux's native multipath goes from one to the other
reservations  two hosts in one guest (multipath off) reserve a namespace by nvme-cli, and survive a kill -9 of the target
tools         an MTU of 9000: commands of nvme-cli, fio at depth 1 and 128, trees of files on ext4 and XFS, a disconnect under load

fio and nvme of this computer are in the guest. The logs of a failed run are in BUILD/meson-logs/nvmf_WHAT.
"""
import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from kernel_net import W4, Fail, check  # noqa: E402
from run_nvmf import BY, CONF, FAULTS, HOST, MEGABYTES, NQN, ROUNDS, no_errors  # noqa: E402
from siw_guest import Guest, die_with_us, with_rig  # noqa: E402
from guest import pack  # noqa: E402

ADDRESSES = (W4, "10.78.0.2")
OTHER = "nqn.2014-08.org.nvmexpress:uuid:99999999-8888-7777-6666-555555555555"
RUN = "LD_LIBRARY_PATH=/weft /weft/"
FIO = (RUN + "fio --filename=/dev/nvme0n1 --thread --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite --bsrange=4k-64k "
       "--numjobs=4 --size={mib}m --offset_increment=32m --verify=crc32c --verify_fatal=1 --name=v --minimal")
#: A host goes on with its other path within this time, once the other target has the volume (seconds).
FAILOVER_S = 30


class Target:
    """A weft-target of its own address, device and state. All have the same volume."""

    def __init__(self, rig, i, dev, more=""):
        self.rig, self.i = rig, i
        tmp = rig.world.tmp
        self.control = os.path.join(tmp, f"control{i}")
        self.conf = os.path.join(tmp, f"nvmf{i}.ini")
        state = os.path.join(tmp, f"state{i}")
        os.mkdir(state)
        # frames that bypass the queueing discipline are missing from a capture
        ring = "blocksz=16384,framesz=2048,framecnt=2048" if rig.mtu <= 1500 else "blocksz=20480,framesz=10240,framecnt=1024"
        device = f"net_af_packet0,iface={dev},{ring},qdisc_bypass=0"
        text = CONF.format(device=device, disk=os.path.join(tmp, "disk"), control=self.control)
        text = text.replace(f"address = {W4}", f"address = {ADDRESSES[i]}").replace("[target]\n", f"[target]\nstate = {state}\n")
        text = text.replace("[target]\n", f"mtu = {rig.mtu}\n[target]\n").replace(f"size = {MEGABYTES}M", f"size = {rig.megabytes}M")
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write(text.replace(f"hosts = {HOST}", f"hosts = {HOST}, {OTHER}") + more)
            if more:  # a target serves something when it starts
                f.write(f"[export own]\npath = {os.path.join(tmp, f'own{i}')}\nsize = 1M\n")
        self.proc = None

    def start(self):
        args = [os.path.join(self.rig.build, "apps/target/weft-target"), "-c", self.conf]
        self.proc = self.rig.world.spawn(self.rig.ns, args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                         preexec_fn=die_with_us)
        self.until("ready: ")

    def until(self, text):
        line = ""
        while text not in line:
            line = self.proc.stdout.readline()
            self.rig.said += line
            check(line, f"the target has ended, and has not said {text!r}")

    def edit(self, old, new):
        with open(self.conf, encoding="utf-8") as f:
            text = f.read()
        check(old in text, f"{old} is not in the file")
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write(text.replace(old, new))
        self.proc.send_signal(signal.SIGHUP)

    def ctl(self, *words):
        p = subprocess.run([os.path.join(self.rig.build, "apps/ctl/weft-ctl"), "--socket", self.control, *words],
                           capture_output=True, text=True, timeout=30)
        self.rig.said += p.stdout + p.stderr
        check(p.returncode == 0, f"weft-ctl {words[0]} ended with {p.returncode}: {p.stderr}")

    def tel(self, name):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(10)
            s.connect(f"/run/dpdk/weft-{self.proc.pid}/dpdk_telemetry.v2")
            s.recv(16384)
            s.send(f"/weft/target/{name}".encode())
            return next(iter(json.loads(s.recv(65536)).values()))

    def end(self, sig):
        self.proc.send_signal(sig)
        out, _ = self.proc.communicate(timeout=30)
        self.rig.world.procs.remove(self.proc)
        self.rig.said += out
        return self.proc.returncode


class Rig:
    """The guest, with fio and nvme, and one or two targets."""

    transport, targets_n, processors, mtu, megabytes, more = "rdma", 1, {}, 1500, MEGABYTES, ()

    def __init__(self, world, build, cache, logs):
        self.world, self.build, self.said = world, build, ""
        self.ns = world.space("nvmf")
        programs = [shutil.which(p) for p in ("fio", "nvme", *self.more)] + [os.path.join(build, "test/interop/nvmf_pr")]
        initrd = pack(world.tmp, os.path.join(cache, "initramfs.cpio"), programs, {}, [])
        self.guest = Guest(world, self.ns, cache, logs, initrd=initrd, second=self.targets_n > 1, mtu=self.mtu, **self.processors)
        devs = [self.guest.dev, *([self.guest.dev2] if self.targets_n > 1 else [])]
        access = ("first_controller = 1\nlast_controller = 1000\naccess = optimized\n",
                  "first_controller = 1001\nlast_controller = 2000\naccess = non_optimized\n") if self.targets_n > 1 else ("",)
        self.targets = [Target(self, i, devs[i], more) for i, more in enumerate(access)]

    def sh(self, command, timeout=60):
        rc, out = self.guest.run(command, timeout)
        self.said += f"# {command}\n{out}\n"
        check(rc == 0, f"{command} ended with {rc}")
        return out

    def why(self):
        kernel = self.guest.run("dmesg | grep -v Remounting | tail -n 60 | head -n 40")[1] if self.guest.alive() else ""
        return self.said[-3000:] + kernel

    def connect(self, i=0, n=1, host=HOST):
        """Controller nvmeX of target i, with n I/O queues."""
        self.sh(f"echo traddr={ADDRESSES[i]},nqn={NQN},nr_io_queues={n},reconnect_delay=1,ctrl_loss_tmo=-1,keep_alive_tmo=2,"
                f"hostnqn={host},hostid={host[-36:]},{BY[self.transport]} >/dev/nvme-fabrics")

    def wait(self, test, what, tenths=300):
        rc, _ = self.guest.run(f"for i in $(seq {tenths}); do {test} && exit 0; usleep 100000; done; exit 1", tenths // 10 + 30)
        check(rc == 0, what)


def up(rig):
    rig.guest.wait_up()
    if rig.targets_n > 1:
        rig.sh("ip link set eth1 up && ip addr add 10.78.0.1/24 dev eth1 && rdma link add siw1 type siw netdev eth1")
    for t in rig.targets:
        t.start()


def note(text):
    print(f"# {text}", flush=True)


# ---- Several queues ----

def several(rig):
    rig.sh("/etc/init insert nvme")
    rig.connect(n=4)
    rig.wait("[ -b /dev/nvme0n1 ]", "there is no disk")
    n = rig.sh("ls -d /sys/block/nvme0*n1/mq/* | wc -l")
    check(int(n) == 4, f"Linux has {n} queues")


def queue_rows(rig):
    t = rig.targets[0]
    c = t.tel("nvmf_controller," + next(iter(t.tel("nvmf_controller"))))
    return {q: (c[f"queue_{q}_worker"], c[f"queue_{q}_commands"]) for q in range(1, 5)}


def verified(rig):
    rig.sh(FIO.format(mib=8), 200)
    rows = queue_rows(rig)
    note("commands of I/O queues 1 to 4 and their workers: " + ", ".join(f"{n} ({w})" for w, n in rows.values()))
    check(all(n > 0 for _, n in rows.values()), f"a queue was not used: {rows}")


def resets_under_load(rig):
    rig.sh(f"({FIO.format(mib=24)} >/tmp/fio 2>&1; echo $? >/tmp/fio.rc) </dev/null >/dev/null 2>&1 &")
    n = 0
    while n < 5 and rig.guest.run("[ -e /tmp/fio.rc ]")[0] != 0:
        rig.sh("echo 1 >/sys/class/nvme/nvme0/reset_controller")
        rig.wait("[ \"$(cat /sys/class/nvme/nvme0/state)\" = live ]", "the controller does not come back")
        n += 1
        time.sleep(1)
    rig.wait("[ -e /tmp/fio.rc ]", "fio does not end", 2000)
    rig.sh("cat /tmp/fio; [ $(cat /tmp/fio.rc) = 0 ]")
    check(n > 1, "fio has ended before the second reset")
    note(f"{n} resets under load")
    no_errors(rig)


def workers(rig):
    """Where a queue lands is the hash of its ports: over ten connections both workers have some."""
    seen = {w for w, _ in queue_rows(rig).values()}
    for _ in range(10):
        if len(seen) == 2:
            break
        rig.sh("echo 1 >/sys/class/nvme/nvme0/reset_controller")
        rig.wait("[ \"$(cat /sys/class/nvme/nvme0/state)\" = live ]", "the controller does not come back")
        seen |= {w for w, _ in queue_rows(rig).values()}
    check(len(seen) == 2, f"workers {seen}")


def leaves(rig):
    rig.sh("for c in /sys/class/nvme/nvme*; do echo 1 >$c/delete_controller; done")
    rig.wait("[ -z \"$(ls /sys/class/nvme)\" ]", "a controller stays")
    time.sleep(0.5)
    for t in rig.targets:
        seen = t.tel("nvmf")
        check(seen["controllers"] == 0 and seen["queues"] == 0, f"something is left: {seen}")
        check(not any(seen[k] for k in FAULTS), f"a fault of the host is counted: {seen}")
        check(t.end(signal.SIGTERM) == 0, "the target has failed")


# ---- Paths ----

def until_state(rig, i, state):
    """Linux has this ANA state of the path to target i."""
    states = f"for c in /sys/class/nvme/nvme[0-9]*; do grep -q {ADDRESSES[i]} $c/address && cat $c/nvme*/ana_state; done"
    rig.wait(f"[ \"$({states})\" = {state} ]", f"Linux does not take path {i} for {state}")


def two_paths(rig):
    """The second target has no volume: its path is there, and its namespace comes when it is served there."""
    rig.sh("/etc/init insert nvme && mkdir -p /m")
    check(rig.sh("cat /sys/module/nvme_core/parameters/multipath").strip() == "Y", "multipath is off")
    for i in (0, 1):
        rig.connect(i)
    rig.wait("[ $(cat /sys/class/nvme/nvme*/state | grep -c live) = 2 ] && [ -b /dev/nvme0n1 ]", "there is no disk with two paths")
    until_state(rig, 0, "optimized")


def told(rig):
    """Linux takes a changed state from an event alone: nothing else is sent."""
    t = rig.targets[0]
    for old, new, state in (("optimized", "non_optimized", "non-optimized"), ("non_optimized", "optimized", "optimized")):
        before = t.tel("nvmf")["events"]
        t0 = time.monotonic()
        t.edit(f"access = {old}", f"access = {new}")
        t.until("its access has changed")
        until_state(rig, 0, state)
        note(f"{state}: Linux knows after {time.monotonic() - t0:.1f} s")
        check(t.tel("nvmf")["events"] > before, "no event")


def writer(rig):
    rig.sh("/bin/mke2fs -q -F -t ext4 /dev/nvme0n1 && mount -t ext4 /dev/nvme0n1 /m")
    rig.sh(f"({ROUNDS}) </dev/null >/dev/null 2>&1 & sleep 2")


def goes_on(rig, t0, what):
    """The writer has acknowledged two rounds more."""
    before = int(rig.sh("cat /tmp/rounds"))
    rig.wait(f"[ $(cat /tmp/rounds) -gt {before + 1} ]", f"{what}: the writer does not go on", FAILOVER_S * 10)
    took = time.monotonic() - t0
    note(f"{what}: two more rounds after {took:.1f} s")
    check(took < FAILOVER_S, f"{what}: {took:.1f} s")


def moved(rig):
    """An operator moves the volume to the other target and back, under fsync."""
    writer(rig)
    for of, to in ((0, 1), (1, 0)):
        t0 = time.monotonic()
        rig.targets[of].ctl("offline", "disk")
        rig.targets[to].ctl("online", "disk")
        goes_on(rig, t0, f"moved from {of} to {to}")
        until_state(rig, of, "inaccessible")
    no_errors(rig)


def taken_over(t):
    """The kernel takes io_uring's files from a killed process a moment after its end: until then the file is locked."""
    end = time.monotonic() + 5
    while True:
        try:
            return t.ctl("online", "disk")
        except Fail as e:
            if "is in use" not in str(e) or time.monotonic() > end:
                raise
        time.sleep(0.05)


def killed(rig):
    """The active target is killed, the other one takes the volume; the first one comes back as the stand-by."""
    for of, to in ((0, 1), (1, 0)):
        t0 = time.monotonic()
        rig.targets[of].end(signal.SIGKILL)
        taken_over(rig.targets[to])
        goes_on(rig, t0, f"target {of} killed")
        rig.targets[of].start()
        rig.wait("[ $(cat /sys/class/nvme/nvme*/state | grep -c live) = 2 ]", "the path does not come back")
    rig.sh("touch /tmp/stop; sleep 1; umount /m; echo 3 >/proc/sys/vm/drop_caches; mount -t ext4 /dev/nvme0n1 /m")
    rig.sh("for i in $(seq 0 7); do cmp /m/f$i /tmp/ack$i || exit 1; done; umount /m")
    no_errors(rig)


# ---- Reservations ----

def two_hosts(rig):
    """Without multipath each host has a disk of its own: nvme0n1 and nvme1n1."""
    rig.sh("while read m; do [ $m = nvme-core.ko ] && break; [ -e /sys/module/$(echo ${m%.ko} | tr - _) ] || insmod /modules/$m; "
           "done </modules/order.nvme; insmod /modules/nvme-core.ko multipath=N; /etc/init insert nvme")
    for n, host in enumerate((HOST, OTHER)):
        rig.connect(0, 1, host)
        rig.wait(f"[ -b /dev/nvme{n}n1 ]", f"there is no disk {n}")


def nvme(rig, words, n, status=0):
    """A command of nvme-cli on host n's disk. status: SCT and SC that it ends with."""
    verb, _, rest = words.partition(" ")
    rc, out = rig.guest.run(f"{RUN}nvme {verb} /dev/nvme{n}n1 {rest}", 60)
    rig.said += f"# host {n}: {words}: {rc}\n{out}\n"
    got = re.search(r"NVMe status: .*\(0x([0-9a-f]+)\)", out)
    check((int(got[1], 16) & 0x7ff if got else 0) == status and (rc == 0) == (status == 0), f"nvme {words}: {rc} {out}")
    return out


CONFLICT = 0x83


def write(rig, n, fine):
    """Linux 6.1 gives a program EBADE for a reservation conflict."""
    rc, out = rig.guest.run(f"dd if=/dev/zero of=/dev/nvme{n}n1 bs=4096 count=1 oflag=direct")
    rig.said += f"# write of host {n}: {rc}\n{out}\n"
    check(rc == 0 if fine else rc != 0 and "Invalid exchange" in out, f"a write of host {n} ended with {rc}: {out}")


def report(rig, n=0):
    out = nvme(rig, "resv-report -n 1 -e -o json", n)
    return json.loads(out[out.index("{"):])


def state_is(rig, rtype, keys):
    r = report(rig)
    rows = next(v for v in r.values() if isinstance(v, list))
    check(r["rtype"] == rtype and sorted(x["rkey"] for x in rows) == sorted(keys), f"the report is {r}")


def reserve(rig):
    nvme(rig, "resv-register -n 1 -k 0xa1 -r 0 -p 3", 0)
    nvme(rig, "resv-acquire -n 1 -c 0xa1 -t 1 -a 0", 0)
    state_is(rig, 1, [0xa1])
    write(rig, 0, True)
    write(rig, 1, False)
    check("sc 0x83" in rig.sh("dmesg | tail -n 5"), "not the status Reservation Conflict")
    rig.sh("dd if=/dev/nvme1n1 of=/dev/null bs=4096 count=1 iflag=direct")
    nvme(rig, "resv-acquire -n 1 -c 0xb2 -t 1 -a 0", 1, CONFLICT)
    nvme(rig, "resv-register -n 1 -k 0xb2 -r 0 -p 3", 1)
    nvme(rig, "resv-acquire -n 1 -c 0xb2 -t 1 -a 0", 1, CONFLICT)
    state_is(rig, 1, [0xa1, 0xb2])


def reserved_after_kill(rig):
    rig.targets[0].end(signal.SIGKILL)
    rig.targets[0].start()
    rig.wait("[ $(cat /sys/class/nvme/nvme*/state | grep -c live) = 2 ]", "a host does not come back")
    time.sleep(3)  # a controller that was not yet missed is live, too: Keep Alive's time is 2 s
    rig.wait("[ $(cat /sys/class/nvme/nvme*/state | grep -c live) = 2 ]", "a host does not come back")
    state_is(rig, 1, [0xa1, 0xb2])
    write(rig, 1, False)
    write(rig, 0, True)


def preempt(rig):
    nvme(rig, "resv-acquire -n 1 -c 0xb2 -p 0xa1 -t 1 -a 1", 1)
    state_is(rig, 1, [0xb2])
    write(rig, 1, True)
    write(rig, 0, False)
    nvme(rig, "resv-release -n 1 -c 0xb2 -t 1 -a 0", 1)
    state_is(rig, 0, [0xb2])
    write(rig, 0, True)
    nvme(rig, "resv-release -n 1 -c 0xb2 -t 1 -a 1", 1)
    state_is(rig, 0, [])
    write(rig, 1, True)


def by_ioctl(rig):
    """The same by the ioctls of Linux's block layer, which clusters use. They return the status of NVMe."""
    def pr(n, words, status=0):
        rc, out = rig.guest.run(f"{RUN}nvmf_pr /dev/nvme{n}n1 {words}", 60)
        rig.said += f"# host {n}: {words}: {rc}\n{out}\n"
        check(int(out.split()[-1]) & 0x7ff == status, f"{words} of host {n}: {out}")

    write_exclusive, exclusive_registrants = 1, 4
    pr(0, "reserve a1 1", CONFLICT)
    pr(0, "register 0 a1")
    pr(0, f"reserve a1 {write_exclusive}")
    state_is(rig, 1, [0xa1])
    write(rig, 0, True)
    write(rig, 1, False)
    pr(1, "register 0 b2")
    pr(1, f"reserve b2 {write_exclusive}", CONFLICT)
    pr(1, f"preempt b2 a1 {write_exclusive}")
    state_is(rig, 1, [0xb2])
    write(rig, 1, True)
    write(rig, 0, False)
    pr(0, "register 0 a1")
    pr(0, f"preempt-abort a1 b2 {exclusive_registrants}")
    state_is(rig, 4, [0xa1])
    write(rig, 1, False)
    pr(0, "register a1 a3")
    state_is(rig, 4, [0xa3])
    pr(0, f"release a3 {exclusive_registrants}")
    state_is(rig, 0, [0xa3])
    write(rig, 1, True)
    pr(0, "clear a3")
    state_is(rig, 0, [])


# ---- Tools ----

BLOCK = 512


def disk(rig):
    rig.sh("/etc/init insert nvme; /etc/init insert blktests; mkdir -p /m")
    rig.connect(n=2)
    rig.wait("[ -b /dev/nvme0n1 ]", "there is no disk")
    check(int(rig.sh("cat /sys/block/nvme0n1/queue/logical_block_size")) == BLOCK, "another block length")


def commands(rig):
    """What nvme-cli asks and does; statuses of what is wrong."""
    ctrl = json.loads(nvme(rig, "id-ctrl -o json", 0))
    check(ctrl["mn"].strip() == "weft" and ctrl["sn"].strip() == "WEFT1" and ctrl["subnqn"] == NQN, f"id-ctrl: {ctrl}")
    ns = json.loads(nvme(rig, "id-ns -n 1 -o json", 0))
    check(ns["nsze"] == int(rig.sh("cat /sys/block/nvme0n1/size")), f"id-ns: {ns}")
    before = json.loads(nvme(rig, "smart-log -o json", 0))
    for words in ("error-log -e 4", "effects-log", "ns-descs -n 1", "list-ns", "get-feature -f 6", "flush -n 1",
                  "verify -n 1 -s 0 -c 7"):
        nvme(rig, words, 0)
    rig.sh(f"head -c 65536 /dev/urandom >/tmp/a && dd if=/tmp/a of=/dev/nvme0n1 bs=65536 oflag=direct && {RUN}nvme list")
    nvme(rig, "compare -s 0 -c 127 -z 65536 -d /tmp/a", 0)
    nvme(rig, "compare -s 1 -c 7 -z 4096 -d /tmp/a", 0, 0x285)
    nvme(rig, "write-zeroes -n 1 -s 8 -c 7", 0)
    rig.sh("dd if=/dev/nvme0n1 bs=4096 skip=1 count=1 iflag=direct | cmp -n 4096 - /dev/zero")
    nvme(rig, "dsm -n 1 -d -s 16 -b 16", 0)
    rig.sh("dd if=/dev/nvme0n1 bs=4096 count=1 iflag=direct | cmp -n 4096 - /tmp/a")
    nvme(rig, f"read -s {ns['nsze']} -c 0 -z 512 -d /tmp/b", 0, 0x80)
    nvme(rig, "io-passthru -o 0x55 -n 1", 0, 0x01)
    rig.sh(f"{RUN}nvme reset /dev/nvme0")
    rig.wait("[ \"$(cat /sys/class/nvme/nvme0/state)\" = live ]", "the controller does not come back")
    rig.sh("dd if=/dev/nvme0n1 bs=4096 count=1 iflag=direct | cmp -n 4096 - /tmp/a")
    after = json.loads(nvme(rig, "smart-log -o json", 0))
    check(after["host_write_commands"] > before["host_write_commands"], f"smart-log: {before} {after}")


def depths(rig):
    for depth, way, sizes in ((1, "write", "512-1m"), (128, "randwrite", "512-64k"), (128, "write", "4k-1m")):
        rig.sh(RUN + f"fio --filename=/dev/nvme0n1 --thread --direct=1 --ioengine=libaio --iodepth={depth} --rw={way} --bsrange={sizes} "
               "--blockalign=512 --size=24m --verify=crc32c --verify_fatal=1 --name=v --minimal", 200)


def trees(rig):
    """Files of many lengths have their sums behind umount and mount."""
    for kind, make in (("ext4", "/bin/mke2fs -q -F -t ext4"), ("xfs", RUN + "mkfs.xfs -q -f -K")):
        rig.sh(f"{make} /dev/nvme0n1 && mount -t {kind} /dev/nvme0n1 /m", 120)
        rig.sh("cd /m; for d in 0 1 2 3 4 5; do mkdir -p d$d/e; for i in $(seq 20); do "
               "head -c $((i * i * (d + 1) * 331)) /dev/urandom >d$d/e/f$i; done; done; "
               "find . -type f | xargs sha256sum >/tmp/sums; [ $(wc -l </tmp/sums) = 120 ]", 200)
        rig.sh(f"umount /m && echo 3 >/proc/sys/vm/drop_caches && mount -t {kind} /dev/nvme0n1 /m && cd /m && "
               "sha256sum -c /tmp/sums >/tmp/checked && cd / && umount /m", 200)
    no_errors(rig)


def disconnect(rig):
    """The host goes in the middle of fio's writes: fio fails, the target has nothing left of it, and the host can come again."""
    rig.sh(f"({FIO.format(mib=32)} >/tmp/fio 2>&1; echo $? >/tmp/fio.rc) </dev/null >/dev/null 2>&1 & sleep 2; [ ! -e /tmp/fio.rc ]")
    rig.sh(RUN + f"nvme disconnect -n {NQN}")
    rig.wait("[ -e /tmp/fio.rc ]", "fio does not end")
    check(rig.sh("cat /tmp/fio.rc").strip() != "0", "fio has seen nothing")
    time.sleep(0.5)
    seen = rig.targets[0].tel("nvmf")
    check(seen["controllers"] == 0 and seen["queues"] == 0, f"something is left: {seen}")
    # fio makes a file of the name of a disk that is gone
    rig.sh("[ -b /dev/nvme0n1 ] || rm -f /dev/nvme0n1")
    rig.connect(n=2)
    rig.wait("[ -b /dev/nvme0n1 ]", "there is no disk again: " + rig.sh("ls -l /dev/nvme*; dmesg | tail -n 20"))
    rig.sh(FIO.format(mib=4), 200)


UP = ("the guest is up, the target serves", up)
LEAVES = ("the host leaves", leaves)
CASES = {
    "queues": [UP, ("four I/O queues", several), ("fio verifies on all of them", verified),
               ("fio verifies while the controller is reset", resets_under_load), ("both workers have queues", workers), LEAVES],
    "paths": [UP, ("a disk with two paths", two_paths), ("a changed state is told by an event", told),
              ("the volume is moved, and moved back", moved), ("each target is killed, the other one goes on", killed), LEAVES],
    "reservations": [UP, ("two hosts", two_hosts), ("a reservation keeps the other host from writing", reserve),
                     ("it is there after kill -9 of the target", reserved_after_kill),
                     ("preempted, released, cleared", preempt), ("the same by ioctls of the block layer", by_ioctl), LEAVES],
    "tools": [UP, ("a disk", disk), ("nvme-cli's commands", commands), ("fio at depth 1 and 128", depths),
              ("trees of files on ext4 and XFS", trees), ("a disconnect under load", disconnect), LEAVES],
}


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("build")
    ap.add_argument("what", choices=CASES)
    ap.add_argument("--tcp", action="store_true", help="by nvme-tcp")
    ap.add_argument("--list", action="store_true")
    args = ap.parse_args()
    if args.list:
        print("\n".join(name for name, _ in CASES[args.what]))
        return 0

    class Wanted(Rig):
        transport = "tcp" if args.tcp else "rdma"
        targets_n = 2 if args.what == "paths" else 1
        processors = {"processors": "4"} if args.what == "queues" else {}
        mtu, megabytes, more = (9000, 384, ("mkfs.xfs",)) if args.what == "tools" else (1500, MEGABYTES, ())

    def use(rig, tap, _):
        for name, fn in CASES[args.what]:
            rig.said = ""
            if not tap.case(name, lambda fn=fn: fn(rig), rig.why):
                break

    name = f"nvmf_{args.what}" + ("_tcp" if args.tcp else "")
    return with_rig(args.build, name, (("fio", "fio"), ("nvme", "nvme-cli"), ("mkfs.xfs", "xfsprogs")), Wanted, use)


if __name__ == "__main__":
    sys.exit(main())
