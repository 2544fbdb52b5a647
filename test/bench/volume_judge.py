# SPDX-License-Identifier: BSD-3-Clause
"""Judges the rows of test/bench/volume."""
import statistics


def judge(ratios, disturbed, goal):
    """Judge a row: `ratios` weft / fio of its rounds, `disturbed` whether other programs used the cores, `goal` may be None.

    Returns (verdict, median of the rounds that are trusted or None). Verdicts: "met", "MISSED", "not judged".
    """
    trusted = [r for r, w in zip(ratios, disturbed) if not w]
    if not trusted or goal is None:
        return "not judged", statistics.median(trusted) if trusted else None
    median = statistics.median(trusted)
    return "met" if median >= goal else "MISSED", median


def status(rows):
    """Exit status for {name: {"ratio": ..., "disturbed": ..., "goal": ...}}: 1 if one row has missed its goal."""
    return int(any(judge(r["ratio"], r["disturbed"], r["goal"])[0] == "MISSED" for r in rows.values()))
