#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs of ours for libraries over verbs, Open MPI and librpma: test_libraries.py BUILD [CASE...]. TAP."""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import rig  # noqa: E402
from rig import SERVER, check  # noqa: E402

SEED = os.environ.get("WEFT_TEST_SEED", "1")


def mpi(build):
    """Open MPI over OFI's verbs;ofi_rxm: pings up to 4 MiB, both at once, a reduction; the data compared"""
    rig.need("mpicc", "mpirun")
    with rig.Rig(build) as r:
        program = r.path("mpi_ping")
        subprocess.run(["mpicc", "-O2", "-Wall", "-o", program, os.path.join(HERE, "mpi_ping.c")], check=True)
        r.n += 1
        # No other way between the two than this one.
        only = {"plm": "isolated", "pml": "cm", "mtl": "ofi", "mtl_ofi_provider_include": "verbs;ofi_rxm", "btl": "self",
                "mtl_base_verbose": "1"}
        argv = ["mpirun", "--oversubscribe"]
        for k, v in only.items():
            argv += ["--mca", k, v]
        for role in "server", "client":
            argv += [*([":"] if role == "client" else []), "-n", "1", r.run, *r.port(role), program, SEED]
        e = rig.End(argv, env=dict(r.env, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
        r.ends.append(e)
        check(e.wait(100) == 0, e)
        check(len(re.findall(r"mtl:ofi:provider: weft0$", e.err, re.M)) == 2, "not over weft0", e)
        rows = re.findall(r"^(\d+) 50 ([\d.]+)$", e.out, re.M)
        check([int(n) for n, _ in rows] == [0] + [4 ** k for k in range(12)] and all(float(us) > 0 for _, us in rows), e)
        check("sums good" in e.out, e)


def rpma(build):
    """librpma: Write, Flush, Atomic Write, Read, messages from a shared receive queue; sums of both memories"""
    program = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_rpma")
    if not os.path.exists(program):
        raise rig.Skip("librpma-dev is not installed")
    with rig.Rig(build) as r:
        s, c = r.pair([program, "server", SERVER], [program, "client", SERVER, SEED])
        check(len(re.findall(r"^ok \d", c.out, re.M)) == 3, c)
        check(re.findall(r"^# sum (\w+)$", c.out, re.M) == re.findall(r"^(\w+)$", s.out, re.M), c, s)


if __name__ == "__main__":
    rig.main([mpi, rpma])
