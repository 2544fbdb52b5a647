#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library compiles with headers of rdma-core 45, whose struct ibv_qp_ex has one member more: test_newer.py BUILD. TAP."""
import json
import os
import shlex
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402

HEADER = "/usr/include/infiniband/verbs.h"
# The installed headers' last member of struct ibv_qp_ex, and what version 45 put behind it and into the enumerations.
LAST = "	void (*wr_atomic_write)(struct ibv_qp_ex *qp, uint32_t rkey,\n				uint64_t remote_addr, const void *atomic_wr);\n"
FLUSH = "	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,\n			 size_t len, uint8_t type, uint8_t level);\n"
NEWER = ((LAST, LAST + FLUSH), ("	IBV_WC_ATOMIC_WRITE = 9,\n", "	IBV_WC_FLUSH = 8,\n	IBV_WC_ATOMIC_WRITE = 9,\n"),
         ("	IBV_WR_ATOMIC_WRITE = 15,\n", "	IBV_WR_FLUSH = 14,\n	IBV_WR_ATOMIC_WRITE = 15,\n"))


def newer(build):
    """All sources of the library compile with a header that has wr_flush, with all checks of sizes and places"""
    if not os.path.exists(HEADER):
        raise rig.Skip("libibverbs-dev is not installed")
    with open(HEADER, encoding="utf-8") as f:
        text = f.read()
    if "wr_flush" not in text:
        for old, new in NEWER:
            rig.check(text.count(old) == 1, "the header is another one: " + old)
            text = text.replace(old, new)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        commands = [c for c in json.load(f) if "libweft_verbs.so.p/" in c["output"]]
    rig.check(commands, "no sources")
    with tempfile.TemporaryDirectory(prefix="weft-newer-") as tmp:
        os.mkdir(os.path.join(tmp, "infiniband"))
        with open(os.path.join(tmp, "infiniband", "verbs.h"), "w", encoding="utf-8") as f:
            f.write(text)
        for c in commands:
            argv = [a for a in shlex.split(c["command"]) if a != "ccache"]
            argv = [argv[0], "-isystem", tmp, "-idirafter", os.path.dirname(HEADER), *argv[1:argv.index("-MD")], "-Werror",
                    "-fsyntax-only", c["file"]]
            r = subprocess.run(argv, cwd=c["directory"], capture_output=True, text=True, check=False)
            rig.check(r.returncode == 0, c["file"], r.stderr)


if __name__ == "__main__":
    rig.main([newer])
