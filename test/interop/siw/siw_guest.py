# SPDX-License-Identifier: BSD-3-Clause
"""The guest with siw: its virtual hardware, its servers, and siw's parameters."""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "guest"))

import guest  # noqa: E402
from guest import Machine, Shell, Tap, die_with_us, end_by_signals, missing, tap  # noqa: E402, F401
from kernel_net import K4, K6, Fail, World, check  # noqa: E402

RECIPE = os.path.join(HERE, "recipe")
# Constants in Debian's source. The guest starts with these.
STOCK = {"zcopy_tx": "Y", "try_gso": "N", "mpa_crc_required": "N", "mpa_crc_strict": "N", "peer_to_peer": "N",
         "mpa_version": "2"}
# One processor, and a second one that is never started. With a single one, QEMU before 8.1 omits the guest's memory
# barriers (tcg_gen_mb), although its devices run in parallel. Then a kick of virtio-net is sometimes lost, and nothing
# is sent any more.
PROCESSORS = "1,maxcpus=2"
# Like a wire: complete checksums, and no frame beyond the MTU.
OFFLOADS = "csum gso guest_csum guest_tso4 guest_tso6 guest_ecn guest_ufo host_tso4 host_tso6 host_ecn host_ufo"


def build(cache):
    """None, or the reason why there is no guest."""
    return guest.build(cache, RECIPE)


class Guest(Machine):
    """A guest behind a tap of a namespace. The tap's other end is for one of our ports."""

    def __init__(self, world, ns, cache, logs, mtu=1500, initrd=None, nvdimm=None, modules="siw", processors=PROCESSORS,
                 second=False, more=(), number=0, ip4=K4):
        """initrd: used instead of the cache's. nvdimm: a file that is the guest's persistent memory, a multiple of 128
        MiB long. modules: the purpose of the guest. processors: QEMU's -smp. second: it has eth1,
        too, which is down; its tap is dev2. more: of QEMU's arguments. number: 1 for another guest of the
        world, with logs of its own."""
        self.modules = modules
        self.dev = f"w{'qt'[number]}{world.tag % 1000000}"
        shell = Shell(f"{world.tmp}/shell{number or ''}")
        tap(world, ns, self.dev, mtu)
        features = "".join(f",{x}=off" for x in OFFLOADS.split())
        machine, memory, dimm = "", "768", []
        if nvdimm:
            size = os.path.getsize(nvdimm)
            machine, memory = ",nvdimm=on", f"768,slots=2,maxmem={2048 + (size >> 20)}M"
            dimm = ["-object", f"memory-backend-file,id=pmem,share=on,mem-path={nvdimm},size={size}",
                    "-device", "nvdimm,memdev=pmem"]
        devices = ["-netdev", f"tap,id=n0,ifname={self.dev},script=no,downscript=no,vhost=off",
                   "-device", f"virtio-net-pci,netdev=n0,mac=52:54:00:77:00:{1 + 16 * number:02x},romfile=,host_mtu={mtu}{features}",
                   "-device", "virtio-serial-pci", "-chardev", f"socket,id=c0,path={shell.path},server=on,wait=off",
                   "-device", "virtserialport,chardev=c0,name=weft", *dimm]
        if second:
            self.dev2 = f"wr{world.tag % 1000000}"
            tap(world, ns, self.dev2, mtu)
            devices += ["-netdev", f"tap,id=n1,ifname={self.dev2},script=no,downscript=no,vhost=off",
                        "-device", f"virtio-net-pci,netdev=n1,mac=52:54:00:77:00:02,romfile=,host_mtu={mtu}{features}"]
        super().__init__(world, ns, cache, logs, devices=[*devices, *more], machine=machine, processors=processors, memory=memory,
                         append=f"weft.modules={modules} weft.ip4={ip4}/24 weft.ip6={K6}/64 weft.mtu={mtu}", initrd=initrd, shell=shell)

    def wait_up(self, timeout=110):
        super().wait_up(timeout)
        check(self.modules != "siw" or self.run("rdma link")[1].startswith("link siw0/1 state ACTIVE"),
              "the guest has no siw device: " + self.run("dmesg | tail -n 20")[1])

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


def with_rig(top, name, tools, make, use):
    """Run cases with a guest. make(world, top, cache, logs) gives the rig, which has the guest; use(rig, tap, logs) runs the
    cases. top is the build, where the logs are kept if a case fails. tools: pairs of a program and its package, beside those
    of every guest. Returns the exit status. Where no guest can be, the plan says why."""
    why = missing(("qemu-system-x86_64", "qemu-system-x86"), ("ip", "iproute2"), *tools)
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    end_by_signals()
    world, rig, results = World(), None, Tap()
    logs = os.path.join(top, "meson-logs", name)
    try:
        cache = os.environ.get("WEFT_SIW_CACHE") or os.path.join(top, "siw-guest")
        why = build(cache)
        if not why:
            shutil.rmtree(logs, ignore_errors=True)
            os.makedirs(logs)
            try:
                rig = make(world, top, cache, logs)
            except (Fail, OSError) as e:
                why = f"cannot make a namespace or a tap: {str(e).splitlines()[0]}"
        if why:
            print(f"1..0 # SKIP {why}")
            return 0
        use(rig, results, logs)
    except Fail as e:
        results.case("the run", lambda e=e: (_ for _ in ()).throw(e), lambda: rig.said if rig else "")
    finally:
        if rig:
            rig.guest.close()
        world.close()
        if results.failed == 0:
            shutil.rmtree(logs, ignore_errors=True)
    return results.end()
