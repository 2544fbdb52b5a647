#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Faults that weft-console injects into what a port receives. test_console_inject.py BUILD [CASE...]"""
import re

from test_console import alone, script
from test_console_pty import CTRL_C, PROMPT, TAB, Terminal
from test_console_traffic import says
from weft_e2e import main

MOVE = """fill $local 0 65536 faults.
start write $near $local $far_stag size 4K depth 16 count 1000
wait for "traffic $traffic (write, qp $near) ended after 1000 messages, 4096000 octets" timeout 100
expect "faults.faults." dump $far 65520 16
fill $far 0 65536 other
start read $near $local $far_stag size 4K depth 16 count 500
wait for "traffic $traffic (read, qp $near) ended after 500 messages, 2048000 octets" timeout 100
expect "therothe" dump $local 65520 16
"""


def figures(out):
    """Of the last line of figures: packets, dropped, delayed, duplicated, corrupted, held, not done."""
    return [int(n) for n in re.findall(r"(\d+) packets: (\d+) dropped, (\d+) delayed, (\d+) duplicated, (\d+) corrupted\n"
                                       r"  (\d+) held, (\d+) faults not done", out)[-1]]


def test_drop():
    """What is lost is sent again, and the data is right. The other direction loses nothing."""
    out, _ = says("inject start far drop 1/50\nexpect /^far: drop 1.50 seed 1$/ show injected\n" + MOVE
                  + "wait until show connections contains /^qp $near: .* retransmitted [1-9]/\n"
                  "inject stop far\n")
    packets, dropped, *rest = figures(out)
    assert dropped == packets // 50 > 0 and rest == [0, 0, 0, 0, 0], out
    out, _ = says("inject start far drop 0.03 seed 11\ninject start near drop 0.03 seed 12\n" + MOVE +
                  "wait until show connections contains /^qp $near: .* retransmitted [1-9]/\nexpect \"crc errors 0\" show counters\n"
                  "inject stop near\ninject stop far\nexpect \"no faults\" show injected\n" + MOVE)
    packets, dropped, *rest = figures(out)
    assert packets / 100 < dropped < packets / 10 and rest == [0, 0, 0, 0, 0], out


def test_duplicate():
    """Each packet arrives twice."""
    out, _ = says("inject start far duplicate 1\n" + MOVE + "inject stop far\n")
    packets, _, _, twice, _, _, undone = figures(out)
    assert 0 < twice <= packets and twice + undone >= packets, out


def test_corrupt():
    """TCP's checksum finds each changed bit: the segment is sent again, and no CRC of an FPDU fails."""
    out, _ = says("inject start far corrupt 1/40 seed 3\n" + MOVE + "expect \"crc errors 0\" show counters\ninject stop far\nshow port\n")
    corrupted = figures(out)[4]
    bad = int(re.search(r"far: (?:.*\n){1}  rx \d+ packets, \d+ bytes, (\d+) bad", out).group(1))
    assert 0 < corrupted and 0 < bad <= corrupted, out


def test_delay():
    """A delay is a part of each round trip, also where the worker sleeps meanwhile."""
    out, _ = says("start echo $remote\ninject start far delay 1 by 30000\nstart ping $near count 10\n"
                  "wait for /traffic 2 .* ended after 10 messages/\nstop\ninject stop far\n")
    least, unit = re.search(r"round trip: least ([0-9.]+) (\w+),", out).groups()
    assert float(least) * {"ms": 1, "s": 1000}[unit] >= 30, out
    assert figures(out)[2] >= 10, out
    # Some packets are late and overtaken.
    says("inject start far delay 0.2 by 3000\n" + MOVE + "inject stop far\n")


def test_replaced_and_left():
    """Another start replaces the faults; a console that leaves while packets are held leaves in order."""
    out, _ = says("inject start far drop 1/2\ninject start far delay 1 by 10000000 seed 5\nexpect \"far: delay 1 by 10000000 us seed 5\" "
                  "show injected\nstart write $near $local $far_stag\nwait until show injected contains /[1-9][0-9]* held/\nquit\n")
    assert "dropped" in out, out
    out, _ = says("inject start far delay 1 by 10000000\nstart write $near $local $far_stag count 10\nwait until show injected contains "
                  "/[1-9][0-9]* held/\ninject stop far\nwait for /traffic 1 .* ended after 10 messages/ timeout 60\n")


def test_errors():
    for line, why in (("inject start p0 drop 2", "drop '2': a probability such as 0.01, or 1/100"),
                      ("inject start p0 drop 0", "drop '0'"),
                      ("inject start p0 drop 1/0", "drop '1/0'"),
                      ("inject start p0 drop nan", "drop 'nan'"),
                      ("inject start p0 drop", "its value is missing"),
                      ("inject start p0 seed 3", "which fault? drop, delay, duplicate or corrupt"),
                      ("inject start nowhere drop 1", "no port nowhere"),
                      ("inject stop p0", "p0 has no faults"),
                      ("inject start p0 lose 1", "'lose' was not expected; options: drop delay duplicate corrupt by seed"),
                      ("inject start p0", "bad arguments")):
        rc, out, err = alone("-f", script("e.cli", line + "\n"))
        assert rc == 1 and why in err, (line, out, err)


def test_completion():
    with Terminal("") as t:
        assert b"inject start NAME OPTIONS" in t.until(b"weft> inject start ", b"inject start " + TAB)
        got = t.until(b"weft> inject start p0 ", b"p0 " + TAB)
        assert b"\n duplicate" in got and b"\n seed" in got, got
        t.until(PROMPT, CTRL_C)
        assert b"example: inject start p0 drop 0.01" in t.run(b"help inject start")
        t.quit()


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
