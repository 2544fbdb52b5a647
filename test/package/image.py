#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The container image: image.py SOURCE BUILD. TAP.

apps/package/image.py makes it from the packages. Its entry point runs as a random user id, with all capabilities dropped, on a
read-only root, with namespaces of its own, without hugepages: a push, kill -9 in the middle of a second push, a restart, a pull.
podman runs it, where there is one; and the layer is unpacked and run here as an engine does, which needs none.
"""
import filecmp
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

import cases
from cases import check, end, skip

SOURCE, BUILD = (os.path.realpath(p) for p in sys.argv[1:3])
CLIENT = ["-c", "/etc/weft/client.ini"]


def make(out):
    """The image, or why there is none."""
    for cmd in ([os.path.join(SOURCE, "apps/package/deb.py"), "--build", os.path.join(SOURCE, "build-deb"), out + "/debs"],
                [os.path.join(SOURCE, "apps/package/image.py"), out + "/debs", out + "/image.tar"]):
        p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if p.returncode and "mmdebstrap" in p.stdout and "Temporary failure" in p.stdout:
            skip("the mirror of Debian cannot be reached")
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
                "--inh-caps=-all", "--no-new-privs", "env", "-i", *self.config["Env"], *args]

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

    def create(self, image):
        """Load the image, and make the container of the page of apps/package/image.py. (status, output)"""
        rc, out = self.do("load", "-i", image)
        # Limits that this process may not raise are not asked for.
        limits = [f"--ulimit={n}={v}:{v}" for n, v in (("nofile", 1024), ("nproc", 4096))]
        return (rc, out) if rc else self.do(
            "create", "--name", self.NAME, *limits, "--network=none", f"--user={self.uid}:0", "--cap-drop=all", "--read-only",
            "--read-only-tmpfs=false", "--tmpfs=/run/weft:mode=0775", "--shm-size=64m", "--security-opt=no-new-privileges",
            "-v", f"{self.there('tmp')}:/tmp", "-v", "exports:/var/lib/weft", "weft-target")

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


def random_uid():
    """The id of a user that no image knows."""
    return random.Random(int(os.environ.get("WEFT_TEST_SEED", "0")) or None).randrange(100000, 2 ** 31)


def engine(out):
    """By podman."""
    if shutil.which("podman") is None or shutil.which(Podman.RUNTIME) is None:
        check(f"podman # SKIP there is no podman or no {Podman.RUNTIME}", True)
        return
    c = Podman(out, random_uid())
    try:
        rc, said = c.create(out + "/image.tar")
        check("podman takes the image", rc == 0, said)
        if rc == 0:
            quickstart(c, "podman")
    finally:
        c.do("rm", "-f", "-t", "0", c.NAME)
        c.do("volume", "rm", "exports")


def main():
    if os.getuid() != 0:
        skip("making an image takes root")
    if shutil.which("mmdebstrap") is None:
        skip("there is no mmdebstrap")
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
    # The volume for the exports, as an engine makes it: a folder that has the owner and mode of the image's.
    data = os.path.join(root, "var/lib/weft")
    volume = os.path.join(out, "volume")
    shutil.copytree(data, volume)
    for a, b in ((data, volume), (data + "/state", volume + "/state")):
        st = os.stat(a)
        os.chown(b, st.st_uid, st.st_gid)
        os.chmod(b, st.st_mode & 0o7777)
    subprocess.run(["mount", "--bind", volume, data], check=True)
    subprocess.run(["mount", "-o", "remount,ro", root], check=True)
    quickstart(Container(root, config, random_uid()), "here")
    return end()


if __name__ == "__main__":
    sys.exit(in_root(sys.argv[3]) if len(sys.argv) > 3 else main())
