#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fio, qperf and libfabric over weft, and the table of programs in docs/verbs.md: test_programs.py BUILD [CASE...]. TAP.

With --versions it prints that table and runs nothing.
"""
import hashlib
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import SERVER, check  # noqa: E402

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
# Package, programs, and what the tests of this folder compare.
PROGRAMS = [("ibverbs-utils", "ibv_devices, ibv_devinfo", "GUID, port, GID, limits"),
            ("rdmacm-utils", "rping, ucmatose, rdma_client, rdma_server, rdma_xclient, rdma_xserver, cmtime, rstream, riostream, rcopy",
             "the data of both ends"),
            ("perftest", "ib_write_bw, ib_write_lat, ib_read_bw, ib_read_lat, ib_send_bw, ib_send_lat, ib_atomic_bw, ib_atomic_lat",
             "figures, and the memory of both ends"),
            ("fio", "fio with ioengine=rdma", "octets, and the memory of both ends"),
            ("qperf", "qperf with -cm 1, tests rc_*", "figures"),
            ("libfabric-bin", "fi_info, fi_pingpong over verbs and verbs;ofi_rxm", "messages and data that fi_pingpong checks"),
            ("librdmacm1", "librspreload with iperf, Python, curl", "SHA-256 of 1 GiB, files from a web server"),
            ("iperf", "iperf 2 over librspreload", "octets at both ends"),
            ("tgt", "tgtd's iSER target", "the disk of the target"),
            ("libiscsi-bin", "iscsi-inq, iscsi-readcapacity16, iscsi-test-cu; a program of ours", "what was written and read"),
            ("qemu-system-x86", "live migration over rdma:, with and without rdma-pin-all", "the guest's memory, and that it goes on"),
            ("openmpi-bin", "mpirun with a ping of ours, over OFI's verbs;ofi_rxm", "the data of both ends"),
            ("librpma0", "a program of ours", "the memory of both ends"),
            ("ceph-osd", "ceph-mon, ceph-osd, ceph, rados, rbd with ms_type async+rdma", "SHA-256 of objects and of an image")]


BLOCK = 65536


def fio_memory(path, depth):
    """A file for the memory of an end of fio, of blocks that differ. Returns them."""
    blocks = [hashlib.shake_128(f"{path} {k}".encode()).digest(BLOCK) for k in range(depth)]
    with open(path, "wb") as f:
        f.write(b"".join(blocks) + bytes(BLOCK))  # fio takes a page more
    return blocks


def fio_blocks(path, depth):
    """The blocks that are there now."""
    with open(path, "rb") as f:
        return [f.read(BLOCK) for _ in range(depth)]


def fio_pair(build, verb, options=(), depth=16, client=()):
    """fio at both ends, 64 blocks. depth: of the server. The memory of both ends is in files: returns the blocks of the server's before
    and after, and of the client's after."""
    rig.need("fio")
    with rig.Rig(build) as r:
        memory = [r.path("server.mem"), r.path("client.mem")]
        before = fio_memory(memory[0], depth)
        fio_memory(memory[1], 16)
        # Options of an engine follow its name.
        common = ["--port=8888", "--bs=64k", "--size=4m", *options]
        s = r.server(["fio", "--name=s", "--ioengine=rdma", "--rw=read", f"--iodepth={depth}", f"--iomem=mmapshared:{memory[0]}", *common])
        time.sleep(1)
        c = r.client(["fio", "--name=c", "--ioengine=rdma", f"--hostname={SERVER}", f"--verb={verb}", "--rw=write", "--iodepth=16",
                      f"--iomem=mmapshared:{memory[1]}", "--scramble_buffers=0", *common, *client])
        check(c.wait(60) == 0 and s.wait(60) == 0, c, s)
        check(re.search(r"issued rwts: total=\d*,64,0,0 short=0,0,0,0 dropped=0,0,0,0", c.out) and "io=4096KiB" in c.out, c)
        return before, fio_blocks(memory[0], depth), fio_blocks(memory[1], 16)


def fio(build):
    """fio ioengine=rdma, verb=write and verb=read: 64 blocks of 64 KiB; whole blocks are in the memory of the other end"""
    before, server, client = fio_pair(build, "write")
    new = [b for b in server if b not in before]
    check(new and all(b in client for b in new), f"{len(new)} blocks were written")
    # The server's blocks are drawn at random for each operation: some may be written never, or read twice.
    before, server, client = fio_pair(build, "read")
    check(server == before, "a Read changed the server's memory")
    check(all(b in server for b in client), f"{sum(b in server for b in client)} of 16 blocks are the server's")
    check(len(set(client)) > 1, "one block alone was read")


def fio_verify(build):
    """fio ioengine=rdma, verb=write with --verify=crc32c: blocks with headers arrive"""
    before, server, _ = fio_pair(build, "write", ["--verify=crc32c", "--verify_state_save=0"])
    new = [b for b in server if b not in before]
    check(new and all(b[:2] == b"\xca\xac" for b in new), "blocks without a header", *(b[:16].hex() for b in new))


def fio_send(build):
    """fio ioengine=rdma, verb=send with --verify=crc32c: the server checks what it received; as many receives as Sends"""
    # The client must not Send the blocks again to verify them; the server posts as many receives as its depth says.
    before, server, _ = fio_pair(build, "send", ["--verify=crc32c", "--verify_state_save=0"], depth=64, client=["--do_verify=0"])
    check(not set(server) & set(before) and all(b[:2] == b"\xca\xac" for b in server), "a receive has no block")


def qperf(build):
    """qperf over rdma_cm: figures of each rc_ test"""
    rig.need("qperf")
    for test in ("rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_read_bw", "rc_rdma_write_bw", "rc_rdma_read_lat", "rc_rdma_write_lat",
                 "rc_rdma_write_poll_lat", "rc_compare_swap_mr"):
        with rig.Rig(build, spaces=True) as r:
            r.server(["qperf"], settle=False)
            time.sleep(0.5)
            c = r.client(["qperf", SERVER, "-t", "1", "-cm", "1", test])
            check(c.wait(60) == 0, c)
            check(re.search(rf"^{test}:\n\s+(bw|latency|msg_rate)\s+=\s+([1-9][0-9.]*|0\.[0-9]*[1-9][0-9]*) \S+", c.out, re.M), c)


def fabric(build):
    """fi_info shows the endpoint; fi_pingpong over verbs and over verbs;ofi_rxm, with its data checked"""
    rig.need("fi_pingpong", "fi_info")
    with rig.Rig(build, spaces=True) as r:
        e = r.start("server", ["fi_info", "-p", "verbs"])
        check(e.wait() == 0 and "FI_EP_MSG" in e.out and "FI_PROTO_IWARP" in e.out, e)
    for provider, kind in (("verbs", "msg"), ("verbs;ofi_rxm", "rdm")):
        with rig.Rig(build, spaces=True) as r:
            argv = ["fi_pingpong", "-c", "-p", provider, "-e", kind, "-I", "100", "-S", "1024"]
            s = r.server(argv, settle=False)
            time.sleep(1)
            c = r.client([*argv, SERVER])
            check(c.wait(60) == 0 and s.wait(20) == 0, c, s)
            for e in c, s:
                check(re.search(r"^1k\s+100\s+=100\s+200k\s", e.out, re.M), e)


def versions():
    """The table of docs/verbs.md, of what is installed here. None for a package that is not."""
    rows = ["| package | version | programs | compared |", "|---|---|---|---|"]
    for package, programs, what in PROGRAMS:
        p = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=False)
        if p.returncode != 0:
            return None
        # Without the mark of a security update: that of QEMU changes every month.
        version = re.sub(r"\+deb12u.*", "", p.stdout)
        rows.append(f"| {package} | {version} | {programs} | {what} |")
    return rows


def table(_build):
    """docs/verbs.md has the table of the programs that these tests run, with their versions"""
    rows = versions()
    if rows is None:
        raise rig.Skip("not all packages of .ci/deps verbs ceph are installed")
    with open(os.path.join(TOP, "docs/verbs.md"), encoding="utf-8") as f:
        text = f.read()
    missing = [r for r in rows if r + "\n" not in text]
    check(not missing, "not in docs/verbs.md (test_programs.py --versions prints the table):", *missing)


if __name__ == "__main__":
    if sys.argv[1:] == ["--versions"]:
        print("\n".join(versions() or ["not all packages are installed"]))
        sys.exit(0)
    rig.main([fio, fio_verify, fio_send, qperf, fabric, table])
