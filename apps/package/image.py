#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A container image of weft-target from the packages: apps/package/image.py [--suite SUITE] DEBS OUT.tar

DEBS is the folder that deb.py made. OUT.tar is an OCI archive: podman load -i OUT.tar, or skopeo copy oci-archive:OUT.tar ... It
needs root, mmdebstrap and a mirror of Debian, and neither podman nor docker. The target in it runs as any user id of the group 0,
without capabilities, on a root that may be read-only: what it writes is below /run/weft and /var/lib/weft.

  podman run --user 12345:0 --cap-drop=all --read-only --read-only-tmpfs=false --tmpfs /run/weft:mode=0775 --shm-size=64m \\
    -v exports:/var/lib/weft weft-target

podman's own tmpfs on /run (--read-only-tmpfs) would hide the folder that gives /run/weft its mode: runc takes it from there. docker
has no such tmpfs, and takes the command without that option.
"""
import argparse
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile

NAMES = ("libweft0", "weft_", "weft-target_")
# A user id that no file of the image belongs to: those of the target belong to the group 0, which has the same rights.
USER = "65532:0"
SHARE = ["/etc/weft", "/var/lib/weft"]
LEFT_OUT = ["/var/cache/apt/*", "/var/lib/apt/lists/*", "/var/log/*", "/usr/share/doc/*", "/usr/share/man/*", "/tmp/*"]


def run(*args, **more):
    """Run a command."""
    return subprocess.run(args, check=True, **more)


def architecture(debs):
    """That of the packages, as engines of containers call it."""
    deb = run("dpkg-deb", "-f", debs[0], "Architecture", stdout=subprocess.PIPE, text=True).stdout.strip()
    return {"i386": "386", "armhf": "arm", "ppc64el": "ppc64le"}.get(deb, deb)


def depends(debs):
    """What the packages need of Debian."""
    needs = set()
    for deb in debs:
        text = run("dpkg-deb", "-f", deb, "Depends", stdout=subprocess.PIPE, text=True).stdout
        needs |= {re.split(r"[ (]", x.strip())[0] for x in text.strip().split(",")}
    return sorted(n for n in needs if n and not n.startswith(("weft", "libweft")))


def blob(folder, data):
    """Put a blob into a layout; its descriptor."""
    digest = hashlib.sha256(data).hexdigest()
    with open(os.path.join(folder, "blobs/sha256", digest), "wb") as f:
        f.write(data)
    return {"digest": "sha256:" + digest, "size": len(data)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="bookworm", help="Debian's suite that the packages were made on [bookworm]")
    parser.add_argument("debs", help="folder of the packages")
    parser.add_argument("out", help="archive to write")
    args = parser.parse_args()
    debs = [os.path.join(args.debs, n) for n in sorted(os.listdir(args.debs)) if n.startswith(NAMES)]
    if len(debs) != len(NAMES):
        print(f"image.py: {args.debs} has to have one version of each of {', '.join(NAMES)}; it has {len(debs)} files", file=sys.stderr)
        return 1
    epoch = int(os.environ.setdefault("SOURCE_DATE_EPOCH", "0"))
    with tempfile.TemporaryDirectory(prefix="weft-image.") as tmp:
        layer = os.path.join(tmp, "root.tar")
        share = " ".join(f'"$1{p}"' for p in SHARE)
        run("mmdebstrap", "--variant=minbase", "--skip=cleanup/run", "--include=" + ",".join(depends(debs)),
            '--customize-hook=mkdir "$1/debs"', *[f"--customize-hook=copy-in {d} /debs" for d in debs],
            '--customize-hook=chroot "$1" sh -c "dpkg -i /debs/*.deb"', '--customize-hook=rm -r "$1/debs"',
            f'--customize-hook=mkdir -p "$1/run/weft" && chgrp -R 0 {share} "$1/run/weft" && chmod -R g=u {share} '
            f'&& chmod 0775 "$1/run/weft"',
            "--customize-hook=rm -rf " + " ".join(f'"$1"{p}' for p in LEFT_OUT), args.suite, layer,
            stdout=sys.stderr)
        layout = os.path.join(tmp, "layout")
        os.makedirs(os.path.join(layout, "blobs/sha256"))
        with open(layer, "rb") as f:
            plain = f.read()
        config = {"architecture": architecture(debs), "os": "linux",
                  "config": {"User": USER, "Env": ["PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=/run/weft"],
                             "Entrypoint": ["/usr/bin/weft-target", "-c", "/etc/weft/target.ini"],
                             "Volumes": {"/var/lib/weft": {}}, "StopSignal": "SIGTERM"},
                  "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(plain).hexdigest()]}}
        packed = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **blob(layout, gzip.compress(plain, 6, mtime=0))}
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                    "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **blob(layout, json.dumps(config).encode())},
                    "layers": [packed]}
        entry = {"mediaType": manifest["mediaType"], **blob(layout, json.dumps(manifest).encode()),
                 "annotations": {"org.opencontainers.image.ref.name": "weft-target"}}
        for name, value in (("oci-layout", {"imageLayoutVersion": "1.0.0"}), ("index.json", {"schemaVersion": 2, "manifests": [entry]})):
            with open(os.path.join(layout, name), "w", encoding="utf-8") as f:
                json.dump(value, f)
        with tarfile.open(args.out, "w") as tar:
            for name in ("oci-layout", "index.json", "blobs"):
                tar.add(os.path.join(layout, name), name, filter=lambda t: plain_entry(t, epoch))
    print(args.out)
    return 0


def plain_entry(t, epoch):
    """An entry of the archive without what differs from run to run."""
    t.uid = t.gid = 0
    t.uname = t.gname = "root"
    t.mtime = epoch
    return t


if __name__ == "__main__":
    sys.exit(main())
