#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft's programs on emulated NICs in a QEMU guest. TAP.

One guest has an IOMMU and gives the NICs to vfio-pci, another has none and gives them to uio_pci_generic. The other end of
each wire is a tap on the host, with net_af_packet. docs/interop.md explains the test.

run_nic.py BUILD [--short] [--only PREFIX]... [--table FILE] [--list]

The guest is kept in BUILD/nic-guest, or where WEFT_NIC_CACHE says. The logs of a failed run are in BUILD/meson-logs/nic.
"""
import argparse
import copy
import json
import os
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "guest"))

from guest import Tap, build, end_by_signals, missing  # noqa: E402
from kernel_net import Fail, World, check, sh  # noqa: E402
from nic_guest import EXPORT, JUMBO, RECIPE, Nic, Rig, offloads, remedy  # noqa: E402

MODELS = ("virtio-net-pci", "e1000e", "e1000", "vmxnet3")
PERF_MSGS, PERF_BYTES, PINGS = 2000, 4096, 200
AGAIN_PERCENT = 5
IDLE_S = 5
IDLE_PERCENT = {"interrupt": 3, "poll": 15}  # of an emulated processor, which is many times slower than others
OUTAGE_S, LOAD_S = 1.5, 6


# ---- Cases of every model ----

def found(rig, nic, driver):
    """What DPDK says of the target's port, for the table."""
    info = rig.ask("/ethdev/info,0")[0]
    nic.row["driver"], nic.row["queues"] = driver, f"{info['nb_rx_queues']}/{info['nb_tx_queues']}"
    nic.row["rx offloads"], nic.row["tx offloads"] = offloads(info)
    return info


def as_target(rig, nic):
    """The host pushes and pulls over IPv4 and IPv6; what DPDK says of the port goes into the table."""
    with rig.target(nic, weft="telemetry = yes\nlog_level = lib.eal:info"):
        probed = [line.split("driver: ")[1].split()[0] for line in rig.said.splitlines() if "Probe PCI driver" in line]
        check(len(probed) == 1, f"EAL has probed {probed}")
        found(rig, nic, probed[0])
        rig.push_pull(nic, 4)
        rig.push_pull(nic, 6)


def as_client(rig, nic, **options):
    """The guest pushes over IPv4 and pulls over IPv6."""
    with rig.host_target(nic, **options) as (v4, v6):
        conf = rig.guest_ini(nic, "client", exports="", **options)
        cp = f"LD_LIBRARY_PATH=/weft /weft/weft-cp -q --wait 10 -c {conf}"
        rig.said += rig.guest.good(f"{cp} /weft/pushed weft://{v4}/demo", 40)
        rig.said += rig.guest.good(f"{cp} weft://[{v6}]/demo /tmp/pulled", 40)
        rig.guest.good("cmp /weft/pushed /tmp/pulled")


def jumbo(rig, nic):
    """MTU 9000."""
    with rig.target(nic, mtu=JUMBO, weft="telemetry = yes"):
        mtu = rig.ask("/ethdev/info,0")[0]["mtu"]
        check(mtu >= JUMBO, f"the port has an MTU of {mtu}")
        rig.push_pull(nic, 4, mtu=JUMBO)
        rig.push_pull(nic, 6, mtu=JUMBO)


def few_buffers(rig, nic):
    """The fewest that a configuration may have: rings may not hold them all."""
    with rig.target(nic, mbufs=1024):
        for _ in range(2):
            rig.push_pull(nic, 4)


def vlan(rig, nic):
    """Tagged frames. IPv6, which needs multicast."""
    with rig.target(nic, vlan=5):
        rig.push_pull(nic, 6, vlan=5)
        rig.push_pull(nic, 4, vlan=5)


def networks(rig, nic):
    """A network on a VLAN beside an untagged one, on a port that two workers share."""
    blue = copy.copy(nic)
    blue.k += 100
    blue.guest4, blue.guest6 = f"10.98.{blue.k}.77", f"fd98:{blue.k}::77"
    more = f"[network blue]\nvlan = 7\naddress = {blue.guest4}/24\naddress6 = {blue.guest6}/64\n"
    with rig.target(nic, exports=EXPORT % "/tmp/demo" + more, workers=2, weft="telemetry = yes"):
        for family in (4, 6):
            rig.push_pull(nic, family)
            rig.push_pull(blue, family, vlan=7)
        took = sum(rig.ask(f"/weft/tcp,{w}")[0]["conns_accepted"] for w in (0, 1))
        check(took >= 8, f"{took} connections accepted: fewer than there were pushes and pulls")


def two_workers(rig, nic):
    """Clients of either worker are served, however many queues there are."""
    with rig.target(nic, workers=2, weft="telemetry = yes"):
        for _ in range(4):
            rig.push_pull(nic, 4)
        took = [rig.ask(f"/weft/tcp,{w}")[0]["conns_accepted"] for w in (0, 1)]
        print(f"# accepted by worker: {took}", flush=True)
        check(min(took) > 0, f"accepted by worker: {took}")


def ping(rig, nic):
    """weft-ping from the host, and from the guest."""
    conf = rig.guest_ini(nic, "ping", exports="")
    rig.start("ping", "waiting", f"weft-ping -s -V -P -c {conf}".replace(" -c ", " --config "))
    host, _, _ = rig.host_ini(nic)
    said = json.loads(rig.output(rig.spawn("apps/ping/weft-ping", "-c", "-V", "--json", "-C", str(PINGS), "-a", nic.guest4,
                                           "--config", host)))
    check(said["pings"] == PINGS, f"{said['pings']} of {PINGS} pings")
    rc, _ = rig.stop("ping")
    check(rc == 0, f"the server in the guest ended with {rc}")
    host, v4, _ = rig.host_ini(nic)
    p = rig.host_ready("apps/ping/weft-ping", "-s", "-V", "--config", host, word="waiting")
    out = rig.guest.good(f"LD_LIBRARY_PATH=/weft /weft/weft-ping -c -V --json -C {PINGS} -a {v4} --config {conf}", 40)
    rig.output(p, 15)
    check(json.loads(out)["pings"] == PINGS, "not all pings from the guest")


def perf_server(rig, nic, **options):
    conf = rig.guest_ini(nic, "perf", exports="", **options)
    rig.start("perf", "waiting", f"weft-perf --server --once -c {conf}")


def perf_done(rig, said, least=0, test="write"):
    r = json.loads(said)["results"][0]
    check(r["test"] == test and r["iterations"] >= least, f"{r}")
    rc, _ = rig.stop("perf", "TERM", 10)
    check(rc == 0, f"the server in the guest ended with {rc}")
    return r


def perf(rig, nic):
    """weft-perf: the number of messages, not their speed."""
    for test in ("write", "read"):
        perf_server(rig, nic)
        conf, _, _ = rig.host_ini(nic)
        said = rig.output(rig.spawn("apps/perf/weft-perf", test, "--json", "-c", conf, "-n", str(PERF_MSGS), "-s", str(PERF_BYTES),
                                    nic.guest4))
        perf_done(rig, said, PERF_MSGS, test)


def link_flaps(rig, nic):
    """The link goes down for a while under load. The connection outlives it, and the port notices."""
    perf_server(rig, nic, weft="telemetry = yes")
    conf, _, _ = rig.host_ini(nic)
    p = rig.spawn("apps/perf/weft-perf", "write", "--json", "-c", conf, "-D", str(LOAD_S), "-s", str(PERF_BYTES), nic.guest4)
    time.sleep(2)
    before = rig.ask("/weft/netif,0", name="perf")[0]
    rig.guest.monitor.ask("set_link", name=nic.id, up=False)
    time.sleep(OUTAGE_S)
    rig.guest.monitor.ask("set_link", name=nic.id, up=True)
    time.sleep(1)
    after = rig.ask("/weft/netif,0", name="perf")[0]
    check(p.poll() is None, "weft-perf has not run through the outage")
    check(after["link_ups"] == before["link_ups"] + 1, f"link_ups: {before['link_ups']}, then {after['link_ups']}")
    perf_done(rig, rig.output(p, LOAD_S + 30), 1)


def killed(rig, nic):
    """kill -9 under load, and a start on the same device; what was pushed is there."""
    rig.guest.run("rm -f /tmp/demo")
    conf = rig.guest_ini(nic)
    rig.start("target", "ready:", f"weft-target -c {conf}")
    rig.push_pull(nic, 4)
    host, _, _ = rig.host_ini(nic)
    p = rig.spawn("apps/cp/weft-cp", "-q", "--rate", "1M", "-c", host, rig.pushed, f"weft://{nic.guest4}/demo")
    time.sleep(1)
    check(p.poll() is None, "the push has ended too early")
    rig.stop(sig="KILL")
    rig.world.reap(p, signal.SIGKILL)
    rig.start("target", "ready:", f"weft-target -c {conf}")
    rig.pull(nic)
    rig.push_pull(nic, 6)
    rc, _ = rig.stop()
    check(rc == 0, f"weft-target ended with {rc}")


def few_again(rig, nic):
    """Hardly a segment is sent twice. A device that does an offload wrongly loses what it was given, and TCP mends it."""
    with rig.target(nic, weft="telemetry = yes"):
        rig.push_pull(nic, 4)
        rig.push_pull(nic, 6)
        tcp, netif = rig.ask("/weft/tcp,0", "/weft/netif,0")
    if netif["tx_stalls"]:
        print(f"# the transmit queue: {netif['tx_stalls']} stalls, {netif['tx_resets']} resets", flush=True)
    again = 100 * tcp["retrans_segs"] / tcp["segs_out"]
    nic.row["sent again"] = f"{again:.1f} %"
    check(again <= AGAIN_PERCENT, f"{again:.0f} % of {tcp['segs_out']} segments are sent again; with TSO: {tcp['tso_segs']}")


def idle(rig, nic):
    """An idle target leaves the processor alone, and what arrives in its sleep wakes it."""
    with rig.target(nic, weft="telemetry = yes"):
        rig.push_pull(nic, 4)
        time.sleep(2)
        ticks = rig.cpu_ticks("target")
        time.sleep(IDLE_S)
        used = (rig.cpu_ticks("target") - ticks) / IDLE_S  # of 100 a second
        conf, _, _ = rig.host_ini(nic)
        said = json.loads(rig.output(rig.spawn("apps/cp/weft-cp", "--list", "--json", "-c", conf, f"weft://{nic.guest4}")))
        check(said, "no exports")
        wakes = rig.ask("/weft/netif,0")[0]["rx_wakes"]
    nic.row["sleep"], nic.row["idle cpu"] = "interrupt" if wakes > 10 else "poll", f"{used:.1f} %"
    check(used <= IDLE_PERCENT[nic.row["sleep"]], f"{used:.1f} % of a processor, {wakes} wake-ups by the port")


EVERY = [("target in the guest, IPv4 and IPv6", as_target), ("client in the guest", as_client), ("MTU 9000", jumbo),
         ("mbufs = 1024", few_buffers), ("vlan = 5", vlan), ("[network] on a VLAN", networks), ("workers = 2", two_workers),
         ("weft-ping", ping),
         ("weft-perf", perf), ("link down and up", link_flaps), ("kill -9 and again", killed), ("few segments are sent again", few_again),
         ("idle", idle)]


# ---- Cases of some ----

def queues(rig, nic):
    """A worker for each queue: receive-side scaling brings each its own connections."""
    with rig.target(nic, workers=nic.queues, weft="telemetry = yes"):
        got = [0]
        for _ in range(8 * nic.queues):
            rig.push_pull(nic, 4)
            got = rig.ask("/ethdev/stats,0")[0]["q_ipackets"][:nic.queues]
            if min(got) > 500:
                break
        found(rig, nic, "net_virtio")
        print(f"# received by queue: {got}", flush=True)
        check(min(got) > 500, f"received by queue: {got}")


def left_checksums(rig, nic):
    """The tap takes virtio's headers: checksums and segmentation are left to the other end, here another NIC of the guest,
    behind a bridge."""
    bridge = f"wb{rig.world.tag % 1000000}"
    sh("ip", "-n", rig.ns, "link", "add", bridge, "type", "bridge", "mcast_snooping", "0")
    for n in (nic, nic.pair):
        sh("ip", "-n", rig.ns, "link", "set", n.dev, "master", bridge)
    sh("ip", "-n", rig.ns, "link", "set", bridge, "up")
    with rig.target(nic, weft="telemetry = yes"):
        found(rig, nic, "net_virtio")
        conf = rig.guest_ini(nic, "client", exports="", device=nic.pair.address)
        rig.guest.good(f"sed -i 's|{nic.guest4}/|10.98.{nic.k}.78/|; s|{nic.guest6}/|fd98:{nic.k}::78/|' {conf}")
        cp = f"LD_LIBRARY_PATH=/weft /weft/weft-cp -q --wait 10 -c {conf}"
        rig.guest.good(f"{cp} /weft/pushed weft://{nic.guest4}/demo", 40)
        rig.guest.good(f"{cp} weft://[{nic.guest6}]/demo /tmp/pulled && cmp /weft/pushed /tmp/pulled", 40)
        tcp = rig.ask("/weft/tcp,0")[0]
        nic.row["sent again"] = f"{100 * tcp['retrans_segs'] / tcp['segs_out']:.1f} %"
        print(f"# TSO: {tcp['tso_segs']} of {tcp['segs_out']} segments; sent again: {tcp['retrans_segs']}", flush=True)
        check(tcp["tso_segs"] > 0 and tcp["retrans_segs"] < tcp["tso_segs"] / 10, "TSO is not used, or loses segments")


def second(rig, nic):
    """A second program on the same device is refused, and the first one goes on."""
    with rig.target(nic):
        conf = rig.guest_ini(nic, "second", exports=EXPORT % "/tmp/second")
        says = rig.refused(f"weft-target -c {conf}")
        check("another program" in says and nic.address in says, says)
        rig.push_pull(nic, 4)


def served_elsewhere(rig, nic):
    """Another target serves the export, and what was acknowledged is in it."""
    conf = rig.guest_ini(nic, "elsewhere")
    rig.start("elsewhere", "ready:", f"weft-target -c {conf}")
    rig.pull(nic)
    rc, _ = rig.stop("elsewhere")
    check(rc == 0, f"the other target ended with {rc}")


def unplug(rig, nic):
    """Take a device out of the running guest. Whether the guest has given it up."""
    rig.guest.monitor.forget("DEVICE_DELETED")
    rig.guest.monitor.ask("device_del", id=nic.id)
    return rig.guest.monitor.happens("DEVICE_DELETED", 15)


def plug(rig, nic):
    """Put it back, and bind it."""
    device, *options = nic.qemu(rig.guest.iommu)[-1].split(",")
    known = dict(o.split("=", 1) for o in options)
    if "iommu_platform" in known:
        known["iommu_platform"] = True  # a boolean, unlike disable-legacy
    rig.guest.monitor.ask("device_add", driver=device, **known)
    rig.guest.good(f"for i in $(seq 100); do [ ! -e /sys/bus/pci/devices/{nic.address}/config ] || exit 0; sleep 0.1; done; exit 1")
    rig.guest.bind(rig.driver, nic.address)


def push_in_the_background(rig, nic):
    """A push that takes some seconds, of another object than the one that is there."""
    host, _, _ = rig.host_ini(nic)
    other = rig.pushed + ".other"
    with open(rig.pushed, "rb") as f, open(other, "wb") as g:
        g.write(bytes(255 - b for b in f.read()))
    p = rig.spawn("apps/cp/weft-cp", "-q", "--rate", "1M", "-c", host, other, f"weft://{nic.guest4}/demo")
    time.sleep(1)
    check(p.poll() is None, "the push has ended too early")
    return p


def unplugged(rig, nic):
    """The device goes under load: the target names it, gives it up and ends. Its exports are whole. The device returns, and a new
    target serves on it."""
    rig.guest.run("rm -f /tmp/demo")
    conf = rig.guest_ini(nic)
    rig.start("target", "ready:", f"weft-target -c {conf}")
    rig.push_pull(nic, 4)
    p = push_in_the_background(rig, nic)
    check(unplug(rig, nic), "the device stays until the program ends")
    rc, said = rig.ended()
    rig.world.reap(p, signal.SIGKILL)
    lines = said.split("ready:")[1]
    check(rc == 1, f"weft-target ended with {rc}")
    check(f"port p0: its device {nic.address} was removed" in lines, "the target has not named the device")
    check("ending: no port is left" in lines, "the target has not said why it ends")
    served_elsewhere(rig, nic.other)
    line = rig.refused(f"weft-target -c {conf}")
    check("no such PCI device" in line, line)
    plug(rig, nic)
    rig.start("target", "ready:", f"weft-target -c {conf}")
    rig.pull(nic)
    rig.push_pull(nic, 6)
    rc, _ = rig.stop()
    check(rc == 0, f"weft-target ended with {rc}")


def unplugged_client(rig, nic):
    """The device goes under a client: weft-ping says so at once."""
    host, v4, _ = rig.host_ini(nic)
    rig.host_ready("apps/ping/weft-ping", "-s", "-P", "--config", host, word="waiting")
    conf = rig.guest_ini(nic, "ping", exports="")
    rig.start("ping", "data", f"weft-ping -c -v -C 1000000 -a {v4} --config {conf}")
    check(unplug(rig, nic), "the device stays until the program ends")
    rc, said = rig.ended("ping", 5)
    check(rc == 1 and "the port's device was removed" in said, f"weft-ping ended with {rc}: {said[-400:]}")
    plug(rig, nic)


def unplugged_perf(rig, nic):
    """The device goes while it is as busy as it can be."""
    perf_server(rig, nic)
    conf, _, _ = rig.host_ini(nic)
    p = rig.spawn("apps/perf/weft-perf", "write", "--json", "-c", conf, "-D", str(LOAD_S), "-s", str(PERF_BYTES), nic.guest4)
    time.sleep(2)
    check(p.poll() is None, "weft-perf has ended too early")
    check(unplug(rig, nic), "the device stays until the program ends")
    rig.world.reap(p, signal.SIGKILL)
    rc, said = rig.ended("perf")
    check(rc in (0, 1) and "was removed" in said, f"weft-perf ended with {rc}: {said[-400:]}")
    plug(rig, nic)


def unplugged_one_of_two(rig, nic):
    """A target with two ports, two workers each: one device goes, and the other one serves on."""
    rig.guest.run("rm -f /tmp/demo")
    conf = rig.guest_ini(nic, workers=2, weft="telemetry = yes")
    rig.guest.good(f"cat >>{conf} <<'@@'\n[port p1]\ndev = {nic.other.address}\naddress = {nic.other.guest4}/24\n"
                   f"address6 = {nic.other.guest6}/64\nmbufs = 2048\n@@")
    rig.start("target", "ready:", f"weft-target -c {conf}")
    rig.push_pull(nic.other, 4)
    p = push_in_the_background(rig, nic)
    check(unplug(rig, nic), "the device stays until the program ends")
    rig.world.reap(p, signal.SIGKILL)
    removed = [rig.ask(f"/weft/netif,{w},{i}")[0]["dev_removed"] for w in (0, 1) for i in (0, 1)]
    check(removed == [1, 0, 1, 0], f"removed: {removed}")
    rig.push_pull(nic.other, 4)
    rc, _ = rig.stop()
    check(rc == 0, f"weft-target ended with {rc}")
    plug(rig, nic)


# ---- Messages: one line each says what, and the command in it mends it ----

def starts(rig, nic, user="", **options):
    """weft-target starts, and serves."""
    conf = rig.guest_ini(nic, exports=EXPORT % "/tmp/demo-user", **options)
    rig.start("target", "ready:", f"weft-target -c {conf}", user=user)
    rig.push_pull(nic, 4)
    rc, _ = rig.stop()
    rig.guest.run("rm -f /tmp/demo-user /tmp/job.target.*")
    check(rc == 0, f"weft-target ended with {rc}")


def says(rig, nic, *words, user="", **options):
    conf = rig.guest_ini(nic, "refused", exports=EXPORT % "/tmp/refused", **options)
    line = rig.refused(f"weft-target -c {conf}", user)
    for word in words:
        check(word in line, f"'{word}' is not in: {line}")
    return line


def no_device(rig, nic):
    says(rig, nic, "0000:00:1e.5", "no such PCI device", device="0000:00:1e.5")


def no_driver(rig, nic):
    rig.guest.bind("none", nic.address)
    line = says(rig, nic, nic.address, "has no driver")
    check(rig.guest.iommu or "no IOMMU" in line, line)
    rig.guest.good(remedy(line, r"(weft-doctor bind \S+)"))
    starts(rig, nic)


def kernels_interface(rig, nic):
    rig.guest.run("/etc/init insert kernel")
    rig.guest.bind(nic.model, nic.address)
    line = says(rig, nic, nic.address, "as interface eth", f"driver {nic.model}")
    rig.guest.good(remedy(line, r"(weft-doctor bind \S+)"))
    starts(rig, nic)


def kernels_driver(rig, nic):
    """Not a NIC at all: the port in front of one."""
    bridge = rig.guest.good(f"basename $(dirname $(readlink -f /sys/bus/pci/devices/{nic.address}))")
    says(rig, nic, bridge, "is no network device", device=bridge)


def bound_and_back(rig, nic):
    """weft-doctor: taken from the kernel, used, given back; refused with a default route and while in use."""
    rig.guest.run("/etc/init insert kernel")
    rig.guest.bind(nic.model, nic.address)
    ifname = rig.guest.good(f"ls /sys/bus/pci/devices/{nic.address}/net").strip()
    rig.guest.good(f"ip addr add 10.97.0.1/24 dev {ifname}; ip link set {ifname} up; ip route add default via 10.97.0.2 dev {ifname}")
    rc, said = rig.guest.run(f"weft-doctor bind {nic.address}")
    check(rc == 1 and f"the default route uses its interface {ifname}" in said, f"{rc}: {said}")
    conf = rig.guest_ini(nic)
    rc, said = rig.guest.run(f"weft-doctor -c {conf}")
    check(rc == 1 and f"STOP  {nic.address} (port p0): the machine needs it" in said, f"{rc}: {said}")
    rig.guest.good(f"ip route del default dev {ifname}")
    rc, said = rig.guest.run(f"weft-doctor -c {conf}")
    check(rc == 1 and f"as interface {ifname}" in said, f"{rc}: {said}")
    rig.guest.good(remedy(said, r"(weft-doctor bind \S+)"))
    out = rig.guest.good(f"weft-doctor -c {conf}")
    check(f"ok    {nic.address} (port p0): ready" in out and "ok    hugepages" in out, out)
    with rig.target(nic):
        rig.push_pull(nic, 4)
        rc, said = rig.guest.run(f"weft-doctor restore {nic.address}", 10)
        check(rc == 1 and "another program of weft uses it" in said, f"{rc}: {said}")
    rig.guest.good(f"weft-doctor restore {nic.address}")
    driver = rig.guest.good(f"basename $(readlink /sys/bus/pci/devices/{nic.address}/driver)").strip()
    check(driver == nic.model and ifname in rig.guest.good(f"ls /sys/bus/pci/devices/{nic.address}/net"), driver)
    rig.guest.good(f"weft-doctor bind {nic.address}")


def not_for_dpdk(rig, nic):
    says(rig, nic, nic.address, "no driver of DPDK takes this device")


def group_missing(rig, nic):
    group = rig.guest.good(f"basename $(readlink /sys/bus/pci/devices/{nic.address}/iommu_group)")
    rig.guest.good(f"mv /dev/vfio/{group} /dev/vfio/away")
    try:
        says(rig, nic, nic.address, f"/dev/vfio/{group} is missing", "modprobe vfio-pci")
    finally:
        rig.guest.good(f"mv /dev/vfio/away /dev/vfio/{group}")


USER = "export XDG_RUNTIME_DIR=/run/weft; "
UNHUGE = {"hugepages": "never", "memory_mb": 96}


def ordinary_user(rig, nic):
    """vfio without root: the group's owner, and the limit on locked memory. Each message is followed."""
    line = says(rig, nic, nic.address, "no permission for /dev/vfio/", user=USER)
    rig.guest.good(remedy(line, r"(chown 1000 /dev/vfio/\d+)"))
    few = "ulimit -l 8192; "
    line = says(rig, nic, nic.address, "locked memory is limited to 8192 KiB", user=USER + few, **UNHUGE)
    starts(rig, nic, user=USER + remedy(line, r"(ulimit -l \d+)") + "; ", **UNHUGE)
    group = rig.guest.good(f"basename $(readlink /sys/bus/pci/devices/{nic.address}/iommu_group)")
    rig.guest.good(f"chown 0 /dev/vfio/{group}")


def uio_needs_root(rig, nic):
    says(rig, nic, nic.address, "uio_pci_generic needs root", user=USER)


def uio_needs_hugepages(rig, nic):
    pages = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    rig.guest.good(f"echo 0 >{pages}")
    line = says(rig, nic, nic.address, "uio_pci_generic needs hugepages")
    rig.guest.good(remedy(line, r"(echo \d+ > \S+)"))
    starts(rig, nic)
    rig.guest.good(f"echo 256 >{pages}")


# ---- The guests ----

def with_iommu(short):
    """NICs of the first guest, and (name, function, NIC, what is to do) of its cases."""
    every = {m: Nic(m) for m in (MODELS[:1] if short else MODELS)}
    cases = [(f"{m}: {name}", fn, nic, "")
             for m, nic in every.items() for name, fn in (EVERY[:2] if short else EVERY)]
    if short:
        spare = Nic("e1000e")
        return [*every.values(), spare], cases + [("vfio: weft-doctor binds and restores", bound_and_back, spare, "")]
    two, four = (Nic("virtio-net-pci", options=f",mq=on,vectors={2 * n + 2},rss=on,hash=on", queues=n) for n in (2, 4))
    plugs = [Nic(m, port=True) for m in ("e1000e", "virtio-net-pci", "vmxnet3")]
    far = plugs[0]
    e1000e = every["e1000e"]
    for n in plugs:
        n.other = e1000e
    other = Nic("i82551", wire=False)
    headers = Nic("virtio-net-pci", headers=True)
    headers.pair = Nic("virtio-net-pci", headers=True)
    cases += [("virtio-net-pci, two queues: client in the guest", as_client, two, ""),
              ("virtio-net-pci, two queues: workers = 2", queues, two, ""),
              ("virtio-net-pci, four queues: workers = 4", queues, four, ""),
              ("virtio-net-pci, virtio headers: checksums are left to the other end", left_checksums, headers, ""),
              ("vfio: a second program is refused", second, e1000e, ""),
              ("vfio, message: no such device", no_device, e1000e, ""),
              ("vfio, message: no driver", no_driver, every["e1000"], ""),
              ("vfio, message: the kernel's interface", kernels_interface, e1000e, ""),
              ("vfio: weft-doctor binds and restores", bound_and_back, e1000e, ""),
              ("vfio, message: another driver of the kernel", kernels_driver, far, ""),
              ("vfio, message: no driver of DPDK", not_for_dpdk, other, ""),
              ("vfio, message: the group is missing", group_missing, e1000e, ""),
              ("vfio: an ordinary user", ordinary_user, every["virtio-net-pci"], ""),
              *((f"vfio: {n.model} unplugged under load", unplugged, n, "") for n in plugs),
              *((f"vfio: {n.model} unplugged under full load", unplugged_perf, n, "") for n in plugs),
              ("vfio: unplugged under a client", unplugged_client, far, ""),
              ("vfio: one of two ports unplugged", unplugged_one_of_two, far, "")]
    return [*every.values(), two, four, *plugs, other, headers, headers.pair], cases


def without_iommu():
    nics = [Nic(m) for m in MODELS]
    some = [c for c in EVERY if c[1] in (as_target, as_client, few_buffers, killed)]
    cases = [(f"{n.model}, uio: {name}", fn, n, "") for n in nics for name, fn in some]
    virtio, e1000e = nics[0], nics[1]
    plugs = [Nic(m, port=True) for m in ("e1000e", "virtio-net-pci", "vmxnet3")]
    nics += plugs
    for n in plugs:
        n.other = e1000e
    cases += [("uio: a second program is refused", second, e1000e, ""),
              ("uio, message: no driver, no IOMMU", no_driver, virtio, ""),
              ("uio: weft-doctor binds and restores", bound_and_back, e1000e, ""),
              ("uio, message: an ordinary user", uio_needs_root, e1000e, ""),
              ("uio, message: no hugepages", uio_needs_hugepages, e1000e, ""),
              *((f"uio: {n.model} unplugged under load", unplugged, n, "") for n in plugs),
              *((f"uio: {n.model} unplugged under full load", unplugged_perf, n, "") for n in plugs)]
    return nics, cases


COLUMNS = ("model", "kernel's driver", "driver", "rx offloads", "tx offloads", "queues", "sent again", "sleep", "idle cpu", "result")


def table(nics):
    """Rows of what was found; as Markdown."""
    rows = [COLUMNS, ["---"] * len(COLUMNS)]
    for nic in nics:
        result = f"{nic.row['good']} cases good"
        for what, names in (("failed", nic.row["bad"]), ("to do", nic.row["todo"])):
            result += f"; {what}: {', '.join(names)}" if names else ""
        model = nic.model + nic.options + (", virtio headers" if nic.headers else "")
        rows.append([model, *(nic.row.get(c, "") for c in COLUMNS[1:-1]), result])
    return "\n".join("| " + " | ".join(r) + " |" for r in rows)


def run(tap, world, args, cache, logs, nics, cases, iommu):
    """The cases in one guest."""
    for nic in nics:
        nic.row = {"good": 0, "bad": [], "todo": [], "kernel's driver": "vfio-pci" if iommu else "uio_pci_generic"}
    todo = [c for c in cases if not args.only or any(c[0].startswith(o) for o in args.only)]
    if not todo:
        return
    rig = Rig(world, args.build, cache, logs, nics, iommu)

    def said():
        return rig.said + rig.left()
    try:
        if not tap.case(f"{'vfio' if iommu else 'uio'}: the guest is up with {len(nics)} NICs", rig.up, said):
            return
        for name, fn, nic, why in todo:
            rig.said = ""
            ok = tap.case(name, lambda fn=fn, nic=nic: fn(rig, nic), said, todo=why)
            nic.row["good"] += ok
            if not ok:
                nic.row["todo" if why else "bad"].append(name.split(": ")[-1])
            try:
                rig.tidy()
            except Fail as e:
                print(f"# {e}; the guest is booted again", flush=True)
                rig.guest.kill()
                rig.guest.boot()
                rig.up()
    finally:
        rig.close()


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("build")
    ap.add_argument("--short", action="store_true", help="one model, push and pull")
    ap.add_argument("--only", action="append", help="cases whose name begins so")
    ap.add_argument("--table", metavar="FILE", help="write what was found of each NIC")
    ap.add_argument("--list", action="store_true")
    args = ap.parse_args()
    guests = [(*with_iommu(args.short), True)] + ([] if args.short else [(*without_iommu(), False)])
    if args.list:
        print("\n".join(c[0] for _, cases, _ in guests for c in cases))
        return 0
    why = missing(("qemu-system-x86_64", "qemu-system-x86"), ("ip", "iproute2"), ("cpio", "cpio"))
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    end_by_signals()
    tap, logs, ran = Tap(), os.path.join(args.build, "meson-logs", "nic-short" if args.short else "nic"), []
    try:
        cache = os.environ.get("WEFT_NIC_CACHE") or os.path.join(args.build, "nic-guest")
        why = build(cache, RECIPE)
        if why:
            print(f"1..0 # SKIP {why}")
            return 0
        shutil.rmtree(logs, ignore_errors=True)
        for nics, cases, iommu in guests:
            world = World()
            there = os.path.join(logs, "vfio" if iommu else "uio")
            os.makedirs(there)
            try:
                run(tap, world, args, cache, there, nics, cases, iommu)
                ran += [n for n in nics if n.wire and n.row["good"] + len(n.row["bad"] + n.row["todo"]) > 0]
            except OSError as e:
                if tap.n == 0:
                    print(f"1..0 # SKIP cannot make a namespace or a tap: {e}")
                    return 0
                raise
            finally:
                world.close()
    finally:
        if tap.failed == 0:
            shutil.rmtree(logs, ignore_errors=True)
    found = table(ran)
    print("\n".join("# " + row for row in found.splitlines()), flush=True)
    if args.table:
        with open(args.table, "w", encoding="utf-8") as f:
            f.write(found + "\n")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
