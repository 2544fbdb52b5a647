#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-console's captures by address, port and opcode, and rings of files. test_console_capture.py BUILD [CASE...]"""
import os
import re
import shutil

from test_console import EXAMPLES, alone, loop, script
from test_console_pty import CTRL_C, PROMPT, TAB, Terminal
from test_console_traffic import says
from weft_e2e import Skip, main, path, run

PCAPNG = b"\x0a\x0d\x0d\x0a"


def captured(out):
    return [int(n) for n in re.findall(r"captured (\d+) packets", out)]


def test_by_opcode():
    """One Flush and its answer are found among the Writes of running traffic, and nothing else."""
    out, _ = says(f"""start write $near $local $far_stag size 1K
capture start {path("f.pcapng")} on near opcode flush
wait until show traffic contains /^  [0-9]{{4,}} messages/
post flush $near $far_stag 0 64 v
wait 5000
capture stop near
stop
""")
    assert captured(out) == [2], out
    with open(path("f.pcapng"), "rb") as f:
        assert f.read(4) == PCAPNG


def test_by_opcode_in_wireshark():
    """A capture that was begun before the connection has its MPA Request and Reply, so tshark reads the chosen messages as iWARP."""
    if shutil.which("tshark") is None:
        raise Skip("tshark is not installed")
    file = path("mpa.pcapng")
    out, _ = says(f"""capture start {file} on near opcode write
source {EXAMPLES}/lib/connect.cli
post send $qp one
wait for /received 3 bytes: one/
post write $qp $local 0 64 $far_stag 0
post send $qp two
wait for /received 3 bytes: two/
expect not unknown capture stop near
""")
    assert captured(out) == [3], out
    rc, out, err = run(["tshark", "-r", file, "-T", "fields", "-e", "iwarp_mpa.req", "-e", "iwarp_mpa.rep", "-e", "iwarp_rdma.opcode",
                        "-o", "tcp.try_heuristic_first:TRUE"])
    assert rc == 0, err
    frames = [["x" if field else "" for field in line.split("\t")] for line in out.splitlines()]
    assert frames == [["x", "", ""], ["", "x", ""], ["", "", "x"]], out


BIG = """register memory 1M
let big = $region
register memory 1M
let far_big = $stag
"""

# One after the other, because several may share a segment.
FLUSHES = "post flush $near $far_big 0 64 v\nwait 60000\n" * 3


def test_large_writes():
    """Flushes among Writes of 1 MiB, with and without markers, and with losses: each segment's FPDUs are known."""
    for markers in ("no", "yes"):
        conf = loop()
        with open(conf, "a") as f:
            f.write(f"\n[mpa]\nmarkers = {markers}\n")
        head = BIG.replace("1M", "1048576") + "start write $near $big $far_big size 1M depth 2\n"
        tail = """expect not unknown capture stop near
stop
"""
        out, _ = says(head + f"""expect /tx_markers +{int(markers == "yes")}$/ show mpa detail
capture start {path("big.pcapng")} on near opcode flush
wait until show traffic contains /^  [0-9]{{2,}} messages/
{FLUSHES}""" + tail, conf=conf)
        assert captured(out) == [6], out
        # Of losses on both ways some segments come twice, and each end sees holes.
        out, _ = says(f"""inject start near tx drop 0.01 seed 3
inject start far tx drop 0.01 seed 4
capture start {path("lossy.pcapng")} on far opcode flush,terminate
{head}wait until show traffic contains /^  [0-9]{{2,}} messages/ timeout 100
{FLUSHES}inject stop near
inject stop far
let far_captures from /"unknown": ([0-9]+)/ show captures json
stop
expect /^captured/ capture stop far
echo unknown $far_captures
""", conf=conf)
        assert 6 <= captured(out)[0] <= 60, out
        assert "\nunknown 0\n" in out, out


def test_by_address_and_port():
    """The port of either end, and the address of the other one; `qp` finds its port by its address."""
    out, _ = says(f"""capture start {path("a.pcapng")} on near port 7471
capture start {path("b.pcapng")} on far port 7471 local 10.0.0.2 peer 10.0.0.1
post send $near one
wait for /received 3 bytes/
expect /captured [1-9]/ capture stop near
expect /captured [1-9]/ capture stop far
capture start {path("c.pcapng")} on near port 7472
capture start {path("d.pcapng")} on far peer 10.0.0.9
post send $near two
wait for /received 3 bytes: two/
expect "captured 0 packets" capture stop near
expect "captured 0 packets" capture stop far
capture start {path("e.pcapng")} qp $remote
expect "far: " show captures
expect /"port": "far",/ show captures json
expect /"unknown": 0/ show captures json
post send $near six
wait for /received 3 bytes: six/
expect /captured [1-9]/ capture stop far
""")


def test_filter_changes():
    """While traffic runs, another filter holds from its command on."""
    out, _ = says(f"""start write $near $local $far_stag size 1K rate 5000
capture start {path("g.pcapng")} on near peer 10.0.0.9
expect /^near: 0 packets/ show captures
set capture near opcode write peer 10.0.0.2
wait until show captures contains /^near: [1-9][0-9]+ packets/
set capture near opcode verify
expect fail set capture near opcode fly
sleep 50
let before from /^near: ([0-9]+) packets/ show captures
sleep 50
expect "near: $before packets" show captures
set capture near
wait until show captures contains /^near: [0-9]{{4,}} packets/
capture stop near
expect "the port has no capture" expect fail set capture near
stop
""")


def test_ring():
    out, _ = says(f"""start write $near $local $far_stag size 1K
capture start {path("r.pcapng")} on near ring 2 size 128K
wait until show captures contains /, ([5-9]|[1-9][0-9]+) files/
capture stop near
stop
""")
    names = sorted(n for n in os.listdir(os.path.dirname(path("r.pcapng"))) if n.startswith("r.pcapng"))
    assert names == ["r.pcapng.0", "r.pcapng.1"], names
    for n in names:
        assert os.path.getsize(path(n)) <= 131072, n
        with open(path(n), "rb") as f:
            assert f.read(4) == PCAPNG, n


def test_errors():
    for line, why in (("capture start /tmp/x ring 3", "a ring needs the size of its files"),
                      ("capture start /tmp/x ring 0 size 1M", "ring '0'"),
                      ("capture start /tmp/x size 1K", "size '1K': a number from 131072"),
                      ("capture start /tmp/x size", "usage: capture start FILE OPTIONS"),
                      ("capture start /tmp/x on nowhere", "no port nowhere; there are: p0"),
                      ("capture start /tmp/x opcode fly", "'fly' is no opcode, or twice there; they are write, read"),
                      ("capture start /tmp/x peer here", "'here' is not an IPv4 or IPv6 address"),
                      ("capture start /tmp/x qp 3", "there is no qp 3"),
                      ("capture start /tmp/x port 70000", "port '70000': a number from 1 to 65535"),
                      ("capture start /tmp/x unknown keep", "unknown is keep or drop, and stands beside opcode"),
                      ("capture start /tmp/x opcode write unknown not", "unknown is keep or drop"),
                      ("capture start", "bad arguments"),
                      ("capture start /nowhere/x", "No such file"),
                      ("set capture nowhere", "no port nowhere"),
                      ("capture start /tmp/x fast",
                       "'fast' was not expected; options: on qp peer local port opcode unknown ring size snap")):
        rc, out, err = alone("-f", script("e.cli", line + "\n"))
        assert rc == 1 and why in err, (line, out, err)


def test_completion():
    with Terminal("") as t:
        got = t.until(b"weft> capture start /tmp/x ", b"capture start /tmp/x " + TAB)
        assert b"\n opcode" in got and b"\n ring" in got, got
        t.until(PROMPT, CTRL_C)
        t.until(b"opcode ", b"set capture p0 op" + TAB)
        t.until(PROMPT, CTRL_C)
        t.quit()


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
