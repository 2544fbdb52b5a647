# SPDX-License-Identifier: BSD-3-Clause
"""The Linux guest: its virtual hardware, its shell, and siw's parameters."""
import contextlib
import os
import re
import shlex
import signal
import socket
import time

from kernel_net import K4, K6, Fail, check, libc, sh

PR_SET_PDEATHSIG = 1
# Emulation works everywhere and is fast enough. KVM does not work inside every hypervisor.
ACCEL = os.environ.get("WEFT_SIW_ACCEL", "tcg,thread=multi")
# Constants in Debian's source. The guest starts with these.
STOCK = {"zcopy_tx": "Y", "try_gso": "N", "mpa_crc_required": "N", "mpa_crc_strict": "N", "peer_to_peer": "N",
         "mpa_version": "2"}
# One processor, and a second one that is never started. With a single one, QEMU before 8.1 omits the guest's memory
# barriers (tcg_gen_mb), although its devices run in parallel. Then a kick of virtio-net is sometimes lost, and nothing
# is sent any more.
PROCESSORS = "1,maxcpus=2"
# Like a wire: complete checksums, and no frame beyond the MTU.
OFFLOADS = "csum gso guest_csum guest_tso4 guest_tso6 guest_ecn guest_ufo host_tso4 host_tso6 host_ecn host_ufo"


def die_with_us():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Shell:
    """A shell in the guest, on a virtio port. One command at a time."""

    def __init__(self, path):
        self.path, self.sock, self.n = path, None, 0

    def run(self, command, timeout):
        """Run a command. Returns (status, output); status 137 when it took longer and was killed."""
        if self.sock is None:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(self.path)
        self.n += 1
        mark = f"@@{self.n}@@"
        line = f"timeout -s KILL {timeout} sh -c {shlex.quote(command)} </dev/null 2>&1; rc=$?; echo; echo '{mark}' $rc\n"
        self.sock.sendall(line.encode())
        self.sock.settimeout(timeout + 10)
        end = time.monotonic() + timeout + 10
        got = bytearray()
        while not (m := re.search(rb"\n%s (\d+)\n$" % mark.encode(), got[-40:])):
            check(time.monotonic() < end, f"the guest does not answer: {command}")
            try:
                piece = self.sock.recv(65536)
            except socket.timeout:
                raise Fail(f"the guest does not answer: {command}") from None
            check(piece, "the guest has gone")
            got += piece
        return int(m[1]), got[:-len(m[0])].decode(errors="replace").rstrip("\n")

    def close(self):
        if self.sock is not None:
            self.sock.close()


class Guest:
    """A guest behind a tap of a namespace. The tap's other end is for one of our ports."""

    def __init__(self, world, ns, cache, logs, mtu=1500, initrd=None, nvdimm=None, modules="siw"):
        """initrd: used instead of the cache's. nvdimm: a file that is the guest's persistent memory, a multiple of 128
        MiB long. modules: the purpose of the guest."""
        self.world, self.ns, self.modules = world, ns, modules
        self.dev = f"wq{world.tag % 1000000}"
        self.console = os.path.join(logs, "console.log")
        sh("ip", "-n", ns, "tuntap", "add", "dev", self.dev, "mode", "tap")
        with world.inside(ns), open(f"/proc/sys/net/ipv6/conf/{self.dev}/disable_ipv6", "w") as f:
            f.write("1")  # no address of the host at this end, because the host would answer
        sh("ip", "-n", ns, "link", "set", self.dev, "mtu", str(mtu), "up")
        features = "".join(f",{x}=off" for x in OFFLOADS.split())
        machine, memory, dimm = "q35,usb=off,smbus=off,sata=off,vmport=off,hpet=off", "768", []
        if nvdimm:
            size = os.path.getsize(nvdimm)
            machine, memory = machine + ",nvdimm=on", f"768,slots=2,maxmem={2048 + (size >> 20)}M"
            dimm = ["-object", f"memory-backend-file,id=pmem,share=on,mem-path={nvdimm},size={size}",
                    "-device", "nvdimm,memdev=pmem"]
        self.args = [
            "qemu-system-x86_64", "-name", "weft-guest", "-accel", ACCEL, "-machine", machine, "-cpu", "max", "-smp", PROCESSORS,
            "-m", memory, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", os.path.join(cache, "vmlinux"), "-initrd", initrd or os.path.join(cache, "initramfs.cpio"),
            "-append", "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check "
            f"random.trust_cpu=on net.ifnames=0 rdinit=/init weft.modules={modules} weft.ip4={K4}/24 weft.ip6={K6}/64 weft.mtu={mtu}",
            "-serial", f"file:{self.console}",
            "-netdev", f"tap,id=n0,ifname={self.dev},script=no,downscript=no,vhost=off",
            "-device", f"virtio-net-pci,netdev=n0,mac=52:54:00:77:00:01,romfile=,host_mtu={mtu}{features}",
            "-device", "virtio-serial-pci", "-chardev", f"socket,id=c0,path={world.tmp}/shell,server=on,wait=off",
            "-device", "virtserialport,chardev=c0,name=weft", *dimm]
        self.log = open(os.path.join(logs, "qemu.log"), "w+")
        self.boot()

    def boot(self):
        self.qemu = self.world.spawn(self.ns, self.args, stdin=-3, stdout=self.log, stderr=self.log, preexec_fn=die_with_us)
        self.shell = Shell(f"{self.world.tmp}/shell")

    def kill(self):
        """Stop the guest as in a power cut. boot() starts it again."""
        self.world.reap(self.qemu, signal.SIGKILL)
        self.shell.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.shell.path)

    def wait_up(self, timeout=110):
        end = time.monotonic() + timeout
        while not os.path.exists(self.shell.path):
            if self.qemu.poll() is not None or time.monotonic() > end:
                self.log.seek(0)
                raise Fail("QEMU does not start: " + self.log.read()[-300:])
            time.sleep(0.05)
        self.shell.run("true", timeout)
        check(self.modules != "siw" or self.run("rdma link")[1].startswith("link siw0/1 state ACTIVE"),
              "the guest has no siw device: " + self.run("dmesg | tail -n 20")[1])

    def run(self, command, timeout=30):
        return self.shell.run(command, timeout)

    def server(self, command, port):
        """Start the server. Returns when it listens."""
        rc, out = self.run(f"rm -f server.log; setsid {command} </dev/null >server.log 2>&1 & echo $! >server.pid; "
                           f"for i in $(seq 200); do netstat -ltn | grep -q ':{port} ' && exit 0; "
                           "kill -0 $(cat server.pid) || break; usleep 50000; done; cat server.log; exit 1")
        check(rc == 0, f"{command} does not listen: {out}")

    def server_output(self, wait_s=10):
        """The server's output after it has ended, or was ended after wait_s."""
        rc, out = self.run(f"for i in $(seq {wait_s * 10}); do kill -0 $(cat server.pid) 2>/dev/null || break; usleep 100000; done; "
                           "kill -KILL $(cat server.pid) 2>/dev/null; cat server.log", timeout=wait_s + 20)
        return out

    def parameters(self, **kw):
        unknown = set(kw) - set(STOCK)
        check(not unknown, f"siw has no {unknown}")
        self.run("; ".join(f"echo {v} >/sys/module/siw/parameters/{k}" for k, v in (STOCK | kw).items()))

    def alive(self):
        return self.qemu.poll() is None

    def close(self):
        self.shell.close()
        with contextlib.suppress(Exception):
            self.world.reap(self.qemu, signal.SIGKILL)
        self.log.close()
