#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test/bench/volume judges its rows, and says so; without a measurement."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
BENCH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench")
sys.path.insert(0, BENCH)
sys.path.insert(0, os.path.join(os.path.dirname(BENCH), "e2e"))
from volume_judge import judge, status  # noqa: E402
from weft_e2e import main  # noqa: E402


def row(ratio, disturbed, goal):
    return {"ratio": ratio, "disturbed": disturbed, "goal": goal}


def test_judged():
    f, t = False, True
    assert judge([0.9, 0.95, 0.7], [f, f, f], 0.9) == ("met", 0.9)
    assert judge([0.89, 0.95, 0.7], [f, f, f], 0.9) == ("MISSED", 0.89)
    # Disturbed rounds count neither for nor against.
    assert judge([0.95, 0.5, 0.4], [f, t, t], 0.9) == ("met", 0.95)
    assert judge([0.95, 0.96, 0.4], [t, t, f], 0.9) == ("MISSED", 0.4)
    assert judge([0.1, 0.1], [t, t], 0.9) == ("not judged", None)
    assert judge([0.1], [f], None) == ("not judged", 0.1)
    assert judge([], [f, f], 0.9) == ("not judged", None)


def test_status():
    good, bad = row([1.0], [False], 0.9), row([0.5], [False], 0.9)
    assert status({"a": good}) == 0 and status({}) == 0
    assert status({"a": good, "b": bad}) == 1 and status({"b": bad, "a": good}) == 1
    assert status({"a": row([0.5], [True], 0.9), "b": row([0.5], [False], None)}) == 0


def test_help():
    r = subprocess.run([sys.executable, os.path.join(BENCH, "volume"), "--help"], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0 and "exit status is 1 when a row has missed its goal" in r.stdout, r


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
