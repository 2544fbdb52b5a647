#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every public function has a test of its misuse: check_misuse.py LIBRARY... -- HEADER... -- PROGRAM... Prints TAP.

Functions that an installed header declares are public, and the shared libraries export only those. A test of misuse is
a case with the function's name in one of the programs. Functions without such a test are listed here with the reason."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lint"))
from exports import BESIDES, declared  # noqa: E402

EXEMPT = {
    "weft_version": "takes nothing",
    "weft_env_fini": "takes nothing; ends the process's EAL, so it is the last call of a program",
    "weft_env_huge": "takes nothing",
    "weft_tcp_ports_create": "the engine's, of the table that the workers of a context share; a program has none to hand in",
    "weft_tcp_ports_destroy": "likewise",
    "weft_tcp_port_use": "likewise",
    "weft_limit_ok": "counts in a struct of the caller's; every number of it has an answer",
    "weft_wc_status_str": "takes a number, any; verbs_query:names asks for one that is none",
    "weft_qp_state_str": "likewise",
    "weft_event_str": "likewise",
    "weft_revoke_step_str": "likewise",
    "weft_commit_step_str": "likewise",
    "weft_log_event_str": "likewise",
    "weft_log_damage_str": "likewise",
    "weft_rpc_status_str": "likewise",
    "weft_rpc_xdr_array": "an XDR routine, called by XDR routines that rpcgen makes, as libtirpc's xdr_array() is",
    "weft_rpc_xdr_pointer": "likewise",
    "weft_rpc_xdr_reference": "likewise",
    "weft_rpc_xdr_void": "likewise",
    "weft_rpc_raw_args_ok": "of the xdr that a weft_rpc_raw_fn was given, which only such a function has",
    "weft_handle_refused": "says what it is told to say; weft_handle_check() has the cases",
    "weft_handle_init": "of an object of the caller's own, whatever it has in it",
    "weft_handle_undo": "likewise",
    "weft_handle_unclaim": "likewise",
    "weft_handle_end": "likewise",
    "weft_handle_free": "likewise",
    "weft_ulp_error": "prints what it is told to",
    "weft_volume_revokes": "a program to be served, no call",
}

rest = sys.argv[1:]
libraries, rest = rest[:rest.index("--")], rest[rest.index("--") + 1:]
headers, programs = rest[:rest.index("--")], rest[rest.index("--") + 1:]
out = subprocess.run(["nm", "-D", "--defined-only", *libraries], check=True, capture_output=True, text=True).stdout
exported = {line.split()[-1].split("@")[0] for line in out.splitlines() if len(line.split()) > 2 and line.split()[-2] != "A"}
cases = set()
for p in programs:
    listed = subprocess.run([p, "--list"], check=True, capture_output=True, text=True).stdout
    cases |= {w for w in listed.split() if w.startswith("weft_")}
public = set()
for h in headers:
    with open(h, encoding="utf-8") as f:
        public |= declared(f.read())[0].keys()
faults = [f"{c}: declared, but no library exports it" for c in sorted(public - exported)]
faults += [f"{c}: exported, but no installed header declares it" for c in sorted(exported - public - set(BESIDES))]
# A symbol with one of our versions replaces no other symbol. Symbols that another library must find have none.
faults += [f"{line.split()[-1]}: has a version, so who asks for another does not get it"
           for line in out.splitlines() if line.split() and line.split()[-1].split("@")[0] in BESIDES and "@" in line.split()[-1]]
faults += [f"{c}: no test of its misuse" for c in sorted(public - cases - set(EXEMPT))]
faults += [f"{c}: a case, but no public call of these headers" for c in sorted(cases - public)]
faults += [f"{c}: exempt, but no public call, or tested all the same" for c in sorted(set(EXEMPT) - public | set(EXEMPT) & cases)]
for f in faults:
    print("# " + f)
print(f"{'ok' if public and not faults else 'not ok'} 1 {len(public)} public calls, "
      f"{len(public & cases)} with a test of their misuse, {len(EXEMPT)} that have none by reason")
print("1..1")
sys.exit(not public or bool(faults))
