#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How test/bench/peers reads the outputs of other programs, from outputs that they have printed. test_peers.py BUILD [CASE...]"""
import importlib.machinery
import importlib.util
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
BENCH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench")
sys.path.insert(0, BENCH)
sys.path.insert(0, os.path.join(os.path.dirname(BENCH), "e2e"))
import peers_parse as parse  # noqa: E402
from weft_e2e import main  # noqa: E402

QPERF_LAT = "tcp_lat:\n    latency  =  20.7 us\n"
QPERF_BW = "tcp_bw:\n    bw  =  1.25 GB/sec\n"
SOCKPERF_LAT = ("sockperf: == version #3.7-no.git == \nsockperf: Summary: Latency is 14.627 usec\n"
                "sockperf: \x1b[2;35mTotal 18805 observations\x1b[0m; each percentile contains 188.05 observations\n"
                "sockperf: ---> <MAX> observation = 12354.409\n")
SOCKPERF_TP = ("sockperf: Total of 307185 messages sent in 1.003 sec\n\nsockperf: Summary: Message Rate is 306246 [msg/sec]\n"
               "sockperf: Summary: BandWidth is 18.692 MBps (149.534 Mbps)\nsockperf: Summary: Latency is 30.653 usec\n")
UCX = """+--------------+--------------+------------------------------+---------------------+-----------------------+
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
[thread 0]               673      1.371  1539.444  1539.444       40.60      40.60         650         650
Final:                  2000      1.602  1652.471  1535.882       37.82      40.69         605         651
"""
FABRIC = ("bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n"
          "64      2k      =2k      250k        4.90s      0.05    1226.04       0.00\n")
IPERF = '{"end": {"sum_received": {"seconds": 1.0, "bytes": 1452408832, "bits_per_second": 11530520240.0, "sender": true}}}'
TESTPMD = ("  RX-packets: 100        RX-missed: 0          RX-bytes:  0\n  RX-packets: 300        RX-missed: 0\n"
           "  TX-packets: 900        TX-errors: 0\n")
WEFT = ('{"results": [{"mode": "bandwidth", "average_mb_s": 12.5, "mmsg_s": 0.2}]}',
        '{"results": [{"mode": "latency", "t_avg_us": 3.5, "t_typical_us": 3.0}]}')


def near(a, b):
    return abs(a - b) < 1e-9 * abs(b)


def test_outputs():
    """Each figure in its unit: a latency is half a round trip in us, a bandwidth 10^6 octets a second."""
    for got, want in ((parse.qperf(QPERF_LAT), {"latency_us": 20.7}), (parse.qperf(QPERF_BW), {"mb_s": 1250.0}),
                      (parse.qperf(QPERF_LAT.replace("20.7 us", "1.5 ms")), {"latency_us": 1500.0}),
                      (parse.sockperf(SOCKPERF_LAT, True), {"latency_us": 14.627}),
                      (parse.sockperf(SOCKPERF_TP, False), {"msg_s": 306246.0}),
                      (parse.ucx_perftest(UCX, 65536, True), {"latency_us": 1535.882}),
                      (parse.ucx_perftest(UCX, 65536, False), {"msg_s": 651.0, "mb_s": 651 * 65536 / 1e6}),
                      (parse.fi_pingpong(FABRIC), {"latency_us": 1226.04}), (parse.iperf3(IPERF), {"mb_s": 1441.31503}),
                      (parse.testpmd(TESTPMD, 2.0), {"msg_s": 150.0}), (parse.weft_perf(WEFT[0]), {"mb_s": 12.5, "msg_s": 200000.0}),
                      (parse.weft_perf(WEFT[1]), {"latency_us": 3.5})):
        assert set(got) == set(want) and all(near(got[k], want[k]) for k in want), (got, want)


def test_ucx_agrees_with_itself():
    """The octets found from the messages are those that it prints, in 2^20."""
    assert abs(parse.ucx_perftest(UCX, 65536, False)["mb_s"] / (40.69 * 2 ** 20 / 1e6) - 1) < 0.01


def test_unreadable():
    """An output without a figure is an error with its end, and no figure of 0."""
    for read in (parse.qperf, parse.iperf3, parse.fi_pingpong, parse.weft_perf, lambda t: parse.sockperf(t, True),
                 lambda t: parse.sockperf(t, False), lambda t: parse.ucx_perftest(t, 64, True), lambda t: parse.testpmd(t, 1.0)):
        for text in ("", "failed to connect: Connection refused", "{}", '{"results": []}'):
            try:
                got = read(text)
            except parse.Unreadable as e:
                assert text[-20:] in str(e), (text, e)
            else:
                raise AssertionError((read, text, got))


def test_ratios():
    """Above 1, weft is better: more messages, or less time. A round in which one of them failed has no ratio."""
    assert parse.ratios([4.0, None, 6.0, 8.0], [2.0, 5.0, 0, 2.0], True) == [2.0, 4.0]
    assert parse.ratios([4.0, 2.0], [2.0, 8.0], False) == [0.5, 4.0]
    assert parse.quartiles([3.0, 1.0, 2.0, 5.0, 4.0]) == (2.0, 3.0, 4.0) and parse.quartiles([7.0]) == (7.0, 7.0, 7.0)


def test_table():
    """A row without something to compare with says why; a program that printed nothing has no row."""
    loader = importlib.machinery.SourceFileLoader("peers", os.path.join(BENCH, "peers"))
    peers = importlib.util.module_from_spec(importlib.util.spec_from_loader("peers", loader))
    loader.exec_module(peers)
    rows = [("ours", None, None, {}), ("theirs", "x", None, {"latency_us": "ours"}), ("other", "x", None, {"msg_s": "it is not the same"}),
            ("nothing", "x", None, {"mb_s": "ours"})]
    assert [r[0] for r in peers.chosen([*rows, ("theirs too", "y", None, {})], ["x"])] == ["ours", "theirs", "other", "nothing"]
    assert [r[0] for r in peers.chosen(rows, None)] == ["ours", "theirs", "other", "nothing"]
    lines = peers.table(rows, {"ours": {"latency_us": [1.0, 2.0, 3.0]}, "theirs": {"latency_us": [2.0, None, 12.0]},
                               "other": {"msg_s": [5.0]}, "nothing": {}})
    assert [x["row"] for x in lines] == ["ours", "theirs", "other"], lines
    assert lines[1]["ratio"] == (2.5, 3.0, 3.5) and lines[2]["why"] == "it is not the same" and "ratio" not in lines[2], lines


def test_frames():
    """The rows by the size of a frame come when they are asked for, and one program is compared with several rows of ours."""
    loader = importlib.machinery.SourceFileLoader("peers", os.path.join(BENCH, "peers"))
    peers = importlib.util.module_from_spec(importlib.util.spec_from_loader("peers", loader))
    loader.exec_module(peers)
    rows = [("ours", None, None, {}), ("theirs", "iperf3", None, {"mb_s": "ours"}), ("small MTU 1", None, None, {}),
            ("large MTU 2", None, None, {}), ("loopback", "iperf3", None, {"mb_s": ["small MTU 1", "large MTU 2"]})]
    assert [r[0] for r in peers.chosen(rows, None)] == ["ours", "theirs"]
    assert [r[0] for r in peers.chosen(rows, ["iperf3"])] == ["ours", "theirs"]
    assert [r[0] for r in peers.chosen(rows, ["frames"])] == ["small MTU 1", "large MTU 2", "loopback"]
    lines = peers.table(rows[2:], {"small MTU 1": {"mb_s": [2.0]}, "large MTU 2": {"mb_s": [8.0]}, "loopback": {"mb_s": [4.0]}})
    assert [(x["of"], x["ratio"][1]) for x in lines[2:]] == [("small MTU 1", 0.5), ("large MTU 2", 2.0)], lines


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
