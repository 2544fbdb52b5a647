# SPDX-License-Identifier: BSD-3-Clause
"""A guest with emulated NICs, each at a tap, and weft's programs at both ends of each wire."""
import contextlib
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "guest"))

from guest import Machine, Qmp, TcpShell, check, die_with_us, pack, sh, tap  # noqa: E402

RECIPE = os.path.join(HERE, "recipe")
PROGRAMS = ("apps/target/weft-target", "apps/cp/weft-cp", "apps/ping/weft-ping", "apps/perf/weft-perf", "apps/doctor/weft-doctor",
            "test/nic/tel_ask")
DRIVERS = ("bus_pci", "bus_vdev", "mempool_ring", "net_virtio", "net_e1000", "net_vmxnet3", "net_af_packet")
CONTROL, CONTROL_PORT = "10.99.0.2", 7777
FIRST_SLOT = 3  # of the root bus
JUMBO = 9000
PUSHED_BYTES = 3 << 20
# Names of DPDK 22.11's offload bits that mean something here.
RX_OFFLOADS = {0: "vlan-strip", 1: "ipv4", 3: "tcp", 9: "vlan-filter", 13: "scatter", 19: "rss-hash"}
TX_OFFLOADS = {0: "vlan-insert", 1: "ipv4", 3: "tcp", 5: "tso", 15: "multi-segs"}


class Nic:
    """An emulated NIC."""

    def __init__(self, model, *, options="", queues=1, port=False, headers=False, wire=True):
        """model: QEMU's device. queues: of the tap. port: behind a PCIe port of its own, so that it can be unplugged.
        headers: the tap takes virtio's headers, so checksums of virtio NICs are left to the other end. wire: it has a tap."""
        self.model, self.options, self.queues, self.port, self.headers, self.wire = model, options, queues, port, headers, wire

    def place(self, k, buses, tag):
        """The K-th of its guest; so many root ports come before it."""
        self.k, self.id = k, f"nic{k}"
        self.dev = f"wn{k}x{tag % 100000}"
        self.address = f"0000:{buses + 1:02x}:00.0" if self.port else f"0000:00:{FIRST_SLOT + k:02x}.0"
        self.guest4, self.guest6 = f"10.98.{k}.77", f"fd98:{k}::77"
        self.clients = 0

    def qemu(self, iommu):
        at, args = f"addr=0x{FIRST_SLOT + self.k:x}", []
        if self.port:
            args, at = ["-device", f"pcie-root-port,id=rp{self.k},chassis={self.k + 1},{at}"], f"bus=rp{self.k}"
        # Without iommu_platform under an IOMMU DPDK's driver waits for ever, deaf to SIGTERM.
        more = ",disable-legacy=on,iommu_platform=on" if self.model.startswith("virtio") and iommu else ""
        if self.wire:
            args += ["-netdev", f"tap,id=n{self.k},ifname={self.dev},script=no,downscript=no,vhost=off,queues={self.queues},"
                     f"vnet_hdr={'on' if self.headers else 'off'}"]
            more += f",netdev=n{self.k}"
        return [*args, "-device", f"{self.model}{self.options},id={self.id},mac=52:54:00:98:00:{self.k:02x},{at},romfile={more}"]

    def host_device(self, mtu):
        # The ring takes a whole window. Blocks are whole frames for the driver, and whole pages for the kernel.
        block, size, count = (16384, 2048, 2048) if mtu <= 1500 else (20480, 10240, 1024)
        return f"net_af_packet0,iface={self.dev},blocksz={block},framesz={size},framecnt={count},qdisc_bypass=0"

    def host_addresses(self):
        """New ones for each program, so that no state of the former one matters."""
        self.clients = self.clients % 60 + 1
        return f"10.98.{self.k}.{self.clients + 10}", f"fd98:{self.k}::{self.clients + 10:x}"


def ini(device, v4, v6, mtu=1500, vlan=0, mbufs=8192, workers=1, memory_mb=0, hugepages="auto", weft="", exports=""):
    return f"""[weft]
memory_mb = {memory_mb or (64 if mtu <= 1500 else 160)}
hugepages = {hugepages}
workers = {workers}
{weft}
[port p0]
dev = {device}
address = {v4}/24
address6 = {v6}/64
mtu = {mtu}
vlan = {vlan}
mbufs = {mbufs}
{exports}"""


EXPORT = """[export demo]
path = %s
size = 10M
"""


class NicGuest(Machine):
    """The guest. iommu: with one, for vfio-pci; without, for uio_pci_generic."""

    def __init__(self, world, ns, cache, logs, initrd, nics, iommu=True, cpu="max"):
        self.nics, self.iommu = nics, iommu
        devices = ["-qmp", f"unix:{world.tmp}/qmp,server=on,wait=off"]
        if iommu:  # before the NICs
            devices += ["-device", "intel-iommu,intremap=on"]
        # The shell is behind TCP, which repeats what is lost. Serial and virtio ports lost a command now and then.
        control = f"wc{world.tag % 1000000}"
        tap(world, ns, control)
        sh("ip", "-n", ns, "addr", "add", "10.99.0.1/24", "dev", control)
        devices += ["-netdev", f"tap,id=control,ifname={control},script=no,downscript=no,vhost=off",
                    "-device", "rtl8139,netdev=control,mac=52:54:00:99:00:01,addr=0x1e,romfile="]
        for k, nic in enumerate(nics):
            nic.place(k, sum(n.port for n in nics[:k]), world.tag)
            if nic.wire:
                tap(world, ns, nic.dev, JUMBO, nic.queues)
            devices += nic.qemu(iommu)
        self.monitor = None
        super().__init__(world, ns, cache, logs, devices=devices, processors="2", memory="1536", initrd=initrd,
                         shell=TcpShell(world, ns, (CONTROL, CONTROL_PORT)), cpu=cpu,
                         append=f"weft.shell={CONTROL_PORT} weft.ip4={CONTROL}/24 hugepages=256 nokaslr"
                         + (" intel_iommu=on" if iommu else ""))

    def wait_up(self, timeout=120):
        super().wait_up(timeout)
        if self.monitor is None:
            self.monitor = Qmp(f"{self.world.tmp}/qmp")

    def kill(self):
        if self.monitor is not None:
            self.monitor.close()
            self.monitor = None
        super().kill()

    def good(self, command, timeout=30):
        """The output of a command that must succeed."""
        rc, out = self.run(command, timeout)
        check(rc == 0, f"in the guest: {command.splitlines()[0]}: status {rc}: {out[-600:]}")
        return out

    def bind(self, driver, *addresses):
        self.good(f"dpdk-devbind.py -b {driver} {' '.join(addresses)}")

    def write(self, name, text):
        self.good(f"cat >{name} <<'@@'\n{text}\n@@")


class Rig:
    """A guest, and what runs in it and at the other ends of its wires."""

    def __init__(self, world, build, cache, logs, nics, iommu=True):
        self.world, self.build, self.nics, self.said = world, os.path.abspath(build), nics, ""
        self.ns = world.space("nic" if iommu else "uio")
        self.pushed = os.path.join(world.tmp, "pushed")
        content = os.urandom(PUSHED_BYTES)
        with open(self.pushed, "wb") as f:
            f.write(content)
        initrd = pack(world.tmp, os.path.join(cache, "initramfs.cpio"), [os.path.join(self.build, p) for p in PROGRAMS],
                      {"/weft/pushed": content}, DRIVERS)
        self.guest = NicGuest(world, self.ns, cache, logs, initrd, nics, iommu)
        self.driver = "vfio-pci" if iommu else "uio_pci_generic"

    def up(self):
        self.guest.wait_up()
        self.guest.bind(self.driver, *(n.address for n in self.nics))

    def left(self):
        """What the programs have said that a failed case has left in the guest."""
        return self.guest.run("for f in /tmp/job.*.log; do [ ! -e $f ] || { echo $f:; cat $f; }; done; dmesg | tail -n 8")[1]

    def tidy(self):
        """After a case: end what it has left."""
        for p in list(self.world.procs):
            if p is not self.guest.qemu:
                self.world.reap(p)
        self.guest.run("for f in /tmp/job.*.pid; do n=${f#/tmp/job.}; [ ! -e $f ] || job stop ${n%.pid} KILL 10; done; "
                       "rm -f /tmp/job.*", 40)

    def close(self):
        with contextlib.suppress(Exception):
            self.guest.kill()
        self.guest.close()

    # ---- In the guest ----

    def start(self, name, ready, args, timeout=25, user=""):
        """A program in the background; what it says until it says `ready`."""
        command = f"job start {name} {ready} {timeout} /weft/{args}"
        rc, out = self.guest.run(f"su weft -c {json.dumps(user + command)}" if user else command, timeout + 10)
        self.said += f"guest: {args}\n{out}\n"
        check(rc == 0, f"{args.split()[0]} does not start in the guest: {out[-400:]}")
        return out

    def stop(self, name="target", sig="TERM", timeout=10):
        """End a program; its status and all that it has said."""
        rc, out = self.guest.run(f"job stop {name} {sig} {timeout}", timeout + 20)
        self.said += f"guest: {name} ended with {rc}\n{out}\n"
        return rc, out

    def ended(self, name="target", timeout=10):
        """Wait for a program that ends by itself; its status and all that it has said."""
        rc, out = self.guest.run(f"job wait {name} {timeout}", timeout + 10)
        self.said += f"guest: {name} ended with {rc}\n{out}\n"
        return rc, out

    def guest_ini(self, nic, name="target", exports=EXPORT % "/tmp/demo", device=None, **options):
        self.guest.write(f"/tmp/{name}.ini", ini(device or nic.address, nic.guest4, nic.guest6, exports=exports, **options))
        return f"/tmp/{name}.ini"

    @contextlib.contextmanager
    def target(self, nic, **options):
        """weft-target in the guest."""
        self.guest.run("rm -f /tmp/demo")
        conf = self.guest_ini(nic, **options)
        yield self.start("target", "ready:", f"weft-target -c {conf}")
        # After a failure tidy() ends it.
        rc, _ = self.stop()
        check(rc == 0, f"weft-target ended with {rc}")

    def ask(self, *commands, name="target"):
        """Answers of a program's telemetry."""
        out = self.guest.good(f"LD_LIBRARY_PATH=/weft /weft/tel_ask /run/dpdk/weft-$(cat /tmp/job.{name}.pid)/dpdk_telemetry.v2 "
                              + " ".join(commands))
        self.said += out + "\n"
        return [next(iter(json.loads(line).values())) for line in out.splitlines()]

    def cpu_ticks(self, name):
        """The processor's time that a program has used, in hundredths of a second."""
        return sum(map(int, self.guest.good(f"cut -d' ' -f14,15 /proc/$(cat /tmp/job.{name}.pid)/stat").split()))

    def refused(self, program_args, user=""):
        """The one line of a program that cannot start."""
        command = f"LD_LIBRARY_PATH=/weft timeout 25 /weft/{program_args}"
        rc, out = self.guest.run(f"su weft -c {json.dumps(user + command)}" if user else command, 40)
        self.said += f"guest: {program_args}: status {rc}\n{out}\n"
        lines = out.splitlines()
        check(rc == 1, f"status {rc}: {out[-300:]}")
        check(len(lines) == 1, f"{len(lines)} lines instead of one: {out[-600:]}")
        print("# says: " + lines[0], flush=True)
        return lines[0]

    # ---- On the host ----

    def host_ini(self, nic, exports="", **options):
        mtu = options.get("mtu", 1500)
        keep = {k: v for k, v in options.items() if k in ("mtu", "vlan")}
        v4, v6 = nic.host_addresses()
        name = os.path.join(self.world.tmp, f"host.{nic.k}.ini")
        with open(name, "w") as f:
            f.write(ini(nic.host_device(mtu), v4, v6, mbufs=4096, hugepages="never", exports=exports, **keep))
        return name, v4, v6

    def spawn(self, program, *args):
        return self.world.spawn(self.ns, [os.path.join(self.build, program), *args], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_us)

    def output(self, p, timeout=60):
        """The output of a program that must succeed."""
        name = os.path.basename(p.args[0])
        try:
            out, err = p.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            err += f"({name} has not ended within {timeout} s)"
        self.world.procs.remove(p)
        self.said += f"host: {name} ended with {p.returncode}\n{out}{err}\n"
        check(p.returncode == 0, f"{name} on the host: status {p.returncode}: {err[-300:]}")
        return out

    def host_cp(self, nic, src, dst, **options):
        conf, _, _ = self.host_ini(nic, **options)
        return self.output(self.spawn("apps/cp/weft-cp", "-q", "--wait", "10", "-c", conf, src, dst))

    def pull(self, nic, family=4, **options):
        """The host pulls from the guest's target what was pushed."""
        url = f"weft://{nic.guest4 if family == 4 else f'[{nic.guest6}]'}/demo"
        pulled = os.path.join(self.world.tmp, "pulled")
        self.host_cp(nic, url, pulled, **options)
        with open(pulled, "rb") as a, open(self.pushed, "rb") as b:
            check(a.read() == b.read(), "not what was pushed")
        os.unlink(pulled)

    def push_pull(self, nic, family=4, **options):
        self.host_cp(nic, self.pushed, f"weft://{nic.guest4 if family == 4 else f'[{nic.guest6}]'}/demo", **options)
        self.pull(nic, family, **options)

    @contextlib.contextmanager
    def host_target(self, nic, **options):
        """weft-target on the host; its addresses."""
        medium = os.path.join(self.world.tmp, "demo")
        conf, v4, v6 = self.host_ini(nic, exports=EXPORT % medium, **options)
        p = self.spawn("apps/target/weft-target", "-c", conf)
        line = p.stderr.readline()
        while line and "ready:" not in line:
            line = p.stderr.readline()
        check(line, "weft-target does not start on the host")
        try:
            yield v4, v6
        finally:
            p.terminate()
            self.output(p, 15)
            os.unlink(medium)

    def host_ready(self, program, *args, word):
        """A server on the host that has said `word`."""
        p = self.spawn(program, *args)
        line = p.stderr.readline()
        check(word in line, f"{program}: {line}")
        return p


def offloads(info):
    """Offloads in use, of the telemetry's /ethdev/info."""
    def names(bits, known):
        bits = int(bits, 0) if isinstance(bits, str) else bits
        return " ".join(n for b, n in known.items() if bits >> b & 1) or "none"
    return names(info["rx_offloads"], RX_OFFLOADS), names(info["tx_offloads"], TX_OFFLOADS)


def remedy(line, pattern):
    """The command in a message."""
    m = re.search(pattern, line)
    check(m, f"no command in: {line}")
    return m[1]
