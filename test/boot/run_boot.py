#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The service under a systemd that booted: run_boot.py SOURCE BUILD. TAP.

A Debian with the packages' dependencies boots from a disk of a QEMU guest. The packages are installed there; the manager of services
starts, watches, reloads, stops and restarts the target, and the machine is rebooted and cut from its power.
"""
import json
import os
import re
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
for d in ("guest", "package"):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), d))

from debian import NOT_HERE, make_packages, make_root  # noqa: E402
from guest import Machine, Tap, TcpShell, build, check, end_by_signals, missing, sh, tap  # noqa: E402
from kernel_net import World  # noqa: E402

SOURCE, BUILD = (os.path.realpath(p) for p in sys.argv[1:3])
ADDRESS, PORT = "10.99.0.2", 7777
UNIT = "weft-target"
WATCHDOG_S = 5
SHELL = f"""[Unit]
DefaultDependencies=no
After=sysinit.target
[Service]
ExecStartPre=/usr/local/bin/busybox ip addr add {ADDRESS}/24 dev eth0
ExecStartPre=/usr/local/bin/busybox ip link set eth0 up
ExecStartPre=/usr/local/bin/busybox ip link set lo up
ExecStart=/usr/local/bin/busybox nc -ll -p {PORT} -e /bin/sh
KillMode=process
[Install]
WantedBy=multi-user.target
"""
MASKED = ("serial-getty@ttyS0.service", "getty@tty1.service", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer",
          "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer")


def write(root, name, text, mode=0o644):
    """A file of the guest's disk."""
    p = os.path.join(root, name)
    os.makedirs(os.path.dirname(p), exist_ok=True)
    with open(p, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(p, mode)


def make_disk(tmp, tar, debs):
    """The guest's disk: an ext4 with the root, the packages, a shell for this test."""
    root, disk = os.path.join(tmp, "root"), os.path.join(tmp, "disk")
    os.mkdir(root)
    sh("tar", "-C", root, "-xf", tar, "--numeric-owner")
    shutil.copy(shutil.which("busybox"), os.path.join(root, "usr/local/bin/busybox"))
    shutil.copytree(debs, os.path.join(root, "debs"))
    for name in ("probe.pl", "freeze.pl"):
        shutil.copy(os.path.join(HERE, name), os.path.join(root, "debs"))
    write(root, "etc/systemd/system/shell.service", SHELL)
    write(root, "etc/fstab", "/dev/vda / ext4 defaults 0 0\n")
    write(root, "etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    write(root, "etc/hostname", "guest\n")
    os.makedirs(os.path.join(root, "var/log/journal"), exist_ok=True)
    wants = os.path.join(root, "etc/systemd/system/multi-user.target.wants")
    os.makedirs(wants, exist_ok=True)
    os.symlink("/etc/systemd/system/shell.service", os.path.join(wants, "shell.service"))
    for m in MASKED:
        os.symlink("/dev/null", os.path.join(root, "etc/systemd/system", m))
    sh("mke2fs", "-q", "-t", "ext4", "-d", root, disk, "1500M")
    shutil.rmtree(root)
    return disk


class Guest(Machine):
    """The machine, and what is asked of its systemd."""

    def __init__(self, world, cache, logs, disk):
        ns = world.space("boot")
        control = f"wb{world.tag % 1000000}"
        tap(world, ns, control)
        sh("ip", "-n", ns, "addr", "add", "10.99.0.1/24", "dev", control)
        super().__init__(
            world, ns, cache, logs, processors="2", memory="1024", shell=TcpShell(world, ns, (ADDRESS, PORT)),
            append="rdinit=/etc/boot systemd.show_status=0",
            devices=["-netdev", f"tap,id=control,ifname={control},script=no,downscript=no,vhost=off",
                     "-device", "rtl8139,netdev=control,mac=52:54:00:99:00:01,romfile=",
                     "-drive", f"file={disk},if=none,id=disk,format=raw,cache=writeback", "-device", "virtio-blk-pci,drive=disk"])

    def good(self, command, timeout=60):
        """The output of a command that must succeed."""
        rc, out = self.run(command, timeout)
        check(rc == 0, f"{command.splitlines()[0]}: status {rc}: {out[-800:]}")
        return out

    def show(self, *names):
        """Properties of the unit."""
        got = dict(t.split("=", 1) for t in self.good(f"systemctl show {UNIT} -p " + ",".join(names)).splitlines())
        return got[names[0]] if len(names) == 1 else [got[n] for n in names]

    def until(self, what, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            check(time.monotonic() < end, f"not within {seconds} s: {what}: {self.good(f'systemctl status {UNIT} | tail -n 20; true')}")
            time.sleep(0.3)

    def active(self):
        return self.show("ActiveState", "SubState") == ["active", "running"]

    def journal(self, since=""):
        """[(priority, line)] of the unit, of what it said itself."""
        out = self.good(f"journalctl -u {UNIT} _COMM={UNIT} -o json --no-pager {since}")
        rows = (json.loads(t) for t in out.splitlines() if t.startswith("{"))
        return [(int(r["PRIORITY"]), r["MESSAGE"]) for r in rows if isinstance(r["MESSAGE"], str)]

    def drop_in(self, name, text):
        self.good(f"mkdir -p /etc/systemd/system/{UNIT}.service.d && printf '{text}' > /etc/systemd/system/{UNIT}.service.d/{name}.conf"
                  " && systemctl daemon-reload")

    def cut(self):
        """The power goes and comes back."""
        self.kill()
        self.boot()
        self.wait_up(200)


def installed(g):
    """The packages are installed: the service runs, is ready by its own word, and is enabled."""
    g.good("dpkg -i " + " ".join("/debs/" + n for n in g.debs["0.0.1-1"]), 200)
    g.until("the service is active", g.active)
    check(g.show("Type", "StatusText", "NRestarts") == ["notify", "serving 0 exports", "0"], g.show("Type", "StatusText", "NRestarts"))
    check(g.good(f"systemctl is-enabled {UNIT}") == "enabled", "not enabled")
    check(any("ready:" in t for _, t in g.journal()), g.journal())
    g.good("weft-ctl export create demo size=16M path=/var/lib/weft/demo.weft", 60)
    g.good("head -c 3000000 /dev/urandom > /var/tmp/in")
    g.good("weft-cp -q -c /etc/weft/client.ini /var/tmp/in weft://10.0.0.1/demo", 100)
    same(g)


def same(g):
    """A pull gives what was pushed."""
    g.good("rm -f /var/tmp/out; weft-cp -q -c /etc/weft/client.ini weft://10.0.0.1/demo /var/tmp/out && cmp /var/tmp/in /var/tmp/out", 100)


def ready_is_waited_for(g):
    """systemctl start returns when the target serves: a call right behind it is answered, each time."""
    for _ in range(3):
        g.good(f"systemctl restart {UNIT} && weft-ctl --json status", 100)
    check(g.show("StatusText") == "serving 1 exports", g.show("StatusText"))


def hardened(g):
    """What the unit takes away is away, and the same tries succeed outside of it."""
    g.good("install -d -o weft /tmp/o && runuser -u weft -- perl /debs/probe.pl /tmp/o/probe")
    outside = g.good("cat /tmp/o/probe").splitlines()
    # A packet socket takes the capability that the unit gives.
    check(all(t.endswith(": yes") or "packet" in t for t in outside) and len(outside) == 10, "outside: " + "; ".join(outside))
    g.good("rm -f /tmp/weft-probe")
    g.drop_in("probe", "[Service]\\nExecStartPre=perl /debs/probe.pl /var/lib/weft/probe\\n")
    g.good(f"systemctl restart {UNIT}", 100)
    inside = g.good("cat /var/lib/weft/probe").splitlines()
    wrong = [t for t in inside if t.endswith(": yes") != t.startswith("may ")]
    check(len(inside) == 10 and not wrong, "in the unit: " + "; ".join(wrong or inside))
    g.good("test ! -e /tmp/weft-probe && rm /var/lib/weft/probe /var/lib/weft/own /var/lib/weft/suid")
    g.good(f"rm /etc/systemd/system/{UNIT}.service.d/probe.conf && systemctl daemon-reload && systemctl restart {UNIT}", 100)
    text = g.good("cat /proc/$(systemctl show -P MainPID weft-target)/status")
    status = dict(t.split(":\t", 1) for t in text.splitlines() if ":\t" in t)
    # CAP_NET_ADMIN, CAP_NET_RAW and CAP_IPC_LOCK
    caps = 1 << 12 | 1 << 13 | 1 << 14
    check(all(int(status[c], 16) == caps for c in ("CapEff", "CapBnd", "CapAmb")), text)
    check(status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and "0" not in status["Uid"].split(), text)


def exposure(g):
    """systemd's own judgement of the unit that runs."""
    out = g.good(f"systemd-analyze security --no-pager --threshold=30 {UNIT}", 60)
    print("# " + out.strip().splitlines()[-1].strip("→ "), flush=True)


def watchdog(g):
    """One worker is stopped: the manager ends the target, and starts it again. What was pushed is there."""
    g.drop_in("dog", f"[Service]\\nWatchdogSec={WATCHDOG_S}\\n")
    g.good(f"systemctl restart {UNIT}", 100)
    time.sleep(2 * WATCHDOG_S)
    pid, restarts = g.show("MainPID", "NRestarts")
    check(restarts == "0" and g.active(), "it was restarted without a cause")
    g.good(f"systemd-run -q --unit=freeze perl /debs/freeze.pl {pid}")
    g.until("the watchdog ends it, and it runs again", lambda: g.show("MainPID") not in (pid, "0") and g.active())
    check(g.show("NRestarts") == "1", g.good("journalctl -u freeze --no-pager"))
    text = g.good(f"journalctl -u {UNIT} --no-pager")
    check("Watchdog timeout" in text and "Failed with result 'watchdog'" in text and "does not poll" in text, text[-1500:])
    same(g)
    g.good(f"rm /etc/systemd/system/{UNIT}.service.d/dog.conf && systemctl daemon-reload && systemctl restart {UNIT}", 100)


def reloads(g):
    """SIGHUP by the manager: an export of the file is served now, by the same process."""
    pid = g.show("MainPID")
    g.good("printf '[export late]\\npath = /var/lib/weft/late.weft\\nsize = 1M\\n' >> /etc/weft/target.ini")
    g.good(f"systemctl reload {UNIT}")
    g.until("the status names two exports", lambda: g.show("StatusText") == "serving 2 exports", 20)
    check(g.show("MainPID") == pid and g.active(), "another process")
    check('"late"' in g.good("weft-ctl --json exports"), "no export late")


def stops(g):
    """In the middle of a push: soon, in order, and the push fails."""
    g.good("systemd-run -q --unit=push weft-cp -q -c /etc/weft/client.ini --reconnect 0 --rate 200K --block 64K /var/tmp/in"
           " weft://10.0.0.1/demo")
    g.until("the push has a grant", lambda: '"grants":1' in g.good("weft-ctl --json exports demo").replace(" ", ""))
    began = time.monotonic()
    g.good(f"systemctl stop {UNIT}", 70)
    took = time.monotonic() - began
    check(took < 20, f"{took:.1f} s")
    check(g.show("Result", "ExecMainStatus", "ActiveState") == ["success", "0", "inactive"], g.show("Result", "ExecMainStatus"))
    g.until("the push ends", lambda: g.run("systemctl is-active push")[0] != 0)
    status = g.good("systemctl show -P ExecMainStatus push")
    check(status == "5", f"the push ended with {status}: {g.run('journalctl -q -u push -o cat')[1]}")
    g.good(f"systemctl reset-failed; systemctl start {UNIT}", 100)
    same(g)


def fails(g):
    """kill -9: it runs again, and serves. A configuration that it refuses ends in a failed unit, with the reason."""
    pid, restarts = g.show("MainPID", "NRestarts")
    g.good(f"systemctl kill -s KILL {UNIT}")
    g.until("it runs again", lambda: g.show("MainPID") not in (pid, "0") and g.active())
    check(int(g.show("NRestarts")) == int(restarts) + 1, g.show("NRestarts"))
    same(g)
    g.good("cp -a /etc/weft/target.ini /etc/weft/good && echo nonsense = 1 >> /etc/weft/target.ini")
    rc, out = g.run(f"systemctl restart {UNIT}", 100)
    g.until("no further start", lambda: g.show("ActiveState") == "failed")
    g.good(f"mv /etc/weft/good /etc/weft/target.ini; systemctl reset-failed {UNIT}; systemctl start {UNIT}", 100)
    check(rc != 0 and any("nonsense" in t and p == 3 for p, t in g.journal()), f"{rc} {out} {g.journal()[-3:]}")
    same(g)


def memory(g):
    """A limit below what --size says refuses the start with both figures; what it says is enough."""
    out = g.good("weft-target -c /etc/weft/target.ini --size", 60)
    need = float(re.search(r"^needed to start +([\d.]+) MiB", out, re.M)[1])
    try:
        g.good(f"systemctl set-property --runtime {UNIT} MemoryMax={int(need * 0.8)}M")
        rc, _ = g.run(f"systemctl restart {UNIT}", 100)
        said = [t for _, t in g.journal() if "a start needs" in t]
        check(rc != 0 and said and "control group" in said[-1], said)
        print("# " + said[-1], flush=True)
        g.good(f"systemctl set-property --runtime {UNIT} MemoryMax={int(need + 24)}M; systemctl reset-failed {UNIT}")
        g.good(f"systemctl restart {UNIT}", 100)
        same(g)
        used = int(g.show("MemoryCurrent")) / 2**20
        print(f"# needed to start: {need} MiB; the control group has {used:.0f} MiB", flush=True)
    finally:
        g.run(f"systemctl set-property --runtime {UNIT} MemoryMax=infinity; systemctl reset-failed {UNIT}; systemctl restart {UNIT}", 100)


def priorities(g):
    """Lines have priorities of the journal: errors apart from what is normal, and no mark is left in the text."""
    log = g.journal()
    seen = {p for p, _ in log}
    check({3, 6} <= seen and seen <= {2, 3, 4, 5, 6, 7}, f"{seen}: {log[:5]}")
    check(not [t for _, t in log if re.match(r"<\d>", t)], "a mark is left")
    check(all(p == 6 for p, t in log if "ready:" in t or "is served now" in t), [x for x in log if "ready:" in x[1]])


def reboots(g):
    """Reboot in order, then without: exports made at run time and what was pushed are there, and the service runs."""
    g.run("systemctl --no-block reboot")
    end = time.monotonic() + 100
    while g.alive():
        check(time.monotonic() < end, "the guest does not end")
        time.sleep(0.2)
    for _ in range(2):
        g.cut()
        g.until("the service is active", g.active, 100)
        check(g.show("StatusText") == "serving 2 exports", g.show("StatusText"))
        same(g)
        g.good("head -c 2500000 /dev/urandom > /var/tmp/in && sync /var/tmp/in")
        g.good("weft-cp -q -c /etc/weft/client.ini /var/tmp/in weft://10.0.0.1/demo", 100)


def upgraded_and_removed(g):
    """An upgrade restarts what runs, with keys that the service alone may read; removal stops it; purge leaves the exports."""
    g.good("head -c 32 /dev/urandom | install -m 600 -o weft /dev/stdin /etc/weft/host.key")
    g.good("sed -i 's/^.target.$/&\\nhost_auth = optional/' /etc/weft/target.ini && grep -q '^host_auth' /etc/weft/target.ini")
    g.good("printf '[client host]\\nkey_file = /etc/weft/host.key\\n' >> /etc/weft/target.ini")
    pid = g.show("MainPID")
    g.good("dpkg -i --force-confold " + " ".join("/debs/" + n for n in g.debs["0.0.1-2"]), 200)
    g.until("the new one runs", lambda: g.show("MainPID") not in (pid, "0") and g.active())
    same(g)
    pid = g.show("MainPID")
    g.good("dpkg --remove weft-target", 100)
    check(g.run(f"kill -0 {pid}")[0] != 0 and g.run(f"systemctl is-active {UNIT}")[0] != 0, "it still runs")
    g.good("dpkg --purge weft-target && test -e /var/lib/weft/demo.weft && test ! -e /run/weft", 100)


CASES = [installed, ready_is_waited_for, hardened, exposure, watchdog, reloads, stops, fails, memory, priorities, reboots,
         upgraded_and_removed]


def main():
    why = missing(("qemu-system-x86_64", "qemu-system-x86"), ("ip", "iproute2"), ("mmdebstrap", "mmdebstrap"), ("mke2fs", "e2fsprogs"))
    cache = os.environ.get("WEFT_BOOT_CACHE") or os.path.join(BUILD, "boot-guest")
    why = why or build(cache, os.path.join(HERE, "recipe"))
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    end_by_signals()
    cases, logs, world = Tap(), os.path.join(BUILD, "meson-logs", "boot"), None
    shutil.rmtree(logs, ignore_errors=True)
    os.makedirs(logs)
    tmp = tempfile.mkdtemp(prefix="weft-boot.")
    try:
        debs = os.path.join(tmp, "debs")
        why = make_packages(SOURCE, debs)
        check(not why, why)
        make_root(debs, os.path.join(BUILD, "boot-root.tar"), "systemd-sysv", "procps")
        world = World()
        g = Guest(world, cache, logs, make_disk(tmp, os.path.join(BUILD, "boot-root.tar"), debs))
        names = [n for n in sorted(os.listdir(debs)) if not n.startswith((*NOT_HERE, "libweft-dev"))]
        g.debs = {v: [n for n in names if f"_{v}_" in n] for v in ("0.0.1-1", "0.0.1-2")}
        want = sys.argv[3:]
        if cases.case("the guest boots", lambda: g.wait_up(200), lambda: ""):
            for fn in CASES:
                if (not want or fn.__name__ in (*want, "installed")) and not cases.case(
                        f"{fn.__name__}: {fn.__doc__.split(':')[0].split('.')[0].lower()}", lambda fn=fn: fn(g),
                        lambda: g.run(f"journalctl -u {UNIT} --no-pager | tail -n 12")[1], 300) and fn is installed:
                    break
        g.close()
    finally:
        if world is not None:
            world.close()
        shutil.rmtree(tmp, ignore_errors=True)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
