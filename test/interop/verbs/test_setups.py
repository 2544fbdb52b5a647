#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How programs are started (rights, a user's file, IPv6, other libraries), and how they wait: test_setups.py BUILD [CASE...]. TAP."""
import errno
import os
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import CLIENT, CLIENT6, SERVER, SERVER6, check  # noqa: E402

WAIT_S = 4.0


def ping_pair(r, address, **how):
    """rping with its data printed at both ends, and compared."""
    s, c = r.pair(["rping", "-s", "-v", "-C", "3", "-a", address], ["rping", "-c", "-v", "-V", "-C", "3", "-a", address], **how)
    data = re.findall(r"^ping data: (rdma-ping-\d: .*)$", c.out, re.M)
    check(len(data) == 3 and re.findall(r"^server ping data: (.*)$", s.out, re.M) == data, c, s)
    return s, c


def unprivileged(build):
    """A user without rights, hugepages or locked memory: rping, with its data compared"""
    rig.need("rping", "setpriv", "prlimit")
    with rig.Rig(build, user=True) as r:
        s, c = ping_pair(r, SERVER, weft="hugepages = never")
        check("weft" not in s.err + c.err, s, c)


def user_file(build):
    """WEFT_CONFIG of the user: weft-run without port options, and a program that is started in the environment of --print-env"""
    rig.need("rping")
    with rig.Rig(build) as r:
        r.n += 1
        files = {role: r.port(role, weft="telemetry = no")[1] for role in ("server", "client")}
        argv = ["rping", "-v", "-C", "3", "-a", SERVER]
        s = rig.End([r.run, *argv, "-s"], env=dict(r.env, WEFT_CONFIG=files["server"]))
        r.ends.append(s)
        r.settled(s)
        e = rig.End([r.run, "--print-env"], env=dict(r.env, WEFT_CONFIG=files["client"]))
        check(e.wait() == 0, e)
        c = rig.End(["bash", "-c", e.out + "exec " + " ".join(argv) + " -c"], env=r.env)
        r.ends.append(c)
        check(c.wait() == 0 and s.wait() == 0, c, s)
        check(len(re.findall(r"^ping data: rdma-ping-", c.out, re.M)) == 3, c)
        bad = rig.End([r.run, "true"], env={"WEFT_CONFIG": r.path("nosuch.ini")})
        check(bad.wait() == 1 and len(bad.err.splitlines()) == 1 and "nosuch.ini" in bad.err, bad)


def ipv6(build):
    """Over IPv6: rping, with its data compared; a listener on all addresses of both families; a peer that is bound to an address"""
    rig.need("rping", "ucmatose")
    both = {"server": ["--address", f"{SERVER}/24,{SERVER6}/64"], "client": ["--address", f"{CLIENT}/24,{CLIENT6}/64"]}
    with rig.Rig(build) as r:
        ping_pair(r, SERVER6, role_options=both)
        s = r.server(["rping", "-s", "-P", "-a", "::"], options=both["server"])
        for to, own in (SERVER6, CLIENT6), (SERVER, CLIENT):
            c = r.client(["rping", "-c", "-v", "-V", "-C", "2", "-a", to, "-I", own], options=both["client"])
            check(c.wait() == 0 and len(re.findall(r"^ping data: rdma-ping-", c.out, re.M)) == 2, c, s)


def loaded(program, library):
    """The file of a library that a program loads, by the dynamic linker's word."""
    said = subprocess.run(["ldd", shutil.which(program)], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"^\s*{re.escape(library)} => (/\S+)", said, re.M)
    check(found, said)
    return os.path.realpath(found[1])


def versions(build):
    """A version of libibverbs or librdmacm that is not known: one line that names the file, no device, and no signal"""
    rig.need("rping", "ibv_devices", "ldd")
    for library, program, ended in (("libibverbs.so.1", ["ibv_devices"], 0), ("libibverbs.so.1", ["rping", "-s", "-C", "1"], errno.ENODEV),
                                    ("librdmacm.so.1", ["rping", "-s", "-C", "1"], errno.ENODEV)):
        # Debian's library by the name that another version has, and one without a version in its name
        for name in library + ".14.99.0", library:
            with rig.Rig(build) as r:
                os.mkdir(r.path("lib"))
                shutil.copy(loaded(program[0], library), r.path("lib/" + name))
                if name != library:
                    os.symlink(name, r.path("lib/" + library))
                env = {"LD_LIBRARY_PATH": r.path("lib")}
                r.n += 1
                e = r.start("server", program, env=env)
                rc = e.wait()
                lines = [line for line in e.err.splitlines() if line.startswith("weft")]
                check(rc == ended and len(lines) == 1 and r.path("lib/" + name) in lines[0], f"exit status {rc}", e)
                check("weft0" not in e.out, e)
                if program[0] == "rping" and name != library:
                    s, c = ping_pair(r, SERVER, env=dict(env, WEFT_VERBS_ANY_VERSION="1"))
                    check("not tested" not in s.err + c.err, s, c)


def cpu_s(e):
    """The processor time of an end's threads so far."""
    ns = 0
    for task in os.listdir(f"/proc/{e.p.pid}/task"):
        with open(f"/proc/{e.p.pid}/task/{task}/schedstat", encoding="ascii") as f:
            ns += int(f.read().split()[0])
    return ns / 1e9


def idle(build):
    """What waits sleeps: a listener, and both ends of a connection without traffic, use less than 1.5 % of a processor"""
    rig.need("rping")
    program = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_objects")
    if not os.path.exists(program):
        raise rig.Skip("not built")
    with rig.Rig(build) as r:
        s = r.server(["rping", "-s", "-P", "-a", SERVER])
        share(r, s)
    with rig.Rig(build) as r:
        s = r.server([program, "wait-server", SERVER])
        c = r.client([program, "wait-client", SERVER])
        rig.until(lambda: "waits" in s.out and "waits" in c.out, s, c)
        share(r, s, c)


def share(r, *ends):
    """Their parts of a processor, in WAIT_S. Processor time depends little on what else runs; with AddressSanitizer it is more."""
    time.sleep(1)
    before, start = [cpu_s(e) for e in ends], time.monotonic()
    time.sleep(WAIT_S)
    took = time.monotonic() - start
    used = [(cpu_s(e) - b) / took for e, b in zip(ends, before)]
    print(f"# part of a processor: {', '.join(f'{u:.4f}' for u in used)}")
    check(all(u < (0.05 if r.env else 0.015) for u in used), f"parts of a processor: {used}", *ends)


if __name__ == "__main__":
    rig.main([unprivileged, user_file, ipv6, versions, idle])
