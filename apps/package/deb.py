#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian packages of weft: apps/package/deb.py [--build BUILD] [--version VERSION] OUT

Builds the tree for /usr in BUILD [build-deb] if that is not done, installs it into a scratch root, and makes of it in OUT

  libweft0.1          the libraries, and the drivers of DPDK that every host needs
  libweft-dev         headers, static libraries, pkg-config files, pages of section 3
  weft                the programs
  weft-target         the target as a service: unit, user, folders, /etc/weft
  nbdkit-plugin-weft  and weft-rbd, where they are built
  weft-dbg            what debuggers need

DEBFULLNAME and DEBEMAIL name the maintainer. The packages are the same octet for octet when they are made of the same commit and builds.
"""
import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
MAINTAINER = f"{os.environ.get('DEBFULLNAME', 'weft')} <{os.environ.get('DEBEMAIL', 'packages@weft.invalid')}>"
HOMEPAGE = "https://weft.invalid/"
# Drivers of DPDK are no shared libraries that a program links: EAL loads those that are installed.
DRIVERS = ["bus-pci", "bus-vdev", "mempool-ring", "net-af-packet", "net-af-xdp", "net-memif", "net-ring", "net-tap"]
# Of the NICs that are seen most; others are packages of Debian as well.
NICS = ["bond", "e1000-", "ena", "i40e", "iavf", "ice", "ixgbe", "mlx5-", "virtio", "vmxnet3-"]
DOCS_NOT = {"architecture.md", "conformance.md", "fuzzing.md", "README.md"}


def run(*args, **more):
    """Run a command, and return its output."""
    return subprocess.run(args, stdout=subprocess.PIPE, text=True, check=True, **more).stdout


class Package:
    """One package: its folder, its paths, its relations."""

    def __init__(self, name, files, about, text, section="net", **control):
        self.name, self.files, self.about, self.text, self.section, self.control = name, files, about, text, section, control
        self.conffiles, self.scripts = [], {}


def packages(abi, multiarch):
    """What goes where; the first package whose pattern fits a path has it."""
    lib = f"usr/lib/{multiarch}"
    rte = rte_abi()
    drivers = ", ".join(f"librte-{d}{'-' if d[-1].isdigit() else ''}{rte}" for d in DRIVERS)
    more = ", ".join(f"librte-net-{d}{rte}" for d in NICS)
    return [
        Package("nbdkit-plugin-weft", [f"{lib}/nbdkit/"], "volumes of a weft target as block devices", "A plug-in of nbdkit.",
                Depends="nbdkit"),
        Package("weft-rbd", ["usr/libexec/weft/"], "images of Ceph clusters as volumes of a weft target",
                "The program behind the block driver rbd of weft-target.", Enhances="weft-target"),
        Package("weft-target", ["usr/bin/weft-target", "usr/lib/systemd/", "usr/lib/sysusers.d/", "usr/lib/tmpfiles.d/",
                                "usr/share/man/man8/weft-target.8", "usr/share/man/man5/", "usr/share/weft/", "etc/"],
                "target for persistent memory, logs and volumes over RDMA",
                "Exports files, persistent memory, remote logs and volumes to initiators over\n"
                "iWARP, without a kernel module or RDMA hardware.",
                Depends="weft (= ${version}), adduser, init-system-helpers (>= 1.54~)",
                Suggests="weft-rbd, nbdkit-plugin-weft"),
        Package("libweft-dev", ["usr/include/", f"{lib}/pkgconfig/", f"{lib}/*.a", f"{lib}/*.so", "usr/share/man/man3/"],
                "RDMA in user space (development files)", "Headers, static libraries and pages of the functions.", "libdevel",
                Depends=f"libweft{abi} (= ${{version}}), libtirpc-dev",
                Suggests="libdpdk-dev, libisal-dev, libssl-dev, libpmem-dev, liburing-dev, libnuma-dev"),
        Package(f"libweft{abi}", [f"{lib}/libweft"], "RDMA in user space (shared libraries)",
                "iWARP over a TCP of its own on DPDK, with RDMA Flush, Verify and Atomic Write;\nRPC-over-RDMA, remote logs and volumes.",
                "libs", Depends=drivers, Recommends=more),
        Package("weft", ["usr/"], "programs for RDMA in user space",
                "Copies files to and from a weft target, measures, pings, looks into a running\ntarget, "
                "examines exports, and runs unmodified RDMA programs.", Suggests="weft-target, rdmacm-utils"),
    ]


def rte_abi():
    """The number that ends the names of DPDK's packages."""
    libdir = run("pkg-config", "--variable=libdir", "libdpdk").strip()
    return re.search(r"\.so\.(\d+)", os.readlink(os.path.join(libdir, "librte_eal.so")))[1]


def matches(path, patterns):
    """Whether a path is one of a package's."""
    for p in patterns:
        if "*" in p:
            folder, _, end = p.partition("*")
            if path.startswith(folder) and path.endswith(end) and "/" not in path[len(folder):]:
                return True
        elif path.startswith(p):
            return True
    return False


def stage(build, root):
    """Install the tree, and what only packages have."""
    if not os.path.exists(os.path.join(build, "build.ninja")):
        subprocess.run(["meson", "setup", build, TOP, "--buildtype=release", "-Dc_args=-g1", "-Dtests=false", "--prefix=/usr",
                        "--sysconfdir=/etc", "--localstatedir=/var", "-Dc_link_args=-Wl,-z,relro,-z,now"], check=True, stdout=sys.stderr)
    subprocess.run(["ninja", "--quiet", "-C", build, *os.environ.get("WEFT_NINJA", "").split()], check=True, stdout=sys.stderr)
    env = {k: v for k, v in os.environ.items() if k != "DESTDIR"}
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root], check=True, stdout=sys.stderr, env=env)
    os.makedirs(os.path.join(root, "etc/weft"))
    for f in ("target.ini", "client.ini"):
        shutil.copy(os.path.join(HERE, f), os.path.join(root, "etc/weft", f))


def elf(path):
    """Whether a file is a program or a shared library."""
    if os.path.islink(path):
        return False
    with open(path, "rb") as f:
        head = f.read(20)
    return head[:4] == b"\x7fELF" and head[16] in (2, 3)


def debug_of(path, root):
    """Move what debuggers need out of a file, to where they look for it."""
    ident = re.search(r"Build ID: (\w+)", run("readelf", "-n", path))[1]
    to = os.path.join(root, "usr/lib/debug/.build-id", ident[:2], ident[2:] + ".debug")
    os.makedirs(os.path.dirname(to), exist_ok=True)
    run("objcopy", "--only-keep-debug", "--compress-debug-sections", path, to)
    os.chmod(to, 0o644)
    run("strip", "--strip-unneeded", "--remove-section=.comment", "--remove-section=.note", path)
    run("objcopy", f"--add-gnu-debuglink={to}", path)


def zipped(text, to):
    """Write a file as gzip -9n does."""
    os.makedirs(os.path.dirname(to), exist_ok=True)
    with open(to, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as f:
        f.write(text.encode())


def pages_zipped(root):
    """Compress pages; one that leads to another becomes a link."""
    man = os.path.join(root, "usr/share/man")
    for folder, _, files in os.walk(man):
        for name in files:
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as f:
                text = f.read()
            os.unlink(path)
            if text.startswith(".so "):
                os.symlink(os.path.basename(text[4:].strip()) + ".gz", path + ".gz")
            else:
                zipped(text, path + ".gz")


def documents(pkg, root, version, date):
    """What every package has below /usr/share/doc."""
    doc = os.path.join(root, "usr/share/doc", pkg.name)
    os.makedirs(doc)
    with open(os.path.join(TOP, "LICENSE"), encoding="utf-8") as f, open(os.path.join(doc, "copyright"), "w", encoding="utf-8") as out:
        out.write("This is weft. Its license:\n\n" + f.read())
    zipped(f"weft ({version}) unstable; urgency=medium\n\n  * As of this commit; changes: /usr/share/doc/weft.\n\n"
           f" -- {MAINTAINER}  {date}\n", os.path.join(doc, "changelog.Debian.gz"))
    if pkg.name == "weft":
        with open(os.path.join(TOP, "docs/changelog.md"), encoding="utf-8") as f:
            zipped(f.read(), os.path.join(doc, "changelog.gz"))
        for name in sorted(os.listdir(os.path.join(TOP, "docs"))):
            if name.endswith(".md") and name not in DOCS_NOT | {"changelog.md"}:
                shutil.copy(os.path.join(TOP, "docs", name), doc)
        shutil.copy(os.path.join(TOP, "README.md"), doc)


def shlib_depends(files, work, version, abi):
    """What the shared libraries of a package come from."""
    if not files:
        return []
    os.makedirs(os.path.join(work, "debian"), exist_ok=True)
    with open(os.path.join(work, "debian/control"), "w", encoding="utf-8") as f:
        f.write("Source: weft\n\nPackage: weft\nArchitecture: any\n")
    with open(os.path.join(work, "shlibs.local"), "w", encoding="utf-8") as f:
        for lib in ("libweft", "libweft_rpc", "libweft_log", "libweft_volume"):
            f.write(f"{lib} {abi} libweft{abi} (= {version})\n")
    dirs = sorted({os.path.dirname(f) for f in files if ".so" in f} | {os.path.join(work, "root/usr/lib", d)
                                                                      for d in os.listdir(os.path.join(work, "root/usr/lib"))})
    out = run("dpkg-shlibdeps", "-O", "--ignore-missing-info", "-L" + os.path.join(work, "shlibs.local"), *["-l" + d for d in dirs],
              *["-e" + f for f in files], cwd=work, stderr=subprocess.DEVNULL)
    m = re.search(r"shlibs:Depends=(.*)", out)
    return m[1].split(", ") if m else []


def build_package(pkg, root, work, out, version, abi, date, arch):
    """One .deb."""
    files = [os.path.join(f, n) for f, _, names in os.walk(root) for n in names]
    needs = [] if pkg.name == "weft-dbg" else shlib_depends([f for f in files if elf(f)], work, version, abi)
    needs = [n for n in needs if not n.startswith(pkg.name + " ")]
    depends = [d.replace("${version}", version) for d in pkg.control.get("Depends", "").split(", ") if d]
    fields = {"Package": pkg.name, "Source": "weft", "Version": version, "Architecture": arch, "Maintainer": MAINTAINER,
              "Installed-Size": str(sum(-(-os.lstat(f).st_size // 1024) for f in files)), **pkg.control,
              "Depends": ", ".join(dict.fromkeys(sorted(needs) + depends)), "Section": pkg.section, "Priority": "optional",
              "Homepage": HOMEPAGE}
    if pkg.name.startswith("lib"):
        fields["Multi-Arch"] = "same"
    documents(pkg, root, version, date)
    control = os.path.join(root, "DEBIAN")
    os.makedirs(control)
    with open(os.path.join(control, "control"), "w", encoding="utf-8") as f:
        for k, v in fields.items():
            if v and k != "Source" or k == "Source" and pkg.name != "weft":
                f.write(f"{k}: {v}\n")
        f.write(f"Description: {pkg.about}\n" + "".join(f" {t}\n" for t in pkg.text.split("\n")))
    if pkg.conffiles:
        with open(os.path.join(control, "conffiles"), "w", encoding="utf-8") as f:
            f.write("".join(f"/{c}\n" for c in pkg.conffiles))
    if re.match(r"libweft[\d.]+$", pkg.name):
        with open(os.path.join(control, "triggers"), "w", encoding="utf-8") as f:
            f.write("activate-noawait ldconfig\n")
        with open(os.path.join(control, "shlibs"), "w", encoding="utf-8") as f:
            for lib in ("libweft", "libweft_rpc", "libweft_log", "libweft_volume"):
                f.write(f"{lib} {abi} {pkg.name} (>= {version})\n")
    for name in ("postinst", "prerm", "postrm"):
        script = os.path.join(HERE, f"{pkg.name}.{name}")
        if os.path.exists(script):
            shutil.copy(script, os.path.join(control, name))
            os.chmod(os.path.join(control, name), 0o755)
    sums = [f for f in (os.path.join(d, n) for d, _, names in os.walk(root) for n in names)
            if not f.startswith(control) and not os.path.islink(f) and os.path.relpath(f, root) not in pkg.conffiles]
    with open(os.path.join(control, "md5sums"), "w", encoding="utf-8") as f:
        for line in run("md5sum", *sorted(os.path.relpath(s, root) for s in sums), cwd=root).splitlines():
            f.write(line + "\n")
    for folder, dirs, names in os.walk(root):
        for d in dirs:
            os.chmod(os.path.join(folder, d), 0o755)
        for n in names:
            p = os.path.join(folder, n)
            if not os.path.islink(p):
                os.chmod(p, 0o755 if os.stat(p).st_mode & 0o100 and not p.endswith((".so", ".debug")) and ".so." not in n else 0o644)
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, out, stderr=subprocess.DEVNULL)
    print(os.path.join(out, f"{pkg.name}_{version}_{arch}.deb"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-deb", help="build folder, made if it is not there [build-deb]")
    parser.add_argument("--version", help="version of the packages [that of the tree, and -1]")
    parser.add_argument("out", help="folder for the packages")
    args = parser.parse_args()
    with open(os.path.join(TOP, "meson.build"), encoding="utf-8") as f:
        upstream = re.search(r"version: '([^']+)'", f.read())[1]
    version, abi = args.version or upstream + "-1", ".".join(upstream.split(".")[:2])
    arch = run("dpkg", "--print-architecture").strip()
    multiarch = run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
    if "SOURCE_DATE_EPOCH" not in os.environ:
        epoch = subprocess.run(["git", "-C", TOP, "log", "-1", "--format=%ct"], stdout=subprocess.PIPE, text=True, check=False).stdout
        os.environ["SOURCE_DATE_EPOCH"] = epoch.strip() or "0"
    date = run("date", "-uRd", "@" + os.environ["SOURCE_DATE_EPOCH"]).strip()
    os.makedirs(args.out, exist_ok=True)
    work = tempfile.mkdtemp(prefix="weft-deb.")
    os.umask(0o022)
    try:
        root = os.path.join(work, "root")
        stage(os.path.abspath(args.build), root)
        debug = os.path.join(work, "weft-dbg")
        for folder, _, names in os.walk(root):
            for n in names:
                p = os.path.join(folder, n)
                if elf(p):
                    debug_of(p, debug)
                elif p.endswith(".a"):
                    run("strip", "--strip-debug", "--enable-deterministic-archives", p)
        pages_zipped(root)
        wanted = packages(abi, multiarch)
        placed = {p.name: [] for p in wanted}
        for folder, _, names in os.walk(root):
            for n in names:
                path = os.path.relpath(os.path.join(folder, n), root)
                placed[next(p.name for p in wanted if matches(path, p.files))].append(path)
        for pkg in wanted:
            if not placed[pkg.name]:
                continue
            for path in placed[pkg.name]:
                to = os.path.join(work, pkg.name, path)
                os.makedirs(os.path.dirname(to), exist_ok=True)
                shutil.copy2(os.path.join(root, path), to, follow_symlinks=False)
            pkg.conffiles = sorted(p for p in placed[pkg.name] if p.startswith("etc/"))
            build_package(pkg, os.path.join(work, pkg.name), work, args.out, version, abi, date, arch)
        dbg = Package("weft-dbg", [], "RDMA in user space (debug symbols)",
                      "What debuggers need for weft's programs and libraries.", "debug")
        build_package(dbg, debug, work, args.out, version, abi, date, arch)
    finally:
        shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
