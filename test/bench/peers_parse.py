# SPDX-License-Identifier: BSD-3-Clause
"""What the programs of test/bench/peers print, as figures: latency_us (half a round trip, the mean), mb_s (10^6 octets a second) and
msg_s (messages a second). A function raises Unreadable with the end of an output that it does not know."""
import json
import re
import statistics

QPERF_UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "sec": 1e6, "bytes/sec": 1e-6, "KB/sec": 1e-3, "MB/sec": 1.0, "GB/sec": 1e3}


class Unreadable(Exception):
    pass


def found(pattern, text, program):
    m = re.search(pattern, re.sub(r"\x1b\[[0-9;]*m", "", text), re.M)
    if m is None:
        raise Unreadable(f"{program} printed no figure: {text.strip()[-300:]}")
    return m.groups()


def weft_perf(text):
    """--json. The mean of latency, as of the others, which print no median."""
    try:
        r = json.loads(text)["results"][0]
    except (ValueError, LookupError) as e:
        raise Unreadable(f"weft-perf printed no result: {text[-300:]}") from e
    if r["mode"] == "latency":
        return {"latency_us": r["t_avg_us"]}
    return {"mb_s": r["average_mb_s"], "msg_s": r["mmsg_s"] * 1e6}


def iperf3(text):
    """-J: what the receiver has got."""
    try:
        return {"mb_s": json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8e6}
    except (ValueError, LookupError) as e:
        raise Unreadable(f"iperf3 printed no result: {text[-300:]}") from e


def qperf(text):
    """tcp_lat is one way. Units are powers of ten (qperf --help units)."""
    what, figure, unit = found(r"^ +(latency|bw) += +([\d.,]+) (\S+)$", text, "qperf")
    if unit not in QPERF_UNITS:
        raise Unreadable(f"qperf: the unit {unit} is unknown")
    return {"latency_us" if what == "latency" else "mb_s": float(figure.replace(",", "")) * QPERF_UNITS[unit]}


def ucx_perftest(text, size, latency):
    """The line "Final": the figures over all of the run. MB/s are of 2^20, so the octets are found from the messages."""
    f = found(r"^Final: +\d+ +([\d.]+) +([\d.]+) +([\d.]+) +[\d.]+ +[\d.]+ +\d+ +(\d+)", text, "ucx_perftest")
    return {"latency_us": float(f[2])} if latency else {"msg_s": float(f[3]), "mb_s": float(f[3]) * size / 1e6}


def fi_pingpong(text):
    """usec/xfer is half a round trip."""
    return {"latency_us": float(found(r"^\S+ +\S+ +=?\S+ +\S+ +[\d.]+s +[\d.]+ +([\d.]+) +[\d.]+$", text, "fi_pingpong")[0])}


def sockperf(text, latency):
    """Half a round trip in the mean; or the messages that were sent."""
    if latency:
        return {"latency_us": float(found(r"Summary: Latency is ([\d.]+) usec", text, "sockperf")[0])}
    return {"msg_s": float(found(r"Summary: Message Rate is ([\d.]+) \[msg/sec\]", text, "sockperf")[0])}


def testpmd(text, seconds):
    """The packets that the receiver counts. Of several tables the last has all of them."""
    n = re.findall(r"RX-packets: (\d+)", text)
    if not n or seconds <= 0:
        raise Unreadable(f"testpmd printed no statistics: {text[-300:]}")
    return {"msg_s": max(map(int, n)) / seconds}


def quartiles(values):
    """First quartile, median and third quartile."""
    v = sorted(values)
    if len(v) == 1:
        return v[0], v[0], v[0]
    q = statistics.quantiles(v, n=4, method="inclusive")
    return q[0], statistics.median(v), q[2]


def ratios(ours, theirs, higher_is_better):
    """How many times as good weft is in each round in which both have a figure."""
    pairs = [(a, b) for a, b in zip(ours, theirs) if a and b]
    return [a / b if higher_is_better else b / a for a, b in pairs]
