#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""READ, WRITE and STAT of weft-target by RPC, of both versions of RPC-over-RDMA. test_rpc_io.py BUILD [CASE...]"""
import os

from test_visible import Telemetry
from weft_e2e import BUILD, Target, main, make_file, memif, path, run, sha

MB = 1 << 20


def start(name, workers=1, **keys):
    t = Target(name, {"demo": {"path": path(f"{name}.weft"), "size": "8M", "persist": "file", **keys}})
    with open(t.conf) as f:
        text = f.read()
    with open(t.conf, "w") as f:
        f.write(f"[weft]\ntelemetry = yes\nworkers = {workers}\n" + text)
    t.start()
    return t, Telemetry(t.proc.pid)


def probe(version, workers=1, rounds=1):
    t, tel = start(f"probe{version}{workers}", workers)
    src = make_file("probe", MB, 1)
    t.push(src, "demo")
    rc, out, err = run([os.path.join(BUILD, "test", "e2e", "rpc_probe"), memif(0, "client", t.sock(0)),
                        "10.0.0.2/24", "10.0.0.1", "demo", version, str(rounds)])
    assert rc == 0 and out.strip() == "done", (rc, out, err, t.logged()[-1500:])
    now = tel.ask("/weft/target/export,demo")
    # 10 sizes, and one each of A and B; the repeated call is not among them
    assert now["rpc_writes"] == 9 + 2 * rounds, now
    assert now["rpc_durable_writes"] == 5 + 2 * rounds, now
    assert now["rpc_refused"] == 5 + 1 + 2 + 2, now
    assert now["bad_ranges"] == 0, now
    for w in range(workers):
        assert tel.ask(f"/weft/worker,{w}")["conns_total"] > 0, w
    # The probe writes into the slot that does not hold the object.
    assert sha(t.pull("demo", "probe.out")) == sha(src)
    assert t.term() == 0


def test_version_2():
    """All sizes, refusals, and a repeated call after a reconnect, which is not executed twice: version 2."""
    probe("2")


def test_version_1():
    """The same by version 1 (RFC 8166)."""
    probe("1")


def test_workers():
    """With several workers a client may reach another one when it reconnects: no call is executed twice."""
    probe("2", workers=3, rounds=16)


if __name__ == "__main__":
    main([test_version_2, test_version_1, test_workers])
