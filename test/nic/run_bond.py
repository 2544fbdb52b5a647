#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft's programs on a bonded port, against the Linux bond driver in a QEMU guest. TAP.

Two wires lead to the guest. This end of each is a tap, a slave of net_bonding by net_af_packet; in the guest the kernel's
bond has both, and weft's programs use it by net_af_packet. A wire is cut at both ends, as a cable that is pulled.

run_bond.py BUILD [--only PREFIX]... [--list]

The guest is that of run_nic.py. The logs of a failed run are in BUILD/meson-logs/bond.
"""
import argparse
import os
import shutil
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "guest"))

from guest import Tap, build, end_by_signals, missing  # noqa: E402
from kernel_net import Fail, World, check, sh  # noqa: E402
from nic_guest import EXPORT, JUMBO, RECIPE, Nic, Rig, ini  # noqa: E402

HERE4, HERE6, THERE4, THERE6 = "10.98.9.1", "fd98:9::1", "10.98.9.77", "fd98:9::77"
MODES = {"active-backup": ("1", "active-backup"), "802.3ad": ("4", "802.3ad")}
RATE = "400K"  # octets a second: a push of PUSHED_BYTES takes some 8 s
LACP_S = 20    # for partners to agree


class Bond(Rig):
    """The guest with its bond, and what runs at both ends."""

    def up(self):
        self.guest.wait_up()
        self.guest.run("/etc/init insert kernel")
        self.guest.bind("virtio-pci", *(n.address for n in self.nics))
        look = "for i in $(seq 50); do ls /sys/bus/pci/devices/%s/virtio*/net && exit; sleep 0.1; done"
        self.ifs = [self.guest.good(look % n.address).strip() for n in self.nics]

    def bond(self, mode, mtu=1500):
        """The kernel's bond, made anew. net_af_packet needs the multicast frames of IPv6, and ends promiscuity."""
        self.guest.run("[ ! -e /sys/class/net/bond0 ] || echo -bond0 >/sys/class/net/bonding_masters")
        b = "/sys/class/net/bond0/bonding"
        lines = ["echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6",
                 "[ -e /sys/class/net/bond0 ] || echo +bond0 >/sys/class/net/bonding_masters",
                 f"echo {MODES[mode][1]} >{b}/mode", f"echo 100 >{b}/miimon"]
        lines += [f"echo fast >{b}/lacp_rate"] if mode == "802.3ad" else []
        for name in self.ifs:
            lines += [f"ip link set {name} down", f"echo +{name} >{b}/slaves"]
        lines += [f"ip link set bond0 mtu {mtu}", "ip link set bond0 up",
                  "f=/sys/class/net/bond0/flags; echo $(($(cat $f) | 0x200)) >$f",  # IFF_ALLMULTI
                  *(f"ip link set {n} mtu {mtu}" for n in self.ifs)]
        # Frames that the kernel joins are longer than those on the wire.
        lines += [f"ethtool -K {n} gro off" for n in (*self.ifs, "bond0")]
        self.guest.good(" && ".join(f"{{ {line}; }}" for line in lines))

    def wire(self, k, up):
        """Pull a cable, or plug it in."""
        self.guest.monitor.ask("set_link", name=self.nics[k].id, up=up)
        sh("ip", "-n", self.ns, "link", "set", self.nics[k].dev, "up" if up else "down")

    def here(self, name, mode, exports="", mtu=1500):
        """A configuration for this end."""
        legs = "".join(f",slave=[{n.host_device(mtu).replace('net_af_packet0', f'net_af_packet{k}')}]" for k, n in enumerate(self.nics))
        path = os.path.join(self.world.tmp, name + ".ini")
        with open(path, "w") as f:
            f.write(ini(f"net_bonding0,mode={MODES[mode][0]}{legs},xmit_policy=l34", HERE4, HERE6, mtu=mtu, mbufs=4096,
                        memory_mb=96 if mtu <= 1500 else 200, hugepages="never", weft="telemetry = yes", exports=exports))
        return path

    def there(self, name, exports="", mtu=1500):
        block, size, count = (16384, 2048, 1024) if mtu <= 1500 else (20480, 10240, 512)
        self.guest.write(f"/tmp/{name}.ini", ini(
            f"net_af_packet0,iface=bond0,blocksz={block},framesz={size},framecnt={count},qdisc_bypass=0", THERE4, THERE6, mtu=mtu,
            mbufs=4096, memory_mb=96 if mtu <= 1500 else 200, hugepages="never", exports=exports))
        return f"/tmp/{name}.ini"

    def tidy(self):
        super().tidy()
        for k in range(len(self.nics)):
            self.wire(k, True)


def pulled_cables(rig, waited=lambda: None):
    """One wire goes and comes back, then the other one."""
    for k in range(2):
        time.sleep(1)
        rig.wire(k, False)
        time.sleep(1.5)
        rig.wire(k, True)
        waited()


def state(rig):
    return rig.guest.run("cat /proc/net/bonding/bond0")[1]


def agreed(rig, n=2):
    """Wait until the kernel's bond has `n` ports in one aggregator with a partner."""
    end = time.monotonic() + LACP_S
    while True:
        said = state(rig)
        ports = said.partition("Number of ports:")[2].split()[:1]
        if "Partner Mac Address: 00:00:00:00:00:00" not in said and ports == [str(n)]:
            return said
        check(time.monotonic() < end, f"the partners do not agree:\n{said}")
        time.sleep(0.3)


def server_here(rig, mode, mtu=1500):
    medium = os.path.join(rig.world.tmp, "demo")
    if os.path.exists(medium):
        os.unlink(medium)
    p = rig.spawn("apps/target/weft-target", "-c", rig.here("target", mode, EXPORT % medium, mtu))
    line = p.stderr.readline()
    while line and "ready:" not in line:
        rig.said += line
        line = p.stderr.readline()
    check(line, "weft-target does not start on a bonded port")
    return p


def compared(rig, conf, url):
    rig.guest.good(f"LD_LIBRARY_PATH=/weft /weft/weft-cp -q --wait 10 -c {conf} {url} /tmp/pulled && cmp /weft/pushed /tmp/pulled", 60)


def as_target(rig, mode, mtu=1500):
    """The guest pushes while each wire is pulled in turn, and pulls the same back."""
    rig.bond(mode, mtu)
    p = server_here(rig, mode, mtu)
    if mode == "802.3ad":
        agreed(rig)
    conf = rig.there("client", mtu=mtu)
    rig.guest.good(f"(LD_LIBRARY_PATH=/weft /weft/weft-cp -q --rate {RATE} --wait 10 -c {conf} /weft/pushed weft://{HERE4}/demo "
                   ">/tmp/cp.log 2>&1; echo $? >/tmp/cp.rc) & rm -f /tmp/cp.rc")
    pulled_cables(rig)
    rc, said = rig.guest.run("for i in $(seq 600); do [ ! -e /tmp/cp.rc ] || break; sleep 0.1; done; cat /tmp/cp.log /tmp/cp.rc", 70)
    check(said.split()[-1:] == ["0"], f"the push has failed: {said}")
    compared(rig, conf, f"weft://[{HERE6}]/demo")
    p.terminate()
    rig.output(p, 15)


def as_client(rig, mode):
    """This end pushes while each wire is pulled in turn, and pulls the same back."""
    rig.bond(mode)
    rig.guest.run("rm -f /tmp/demo")
    rig.start("target", "ready:", f"weft-target -c {rig.there('target', EXPORT % '/tmp/demo')}", 60)
    conf = rig.here("client", mode)
    p = rig.spawn("apps/cp/weft-cp", "-q", "--rate", RATE, "--wait", "30", "-c", conf, rig.pushed, f"weft://{THERE4}/demo")
    if mode == "802.3ad":
        agreed(rig)
    pulled_cables(rig)
    rig.output(p, 90)
    pulled = os.path.join(rig.world.tmp, "pulled")
    rig.output(rig.spawn("apps/cp/weft-cp", "-q", "--wait", "30", "-c", conf, f"weft://[{THERE6}]/demo", pulled), 60)
    with open(pulled, "rb") as a, open(rig.pushed, "rb") as b:
        check(a.read() == b.read(), "not what was pushed")
    os.unlink(pulled)
    rc, _ = rig.stop()
    check(rc == 0, f"weft-target ended with {rc}")


def pings(rig, mode):
    """weft-ping and weft-perf from this end: a client that begins at once finds a link without a partner yet."""
    rig.bond(mode)
    for name, server, args in (("ping", "weft-ping -s --config", ["apps/ping/weft-ping", "-c", "-C", "20", "-a", THERE4, "--config"]),
                               ("perf", "weft-perf --server --once -c", ["apps/perf/weft-perf", "write", "-n", "200", "-s", "4096", "-c"])):
        rig.start(name, "waiting", f"{server} {rig.there(name, '')}", 60)
        tail = [THERE4] if name == "perf" else []
        rig.output(rig.spawn(*args, rig.here("client", mode), *tail), 90)
        rig.stop(name)


def one_wire(rig, mode):
    """A program starts while one wire is pulled, and uses the other."""
    rig.bond(mode)
    rig.wire(0, False)
    p = server_here(rig, mode)
    if mode == "802.3ad":
        agreed(rig, 1)
    conf = rig.there("client")
    rig.guest.good(f"LD_LIBRARY_PATH=/weft /weft/weft-cp -q --wait 10 -c {conf} /weft/pushed weft://{HERE4}/demo", 60)
    compared(rig, conf, f"weft://{HERE4}/demo")
    p.terminate()
    rig.output(p, 15)


def jumbo(rig, mode):
    as_target(rig, mode, JUMBO)
    for n in rig.nics:
        check(f" mtu {JUMBO} " in sh("ip", "-n", rig.ns, "link", "show", n.dev), f"the MTU of {n.dev} was changed")


def idle(rig, mode):
    """An idle target keeps its partner: LACP's messages are sent while there is nothing else to send."""
    rig.bond(mode)
    p = server_here(rig, mode)
    before = agreed(rig)
    time.sleep(8)  # more than twice the short timeout
    after = state(rig)
    counts = [[line for line in said.splitlines() if "Count" in line or "Number of ports" in line] for said in (before, after)]
    check(counts[0] == counts[1], f"the partner has changed:\n{after}")
    conf = rig.there("client")
    rig.guest.good(f"LD_LIBRARY_PATH=/weft /weft/weft-cp -q --wait 10 -c {conf} /weft/pushed weft://{HERE4}/demo", 60)
    p.terminate()
    rig.output(p, 15)


CASES = [(f"{mode}: {name}", fn, mode) for mode in MODES
         for name, fn in (("a push to this end, cables pulled", as_target), ("a push from this end, cables pulled", as_client),
                          ("start with one cable", one_wire), ("MTU 9000, cables pulled", jumbo))] + [
    ("802.3ad: weft-ping and weft-perf wait for a partner", pings, "802.3ad"),
    ("802.3ad: an idle target keeps its partner", idle, "802.3ad")]


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("build")
    ap.add_argument("--only", action="append", default=[])
    ap.add_argument("--list", action="store_true")
    args = ap.parse_args()
    if args.list:
        print("\n".join(c[0] for c in CASES))
        return 0
    end_by_signals()
    why = missing(("qemu-system-x86_64", "qemu-system-x86"), ("ip", "iproute2"))
    cache = os.environ.get("WEFT_NIC_CACHE") or os.path.join(args.build, "nic-guest")
    try:
        why = why or build(cache, RECIPE)
    except Fail as e:
        print(f"Bail out! {e}")
        return 1
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    logs = os.path.join(args.build, "meson-logs", "bond")
    os.makedirs(logs, exist_ok=True)
    tap, world = Tap(), World()
    try:
        nics = [Nic("virtio-net-pci", options=",speed=10000,duplex=full") for _ in range(2)]
        rig = Bond(world, args.build, cache, logs, nics, iommu=False)
        try:
            rig.up()
            for name, fn, mode in CASES:
                if args.only and not any(name.startswith(o) for o in args.only):
                    continue
                rig.said = ""
                tap.case(name, lambda fn=fn, mode=mode: fn(rig, mode), lambda: rig.said + state(rig) + rig.left(), 240)
                rig.tidy()
        finally:
            rig.close()
    finally:
        world.close()
    if not tap.failed:
        shutil.rmtree(logs, ignore_errors=True)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
