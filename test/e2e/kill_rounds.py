# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of kill -9 and their checks, shared by test_kill.py, test_kill_pair.py and test_kill_log.py.

WEFT_TEST_SEED=N repeats the choices of a run (the timing differs). WEFT_KILL_ROUNDS=N sets the number of rounds.
"""
import os
import time

from weft_e2e import end_all

SEED = int(os.environ.get("WEFT_TEST_SEED") or time.time_ns() % 10**6)


def rounds(default):
    """The number of rounds of a test."""
    return int(os.environ.get("WEFT_KILL_ROUNDS") or default)


class Lost(Exception):
    """The medium lacks data that it must hold."""


class Rounds:
    """Programs that are killed repeatedly. A subclass has round(), which raises Lost; said(), a description of the
    events; mechanism, how the target makes its export durable; and end(), the check after the last round."""

    played = 0  # number of rounds

    def go(self, n):
        """Play n rounds. Returns None, or (round, what was lost)."""
        for _ in range(n):
            self.played += 1
            if self.played % 100 == 0:
                print(f"# seed {SEED}: round {self.played}", flush=True)
            try:
                self.round()
            except Lost as e:
                return self.played, str(e)
            except BaseException:
                print(f"# seed {SEED}, round {self.played}", flush=True)
                raise
        self.end()
        return None

    def end(self):
        """After the last round."""

    def survive(self, n):
        """Play n rounds. None may lose data."""
        t0 = time.monotonic()
        lost = self.go(n)
        print(f"# seed {SEED}: {self.mechanism}; {n} rounds in {time.monotonic() - t0:.0f} s: {self.said()}", flush=True)
        assert lost is None, f"seed {SEED}, round {lost[0]}: {lost[1]}"

    def caught(self, within, how="", stuck=False):
        """Play rounds until this wrong stack is detected, and return by what. stuck: a program that makes no progress
        counts, too. Kills all programs."""
        try:
            lost = self.go(within)
        except AssertionError as e:
            if not stuck:
                raise
            lost = self.played, str(e)
        assert lost, f"seed {SEED}: not found out within {within} rounds"
        print(f"# seed {SEED}: without Flush{how}: round {lost[0]}: {lost[1]}", flush=True)
        end_all()
        return lost[1]
