# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of packages begin with: two versions of the packages, and a Debian with what they depend on."""
import os
import re
import subprocess
import sys

from cases import check, end, skip

# Packages that are made and looked at, and not installed here.
NOT_HERE = ("weft-rbd", "nbdkit", "weft-dbg")


def make_packages(source, out):
    """Two versions of the packages, of the same programs. Returns why there are none, or nothing."""
    for version in ("0.0.1-1", "0.0.1-2"):
        p = subprocess.run([os.path.join(source, "apps/package/deb.py"), "--build", os.path.join(source, "build-deb"), "--version", version,
                            out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if p.returncode:
            return p.stdout
    return ""


def make_root(debs, tar, *more):
    """The archive of a root, with what the packages depend on and more, once: the rest of the test needs no network. Ends the test
    if it cannot be made."""
    if os.path.exists(tar):
        return
    needs = set(more)
    for n in os.listdir(debs):
        if "_0.0.1-1_" in n and not n.startswith(NOT_HERE):
            d = subprocess.run(["dpkg-deb", "-f", os.path.join(debs, n), "Depends"], stdout=subprocess.PIPE, text=True, check=True)
            needs |= {re.split(r"[ (]", x.strip())[0] for x in d.stdout.strip().split(",")}
    needs = sorted(n for n in needs if n and not n.startswith(("weft", "libweft")))
    new = tar.replace(".tar", ".new.tar")
    p = subprocess.run(["mmdebstrap", "--variant=minbase", "--include=" + ",".join(needs), "bookworm", new], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, check=False)
    # Without a network there is no root. Anything else, a package that Debian has not for example, is a fault.
    if p.returncode and re.search("Temporary failure|Could not resolve|Could not connect", p.stdout):
        skip("mmdebstrap has made no root: " + " ".join(t for t in p.stdout.split("\n") if t.startswith("E:")) +
             "; it takes packages of bookworm from Debian's mirror, once: a network, or a mirror in APT's settings, is needed")
    if p.returncode:
        check("the root is made, with what the packages depend on", False, p.stdout)
        sys.exit(end())
    os.rename(new, tar)
