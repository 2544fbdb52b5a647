#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A program of libiscsi, by ctypes: iser_disk.py INITIATOR TARGET PORTAL LUN SEED.

It writes and reads pieces of the disk over iSER, each with other octets than before. For each it prints
"LBA OCTETS SHA-256", of what it wrote and then read back.
"""
import ctypes
import hashlib
import random
import sys

NORMAL, ISER, BLOCK = 2, 1, 512
PIECES = ((0, 512), (8, 4096), (999, 65536), (2048, 262144), (30000, 1536))


class Iovec(ctypes.Structure):
    """struct scsi_iovec."""
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


def main():
    """Log in, write and read."""
    initiator, target, portal, lun, seed = sys.argv[1:]
    lib = ctypes.CDLL("libiscsi.so.7")
    lib.iscsi_create_context.restype = lib.iscsi_get_error.restype = ctypes.c_void_p
    for f in lib.iscsi_write10_iov_sync, lib.iscsi_read10_iov_sync:
        f.restype = ctypes.c_void_p
    disk = ctypes.c_void_p(lib.iscsi_create_context(initiator.encode()))

    def must(ok, what):
        if not ok:
            sys.exit(f"{what}: {ctypes.string_at(lib.iscsi_get_error(disk)).decode()}")

    must(lib.iscsi_init_transport(disk, ISER) == 0, "iSER")
    must(lib.iscsi_set_targetname(disk, target.encode()) == 0 and lib.iscsi_set_session_type(disk, NORMAL) == 0, "names")
    must(lib.iscsi_full_connect_sync(disk, portal.encode(), int(lun)) == 0, "login")
    draw = random.Random(seed)
    for lba, n in PIECES:
        data = draw.randbytes(n)
        got = ctypes.create_string_buffer(n)
        for call, memory in ((lib.iscsi_write10_iov_sync, ctypes.create_string_buffer(data, n)), (lib.iscsi_read10_iov_sync, got)):
            iov = (Iovec * 1)(Iovec(ctypes.cast(memory, ctypes.c_void_p), n))
            # Of a Write the data come before the length.
            args = [disk, int(lun), lba, *([None] if call is lib.iscsi_write10_iov_sync else []), n, BLOCK, 0, 0, 0, 0, 0, iov, 1]
            task = ctypes.c_void_p(call(*args))
            must(task.value, f"LBA {lba}")
            status = ctypes.cast(task, ctypes.POINTER(ctypes.c_int))[0]
            must(status == 0, f"LBA {lba}: status {status}")
            lib.scsi_free_scsi_task(task)
        if got.raw != data:
            sys.exit(f"LBA {lba}: {n} octets differ")
        print(lba, n, hashlib.sha256(got.raw).hexdigest(), flush=True)
    must(lib.iscsi_logout_sync(disk) == 0, "logout")


main()
