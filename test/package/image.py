#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The container image: image.py SOURCE BUILD. TAP.

apps/package/image.py makes it from the packages. Its entry point runs as a random user id, with all capabilities dropped, on a
read-only root, with namespaces of its own, without hugepages: a push, kill -9 in the middle of a second push, a restart, a pull.
podman runs it, where there is one; and the layer is unpacked and run here as an engine does, which needs none. What --size says is
compared with what a start is refused for. The same programs do the same on an emulated Nehalem, which has no AVX, PCLMULQDQ and BMI:
what they chose for newer processors is chosen when they run.
"""
import filecmp
import gzip
import hashlib
import io
import json
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

import cases
from cases import check, end, no_program, skip

EMULATOR = "qemu-x86_64-static"
CPU = "Nehalem"  # the oldest that the default build is for
# Neither the processor nor the emulator of it may run this. AVX and AVX2 it runs, whatever it is told to be: test old_cpu judges these.
TOO_NEW = """int main(void) { __asm__ volatile("%s" ::: "xmm0", "rax"); return 0; }
"""
TOO_NEW_OPS = {"PCLMULQDQ": "pclmulqdq $0, %%xmm0, %%xmm0", "AESENC": "aesenc %%xmm0, %%xmm0", "BMI2": "pdep %%rax, %%rax, %%rax",
               "AVX-512": "vpxord %%zmm0, %%zmm0, %%zmm0"}
SIGILL = -signal.SIGILL
MIB = 1 << 20
REFUSED = re.compile(r"a start needs [\d.]+ \w+, [\d.]+ \w+ (are available|its control group leaves)")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30, "TiB": 1 << 40}

SOURCE, BUILD = (os.path.realpath(p) for p in sys.argv[1:3])
CLIENT = ["-c", "/etc/weft/client.ini"]


def make(out):
    """The image, or why there is none."""
    for cmd in ([os.path.join(SOURCE, "apps/package/deb.py"), "--build", os.path.join(SOURCE, "build-deb"), out + "/debs"],
                [os.path.join(SOURCE, "apps/package/image.py"), out + "/debs", out + "/image.tar"]):
        p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if p.returncode and "mmdebstrap" in p.stdout and "Temporary failure" in p.stdout:
            skip("the mirror of Debian cannot be reached: mmdebstrap takes packages of bookworm from it; a network, or a mirror in "
                 "APT's proxy settings, is needed")
        if p.returncode:
            return p.stdout
    return ""


def unpack(image, root):
    """Check each digest on the way from the index to the layer, and unpack it. Returns the configuration."""
    with tarfile.open(image) as tar:
        def blob(d):
            data = tar.extractfile("blobs/sha256/" + d["digest"].split(":")[1]).read()
            assert hashlib.sha256(data).hexdigest() == d["digest"].split(":")[1] and len(data) == d["size"]
            return data
        index = json.load(tar.extractfile("index.json"))
        manifest = json.loads(blob(index["manifests"][0]))
        config = json.loads(blob(manifest["config"]))
        plain = gzip.decompress(blob(manifest["layers"][0]))
        assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(plain).hexdigest()]
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        # Devices are the engine's.
        tar.extractall(root, [m for m in tar if not m.isdev()], numeric_owner=True)
    return config["config"]


class Container:
    """A root, and the id of the user that runs in it."""

    def __init__(self, root, config, uid):
        self.root, self.config, self.uid = root, config, uid

    def status(self):
        """What /proc says of the target."""
        with open(self.there(f"proc/{self.pid}/status"), encoding="utf-8") as f:
            return f.read()

    def there(self, p):
        """A path of it, from here."""
        return os.path.join(self.root, p)

    def command(self, *args):
        """A command in it, by the user."""
        return ["chroot", self.root, "setpriv", f"--reuid={self.uid}", "--regid=0", "--clear-groups", "--bounding-set=-all",
                "--inh-caps=-all", "--no-new-privs", "env", "-i", *self.config["Env"], *self.program(*args)]

    def program(self, *args):
        """How a program of it is started."""
        return args

    def run(self, *args):
        """(status, output)"""
        p = subprocess.run(self.command(*args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60,
                           stdin=subprocess.DEVNULL)
        return p.returncode, p.stdout

    def target(self):
        """Start the entry point, and wait until it serves."""
        log = open(os.path.join(self.root, "tmp/log"), "w", encoding="utf-8")
        proc = subprocess.Popen(self.command(*self.config["Entrypoint"]), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.await_ready(proc)
        self.pid = proc.pid
        return proc

    def await_ready(self, proc):
        """Wait until the target serves, or has ended."""
        end = time.monotonic() + 30
        while time.monotonic() < end and proc.poll() is None and "ready:" not in self.said():
            time.sleep(0.05)

    def said(self):
        """The target's log."""
        with open(os.path.join(self.root, "tmp/log"), encoding="utf-8") as f:
            return f.read()


class Old(Container):
    """The same, on an emulated processor."""

    def program(self, name, *args):
        return "/tmp/" + EMULATOR, "-cpu", CPU, name if "/" in name else "/usr/bin/" + name, *args


class Podman(Container):
    """A container of podman. Its folders /tmp and /var/lib/weft are volumes, which stay while it ends and starts again."""

    RUNTIME = "runc"  # crun refuses a host whose controllers of control groups are of both versions
    NAME = "weft-image-test"

    def __init__(self, out, uid):
        super().__init__(os.path.join(out, "shared"), {}, uid)
        os.makedirs(self.there("tmp"))
        os.chmod(self.there("tmp"), 0o1777)
        self.started = 0
        self.podman = ["podman", "--root", out + "/podman", "--runroot", out + "/podman.run", "--storage-driver", "vfs",
                       "--cgroup-manager", "cgroupfs", "--events-backend", "file", "--runtime", self.RUNTIME]

    def do(self, *args, timeout=120):
        """(status, output) of podman."""
        p = subprocess.run([*self.podman, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=timeout,
                           stdin=subprocess.DEVNULL)
        return p.returncode, p.stdout

    def options(self):
        """Those of the page of apps/package/image.py."""
        # Limits that this process may not raise are not asked for.
        limits = [f"--ulimit={n}={v}:{v}" for n, v in (("nofile", 1024), ("nproc", 4096))]
        return [*limits, "--network=none", f"--user={self.uid}:0", "--cap-drop=all", "--read-only", "--read-only-tmpfs=false",
                "--tmpfs=/run/weft:mode=0775", "--shm-size=64m", "--security-opt=no-new-privileges", "-v", f"{self.there('tmp')}:/tmp"]

    def create(self, image):
        """Load the image, and make the container. (status, output)"""
        rc, out = self.do("load", "-i", image)
        return (rc, out) if rc else self.do("create", "--name", self.NAME, *self.options(), "-v", "exports:/var/lib/weft", "weft-target")

    def once(self, *args, memory=None):
        """A container of its own that ends by itself, or after 20 s. (status, output)"""
        limit = [f"--memory={memory}", f"--memory-swap={memory}"] if memory else []
        return self.do("run", "--rm", "--timeout=20", *self.options(), *limit, "-v", "once:/var/lib/weft",
                       "--entrypoint", json.dumps(["/usr/bin/" + args[0], *args[1:]]), "weft-target")

    def command(self, *args):
        return [*self.podman, "exec", self.NAME, *args]

    def target(self):
        """Start it, and wait until it serves. Returns what is waited for and signalled as a process is."""
        rc, out = self.do("start", self.NAME)
        assert rc == 0, out
        self.started += 1
        self.await_ready(self)
        return self

    def await_ready(self, proc):
        # The log has what each start has said.
        end = time.monotonic() + 30
        while time.monotonic() < end and self.said().count("ready:") < self.started and proc.poll() is None:
            time.sleep(0.1)

    def wait(self, timeout=60):
        """Its status when it has ended."""
        return int(self.do("wait", self.NAME, timeout=timeout)[1])

    def status(self):
        pid = int(self.do("inspect", "-f", "{{.State.Pid}}", self.NAME)[1])
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            return f.read()

    def poll(self):
        running, status = self.do("inspect", "-f", "{{.State.Running}} {{.State.ExitCode}}", self.NAME)[1].split()
        return None if running == "true" else int(status)

    def send_signal(self, sig):
        self.do("kill", "-s", str(int(sig)), self.NAME)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def said(self):
        return self.do("logs", self.NAME)[1]


def quickstart(c, note):
    """What apps/quickstart does, in the container."""
    there = c.there
    for n in ("old", "new"):
        with open(there("tmp/" + n), "wb") as f:
            f.write(os.urandom(24 << 20))
        os.chmod(there("tmp/" + n), 0o644)
    target = c.target()
    check(f"{note}: user {c.uid} of group 0, no capability, read-only root: it serves", "ready:" in c.said(), c.said())
    status = dict(t.split(":\t", 1) for t in c.status().splitlines() if ":\t" in t)
    check(f"{note}: no capability, the user's id, ordinary pages", status["CapEff"] == status["CapBnd"] == "0" * 16
          and status["Uid"].split()[0] == str(c.uid) and status["HugetlbPages"].split()[0] == "0", status)
    rc, out = c.run("weft-ctl", "export", "create", "demo", "size=64M", "path=/var/lib/weft/demo.weft")
    check(f"{note}: an export is made", rc == 0, out)
    rc, out = c.run("weft-cp", "-q", *CLIENT, "/tmp/old", "weft://10.0.0.1/demo")
    check(f"{note}: push", rc == 0, out)
    second = subprocess.Popen(c.command("weft-cp", "-q", *CLIENT, "--reconnect", "0", "--rate", "8M", "/tmp/new",
                                        "weft://10.0.0.1/demo"),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    target.send_signal(signal.SIGKILL)
    target.wait()
    check(f"{note}: killed in the middle of a second push, which fails", second.wait(60) != 0)
    target = c.target()
    rc, out = c.run("weft-cp", "-q", *CLIENT, "weft://10.0.0.1/demo", "/tmp/out")
    check(f"{note}: after the restart the first push is there", rc == 0 and filecmp.cmp(there("tmp/out"), there("tmp/old"), False),
          out, c.said())
    target.terminate()
    check(f"{note}: SIGTERM ends it in order", target.wait(30) == 0, c.said())


def sized(c, note):
    """What --size says of so many volumes and clients, in octets, and a start with less memory than a configuration needs."""
    rc, out = c.run("weft-target", "-c", "/etc/weft/target.ini", "--size", "--volumes", "20", "--clients", "500")
    rows = {name: float(n) * UNITS[unit] for name, n, unit in re.findall(r"^(\S.*?) {2,}([\d.]+) (B|[KMGT]iB)  ", out, re.M)}
    check(f"{note}: --size tells what 20 volumes and 500 clients take", rc == 0 and rows.get("volumes", 0) >= 20 * 160 << 10
          and abs(rows.get("clients", 0) - 500 * 72 * 1024) < MIB and rows["in all"] > rows["needed to start"] > rows["volumes"], out)
    with open(c.there("tmp/much.ini"), "w", encoding="utf-8") as f:
        f.write("[port p0]\ndev = net_ring0\naddress = 10.0.0.1/24\n"
                f"[target]\nstaging = {int(rows.get('memory, available', 0)) // MIB + 2048}M\n"
                "[export x]\nformat = volume\npersist = volatile\nrights = read,write\nsize = 4M\n")
    os.chmod(c.there("tmp/much.ini"), 0o644)
    rc, out = c.run("weft-target", "-c", "/tmp/much.ini", "--size")
    check(f"{note}: --size has exit status 1 for what does not fit", rc == 1 and "needed to start" in out, rc, out)
    rc, out = c.run("weft-target", "-c", "/tmp/much.ini")
    check(f"{note}: a start with less is refused, with both figures", rc == 1 and REFUSED.search(out) and out.count("\n") == 1, rc, out)
    return rows.get("needed to start", 0)


def limited(c, need):
    """A limit of the container's memory counts: below what a start needs it is refused, above it serves."""
    less, more = int(need) // 2, int(need) + 64 * MIB
    rc, out = c.once("weft-target", "-c", "/etc/weft/target.ini", "--size", memory=less)
    if rc not in (0, 1):  # podman's own: it could not make the container
        check(f"podman: a limit of memory # SKIP podman cannot set one here (status {rc}): {out.strip()[-200:]}; it takes a host whose "
              "control groups have the controller memory (cgroup_enable=memory)", True)
        return
    left = re.search(r"^memory, available +([\d.]+) (B|[KMGT]iB)", out, re.M)
    check(f"podman: in {less // MIB} MiB --size says that less is available, and has exit status 1",
          rc == 1 and left and float(left[1]) * UNITS[left[2]] <= less, rc, out)
    rc, out = c.once("weft-target", "-c", "/etc/weft/target.ini", memory=less)
    check(f"podman: in {less // MIB} MiB a start is refused, with both figures",
          rc == 1 and REFUSED.search(out) and "control group" in out, rc, out)
    rc, out = c.once("weft-target", "-c", "/etc/weft/target.ini", memory=more)
    check(f"podman: in {more // MIB} MiB it serves", "ready:" in out, rc, out)


def old_processor(c, out):
    """The emulated processor refuses what is newer, and the programs of the image do their work on it."""
    emulator = shutil.which(EMULATOR)
    if platform.machine() != "x86_64" or emulator is None:
        check(f"{CPU} # SKIP " + (no_program(EMULATOR, "qemu-user-static") if platform.machine() == "x86_64" else
                                  "the host is no x86-64, whose baseline this is"), True)
        return
    shutil.copy(emulator, c.there("tmp/" + EMULATOR))
    ran = []
    for name, op in TOO_NEW_OPS.items():
        probe = os.path.join(out, "probe")
        subprocess.run(["cc", "-x", "c", "-static", "-o", probe, "-"], input=TOO_NEW % op, text=True, check=True)
        p = subprocess.run([emulator, "-cpu", CPU, probe], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if p.returncode != SIGILL:
            ran.append((name, p.returncode))
    check(f"{CPU}: the emulated processor refuses {', '.join(TOO_NEW_OPS)}", not ran, ran)
    programs = sorted(n for n in os.listdir(c.there("usr/bin")) if n.startswith("weft-"))
    wrong = {n: got for n in programs if is_elf(c.there("usr/bin/" + n)) and (got := c.run(n, "--version"))[0] != 0}
    check(f"{CPU}: {len(programs)} programs start", not wrong and len(programs) >= 9, wrong)
    quickstart(c, CPU)


def is_elf(path):
    """Whether it is a program, and no script."""
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def random_uid():
    """The id of a user that no image knows."""
    return random.Random(int(os.environ.get("WEFT_TEST_SEED", "0")) or None).randrange(100000, 2 ** 31)


def engine(out):
    """By podman."""
    if shutil.which("podman") is None or shutil.which(Podman.RUNTIME) is None:
        check("podman # SKIP " + no_program(f"podman or no {Podman.RUNTIME}", "podman runc"), True)
        return
    c = Podman(out, random_uid())
    try:
        rc, said = c.create(out + "/image.tar")
        check("podman takes the image", rc == 0, said)
        if rc == 0:
            quickstart(c, "podman")
            c.target()
            limited(c, sized(c, "podman"))
    finally:
        c.do("rm", "-f", "-t", "0", c.NAME)
        c.do("volume", "rm", "exports", "once")


def main():
    if os.getuid() != 0:
        skip("making an image takes root: mmdebstrap makes device files and owners; run test/run deb as root")
    if shutil.which("mmdebstrap") is None:
        skip(no_program("mmdebstrap"))
    out = tempfile.mkdtemp(prefix="weft-image.")
    try:
        why = make(out)
        if why:
            check("the image is made", False, why)
            return end()
        engine(out)
        return subprocess.run(["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", sys.executable, *sys.argv, out,
                               str(cases.count), str(cases.bad)], check=False).returncode
    finally:
        shutil.rmtree(out, ignore_errors=True)


def volume(root, at):
    """The volume for the exports, as an engine makes it: a folder that has the owner and mode of the image's."""
    data = os.path.join(root, "var/lib/weft")
    shutil.copytree(data, at)
    for a, b in ((data, at), (data + "/state", at + "/state")):
        st = os.stat(a)
        os.chown(b, st.st_uid, st.st_gid)
        os.chmod(b, st.st_mode & 0o7777)
    subprocess.run(["mount", "--bind", at, data], check=True)
    return data


def in_root(out):
    """Mount what an engine mounts, and run."""
    cases.count, cases.bad = int(sys.argv[4]), int(sys.argv[5])
    root = os.path.join(out, "root")
    os.mkdir(root)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "root", root], check=True)
    config = unpack(os.path.join(out, "image.tar"), root)
    check("the digests of the image hold", True)
    for fs, where, options in (("proc", "proc", "rw"), ("sysfs", "sys", "ro"), ("tmpfs", "dev", "mode=755"), ("tmpfs", "tmp", "mode=1777"),
                               ("tmpfs", "run/weft", "mode=0775")):
        subprocess.run(["mount", "-t", fs, "-o", options, fs, os.path.join(root, where)], check=True)
    for n in ("null", "zero", "urandom", "random"):
        with open(os.path.join(root, "dev", n), "wb"):
            pass
        subprocess.run(["mount", "--bind", "/dev/" + n, os.path.join(root, "dev", n)], check=True)
    data = volume(root, os.path.join(out, "volume"))
    subprocess.run(["mount", "-o", "remount,ro", root], check=True)
    here = Container(root, config, random_uid())
    quickstart(here, "here")
    sized(here, "here")
    subprocess.run(["umount", data], check=True)
    volume(root, os.path.join(out, "volume.old"))
    old_processor(Old(root, config, here.uid), out)
    return end()


if __name__ == "__main__":
    sys.exit(in_root(sys.argv[3]) if len(sys.argv) > 3 else main())
