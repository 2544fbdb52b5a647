#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A volume and a file of several GiB: WEFT_VOLUME_GIB [8]. Pushed and pulled by windows and by calls; the content is equal, the
target's memory does not grow with it, and the page cache does not hold the volume."""
import hashlib
import os
import subprocess
import time

from test_volume import copied, resident, volume
from weft_e2e import Target, main, path

GIB = int(os.environ.get("WEFT_VOLUME_GIB") or 8)
MIB = 1 << 20


def large(name):
    """A file of GIB GiB, each MiB of which is another one; its hash."""
    h, block = hashlib.sha256(), os.urandom(MIB)
    with open(path(name), "wb") as f:
        for i in range(GIB * 1024):
            piece = i.to_bytes(8, "big") + block[8:]
            h.update(piece)
            f.write(piece)
    return h.hexdigest()


def sha256(name):
    h = hashlib.sha256()
    with open(name, "rb") as f:
        while piece := f.read(MIB):
            h.update(piece)
    return h.hexdigest()


def test_both_ways():
    want = large("big.in")
    t = Target("big", {"disk": volume("big.disk", f"{GIB + 1}G")}, extra="credits = 32").start()
    for way in ([], ["--pull"]):
        begin = time.monotonic()
        copied(t, *way, "-q", "--block", "1M", path("big.in"), "weft://10.0.0.1/disk", timeout=1200)
        pushed = time.monotonic()
        copied(t, "-q", "--block", "1M", "--length", f"{GIB}G", "weft://10.0.0.1/disk", path("big.out"), timeout=1200)
        pulled = time.monotonic()
        assert sha256(path("big.out")) == want
        os.unlink(path("big.out"))
        print(f"# {'calls' if way else 'windows'}: pushed in {pushed - begin:.0f} s, pulled in {pulled - pushed:.0f} s", flush=True)
    rss = resident(t.proc.pid)
    cached = subprocess.run(["fincore", "-bnro", "RES", path("big.disk")], capture_output=True, text=True).stdout.strip()
    print(f"# the target has {rss >> 20} MiB resident, the page cache {int(cached or 0) >> 20} MiB of the volume", flush=True)
    assert rss < 1 << 30 and int(cached or 0) < 64 * MIB, (rss, cached)
    assert t.term() == 0


if __name__ == "__main__":
    main([test_both_ways])
