#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Faults that weft-console injects into what a port receives and sends. test_console_inject.py BUILD [CASE...]"""
import json
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


def test_tx_drop():
    """What is lost behind the sender is sent again. The port at the other end does not see it."""
    out, _ = says("inject start near tx drop 1/50\nexpect /^near: tx drop 1.50 seed 1$/ show injected\n" + MOVE
                  + "wait until show connections contains /^qp $near: .* retransmitted [1-9]/\n"
                  "inject stop near tx\n")
    packets, dropped, *rest = figures(out)
    assert dropped == packets // 50 > 0 and rest == [0, 0, 0, 0, 0], out
    # Both ways of both ports.
    out, _ = says("inject start far tx drop 0.03 seed 11\ninject start near tx drop 0.03 seed 12\ninject start near drop 0.03 seed 13\n"
                  + MOVE + "wait until show connections contains /^qp $near: .* retransmitted [1-9]/\n"
                  "expect \"crc errors 0\" show counters\n"
                  "inject stop near\ninject stop far\nexpect \"no faults\" show injected\n" + MOVE)
    packets, dropped, *rest = figures(out)
    assert packets / 100 < dropped < packets / 10 and rest == [0, 0, 0, 0, 0], out


def test_tx_duplicate_and_corrupt():
    """Copies leave: the retransmission of a changed segment is right, because TCP's own was not written."""
    out, _ = says("inject start near tx duplicate 1\n" + MOVE + "inject stop near\n")
    packets, _, _, twice, _, _, undone = figures(out)
    assert 0 < twice <= packets and twice + undone >= packets, out
    out, _ = says("inject start near tx corrupt 1/40 seed 3\n" + MOVE +
                  "expect \"crc errors 0\" show counters\ninject stop near\nshow port\n")
    corrupted = figures(out)[4]
    bad = int(re.search(r"far: (?:.*\n){1}  rx \d+ packets, \d+ bytes, (\d+) bad", out).group(1))
    assert 0 < corrupted and 0 < bad <= corrupted, out


def test_tx_delay():
    """Also what a worker that sleeps has held leaves when it is due, and what is overtaken is right."""
    out, _ = says("start echo $remote\ninject start near tx delay 1 by 30000\nstart ping $near count 10\n"
                  "wait for /traffic 2 .* ended after 10 messages/\nstop\ninject stop near\n")
    least, unit = re.search(r"round trip: least ([0-9.]+) (\w+),", out).groups()
    assert float(least) * {"ms": 1, "s": 1000}[unit] >= 30, out
    assert figures(out)[2] >= 10, out
    says("inject start near tx delay 0.2 by 3000\n" + MOVE + "inject stop near\n")


def test_tx_held_let_go():
    """What is held is freed when the faults end, and the connection goes on; also when the console leaves, or another start comes."""
    out, _ = says("inject start near tx delay 1 by 10000000\nstart write $near $local $far_stag count 10\n"
                  "wait until show injected contains /[1-9][0-9]* held/\ninject stop near\n"
                  "wait for /traffic 1 .* ended after 10 messages/ timeout 60\nexpect \"no faults\" show injected\n" + MOVE)
    out, _ = says("inject start near tx drop 1/2\ninject start near tx delay 1 by 10000000 seed 5\n"
                  "expect \"near: tx delay 1 by 10000000 us seed 5\" show injected\nstart write $near $local $far_stag\n"
                  "wait until show injected contains /[1-9][0-9]* held/\nquit\n")
    assert "dropped" in out, out


def test_both_ways():
    """The faults of one way are not those of the other: each is shown, replaced and stopped alone."""
    out, _ = says("inject start near drop 1/100\ninject start near tx delay 1/100 by 100 seed 9\nshow injected json\n" + MOVE +
                  "expect /^near: drop 1.100 seed 1$/ show injected\nexpect /^near: tx delay 1.100 by 100 us seed 9$/ show injected\n"
                  "inject stop near rx\nexpect not /near: drop/ show injected\n"
                  "expect \"near has no faults of rx\" expect fail inject stop near rx\n"
                  "inject start near tx drop 1/3 seed 2\nexpect not \"tx delay\" show injected\n"
                  "inject stop near tx\nexpect \"no faults\" show injected\n"
                  "expect /^\\[\\]$/ show injected json\n"
                  "inject start near drop 0.005\nexpect /\"drop\": 0.005,$/ show injected json\ninject stop near\n")
    rows = json.loads(out[out.index("\n[") + 1:out.index("\n]") + 2])
    assert [(r["port"], r["way"], r["seed"]) for r in rows] == [("near", "rx", 1), ("near", "tx", 9)], rows
    assert rows[0]["drop"] == 0.01 and "delay" not in rows[0] and rows[1]["delay"] == 0.01 and rows[1]["delay_us"] == 100, rows
    assert set(rows[0]) >= {"packets", "dropped", "delayed", "duplicated", "corrupted", "held", "not_done"}, rows


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
                      ("inject start nowhere drop 1", "no port nowhere; there are: p0"),
                      ("inject stop p0", "p0 has no faults"),
                      ("inject stop p0 tx", "p0 has no faults of tx"),
                      ("inject start p0 tx", "which fault?"),
                      ("inject start p0 drop 1 tx", "'tx' was not expected"),
                      ("inject start p0 lose 1", "usage: inject start NAME [rx|tx] OPTIONS"),
                      ("inject start p0 lose 1", "'lose' was not expected; options: drop delay duplicate corrupt by seed"),
                      ("inject start p0", "bad arguments")):
        rc, out, err = alone("-f", script("e.cli", line + "\n"))
        assert rc == 1 and why in err, (line, out, err)


def test_completion():
    with Terminal("") as t:
        assert b"inject start NAME [rx|tx] OPTIONS" in t.until(b"weft> inject start ", b"inject start " + TAB)
        got = t.until(b"weft> inject start p0 ", b"p0 " + TAB)
        assert b"\n duplicate" in got and b"\n seed" in got and b"\n tx" in got, got
        t.until(b"duplicate ", b"tx dup" + TAB)
        t.until(PROMPT, CTRL_C)
        got = t.until(b"weft> inject start p0 drop 1 ", b"inject start p0 drop 1 " + TAB)
        assert b"\n seed" in got and b"\n tx" not in got, got
        t.until(PROMPT, CTRL_C)
        assert b"example: inject start p0 drop 0.01" in t.run(b"help inject start")
        t.quit()


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
