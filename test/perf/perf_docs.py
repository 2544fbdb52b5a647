# SPDX-License-Identifier: BSD-3-Clause
"""Synthetic documents of weft-perf --json, and the programs' output, for the tests of this folder."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
from weft_e2e import app, path, run  # noqa: E402


def bandwidth(mb_s, size=64, depth=128, **more):
    """One result of a bandwidth test."""
    return {"test": "write", "mode": "bandwidth", "bytes": size, "iterations": 1000, "depth": depth, "seconds": 0.5,
            "peak_mb_s": mb_s, "average_mb_s": mb_s, "mmsg_s": mb_s / size, "cycles_per_message": 3e5 / mb_s,
            "retransmitted_segments": 0, **more}


def latency(us, size=64, **more):
    """One result of a latency test."""
    return {"test": "write", "mode": "latency", "bytes": size, "iterations": 1000, "depth": 1, "seconds": 0.5, "t_min_us": us / 2,
            "t_max_us": us * 9, "t_typical_us": us, "t_avg_us": us * 1.1, "t_stdev_us": 1.0, "t_p99_us": us * 2,
            "t_p999_us": us * 4, "cycles_per_message": us * 1000, "retransmitted_segments": 0, **more}


def write(name, results, **more):
    """Write a document, and return its path."""
    with open(path(name), "w", encoding="utf-8") as f:
        json.dump({"version": "0.1.0", "results": results, **more}, f)
    return path(name)


def weft_perf(*args):
    """Run weft-perf: status, output, messages."""
    return run([app("weft-perf"), *args])
