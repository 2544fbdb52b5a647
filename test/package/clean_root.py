#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The packages in a Debian that has never seen weft: clean_root.py SOURCE BUILD. TAP.

apps/package/deb.py makes the packages; mmdebstrap makes the root, once. In it the packages are installed, the service is started
as its unit says and by its user, without any capability, and used; then an upgrade, a downgrade, a day in the life
(test/e2e/life.py) with another upgrade in it, removal and purge. Nothing leaves the root: it has mounts, processes and a network
of its own.
"""
import filecmp
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

from cases import check, end, no_program, skip
from debian import NOT_HERE, make_packages, make_root

SOURCE, BUILD = (os.path.realpath(p) for p in sys.argv[1:3])
sys.path.insert(0, os.path.join(SOURCE, "test", "e2e"))

from life import MIB, Day, second_client, second_port  # noqa: E402

TAR = os.path.join(BUILD, "deb-root.tar")
ROOT = None
# What Debian itself writes while packages come and go, and EAL's folder, which is of all DPDK programs.
NOT_OURS = re.compile(
    r"^/(proc|sys|tmp|debs|var/lib/dpkg|var/lib/apt|var/log|var/cache)(/|$)"
    r"|^/etc/(ld\.so\.cache|(passwd|group|shadow|gshadow|subuid|subgid)-)$"
    r"|^/etc/\.pwd\.lock$|^/run/(adduser|dpdk)$")


def inside(*args, **more):
    """(status, output) of a command in the root."""
    p = subprocess.run(["chroot", ROOT, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120,
                       stdin=subprocess.DEVNULL, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", **more})
    return p.returncode, p.stdout


def there(path):
    """Where a path of the root is."""
    return ROOT + path


def mode(path):
    """Owner, group and mode of a path of the root."""
    return inside("stat", "-c", "%U:%G:%a", path)[1].strip()


def files():
    """{path: content or link} of all that is in the root."""
    out = {}
    for folder, dirs, names in os.walk(ROOT):
        dirs[:] = [d for d in dirs if not NOT_OURS.match(os.path.join(folder, d)[len(ROOT):])]
        for n in dirs + names:
            path = os.path.join(folder, n)
            if NOT_OURS.match(path[len(ROOT):]):
                continue
            if os.path.islink(path):
                out[path[len(ROOT):]] = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as f:
                    out[path[len(ROOT):]] = hash(f.read())
            else:
                out[path[len(ROOT):]] = None
    return out


class Service:
    """What systemd would start: the unit's ExecStart, by its user, with its folders and nothing more."""

    def __init__(self):
        with open(there("/usr/lib/systemd/system/weft-target.service"), encoding="utf-8") as f:
            unit = dict(re.findall(r"^(\w+)=(.*)$", f.read(), re.M))
        self.user, self.words = unit["User"], unit["ExecStart"].split()
        run = "/run/" + unit["RuntimeDirectory"]
        if not os.path.isdir(there(run)):
            inside("install", "-d", "-o", self.user, "-g", unit["Group"], "-m", unit["RuntimeDirectoryMode"], run)
        self.log = open(there("/tmp/target.log"), "w+", encoding="utf-8")
        self.proc = subprocess.Popen(
            ["chroot", ROOT, "setpriv", f"--reuid={self.user}", f"--regid={unit['Group']}", "--init-groups", "--bounding-set=-all",
             "--inh-caps=-all", "--no-new-privs", "env", "-i", "PATH=/usr/bin:/bin", unit["Environment"], *self.words],
            stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while time.monotonic() < end and self.proc.poll() is None and "ready:" not in self.said():
            time.sleep(0.05)

    def said(self):
        """Its log."""
        with open(self.log.name, encoding="utf-8") as f:
            return f.read()

    def stop(self):
        """SIGTERM, and its status."""
        self.proc.send_signal(signal.SIGTERM)
        status = self.proc.wait(30)
        self.log.close()
        return status


def debs(version):
    """The packages of a version that are installed here, as the root sees them."""
    names = sorted(os.listdir(there("/debs")))
    return ["/debs/" + n for n in names if f"_{version}_" in n and not n.startswith(NOT_HERE)]


def copies(data, note):
    """Push and pull by the port of client.ini."""
    with open(there("/tmp/in"), "wb") as f:
        f.write(data)
    push = inside("weft-cp", "-q", "-c", "/etc/weft/client.ini", "/tmp/in", "weft://10.0.0.1/demo")
    check(f"{note}: push", push[0] == 0, push[1])
    pulls(note)


def pulls(note):
    """Pull what was pushed last."""
    if os.path.exists(there("/tmp/out")):
        os.unlink(there("/tmp/out"))
    pull = inside("weft-cp", "-q", "-c", "/etc/weft/client.ini", "weft://10.0.0.1/demo", "/tmp/out")
    check(f"{note}: pull, octet for octet", pull[0] == 0 and filecmp.cmp(there("/tmp/in"), there("/tmp/out"), False), pull[1])


def walk_guide():
    """The commands of the first guide, as they stand there; the export that is there already is made under this name again."""
    with open(os.path.join(SOURCE, "docs/guide/five-minutes.md"), encoding="utf-8") as f:
        commands = re.findall(r"^\$ (.*)$", f.read(), re.M)
    inside("weft-ctl", "export", "delete", "demo", "--confirm", "demo")
    os.unlink(there("/var/lib/weft/demo.weft"))
    wrong = []
    for c in commands:
        rc, out = inside("sh", "-c", c)
        if rc:
            wrong.append(f"{c}: {rc}: {out}")
    check(f"the guide: {len(commands)} commands", not wrong and len(commands) >= 9, *wrong)
    shutil.copy(there("/etc/os-release"), there("/tmp/in"))


class Site:
    """Where a day is lived: the installed target, and clients beside it that root runs."""

    etc, data, home, conf = "/etc/weft", "/var/lib/weft", "/var/tmp/day", "/etc/weft/target.ini"
    clients = ("/etc/weft/client.ini", "/var/tmp/day/second.ini")

    def __init__(self):
        self.service = None
        os.mkdir(there(self.home))
        with open(there(self.clients[0]), encoding="utf-8") as f, open(there(self.clients[1]), "w", encoding="utf-8") as out:
            out.write(second_client(f.read()))

    def second_port(self):
        with open(there(self.conf), encoding="utf-8") as f:
            return second_port(f.read())

    def run(self, *words):
        p = subprocess.run(["chroot", ROOT, *words], capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL)
        return p.returncode, p.stdout, p.stderr

    def run_as_target(self, *words):
        return self.run("runuser", "-u", "weft", "--", *words)

    def spawn_client(self, *words):
        return subprocess.Popen(["chroot", ROOT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                stdin=subprocess.DEVNULL)

    def at(self, path):
        return there(path)

    def own(self, path):
        inside("chown", "weft:weft", path)

    def mount(self, path, mib):
        inside("install", "-d", "-o", "weft", "-g", "weft", path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}M,mode=750", "small", there(path)], check=True)
        inside("chown", "weft:weft", path)
        return there(path)

    def start(self):
        self.service = Service()
        assert "ready:" in self.said(), self.said()

    def said(self):
        return self.service.said()

    def upgrade(self):
        """What the package's scripts do where systemd runs: the new version is unpacked beside the old target, then it is restarted."""
        rc, out = inside("dpkg", "-i", *debs("0.0.1-2"))
        assert rc == 0 and self.service.proc.poll() is None, out
        assert self.service.stop() == 0, self.said()
        self.start()

    def end(self):
        """Stop, and remove what is the test's."""
        assert self.service.stop() == 0, self.said()
        subprocess.run(["umount", there(self.data + "/small")], check=True)
        for name in os.listdir(there(self.etc)):
            if name.endswith(".key"):
                os.unlink(there(f"{self.etc}/{name}"))
        shutil.rmtree(there(self.home))


def day():
    """A day in the life, each step a case; what follows a step that failed is not lived."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    site, seed = Site(), int(os.environ.get("WEFT_TEST_SEED", "0")) or time.time_ns() % 10**6
    for step in [*Day(site, 9471, 8 * MIB, seed).steps(), site.end]:
        try:
            step()
        except (AssertionError, OSError, ValueError, KeyError, subprocess.SubprocessError):
            check(f"a day in the life: {step.__name__}", False, f"seed {seed}", traceback.format_exc())
            if site.service is not None:
                site.service.proc.kill()
            sys.exit(end())
        check(f"a day in the life: {step.__name__}", True)


def life():
    """From the first installation to the purge."""
    before = files()
    rc, out = inside("dpkg", "-i", *debs("0.0.1-1"))
    check("install", rc == 0, out)
    check("user and folders", inside("id", "-un", "weft")[0] == 0 and mode("/var/lib/weft") == "weft:weft:750"
          and mode("/var/lib/weft/state") == "weft:weft:700" and mode("/etc/weft") == "root:weft:750"
          and mode("/etc/weft/target.ini") == "root:weft:640", mode("/var/lib/weft"), mode("/etc/weft"), mode("/etc/weft/target.ini"))
    check("the service is enabled", os.path.islink(there("/etc/systemd/system/multi-user.target.wants/weft-target.service")))
    missing = inside("sh", "-c", "for f in /usr/bin/weft-* /usr/lib/*/libweft*.so.*; do ldd $f; done | grep 'not found'")[1]
    check("no library is missing", not missing, missing)
    names = [n for n in os.listdir(there("/usr/bin")) if n.startswith("weft-")]
    wrong = [n for n in names if inside(n, "--version")[0] != 0]
    check(f"{len(names)} programs start", not wrong and len(names) >= 9, wrong, names)

    target = Service()
    check("the service starts without root and capabilities", "ready:" in target.said(), target.said())
    made = inside("weft-ctl", "export", "create", "demo", "size=64M", "path=/var/lib/weft/demo.weft")
    check("an export is made", made[0] == 0, made[1], target.said())
    copies(os.urandom(5 << 20), "installed")
    denied = inside("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "weft-ctl", "status")
    check("nobody may not use the control socket", denied[0] in (3, 4), denied)

    walk_guide()

    # An upgrade does not end what runs (systemd restarts it afterwards), and keeps what the operator wrote.
    with open(there("/etc/weft/target.ini"), "a", encoding="utf-8") as f:
        f.write("# by the operator\n")
    rc, out = inside("dpkg", "-i", *debs("0.0.1-2"))
    with open(there("/etc/weft/target.ini"), encoding="utf-8") as f:
        kept = f.read().endswith("# by the operator\n")
    check("upgrade", rc == 0 and kept and mode("/etc/weft/target.ini") == "root:weft:640", out)
    pulls("upgraded, the old target")
    check("the old target ends in order", target.stop() == 0, target.said())
    target = Service()
    pulls("upgraded, the new target")
    copies(os.urandom(1 << 20), "upgraded")
    target.stop()
    rc, out = inside("dpkg", "-i", *debs("0.0.1-1"))
    target = Service()
    check("downgrade", rc == 0 and "ready:" in target.said(), out, target.said())
    pulls("downgraded")
    target.stop()
    # The exports of before are no part of the day.
    os.rename(there("/var/lib/weft/state/exports.ini"), there("/tmp/exports.ini"))
    day()

    rc, out = inside("apt-get", "-y", "--no-download", "remove", "weft-target")
    check("remove: the programs go, configuration and data stay", rc == 0 and not os.path.exists(there("/usr/bin/weft-target"))
          and os.path.exists(there("/etc/weft/target.ini")) and os.path.exists(there("/var/lib/weft/demo.weft")), out)
    rc, out = inside("dpkg", "--purge", "weft-target")
    check("purge says that exports are there, and keeps them", rc == 0 and "/var/lib/weft has exports" in out
          and os.path.exists(there("/var/lib/weft/demo.weft")) and not os.path.exists(there("/etc/weft/target.ini")), out)
    rc, out = inside("sh", "-c", "rm -r /var/lib/weft && deluser --quiet --system weft")
    check("what purge says to do then works", rc == 0, out)
    # A volume of an export with a relative path lies in the state folder.
    rc, out = inside("dpkg", "-i", *debs("0.0.1-1"))
    with open(there("/var/lib/weft/state/d.weft"), "w", encoding="utf-8") as f:
        f.write("data")
    rc2, out2 = inside("dpkg", "--purge", "weft-target")
    check("purge keeps exports in the state folder", rc == 0 and rc2 == 0 and "/var/lib/weft has exports" in out2
          and os.path.exists(there("/var/lib/weft/state/d.weft")), out, out2)
    os.unlink(there("/var/lib/weft/state/d.weft"))
    rc, out = inside("dpkg", "-i", *debs("0.0.1-1"))
    # Where systemd runs, it makes the folders.
    with open(there("/usr/lib/tmpfiles.d/weft-target.conf"), encoding="utf-8") as f:
        for d in (line.split()[1] for line in f if line.startswith("d ")):
            os.makedirs(there(d), exist_ok=True)
    rc2, out2 = inside("dpkg", "--purge", "weft-target", "weft", "libweft-dev", "libweft0.1")
    left = {p for p, c in files().items() if p not in before or before[p] != c} | set(before) - set(files())
    left -= {"/tmp"}
    check("installed and purged again: nothing is left", rc == 0 and rc2 == 0 and not left, out, out2, sorted(left))


def main():
    """Make packages and root; then begin again, with mounts, processes and a network of its own."""
    if os.getuid() != 0:
        skip("making a root takes root: mmdebstrap makes device files and owners; run test/run deb as root")
    if shutil.which("mmdebstrap") is None and not os.path.exists(TAR):
        skip(no_program("mmdebstrap"))
    out = tempfile.mkdtemp(prefix="weft-clean.")
    try:
        why = make_packages(SOURCE, os.path.join(out, "debs"))
        if why:
            check("packages are made", False, why)
            return end()
        make_root(os.path.join(out, "debs"), TAR)
        return subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", sys.executable, *sys.argv, out],
                              check=False).returncode
    finally:
        shutil.rmtree(out, ignore_errors=True)


def in_root(out):
    """What is done in the root."""
    global ROOT
    ROOT = os.path.join(out, "root")
    os.mkdir(ROOT)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "root", ROOT], check=True)
    subprocess.run(["tar", "-C", ROOT, "-xf", TAR, "--numeric-owner"], check=True)
    shutil.copytree(os.path.join(out, "debs"), there("/debs"))
    subprocess.run(["mount", "-t", "proc", "proc", there("/proc")], check=True)
    subprocess.run(["mount", "-t", "sysfs", "-o", "ro", "sysfs", there("/sys")], check=True)
    life()
    p = subprocess.run([sys.executable, os.path.join(SOURCE, "test/package/portable.py"), os.path.join(SOURCE, "build-deb")],
                       stdout=subprocess.PIPE, text=True, check=False)
    check("no instruction beyond the baseline", p.returncode == 0 and "not ok" not in p.stdout and "\nok" in p.stdout, p.stdout)
    if shutil.which("lintian"):
        all_debs = [os.path.join(out, "debs", n) for n in os.listdir(os.path.join(out, "debs")) if "_0.0.1-1_" in n]
        p = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", *all_debs], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, check=False)
        check("lintian finds no error", p.returncode == 0, p.stdout)
    else:
        check("lintian finds no error # SKIP " + no_program("lintian"), True)
    return end()


if __name__ == "__main__":
    sys.exit(in_root(sys.argv[3]) if len(sys.argv) > 3 else main())
