# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of kill -9 and their verdict: what test_kill.py, test_kill_pair.py and test_kill_log.py share.

WEFT_TEST_SEED=N replays the choices of a run (the machine's timing is its own). WEFT_KILL_ROUNDS=N sets how often.
"""
import os
import time

from weft_e2e import end_all

SEED = int(os.environ.get("WEFT_TEST_SEED") or time.time_ns() % 10**6)


def rounds(default):
    """How many rounds a test goes through."""
    return int(os.environ.get("WEFT_KILL_ROUNDS") or default)


class Lost(Exception):
    """The medium does not hold what it must."""


class Rounds:
    """Programs that die again and again. A subclass has round(), which raises Lost; said(), what happened; mechanism, how
    the target makes its export durable; and end(), what is to hold after the last round."""

    played = 0  # rounds

    def go(self, n):
        """Play n rounds; None, or (round, what was lost)."""
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
        """Play n rounds, of which none may lose anything."""
        t0 = time.monotonic()
        lost = self.go(n)
        print(f"# seed {SEED}: {self.mechanism}; {n} rounds in {time.monotonic() - t0:.0f} s: {self.said()}", flush=True)
        assert lost is None, f"seed {SEED}, round {lost[0]}: {lost[1]}"

    def caught(self, within, how="", stuck=False):
        """What this stack, which is wrong, is found out by within so many rounds; stuck: that a program gets nowhere counts
        as well. Ends all programs."""
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
