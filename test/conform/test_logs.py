#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Log lines that a peer can provoke are limited to a number per second: test_logs.py SRC. TAP.

In the layers that peers reach, WEFT_LOG and weft_ulp_error(), which have no limit, are used only for the texts that are
listed here with the reason why no peer can cause them. All other lines use WEFT_LOG_PEER, or are for debugging.
weft-target's lines use target_log(), or report an action of the operator. A line's type (weft.tcp) is that of its room.
"""
import os
import re
import sys

SRC = sys.argv[1]
LAYERS = ("base", "netif", "tcp", "mpa", "ddp", "rdmap", "medium", "mem", "verbs", "place", "cm",
          "rpcrdma", "tirpc", "log", "engine", "observe")
CONFIGURED = "said once, of what the program's configuration asks for"
ONCE = "said once"
UNLIMITED = {  # file: {beginning of the text: reason why no peer can repeat it}
    "lib/netif/netif_port.c": {"": CONFIGURED},
    "lib/netif/netif_attach.c": {"": CONFIGURED},
    "lib/netif/netif_bond.c": {"%s: more than": CONFIGURED, "%s: '%s' cannot be a slave": CONFIGURED,
                               "%s: it has no slave": CONFIGURED, "cannot create %s": CONFIGURED,
                               "%s: its driver does not take": CONFIGURED},
    "lib/netif/netif_packet.c": {"net_af_packet on %s": CONFIGURED},
    "lib/netif/netif_memif_args.c": {"a net_memif with bsize": CONFIGURED},
    "lib/netif/netif_memif_shared.c": {"": CONFIGURED},
    "lib/netif/netif_removal.c": {"": "a device is removed once, and not by a peer"},
    "lib/engine/engine_removal.c": {"port %s": "a device is removed once, and not by a peer"},
    "lib/netif/netif_sleep.c": {"port %u": "said once of a port, by what its driver does"},
    "lib/netif/netif_nd.c": {"IPv6 is off": "an address is lost once", "": "an address is lost once"},
    "lib/tcp/tcp_instance.c": {"of the retransmission timeouts": CONFIGURED},
    "lib/medium/medium_block.c": {"": CONFIGURED},
    "lib/medium/medium_driver.c": {"": CONFIGURED},
    "lib/medium/medium_numa.c": {"": CONFIGURED},
    "lib/observe/observe_capture.c": {"capture of": "a capture that the operator began ends once"},
    "lib/engine/engine_ctx.c": {"port %s: %s/%u": CONFIGURED},
    "lib/engine/engine_owner.c": {"": ONCE},
    "lib/cm/cm_listen.c": {"worker %u cannot listen": CONFIGURED},
    "lib/cm/cm_stream_listen.c": {"worker %u cannot listen": CONFIGURED},
    "lib/tirpc/tirpc_clnt.c": {"a CLIENT that cannot be ended": "the program's own call"},
}
OPERATOR = {  # files of apps/target whose lines come from start-up, signals and the watch of the media
    "metrics.c", "metrics_families.c", "target.c", "target_apply.c", "target_auth.c", "target_control.c",
    "target_control_support.c", "target_lines.c", "target_nvmf.c", "target_nvmf_ns.c", "target_nvmf_resv.c",
    "target_offline.c",
    "target_reload.c", "target_restart.c", "target_revoke.c",
    "target_runtime.c", "target_service.c", "target_size.c", "target_state_parse.c", "target_tel.c",
    "target_slow_pcap.c",  # at the start of a capture
    "target_watch.c",  # target_state_parse.c, target_lines.c and target_control_support.c print into files
}
CALL = re.compile(r"\b(?:WEFT_LOG\(\s*\w+,\s*(\w+)|weft_ulp_error\(\s*\"\w+\"),\s*\"([^\"]*)")
LINE = re.compile(r"\bWEFT_LOG(?:_PEER)?\(\s*(\w+)")
TYPES = {"base": "api"}  # room: the type of its lines, where that is not its name
n = bad = 0


def check(what, wrong):
    """Print one TAP line and the faults."""
    global n, bad
    n += 1
    bad += bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {n} {what}")
    for w in wrong:
        print(f"# {w}")


def sources(folder):
    for base, _, files in os.walk(os.path.join(SRC, folder)):
        for f in sorted(files):
            if f.endswith((".c", ".h")):
                path = os.path.join(base, f)
                with open(path, encoding="utf-8") as h:
                    yield os.path.relpath(path, SRC), h.read()


def unlimited(path, text):
    """The calls of a file without a limit and without a reason."""
    for m in CALL.finditer(text):
        if m[1] != "DEBUG" and not any(m[2].startswith(b) for b in UNLIMITED.get(path, ())):
            yield f"{path}:{text.count(chr(10), 0, m.start()) + 1}: {m[2]}"


for layer in LAYERS:
    check(f"lib_{layer}", [w for p, t in sources(f"lib/{layer}") if not p.endswith("weft_base.h") for w in unlimited(p, t)])
calls = {p: [m[2] for m in CALL.finditer(t) if m[1] != "DEBUG"] for p, t in sources("lib")}
check("no_stale_reason", [f"{p}: {b}" for p, begins in UNLIMITED.items() for b in begins
                          if not any(c.startswith(b) for c in calls.get(p, ()))])
check("a room's lines have the room's type", [
    f"{p}: {m[0]}...)" for layer in LAYERS for p, t in sources(f"lib/{layer}") if not p.endswith("weft_base.h")
    for m in LINE.finditer(t) if m[1] != TYPES.get(layer, layer)])
said = {os.path.basename(p): t for p, t in sources("apps/target") if re.search(r"\b(?:ui_msg|fprintf|printf)\(", t)}
check("target", [f"apps/target/{f} writes lines of its own" for f in sorted(said.keys() - OPERATOR - {"target_say.c"})])
says = [said["target_say.c"].count(f) for f in ("ui_msg(", "ui_msg_at(")]
check("target_limited", [] if says == [1, 1] else ["target_say.c: a line without limit"])
print(f"1..{n}")
sys.exit(bad != 0)
