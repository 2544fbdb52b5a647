#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The program objects.c over weft, whose cases become this test's: test_objects.py BUILD. TAP."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import SERVER  # noqa: E402


def main():
    """Run both ends and pass the client's TAP on."""
    build = sys.argv[1]
    program = os.path.join(os.path.abspath(build), "test/interop/verbs/verbs_objects")
    if not os.path.exists(program):
        print("1..0 # SKIP not built (libibverbs-dev, librdmacm-dev)")
        return 0
    with rig.Rig(build) as r:
        s = r.server([program, "server", SERVER], weft="telemetry = yes")
        c = r.client([program, "client", SERVER])
        rc = c.wait(100)
        print(c.out, end="")
        for line in (c.err + s.out + s.err).splitlines():
            print("# " + line)
        env = {"LD_PRELOAD": ":".join(filter(None, (r.env.get("LD_PRELOAD"), os.path.join(os.path.dirname(program), "verbs_remove.so")))),
               "WEFT_TEST_REMOVE": r.path("remove")}
        o = r.client([program, "removed", SERVER], env=env)
        rig.until(lambda: "remove it" in o.out, o)
        with open(r.path("remove"), "wb"):
            pass
        rig.check(o.wait(60) == 0, "the device was removed", o)
        o = r.client([program, "leave-open", SERVER])
        rig.check(o.wait(30) == 0 and o.out == "left\n", "calls in a handler of exit()", o)
        r.n += 1  # a socket without a server
        f = r.client([program, "fork-in-open", "-"])
        rig.check(f.wait(30) == 0, "a child of fork() during ibv_open_device()", f)
        if rc == 0:
            # What the case of Flush had answered, and what was refused: counted by the peer.
            got = rig.telemetry(s, "/weft/messages,0")
            want = {"flush_in": 3, "flush_response_out": 2, "atomic_write_in": 3, "atomic_write_response_out": 3}
            rig.check(want.items() <= got.items(), "the server's counters:", want, got)
            rig.check(rig.telemetry(s, "/weft/rdmap,0")["terminates_out_prot_access"] == 1, "a Flush without the right was not refused")
        return rc


if __name__ == "__main__":
    try:
        sys.exit(main())
    except rig.Skip as e:
        print(f"1..0 # SKIP {e}")
